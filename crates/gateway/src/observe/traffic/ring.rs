//! The figures of the last hour: a point for every second of five minutes, and one for every ten seconds of
//! an hour.

use std::collections::VecDeque;

use model::report::{Figures, TrafficInterval, TrafficPoint};

use super::counts::CLASSES;
use super::times::TimeTotals;

/// Seconds that are kept one by one: what a page shows live.
const SECONDS_MAX: usize = 300;
/// Spans of ten seconds that are kept: an hour.
const TENS_MAX: usize = 360;
/// Seconds that a point of the longer series, and the figures of now, are over.
pub(crate) const TEN: usize = 10;

/// The counts of all workers at one moment, and the usage of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrafficReading {
    /// Milliseconds of the monotonic clock.
    pub(crate) at_ms: u64,
    /// Requests by class of status.
    pub(crate) classes: [u64; CLASSES],
    pub(crate) bytes: u64,
    pub(crate) times: TimeTotals,
    /// Nanoseconds of processor time.
    pub(crate) cpu_ns: u64,
    pub(crate) resident_bytes: u64,
    pub(crate) in_flight: u64,
    pub(crate) connections: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TrafficRing {
    /// The readings of the last ten seconds and of the moment before them, oldest first.
    readings: VecDeque<TrafficReading>,
    /// The number of the newest point; the first is 1.
    seq: u64,
    seconds: VecDeque<TrafficPoint>,
    tens: VecDeque<TrafficPoint>,
    now: Option<TrafficPoint>,
}

impl TrafficRing {
    /// A ring that begins with this reading.
    pub(crate) fn new(first: TrafficReading) -> TrafficRing {
        TrafficRing { readings: VecDeque::from([first]), ..TrafficRing::default() }
    }

    /// Takes the next reading, a second after the one before, at `unix_ms` since 1970.
    pub(crate) fn push(&mut self, reading: TrafficReading, unix_ms: u64) {
        self.seq += 1;
        let seq = self.seq;
        let before = self.readings.back().expect("there is always a reading");
        let second = TrafficPoint { seq, end_ms: unix_ms, figures: figures(before, &reading) };
        keep(&mut self.seconds, second, SECONDS_MAX);
        keep(&mut self.readings, reading, TEN + 1);
        let newest = self.readings.back().expect("pushed above");
        let now =
            TrafficPoint { seq, end_ms: unix_ms, figures: self.gauges(figures(&self.readings[0], newest)) };
        if seq.is_multiple_of(TEN as u64) {
            keep(&mut self.tens, now.clone(), TENS_MAX);
        }
        self.now = Some(now);
    }

    /// The same figures with the means of what is no rate.
    fn gauges(&self, mut figures: Figures) -> Figures {
        // The first reading belongs to the ten seconds before.
        let own = self.readings.iter().skip(1);
        let count = own.len().max(1) as f64;
        let mean = |value: fn(&TrafficReading) -> u64| own.clone().map(value).sum::<u64>() as f64 / count;
        figures.in_flight = mean(|reading| reading.in_flight);
        figures.connections = mean(|reading| reading.connections);
        figures
    }

    /// The figures of the last ten seconds; none in the first second.
    pub(crate) fn now(&self) -> Option<TrafficPoint> {
        self.now.clone()
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.readings.back().map_or(0, |reading| reading.classes.iter().sum())
    }

    /// Requests a second over the last `seconds`, as far as the ring has them.
    pub(crate) fn requests_over(&self, seconds: f64) -> f64 {
        let count = (seconds.round().max(1.0) as usize).min(self.seconds.len());
        let sum: f64 = self.seconds.iter().rev().take(count).map(|point| point.figures.requests()).sum();
        if count == 0 { 0.0 } else { sum / count as f64 }
    }

    /// The points after number `since`, the newest `most` of them, oldest first.
    pub(crate) fn points(&self, step: TrafficInterval, since: u64, most: usize) -> Vec<TrafficPoint> {
        let points = match step {
            TrafficInterval::Second => &self.seconds,
            TrafficInterval::TenSeconds => &self.tens,
        };
        let newer = points.iter().filter(|point| point.seq > since).count();
        points.iter().skip(points.len() - newer.min(most)).cloned().collect()
    }
}

fn keep<T>(list: &mut VecDeque<T>, value: T, most: usize) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(value);
}

/// The figures between two readings.
fn figures(before: &TrafficReading, after: &TrafficReading) -> Figures {
    let seconds = (after.at_ms.saturating_sub(before.at_ms) as f64 / 1_000.0).max(0.001);
    let rate = |after: u64, before: u64| after.saturating_sub(before) as f64 / seconds;
    let class = |class: usize| rate(after.classes[class], before.classes[class]);
    let percentiles = after.times.since(&before.times).percentiles([0.5, 0.9, 0.99]);
    let [p50_us, p90_us, p99_us] = percentiles.map_or([None; 3], |found| found.map(Some));
    Figures {
        other: class(0) + class(1),
        successes: class(2),
        redirections: class(3),
        client_errors: class(4),
        server_errors: class(5),
        p50_us,
        p90_us,
        p99_us,
        bytes: rate(after.bytes, before.bytes),
        cpu: rate(after.cpu_ns, before.cpu_ns) / 1e9,
        resident_bytes: after.resident_bytes,
        in_flight: after.in_flight as f64,
        connections: after.connections as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(second: u64) -> TrafficReading {
        let requests = second * 20;
        TrafficReading {
            at_ms: second * 1_000,
            classes: [0, 0, requests, 0, second, second * 2],
            cpu_ns: second * 500_000_000,
            in_flight: second,
            ..TrafficReading::default()
        }
    }

    #[test]
    fn points_of_both_steps_are_kept() {
        let mut ring = TrafficRing::new(reading(0));
        assert!(ring.now().is_none());
        for second in 1..=25 {
            ring.push(reading(second), 1_000_000 + second * 1_000);
        }
        let now = ring.now().unwrap();
        assert_eq!((now.seq, now.end_ms, now.figures.successes), (25, 1_025_000, 20.0));
        assert_eq!((now.figures.server_errors, now.figures.cpu, now.figures.in_flight), (2.0, 0.5, 20.5));
        assert_eq!(ring.requests(), 25 * 23);
        assert_eq!(ring.requests_over(60.0), 23.0);
        let numbers = |step, since, most| -> Vec<u64> {
            ring.points(step, since, most).iter().map(|point| point.seq).collect()
        };
        assert_eq!(numbers(TrafficInterval::TenSeconds, 0, 360), [10, 20]);
        assert_eq!(numbers(TrafficInterval::TenSeconds, 10, 360), [20]);
        assert_eq!(numbers(TrafficInterval::TenSeconds, 25, 360), [0; 0]);
        assert_eq!(numbers(TrafficInterval::Second, 22, 300), [23, 24, 25]);
        assert_eq!(numbers(TrafficInterval::Second, 0, 2), [24, 25]);
    }

    #[test]
    fn memory_of_the_ring_is_bounded() {
        let mut ring = TrafficRing::new(reading(0));
        for second in 1..=4_000 {
            ring.push(reading(second), second * 1_000);
        }
        assert_eq!((ring.seconds.len(), ring.tens.len(), ring.readings.len()), (300, 360, 11));
        assert_eq!(ring.points(TrafficInterval::TenSeconds, 0, 360)[0].seq, 410);
    }
}

//! The requests that an endpoint received, by time, and the question when a gateway's traffic left an
//! endpoint and returned. It switches no condition and sends nothing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Requests of one endpoint in steps of [`STEP`].
#[derive(Debug)]
pub(super) struct Arrivals {
    began: Instant,
    steps: Box<[AtomicU32]>,
}

impl Arrivals {
    /// Records `length` from `began` on; later requests are added to the last step.
    pub(super) fn new(began: Instant, length: Duration) -> Arrivals {
        let count = length.as_nanos() / STEP.as_nanos() + 1;
        Arrivals { began, steps: (0..count).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Counts a request that came at this time.
    pub(super) fn count(&self, at: Instant) {
        let last = self.steps.len() - 1;
        self.steps[self.step(at).min(last)].fetch_add(1, Ordering::Relaxed);
    }

    /// All requests.
    #[cfg(test)]
    pub(super) fn all(&self) -> u64 {
        self.steps.iter().map(|step| u64::from(step.load(Ordering::Relaxed))).sum()
    }

    /// The requests of each [`WINDOW`] from `from` until `until`; an incomplete window at the end is left
    /// out.
    pub(super) fn windows(&self, from: Instant, until: Instant) -> Vec<u64> {
        let begin = self.step(from).min(self.steps.len());
        let end = self.step(until).clamp(begin, self.steps.len());
        let windows = self.steps[begin..end].chunks_exact(STEPS_OF_A_WINDOW);
        windows.map(|steps| steps.iter().map(|step| u64::from(step.load(Ordering::Relaxed))).sum()).collect()
    }

    fn step(&self, at: Instant) -> usize {
        (at.saturating_duration_since(self.began).as_nanos() / STEP.as_nanos()) as usize
    }
}

/// The traffic of one endpoint among several, in windows of [`WINDOW`].
#[derive(Clone, Debug, Default)]
pub(super) struct TrafficShare {
    /// The number of endpoints that share the traffic.
    pub(super) endpoints: usize,
    /// Requests to the endpoint.
    pub(super) faulty: Vec<u64>,
    /// Requests to all endpoints, this one included; as many windows as `faulty`.
    pub(super) all: Vec<u64>,
}

impl TrafficShare {
    /// Seconds until the traffic was off the endpoint: until the end of the last window in which it got more
    /// than [`OFF_SHARE`] of its even share. `None` if that was within the last second, so that it was never
    /// off.
    pub(super) fn off_after_s(&self) -> Option<f64> {
        let last = self.find(|share| share > OFF_SHARE).last().copied();
        let is_never = last.is_some_and(|index| index + TAIL_WINDOWS >= self.all.len());
        (!is_never).then(|| last.map_or(0.0, end_s))
    }

    /// Seconds until the endpoint got [`BACK_SHARE`] of its even share again: until the end of the first such
    /// window. `None` if there was none.
    pub(super) fn back_after_s(&self) -> Option<f64> {
        self.find(|share| share >= BACK_SHARE).first().copied().map(end_s)
    }

    /// Requests to the endpoint after the first second.
    pub(super) fn late_requests(&self) -> u64 {
        self.faulty.iter().skip(TAIL_WINDOWS).sum()
    }

    /// The windows with traffic in which the endpoint's part of its even share is such.
    fn find(&self, holds: impl Fn(f64) -> bool) -> Vec<usize> {
        let holds = |index: &usize| {
            let (faulty, all) = (self.faulty[*index], self.all[*index]);
            all > 0 && holds(faulty as f64 * self.endpoints as f64 / all as f64)
        };
        (0..self.all.len()).filter(holds).collect()
    }
}

fn end_s(index: usize) -> f64 {
    ((index + 1) * WINDOW.as_millis() as usize) as f64 / 1000.0
}

/// Precision with which requests are recorded.
const STEP: Duration = Duration::from_millis(10);
const STEPS_OF_A_WINDOW: usize = 10;
/// Precision with which traffic is judged.
pub(super) const WINDOW: Duration = Duration::from_millis(100);
/// Traffic above this part of the even share counts as traffic; less may be trials whether the endpoint is
/// back.
const OFF_SHARE: f64 = 0.1;
/// An endpoint is back with this part of its even share.
const BACK_SHARE: f64 = 0.5;
/// A second in windows: traffic in the last second of a fault was never off; requests after the first are
/// late.
const TAIL_WINDOWS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_by_time() {
        let began = Instant::now();
        let arrivals = Arrivals::new(began, Duration::from_millis(500));
        let at = |ms: u64| began + Duration::from_millis(ms);
        for ms in [0, 99, 100, 101, 399, 450, 9000] {
            arrivals.count(at(ms));
        }
        assert_eq!(arrivals.all(), 7);
        assert_eq!(arrivals.windows(at(0), at(400)), [2, 2, 0, 1]);
        assert_eq!(arrivals.windows(at(0), at(450)), [2, 2, 0, 1], "an incomplete window is left out");
        assert_eq!(arrivals.windows(at(90), at(290)), [3, 0]);
        assert_eq!(arrivals.windows(at(9000), at(9900)), [0_u64; 0], "nothing is recorded there");
    }

    /// A share of three endpoints with a hundred requests in each window.
    fn share(faulty: &[(usize, u64)]) -> TrafficShare {
        let faulty: Vec<u64> = faulty.iter().flat_map(|(times, count)| vec![*count; *times]).collect();
        TrafficShare { endpoints: 3, all: vec![100; faulty.len()], faulty }
    }

    #[test]
    fn traffic_is_off_after_its_last_window() {
        for (faulty, off_s, late) in [
            (&[(30, 0)][..], Some(0.0), 0),
            (&[(2, 33), (28, 0)], Some(0.2), 0),
            // Trials of at most a tenth of the even share are no traffic, but late requests.
            (&[(2, 33), (10, 0), (18, 3)], Some(0.2), 54),
            (&[(2, 33), (10, 0), (1, 4), (17, 0)], Some(1.3), 4),
            (&[(30, 33)], None, 660),
            (&[(20, 0), (1, 33), (9, 0)], None, 33),
            (&[(19, 0), (1, 33), (10, 0)], Some(2.0), 33),
        ] {
            let share = share(faulty);
            assert_eq!((share.off_after_s(), share.late_requests()), (off_s, late), "{faulty:?}");
        }
    }

    #[test]
    fn endpoint_is_back_with_half_of_its_share() {
        for (faulty, back_s) in
            [(&[(5, 33)][..], Some(0.1)), (&[(10, 0), (5, 16), (5, 17)], Some(1.6)), (&[(20, 5)], None)]
        {
            assert_eq!(share(faulty).back_after_s(), back_s, "{faulty:?}");
        }
        let still = TrafficShare { endpoints: 3, faulty: vec![0; 5], all: vec![0; 5] };
        assert_eq!((still.off_after_s(), still.back_after_s()), (Some(0.0), None));
    }
}

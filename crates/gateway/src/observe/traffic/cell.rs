//! The counters of one route, consumer or endpoint in one worker: one cache line, written by that worker
//! alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use exchange::failure::Cause;
use exchange::observe::histogram::bump;

use super::times::TimeCounts;

/// The name that counters have in reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CounterLabel {
    /// The identifier of the route, the name of the consumer, or the address of the endpoint.
    pub(crate) id: Arc<str>,
    /// The upstream of an endpoint (`/upstreams/1`); none for others.
    pub(crate) upstream: Option<Arc<str>>,
}

/// One request or attempt, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The status; 0 without a response.
    pub(crate) status: u16,
    /// Its duration in microseconds.
    pub(crate) us: u64,
    /// Bytes of the response.
    pub(crate) bytes: u64,
    /// The failure of an attempt, and its time in milliseconds since 1970.
    pub(crate) failure: Option<(Cause, u64)>,
}

/// The counters and their name.
#[derive(Debug)]
pub(crate) struct TrafficCell {
    line: TrafficCounterLine,
    pub(crate) label: CounterLabel,
    /// The requests at the last call of [`TrafficCell::was_used`].
    marked: AtomicU64,
}

/// The part that every request writes.
#[derive(Debug, Default)]
#[repr(align(64))]
struct TrafficCounterLine {
    requests: AtomicU64,
    client_errors: AtomicU64,
    server_errors: AtomicU64,
    time_us: AtomicU64,
    bytes: AtomicU64,
    /// The last failure, see [`packed`]; 0 without one.
    last_failure: AtomicU64,
    /// The durations, while a reader asks for percentiles.
    times: OnceLock<Box<TimeCounts>>,
}

impl TrafficCell {
    /// Counters at zero.
    pub(crate) fn new(label: CounterLabel) -> TrafficCell {
        TrafficCell { line: TrafficCounterLine::default(), label, marked: AtomicU64::new(0) }
    }

    /// Counters at the same values, without durations.
    pub(crate) fn without_times(&self) -> TrafficCell {
        let sums = self.sums();
        let line = TrafficCounterLine {
            requests: sums.requests.into(),
            client_errors: sums.client_errors.into(),
            server_errors: sums.server_errors.into(),
            time_us: sums.time_us.into(),
            bytes: sums.bytes.into(),
            last_failure: self.line.last_failure.load(Ordering::Relaxed).into(),
            times: OnceLock::new(),
        };
        TrafficCell { line, label: self.label.clone(), marked: self.marked.load(Ordering::Relaxed).into() }
    }

    /// Counts. Only the thread of the worker may call this.
    #[inline]
    pub(crate) fn record(&self, sample: Sample) {
        let line = &self.line;
        bump(&line.requests, 1);
        match sample.status {
            400..=499 => bump(&line.client_errors, 1),
            500..=599 => bump(&line.server_errors, 1),
            _ => {}
        }
        bump(&line.time_us, sample.us);
        bump(&line.bytes, sample.bytes);
        if let Some((cause, at_ms)) = sample.failure {
            line.last_failure.store(packed(cause, at_ms), Ordering::Relaxed);
        }
        if let Some(times) = line.times.get() {
            times.record(sample.us);
        }
    }

    /// Whether there was a request since the last call.
    pub(crate) fn was_used(&self) -> bool {
        let requests = self.line.requests.load(Ordering::Relaxed);
        self.marked.swap(requests, Ordering::Relaxed) != requests
    }

    /// Whether durations are counted.
    pub(crate) fn has_times(&self) -> bool {
        self.line.times.get().is_some()
    }

    /// Counts durations from now on.
    pub(crate) fn begin_times(&self) {
        // It is set already where this is called twice.
        let _ = self.line.times.set(Box::default());
    }

    /// The durations, where they are counted.
    pub(crate) fn times(&self) -> Option<&TimeCounts> {
        self.line.times.get().map(|times| &**times)
    }

    /// The counters now; those of a request that ends meanwhile may be half counted.
    pub(crate) fn sums(&self) -> Sums {
        let line = &self.line;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Sums {
            requests: read(&line.requests),
            client_errors: read(&line.client_errors),
            server_errors: read(&line.server_errors),
            time_us: read(&line.time_us),
            bytes: read(&line.bytes),
        }
    }

    /// The cause of the last failure and its time in milliseconds since 1970.
    pub(crate) fn last_failure(&self) -> Option<(Cause, u64)> {
        unpacked(self.line.last_failure.load(Ordering::Relaxed))
    }
}

/// Bits of a packed failure that are its time: enough until the year 10889.
const TIME_BITS: u32 = 48;

/// A cause and a time in one number, which is never 0.
fn packed(cause: Cause, at_ms: u64) -> u64 {
    (cause as u64 + 1) << TIME_BITS | at_ms & ((1 << TIME_BITS) - 1)
}

fn unpacked(packed: u64) -> Option<(Cause, u64)> {
    let number = usize::try_from(packed >> TIME_BITS).ok()?.checked_sub(1)?;
    Some((*Cause::ALL.get(number)?, packed & ((1 << TIME_BITS) - 1)))
}

/// Counters of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    pub(crate) client_errors: u64,
    pub(crate) server_errors: u64,
    pub(crate) time_us: u64,
    pub(crate) bytes: u64,
}

impl Sums {
    /// Adds the counters of another worker.
    pub(crate) fn add(&mut self, other: Sums) {
        self.requests += other.requests;
        self.client_errors += other.client_errors;
        self.server_errors += other.server_errors;
        self.time_us += other.time_us;
        self.bytes += other.bytes;
    }

    /// The growth since `earlier`; 0 for a counter that was given up and begun anew.
    pub(crate) fn since(self, earlier: Sums) -> Sums {
        Sums {
            requests: self.requests.saturating_sub(earlier.requests),
            client_errors: self.client_errors.saturating_sub(earlier.client_errors),
            server_errors: self.server_errors.saturating_sub(earlier.server_errors),
            time_us: self.time_us.saturating_sub(earlier.time_us),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_fit_one_cache_line() {
        assert_eq!((size_of::<TrafficCounterLine>(), align_of::<TrafficCounterLine>()), (64, 64));
    }

    #[test]
    fn samples_are_counted_by_status() {
        let cell = TrafficCell::new(CounterLabel { id: "a".into(), upstream: None });
        for status in [200, 404, 499, 502, 0] {
            let failure = (status == 502).then_some((Cause::ConnectFailed, 1_700_000_000_123));
            cell.record(Sample { status, us: 10, bytes: 5, failure });
        }
        let expected = Sums { requests: 5, client_errors: 2, server_errors: 1, time_us: 50, bytes: 25 };
        assert_eq!(cell.sums(), expected);
        assert_eq!(cell.last_failure(), Some((Cause::ConnectFailed, 1_700_000_000_123)));
        cell.begin_times();
        assert!(cell.has_times());
        let copy = cell.without_times();
        assert!(!copy.has_times());
        assert_eq!((copy.sums(), copy.last_failure()), (expected, cell.last_failure()));
    }

    #[test]
    fn causes_survive_packing() {
        assert_eq!(unpacked(0), None);
        for cause in Cause::ALL {
            assert_eq!(unpacked(packed(*cause, 7)), Some((*cause, 7)));
        }
        assert_eq!(unpacked(u64::MAX), None);
    }
}

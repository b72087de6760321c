//! The newest sampled trace in each bucket of a histogram: it leads from a slow bucket to a request that was
//! as slow. It knows no labels. A request without a sampled trace costs one test.

use parking_lot::Mutex;

use super::histogram::{BUCKETS, bucket_index};
use crate::exchange::{Exchange, TraceContext};

/// A request with a trace that is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar {
    /// Its trace and the gateway's span in it.
    pub trace: TraceContext,
    /// The sample, in microseconds.
    pub us: u64,
    /// When the request began, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
}

/// The exemplars of one histogram, by bucket.
pub type ByBucket = [Option<Exemplar>; BUCKETS];

/// The exemplars of one histogram of one worker; nothing is allocated before the first.
#[derive(Debug, Default)]
pub struct Exemplars(Mutex<Option<Box<ByBucket>>>);

impl Exemplars {
    /// Keeps an exchange of so many microseconds, if its trace is sampled.
    #[inline]
    pub fn note(&self, exchange: &Exchange, us: u64) {
        if let Some(trace) = exchange.traces.sampled() {
            self.keep(exchange, *trace, us);
        }
    }

    #[cold]
    fn keep(&self, exchange: &Exchange, trace: TraceContext, us: u64) {
        let (seconds, nanoseconds) = exchange.local().wall_at(exchange.times.started_ns);
        let unix_ms = seconds * 1_000 + u64::from(nanoseconds) / 1_000_000;
        // The lock is held by a scrape for the copy of one array at most.
        let mut kept = self.0.lock();
        kept.get_or_insert_default()[bucket_index(us)] = Some(Exemplar { trace, us, unix_ms });
    }

    /// Puts those of this worker into `newest`, where they are newer.
    pub fn add_to(&self, newest: &mut ByBucket) {
        let kept = self.0.lock();
        for (newest, own) in newest.iter_mut().zip(kept.iter().flat_map(|kept| kept.iter())) {
            if own.map(|own| own.unix_ms) > newest.map(|newest| newest.unix_ms) {
                *newest = *own;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    #[test]
    fn newest_sampled_trace_of_each_bucket_is_kept() {
        let mut scene = Scene::new();
        let (one, other) = (Exemplars::default(), Exemplars::default());
        let mut note = |to: &Exemplars, id: u8, is_sampled: bool, started_ns: u64, us: u64| {
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let trace = TraceContext { trace_id: [id; 16], span_id: [id; 8], is_sampled, is_short: false };
            exchange.traces.opentelemetry = Some(trace);
            exchange.times.started_ns = started_ns;
            to.note(&exchange, us);
        };
        note(&one, 1, true, 5_000_000, 900);
        note(&one, 2, true, 9_000_000, 1_000);
        note(&one, 3, false, 99_000_000, 700);
        note(&other, 4, true, 7_000_000, 800);
        note(&other, 5, true, 7_000_000, 70_000_000);
        let mut newest: ByBucket = Default::default();
        other.add_to(&mut newest);
        one.add_to(&mut newest);
        let ids = newest.map(|one| one.map(|one| (one.trace.trace_id[0], one.us)));
        assert_eq!((ids[0], ids[1], ids[BUCKETS - 1]), (Some((2, 1_000)), None, Some((5, 70_000_000))));
    }
}

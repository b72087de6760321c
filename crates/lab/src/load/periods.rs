//! Counters of an open loop by the period in which a request was due, so that a wait counts where it began.
//! It reads no clock; times are nanoseconds since the run began.

use std::time::Duration;

use super::expect::ComparisonResult;
use super::tally::{FailureKind, compute_latency, histogram};
use crate::result::{Failures, PeriodOutcome};
use hdrhistogram::Histogram;

/// The periods of one run, one after another from its beginning.
#[derive(Debug)]
pub(super) struct Periods {
    periods: Vec<Period>,
}

#[derive(Debug)]
struct Period {
    begin_ns: u64,
    end_ns: u64,
    requests: u64,
    failures: Failures,
    /// From when a request was due until its response was complete or the client gave it up.
    latency: Histogram<u64>,
}

impl Periods {
    /// Periods that end at these times, which ascend. Requests due after the last end count in the last
    /// period.
    pub(super) fn new(ends: &[Duration]) -> Periods {
        let mut begin_ns = 0;
        let period = |end: &Duration| {
            let end_ns = end.as_nanos() as u64;
            let period =
                Period { begin_ns, end_ns, requests: 0, failures: Failures::default(), latency: histogram() };
            begin_ns = end_ns;
            period
        };
        Periods { periods: ends.iter().map(period).collect() }
    }

    /// Counts a complete response.
    pub(super) fn answer(&mut self, due_ns: u64, took_ns: u64, verdict: &ComparisonResult) {
        let kind = match verdict {
            ComparisonResult::Good | ComparisonResult::Failing => None,
            ComparisonResult::Status(_) => Some(FailureKind::Status),
            ComparisonResult::Length { .. } | ComparisonResult::Bytes => Some(FailureKind::Content),
        };
        self.count(due_ns, took_ns, kind);
    }

    /// Counts a request without a complete response, which the client gave up at `now_ns`.
    pub(super) fn lose(&mut self, due_ns: u64, now_ns: u64, kind: FailureKind) {
        self.count(due_ns, now_ns.saturating_sub(due_ns), Some(kind));
    }

    /// Adds the periods of another thread, which have the same ends.
    pub(super) fn add(&mut self, other: &Periods) {
        for (sum, added) in self.periods.iter_mut().zip(&other.periods) {
            sum.requests += added.requests;
            sum.failures.add(added.failures);
            sum.latency.add(&added.latency).expect("all have the same bounds");
        }
    }

    /// The outcome of each period.
    pub(super) fn outcome(&self) -> Vec<PeriodOutcome> {
        let outcome = |period: &Period| PeriodOutcome {
            seconds: (period.end_ns - period.begin_ns) as f64 / 1e9,
            requests: period.requests,
            failures: period.failures,
            latency: compute_latency(&period.latency, true),
        };
        self.periods.iter().map(outcome).collect()
    }

    fn count(&mut self, due_ns: u64, took_ns: u64, kind: Option<FailureKind>) {
        let last = self.periods.len().saturating_sub(1);
        let index = self.periods.iter().position(|period| due_ns < period.end_ns).unwrap_or(last);
        let Some(period) = self.periods.get_mut(index) else { return };
        period.requests += 1;
        period.latency.saturating_record(took_ns);
        if let Some(kind) = kind {
            *kind.of(&mut period.failures) += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn periods() -> Periods {
        Periods::new(&[Duration::from_millis(100), Duration::from_millis(300)])
    }

    #[test]
    fn request_counts_in_the_period_it_was_due() {
        let mut periods = periods();
        // Due before the end of the first period, answered in the second.
        periods.answer(99 * MS, 150 * MS, &ComparisonResult::Good);
        periods.answer(100 * MS, 2 * MS, &ComparisonResult::Status(502));
        periods.lose(299 * MS, 2299 * MS, FailureKind::Timeout);
        periods.lose(400 * MS, 401 * MS, FailureKind::Broken);
        let [first, second] = &periods.outcome()[..] else { panic!("two periods") };
        assert_eq!((first.seconds, first.requests, first.failures.all()), (0.1, 1, 0));
        assert_eq!((second.seconds, second.requests), (0.2, 3));
        let failures = second.failures;
        assert_eq!((failures.status, failures.timeout, failures.broken, failures.all()), (1, 1, 1, 3));
        assert!(first.latency.max_ms.unwrap() > 149.0, "{:?}", first.latency);
        assert!(second.latency.max_ms.unwrap() > 1990.0, "a given up request counts as long as it waited");
    }

    #[test]
    fn threads_are_summed() {
        let (mut one, mut two) = (periods(), periods());
        one.answer(0, MS, &ComparisonResult::Good);
        two.answer(1, 3 * MS, &ComparisonResult::Bytes);
        two.lose(200 * MS, 201 * MS, FailureKind::Connect);
        one.add(&two);
        let outcome = one.outcome();
        assert_eq!((outcome[0].requests, outcome[0].failures.content), (2, 1));
        assert_eq!((outcome[1].requests, outcome[1].failures.connect), (1, 1));
        assert!(outcome[0].latency.max_ms.unwrap() > 2.9);
    }
}

//! Counters of a run, one tally per thread, and the outcome of all. It reads no clock.

use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::expect::{ComparisonResult, allowed_failing};
use super::periods::Periods;
use crate::result::{Failures, Handshakes, Latency, LoadOutcome};

/// Counters of one thread.
#[derive(Debug)]
pub(super) struct Tally {
    requests: u64,
    bytes: u64,
    failures: Failures,
    failing: u64,
    latency: Histogram<u64>,
    /// Responses in each step of the series.
    steps: Vec<u64>,
    /// When the last response was complete, in nanoseconds since the beginning.
    last_ns: u64,
    unsent: u64,
    handshakes: Handshakes,
    notes: Notes,
    /// Counters by period, if the run has periods.
    periods: Option<Periods>,
}

/// The text of the first failure of each kind.
#[derive(Clone, Debug, Default)]
struct Notes([Option<String>; 5]);

/// Kinds of failures, as [`Failures`] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    Connect,
    Broken,
    Timeout,
    Status,
    Content,
}

impl FailureKind {
    /// The counter of this kind.
    pub(super) fn of(self, failures: &mut Failures) -> &mut u64 {
        match self {
            FailureKind::Connect => &mut failures.connect,
            FailureKind::Broken => &mut failures.broken,
            FailureKind::Timeout => &mut failures.timeout,
            FailureKind::Status => &mut failures.status,
            FailureKind::Content => &mut failures.content,
        }
    }
}

/// An empty histogram of latencies in nanoseconds.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LEAST_NS, GREATEST_NS, DIGITS)
        .expect("the bounds are constants that a histogram can have")
}

/// The figures of a histogram.
pub(super) fn compute_latency(latency: &Histogram<u64>, from_due_time: bool) -> Latency {
    let at = |quantile| (!latency.is_empty()).then(|| latency.value_at_quantile(quantile) as f64 / 1e6);
    Latency {
        from_due_time,
        mean_ms: (!latency.is_empty()).then(|| latency.mean() / 1e6),
        p50_ms: at(0.5),
        p75_ms: at(0.75),
        p90_ms: at(0.9),
        p99_ms: at(0.99),
        p99_9_ms: at(0.999),
        max_ms: (!latency.is_empty()).then(|| latency.max() as f64 / 1e6),
    }
}

impl Tally {
    /// A tally for a run of about `seconds`; it may last longer.
    pub(super) fn new(seconds: f64) -> Tally {
        let steps =
            (seconds.clamp(0.0, LONGEST_PREPARED_SECONDS) * 1000.0 / SERIES_INTERVAL_MS as f64) as usize;
        Tally {
            requests: 0,
            bytes: 0,
            failures: Failures::default(),
            failing: 0,
            latency: histogram(),
            steps: Vec::with_capacity(steps + 16),
            last_ns: 0,
            unsent: 0,
            handshakes: Handshakes::default(),
            notes: Notes::default(),
            periods: None,
        }
    }

    /// The same tally, which also counts by period.
    pub(super) fn with(self, periods: Option<Periods>) -> Tally {
        Tally { periods, ..self }
    }

    /// The counters by period.
    pub(super) fn periods(&self) -> Option<&Periods> {
        self.periods.as_ref()
    }

    /// Counts a complete response: its time, its latency, and its verdict.
    pub(super) fn answer(&mut self, now_ns: u64, took_ns: u64, verdict: &ComparisonResult) {
        self.requests += 1;
        self.last_ns = now_ns;
        self.latency.saturating_record(took_ns);
        let step = (now_ns / (SERIES_INTERVAL_MS * 1_000_000)) as usize;
        if step >= self.steps.len() {
            self.steps.resize(step + 1, 0);
        }
        self.steps[step] += 1;
        if let Some(periods) = &mut self.periods {
            periods.answer(now_ns.saturating_sub(took_ns), took_ns, verdict);
        }
        match verdict {
            ComparisonResult::Good => {}
            ComparisonResult::Failing => self.failing += 1,
            ComparisonResult::Status(status) => {
                self.fail(FailureKind::Status, || format!("an answer had status {status}"))
            }
            ComparisonResult::Length { wanted, had } => {
                self.fail(FailureKind::Content, || {
                    format!("an answer's body had {had} bytes instead of {wanted}")
                });
            }
            ComparisonResult::Bytes => {
                self.fail(FailureKind::Content, || {
                    "an answer's body had other bytes of the right length".to_owned()
                });
            }
        }
    }

    /// Counts a failure; the text is kept for the first of its kind.
    pub(super) fn fail(&mut self, kind: FailureKind, words: impl FnOnce() -> String) {
        *kind.of(&mut self.failures) += 1;
        self.notes.0[kind as usize].get_or_insert_with(words);
    }

    /// Counts a request without a complete response in its period; the failure itself is counted apart.
    pub(super) fn lose(&mut self, kind: FailureKind, due_ns: u64, now_ns: u64) {
        if let Some(periods) = &mut self.periods {
            periods.lose(due_ns, now_ns, kind);
        }
    }

    /// Counts bytes that were read.
    pub(super) fn read(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Counts a handshake of TLS.
    pub(super) fn handshake(&mut self, is_resumed: bool) {
        let handshakes = &mut self.handshakes;
        *if is_resumed { &mut handshakes.resumed } else { &mut handshakes.full } += 1;
    }

    /// Counts requests that were due and never sent.
    pub(super) fn leave(&mut self, unsent: u64) {
        self.unsent += unsent;
    }

    /// Answers so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// Adds the tally of another thread.
    pub(super) fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.failing += other.failing;
        self.unsent += other.unsent;
        self.handshakes.full += other.handshakes.full;
        self.handshakes.resumed += other.handshakes.resumed;
        self.last_ns = self.last_ns.max(other.last_ns);
        let (sum, added) = (&mut self.failures, &other.failures);
        sum.connect += added.connect;
        sum.broken += added.broken;
        sum.timeout += added.timeout;
        sum.status += added.status;
        sum.content += added.content;
        self.latency.add(&other.latency).expect("all have the same bounds");
        match (&mut self.periods, &other.periods) {
            (Some(sum), Some(added)) => sum.add(added),
            (sum, _) => debug_assert!(sum.is_none(), "threads of one run have the same periods"),
        }
        if self.steps.len() < other.steps.len() {
            self.steps.resize(other.steps.len(), 0);
        }
        for (sum, added) in self.steps.iter_mut().zip(&other.steps) {
            *sum += added;
        }
        for (first, other) in self.notes.0.iter_mut().zip(&other.notes.0) {
            if first.is_none() {
                first.clone_from(other);
            }
        }
    }

    /// The outcome of the run. `asked` is how long requests were sent; later responses make the run longer.
    /// 500s beyond the allowed number become failures here.
    pub(super) fn outcome(mut self, run: &RunFacts) -> LoadOutcome {
        let allowed = allowed_failing(self.requests, run.failing_one_in);
        for _ in allowed..self.failing {
            self.fail(FailureKind::Status, || {
                format!("more than one 500 in {}: {allowed} of these answers may be one", run.failing_one_in)
            });
        }
        let seconds = run.asked.as_secs_f64().max(self.last_ns as f64 / 1e9);
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        // The last step is dropped if it is incomplete, because it would look like a loss of speed.
        let whole_steps = (seconds * 1000.0 / SERIES_INTERVAL_MS as f64) as usize;
        self.steps.resize(whole_steps, 0);
        let scale = 1000.0 / SERIES_INTERVAL_MS as f64;
        LoadOutcome {
            seconds,
            requests: self.requests,
            failures: self.failures,
            requests_per_second: per_second(self.requests),
            bytes_per_second: per_second(self.bytes),
            latency: compute_latency(&self.latency, run.from_due_time),
            requests_per_second_series: self.steps.iter().map(|count| *count as f64 * scale).collect(),
            series_interval_ms: SERIES_INTERVAL_MS,
            unsent: self.unsent,
            handshakes: (self.handshakes != Handshakes::default()).then_some(self.handshakes),
            cpu_us_per_request: match self.requests {
                0 => 0.0,
                requests => run.cpu.as_secs_f64() * 1e6 / requests as f64,
            },
            notes: self.notes.0.into_iter().flatten().collect(),
        }
    }
}

/// The facts of a run that the tally does not count.
#[derive(Debug)]
pub(super) struct RunFacts {
    /// How long requests were sent.
    pub(super) asked: Duration,
    /// CPU time of the load generator.
    pub(super) cpu: Duration,
    pub(super) from_due_time: bool,
    pub(super) failing_one_in: u32,
}

/// The outcome of a run as text for the user.
pub fn summary(outcome: &LoadOutcome) -> String {
    let mut text = String::new();
    let (latency, failures) = (&outcome.latency, &outcome.failures);
    let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} answers in {:.2} s: {:.1} a second, {:.3} MB/s",
        outcome.requests,
        outcome.seconds,
        outcome.requests_per_second,
        outcome.bytes_per_second / 1e6
    );
    let from = if latency.from_due_time { "from when it was due" } else { "from when it was sent" };
    let _ = writeln!(
        text,
        "latency in ms, {from}: mean {}, 50 % {}, 75 % {}, 90 % {}, 99 % {}, 99.9 % {}, longest {}",
        ms(latency.mean_ms),
        ms(latency.p50_ms),
        ms(latency.p75_ms),
        ms(latency.p90_ms),
        ms(latency.p99_ms),
        ms(latency.p99_9_ms),
        ms(latency.max_ms)
    );
    let _ = writeln!(text, "CPU of this load generator: {:.2} µs an answer", outcome.cpu_us_per_request);
    if outcome.unsent > 0 {
        let _ = writeln!(text, "{} requests were due and not sent", outcome.unsent);
    }
    if let Some(Handshakes { full, resumed }) = outcome.handshakes {
        let _ = writeln!(text, "TLS handshakes: {full} full, {resumed} resumed");
    }
    if failures.all() == 0 {
        let _ = writeln!(text, "no failures");
    } else {
        let _ = writeln!(
            text,
            "failures: {} connecting, {} broken, {} timeouts, {} of status, {} of content",
            failures.connect, failures.broken, failures.timeout, failures.status, failures.content
        );
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Length of a step of the series.
pub(super) const SERIES_INTERVAL_MS: u64 = 250;
/// Latencies between these two are kept with three digits; a slower one counts as the greatest.
const LEAST_NS: u64 = 1000;
const GREATEST_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;
/// The series of a longer run grows during the run.
const LONGEST_PREPARED_SECONDS: f64 = 3600.0;

#[cfg(test)]
mod tests;

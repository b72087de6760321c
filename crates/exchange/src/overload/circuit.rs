//! A circuit: after too many failures it opens for a time that doubles with each opening in a row, then lets
//! a limited number of probes through, and closes when they succeed. Knows no request and no clock. While it
//! is closed or open it takes no lock, only when it changes or gives a probe out.

mod rules;

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::window::SlidingWindow;
pub use rules::{CircuitOpenReason, CircuitRules, FailureRate};

/// The jitter takes at most this share, in percent, off the time for which a circuit is open, so that nodes
/// that failed together are not probed together.
const JITTER_PERCENT: u64 = 10;

/// The answer of a circuit to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is closed: the request passes.
    Closed,
    /// The request passes as a probe.
    Probe(CircuitProbe),
    /// It is open, or all probes are out.
    Refused,
}

/// A probe of one opening. Its result is passed to [`Circuit::note`] once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitProbe {
    opening: NonZeroU64,
}

/// The evidence that an ended request gives of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitEvidence {
    /// It works.
    Success,
    /// It does not.
    Failure,
    /// Nothing: the client went away, or the gateway is at fault.
    Unknown,
}

/// A change that a result asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitEvent {
    /// A condition is met; the caller decides whether to [`Circuit::open`].
    MayOpen(CircuitOpenReason),
    /// All probes succeeded: the circuit is closed.
    Closed,
}

/// An opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitOpening {
    /// For how long it lasts, in milliseconds.
    pub for_ms: u64,
    /// Which one in a row it is, from 1.
    pub in_a_row: u32,
}

/// The phase of a circuit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CircuitPhase {
    /// Requests pass.
    #[default]
    Closed,
    /// Requests are refused.
    Open,
    /// Probes pass.
    HalfOpen,
}

impl CircuitPhase {
    /// The word in reports and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            CircuitPhase::Closed => "closed",
            CircuitPhase::Open => "open",
            CircuitPhase::HalfOpen => "half_open",
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Circuit {
    /// 0 while it is closed; otherwise the time from which a probe may be asked for.
    next_probe_ms: AtomicU64,
    /// Failures since the last success.
    consecutive: AtomicU32,
    window: SlidingWindow,
    /// How often it has opened.
    openings: AtomicU64,
    state: Mutex<CircuitState>,
}

#[derive(Debug, Default)]
struct CircuitState {
    phase: CircuitPhase,
    /// The number of the opening, which a probe's result has to name.
    opening: u64,
    /// Openings in a row.
    in_a_row: u32,
    /// How long the last opening lasted.
    last_open_ms: u64,
    closed_at_ms: u64,
    /// Probes that were let through and not given back.
    issued: u32,
    succeeded: u32,
}

impl Circuit {
    /// Whether requests pass without a limit.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.next_probe_ms.load(Ordering::Relaxed) == 0
    }

    /// Whether it lets no request through at `now_ms`: it is open, or all probes are out.
    #[inline]
    pub fn refuses(&self, now_ms: u64) -> bool {
        // Closed is 0, which no time is below.
        now_ms < self.next_probe_ms.load(Ordering::Relaxed)
    }

    /// Whether it is open and its time is over, so that [`Circuit::begin_half_open`] has an effect.
    pub fn is_due(&self, now_ms: u64) -> bool {
        !self.is_closed() && !self.refuses(now_ms) && self.phase() == CircuitPhase::Open
    }

    /// Lets a request through, or not.
    #[inline]
    pub fn admit(&self, rules: &CircuitRules, now_ms: u64) -> Admission {
        if self.is_closed() {
            Admission::Closed
        } else if self.refuses(now_ms) {
            Admission::Refused
        } else {
            self.issue_probe(rules, now_ms)
        }
    }

    /// Lets probes through if its time is over; returns whether that changed it.
    pub fn begin_half_open(&self, now_ms: u64) -> bool {
        let mut state = self.state.lock();
        !self.refuses(now_ms) && state.begin_half_open()
    }

    #[cold]
    fn issue_probe(&self, rules: &CircuitRules, now_ms: u64) -> Admission {
        let mut state = self.state.lock();
        // Another worker may have been here first.
        if self.is_closed() {
            return Admission::Closed;
        }
        if self.refuses(now_ms) {
            return Admission::Refused;
        }
        state.begin_half_open();
        // If all probes are out, they have had the time of an opening without a result; one more may succeed.
        state.issued = state.issued.saturating_add(1);
        if state.issued >= rules.half_open_requests {
            self.set_next_probe(now_ms + rules.base_open_ms);
        }
        let opening = NonZeroU64::new(state.opening).unwrap_or(NonZeroU64::MIN);
        Admission::Probe(CircuitProbe { opening })
    }

    /// Counts the result of a request that [`Circuit::admit`] let through, as a `probe` if it was one.
    #[inline]
    pub fn note(
        &self,
        rules: &CircuitRules,
        now_ms: u64,
        verdict: CircuitEvidence,
        probe: Option<CircuitProbe>,
    ) -> Option<CircuitEvent> {
        if let Some(probe) = probe {
            return self.end_probe(rules, now_ms, verdict, probe);
        }
        if verdict == CircuitEvidence::Unknown {
            return None;
        }
        let has_failed = verdict == CircuitEvidence::Failure;
        if let Some(rate) = &rules.failure_rate {
            self.window.record(now_ms, rate.window_ms, has_failed, 0);
        }
        if has_failed {
            return self.note_failure(rules, now_ms).map(CircuitEvent::MayOpen);
        }
        // Read first, because a store would take the cache line from the other workers with each request.
        if self.consecutive.load(Ordering::Relaxed) != 0 {
            self.consecutive.store(0, Ordering::Relaxed);
        }
        None
    }

    #[cold]
    fn note_failure(&self, rules: &CircuitRules, now_ms: u64) -> Option<CircuitOpenReason> {
        let consecutive = self.consecutive.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        // Requests that began before it opened say nothing of the time since.
        if !self.is_closed() {
            return None;
        }
        if rules.consecutive_failures != 0 && consecutive >= rules.consecutive_failures {
            return Some(CircuitOpenReason::ConsecutiveFailures(consecutive));
        }
        let rate = rules.failure_rate.as_ref()?;
        let totals = self.window.totals(now_ms, rate.window_ms);
        let percent = totals.failure_percent();
        (totals.requests >= rate.min_requests && percent >= rate.percent)
            .then_some(CircuitOpenReason::FailureRate { percent, requests: totals.requests })
    }

    #[cold]
    fn end_probe(
        &self,
        rules: &CircuitRules,
        now_ms: u64,
        verdict: CircuitEvidence,
        probe: CircuitProbe,
    ) -> Option<CircuitEvent> {
        let mut state = self.state.lock();
        if state.phase != CircuitPhase::HalfOpen || state.opening != probe.opening.get() {
            return None;
        }
        match verdict {
            CircuitEvidence::Failure => Some(CircuitEvent::MayOpen(CircuitOpenReason::ProbeFailed)),
            CircuitEvidence::Unknown => {
                state.issued = state.issued.saturating_sub(1);
                self.set_next_probe(now_ms);
                None
            }
            CircuitEvidence::Success => {
                state.succeeded += 1;
                if state.succeeded < rules.half_open_requests {
                    return None;
                }
                self.close_locked(&mut state, now_ms);
                Some(CircuitEvent::Closed)
            }
        }
    }

    /// Opens it for the time that `rules` give, less a jitter drawn from `random`. `None` if it is open
    /// already.
    pub fn open(
        &self,
        rules: &CircuitRules,
        now_ms: u64,
        random: u64,
        reason: CircuitOpenReason,
    ) -> Option<CircuitOpening> {
        let mut state = self.state.lock();
        let may_open = match reason {
            CircuitOpenReason::ProbeFailed => state.phase == CircuitPhase::HalfOpen,
            _ => state.phase == CircuitPhase::Closed,
        };
        if !may_open {
            return None;
        }
        let relapsed = state.phase == CircuitPhase::HalfOpen
            || state.in_a_row > 0 && now_ms < state.closed_at_ms.saturating_add(state.last_open_ms);
        state.in_a_row = if relapsed { state.in_a_row.saturating_add(1) } else { 1 };
        let doubled = 1_u64
            .checked_shl(state.in_a_row - 1)
            .map_or(u64::MAX, |factor| rules.base_open_ms.saturating_mul(factor));
        let full_ms = doubled.min(rules.max_open_ms);
        let for_ms = full_ms - random % (full_ms * JITTER_PERCENT / 100 + 1);
        (state.phase, state.last_open_ms) = (CircuitPhase::Open, for_ms);
        (state.issued, state.succeeded) = (0, 0);
        state.opening += 1;
        self.openings.fetch_add(1, Ordering::Relaxed);
        self.set_next_probe(now_ms + for_ms);
        Some(CircuitOpening { for_ms, in_a_row: state.in_a_row })
    }

    /// Closes it and forgets what it counted; for rules that no longer exist.
    pub fn reset(&self) {
        let mut state = self.state.lock();
        self.close_locked(&mut state, 0);
        state.in_a_row = 0;
    }

    fn close_locked(&self, state: &mut CircuitState, now_ms: u64) {
        (state.phase, state.closed_at_ms) = (CircuitPhase::Closed, now_ms);
        self.consecutive.store(0, Ordering::Relaxed);
        self.window.clear();
        self.next_probe_ms.store(0, Ordering::Relaxed);
    }

    /// Only under the lock of the state.
    fn set_next_probe(&self, at_ms: u64) {
        self.next_probe_ms.store(at_ms.max(1), Ordering::Relaxed);
    }

    /// Its phase, for reports.
    pub fn phase(&self) -> CircuitPhase {
        self.state.lock().phase
    }

    /// How often it has opened.
    pub fn openings(&self) -> u64 {
        self.openings.load(Ordering::Relaxed)
    }

    /// The time from which a probe may be asked for; `None` while it is closed.
    pub fn next_probe_ms(&self) -> Option<u64> {
        Some(self.next_probe_ms.load(Ordering::Relaxed)).filter(|at_ms| *at_ms != 0)
    }
}

impl CircuitState {
    fn begin_half_open(&mut self) -> bool {
        let is_due = self.phase == CircuitPhase::Open;
        if is_due {
            self.phase = CircuitPhase::HalfOpen;
        }
        is_due
    }
}

#[cfg(test)]
#[path = "circuit/tests.rs"]
mod tests;

//! The health of one node as checks see it: four counters and a state in one atomic word, so that workers and
//! the thread of the checks count without a lock. The rules are those of lua-resty-healthcheck (contract
//! 2.3): a good result clears the failures and a bad one the successes, and a node that is fully healthy or
//! unhealthy counts no more of the same. It knows no check and no log.

use std::sync::atomic::{AtomicU64, Ordering};

/// How sure checks are that a node is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HealthState {
    /// Up. A node begins so.
    #[default]
    Healthy,
    /// Up, with failures that are too few for a verdict.
    MostlyHealthy,
    /// Down, with successes that are too few for a verdict.
    MostlyUnhealthy,
    /// Down.
    Unhealthy,
}

/// The result of one check, by the counter that counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// A good response, or a connection for a check that asks for no more.
    Success,
    /// A bad response.
    HttpFailure,
    /// The connection could not be opened, or broke.
    TcpFailure,
    /// There was no connection or response in time.
    Timeout,
}

/// The state and the counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthSnapshot {
    /// See [`HealthState`].
    pub state: HealthState,
    /// Results by [`CheckResult`].
    pub counts: [u8; 4],
}

/// A result by which a node came up or went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthTurn {
    /// The snapshot before the result.
    pub before: HealthSnapshot,
    /// The snapshot with it.
    pub after: HealthSnapshot,
}

/// The health of one node.
#[derive(Debug, Default)]
pub struct NodeHealth(AtomicU64);

impl HealthState {
    /// Whether the node is taken for down.
    pub fn is_down(self) -> bool {
        matches!(self, HealthState::MostlyUnhealthy | HealthState::Unhealthy)
    }
}

impl HealthSnapshot {
    /// The counter of such results.
    pub fn count(&self, result: CheckResult) -> u8 {
        self.counts[result as usize]
    }

    /// This after one more `result`, of which `limit` decide; none if it changes nothing.
    fn after(self, result: CheckResult, limit: u8) -> Option<HealthSnapshot> {
        let is_good = result == CheckResult::Success;
        let decided = if is_good { HealthState::Healthy } else { HealthState::Unhealthy };
        if limit == 0 || self.state == decided {
            return None;
        }
        let HealthSnapshot { mut state, mut counts } = self;
        let count = counts[result as usize].saturating_add(1);
        if is_good {
            counts = [0; 4];
        } else {
            counts[CheckResult::Success as usize] = 0;
        }
        counts[result as usize] = count;
        if count >= limit {
            state = decided;
        } else if state == HealthState::Healthy {
            state = HealthState::MostlyHealthy;
        } else if state == HealthState::Unhealthy {
            state = HealthState::MostlyUnhealthy;
        }
        Some(HealthSnapshot { state, counts })
    }

    fn pack(self) -> u64 {
        let [a, b, c, d] = self.counts;
        u64::from_le_bytes([a, b, c, d, self.state as u8, 0, 0, 0])
    }

    fn unpack(word: u64) -> HealthSnapshot {
        let [a, b, c, d, state, ..] = word.to_le_bytes();
        let state = match state {
            0 => HealthState::Healthy,
            1 => HealthState::MostlyHealthy,
            2 => HealthState::MostlyUnhealthy,
            _ => HealthState::Unhealthy,
        };
        HealthSnapshot { state, counts: [a, b, c, d] }
    }
}

impl NodeHealth {
    /// The state and the counters now.
    pub fn snapshot(&self) -> HealthSnapshot {
        HealthSnapshot::unpack(self.0.load(Ordering::Relaxed))
    }

    /// Counts one `result`, of which `limit` in a row decide; 0 does not count it. Returns the turn if the
    /// node came up or went down by it. Costs one relaxed load where the node is fully healthy and the result
    /// good.
    #[inline]
    pub fn count(&self, result: CheckResult, limit: u8) -> Option<HealthTurn> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let before = HealthSnapshot::unpack(word);
            let after = before.after(result, limit)?;
            match self.0.compare_exchange_weak(word, after.pack(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let has_turned = before.state.is_down() != after.state.is_down();
                    return has_turned.then_some(HealthTurn { before, after });
                }
                Err(now) => word = now,
            }
        }
    }

    /// Takes back the result of `turn`; false if other results were counted since.
    pub fn undo(&self, turn: HealthTurn) -> bool {
        let (from, to) = (turn.after.pack(), turn.before.pack());
        self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Forgets every result: the node is healthy again.
    pub fn reset(&self) {
        self.0.store(HealthSnapshot::default().pack(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::CheckResult::{HttpFailure, Success, TcpFailure, Timeout};
    use super::HealthState::{Healthy, MostlyHealthy, MostlyUnhealthy, Unhealthy};
    use super::*;

    #[test]
    fn results_lead_to_states_by_their_limits() {
        // result, limit → state, counters of successes, HTTP and TCP failures, timeouts; whether it came up
        // or went down
        type Step = (CheckResult, u8, HealthState, [u8; 4], bool);
        let steps: [Step; 15] = [
            (Success, 2, Healthy, [0, 0, 0, 0], false),
            (HttpFailure, 3, MostlyHealthy, [0, 1, 0, 0], false),
            (Success, 2, MostlyHealthy, [1, 0, 0, 0], false),
            (Success, 2, Healthy, [2, 0, 0, 0], false),
            (Timeout, 0, Healthy, [2, 0, 0, 0], false),
            (Timeout, 3, MostlyHealthy, [0, 0, 0, 1], false),
            (TcpFailure, 2, MostlyHealthy, [0, 0, 1, 1], false),
            (TcpFailure, 2, Unhealthy, [0, 0, 2, 1], true),
            (TcpFailure, 2, Unhealthy, [0, 0, 2, 1], false),
            (Success, 2, MostlyUnhealthy, [1, 0, 0, 0], false),
            (HttpFailure, 2, MostlyUnhealthy, [0, 1, 0, 0], false),
            (HttpFailure, 2, Unhealthy, [0, 2, 0, 0], false),
            (Success, 2, MostlyUnhealthy, [1, 0, 0, 0], false),
            (Success, 2, Healthy, [2, 0, 0, 0], true),
            (HttpFailure, 1, Unhealthy, [0, 1, 0, 0], true),
        ];
        let health = NodeHealth::default();
        for (index, (result, limit, state, counts, has_changed)) in steps.into_iter().enumerate() {
            let turn = health.count(result, limit);
            assert_eq!(health.snapshot(), HealthSnapshot { state, counts }, "step {index}");
            assert_eq!(turn.map(|turn| turn.after.state), has_changed.then_some(state), "step {index}");
        }
        health.reset();
        assert_eq!(health.snapshot(), HealthSnapshot::default());
    }

    #[test]
    fn turn_is_undone_unless_results_followed() {
        let health = NodeHealth::default();
        assert_eq!(health.count(Timeout, 3), None);
        let before = health.snapshot();
        let turn = health.count(HttpFailure, 1).unwrap();
        assert!(health.undo(turn) && health.snapshot() == before);
        let turn = health.count(HttpFailure, 1).unwrap();
        health.count(Success, 2);
        let now = health.snapshot();
        assert!(!health.undo(turn) && health.snapshot() == now);
    }
}

//! Which observations of a node count, as what, and how many of them decide. It counts nothing itself.

use model::resource::{Healthy, Unhealthy};
use net::node_health::CheckResult;

/// The observation of a check or a request at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Observation {
    /// A response with this status.
    Status(u16),
    /// The answer that the check asks for: a connection, or SERVING.
    Success,
    /// A response that is no good whatever statuses are listed: malformed, or NOT_SERVING.
    BadResponse,
    /// The connection could not be opened, or broke.
    TcpFailure,
    /// There was no connection or response in time.
    Timeout,
}

/// The rules of active or of passive checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthRules {
    good: StatusSet,
    bad: StatusSet,
    successes: u8,
    http_failures: u8,
    tcp_failures: u8,
    timeouts: u8,
}

impl HealthRules {
    pub(crate) fn new(healthy: &Healthy, unhealthy: &Unhealthy) -> HealthRules {
        // The schema allows 254 at most.
        let limit = |count: u16| u8::try_from(count).unwrap_or(u8::MAX);
        HealthRules {
            good: StatusSet::new(&healthy.http_statuses),
            bad: StatusSet::new(&unhealthy.http_statuses),
            successes: limit(healthy.successes),
            http_failures: limit(unhealthy.http_failures),
            tcp_failures: limit(unhealthy.tcp_failures),
            timeouts: limit(unhealthy.timeouts),
        }
    }

    /// The counter of an observation, and how many decide; none for a status that is in neither list. A
    /// status in both is good.
    #[inline]
    pub(crate) fn judge(&self, observation: Observation) -> Option<(CheckResult, u8)> {
        Some(match observation {
            Observation::Status(status) if self.good.contains(status) => {
                (CheckResult::Success, self.successes)
            }
            Observation::Status(status) if self.bad.contains(status) => {
                (CheckResult::HttpFailure, self.http_failures)
            }
            Observation::Status(_) => return None,
            Observation::Success => (CheckResult::Success, self.successes),
            Observation::BadResponse => (CheckResult::HttpFailure, self.http_failures),
            Observation::TcpFailure => (CheckResult::TcpFailure, self.tcp_failures),
            Observation::Timeout => (CheckResult::Timeout, self.timeouts),
        })
    }
}

/// The lowest status that a list may have, by the schema.
const LOWEST: u16 = 200;
/// Words of 64 bits for the statuses from 200 to 599.
const WORDS: usize = 7;

/// A set of statuses, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StatusSet([u64; WORDS]);

impl StatusSet {
    fn new(statuses: &[u16]) -> StatusSet {
        let mut set = StatusSet::default();
        for status in statuses {
            if let Some((word, bit)) = place(*status) {
                set.0[word] |= bit;
            }
        }
        set
    }

    #[inline]
    fn contains(&self, status: u16) -> bool {
        place(status).is_some_and(|(word, bit)| self.0[word] & bit != 0)
    }
}

#[inline]
fn place(status: u16) -> Option<(usize, u64)> {
    let index = usize::from(status.checked_sub(LOWEST)?);
    (index < WORDS * 64).then(|| (index / 64, 1 << (index % 64)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn statuses_count_by_their_lists() {
        let interval = Duration::ZERO;
        let healthy = Healthy { interval, successes: 2, http_statuses: vec![200, 404, 599] };
        let unhealthy = Unhealthy {
            interval,
            http_failures: 5,
            tcp_failures: 3,
            timeouts: 0,
            http_statuses: vec![404, 500],
        };
        let rules = HealthRules::new(&healthy, &unhealthy);
        let cases = [
            (Observation::Status(200), Some((CheckResult::Success, 2))),
            (Observation::Status(599), Some((CheckResult::Success, 2))),
            (Observation::Status(404), Some((CheckResult::Success, 2))),
            (Observation::Status(500), Some((CheckResult::HttpFailure, 5))),
            (Observation::Status(201), None),
            (Observation::Status(101), None),
            (Observation::Status(0), None),
            (Observation::Status(999), None),
            (Observation::Success, Some((CheckResult::Success, 2))),
            (Observation::BadResponse, Some((CheckResult::HttpFailure, 5))),
            (Observation::TcpFailure, Some((CheckResult::TcpFailure, 3))),
            (Observation::Timeout, Some((CheckResult::Timeout, 0))),
        ];
        for (observation, expected) in cases {
            assert_eq!(rules.judge(observation), expected, "{observation:?}");
        }
    }
}

//! Passive checks: what the attempts of clients' requests say about their nodes. They run on the workers,
//! without a lock.

use std::borrow::Cow;

use exchange::exchange::Attempt;
use exchange::failure::{Blame, Cause};
use net::nodes::ResolvedNode;

use super::CompiledHealthChecks;
use super::counts::CheckSource;
use super::rules::Observation;

impl CompiledHealthChecks {
    /// Whether attempts are observed.
    #[inline]
    pub(crate) fn observes_attempts(&self) -> bool {
        self.passive.is_some()
    }

    /// Takes in an attempt at `node` that has ended.
    #[inline]
    pub(crate) fn note_attempt(&self, node: &ResolvedNode, attempt: &Attempt) {
        if let (Some(rules), Some(observation)) = (&self.passive, observation(attempt.status, attempt.failed))
        {
            self.note(node, CheckSource::Passive, rules, observation, || detail(attempt));
        }
    }
}

/// The observation of an attempt; none where only the client or this gateway is to blame.
#[inline]
fn observation(status: u16, failed: Option<Cause>) -> Option<Observation> {
    match failed {
        None => Some(Observation::Status(status)),
        Some(cause) if cause.blame() != Blame::Upstream => None,
        Some(cause) if cause.is_timeout() => Some(Observation::Timeout),
        Some(_) => Some(Observation::TcpFailure),
    }
}

fn detail(attempt: &Attempt) -> Cow<'static, str> {
    match attempt.failed {
        Some(cause) => cause.code().into(),
        None => format!("status {}", attempt.status).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_observed_by_status_and_cause() {
        let cases = [
            (200, None, Some(Observation::Status(200))),
            (0, Some(Cause::ConnectFailed), Some(Observation::TcpFailure)),
            (0, Some(Cause::ConnectTimeout), Some(Observation::Timeout)),
            (0, Some(Cause::ReadTimeout), Some(Observation::Timeout)),
            (0, Some(Cause::NoResponse), Some(Observation::TcpFailure)),
            (200, Some(Cause::ClientGone), None),
            (0, Some(Cause::NoResources), None),
        ];
        for (status, failed, expected) in cases {
            assert_eq!(observation(status, failed), expected, "{status} {failed:?}");
        }
    }
}

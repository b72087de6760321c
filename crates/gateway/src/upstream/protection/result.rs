//! The result of an attempt as evidence of its node: success, failure, or nothing.

use exchange::Exchange;
use exchange::exchange::Attempt;
use exchange::failure::{Blame, Cause};
use exchange::overload::circuit::CircuitEvidence;

use super::FailureStatuses;

/// The end of an attempt, as far as it concerns the node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttemptResult {
    /// The status of the response, or 0.
    pub(crate) status: u16,
    pub(crate) failed: Option<Cause>,
    /// The status of a gRPC call, if it is one and has ended.
    pub(crate) grpc_status: Option<u32>,
    pub(crate) is_grpc: bool,
    /// The attempt used a kept connection, which the node may close at any time.
    pub(crate) is_reused: bool,
    /// Microseconds to the response head, or to the failure.
    pub(crate) latency_us: u64,
}

impl AttemptResult {
    pub(crate) fn of(exchange: &Exchange, attempt: &Attempt, is_reused: bool) -> AttemptResult {
        AttemptResult {
            status: attempt.status,
            failed: attempt.failed,
            grpc_status: exchange.grpc.as_ref().and_then(|call| call.status),
            is_grpc: exchange.grpc.is_some(),
            is_reused,
            latency_us: if attempt.head_us > 0 { attempt.head_us } else { attempt.total_us },
        }
    }

    /// The latency that tells how fast the node is. None for other failures than timeouts: a refused
    /// connection or an error is often faster than a response, and beside such nodes a healthy one would look
    /// slow.
    pub(crate) fn measured_us(&self, verdict: CircuitEvidence) -> Option<u64> {
        let is_measured = match verdict {
            CircuitEvidence::Success => true,
            CircuitEvidence::Failure => self.failed.is_some_and(Cause::is_timeout),
            CircuitEvidence::Unknown => false,
        };
        is_measured.then_some(self.latency_us)
    }

    /// The verdict, with these statuses as failures.
    pub(crate) fn verdict(&self, failures: &FailureStatuses) -> CircuitEvidence {
        match self.failed {
            // Only an attempt on a fresh connection shows whether the node works.
            Some(Cause::SendFailed | Cause::NoResponse) if self.is_reused => CircuitEvidence::Unknown,
            Some(cause) if cause.blame() == Blame::Upstream => CircuitEvidence::Failure,
            // A node that hangs for longer than a whole request may take. A gRPC call has this cause once the
            // client's `grpc-timeout` has passed, which may be shorter than any node needs.
            Some(Cause::RequestTimeout) if self.status == 0 && !self.is_grpc => CircuitEvidence::Failure,
            Some(_) if !failures.http.contains(&self.status) => CircuitEvidence::Unknown,
            _ if failures.http.contains(&self.status) => CircuitEvidence::Failure,
            _ if self.grpc_status.is_some_and(|status| failures.grpc.contains(&status)) => {
                CircuitEvidence::Failure
            }
            _ => CircuitEvidence::Success,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CircuitEvidence::{Failure, Success, Unknown};

    #[test]
    fn verdict_blames_nodes_for_their_failures_only() {
        let failures = FailureStatuses { http: [502, 503].into(), grpc: [14].into() };
        // status, failure, status of gRPC, kept connection → verdict
        let cases = [
            (200, None, None, false, Success),
            (404, None, None, true, Success),
            (500, None, None, false, Success),
            (503, None, None, true, Failure),
            (0, Some(Cause::ConnectFailed), None, false, Failure),
            (0, Some(Cause::ReadTimeout), None, true, Failure),
            (0, Some(Cause::NoResponse), None, false, Failure),
            (0, Some(Cause::NoResponse), None, true, Unknown),
            (0, Some(Cause::SendFailed), None, true, Unknown),
            (200, Some(Cause::BodyCut), None, true, Failure),
            (0, Some(Cause::RequestTimeout), None, false, Failure),
            (200, Some(Cause::RequestTimeout), None, false, Unknown),
            (0, Some(Cause::ClientGone), None, false, Unknown),
            (503, Some(Cause::ClientGone), None, false, Failure),
            (0, Some(Cause::NoResources), None, false, Unknown),
            (200, None, Some(0), false, Success),
            (200, None, Some(14), false, Failure),
            (200, None, Some(5), false, Success),
        ];
        for (status, failed, grpc_status, is_reused, want) in cases {
            let result = AttemptResult { status, failed, grpc_status, is_reused, ..AttemptResult::default() };
            assert_eq!(result.verdict(&failures), want, "{result:?}");
        }
        let measured = |failed, verdict| {
            AttemptResult { failed, latency_us: 7, ..AttemptResult::default() }.measured_us(verdict)
        };
        assert_eq!(measured(None, Success), Some(7));
        assert_eq!(measured(Some(Cause::ReadTimeout), Failure), Some(7));
        assert_eq!(measured(Some(Cause::ConnectFailed), Failure), None);
        assert_eq!((measured(None, Failure), measured(None, Unknown)), (None, None));
        let call =
            AttemptResult { failed: Some(Cause::RequestTimeout), is_grpc: true, ..AttemptResult::default() };
        assert_eq!(call.verdict(&failures), Unknown, "the client chose its deadline");
    }
}

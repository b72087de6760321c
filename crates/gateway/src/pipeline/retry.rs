//! Decides whether a failed attempt may be retried at another endpoint, or on another connection to the same
//! one, without doing work twice: RFC 9110 section 9.2.2. Pure.

use exchange::failure::{Blame, Cause, ExchangeFailure, Sent};

/// The facts for the decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryInput {
    /// How far the attempt got.
    pub(super) sent: Sent,
    /// Whether an earlier exchange used the connection.
    pub(super) reused: bool,
    /// Whether the request may be sent again although its work may have been done: its method is idempotent,
    /// or the retry policy of the upstream says so.
    pub(super) is_repeatable: bool,
    /// Whether the retry policy of the upstream, if there is one, retries such failures.
    pub(super) is_wanted: bool,
    /// The failure is a malformed response head that the policy retries; nothing of the response was passed
    /// on.
    pub(super) is_invalid_head: bool,
    /// Whether the body, if any, can be sent again.
    pub(super) body_is_whole: bool,
    /// Whether this exchange was already retried because of a stale connection.
    pub(super) repeated: bool,
}

/// The action after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// Retry the same endpoint on a fresh connection: the old one had been closed in the meantime.
    SameNode,
    /// Retry another endpoint, if the upstream's limits allow it.
    OtherNode,
    /// Give up.
    GiveUp,
}

/// Decides what follows a failed attempt.
pub(super) fn decide_retry(failure: &ExchangeFailure, report: RetryInput) -> RetryDecision {
    let repeatable = match report.sent {
        Sent::Nothing => report.body_is_whole,
        // Work without a response may have been done, so only an idempotent request is retried.
        Sent::Unanswered => report.body_is_whole && report.is_repeatable,
        Sent::Answered => report.is_invalid_head && report.body_is_whole && report.is_repeatable,
    };
    if !repeatable || failure.cause.blame() != Blame::Upstream {
        return RetryDecision::GiveUp;
    }
    // Not for the policy to decide: an endpoint may close an idle connection at any time.
    let broke = matches!(failure.cause, Cause::SendFailed | Cause::NoResponse);
    if report.reused && broke && !report.repeated {
        return RetryDecision::SameNode;
    }
    if report.is_wanted { RetryDecision::OtherNode } else { RetryDecision::GiveUp }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAFE: RetryInput = RetryInput {
        sent: Sent::Nothing,
        reused: false,
        is_repeatable: true,
        is_wanted: true,
        is_invalid_head: false,
        body_is_whole: true,
        repeated: false,
    };

    #[test]
    fn retry_never_does_work_twice() {
        use Cause::{BadResponse, ConnectFailed, NoResponse, ReadTimeout, SendFailed};
        use RetryDecision::{GiveUp, OtherNode, SameNode};
        use Sent::{Answered, Nothing, Unanswered};
        #[rustfmt::skip]
        let cases = [
            // cause, sent, reused, repeatable, whole, repeated → next
            (ConnectFailed, Nothing,    false, false, true,  false, OtherNode),
            (ConnectFailed, Nothing,    false, false, false, false, GiveUp),
            (NoResponse,    Unanswered, true,  true,  true,  false, SameNode),
            (NoResponse,    Unanswered, true,  true,  true,  true,  OtherNode),
            (NoResponse,    Unanswered, true,  false, true,  false, GiveUp),
            (SendFailed,    Nothing,    true,  false, true,  false, SameNode),
            (SendFailed,    Unanswered, false, true,  true,  false, OtherNode),
            (SendFailed,    Unanswered, false, true,  false, false, GiveUp),
            (ReadTimeout,   Unanswered, true,  true,  true,  false, OtherNode),
            (ReadTimeout,   Unanswered, true,  false, true,  false, GiveUp),
            (BadResponse,   Answered,   true,  true,  true,  false, GiveUp),
        ];
        for (cause, sent, reused, is_repeatable, body_is_whole, repeated, want) in cases {
            let report = RetryInput { sent, reused, is_repeatable, body_is_whole, repeated, ..SAFE };
            assert_eq!(decide_retry(&ExchangeFailure::new(cause, ""), report), want, "{cause:?} {report:?}");
        }
        let gone = ExchangeFailure::new(Cause::ClientGone, "");
        let report = RetryInput { reused: true, ..SAFE };
        assert_eq!(decide_retry(&gone, report), GiveUp, "the client's fault is not retried");
    }

    #[test]
    fn policy_narrows_failures_and_adds_malformed_heads() {
        let broken = ExchangeFailure::new(Cause::NoResponse, "");
        let unwanted = RetryInput { sent: Sent::Unanswered, is_wanted: false, ..SAFE };
        assert_eq!(decide_retry(&broken, unwanted), RetryDecision::GiveUp, "not among the conditions");
        let stale = RetryInput { reused: true, ..unwanted };
        assert_eq!(
            decide_retry(&broken, stale),
            RetryDecision::SameNode,
            "a stale connection is replaced by any policy"
        );
        assert_eq!(decide_retry(&broken, RetryInput { repeated: true, ..stale }), RetryDecision::GiveUp);
        let malformed = ExchangeFailure::new(Cause::BadResponse, "");
        let wanted = RetryInput { sent: Sent::Answered, is_invalid_head: true, ..SAFE };
        assert_eq!(decide_retry(&malformed, wanted), RetryDecision::OtherNode);
        assert_eq!(
            decide_retry(&malformed, RetryInput { is_repeatable: false, ..wanted }),
            RetryDecision::GiveUp
        );
        assert_eq!(
            decide_retry(&malformed, RetryInput { body_is_whole: false, ..wanted }),
            RetryDecision::GiveUp
        );
    }
}

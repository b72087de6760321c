//! Decides whether a failed attempt may be retried at another endpoint, or on another connection to the same one,
//! without doing work twice: RFC 9110 section 9.2.2. Pure.

use message::Method;

use exchange::failure::{Blame, Cause, Failure, Sent};

/// The facts for the decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryInput {
    /// How far the attempt got.
    pub(super) sent: Sent,
    /// Whether an earlier exchange used the connection.
    pub(super) reused: bool,
    /// The request's method.
    pub(super) method: Method,
    /// Whether the body, if any, can be sent again.
    pub(super) body_is_whole: bool,
    /// Whether this exchange was already retried because of a stale connection.
    pub(super) repeated: bool,
}

/// The action after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Retry the same endpoint on a fresh connection: the old one had been closed in the meantime.
    SameNode,
    /// Retry another endpoint, if the upstream's limits allow it.
    OtherNode,
    /// Give up.
    GiveUp,
}

/// Decides what follows a failed attempt.
pub(super) fn after(failure: &Failure, report: RetryInput) -> Next {
    let repeatable = match report.sent {
        Sent::Nothing => report.body_is_whole,
        // Work without a response may have been done, so only an idempotent request is retried.
        Sent::Unanswered => report.body_is_whole && report.method.is_idempotent(),
        Sent::Answered => false,
    };
    if !repeatable || failure.cause.blame() != Blame::Origin {
        return Next::GiveUp;
    }
    let broke = matches!(failure.cause, Cause::SendFailed | Cause::NoResponse);
    if report.reused && broke && !report.repeated { Next::SameNode } else { Next::OtherNode }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_never_does_work_twice() {
        use Cause::{BadResponse, ConnectFailed, NoResponse, ReadTimeout, SendFailed};
        use Next::{GiveUp, OtherNode, SameNode};
        use Sent::{Answered, Nothing, Unanswered};
        #[rustfmt::skip]
        let cases = [
            // cause, sent, reused, method, whole, repeated → next
            (ConnectFailed, Nothing,    false, Method::Post, true,  false, OtherNode),
            (ConnectFailed, Nothing,    false, Method::Post, false, false, GiveUp),
            (NoResponse,    Unanswered, true,  Method::Get,  true,  false, SameNode),
            (NoResponse,    Unanswered, true,  Method::Get,  true,  true,  OtherNode),
            (NoResponse,    Unanswered, true,  Method::Post, true,  false, GiveUp),
            (SendFailed,    Nothing,    true,  Method::Post, true,  false, SameNode),
            (SendFailed,    Unanswered, false, Method::Put,  true,  false, OtherNode),
            (SendFailed,    Unanswered, false, Method::Put,  false, false, GiveUp),
            (ReadTimeout,   Unanswered, true,  Method::Get,  true,  false, OtherNode),
            (ReadTimeout,   Unanswered, true,  Method::Patch, true, false, GiveUp),
            (BadResponse,   Answered,   true,  Method::Get,  true,  false, GiveUp),
        ];
        for (cause, sent, reused, method, body_is_whole, repeated, want) in cases {
            let report = RetryInput { sent, reused, method, body_is_whole, repeated };
            assert_eq!(after(&Failure::new(cause, ""), report), want, "{cause:?} {report:?}");
        }
        let gone = Failure::new(Cause::ClientGone, "");
        let report = RetryInput {
            sent: Nothing,
            reused: true,
            method: Method::Get,
            body_is_whole: true,
            repeated: false,
        };
        assert_eq!(after(&gone, report), GiveUp, "the client's fault is not retried");
    }
}

//! Whether a failed try may be made again at another node, or on another connection to the same one, without doubling
//! work: RFC 9110 section 9.2.2. Pure.

use message::Method;

use exchange::failure::{Blame, Cause, Failure, Sent};

/// The facts for the decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryInput {
    /// How far the try got.
    pub(super) sent: Sent,
    /// Whether the connection had served before.
    pub(super) reused: bool,
    /// The request's method.
    pub(super) method: Method,
    /// Whether the body, if any, can be sent again.
    pub(super) body_is_whole: bool,
    /// Whether this exchange was already repeated because of a stale connection.
    pub(super) repeated: bool,
}

/// The action after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Try the same node on a fresh connection: the old one had been closed in the meantime.
    SameNode,
    /// Try another node, if the upstream's rules allow another try.
    OtherNode,
    /// Give up.
    GiveUp,
}

/// Decides.
pub(super) fn after(failure: &Failure, report: RetryInput) -> Next {
    let repeatable = match report.sent {
        Sent::Nothing => report.body_is_whole,
        // Unanswered work may have been done: only what may be done twice is repeated.
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
    fn work_is_never_doubled() {
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

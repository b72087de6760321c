//! The outcome of one active check: what it met, and a phrase about it for logs.

use std::borrow::Cow;
use std::io;

use exchange::failure::Blame;
use net::tls;

use super::super::connect_failure::connect_cause;
use super::rules::Observation;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckOutcome {
    /// None where this machine could not make the check, which says nothing about the node.
    pub(super) observation: Option<Observation>,
    /// Such as `status 500`.
    pub(super) detail: Cow<'static, str>,
}

impl CheckOutcome {
    pub(super) fn new(observation: Observation, detail: impl Into<Cow<'static, str>>) -> CheckOutcome {
        CheckOutcome { observation: Some(observation), detail: detail.into() }
    }

    pub(super) fn status(status: u16) -> CheckOutcome {
        CheckOutcome::new(Observation::Status(status), format!("status {status}"))
    }

    pub(super) fn late(timeout_ms: u64) -> CheckOutcome {
        CheckOutcome::new(Observation::Timeout, format!("no answer within {timeout_ms} ms"))
    }

    pub(super) fn not_made(detail: impl Into<Cow<'static, str>>) -> CheckOutcome {
        CheckOutcome { observation: None, detail: detail.into() }
    }

    /// A connection that could not be opened.
    pub(super) fn refused(error: &io::Error) -> CheckOutcome {
        let cause = connect_cause(error);
        let observation = match cause.blame() {
            Blame::Upstream if cause.is_timeout() => Observation::Timeout,
            Blame::Upstream => Observation::TcpFailure,
            _ => return CheckOutcome::not_made(format!("cannot connect: {error}")),
        };
        CheckOutcome::new(observation, format!("cannot connect: {error}"))
    }

    /// A TLS handshake that failed.
    pub(super) fn no_tls(error: &io::Error) -> CheckOutcome {
        CheckOutcome::new(Observation::TcpFailure, tls::failure::of_handshake(error).1)
    }

    /// A connection that broke or ended before the answer was there.
    pub(super) fn broken(error: &io::Error) -> CheckOutcome {
        let detail = match tls::failure::of_stream(error) {
            Some(detail) => detail,
            None => format!("the connection broke: {error}"),
        };
        CheckOutcome::new(Observation::TcpFailure, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_shortage_says_nothing_about_the_node() {
        // EMFILE; ECONNREFUSED; ETIMEDOUT
        let cases = [(24, None), (111, Some(Observation::TcpFailure)), (110, Some(Observation::Timeout))];
        for (code, expected) in cases {
            let outcome = CheckOutcome::refused(&io::Error::from_raw_os_error(code));
            assert_eq!(outcome.observation, expected, "error {code}");
        }
    }
}

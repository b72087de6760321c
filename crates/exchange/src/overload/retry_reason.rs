//! The reasons for a retry, by which policies allow it and metrics count it.

use crate::failure::{Cause, ExchangeFailure, FailurePhase, Sent};

/// A reason for a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RetryReason {
    /// No connection, or nothing was sent over it.
    ConnectFailure,
    /// The endpoint said that it did not process the request.
    RefusedStream,
    /// The connection or stream ended before the response.
    Reset,
    /// No response in time.
    Timeout,
    /// The response head was malformed.
    InvalidResponse,
    /// The status of the response.
    Status,
    /// The gRPC status of the response.
    GrpcStatus,
    /// A field of the response.
    ResponseHeader,
}

impl RetryReason {
    /// All of them, in the order of their counters.
    pub const ALL: [RetryReason; 8] = [
        RetryReason::ConnectFailure,
        RetryReason::RefusedStream,
        RetryReason::Reset,
        RetryReason::Timeout,
        RetryReason::InvalidResponse,
        RetryReason::Status,
        RetryReason::GrpcStatus,
        RetryReason::ResponseHeader,
    ];

    /// The name used in metrics; those of failures are the names of conditions.
    pub fn code(self) -> &'static str {
        match self {
            RetryReason::ConnectFailure => "connect_failure",
            RetryReason::RefusedStream => "refused_stream",
            RetryReason::Reset => "reset",
            RetryReason::Timeout => "timeout",
            RetryReason::InvalidResponse => "invalid_response",
            RetryReason::Status => "status",
            RetryReason::GrpcStatus => "grpc_status",
            RetryReason::ResponseHeader => "response_header",
        }
    }

    /// The reason that a failure before the response head is.
    pub fn of(failure: &ExchangeFailure, sent: Sent) -> RetryReason {
        match (failure.cause, sent) {
            (cause, _) if cause.phase() == FailurePhase::Connect => RetryReason::ConnectFailure,
            (Cause::BadResponse, _) => RetryReason::InvalidResponse,
            (Cause::NoResponse, Sent::Nothing) => RetryReason::RefusedStream,
            (_, Sent::Nothing) => RetryReason::ConnectFailure,
            (cause, _) if cause.is_timeout() => RetryReason::Timeout,
            _ => RetryReason::Reset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_their_reasons() {
        use RetryReason::{ConnectFailure, InvalidResponse, RefusedStream, Reset, Timeout};
        #[rustfmt::skip]
        let cases = [
            (Cause::ConnectFailed,  Sent::Nothing,    ConnectFailure),
            (Cause::ConnectTimeout, Sent::Nothing,    ConnectFailure),
            (Cause::TlsFailed,      Sent::Unanswered, ConnectFailure),
            (Cause::SendFailed,     Sent::Nothing,    ConnectFailure),
            (Cause::NoResponse,     Sent::Nothing,    RefusedStream),
            (Cause::SendFailed,     Sent::Unanswered, Reset),
            (Cause::NoResponse,     Sent::Unanswered, Reset),
            (Cause::SendTimeout,    Sent::Unanswered, Timeout),
            (Cause::ReadTimeout,    Sent::Unanswered, Timeout),
            (Cause::BadResponse,    Sent::Answered,   InvalidResponse),
        ];
        for (cause, sent, expected) in cases {
            assert_eq!(
                RetryReason::of(&ExchangeFailure::new(cause, ""), sent),
                expected,
                "{cause:?} {sent:?}"
            );
        }
        for (place, reason) in RetryReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
    }
}

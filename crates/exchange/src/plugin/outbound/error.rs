//! Why a call of a plugin failed: a closed table of causes with the side at fault, the place, and the detail.
//! It decides nothing: whether a request may pass all the same is the plugin's business.

use std::fmt;

use crate::failure::Blame;

/// The cause of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboundCause {
    /// The name has no address.
    NoAddress,
    /// The address is one that no plugin may reach unless a setting allows it.
    Forbidden,
    /// Too many calls to the peer are under way.
    Busy,
    /// The request cannot be written.
    BadRequest,
    /// No connection could be opened.
    Connect,
    /// No connection could be opened in time.
    ConnectTimeout,
    /// The TLS handshake failed, or the connection broke in it.
    Tls,
    /// The peer's certificate is not trusted, not valid for its host, or not valid now.
    Certificate,
    /// The answer was not complete in time.
    Timeout,
    /// The connection broke before the answer was complete.
    Broken,
    /// The reply is no HTTP response, or its head is longer than the limit.
    BadResponse,
    /// The answer's body is longer than the limit.
    BodyTooLarge,
}

impl OutboundCause {
    /// The name used in logs.
    pub fn code(self) -> &'static str {
        match self {
            OutboundCause::NoAddress => "outbound_no_address",
            OutboundCause::Forbidden => "outbound_forbidden",
            OutboundCause::Busy => "outbound_busy",
            OutboundCause::BadRequest => "outbound_bad_request",
            OutboundCause::Connect => "outbound_connect_failed",
            OutboundCause::ConnectTimeout => "outbound_connect_timeout",
            OutboundCause::Tls => "outbound_tls_failed",
            OutboundCause::Certificate => "outbound_certificate_refused",
            OutboundCause::Timeout => "outbound_timeout",
            OutboundCause::Broken => "outbound_broken",
            OutboundCause::BadResponse => "outbound_bad_response",
            OutboundCause::BodyTooLarge => "outbound_body_too_large",
        }
    }

    /// The side at fault: the peer, or the gateway with its configuration and limits.
    pub fn blame(self) -> Blame {
        match self {
            OutboundCause::NoAddress
            | OutboundCause::Forbidden
            | OutboundCause::Busy
            | OutboundCause::BadRequest => Blame::Gateway,
            _ => Blame::Upstream,
        }
    }
}

/// A call that failed: what, where and why, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundError {
    /// The cause of a failed call.
    pub cause: OutboundCause,
    /// The peer's URI.
    pub place: Box<str>,
    /// Details for a person.
    pub detail: String,
}

impl fmt::Display for OutboundError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.cause.blame() {
            Blame::Gateway => "this gateway",
            Blame::Upstream | Blame::Client => "the peer",
        };
        write!(formatter, "{}: {} ({}, on the side of {side})", self.place, self.detail, self.cause.code())
    }
}

impl std::error::Error for OutboundError {}

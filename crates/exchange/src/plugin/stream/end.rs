//! Why a session of layer 4 ended: one closed table of ends with their codes for logs and metrics and the
//! status that nginx gives them. How a session is carried is not known here.

use crate::failure::{Blame, Cause};

/// Every way in which a session can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// Both sides have closed in order.
    Closed,
    /// The connection went on as one of HTTP.
    BecameHttp,
    /// The client has reset the connection.
    ClientReset,
    /// The node has reset the connection.
    NodeReset,
    /// No byte passed for the idle timeout.
    IdleTimeout,
    /// The session was as long as it may be.
    SessionTimeout,
    /// The client did not send the first bytes in time.
    PrereadTimeout,
    /// The client closed before it had sent the first bytes that the routes ask for.
    PrereadClosed,
    /// The first bytes are no beginning of the protocol that the route or a plugin asks for, too many, or a
    /// PROXY protocol header of a peer that may send none.
    PrereadFault,
    /// Bytes break the rules of the protocol that the route names.
    ProtocolFault,
    /// The client's TLS handshake failed.
    TlsHandshake,
    /// A plugin has refused the session.
    Rejected,
    /// The upstream does not allow the destination of the client.
    DestinationRefused,
    /// The session needs the destination of its client, and has come without a redirection.
    NotIntercepted,
    /// A plugin has failed.
    PluginFailed,
    /// No stream route matches.
    NoRoute,
    /// Another session had to take its place, because there are as many as may be.
    Evicted,
    /// It had to end with its worker.
    Stopped,
    /// No node could be reached, or the configuration is faulty.
    Failed(Cause),
}

impl SessionEnd {
    /// All ends but the causes that sessions share with requests.
    pub const OWN: &'static [SessionEnd] = &[
        SessionEnd::Closed,
        SessionEnd::BecameHttp,
        SessionEnd::ClientReset,
        SessionEnd::NodeReset,
        SessionEnd::IdleTimeout,
        SessionEnd::SessionTimeout,
        SessionEnd::PrereadTimeout,
        SessionEnd::PrereadClosed,
        SessionEnd::PrereadFault,
        SessionEnd::ProtocolFault,
        SessionEnd::TlsHandshake,
        SessionEnd::Rejected,
        SessionEnd::DestinationRefused,
        SessionEnd::NotIntercepted,
        SessionEnd::PluginFailed,
        SessionEnd::NoRoute,
        SessionEnd::Evicted,
        SessionEnd::Stopped,
    ];

    /// The code in logs and metrics.
    pub fn code(self) -> &'static str {
        match self {
            SessionEnd::Closed => "closed",
            SessionEnd::BecameHttp => "became_http",
            SessionEnd::ClientReset => "client_reset",
            SessionEnd::NodeReset => "node_reset",
            SessionEnd::IdleTimeout => "idle_timeout",
            SessionEnd::SessionTimeout => "session_timeout",
            SessionEnd::PrereadTimeout => "preread_timeout",
            SessionEnd::PrereadClosed => "preread_closed",
            SessionEnd::PrereadFault => "preread_fault",
            SessionEnd::ProtocolFault => "protocol_fault",
            SessionEnd::TlsHandshake => "tls_handshake",
            SessionEnd::Rejected => "rejected",
            SessionEnd::DestinationRefused => "destination_refused",
            SessionEnd::NotIntercepted => "not_intercepted",
            SessionEnd::PluginFailed => "plugin_failed",
            SessionEnd::NoRoute => "stream_route_not_found",
            SessionEnd::Evicted => "evicted",
            SessionEnd::Stopped => "stopped",
            SessionEnd::Failed(cause) => cause.code(),
        }
    }

    /// The status of nginx's stream module (`$status`): 200, 400, 403, 500, 502 or 503.
    pub fn status(self) -> u16 {
        match self {
            SessionEnd::Closed
            | SessionEnd::BecameHttp
            | SessionEnd::ClientReset
            | SessionEnd::NodeReset
            | SessionEnd::IdleTimeout
            | SessionEnd::SessionTimeout
            | SessionEnd::Evicted
            | SessionEnd::Stopped => 200,
            SessionEnd::PrereadTimeout
            | SessionEnd::PrereadClosed
            | SessionEnd::PrereadFault
            | SessionEnd::ProtocolFault
            | SessionEnd::TlsHandshake => 400,
            SessionEnd::Rejected | SessionEnd::DestinationRefused => 403,
            SessionEnd::NotIntercepted | SessionEnd::PluginFailed | SessionEnd::NoRoute => 500,
            SessionEnd::Failed(cause) if cause.blame() == Blame::Upstream => 502,
            SessionEnd::Failed(_) => 503,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_ends_are_unique() {
        let own = SessionEnd::OWN.iter().map(|end| end.code());
        // Those of requests that sessions have under the same name mean the same.
        let shared = Cause::ALL.iter().map(|cause| cause.code()).filter(|code| *code != "plugin_failed");
        let mut codes: Vec<_> = own.chain(shared).collect();
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count, "two ends share a code");
    }
}

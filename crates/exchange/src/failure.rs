//! Why an exchange failed: one closed table of causes, each with its status, the side at fault and its phase.
//! Retry, the access log, metrics and the client's answer read fields of this table, never strings. It knows
//! nothing of how a failure is detected or written to the wire.

mod answer;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub use answer::FailureResponse;

/// The side that has to act so that the failure does not happen again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The client sent something wrong, too slowly, or went away.
    Client,
    /// This gateway: its configuration, or a limit of its own.
    Gateway,
    /// The upstream: unreachable, too slow, or answering nonsense.
    Upstream,
}

impl Blame {
    /// The name used in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Blame::Client => "client",
            Blame::Gateway => "gateway",
            Blame::Upstream => "origin",
        }
    }
}

/// Where in the life of an exchange it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePhase {
    /// Reading the client's request.
    Request,
    /// Finding a route and running its plugins.
    Route,
    /// Choosing a node.
    Balance,
    /// Opening a connection to the node.
    Connect,
    /// Sending the request to the node.
    Send,
    /// Waiting for the node's response head.
    Wait,
    /// Passing the response on.
    Response,
}

impl FailurePhase {
    /// The name used in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            FailurePhase::Request => "request",
            FailurePhase::Route => "route",
            FailurePhase::Balance => "balance",
            FailurePhase::Connect => "connect",
            FailurePhase::Send => "send",
            FailurePhase::Wait => "wait",
            FailurePhase::Response => "response",
        }
    }
}

/// One failed exchange, or one failed try of it: a pointer to [`Details`], since everything that may fail
/// carries room for one, through many calls of every request, and hardly any has one.
#[derive(Clone, Debug)]
pub struct ExchangeFailure(Box<Details>);

/// A failure with its details.
#[derive(Clone, Debug)]
pub struct Details {
    /// The cause.
    pub cause: Cause,
    /// The node it happened at, if one was chosen.
    pub node: Option<SocketAddr>,
    /// Details for a person beyond the cause; they go to the log, and to the client where the client is to
    /// blame.
    pub detail: Cow<'static, str>,
    /// The response, if the configuration says what it is.
    pub answer: Option<Arc<FailureResponse>>,
    /// The plugin that failed, if one did.
    pub plugin: Option<&'static str>,
}

impl Cause {
    /// Whether the connection cannot go on: where one request ends and the next begins is no longer certain,
    /// or the client has stopped sending.
    pub fn closes_connection(self) -> bool {
        matches!(
            self,
            Cause::BadRequest
                | Cause::LineTooLong
                | Cause::HeadTooLarge
                | Cause::BodyTooLarge
                | Cause::NotImplemented
                | Cause::VersionNotSupported
                | Cause::ExpectationFailed
                | Cause::MethodRefused
                | Cause::PolicyChanged
                | Cause::HeadTimeout
                | Cause::BodyTimeout
                | Cause::BodySlow
        )
    }
}

impl Cause {
    /// Whether the same request may well succeed a little later, so that the client is told to come again.
    pub fn passes_soon(self) -> bool {
        matches!(
            self,
            Cause::MemoryLimit
                | Cause::Overloaded
                | Cause::CircuitOpen
                | Cause::UpstreamRequests
                | Cause::NodeRequests
                | Cause::NodeConnections
                | Cause::QueueFull
                | Cause::QueueTimeout
                | Cause::RouteRequests
                | Cause::ConsumerRequests
        )
    }

    /// Whether a wait took too long.
    pub fn is_timeout(self) -> bool {
        matches!(
            self,
            Cause::BodyTimeout
                | Cause::BodySlow
                | Cause::ClientSlow
                | Cause::RetryDeadline
                | Cause::ConnectTimeout
                | Cause::SendTimeout
                | Cause::ReadTimeout
                | Cause::BodyStalled
                | Cause::RequestTimeout
                | Cause::DeadlineExceeded
        )
    }
}

impl ExchangeFailure {
    /// A failure that happened at no particular node.
    #[inline]
    pub fn new(cause: Cause, detail: impl Into<Cow<'static, str>>) -> ExchangeFailure {
        ExchangeFailure::boxed(cause, detail.into())
    }

    /// Cold, so that what leads here is kept out of the way of what goes on.
    #[cold]
    #[inline(never)]
    fn boxed(cause: Cause, detail: Cow<'static, str>) -> ExchangeFailure {
        ExchangeFailure(Box::new(Details { cause, node: None, detail, answer: None, plugin: None }))
    }

    /// The same failure, at `node`.
    #[must_use]
    pub fn at(mut self, node: SocketAddr) -> ExchangeFailure {
        self.node = Some(node);
        self
    }

    /// The same failure, of this plugin.
    #[must_use]
    pub fn of_plugin(mut self, plugin: &'static str) -> ExchangeFailure {
        self.plugin = Some(plugin);
        self
    }

    /// The same failure, with this response.
    #[must_use]
    pub fn answered_with(mut self, answer: &Arc<FailureResponse>) -> ExchangeFailure {
        self.answer = Some(answer.clone());
        self
    }

    /// The same failure, by another name.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> ExchangeFailure {
        self.cause = cause;
        self
    }
}

impl Deref for ExchangeFailure {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl DerefMut for ExchangeFailure {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.0
    }
}

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:expr, $blame:ident, $phase:ident;)*) => {
        /// Every way in which an exchange can fail.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause { $($(#[$doc])* $name,)* }

        impl Cause {
            /// All causes, in the order of an exchange's life.
            pub const ALL: &'static [Cause] = &[$(Cause::$name,)*];

            /// The name used in logs and metrics.
            pub fn code(self) -> &'static str {
                match self { $(Cause::$name => $code,)* }
            }

            /// The status a client gets; where the response had already begun it is only logged.
            pub fn status(self) -> u16 {
                match self { $(Cause::$name => $status,)* }
            }

            /// The side at fault.
            pub fn blame(self) -> Blame {
                match self { $(Cause::$name => Blame::$blame,)* }
            }

            /// Where it happened.
            pub fn phase(self) -> FailurePhase {
                match self { $(Cause::$name => FailurePhase::$phase,)* }
            }
        }
    };
}

causes! {
    /// The request head or body breaks the grammar or framing of RFC 9110/9112.
    BadRequest = "client_bad_request", 400, Client, Request;
    /// The request line is longer than the limit.
    LineTooLong = "client_line_too_long", 414, Client, Request;
    /// The head, or the number of its fields, is over the limit.
    HeadTooLarge = "client_head_too_large", 431, Client, Request;
    /// The body is over the limit.
    BodyTooLarge = "client_body_too_large", 413, Client, Request;
    /// A transfer coding or method that this gateway does not implement.
    NotImplemented = "client_not_implemented", 501, Client, Request;
    /// An HTTP version that this gateway does not speak.
    VersionNotSupported = "client_version_not_supported", 505, Client, Request;
    /// An expectation other than `100-continue` (RFC 9110 section 10.1.1).
    ExpectationFailed = "client_expectation_failed", 417, Client, Request;
    /// CONNECT or TRACE, which this gateway never serves.
    MethodRefused = "client_method_refused", 405, Client, Request;
    /// The host asks for a client certificate, and the connection has no valid one.
    ClientCertificate = "client_certificate", 400, Client, Request;
    /// The connection was made for another server name than the host, which asks for client certificates.
    Misdirected = "client_misdirected", 421, Client, Request;
    /// The connection was made before the host's rules for client certificates changed.
    PolicyChanged = "client_policy_changed", 421, Client, Request;
    /// The head did not arrive within the head timeout.
    HeadTimeout = "client_head_timeout", 408, Client, Request;
    /// A message of a gRPC call is over the limit.
    MessageTooLarge = "client_message_too_large", 413, Client, Request;
    /// The body stopped arriving for the body timeout.
    BodyTimeout = "client_body_timeout", 408, Client, Request;
    /// The body came more slowly than the least rate.
    BodySlow = "client_body_slow", 408, Client, Request;
    /// The client went away before the answer was complete. 499 is nginx's number for it; no client receives
    /// it.
    ClientGone = "client_gone", 499, Client, Response;
    /// The client did not read its answer for the send timeout, or read it more slowly than the least rate.
    ClientSlow = "client_slow_read", 499, Client, Response;
    /// The request has passed through gateways of this kind too often, or the destination of a session is
    /// this instance: it goes round in a loop.
    LoopDetected = "loop_detected", 508, Gateway, Route;
    /// The search for a pattern of the configuration was given up, because the text is too long for it.
    PatternLimit = "pattern_limit", 400, Client, Route;
    /// No route matches.
    NoRoute = "route_not_found", 404, Client, Route;
    /// The route's service does not exist.
    MissingService = "missing_service", 503, Gateway, Route;
    /// The route's plugin_config or the consumer's consumer_group does not exist.
    MissingReference = "missing_reference", 503, Gateway, Route;
    /// The route, a global rule, or something that one of them needs is faulty and has no earlier good form.
    FaultyConfiguration = "faulty_configuration", 503, Gateway, Route;
    /// A plugin failed in a way that is this gateway's fault.
    PluginFailed = "plugin_failed", 500, Gateway, Route;
    /// The route has no upstream and no plugin answered.
    NoUpstream = "no_upstream", 503, Gateway, Balance;
    /// Memory is short, and the request's priority is not high enough.
    MemoryLimit = "memory_limit", 503, Gateway, Route;
    /// The upstream is slower than it uses to be, and as many requests wait for it as it can take.
    Overloaded = "overloaded", 503, Gateway, Balance;
    /// The circuit breaker of the upstream is open.
    CircuitOpen = "circuit_open", 503, Gateway, Balance;
    /// The upstream has as many requests in flight as it may.
    UpstreamRequests = "upstream_max_requests", 503, Gateway, Balance;
    /// Every node of the upstream has as many requests in flight as it may.
    NodeRequests = "node_max_requests", 503, Gateway, Balance;
    /// Every node of the upstream has as many connections as it may.
    NodeConnections = "node_max_connections", 503, Gateway, Balance;
    /// As many requests wait for the upstream as may.
    QueueFull = "queue_full", 503, Gateway, Balance;
    /// The request has waited for the upstream as long as it may.
    QueueTimeout = "queue_timeout", 503, Gateway, Balance;
    /// The route has as many requests in flight as it may.
    RouteRequests = "route_max_requests", 503, Gateway, Balance;
    /// The consumer has as many requests in flight as it may.
    ConsumerRequests = "consumer_max_requests", 503, Gateway, Balance;
    /// The upstream has no node that may be used.
    NoNode = "no_usable_node", 503, Gateway, Balance;
    /// The retry deadline passed.
    RetryDeadline = "retry_deadline", 502, Upstream, Balance;
    /// This machine has no descriptor or port left for a connection to the node.
    NoResources = "no_resources", 503, Gateway, Connect;
    /// The node refused or reset the connection attempt, or is unreachable.
    ConnectFailed = "connect_failed", 502, Upstream, Connect;
    /// The node closed or broke the connection during the TLS handshake.
    TlsClosed = "tls_closed", 502, Upstream, Connect;
    /// The node refused the TLS handshake or the client certificate, or broke the protocol.
    TlsFailed = "tls_failed", 502, Upstream, Connect;
    /// The node's certificate is not trusted, not valid for the name, or not valid now.
    CertificateRefused = "certificate_refused", 502, Upstream, Connect;
    /// The connection attempt, with its TLS handshake, took longer than the connect timeout.
    ConnectTimeout = "connect_timeout", 504, Upstream, Connect;
    /// The connection broke while the request was being sent.
    SendFailed = "send_failed", 502, Upstream, Send;
    /// The node did not take the request within the send timeout.
    SendTimeout = "send_timeout", 504, Upstream, Send;
    /// The node closed the connection before a complete response head.
    NoResponse = "origin_closed", 502, Upstream, Wait;
    /// No response head within the read timeout.
    ReadTimeout = "read_timeout", 504, Upstream, Wait;
    /// The response breaks the grammar or framing of RFC 9112, or is an unrequested 101.
    BadResponse = "origin_bad_response", 502, Upstream, Wait;
    /// The response body ended before it was complete; the client is cut off as well, so that it can tell.
    BodyCut = "origin_body_cut", 502, Upstream, Response;
    /// The response body stopped arriving for the read timeout.
    BodyStalled = "origin_body_stalled", 504, Upstream, Response;
    /// The response body is not in the coding that its head names, and a plugin has to read it.
    BodyUndecodable = "origin_body_undecodable", 502, Upstream, Response;
    /// The whole exchange took longer than the request timeout.
    RequestTimeout = "request_timeout", 504, Gateway, Response;
    /// The request, with all its attempts, took longer than the deadline of its upstream or its client
    /// allows.
    DeadlineExceeded = "deadline_exceeded", 504, Gateway, Response;
    /// A message of the response to a gRPC call is over the limit.
    ResponseMessageTooLarge = "response_message_too_large", 502, Gateway, Response;
    /// A body that a plugin has to see whole is over that plugin's limit.
    BufferLimit = "buffer_limit", 502, Gateway, Response;
}

/// How far a failed attempt got: whether a retry could double work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// No byte of the request reached the node.
    Nothing,
    /// Some of the request may have reached the node, and no byte of an answer came back.
    Unanswered,
    /// The node began to answer.
    Answered,
}

/// Why an object must not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// The cause that its requests fail with.
    pub cause: Cause,
    /// A sentence for the log that names the missing object.
    pub detail: Box<str>,
}

impl Unavailable {
    /// With this cause.
    pub fn new(cause: Cause, detail: impl Into<Box<str>>) -> Unavailable {
        Unavailable { cause, detail: detail.into() }
    }

    /// The failure of a request that needs the object.
    pub fn failure(&self) -> ExchangeFailure {
        ExchangeFailure::new(self.cause, self.detail.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_statuses_are_errors() {
        let mut codes: Vec<_> = Cause::ALL.iter().map(|cause| cause.code()).collect();
        codes.sort_unstable();
        let count = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), count, "two causes share a code");
        for cause in Cause::ALL {
            assert!((400..600).contains(&cause.status()), "{cause:?}");
            // 501 and 505 tell the client that it asked for what is not spoken here.
            let is_clients = cause.status() < 500 || matches!(cause.status(), 501 | 505);
            assert_eq!(cause.blame() == Blame::Client, is_clients, "{cause:?}: status and blame disagree");
        }
    }
}

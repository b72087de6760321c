//! Options that the engine gets at its start and that never change afterwards: limits, deadlines, forwarding.
//! Each limit is named and has a reason; none is read from a file here.

use std::net::SocketAddr;
use std::sync::Arc;

use message::HeadLimits;
use model::acme::Challenges;
use router::path::PathOptions;

use crate::client_address::RealIpOptions;

/// See the module.
#[derive(Clone, Debug)]
pub struct Options {
    /// How paths are brought into canonical form.
    pub path: PathOptions,
    /// The peers that may name the client.
    pub real_ip: RealIpOptions,
    /// Fields of forwarded messages.
    pub forward: ForwardOptions,
    /// Limits and deadlines.
    pub limits: EngineLimits,
    /// The timeouts of upstreams that name none.
    pub upstream_timeouts: AttemptTimeouts,
    /// Pins worker N to core N.
    pub pin: bool,
    /// Answers to challenges of certificate authorities; none where no certificates are ordered.
    pub challenges: Option<Arc<Challenges>>,
    /// The port that clients reach the gateway at over TLS.
    pub https_port: u16,
    /// Hosts that ask for client certificates are served to connections without TLS as well.
    pub mutual_tls_over_http: bool,
    /// Listeners, by their address as it was asked for or bound, on which HTTP/2 is not served.
    pub http1_only: Vec<SocketAddr>,
}

impl Options {
    /// Whether HTTP/2 is served on the listener that was asked for as `wanted` and is bound to `bound`.
    pub fn serves_http2(&self, wanted: SocketAddr, bound: SocketAddr) -> bool {
        self.limits.http2.is_enabled && !self.http1_only.iter().any(|only| *only == wanted || *only == bound)
    }
}

/// Limits and deadlines; 0 turns one off where it says so.
#[derive(Clone, Copy, Debug)]
pub struct EngineLimits {
    /// Limits of a client's head.
    pub head: HeadLimits,
    /// Limits of an upstream's head: bytes, and no number of fields.
    pub origin_head: HeadLimits,
    /// From the first byte of a head to its last, and from accept to the first byte.
    pub head_timeout_ms: u64,
    /// How long a worker may not turn its event loop before another one takes its place; 0 is without limit.
    pub worker_stall_timeout_ms: u64,
    /// Milliseconds from the accept of a TLS connection to the end of its handshake.
    pub handshake_timeout_ms: u64,
    /// Between two requests of a connection.
    pub idle_timeout_ms: u64,
    /// Between two reads of what a client still sends behind its last response.
    pub linger_timeout_ms: u64,
    /// From the last response of a connection to its end, while the client still sends; 0 closes at once.
    pub linger_time_ms: u64,
    /// Connections of one worker that end in this way at the same time; further ones end after a shorter
    /// time.
    pub max_lingering_connections: u32,
    /// Between two pieces of a request body.
    pub body_timeout_ms: u64,
    /// Without a byte of a response that the client takes.
    pub send_timeout_ms: u64,
    /// The slowest a client may send a request body while it is waited for; 0 is without limit.
    pub min_body_rate: u64,
    /// The slowest a client may take a response while it is waited for; 0 is without limit.
    pub min_send_rate: u64,
    /// Over how long those two, in bytes per second, are judged.
    pub rate_window_ms: u64,
    /// From the first byte of a request to the last of its response; 0 is without limit.
    pub request_timeout_ms: u64,
    /// A request body; 0 is without limit.
    pub max_body_bytes: u64,
    /// A request body that is read before a node is chosen because a variable looks into it.
    pub max_matched_body_bytes: usize,
    /// Bytes of a request body with a declared length that must have come before an endpoint is selected; 0
    /// is none.
    pub wait_for_body_bytes: usize,
    /// HTTP/2 of clients.
    pub http2: Http2Limits,
    /// HTTP/3 of clients.
    pub http3: Http3Limits,
    /// HTTP/2 to upstreams.
    pub upstream_http2: UpstreamHttp2Limits,
    /// Bytes of one gRPC message, in either direction; 0 is without limit.
    pub grpc_max_message_bytes: u64,
    /// Requests of one connection; 0 is without limit.
    pub max_requests_per_connection: u64,
    /// Client connections of the whole process.
    pub max_connections: usize,
    /// Client connections of one address in the whole process; 0 is without limit.
    pub max_connections_per_address: u32,
    /// Memory that this process may use; 0 is without limit.
    pub memory_limit_bytes: u64,
    /// Whether the requests that wait for an upstream are limited by its latency.
    pub adaptive_concurrency: bool,
}

impl Default for EngineLimits {
    fn default() -> EngineLimits {
        EngineLimits {
            head: HeadLimits::default(),
            origin_head: HeadLimits::OF_UPSTREAMS,
            head_timeout_ms: 10_000,
            worker_stall_timeout_ms: 30_000,
            handshake_timeout_ms: 10_000,
            idle_timeout_ms: 60_000,
            // The times of nginx (`lingering_timeout`, `lingering_time`).
            linger_timeout_ms: 5_000,
            linger_time_ms: 30_000,
            // A lingering connection holds no buffer while it waits, so that the descriptor is its cost.
            max_lingering_connections: 4_096,
            body_timeout_ms: 60_000,
            send_timeout_ms: 60_000,
            // A tenth of a modem's rate: no real client is as slow, and one byte per timeout is caught.
            min_body_rate: 128,
            min_send_rate: 128,
            // A mobile link may be gone for some seconds, and a kernel tells of what it has sent by the
            // buffer.
            rate_window_ms: 30_000,
            // How long an answer may take is the route's to say; a stream of events may go on for hours.
            request_timeout_ms: 0,
            max_body_bytes: 0,
            // Such variables read forms and calls, not uploads; each request in flight may hold as much.
            max_matched_body_bytes: 1024 * 1024,
            // At half the least rate this takes the window in which that is judged. So little that it comes
            // in one piece with most heads, and that a client which sends it by the byte holds less than 8
            // KiB.
            wait_for_body_bytes: 2_048,
            http2: Http2Limits::default(),
            http3: Http3Limits::default(),
            upstream_http2: UpstreamHttp2Limits::default(),
            // Messages pass in pieces, so that their size costs no memory here; servers have limits of their
            // own.
            grpc_max_message_bytes: 0,
            max_requests_per_connection: 0,
            max_connections: 100_000,
            // Behind a balancer all clients are one address: a default would cut a whole site off.
            max_connections_per_address: 0,
            // How much there is, is the machine's to say.
            memory_limit_bytes: 0,
            adaptive_concurrency: false,
        }
    }
}

/// Whether clients may speak HTTP/2, and what one of their connections may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Limits {
    /// Whether HTTP/2 is served: by ALPN over TLS, by prior knowledge without TLS.
    pub is_enabled: bool,
    /// Streams that a connection may have open at the same time; further ones are refused, so that the client
    /// may send them again.
    pub max_streams: u32,
    /// Bytes of a request body that may wait here while its endpoint takes none.
    pub stream_window_bytes: u32,
    /// The same for all streams of a connection together.
    pub connection_window_bytes: u32,
}

impl Default for Http2Limits {
    fn default() -> Http2Limits {
        Http2Limits {
            is_enabled: true,
            // A browser opens about 100; each costs an exchange of some KiB.
            max_streams: 128,
            // At 20 ms of distance about 6 MB/s for one upload.
            stream_window_bytes: 128 * 1024,
            // The memory that one client can hold by uploads that an endpoint does not take.
            connection_window_bytes: 1024 * 1024,
        }
    }
}

/// Limits of HTTP/3 connections of clients and of the handshakes of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http3Limits {
    /// Requests that a connection may have open at the same time.
    pub max_streams: u32,
    /// Bytes of a request body that may wait here while its endpoint takes none.
    pub stream_window_bytes: u32,
    /// The same for all streams of a connection together.
    pub connection_window_bytes: u32,
    /// Handshakes in progress on one worker from which on clients have to prove their address first (Retry);
    /// 0 is always.
    pub retry_handshakes: usize,
    /// Handshakes in progress on one worker from which on further ones are refused.
    pub max_handshakes: usize,
}

impl Default for Http3Limits {
    fn default() -> Http3Limits {
        Http3Limits {
            // As in HTTP/2.
            max_streams: 128,
            // At 20 ms of distance about 12 MB/s for one upload; datagrams that arrive out of order need some
            // of it.
            stream_window_bytes: 256 * 1024,
            // The memory that one client can hold by uploads that an endpoint does not take.
            connection_window_bytes: 1024 * 1024,
            // A handshake takes some 200 µs of a worker and one round trip; so many at once are a crowd, or
            // an attack with invented addresses, to which a Retry costs some microseconds.
            retry_handshakes: 128,
            // Each holds some 40 KiB.
            max_handshakes: 2_048,
        }
    }
}

/// The limits of a worker's HTTP/2 connections to upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamHttp2Limits {
    /// Requests that share a connection at the same time, if the endpoint allows as many; another connection
    /// is opened for further ones.
    pub max_streams: u32,
    /// Bytes of a response that may wait here while its client takes none. The window of the connection is so
    /// large that no client can stop the others.
    pub stream_window_bytes: u32,
    /// An endpoint that has sent nothing for so long is sent a PING while requests wait for it; 0 is never.
    pub ping_after_ms: u64,
    /// How long the answer to a PING may take before the connection counts as dead.
    pub ping_timeout_ms: u64,
}

impl Default for UpstreamHttp2Limits {
    fn default() -> UpstreamHttp2Limits {
        UpstreamHttp2Limits {
            // The number that RFC 9113 recommends servers to allow at least, and that most of them allow.
            max_streams: 100,
            // At 1 ms of distance about 120 MB/s for one response.
            stream_window_bytes: 128 * 1024,
            ping_after_ms: 30_000,
            // The default of gRPC libraries.
            ping_timeout_ms: 20_000,
        }
    }
}

/// Settings about forwarding; shared by all requests of a process.
#[derive(Clone, Debug)]
pub struct ForwardOptions {
    /// Peers that may send `X-Forwarded-Proto`, `-Host`, `-Port` and `Forwarded` (contract section 2.5).
    pub trusted_addresses: Vec<ipnet::IpNet>,
    /// The pseudonym in `Via` towards nodes (RFC 9110 section 7.6.3); nothing turns the field off.
    pub via: Option<Box<str>>,
    /// The value of `Server`; none keeps the upstream's own.
    pub server: Option<Box<str>>,
    /// `X-APISIX-Upstream-Status` on every response of a node, not only on server errors (contract section
    /// 2.5).
    pub show_upstream_status: bool,
    /// `X-Weir-Error` on responses with a status of 500 and more.
    pub error_header: bool,
    /// `X-Accel-…` fields of nodes are passed on to clients.
    pub accel_fields: bool,
    /// Failures are answered with a page of HTML where the client prefers one.
    pub html_errors: bool,
    /// `Alt-Svc` on responses over TLS, where HTTP/3 is served as well.
    pub alt_svc: AltSvc,
}

/// The value of `Alt-Svc` (RFC 7838).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AltSvc {
    /// HTTP/3 at the port of the listener, for a day.
    #[default]
    Port,
    /// None is sent.
    Off,
    /// This one, for gateways that clients reach at another port or name.
    Text(Box<str>),
}

impl AltSvc {
    /// The value for a listener at `port`.
    pub fn value(&self, port: u16) -> Option<String> {
        match self {
            AltSvc::Port => Some(format!("h3=\":{port}\"; ma=86400")),
            AltSvc::Off => None,
            AltSvc::Text(text) => Some(text.to_string()),
        }
    }
}

/// How long each step of a try may take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptTimeouts {
    /// Opening the connection.
    pub connect_ms: u64,
    /// Between two writes to the node.
    pub send_ms: u64,
    /// Between two reads from the node.
    pub read_ms: u64,
    /// Without a byte either way in a tunnel: what a route or upstream says of reading, else a setting of its
    /// own.
    pub tunnel_idle_ms: u64,
}

impl Default for AttemptTimeouts {
    fn default() -> Self {
        AttemptTimeouts {
            // The defaults of the contract's data plane: a minute each.
            connect_ms: 60_000,
            send_ms: 60_000,
            read_ms: 60_000,
            // One hour, because WebSocket clients commonly send nothing between pings, and those may be rare.
            tunnel_idle_ms: 3_600_000,
        }
    }
}

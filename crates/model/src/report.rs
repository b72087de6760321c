//! The state of the running gateway as control reads it and boot implements it: small traits, each usable as
//! `dyn`. Knows no implementation.

mod tap;
mod traffic;
mod upstream_nodes;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::loaded_endpoint::LoadedEndpoint;
use crate::snapshot::Applied;

pub use tap::{RequestRecord, SPANS_MAX, SpanGroup, Tap, TapCounts, TimelineSpan};
pub use traffic::{
    Breakdown, Figures, Top, Traffic, TrafficInterval, TrafficNow, TrafficPoint, TrafficRate, TrafficRow,
};
pub use upstream_nodes::{
    NodeProtection, NodeReport, NodeTransition, UnusableNodes, UpstreamNodes, UpstreamProtection,
    UpstreamReport,
};

/// Which configuration revision each worker runs.
pub trait WorkerRevisions: Send + Sync {
    /// One entry a worker, by worker number.
    fn revisions(&self) -> Vec<WorkerRevision>;

    /// The lowest revision that some worker still runs; none before the first configuration.
    fn lowest(&self) -> Option<u64> {
        self.revisions().into_iter().map(|worker| worker.revision).min()
    }
}

/// The configuration one worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerRevision {
    /// The worker's number, from 0.
    pub worker: usize,
    /// The revision of the snapshot it runs; 0 before the first.
    pub revision: u64,
}

/// The text of a metrics scrape.
pub trait MetricsText: Send + Sync {
    /// Appends all metrics in the Prometheus text format (0.0.4).
    fn write_metrics(&self, text: &mut String);
}

/// The health of upstream nodes, as `GET /v1/healthcheck` shows it.
pub trait NodeHealth: Send + Sync {
    /// The upstreams that are checked.
    fn health(&self) -> Vec<UpstreamHealth>;
}

/// The health of one upstream's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamHealth {
    /// The object the upstream is written in, as a path below the prefix (`/upstreams/1`, `/routes/7`).
    pub name: String,
    /// The protocol of the checks: `http`, `https`, `tcp` or `grpc`.
    pub check_type: &'static str,
    /// Its nodes.
    pub nodes: Vec<NodeStatus>,
}

/// The health of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its address.
    pub ip: String,
    /// Its port.
    pub port: u16,
    /// The host name it was resolved from.
    pub hostname: Option<Arc<str>>,
    /// The verdict.
    pub status: NodeVerdict,
    /// The counts that the verdict rests on.
    pub counter: HealthCounter,
    /// Why it was last taken for down.
    pub reason: Option<Arc<str>>,
}

/// The verdict on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeVerdict {
    /// Up.
    Healthy,
    /// Up, with recent failures.
    MostlyHealthy,
    /// Down, with recent successes.
    MostlyUnhealthy,
    /// Down.
    Unhealthy,
}

impl NodeVerdict {
    /// As the control API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            NodeVerdict::Healthy => "healthy",
            NodeVerdict::MostlyHealthy => "mostly_healthy",
            NodeVerdict::MostlyUnhealthy => "mostly_unhealthy",
            NodeVerdict::Unhealthy => "unhealthy",
        }
    }
}

/// Results counted since the verdict changed last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthCounter {
    /// Good answers.
    pub success: u32,
    /// Bad answers.
    pub http_failure: u32,
    /// Failed connections.
    pub tcp_failure: u32,
    /// Answers that did not come in time.
    pub timeout_failure: u32,
}

/// Whether the gateway can take traffic (`GET /status/ready`).
pub trait Readiness: Send + Sync {
    /// Nothing when every worker has a configuration.
    ///
    /// # Errors
    /// What is still missing, as a sentence.
    fn ready(&self) -> Result<(), String>;
}

/// A request that is asked about, the body of `POST /v1/weir/explain`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuestion {
    /// The method.
    pub method: String,
    /// An absolute URL, or a path with its query.
    pub url: String,
    /// Header fields, names and values, in order.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The client's address.
    #[serde(default = "loopback")]
    pub remote_addr: IpAddr,
    /// The length of the body, in bytes.
    #[serde(default)]
    pub body_bytes: u64,
    /// An object that is not saved, laid over the configuration in force for this question.
    #[serde(default)]
    pub with: Option<ExplainWith>,
}

/// A session of layer 4 that is asked about, in the field `stream` of that body.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainSession {
    /// The address that the client connects to.
    pub local: SocketAddr,
    /// How its bytes arrive.
    #[serde(default)]
    pub transport: SessionTransport,
    /// The client's address.
    #[serde(default = "loopback")]
    pub remote_addr: IpAddr,
    /// The server name of its TLS handshake, if there is one.
    #[serde(default)]
    pub sni: Option<String>,
    /// The protocols that the handshake offers by ALPN.
    #[serde(default)]
    pub alpn: Vec<String>,
    /// The protocol that its first bytes show: `http1`, `http2`, `tls`, `ssh` or `mqtt`.
    #[serde(default)]
    pub first: Option<String>,
}

/// How the bytes of a session of layer 4 arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionTransport {
    /// Over TCP as they are, at a listener of `stream_tcp`.
    #[default]
    Tcp,
    /// Over TLS that ends at the gateway, at a listener of `stream_tls`.
    Tls,
    /// In datagrams, at a listener of `stream_udp`.
    Udp,
}

impl SessionTransport {
    /// As written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SessionTransport::Tcp => "tcp",
            SessionTransport::Tls => "tls",
            SessionTransport::Udp => "udp",
        }
    }
}

/// An object that a question is asked with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainWith {
    /// Its key, such as `routes/1`.
    pub key: String,
    /// Its value, as it would be written to the Admin API.
    pub value: serde_json::Value,
}

fn loopback() -> IpAddr {
    IpAddr::V4(Ipv4Addr::LOCALHOST)
}

/// Answers what the router would do with a request, for `weir explain`.
pub trait Explain: Send + Sync {
    /// The decision record as JSON; by the configuration `with`, where that is given, instead of the one in
    /// force.
    ///
    /// # Errors
    /// What is wrong with the request, as a sentence.
    fn explain(
        &self,
        question: &ExplainQuestion,
        with: Option<&Applied>,
    ) -> Result<serde_json::Value, String>;

    /// The decision record for a session of layer 4, as JSON.
    ///
    /// # Errors
    /// The fault of the question, as a sentence.
    fn explain_session(&self, session: &ExplainSession) -> Result<serde_json::Value, String>;
}

/// A request to an endpoint of loaded code in the control API.
#[derive(Clone, Debug)]
pub struct EndpointRequest {
    /// The method.
    pub method: String,
    /// The path and the query.
    pub target: String,
    /// Header fields, in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
    /// The client.
    pub peer: SocketAddr,
}

/// The answer of such an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointReply {
    /// The status.
    pub status: u16,
    /// Header fields.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer of an endpoint that is not complete yet; an error is a sentence that says why there is none.
pub type PendingReply = Pin<Box<dyn Future<Output = Result<EndpointReply, String>> + Send>>;

/// Answers requests to endpoints of loaded code in the control API.
pub trait EndpointResponder: Send + Sync {
    /// The answer of `endpoint`.
    fn ask(&self, endpoint: LoadedEndpoint, request: EndpointRequest) -> PendingReply;
}

/// A listener of this instance.
pub trait Listening: Send + Sync {
    /// Every listener, the proxy's first.
    fn listeners(&self) -> Vec<ListenerReport>;

    /// Open sessions of layer 4.
    fn sessions(&self) -> OpenSessions {
        OpenSessions::default()
    }
}

/// Open sessions of layer 4, of all listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenSessions {
    /// Over TCP, within TLS too.
    pub tcp: usize,
    /// Over UDP.
    pub udp: usize,
}

/// One listener of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerReport {
    /// Its use, as its setting is called: `proxy`, `admin`.
    pub name: &'static str,
    /// Its address, with the real port.
    pub address: SocketAddr,
    /// The protocols on its connections, outermost first: `http1`.
    pub protocols: Vec<&'static str>,
}

impl ListenerReport {
    /// Whether stream routes serve it.
    #[must_use]
    pub fn is_layer_4(&self) -> bool {
        self.protocols.iter().any(|protocol| matches!(*protocol, "tcp" | "udp"))
    }
}

/// The certificates that clients and nodes are shown.
pub trait Certificates: Send + Sync {
    /// Those that end first, at most `most`, and the number of all.
    fn certificates(&self, most: usize) -> (Vec<CertificateReport>, usize);
}

/// One certificate of an `ssl` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateReport {
    /// The id of the object.
    pub id: Arc<str>,
    /// The server names of the object.
    pub names: Vec<Box<str>>,
    /// Whether it is shown to nodes, and not to clients.
    pub is_shown_to_nodes: bool,
    /// Whether it is shown to clients, and why not.
    pub state: CertificateState,
    /// The facts of the certificate; none for an object that is faulty and has no good form.
    pub facts: Option<CertificateFacts>,
}

/// The facts of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Its place among the certificates of the object, from 0.
    pub index: usize,
    /// The begin of its validity, in seconds since the Unix epoch.
    pub not_before_s: i64,
    /// The end of its validity, in seconds since the Unix epoch.
    pub not_after_s: i64,
    /// The subject.
    pub subject: String,
    /// The issuer.
    pub issuer: String,
    /// The serial number in hexadecimal digits.
    pub serial: String,
    /// The type of its key, such as `ECDSA P-256`; none if it is not known.
    pub key_type: Option<String>,
    /// Whether an OCSP response is stapled to it.
    pub has_staple: bool,
    /// Whether clients may refuse it without an OCSP response.
    pub must_staple: bool,
}

/// Whether a certificate is shown to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateState {
    /// It is valid, and shown.
    Valid,
    /// Its validity has not begun; it is shown.
    NotYetValid,
    /// It has expired; it is shown.
    Expired,
    /// It has expired and is not shown, because of a setting.
    Refused,
    /// The object cannot be used and has no good form; handshakes for its names are refused.
    Faulty,
}

impl CertificateState {
    /// As the control API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CertificateState::Valid => "valid",
            CertificateState::NotYetValid => "not_yet_valid",
            CertificateState::Expired => "expired",
            CertificateState::Refused => "refused",
            CertificateState::Faulty => "faulty",
        }
    }
}

/// How much the node's own log tells, while it runs.
pub trait LogLevel: Send + Sync {
    /// The level in force, as it was written: `info`, or `warn,control=debug`.
    fn level(&self) -> String;

    /// Sets the level, from now on.
    ///
    /// # Errors
    /// What is wrong with the text and what to write; the level stays.
    fn set_level(&self, level: &str) -> Result<(), String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two;

    impl WorkerRevisions for Two {
        fn revisions(&self) -> Vec<WorkerRevision> {
            vec![WorkerRevision { worker: 0, revision: 9 }, WorkerRevision { worker: 1, revision: 7 }]
        }
    }

    #[test]
    fn the_traits_are_usable_as_dyn() {
        let report: Arc<dyn WorkerRevisions> = Arc::new(Two);
        assert_eq!(report.lowest(), Some(7));
        fn _object_safe(
            _: &dyn MetricsText,
            _: &dyn NodeHealth,
            _: &dyn Readiness,
            _: &dyn Explain,
            _: &dyn LogLevel,
            _: &dyn Listening,
            _: &dyn Certificates,
        ) {
        }
        fn _upstream_nodes(_: &dyn UpstreamNodes) {}
    }
}

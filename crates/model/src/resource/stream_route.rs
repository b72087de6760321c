//! A layer 4 route. Knows its fields; the gateway finds the route of a connection.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

use super::common::ObjectLabels;
use super::route::AddressOrNetwork;
use super::{Plugins, UpstreamConfig};
use crate::{Id, number};

/// Which layer 4 connections go where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRoute {
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(rename = "create_time")]
    _create_time: Option<f64>,
    #[serde(rename = "update_time")]
    _update_time: Option<f64>,
    /// The client addresses it matches.
    #[serde(default, deserialize_with = "address")]
    pub remote_addr: Option<IpNet>,
    /// The listening addresses it matches.
    #[serde(default, deserialize_with = "address")]
    pub server_addr: Option<IpNet>,
    /// The listening port it matches.
    #[serde(default, deserialize_with = "number::optional_integer")]
    pub server_port: Option<u16>,
    /// The server name of the TLS handshake it matches.
    pub sni: Option<Box<str>>,
    /// Protocols of which the client offers one by ALPN (RFC 7301); empty: any connection. Not in APISIX.
    #[serde(default)]
    pub alpn: Box<[Box<str>]>,
    /// The protocol that the first bytes show. Not in APISIX.
    pub sniff: Option<SniffedProtocol>,
    /// The PROXY protocol header that nodes are sent; none: as the listener says. Not in APISIX.
    pub proxy_protocol: Option<SendProxyProtocol>,
    /// A session without a byte either way ends after this time. Not in APISIX.
    #[serde(default = "idle_timeout", deserialize_with = "number::seconds")]
    pub idle_timeout: Duration,
    /// A session ends after this time, whatever it sends; zero: it has no limit. Not in APISIX.
    #[serde(default, deserialize_with = "number::seconds")]
    pub session_timeout: Duration,
    /// The datagrams of a session over UDP. Not in APISIX.
    pub udp: Option<DatagramOptions>,
    /// An upstream of its own.
    pub upstream: Option<Arc<UpstreamConfig>>,
    /// The upstream it forwards to.
    pub upstream_id: Option<Id>,
    /// The service it takes the rest from.
    pub service_id: Option<Id>,
    /// Its plugins.
    #[serde(default)]
    pub plugins: Plugins,
    /// The protocol spoken inside.
    pub protocol: Option<Box<StreamProtocol>>,
    /// A name for people.
    pub name: Option<Box<str>>,
    /// A description for people.
    pub desc: Option<Box<str>>,
    /// Marks for people and tools.
    #[serde(default)]
    pub labels: ObjectLabels,
}

/// A protocol that a client's first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum SniffedProtocol {
    Http1,
    Http2,
    Tls,
    Ssh,
    Mqtt,
}

impl SniffedProtocol {
    /// All of them.
    pub const ALL: [SniffedProtocol; 5] = [
        SniffedProtocol::Http1,
        SniffedProtocol::Http2,
        SniffedProtocol::Tls,
        SniffedProtocol::Ssh,
        SniffedProtocol::Mqtt,
    ];

    /// As written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SniffedProtocol::Http1 => "http1",
            SniffedProtocol::Http2 => "http2",
            SniffedProtocol::Tls => "tls",
            SniffedProtocol::Ssh => "ssh",
            SniffedProtocol::Mqtt => "mqtt",
        }
    }
}

/// Sessions over UDP: when one ends by its datagrams, as nginx's `proxy_responses` and `proxy_requests`, and
/// where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatagramOptions {
    /// The answers to each datagram of the client; the session ends when it has had them.
    #[serde(default, deserialize_with = "number::optional_integer")]
    pub responses: Option<u64>,
    /// The datagrams of the client, after which its next one begins another session.
    #[serde(default, deserialize_with = "number::optional_integer")]
    pub requests: Option<u64>,
    /// Whether nodes are sent the datagrams from the port of the client, where it is free.
    #[serde(default)]
    pub keep_source_port: bool,
}

/// The PROXY protocol header that nodes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendProxyProtocol {
    /// Its version, 1 or 2; 0: none is sent.
    #[serde(deserialize_with = "number::deserialize_integer")]
    pub version: u8,
}

/// The protocol spoken inside a layer 4 connection.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamProtocol {
    /// The protocol.
    pub name: Box<str>,
    /// The stream route this one is subordinate to.
    pub superior_id: Option<Id>,
    /// The protocol's own configuration.
    pub conf: Option<Value>,
    /// The loggers of its calls.
    #[serde(default)]
    pub logger: Box<[ProtocolLogger]>,
    /// Its metrics.
    pub metric: Option<ProtocolMetric>,
}

/// A logger of the calls of a protocol.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolLogger {
    /// The plugin.
    pub name: Box<str>,
    /// It logs only calls for which this expression holds.
    pub filter: Option<Value>,
    /// The plugin's configuration.
    pub conf: Value,
}

/// The metrics of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolMetric {
    /// Whether they are kept.
    #[serde(default)]
    pub enable: bool,
}

/// The default of `idle_timeout`: ten minutes, as `proxy_timeout` of nginx.
const fn idle_timeout() -> Duration {
    Duration::from_secs(600)
}

fn address<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<IpNet>, D::Error> {
    AddressOrNetwork::deserialize(deserializer).map(|address| Some(address.0))
}

//! The form of a scenario file: one load, the same for every contender. It starts nothing and reads no clock.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::yaml;

/// One load. Its file is `lab/scenarios/NAME.yaml`; an unknown key is refused.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name without its ending; not written in the file.
    #[serde(default)]
    pub name: String,
    /// One line for headings: "21 bytes, kept connections, 100 at once".
    pub title: String,
    /// The purpose, or the published test that it repeats, in one or two sentences.
    pub about: String,
    /// The protocol of clients and gateway.
    #[serde(default)]
    pub protocol: ScenarioProtocol,
    /// The key of the certificate that a gateway shows over TLS.
    #[serde(default, skip_serializing_if = "KeyKind::is_usual")]
    pub certificate: KeyKind,
    /// The load generator and its requests.
    pub load: ScenarioLoad,
    /// Only these contenders, by name; all that speak the protocol if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contenders: Option<Vec<String>>,
    /// Workers (threads, event loops, processes) of each gateway.
    #[serde(default = "one")]
    pub workers: u16,
    /// The contender that others are compared with; `nginx` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Routes that a gateway has beside the measured ones. A contender that cannot be given them is absent.
    #[serde(default)]
    pub routes: u32,
    /// Connections that are open and idle beside the load.
    #[serde(default)]
    pub idle_connections: u32,
    /// Slow clients beside the load.
    #[serde(default)]
    pub slow_clients: u32,
    /// Changes of the configuration per second while the load runs. A contender that cannot change is absent.
    #[serde(default)]
    pub changes_per_second: f64,
    /// Whether all contenders run and receive load at once, competing for the machine.
    #[serde(default)]
    pub together: bool,
    /// Length of one measured run in seconds; the command line's or the default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Measured rounds; the command line's or the default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Whether it is part of `--quick`.
    #[serde(default)]
    pub quick: bool,
}

/// The protocol of clients and gateway. The origin speaks HTTP/1.1, echoes frames for WebSocket, and answers
/// calls of gRPC over HTTP/2 in clear text. At layer 4 it is `weir lab echo`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ScenarioProtocol {
    /// HTTP/1.1 or 1.0 in clear text.
    #[default]
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// HTTP/2 over TLS.
    Http2,
    /// HTTP/2 in clear text, by prior knowledge.
    H2c,
    /// gRPC over HTTP/2 in clear text, to the origin as well.
    Grpc,
    /// HTTP/3.
    Http3,
    /// WebSocket over HTTP/1.1 in clear text.
    Websocket,
    /// Bytes over TCP, which the origin of `weir lab echo` sends back or repeats.
    Tcp,
    /// Datagrams over UDP, which come back.
    Udp,
    /// TLS that the gateway does not end: it reads the name in the ClientHello and passes bytes on.
    #[serde(rename = "tls-by-name")]
    TlsByName,
}

impl ScenarioProtocol {
    /// The name in files and start scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Http2 => "http2",
            Self::H2c => "h2c",
            Self::Grpc => "grpc",
            Self::Http3 => "http3",
            Self::Websocket => "websocket",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::TlsByName => "tls-by-name",
        }
    }

    /// Whether clients speak TLS, over TCP or within QUIC.
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Https | Self::Http2 | Self::Http3)
    }

    /// Whether clients send bytes or datagrams in which a gateway finds no requests.
    pub fn is_layer4(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp | Self::TlsByName)
    }

    /// Whether a connection carries many requests at once.
    pub fn has_streams(self) -> bool {
        matches!(self, Self::Http2 | Self::H2c | Self::Grpc | Self::Http3)
    }

    /// Whether its load generator is h2load.
    fn needs_h2load(self) -> bool {
        matches!(self, Self::Http2 | Self::H2c | Self::Grpc)
    }
}

/// The key of a certificate.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// ECDSA on the curve P-256, the kind that most sites have.
    #[default]
    Ecdsa,
    /// RSA of 2048 bits.
    Rsa,
}

impl KeyKind {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ecdsa => "ecdsa",
            Self::Rsa => "rsa",
        }
    }

    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    V1_3,
}

impl TlsVersion {
    /// The name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
        }
    }
}

/// The load generator and its requests.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioLoad {
    /// The program.
    pub tool: Tool,
    /// Path and query of every request; see `weir origin` for the responses.
    #[serde(default = "small_path")]
    pub path: String,
    /// Connections (`-c`).
    pub connections: u32,
    /// Threads of the load generator (`-t` of wrk and h2load); `ab` has one.
    #[serde(default = "one")]
    pub threads: u16,
    /// Whether connections are kept; otherwise each carries one request.
    #[serde(default = "yes")]
    pub keep_alive: bool,
    /// This many requests instead of a time (`ab -n`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// This many requests are due per second, whatever the responses do. With `weir` an open loop; `h2load`
    /// divides them among its connections and counts latency from when a request was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Open loop at this share of the slowest contender's throughput. Only `weir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_share: Option<f64>,
    /// Requests are POSTs with a body of this many bytes. Only `weir`; with gRPC, the length of a message, 16
    /// if absent; with TCP and UDP the length of a message or datagram, 64 if absent.
    #[serde(default)]
    pub body_bytes: u64,
    /// Requests in flight on one connection of HTTP/2 or HTTP/3 (`-m` of h2load).
    #[serde(default = "one")]
    pub streams: u16,
    /// The load generator's flow-control windows are this power of two, less one, for a stream and for a
    /// connection (`-w` and `-W` of h2load). If absent, they are 30 bits, which never fill up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bits: Option<u8>,
    /// Whether every connection after the first of its client resumes the session before it; otherwise every
    /// handshake is a full one. Any other handshake is a failure. Only `weir` over https.
    #[serde(default, skip_serializing_if = "is_false")]
    pub resume: bool,
    /// The version of TLS that clients offer; all if absent. Only `weir` over https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<TlsVersion>,
    /// Whether the origin sends its block again and again; a million bytes count as one answer. Only `weir`
    /// over TCP.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bulk: bool,
    /// Datagrams in flight over all sources, which are the connections. Only `weir` over UDP; 64 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// The `Accept-Encoding` of every request. Only `wrk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_encoding: Option<String>,
    /// The expected response.
    #[serde(default)]
    pub expect: Expect,
}

/// A load generator.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// wrk, closed loop.
    Wrk,
    /// ApacheBench, closed loop, HTTP/1.0.
    Ab,
    /// h2load of nghttp2, closed loop.
    H2load,
    /// The generator of this crate, `weir lab load`.
    Weir,
}

/// The expected response; any other is a failure.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Its status.
    pub status: u16,
    /// The length of its body; not compared if absent (and by tools that cannot).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// One response in so many is allowed to be a 500, from an origin that fails (`/flaky/N`); 0 for none.
    pub failing_one_in: u32,
}

impl Default for Expect {
    fn default() -> Self {
        Self { status: 200, bytes: None, failing_one_in: 0 }
    }
}

fn one() -> u16 {
    1
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

fn small_path() -> String {
    "/checked-out".to_owned()
}

impl Scenario {
    /// Reads one file's text; `name` is the file's name without its ending. Fails with line and reason.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        Self::parse_file(name, &format!("{name}.yaml"), text)
    }

    /// As [`Self::parse`]; `file` is the name of the file in a fault.
    pub fn parse_file(name: &str, file: &str, text: &str) -> anyhow::Result<Self> {
        let mut scenario: Self = yaml::parse_yaml(file, text)?;
        name.clone_into(&mut scenario.name);
        scenario.check().with_context(|| file.to_owned())?;
        Ok(scenario)
    }

    /// Whether contenders can take turns in it: nothing in it depends on the clock, or runs beside the load.
    pub fn can_take_turns(&self) -> bool {
        let paced = self.load.rate.is_some() || self.load.rate_share.is_some();
        let beside = self.idle_connections > 0 || self.slow_clients > 0 || self.changes_per_second > 0.0;
        !paced && !beside && !self.together
    }

    /// Whether routes, changes or other clients are beside the load.
    fn has_company(&self) -> bool {
        self.routes > 0 || self.idle_connections > 0 || self.slow_clients > 0 || self.changes_per_second > 0.0
    }

    /// Checks the rules that the types cannot express.
    fn check(&self) -> anyhow::Result<()> {
        let load = &self.load;
        if load.connections == 0 || self.workers == 0 || load.threads == 0 {
            bail!("`connections`, `threads` and `workers` are at least 1");
        }
        let is_own = load.tool == Tool::Weir;
        if load.accept_encoding.is_some() && load.tool != Tool::Wrk {
            bail!("`accept_encoding` needs `tool: wrk`: {:?} cannot", load.tool);
        }
        if (load.rate_share.is_some() || (load.body_bytes > 0 && self.protocol != ScenarioProtocol::Grpc))
            && !is_own
        {
            bail!("`rate_share` and `body_bytes` need `tool: weir`: {:?} cannot", load.tool);
        }
        if load.rate.is_some() && !is_own && load.tool != Tool::H2load {
            bail!("`rate` needs `tool: weir` or `tool: h2load`: {:?} cannot", load.tool);
        }
        if self.protocol.needs_h2load() && load.tool != Tool::H2load {
            bail!("`protocol: {}` needs `tool: h2load`", self.protocol.name());
        }
        if self.protocol.is_layer4()
            && (load.rate.is_some() || load.rate_share.is_some() || self.has_company())
        {
            bail!(
                "`protocol: {}` has neither a rate nor routes, changes, idle or slow clients beside the load",
                self.protocol.name()
            );
        }
        if load.bulk && (self.protocol != ScenarioProtocol::Tcp || !load.keep_alive || load.body_bytes > 0) {
            bail!("`bulk` needs `protocol: tcp`, kept connections and no `body_bytes`");
        }
        if load.at_once.is_some() && self.protocol != ScenarioProtocol::Udp {
            bail!("`at_once` needs `protocol: udp`");
        }
        let has_one_generator =
            matches!(self.protocol, ScenarioProtocol::Websocket | ScenarioProtocol::Http3);
        if (has_one_generator || self.protocol.is_layer4()) && !is_own {
            bail!("`protocol: {}` needs `tool: weir`", self.protocol.name());
        }
        if load.window_bits.is_some_and(|bits| !WINDOW_BITS.contains(&bits) || load.tool != Tool::H2load) {
            bail!("`window_bits` is from 1 to 30, and needs `tool: h2load`");
        }
        if (load.resume || load.tls_version.is_some())
            && (self.protocol != ScenarioProtocol::Https || !is_own)
        {
            bail!("`resume` and `tls_version` need `protocol: https` and `tool: weir`");
        }
        if self.certificate != KeyKind::default() && !self.protocol.is_encrypted() {
            bail!("`certificate` needs a protocol over TLS: https, http2 or http3");
        }
        Ok(())
    }
}

/// Windows of HTTP/2 have at most 31 bits, and h2load takes up to 30.
const WINDOW_BITS: std::ops::RangeInclusive<u8> = 1..=30;

#[cfg(test)]
mod tests;

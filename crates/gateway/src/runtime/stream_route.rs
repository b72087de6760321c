//! A compiled stream route: what it matches, its plugins, and where its sessions go. The table that finds it
//! is `stream_table`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use exchange::failure::Unavailable;
use exchange::plugin::stream::StreamTransport;
use exchange::plugin::stream::chain::StreamChain;
use exchange::plugin::stream::protocol::StreamProtocol;
use ipnet::IpNet;
use net::proxy_protocol::ProxyHeaderVersion;
use net::sniff::FirstProtocol;

/// A compiled stream route, merged with its service.
pub struct StreamRoute {
    /// Its id.
    pub id: Arc<str>,
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// The id of its service, if it has one.
    pub service_id: Option<Arc<str>>,
    /// The sessions that it matches.
    pub matching: StreamMatch,
    /// Its chain.
    pub plugins: StreamChain,
    /// Where its sessions go.
    pub target: StreamTarget,
    /// The protocol that is spoken inside, if the route names one.
    pub spoken: Option<SpokenProtocol>,
    /// The PROXY protocol header that its nodes are sent.
    pub sends_proxy: ProxyHeader,
    /// How long no byte may pass, in milliseconds; 0 is without limit.
    pub idle_timeout_ms: u64,
    /// How long a session may be, in milliseconds; 0 is without limit.
    pub session_timeout_ms: u64,
    /// The datagrams of a session over UDP.
    pub datagrams: DatagramOptions,
    /// Why it must not serve, if an object that it refers to is missing or faulty, or a plugin of it cannot
    /// be built: without this its sessions could go to another route, past its protection.
    pub missing: Option<Unavailable>,
}

impl StreamRoute {
    /// Whether a plugin of it needs the services of the session's worker.
    pub fn uses_worker(&self) -> bool {
        let calls_do = |spoken: &SpokenProtocol| spoken.loggers.uses_worker();
        self.plugins.uses_worker() || self.spoken.as_ref().is_some_and(calls_do)
    }
}

/// A protocol that is spoken inside the sessions of a route.
pub struct SpokenProtocol {
    /// Reads their bytes.
    pub protocol: Arc<dyn StreamProtocol>,
    /// See each call.
    pub loggers: StreamChain,
}

/// When a session over UDP ends by its datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramOptions {
    /// Answers that follow a datagram of the client, after which the session ends; none if that is not known.
    pub responses: Option<u64>,
    /// Datagrams of the client, after which the next one begins another session; 0 is without limit.
    pub requests: u64,
    /// Nodes are sent the datagrams from the port of the client, where it is free.
    pub keeps_source_port: bool,
}

/// The PROXY protocol header that nodes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// One of version 1 if the listener asks for it.
    OfListener,
    /// None, whatever the listener asks for.
    None,
    /// One of this version.
    Version(ProxyHeaderVersion),
}

impl ProxyHeader {
    /// The version that is sent for a session of a listener that `asks` for a header.
    pub fn version(self, asks: bool) -> Option<ProxyHeaderVersion> {
        match self {
            ProxyHeader::OfListener => asks.then_some(ProxyHeaderVersion::V1),
            ProxyHeader::None => None,
            ProxyHeader::Version(version) => Some(version),
        }
    }
}

/// Where the sessions of a stream route go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamTarget {
    /// To a node of the upstream in this slot.
    Upstream(u32),
    /// To the HTTP routes: the connection is served as one of an HTTP listener.
    Http,
    /// Nowhere, unless a plugin chooses an upstream.
    None,
}

/// The sessions that a stream route is for, by the scheme of its upstream or the protocol that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// Those over a connection.
    Connection,
    /// Those over UDP.
    Datagram,
}

/// The sessions that a stream route matches; an absent condition matches all.
#[derive(Debug, Default)]
pub struct StreamMatch {
    /// The kind of sessions.
    pub kind: Option<SessionKind>,
    /// The client's address.
    pub client: Option<IpNet>,
    /// The address that the client connected to.
    pub server: Option<IpNet>,
    /// The port that the client connected to.
    pub port: Option<u16>,
    /// The server name of the TLS handshake.
    pub name: Option<NamePattern>,
    /// Protocols of which the TLS handshake offers one by ALPN; empty for any.
    pub alpn: Box<[Box<str>]>,
    /// The protocol that the first bytes show.
    pub sniff: Option<FirstProtocol>,
}

/// A pattern of server names, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePattern {
    /// This name.
    Exact(Box<str>),
    /// Every name that ends so; an empty text matches every name.
    Suffix(Box<str>),
}

impl NamePattern {
    /// The pattern that is written so: a name, or `*` and the end of names.
    pub fn new(written: &str) -> NamePattern {
        let written = written.to_ascii_lowercase();
        match written.strip_prefix('*') {
            Some(end) => NamePattern::Suffix(end.into()),
            None => NamePattern::Exact(written.into()),
        }
    }
}

/// A session as the table of stream routes looks at it.
#[derive(Clone, Copy, Debug)]
pub struct StreamQuery<'a> {
    /// How the client's bytes arrive.
    pub transport: StreamTransport,
    /// The client's address.
    pub client: IpAddr,
    /// The address that the client connected to.
    pub local: SocketAddr,
    /// The server name of the TLS handshake, in lower case, if there is one.
    pub name: Option<&'a str>,
    /// The protocols that the TLS handshake offers.
    pub alpn: &'a [Box<str>],
    /// The protocol that the first bytes show; none if nothing was read.
    pub sniffed: Option<FirstProtocol>,
}

/// The condition on first bytes.
const SNIFF: &str = "sniff";

impl StreamMatch {
    /// Whether it matches the addresses of the session.
    pub fn matches_addresses(&self, query: &StreamQuery<'_>) -> bool {
        let within = |network: &Option<IpNet>, address: IpAddr| {
            network.is_none_or(|network| network.contains(&address.to_canonical()))
        };
        self.matches_kind(query)
            && self.port.is_none_or(|port| port == query.local.port())
            && within(&self.client, query.client)
            && within(&self.server, query.local.ip())
    }

    /// Whether it may match the session once first bytes are known. Of TLS that ends here the name and ALPN
    /// are known before, and datagrams have none.
    pub(super) fn may_match(&self, query: &StreamQuery<'_>) -> bool {
        match query.transport {
            StreamTransport::Tcp => self.matches_addresses(query),
            StreamTransport::Tls | StreamTransport::Udp => {
                self.misses(query).is_none_or(|condition| condition == SNIFF)
            }
        }
    }

    fn matches_kind(&self, query: &StreamQuery<'_>) -> bool {
        let is_datagram = query.transport == StreamTransport::Udp;
        self.kind.is_none_or(|kind| (kind == SessionKind::Datagram) == is_datagram)
    }

    /// Why it does not match the session; none if it does. The name has been found by the table.
    pub fn misses(&self, query: &StreamQuery<'_>) -> Option<&'static str> {
        let within = |network: &Option<IpNet>, address: IpAddr| {
            network.is_none_or(|network| network.contains(&address.to_canonical()))
        };
        if self.port.is_some_and(|port| port != query.local.port()) {
            return Some("server_port");
        }
        if !self.matches_kind(query) {
            return Some("transport");
        }
        if !within(&self.server, query.local.ip()) {
            return Some("server_addr");
        }
        if !within(&self.client, query.client) {
            return Some("remote_addr");
        }
        let has_name = match (&self.name, query.name) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(NamePattern::Exact(name)), Some(asked)) => **name == *asked,
            (Some(NamePattern::Suffix(end)), Some(asked)) => asked.ends_with(&**end),
        };
        if !has_name {
            return Some("sni");
        }
        if !self.alpn.is_empty() && !query.alpn.iter().any(|offered| self.alpn.contains(offered)) {
            return Some("alpn");
        }
        if self.sniff.is_some() && self.sniff != query.sniffed {
            return Some(SNIFF);
        }
        None
    }

    /// The order of routes that match a session alike: the more precise goes first.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        let bits = |network: &Option<IpNet>| network.map_or(0, |network| 1 + u16::from(network.prefix_len()));
        let name = match &self.name {
            Some(NamePattern::Exact(_)) => usize::MAX,
            Some(NamePattern::Suffix(end)) => 1 + end.len(),
            None => 0,
        };
        let sniffs = (!self.alpn.is_empty(), self.sniff.is_some());
        let addresses = (bits(&self.server), bits(&self.client));
        std::cmp::Reverse((name, sniffs, self.port.is_some(), addresses, self.kind.is_some()))
    }
}

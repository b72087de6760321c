//! The protocols of a listener, and those of its facts that change while its sockets stay bound.

use std::sync::atomic::{AtomicBool, Ordering};

use super::interception::Interception;

/// The protocols of a listener's connections, from the socket up. Layers around HTTP/1 (TLS, the PROXY
/// protocol) are fields here, protocols in its place (HTTP/2, layer 4) variants of [`Application`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols {
    /// A PROXY protocol header in front of everything else.
    pub proxy_protocol: bool,
    /// That header may be missing. Only with `proxy_protocol`; it may change while the listener stays bound.
    pub proxy_protocol_optional: bool,
    /// Nodes of its sessions are sent a PROXY protocol header of version 1, unless the stream route says
    /// otherwise. It may change while the listener stays bound.
    pub proxy_protocol_to_nodes: bool,
    /// Its connections were opened to other destinations.
    pub interception: Interception,
    /// TLS beneath.
    pub tls: bool,
    /// HTTP/3 on UDP, at the same address and port.
    pub http3: bool,
    /// Datagrams in place of connections: the listener has UDP sockets alone. Only with
    /// [`Application::Stream`].
    pub udp: bool,
    /// The protocol inside of every layer.
    pub application: Application,
}

/// A protocol that connections are served by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// HTTP/1.0 and 1.1.
    Http1,
    /// None that the gateway knows: bytes are passed on by the stream routes.
    Stream,
}

impl Protocols {
    /// Plain HTTP/1.
    pub const HTTP1: Protocols = Protocols {
        proxy_protocol: false,
        proxy_protocol_optional: false,
        proxy_protocol_to_nodes: false,
        interception: Interception::None,
        tls: false,
        http3: false,
        udp: false,
        application: Application::Http1,
    };

    /// Bytes over TCP.
    pub const TCP: Protocols = Protocols { application: Application::Stream, ..Protocols::HTTP1 };

    /// Bytes over TLS, which ends here.
    pub const TLS: Protocols = Protocols { tls: true, ..Protocols::TCP };

    /// Datagrams over UDP.
    pub const UDP: Protocols = Protocols { udp: true, ..Protocols::TCP };

    /// HTTP/1 over TLS.
    pub const HTTPS1: Protocols = Protocols { tls: true, ..Protocols::HTTP1 };

    /// HTTP/1 over TLS, and HTTP/3 beside it.
    pub const HTTPS_AND_HTTP3: Protocols = Protocols { http3: true, ..Protocols::HTTPS1 };

    /// The same behind a PROXY protocol header.
    #[must_use]
    pub const fn behind_proxy_protocol(self) -> Protocols {
        Protocols { proxy_protocol: true, ..self }
    }

    /// The same behind a PROXY protocol header that may be missing.
    #[must_use]
    pub const fn behind_optional_proxy_protocol(self) -> Protocols {
        Protocols { proxy_protocol: true, proxy_protocol_optional: true, ..self }
    }

    /// The protocols without the facts that may change while a listener stays bound: listeners with the same
    /// are one.
    #[must_use]
    pub const fn as_bound(self) -> Protocols {
        Protocols { proxy_protocol_optional: false, proxy_protocol_to_nodes: false, ..self }
    }

    /// Their names, outermost first.
    pub fn names(self) -> Vec<&'static str> {
        let application = match self.application {
            Application::Http1 => "http1",
            Application::Stream if self.udp => "udp",
            Application::Stream => "tcp",
        };
        let tls = self.tls.then_some("tls");
        let proxy_protocol = match (self.proxy_protocol, self.proxy_protocol_optional) {
            (false, _) => None,
            (true, false) => Some("proxy-protocol"),
            (true, true) => Some("optional-proxy-protocol"),
        };
        let http3 = self.http3.then_some("http3");
        let interception = self.interception.name();
        interception.into_iter().chain(proxy_protocol).chain(tls).chain([application]).chain(http3).collect()
    }
}

/// The facts of a bound listener that a change of the settings may replace. A connection reads them when it
/// needs them.
#[derive(Debug)]
pub(super) struct Changeable {
    is_optional: AtomicBool,
    sends_to_nodes: AtomicBool,
}

impl Changeable {
    /// Those of these protocols.
    pub(super) fn of(protocols: Protocols) -> Changeable {
        Changeable {
            is_optional: AtomicBool::new(protocols.proxy_protocol_optional),
            sends_to_nodes: AtomicBool::new(protocols.proxy_protocol_to_nodes),
        }
    }

    /// Takes those of `protocols` over; whether any differs.
    pub(super) fn replace(&self, protocols: Protocols) -> bool {
        // Each is a fact of its own, so that no order among them matters.
        let optional = self.is_optional.swap(protocols.proxy_protocol_optional, Ordering::Relaxed);
        let sends = self.sends_to_nodes.swap(protocols.proxy_protocol_to_nodes, Ordering::Relaxed);
        optional != protocols.proxy_protocol_optional || sends != protocols.proxy_protocol_to_nodes
    }

    /// The protocols with these facts as they are now.
    #[inline]
    pub(super) fn within(&self, protocols: Protocols) -> Protocols {
        Protocols {
            proxy_protocol_optional: self.is_optional.load(Ordering::Relaxed),
            proxy_protocol_to_nodes: self.sends_to_nodes.load(Ordering::Relaxed),
            ..protocols
        }
    }
}

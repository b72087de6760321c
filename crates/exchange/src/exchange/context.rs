//! The connection that an exchange arrived on, as plugins and logs see it.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use super::address::CompactAddress;
use super::proxy::ProxyContext;
use super::tls::TlsContext;

/// Which protocol family the client speaks to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestScheme {
    /// Plain HTTP.
    #[default]
    Http,
    /// HTTP over TLS.
    Https,
}

impl RequestScheme {
    /// As it stands in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            RequestScheme::Http => "http",
            RequestScheme::Https => "https",
        }
    }
}

/// See the module. Small enough to be copied into each exchange.
#[derive(Clone, Debug)]
pub struct ConnectionContext {
    /// A number no other connection of this process has.
    pub id: u64,
    /// The client: the peer of the socket, or the address that its PROXY protocol header names.
    pub peer: CompactAddress,
    /// The listener's address.
    pub local: CompactAddress,
    /// Plain or TLS.
    pub scheme: RequestScheme,
    /// Requests seen on it, this one included.
    pub requests: u32,
    /// The facts of its TLS layer, if there is one.
    pub tls: Option<Rc<TlsContext>>,
    /// The PROXY protocol header that it began with, where its listener asks for one.
    pub proxy: Option<Rc<ProxyContext>>,
}

impl ConnectionContext {
    /// The peer of the socket, which a PROXY protocol header does not change.
    pub fn socket_peer(&self) -> CompactAddress {
        self.proxy.as_ref().map_or(self.peer, |proxy| proxy.sender)
    }
}

impl Default for ConnectionContext {
    fn default() -> Self {
        let nowhere = CompactAddress::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        ConnectionContext {
            id: 0,
            peer: nowhere,
            local: nowhere,
            scheme: RequestScheme::Http,
            requests: 0,
            tls: None,
            proxy: None,
        }
    }
}

//! What an exchange knows of the connection it arrived on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Which protocol family the client speaks to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    #[default]
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// As it stands in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// See the module. Small enough to be copied into each exchange.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionContext {
    /// A number no other connection of this process has.
    pub id: u64,
    /// The peer.
    pub peer: SocketAddr,
    /// The listener's address.
    pub local: SocketAddr,
    /// Plain or TLS.
    pub scheme: Scheme,
    /// Requests seen on it, this one included.
    pub requests: u64,
}

impl Default for ConnectionContext {
    fn default() -> Self {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        ConnectionContext { id: 0, peer: nowhere, local: nowhere, scheme: Scheme::Http, requests: 0 }
    }
}

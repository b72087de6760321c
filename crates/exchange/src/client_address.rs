//! The client's address where a proxy stands in front: the trusted peers, the field in which they name the
//! client, and how that field is read (the rules of nginx's realip module, which APISIX uses). Pure: from a
//! peer and fields.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;
use message::Headers;
use smallvec::SmallVec;

use crate::exchange::address::CompactAddress;

/// The trusted peers and their field. No peer is trusted by default, because every client can send the field.
#[derive(Clone, Debug)]
pub struct RealIpOptions {
    /// Peers that may begin their connections with a PROXY protocol header, at listeners that ask for one.
    /// They are no part of `from`, because the header is written by a balancer of connections, which does not
    /// read the field and passes one on that the client has made up.
    pub proxy_protocol_from: Vec<IpNet>,
    /// Peers that are believed.
    pub from: Vec<IpNet>,
    /// The field in which they name the client: one address, or a list with the nearest one last.
    pub header: Box<str>,
    /// Whether an address of the list that is itself believed is stepped over.
    pub recursive: bool,
}

impl Default for RealIpOptions {
    fn default() -> Self {
        RealIpOptions {
            proxy_protocol_from: Vec::new(),
            from: Vec::new(),
            header: "X-Real-IP".into(),
            recursive: false,
        }
    }
}

/// An address, and its port where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// The IP address.
    pub address: IpAddr,
    /// The port, unless a proxy named the client without one.
    pub port: Option<u16>,
}

impl Default for ClientAddress {
    /// The unspecified address, until the peer is known.
    fn default() -> Self {
        ClientAddress { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port: None }
    }
}

impl From<CompactAddress> for ClientAddress {
    fn from(peer: CompactAddress) -> Self {
        ClientAddress { address: peer.ip(), port: Some(peer.port()) }
    }
}

impl ClientAddress {
    /// An address, with a port or without, an IPv6 one in brackets or not (RFC 3986 section 3.2.2); spaces
    /// around it are ignored.
    pub fn parse(entry: &[u8]) -> Option<ClientAddress> {
        let text = str::from_utf8(entry.trim_ascii()).ok()?;
        if let Ok(both) = text.parse::<SocketAddr>() {
            return Some(CompactAddress::from(both).into());
        }
        let address = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let address = address.parse::<IpAddr>().ok()?.to_canonical();
        Some(ClientAddress { address, port: None })
    }
}

impl RealIpOptions {
    /// The client of a request with these fields that came from `peer`.
    ///
    /// An entry that is no address ends the search, because the entries before it come from untrusted peers.
    pub fn client(&self, peer: CompactAddress, headers: &Headers) -> ClientAddress {
        let mut client = ClientAddress::from(peer);
        if !contains(&self.from, client.address) {
            return client;
        }
        // Several fields of a name are one list (RFC 9110 section 5.3).
        let lines: SmallVec<[&[u8]; 4]> = headers.get_all(&self.header).collect();
        for entry in lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b',')) {
            let Some(named) = ClientAddress::parse(entry) else { break };
            client = named;
            if !self.recursive || !contains(&self.from, named.address) {
                break;
            }
        }
        client
    }
}

/// Whether one of the networks holds the address.
pub fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the client that a peer's fields name, as `address` or `address port`.
    fn check(options: &RealIpOptions, peer: &str, lines: &[&str], expected: &str) {
        let mut headers = Headers::new();
        for line in lines {
            headers.append(&options.header, line.as_bytes()).unwrap();
        }
        let client = options.client(peer.parse::<SocketAddr>().unwrap().into(), &headers);
        let port = client.port.map_or(String::new(), |port| format!(" {port}"));
        assert_eq!(format!("{}{port}", client.address), expected, "{peer} {lines:?}");
    }

    fn options(header: &str, recursive: bool) -> RealIpOptions {
        let from = ["127.0.0.0/8", "10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap());
        RealIpOptions { from: from.to_vec(), header: header.into(), recursive, ..RealIpOptions::default() }
    }

    #[test]
    fn strangers_are_never_believed() {
        check(&RealIpOptions::default(), "127.0.0.1:5", &["1.1.1.1"], "127.0.0.1 5");
        for recursive in [false, true] {
            let options = options("X-Forwarded-For", recursive);
            check(&options, "192.0.2.1:5", &["1.1.1.1"], "192.0.2.1 5");
            check(&options, "[2001:db8::1]:5", &["10.0.0.1"], "2001:db8::1 5");
            check(&options, "127.0.0.1:5", &[], "127.0.0.1 5");
        }
    }

    #[test]
    fn one_address() {
        let options = options("X-Real-IP", false);
        check(&options, "127.0.0.1:5", &["1.1.1.1"], "1.1.1.1");
        check(&options, "[::ffff:10.0.0.1]:5", &["1.1.1.1:80"], "1.1.1.1 80");
        check(&options, "[fd00::1]:5", &["2001:db8::2"], "2001:db8::2");
        check(&options, "127.0.0.1:5", &["[2001:db8::2]:443"], "2001:db8::2 443");
        check(&options, "127.0.0.1:5", &["[2001:db8::2]"], "2001:db8::2");
        check(&options, "127.0.0.1:5", &["::ffff:1.1.1.1"], "1.1.1.1");
        for nonsense in
            ["", "unknown", "1.1.1", "1.1.1.1.", "1.1.1.1:", "1.1.1.1:99999", "[::1", "a, b", "01.1.1.1"]
        {
            check(&options, "127.0.0.1:5", &[nonsense], "127.0.0.1 5");
        }
    }

    #[test]
    fn list_gives_last_or_last_untrusted_address() {
        let (last, recursive) = (options("X-Forwarded-For", false), options("X-Forwarded-For", true));
        let peer = "127.0.0.1:5";
        check(&last, peer, &["6.6.6.6, 1.1.1.1, 10.2.2.2"], "10.2.2.2");
        check(&recursive, peer, &["6.6.6.6, 1.1.1.1, 10.2.2.2"], "1.1.1.1");
        check(&recursive, peer, &["6.6.6.6", "1.1.1.1 ,10.3.3.3", "10.2.2.2:7"], "1.1.1.1");
        check(&recursive, peer, &["10.1.1.1, 10.2.2.2"], "10.1.1.1");
        check(&recursive, peer, &["1.1.1.1, nonsense, 10.2.2.2"], "10.2.2.2");
        check(&recursive, peer, &["1.1.1.1, nonsense"], "127.0.0.1 5");
        check(&recursive, peer, &["1.1.1.1,"], "127.0.0.1 5");
    }
}

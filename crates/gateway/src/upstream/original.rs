//! The destinations that an upstream of the type `original_dst` allows. Clients choose them, so that nothing
//! is kept of one behind its session: no health, no average, no pool. It knows no listener.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use model::resource::{OriginalDestination, PortRange};
use net::endpoint::Endpoint;
use net::tls::client::ClientTls;

/// See the module.
pub struct OriginalPolicy {
    allow: Box<[IpNet]>,
    /// Empty for all.
    ports: Box<[PortRange]>,
    tls: Option<Arc<ClientTls>>,
}

impl OriginalPolicy {
    /// As written; `tls` is spoken to every destination, if it is there.
    pub(crate) fn new(written: &OriginalDestination, tls: Option<Arc<ClientTls>>) -> OriginalPolicy {
        OriginalPolicy { allow: written.allow.clone(), ports: written.ports.clone(), tls }
    }

    /// Why sessions must not go to `destination`; none if they may.
    pub(crate) fn refusal(&self, destination: SocketAddr) -> Option<&'static str> {
        let (address, port) = (destination.ip().to_canonical(), destination.port());
        let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        if address.is_unspecified() || address.is_multicast() || is_broadcast || port == 0 {
            return Some("it is not the address of one machine");
        }
        if !self.allow.iter().any(|network| network.contains(&address)) {
            return Some("original_dst.allow does not hold its address");
        }
        let is_in = |range: &PortRange| (range.first..=range.last).contains(&port);
        if !self.ports.is_empty() && !self.ports.iter().any(is_in) {
            return Some("original_dst.ports does not hold its port");
        }
        None
    }

    /// The endpoint of one session.
    pub(crate) fn endpoint(&self, destination: SocketAddr) -> Arc<Endpoint> {
        Arc::new(Endpoint::unlisted(destination, self.tls.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn destinations_are_allowed_by_address_and_port() {
        let policy = |written| OriginalPolicy::new(&serde_json::from_value(written).unwrap(), None);
        let narrow = policy(json!({"allow": ["10.0.0.0/8", "fd00::/8"], "ports": [80, "8000-8099"]}));
        let all = policy(json!({"allow": ["0.0.0.0/0"]}));
        let (address, port) = (
            Some("original_dst.allow does not hold its address"),
            Some("original_dst.ports does not hold its port"),
        );
        let strange = Some("it is not the address of one machine");
        // destination, refusal by the narrow list, refusal by that of every IPv4 address
        let cases = [
            ("10.1.2.3:80", None, None),
            ("10.1.2.3:8000", None, None),
            ("10.1.2.3:8099", None, None),
            ("[::ffff:10.1.2.3]:80", None, None),
            ("[fd12::1]:80", None, address),
            ("10.1.2.3:81", port, None),
            ("10.1.2.3:8100", port, None),
            ("11.0.0.1:80", address, None),
            ("[::1]:80", address, address),
            ("0.0.0.0:80", strange, strange),
            ("[::]:80", strange, strange),
            ("224.0.0.1:80", strange, strange),
            ("255.255.255.255:80", strange, strange),
            ("10.1.2.3:0", strange, strange),
        ];
        for (destination, by_narrow, by_all) in cases {
            let destination = destination.parse().unwrap();
            let refused = (narrow.refusal(destination), all.refusal(destination));
            assert_eq!(refused, (by_narrow, by_all), "{destination}");
        }
    }
}

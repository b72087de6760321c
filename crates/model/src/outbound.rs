//! Which addresses are out of bounds for calls that a configuration asks for: what an instance's metadata service answers
//! must not be had by naming it there. Knows addresses, and opens nothing.

use std::net::IpAddr;

use ipnet::IpNet;

/// Which addresses calls may reach although they are out of bounds for them: none, unless settings say so.
#[derive(Clone, Debug, Default)]
pub struct OutboundPolicy {
    /// Networks that are reached all the same.
    pub allow: Vec<IpNet>,
}

impl OutboundPolicy {
    /// What is wrong with `address`, unless it is allowed.
    #[must_use]
    pub fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        let address = address.to_canonical();
        let what = match address {
            IpAddr::V4(v4) if v4.is_link_local() => "link-local, where metadata services are",
            IpAddr::V4(v4) if v4.octets()[0] == 0 => "unspecified",
            IpAddr::V4(v4) if v4.is_broadcast() || v4.is_multicast() => "no single host",
            IpAddr::V4(v4) if v4.octets() == METADATA_V4 => "a metadata service",
            IpAddr::V6(v6) if v6.is_unicast_link_local() => "link-local, where metadata services are",
            IpAddr::V6(v6) if v6.is_unspecified() => "unspecified",
            IpAddr::V6(v6) if v6.is_multicast() => "no single host",
            IpAddr::V6(v6) if v6.segments() == METADATA_V6 => "a metadata service",
            _ => return None,
        };
        (!self.allow.iter().any(|network| network.contains(&address))).then_some(what)
    }
}

/// Metadata services outside the link-local networks, of clouds that have them there.
const METADATA_V4: [u8; 4] = [100, 100, 100, 200];
const METADATA_V6: [u16; 8] = [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_out_of_bounds() {
        let check = |allow: &[&str], address: &str, refused: bool| {
            let allow = allow.iter().map(|network| network.parse().unwrap()).collect();
            let policy = OutboundPolicy { allow };
            assert_eq!(policy.refuses(address.parse().unwrap()).is_some(), refused, "{address}");
        };
        for address in ["127.0.0.1", "10.1.2.3", "192.168.0.1", "::1", "fd00::1", "8.8.8.8", "100.100.100.1"]
        {
            check(&[], address, false);
        }
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "0.0.0.0",
            "::",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
            "100.100.100.200",
            "fd00:ec2::254",
        ] {
            check(&[], address, true);
        }
        check(&["169.254.0.0/16"], "169.254.169.254", false);
        check(&["169.254.1.1/32"], "169.254.169.254", true);
    }
}

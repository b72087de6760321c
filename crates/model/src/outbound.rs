//! Which addresses are out of bounds for calls that a configuration asks for: what an instance's metadata
//! service answers must not be had by naming it there. Knows addresses, and opens nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Which addresses calls may reach although they are out of bounds for them: none, unless settings say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboundPolicy {
    /// Networks that are reached all the same.
    pub allow: Vec<IpNet>,
}

impl OutboundPolicy {
    /// The fault of `address`, unless it is allowed.
    #[must_use]
    pub fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        let address = address.to_canonical();
        let (through, what) = match (wrong_with(address), address) {
            (Some(what), _) => (None, what),
            // A translator or relay on the way connects to the IPv4 address inside.
            (None, IpAddr::V6(v6)) => {
                let inside = embedded(v6).find(|inside| inside.is_link_local() || is_metadata(*inside))?;
                (Some(IpAddr::V4(inside)), "a way to a metadata service")
            }
            (None, IpAddr::V4(_)) => return None,
        };
        let is_allowed = |address: IpAddr| self.allow.iter().any(|network| network.contains(&address));
        (!is_allowed(address) && !through.is_some_and(is_allowed)).then_some(what)
    }
}

/// The fault of an address by itself.
fn wrong_with(address: IpAddr) -> Option<&'static str> {
    Some(match address {
        IpAddr::V4(v4) if v4.is_link_local() => "link-local, where metadata services are",
        IpAddr::V4(v4) if v4.octets()[0] == 0 => "unspecified",
        IpAddr::V4(v4) if v4.is_broadcast() || v4.is_multicast() => "no single host",
        IpAddr::V4(v4) if is_metadata(v4) => "a metadata service",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "link-local, where metadata services are",
        IpAddr::V6(v6) if v6.is_unspecified() => "unspecified",
        IpAddr::V6(v6) if v6.is_multicast() => "no single host",
        IpAddr::V6(v6) if METADATA_V6.contains(&v6.segments()) => "a metadata service",
        _ => return None,
    })
}

/// The IPv4 addresses that an IPv6 address may stand for: by NAT64 (RFC 6052, and RFC 8215 with a network's
/// own length of prefix), 6to4 (RFC 3056), Teredo (RFC 4380) and the forms that are no longer used (RFC 4291
/// section 2.5.5.1).
fn embedded(address: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
    let octets = address.octets();
    let at = |places: [usize; 4]| Ipv4Addr::from(places.map(|place| octets[place]));
    let last = at([12, 13, 14, 15]);
    let found = match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0, 0, ..] => vec![last],
        [0x64, 0xff9b, 1, ..] => {
            vec![at([6, 7, 9, 10]), at([7, 9, 10, 11]), at([9, 10, 11, 12]), last]
        }
        [0x2002, ..] => vec![at([2, 3, 4, 5])],
        // The client's address is written with all bits turned over.
        [0x2001, 0, ..] => vec![at([4, 5, 6, 7]), Ipv4Addr::from(!u32::from(last))],
        _ => Vec::new(),
    };
    found.into_iter()
}

/// Whether a metadata service is at an address.
fn is_metadata(address: Ipv4Addr) -> bool {
    METADATA_V4.contains(&address.octets())
}

/// Metadata services outside the link-local networks, of clouds that have them there: Alibaba, Oracle, Azure
/// (WireServer).
const METADATA_V4: [[u8; 4]; 3] = [[100, 100, 100, 200], [192, 0, 0, 192], [168, 63, 129, 16]];
/// Those of IPv6: AWS (instances, and credentials of pods), Google, Scaleway.
const METADATA_V6: [[u16; 8]; 4] = [
    [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],
    [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23],
    [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254],
    [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42],
];

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
            "192.0.0.192",
            "::ffff:192.0.0.192",
            "168.63.129.16",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:42::42",
            "64:ff9b::192.0.0.192",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::100.100.100.200",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b:1:a9:fe:a9fe::",
            "64:ff9b:1:0:a9:fea9:fe00:0",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::1",
            "2001:0:102:304:0:0:5601:5601",
            "::169.254.169.254",
        ] {
            check(&[], address, true);
        }
        for address in ["64:ff9b::8.8.8.8", "64:ff9b:1::10.0.0.1", "2002:808:808::1", "2001:db8::a9fe:a9fe"] {
            check(&[], address, false);
        }
        check(&["169.254.0.0/16"], "64:ff9b::a9fe:a9fe", false);
        check(&["64:ff9b::/96"], "64:ff9b::a9fe:a9fe", false);
        check(&["169.254.0.0/16"], "169.254.169.254", false);
        check(&["169.254.1.1/32"], "169.254.169.254", true);
    }
}

//! Sets of IPv4 and IPv6 addresses and networks, with a test that costs a binary search.
//!
//! It knows neither host names nor the origin of an address. An IPv4-mapped IPv6 address is the IPv4 address.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

/// Addresses and networks, kept as sorted ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CidrSet {
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
}

/// An entry that is neither an address nor a network.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not an IP address or CIDR network such as `10.0.0.0/8` or `fe80::/10`")]
pub struct CidrError {
    /// Index of the entry in the list, from 0.
    pub index: usize,
    /// The entry.
    pub text: String,
}

impl CidrSet {
    /// The set of all `entries`: `10.1.2.3`, `10.0.0.0/8`, `::1`, `fe80::/10`. Host bits are ignored.
    ///
    /// # Errors
    /// The first entry that is neither an address nor a network.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Result<Self, CidrError> {
        let mut v4 = Vec::new();
        let mut v6 = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let text = entry.as_ref();
            match parse_network(text).ok_or_else(|| CidrError { index, text: text.to_owned() })? {
                IpNet::V4(net) => v4.push((u32::from(net.network()), u32::from(net.broadcast()))),
                IpNet::V6(net) => v6.push((u128::from(net.network()), u128::from(net.broadcast()))),
            }
        }
        Ok(Self { v4: merge(v4, |end| end.checked_add(1)), v6: merge(v6, |end| end.checked_add(1)) })
    }

    /// Whether the address is in the set.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => holds(&self.v4, u32::from(address)),
            IpAddr::V6(address) => holds(&self.v6, u128::from(address)),
        }
    }

    /// Whether no address is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

/// Parses a network: `10.0.0.0/8`, `fe80::/10`, or an address, which is a network of one address. `None` if
/// it is neither, or if an octet begins with a zero (`010.0.0.0/8`), because some programs read that as
/// octal.
#[must_use]
pub fn network(text: &str) -> Option<IpNet> {
    match text.split_once('/') {
        None => text.parse::<IpAddr>().ok().map(IpNet::from),
        // The parser of networks accepts leading zeros, the parser of addresses refuses them.
        Some((address, _)) => address.parse::<IpAddr>().ok().and_then(|_| text.parse().ok()),
    }
}

/// An address or network; a network of IPv4-mapped addresses becomes the IPv4 network it maps.
fn parse_network(text: &str) -> Option<IpNet> {
    match network(text)? {
        IpNet::V6(v6) if v6.prefix_len() >= MAPPED_PREFIX => match IpAddr::V6(v6.network()).to_canonical() {
            IpAddr::V4(address) => IpNet::new(IpAddr::V4(address), v6.prefix_len() - MAPPED_PREFIX).ok(),
            IpAddr::V6(Ipv6Addr { .. }) => Some(IpNet::V6(v6)),
        },
        net => Some(net),
    }
}

fn merge<N: Copy + Ord>(mut ranges: Vec<(N, N)>, next: impl Fn(N) -> Option<N>) -> Box<[(N, N)]> {
    ranges.sort_unstable();
    let mut merged: Vec<(N, N)> = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if next(last.1).is_none_or(|after| start <= after) => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged.into_boxed_slice()
}

fn holds<N: Copy + Ord>(ranges: &[(N, N)], value: N) -> bool {
    let after = ranges.partition_point(|range| range.0 <= value);
    after > 0 && value <= ranges[after - 1].1
}

/// The bits of `::ffff:0:0/96`, under which IPv4 addresses are mapped (RFC 4291 section 2.5.5.2).
const MAPPED_PREFIX: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(entries: &[&str], address: &str, inside: bool) {
        let set = CidrSet::parse(entries).unwrap();
        assert_eq!(set.contains(address.parse().unwrap()), inside, "{entries:?} {address}");
    }

    #[test]
    fn membership() {
        check(&[], "1.2.3.4", false);
        check(&["1.2.3.4"], "1.2.3.4", true);
        check(&["1.2.3.4"], "1.2.3.5", false);
        check(&["127.0.0.1/8"], "127.9.9.9", true);
        check(&["10.0.0.0/8", "11.0.0.0/8", "9.9.9.9"], "11.255.255.255", true);
        check(&["10.0.0.0/8", "9.9.9.9"], "9.9.9.10", false);
        check(&["0.0.0.0/0"], "255.255.255.255", true);
        check(&["0.0.0.0/0"], "::1", false);
        check(&["::/0"], "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true);
        check(&["fe80::/10"], "fe80::1", true);
        check(&["1.2.3.4"], "::ffff:1.2.3.4", true);
        check(&["::ffff:10.0.0.0/104"], "10.1.2.3", true);
    }

    #[test]
    fn a_bad_entry_is_named() {
        for bad in ["", "localhost", "1.2.3", "1.2.3.4/33", "1.2.3.4/", "::1/129"] {
            let error = CidrSet::parse(&["::1", bad]).unwrap_err();
            assert_eq!((error.index, error.text.as_str()), (1, bad));
        }
    }

    #[test]
    fn octal_looking_octet_is_refused_with_prefix() {
        for bad in ["010.0.0.1", "010.0.0.0/8", "10.0.00.0/16", "::ffff:010.0.0.0/104"] {
            assert_eq!(network(bad), None, "{bad}");
            assert!(CidrSet::parse(&[bad]).is_err(), "{bad}");
        }
        assert_eq!(network("10.0.0.0/8"), "10.0.0.0/8".parse().ok());
        assert_eq!(network("::1"), "::1/128".parse().ok());
    }

    proptest! {
        #[test]
        fn agrees_with_asking_each_network(
            nets in proptest::collection::vec((0u32..64, 24u8..=32), 0..8), value in 0u32..512) {
            let nets: Vec<ipnet::Ipv4Net> =
                nets.into_iter().map(|(base, bits)| ipnet::Ipv4Net::new((base * 8).into(), bits).unwrap()).collect();
            let texts: Vec<String> = nets.iter().map(ToString::to_string).collect();
            let address = std::net::Ipv4Addr::from(value);
            let expected = nets.iter().any(|net| net.contains(&address));
            prop_assert_eq!(CidrSet::parse(&texts).unwrap().contains(IpAddr::V4(address)), expected);
        }
    }
}

//! Which of the addresses of one name are used: those of the preferred family to which there is a route. It
//! looks no name up, and is told what has a route.

use std::fmt;
use std::net::IpAddr;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFamily {
    /// IPv4, of which DNS has A records.
    V4,
    /// IPv6, of which DNS has AAAA records.
    V6,
}

impl AddressFamily {
    /// The family of an address. An IPv6 address that stands for one of IPv4 (`::ffff:0:0/96`) is reached by
    /// IPv4.
    pub fn of(address: IpAddr) -> AddressFamily {
        match address.to_canonical() {
            IpAddr::V4(_) => AddressFamily::V4,
            IpAddr::V6(_) => AddressFamily::V6,
        }
    }

    /// The type of its records in DNS.
    pub const fn record(self) -> &'static str {
        match self {
            AddressFamily::V4 => "A",
            AddressFamily::V6 => "AAAA",
        }
    }
}

/// The families that names are looked up for, the preferred one first: one or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyOrder(Vec<AddressFamily>);

impl Default for FamilyOrder {
    /// IPv4 first, as APISIX asks for A before AAAA.
    fn default() -> FamilyOrder {
        FamilyOrder(vec![AddressFamily::V4, AddressFamily::V6])
    }
}

impl FamilyOrder {
    /// The order of these families, each once; none for an empty list.
    pub fn new(families: impl IntoIterator<Item = AddressFamily>) -> Option<FamilyOrder> {
        let mut order = Vec::new();
        for family in families {
            if !order.contains(&family) {
                order.push(family);
            }
        }
        (!order.is_empty()).then_some(FamilyOrder(order))
    }

    /// The families, the preferred one first.
    pub fn families(&self) -> impl Iterator<Item = AddressFamily> + '_ {
        self.0.iter().copied()
    }
}

impl fmt::Display for FamilyOrder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records: Vec<&str> = self.families().map(AddressFamily::record).collect();
        formatter.write_str(&records.join(", "))
    }
}

/// Addresses of one service and family of which routes are asked for.
const PROBES_MAX: usize = 16;

/// How the addresses of a name are chosen.
#[derive(Clone, Debug)]
pub struct AddressChoice {
    /// The families, the preferred one first.
    pub order: FamilyOrder,
    /// Whether this machine has a route to an address.
    pub has_route: fn(IpAddr) -> bool,
}

impl Default for AddressChoice {
    /// IPv4 first, and a route to each address.
    fn default() -> AddressChoice {
        AddressChoice { order: FamilyOrder::default(), has_route: |_| true }
    }
}

impl AddressChoice {
    /// The entries that are used of those that a name has: the ones with a route of the first family that has
    /// such ones. Where none has a route, all of the first family that has entries: connecting to them then
    /// tells why it fails.
    pub fn used<T: Clone>(&self, found: &[T], address_of: impl Fn(&T) -> IpAddr) -> Vec<T> {
        let address_of = &address_of;
        let of = |family| found.iter().filter(move |entry| AddressFamily::of(address_of(entry)) == family);
        self.with_route(found, address_of).unwrap_or_else(|| {
            let first = self.order.families().find(|family| of(*family).next().is_some());
            first.map(|family| of(family).cloned().collect()).unwrap_or_default()
        })
    }

    /// The family that is used of addresses that a registry lists for one service in both; none where it
    /// lists one only. Asks for the routes of few, because a service may have thousands.
    pub fn family_among(&self, addresses: impl Iterator<Item = IpAddr> + Clone) -> Option<AddressFamily> {
        let of = |family| addresses.clone().filter(move |address| AddressFamily::of(*address) == family);
        let has = |family| of(family).next().is_some();
        if !has(AddressFamily::V4) || !has(AddressFamily::V6) {
            return None;
        }
        let is_routed = |family: &AddressFamily| of(*family).take(PROBES_MAX).any(self.has_route);
        self.order.families().find(is_routed).or_else(|| self.order.families().next())
    }

    /// As [`AddressChoice::used`]; none where no entry has a route.
    pub fn with_route<T: Clone>(&self, found: &[T], address_of: impl Fn(&T) -> IpAddr) -> Option<Vec<T>> {
        let usable = |family| {
            let is_usable = |entry: &&T| {
                let address = address_of(entry);
                AddressFamily::of(address) == family && (self.has_route)(address)
            };
            found.iter().filter(is_usable).cloned().collect::<Vec<T>>()
        };
        self.order.families().map(usable).find(|usable| !usable.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_of_both_families_uses_one() {
        let choice = AddressChoice {
            has_route: |address| address.to_string() != "fd00:9::1",
            order: FamilyOrder::new([AddressFamily::V6, AddressFamily::V4]).unwrap(),
        };
        let check = |listed: &[&str], expected: Option<AddressFamily>| {
            let addresses = listed.iter().map(|text| text.parse().unwrap());
            assert_eq!(choice.family_among(addresses), expected, "{listed:?}");
        };
        check(&["10.0.0.1", "fd00::1"], Some(AddressFamily::V6));
        check(&["10.0.0.1", "fd00:9::1"], Some(AddressFamily::V4));
        check(&["10.0.0.1", "fd00:9::1", "fd00::1"], Some(AddressFamily::V6));
        check(&["10.0.0.1", "10.0.0.2"], None);
        check(&["fd00:9::1"], None);
        check(&[], None);
    }

    #[test]
    fn preferred_family_with_a_route_is_used() {
        let has_route = |address: IpAddr| !["10.9.0.1", "fd00:9::1"].contains(&&*address.to_string());
        let v6_first = FamilyOrder::new([AddressFamily::V6, AddressFamily::V4]).unwrap();
        let only_v6 = FamilyOrder::new([AddressFamily::V6, AddressFamily::V6]).unwrap();
        let check = |order: &FamilyOrder, found: &[&str], expected: &[&str]| {
            let choice = AddressChoice { order: order.clone(), has_route };
            assert_eq!(choice.used(found, |text| text.parse().unwrap()), expected, "{order}: {found:?}");
        };
        let default = FamilyOrder::default();
        check(&default, &["10.0.0.1", "10.0.0.2", "fd00::1"], &["10.0.0.1", "10.0.0.2"]);
        check(&default, &["fd00::1", "10.0.0.1"], &["10.0.0.1"]);
        check(&default, &["10.9.0.1", "10.0.0.2", "fd00::1"], &["10.0.0.2"]);
        check(&default, &["10.9.0.1", "fd00::1"], &["fd00::1"]);
        check(&default, &["fd00:9::1", "10.9.0.1"], &["10.9.0.1"]);
        check(&default, &["fd00:9::1"], &["fd00:9::1"]);
        check(&default, &["::ffff:10.0.0.1", "fd00::1"], &["::ffff:10.0.0.1"]);
        check(&default, &[], &[]);
        check(&v6_first, &["10.0.0.1", "fd00::1"], &["fd00::1"]);
        check(&v6_first, &["10.0.0.1", "fd00:9::1"], &["10.0.0.1"]);
        check(&only_v6, &["10.0.0.1", "fd00:9::1"], &["fd00:9::1"]);
        check(&only_v6, &["10.0.0.1"], &[]);
        assert_eq!(FamilyOrder::new([]), None);
        assert_eq!([default.to_string(), only_v6.to_string()], ["A, AAAA", "AAAA"]);
    }
}

//! Preference for nodes in the zone of this instance: they get all requests while enough of their weight is
//! usable; below that a proportionate part spills over to the other zones.

use net::nodes::ResolvedNode;

use super::share::WHOLE;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonePreference {
    /// The metadata of a node that names its zone.
    pub key: Box<str>,
    /// The zone of this instance.
    pub own: Box<str>,
    /// With fewer usable nodes in the own zone there is no preference.
    pub nodes_min: usize,
    /// Percent of the own zone's weight that must be usable for all requests.
    pub percent: u32,
}

impl ZonePreference {
    /// Whether `node` is in the zone of this instance.
    pub(crate) fn is_local(&self, node: &ResolvedNode) -> bool {
        node.metadata.as_ref().and_then(|metadata| metadata.get(&self.key)) == Some(&self.own)
    }

    /// The part of `share` that goes to the own zone with so many usable nodes and so much usable and whole
    /// weight; none where there is no preference.
    pub(crate) fn local_share(&self, share: u32, nodes: usize, usable: f64, whole: f64) -> Option<u32> {
        if nodes < self.nodes_min.max(1) || usable <= 0.0 {
            return None;
        }
        let part = (usable / whole * 100.0 / f64::from(self.percent.max(1))).min(1.0);
        Some(((f64::from(share) * part).round() as u32).min(WHOLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_zone_shares_in_proportion_when_weak() {
        let zone = ZonePreference { key: "zone".into(), own: "a".into(), nodes_min: 2, percent: 80 };
        // usable nodes, usable weight of 10 → share of the own zone
        for (nodes, usable, share) in [
            (10, 10.0, Some(10_000)),
            (8, 8.0, Some(10_000)),
            (4, 4.0, Some(5_000)),
            (2, 2.0, Some(2_500)),
            (1, 1.0, None),
            (0, 0.0, None),
        ] {
            assert_eq!(zone.local_share(WHOLE, nodes, usable, 10.0), share, "{nodes} of 10");
        }
    }
}

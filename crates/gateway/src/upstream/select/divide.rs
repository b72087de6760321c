//! The groups of a plan: nodes by priority and zone, with the share of requests that each gets.

use std::collections::BTreeMap;

use net::nodes::NodeSet;

use super::group::NodeGroup;
use super::overflow;
use super::policies::Policies;
use super::share::WHOLE;
use crate::upstream::availability::Availability;

/// A group, and its share of the first attempts out of [`WHOLE`].
pub(crate) struct GroupShare {
    pub(crate) group: NodeGroup,
    /// Whether these are the nodes outside the zone of this instance.
    pub(crate) is_remote: bool,
    pub(crate) share: u32,
}

/// The groups of a plan, in the order in which they are tried.
pub(crate) struct Division {
    pub(crate) parts: Vec<GroupShare>,
    /// Whether all nodes are in it, because too few are usable.
    pub(crate) is_in_panic: bool,
}

/// The nodes of one priority.
#[derive(Default)]
struct Tier {
    priority: i64,
    nodes: Vec<usize>,
    /// The sum of the weights as written.
    weight: f64,
    /// The same of usable nodes.
    usable: f64,
}

impl Tier {
    fn usable_part(&self) -> f64 {
        if self.weight > 0.0 { self.usable / self.weight } else { 0.0 }
    }

    fn is_strong(&self, panic_percent: u32) -> bool {
        self.usable > 0.0 && self.usable_part() * 100.0 >= f64::from(panic_percent)
    }
}

/// Divides the nodes of `set` for which `is_in` says so. Tiers with too few usable nodes give way to stronger
/// ones. Where all tiers are too weak, all nodes are used: a request to a node that is probably down is
/// better than a certain refusal (contract 2.3), and better than the load of all on the few that are left.
/// The tiers then share by usable weight; a tier without a usable node gets requests only where no tier has
/// one.
pub(crate) fn divide(
    set: &NodeSet,
    availability: &Availability,
    policies: &Policies,
    is_in: &dyn Fn(usize) -> bool,
) -> Division {
    let mut tiers = tiers(set, availability, is_in);
    let panic_percent = policies.panic_percent;
    let is_in_panic = !tiers.iter().any(|tier| tier.is_strong(panic_percent));
    if is_in_panic {
        let part = |(tier, share): (&Tier, u32)| GroupShare {
            group: group(set, availability, tier, &|_| true),
            is_remote: false,
            share,
        };
        let is_in_panic = tiers.iter().any(|tier| tier.usable < tier.weight);
        // Stable, so that priorities stay in order among tiers with usable nodes.
        tiers.sort_by_key(|tier| tier.usable <= 0.0);
        let shares = panic_shares(&tiers);
        return Division { parts: tiers.iter().zip(shares).map(part).collect(), is_in_panic };
    }
    let shares = if policies.overflow_percent > 0 {
        overflow::shares(&tiers.iter().map(Tier::usable_part).collect::<Vec<_>>(), policies.overflow_percent)
    } else {
        // Stable, so that priorities stay in order.
        tiers.sort_by_key(|tier| !tier.is_strong(panic_percent));
        std::iter::once(WHOLE).chain(std::iter::repeat(0)).take(tiers.len()).collect()
    };
    let mut parts = Vec::with_capacity(tiers.len());
    for (tier, share) in tiers.iter().zip(shares).filter(|(tier, _)| tier.usable > 0.0) {
        zones(set, availability, policies, tier, share, &mut parts);
    }
    Division { parts, is_in_panic: false }
}

/// The share of each tier while all nodes are used: by usable weight; all for the first where no node is
/// usable.
fn panic_shares(tiers: &[Tier]) -> Vec<u32> {
    let usable: f64 = tiers.iter().map(|tier| tier.usable).sum();
    if usable <= 0.0 {
        return std::iter::once(WHOLE).chain(std::iter::repeat(0)).take(tiers.len()).collect();
    }
    let (mut sum, mut before) = (0.0, 0);
    let share = |tier: &Tier| {
        sum += tier.usable;
        // Rounded sums, so that the shares add up.
        let up_to = (sum / usable * f64::from(WHOLE)).round() as u32;
        up_to - std::mem::replace(&mut before, up_to)
    };
    tiers.iter().map(share).collect()
}

/// The tiers with a weight, the highest priority first.
fn tiers(set: &NodeSet, availability: &Availability, is_in: &dyn Fn(usize) -> bool) -> Vec<Tier> {
    let mut tiers: BTreeMap<i64, Tier> = BTreeMap::new();
    for (index, node) in set.nodes.iter().enumerate().filter(|(index, node)| node.weight > 0 && is_in(*index))
    {
        let tier = tiers.entry(node.priority).or_default();
        tier.priority = node.priority;
        tier.nodes.push(index);
        tier.weight += f64::from(node.weight);
        if availability.is_usable(index) {
            tier.usable += f64::from(node.weight);
        }
    }
    tiers.into_values().rev().collect()
}

fn group(
    set: &NodeSet,
    availability: &Availability,
    tier: &Tier,
    is_in: &dyn Fn(usize) -> bool,
) -> NodeGroup {
    let nodes = tier.nodes.iter().copied().filter(|node| is_in(*node));
    NodeGroup::new(set, tier.priority, nodes.map(|node| (node, availability.weight(node))))
}

/// The usable nodes of a tier: those in the zone of this instance first, if they are preferred.
fn zones(
    set: &NodeSet,
    availability: &Availability,
    policies: &Policies,
    tier: &Tier,
    share: u32,
    parts: &mut Vec<GroupShare>,
) {
    let is_usable = |node: usize| availability.is_usable(node);
    if let Some(zone) = &policies.zone {
        let is_local = |node: usize| zone.is_local(&set.nodes[node]);
        let weight = |nodes: &mut dyn Iterator<Item = usize>| {
            nodes.map(|node| f64::from(set.nodes[node].weight)).sum()
        };
        let local = || tier.nodes.iter().copied().filter(|node| is_local(*node));
        let usable = || local().filter(|node| is_usable(*node));
        let (usable_weight, local_weight): (f64, f64) = (weight(&mut usable()), weight(&mut local()));
        if let Some(mut local_share) = zone.local_share(share, usable().count(), usable_weight, local_weight)
        {
            let remote = group(set, availability, tier, &|node| is_usable(node) && !is_local(node));
            if remote.is_empty() {
                local_share = share;
            }
            let local = group(set, availability, tier, &|node| is_usable(node) && is_local(node));
            parts.push(GroupShare { group: local, is_remote: false, share: local_share });
            if !remote.is_empty() {
                parts.push(GroupShare { group: remote, is_remote: true, share: share - local_share });
            }
            return;
        }
    }
    parts.push(GroupShare { group: group(set, availability, tier, &is_usable), is_remote: false, share });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use net::node_state::Unusable;
    use net::nodes::NodeMetadata;

    use super::super::super::balance::testing::{set, transition};
    use super::super::zone::ZonePreference;
    use super::*;

    /// The nodes of each group and its share, for a set of nodes with weight, priority and zone, of which
    /// some are down.
    fn parts(
        nodes: &[(u32, i64, &str)],
        down: &[usize],
        policies: &Policies,
    ) -> (Vec<(Vec<usize>, u32)>, bool) {
        let weights: Vec<u32> = nodes.iter().map(|(weight, ..)| *weight).collect();
        let mut set = set(&weights);
        for (node, (_, priority, zone)) in set.nodes.iter_mut().zip(nodes) {
            node.priority = *priority;
            let metadata: NodeMetadata = [("zone".into(), Box::from(*zone))].into();
            node.metadata = Some(Arc::new(metadata));
        }
        for index in down {
            set.nodes[*index].state.mark(Unusable::Unhealthy, true, transition());
        }
        let availability = Availability::of(&set, policies, 0, 0);
        let division = divide(&set, &availability, policies, &|_| true);
        let nodes = |group: &NodeGroup| (0..group.len()).map(|member| group.node(member)).collect();
        let parts = division.parts.iter().map(|part| (nodes(&part.group), part.share)).collect();
        (parts, division.is_in_panic)
    }

    const TWO_TIERS: [(u32, i64, &str); 5] =
        [(1, 0, "a"), (1, 0, "a"), (1, 0, "b"), (1, 0, "b"), (1, -1, "b")];

    #[test]
    fn usable_nodes_are_taken_by_priority() {
        let policies = Policies::default();
        assert_eq!(parts(&TWO_TIERS, &[1], &policies), (vec![(vec![0, 2, 3], WHOLE), (vec![4], 0)], false));
        assert_eq!(parts(&TWO_TIERS, &[0, 1, 2, 3], &policies), (vec![(vec![4], WHOLE)], false));
        let all = vec![(vec![0, 1, 2, 3], WHOLE), (vec![4], 0)];
        assert_eq!(parts(&TWO_TIERS, &[0, 1, 2, 3, 4], &policies), (all, true));
        // A node without weight does not count as left.
        assert_eq!(parts(&[(1, 0, "a"), (0, 0, "a")], &[0], &policies), (vec![(vec![0], WHOLE)], true));
        assert_eq!(parts(&[(0, 0, "a")], &[], &policies), (vec![], false));
    }

    #[test]
    fn too_few_usable_nodes_mean_all_nodes() {
        let policies = Policies { panic_percent: 50, ..Policies::default() };
        let tier = &TWO_TIERS[..4];
        assert_eq!(parts(tier, &[0, 1], &policies), (vec![(vec![2, 3], WHOLE)], false));
        assert_eq!(parts(tier, &[0, 1, 2], &policies), (vec![(vec![0, 1, 2, 3], WHOLE)], true));
        // A lower priority that is strong enough takes the requests.
        let lower_first = vec![(vec![4], WHOLE), (vec![3], 0)];
        assert_eq!(parts(&TWO_TIERS, &[0, 1, 2], &policies), (lower_first, false));
    }

    #[test]
    fn panic_shares_requests_by_usable_weight() {
        let policies = Policies { panic_percent: 50, ..Policies::default() };
        // A priority without a usable node comes behind one with some.
        let dead_first = [(1, 1, "a"), (1, 1, "a"), (1, 0, "a"), (1, 0, "a"), (1, 0, "a")];
        let expected = vec![(vec![2, 3, 4], WHOLE), (vec![0, 1], 0)];
        assert_eq!(parts(&dead_first, &[0, 1, 2, 3], &policies), (expected, true));
        // 1 of 3 usable, and 3 of 8.
        let tiers: Vec<_> = (0..11).map(|node| (1, -i64::from(node > 2), "a")).collect();
        let expected = vec![(vec![0, 1, 2], 2_500), ((3..11).collect(), 7_500)];
        assert_eq!(parts(&tiers, &[0, 1, 3, 4, 5, 6, 7], &policies), (expected, true));
    }

    #[test]
    fn panic_goes_by_weight() {
        let policies = Policies { panic_percent: 50, ..Policies::default() };
        assert!(!parts(&[(9, 0, "a"), (1, 0, "a"), (1, 0, "a")], &[1, 2], &policies).1);
        assert!(parts(&[(9, 0, "a"), (1, 0, "a"), (1, 0, "a")], &[0], &policies).1);
    }

    #[test]
    fn weak_tier_overflows_to_the_next() {
        let policies = Policies { overflow_percent: 100, ..Policies::default() };
        let expected = vec![(vec![1, 2, 3], 7_500), (vec![4], 2_500)];
        assert_eq!(parts(&TWO_TIERS, &[0], &policies), (expected, false));
    }

    #[test]
    fn own_zone_comes_first_and_spills_over() {
        let zone = ZonePreference { key: "zone".into(), own: "a".into(), nodes_min: 1, percent: 100 };
        let policies = Policies { zone: Some(zone), ..Policies::default() };
        let tier = &TWO_TIERS[..4];
        assert_eq!(parts(tier, &[], &policies).0, [(vec![0, 1], WHOLE), (vec![2, 3], 0)]);
        assert_eq!(parts(tier, &[0], &policies).0, [(vec![1], 5_000), (vec![2, 3], 5_000)]);
        assert_eq!(parts(tier, &[0, 1], &policies).0, [(vec![2, 3], WHOLE)]);
        assert_eq!(parts(tier, &[2, 3], &policies).0, [(vec![0, 1], WHOLE)]);
        // In panic the zones do not count, because load on the few is the danger.
        assert_eq!(parts(tier, &[0, 1, 2, 3], &policies).0, [(vec![0, 1, 2, 3], WHOLE)]);
    }
}

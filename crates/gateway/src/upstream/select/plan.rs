//! A plan: the groups from which one worker chooses the nodes of an upstream, each with its balancer, in the
//! order in which they are tried. The first attempt of a request goes to a group by its share.

use std::num::NonZeroU64;

use net::nodes::NodeSet;

use super::divide::GroupShare;
use super::group::NodeGroup;
use super::share::WHOLE;
use crate::upstream::balance::{BalanceInput, Balancer, BalancerKind, Start, next_random};
use crate::upstream::loads::Loads;

/// The facts of one choice.
#[derive(Clone, Copy)]
pub(crate) struct SelectionRequest<'a> {
    /// The hash of the request's key, for methods that use one.
    pub(crate) key_hash: u32,
    /// A random number.
    pub(crate) random: u64,
    /// Milliseconds of the monotonic clock.
    pub(crate) now_ms: u64,
    /// Endpoints that must not be chosen, because an attempt at them failed.
    pub(crate) tried: &'a [u64],
    /// The endpoint of the attempt that failed last, where this is a retry.
    pub(crate) failed: Option<u64>,
    /// The name of the wanted subset, hashed; 0 for an upstream without subsets.
    pub(crate) subset: u64,
    /// The tag of the node that the request's session is at.
    pub(crate) sticky: Option<NonZeroU64>,
}

/// A group in use.
struct Planned {
    group: NodeGroup,
    is_remote: bool,
    balancer: Box<dyn Balancer>,
    /// The sum of the shares up to it.
    share_up_to: u32,
}

/// The groups of one worker.
pub(crate) struct SelectionPlan {
    groups: Vec<Planned>,
    /// Whether the first group has not all requests.
    is_shared: bool,
    /// Whether the group is drawn by the request's key, because the same key must be sent to the same node.
    is_keyed: bool,
}

/// The plan before, from which balancers continue.
pub(crate) struct PreviousPlan<'a> {
    pub(crate) plan: &'a SelectionPlan,
    /// By node, its index when that plan was made; empty if the set is the same.
    pub(crate) indices: &'a [Option<u32>],
}

impl SelectionPlan {
    /// The plan of these parts.
    pub(crate) fn new(
        kind: &BalancerKind,
        set: &NodeSet,
        loads: &Loads,
        stagger: usize,
        parts: Vec<GroupShare>,
        before: Option<&PreviousPlan<'_>>,
    ) -> SelectionPlan {
        let mut share_up_to = 0;
        let planned = |GroupShare { group, is_remote, share }: GroupShare| {
            let turns = before.map_or_else(Vec::new, |before| before.turns(&group, is_remote));
            let start = Start { set, group: &group, loads, stagger, turns: &turns };
            let balancer = (kind.make)(&start);
            share_up_to += share;
            Planned { group, is_remote, balancer, share_up_to }
        };
        let groups: Vec<Planned> = parts.into_iter().map(planned).collect();
        let is_shared = groups.first().is_some_and(|first| first.share_up_to < WHOLE);
        SelectionPlan { groups, is_shared, is_keyed: kind.derive.is_some() }
    }

    /// The chosen node; none if all were tried.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        set: &NodeSet,
        loads: &Loads,
        request: SelectionRequest<'_>,
    ) -> Option<usize> {
        let first = if self.is_shared { self.drawn(&request) } else { 0 };
        let SelectionRequest { key_hash, random, now_ms, tried, failed, .. } = request;
        let mut in_group = |Planned { group, balancer, .. }: &mut Planned| {
            let choice = BalanceInput { set, group, loads, key_hash, random, now_ms, tried, failed };
            balancer.choose(&choice).map(|member| group.node(member))
        };
        if let Some(node) = self.groups.get_mut(first).and_then(&mut in_group) {
            return Some(node);
        }
        let mut others = self.groups.iter_mut().enumerate().filter(|(index, _)| *index != first);
        others.find_map(|(_, planned)| in_group(planned))
    }

    /// The group of a request's first attempt.
    fn drawn(&self, request: &SelectionRequest<'_>) -> usize {
        let mut state = if self.is_keyed { u64::from(request.key_hash) } else { request.random };
        // The high half of the product is evenly spread below `WHOLE`.
        let drawn = (((next_random(&mut state) >> 32) * u64::from(WHOLE)) >> 32) as u32;
        self.groups.partition_point(|group| group.share_up_to <= drawn)
    }

    /// Tells the balancers about the requests in flight at `node`.
    pub(crate) fn load_changed(&mut self, node: usize, active: u32) {
        for Planned { group, balancer, .. } in &mut self.groups {
            if let Some(member) = group.member(node) {
                balancer.load_changed(member, active);
            }
        }
    }
}

impl PreviousPlan<'_> {
    /// The turns of the members of `group` in the plan before.
    fn turns(&self, group: &NodeGroup, is_remote: bool) -> Vec<Option<f64>> {
        let is_same =
            |before: &&Planned| before.group.priority == group.priority && before.is_remote == is_remote;
        let Some(before) = self.plan.groups.iter().find(is_same) else { return Vec::new() };
        let turns = before.balancer.turns();
        if turns.is_empty() {
            return Vec::new();
        }
        let turn = |member: usize| {
            let node = group.node(member);
            let node = match self.indices.get(node) {
                Some(before) => (*before)? as usize,
                None => node,
            };
            before.group.member(node).map(|member| turns[member])
        };
        (0..group.len()).map(turn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::balance::testing::set;
    use super::super::super::balance::{consistent_hash, round_robin};
    use super::*;

    /// The nodes of 10,000 choices in a plan of groups with one node and these shares each.
    fn chosen(kind: &BalancerKind, shares: &[u32]) -> Vec<usize> {
        let set = set(&vec![1; shares.len()]);
        let part = |(node, share): (usize, &u32)| {
            let group = NodeGroup::new(&set, -(node as i64), std::iter::once((node, 1.0)));
            GroupShare { group, is_remote: false, share: *share }
        };
        let parts = shares.iter().enumerate().map(part).collect();
        let loads = Loads::new(shares.len());
        let mut plan = SelectionPlan::new(kind, &set, &loads, 0, parts, None);
        let mut choose = |number: u32| {
            let (key_hash, random) = (number / 2, u64::from(number));
            let request = SelectionRequest {
                key_hash,
                random,
                now_ms: 0,
                tried: &[],
                failed: None,
                subset: 0,
                sticky: None,
            };
            plan.choose(&set, &loads, request).unwrap()
        };
        (0..10_000).map(&mut choose).collect()
    }

    #[test]
    fn groups_get_requests_by_their_shares() {
        let all = chosen(&round_robin::KIND, &[WHOLE, 0]);
        assert!(all.iter().all(|node| *node == 0));
        let chosen = chosen(&round_robin::KIND, &[5_000, 2_000, 0, 3_000]);
        for (node, share) in [(0, 5_000_usize), (1, 2_000), (2, 0), (3, 3_000)] {
            let count = chosen.iter().filter(|chosen| **chosen == node).count();
            assert!(count.abs_diff(share) <= share / 10, "group {node} has {count}");
        }
    }

    #[test]
    fn same_key_draws_the_same_group() {
        let chosen = chosen(&consistent_hash::KIND, &[5_000, 5_000]);
        assert!(chosen.chunks(2).all(|pair| pair[0] == pair[1]));
        assert!(chosen.contains(&0) && chosen.contains(&1));
    }
}

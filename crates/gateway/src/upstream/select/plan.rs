//! A plan: the groups from which one worker chooses the nodes of an upstream, each with its balancer, in the order in which
//! they are tried. The first attempt of a request goes to a group by its share.

use net::nodes::NodeSet;

use super::divide::Part;
use super::group::Group;
use crate::upstream::balance::{Balancer, BalancerKind, Choice, Start};
use crate::upstream::loads::Loads;

/// The facts of one choice.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The hash of the request's key, for methods that use one.
    pub(crate) key_hash: u32,
    /// A random number.
    pub(crate) random: u64,
    /// Milliseconds of the monotonic clock.
    pub(crate) now_ms: u64,
    /// Endpoints that must not be chosen, because an attempt at them failed.
    pub(crate) tried: &'a [u64],
}

/// A group in use.
struct Planned {
    group: Group,
    balancer: Box<dyn Balancer>,
}

/// The groups of one worker.
#[derive(Default)]
pub(crate) struct Plan {
    groups: Vec<Planned>,
}

/// The plan before, from which balancers continue.
pub(crate) struct Before<'a> {
    pub(crate) plan: &'a Plan,
    /// By node, its index when that plan was made; empty if the set is the same.
    pub(crate) indices: &'a [Option<u32>],
}

impl Plan {
    /// The plan of these parts.
    pub(crate) fn new(
        kind: &BalancerKind,
        set: &NodeSet,
        loads: &Loads,
        stagger: usize,
        parts: Vec<Part>,
        before: &Before<'_>,
    ) -> Plan {
        let planned = |part: Part| {
            let turns = before.turns(&part.group);
            let start = Start { set, group: &part.group, loads, stagger, turns: &turns };
            Planned { balancer: (kind.make)(&start), group: part.group }
        };
        Plan { groups: parts.into_iter().map(planned).collect() }
    }

    /// The chosen node; none if all were tried.
    #[inline]
    pub(crate) fn choose(&mut self, set: &NodeSet, loads: &Loads, request: Request<'_>) -> Option<usize> {
        let Request { key_hash, random, now_ms, tried } = request;
        self.groups.iter_mut().find_map(|Planned { group, balancer }| {
            let choice = Choice { set, group, loads, key_hash, random, now_ms, tried };
            balancer.choose(&choice).map(|member| group.node(member))
        })
    }

    /// Tells the balancers about the requests in flight at `node`.
    pub(crate) fn load_changed(&mut self, node: usize, active: u32) {
        for Planned { group, balancer } in &mut self.groups {
            if let Some(member) = group.member(node) {
                balancer.load_changed(member, active);
            }
        }
    }
}

impl Before<'_> {
    /// The turns of the members of `group` in the plan before.
    fn turns(&self, group: &Group) -> Vec<Option<f64>> {
        let same = self.plan.groups.iter().find(|before| before.group.priority == group.priority);
        let Some(before) = same else { return Vec::new() };
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

//! A group: the nodes of a set among which a balancer chooses, as a dense list, so that a choice looks at no
//! other node.

use net::nodes::NodeSet;

/// Marks a node that is no member.
const NONE: u32 = u32::MAX;

/// The part of its weight with which a member counts as started; below 1, because quotients are rounded.
pub(crate) const STARTED_PART: f64 = 0.999;

/// The nodes among which a balancer chooses.
#[derive(Clone, Debug, Default)]
pub struct NodeGroup {
    /// The priority of all its members.
    pub priority: i64,
    members: Vec<Member>,
    /// By node, its index among the members, or [`NONE`].
    member_of: Vec<u32>,
    weight: f64,
    /// The weights of the members after their start; empty unless one starts slowly.
    whole: Vec<f64>,
    /// Nodes of the whole set with a weight: the share of members tells how long a search among all nodes
    /// takes.
    weighted_nodes: usize,
}

/// A node that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Member {
    /// Its index in the set.
    node: u32,
    /// Its share; above 0.
    weight: f64,
}

impl NodeGroup {
    /// The group of these nodes of `set`, which have one priority, with their weights; nodes without a weight
    /// are left out.
    pub fn new(set: &NodeSet, priority: i64, nodes: impl Iterator<Item = (usize, f64)>) -> NodeGroup {
        let mut group =
            NodeGroup { priority, member_of: vec![NONE; set.nodes.len()], ..NodeGroup::default() };
        group.weighted_nodes = set.nodes.iter().filter(|node| node.weight > 0).count();
        for (node, weight) in nodes.filter(|(_, weight)| *weight > 0.0) {
            group.member_of[node] = group.members.len() as u32;
            group.members.push(Member { node: node as u32, weight });
            group.weight += weight;
        }
        group.whole = group.whole_weights(set);
        group
    }

    /// The weights after the start. Members that start together share as they will later, therefore the part
    /// of its weight that each has is compared with the largest one.
    fn whole_weights(&self, set: &NodeSet) -> Vec<f64> {
        let written = |member: &Member| f64::from(set.nodes[member.node as usize].weight);
        let parts = || self.members.iter().map(|member| member.weight / written(member));
        let largest = parts().fold(0.0, f64::max);
        match parts().all(|part| part >= largest * STARTED_PART) {
            true => Vec::new(),
            false => self.members.iter().map(|member| written(member) * largest).collect(),
        }
    }

    /// The group of all nodes of `set` with a weight, for a set with one priority.
    pub fn whole(set: &NodeSet) -> NodeGroup {
        let priority = set.nodes.first().map_or(0, |node| node.priority);
        NodeGroup::new(set, priority, set.nodes.iter().map(|node| f64::from(node.weight)).enumerate())
    }

    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The node that `member` is.
    #[inline]
    pub fn node(&self, member: usize) -> usize {
        self.members[member].node as usize
    }

    /// The weight of `member`; above 0.
    #[inline]
    pub fn weight(&self, member: usize) -> f64 {
        self.members[member].weight
    }

    /// Whether a member starts slowly, for methods that compare loads: an idle node with a small weight would
    /// get nothing among idle neighbours. They compare [whole weights](NodeGroup::weight_whole), and limit
    /// the choices of such a member.
    #[inline]
    pub fn is_starting(&self) -> bool {
        !self.whole.is_empty()
    }

    /// The part of its share that `member` gets while it starts; 1 for others.
    #[inline]
    pub fn start(&self, member: usize) -> f64 {
        self.weight(member) / self.weight_whole(member)
    }

    /// The weight of `member` as it is after its start.
    #[inline]
    pub fn weight_whole(&self, member: usize) -> f64 {
        self.whole.get(member).copied().unwrap_or_else(|| self.weight(member))
    }

    /// The weights of the members, in order.
    pub fn weights(&self) -> impl Iterator<Item = f64> + '_ {
        self.members.iter().map(|member| member.weight)
    }

    /// The sum of the weights.
    #[inline]
    pub fn weight_total(&self) -> f64 {
        self.weight
    }

    /// The index of `node` among the members.
    #[inline]
    pub fn member(&self, node: usize) -> Option<usize> {
        self.member_of.get(node).filter(|member| **member != NONE).map(|member| *member as usize)
    }

    /// Whether less than one in `part` of the set's nodes is a member.
    pub fn is_sparse(&self, part: usize) -> bool {
        self.members.len() * part < self.weighted_nodes
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::balance::testing::set;
    use super::*;

    #[test]
    fn members_are_dense_and_found_by_node() {
        let set = set(&[1, 0, 3, 2]);
        let group = NodeGroup::new(&set, 0, [(0, 1.0), (1, 0.0), (3, 2.0)].into_iter());
        assert_eq!((group.len(), group.node(1), group.weight(1), group.weight_total()), (2, 3, 2.0, 3.0));
        assert_eq!([0, 1, 2, 3].map(|node| group.member(node)), [Some(0), None, None, Some(1)]);
        assert!(group.is_sparse(1) && !group.is_sparse(2), "two of three nodes with a weight");
    }

    #[test]
    fn members_that_start_together_share_as_later() {
        let set = set(&[1, 3, 2]);
        let group = |weights: [f64; 3]| NodeGroup::new(&set, 0, weights.into_iter().enumerate());
        assert!(!group([0.1, 0.3, 0.2]).is_starting());
        let one = group([0.5, 1.5, 0.2]);
        assert!(one.is_starting());
        assert_eq!([0, 1, 2].map(|member| one.weight_whole(member)), [0.5, 1.5, 1.0]);
        assert_eq!([0, 1, 2].map(|member| one.start(member)), [1.0, 1.0, 0.2]);
    }
}

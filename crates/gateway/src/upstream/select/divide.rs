//! The groups of a plan: usable nodes by priority.

use net::nodes::NodeSet;

use super::group::Group;
use crate::upstream::availability::Availability;

/// All first attempts; the shares of a plan's groups add up to it.
pub(crate) const WHOLE: u32 = 10_000;

/// A group, and its part of the first attempts out of [`WHOLE`].
pub(crate) struct Part {
    pub(crate) group: Group,
    pub(crate) share: u32,
}

/// The groups of the usable nodes of `set`, in the order in which they are tried: the highest priority first.
pub(crate) fn divide(set: &NodeSet, availability: &Availability) -> Vec<Part> {
    let mut priorities: Vec<i64> = set.nodes.iter().map(|node| node.priority).collect();
    priorities.sort_unstable_by(|a, b| b.cmp(a));
    priorities.dedup();
    let group = |priority: i64| {
        let nodes = set.nodes.iter().enumerate().filter(|(_, node)| node.priority == priority);
        let usable = nodes.filter(|(index, _)| availability.is_usable(*index));
        Group::new(set, priority, usable.map(|(index, node)| (index, f64::from(node.weight))))
    };
    let groups = priorities.into_iter().map(group).filter(|group| !group.is_empty());
    groups
        .zip(std::iter::once(WHOLE).chain(std::iter::repeat(0)))
        .map(|(group, share)| Part { group, share })
        .collect()
}

//! The nodes of a set that a worker must not select, from the shared states; kept per worker, so that a rebuild of its
//! groups is due only when a state has changed.

use net::nodes::NodeSet;

/// A worker's view of which nodes may be selected.
pub(crate) struct Availability {
    /// [`net::node_state::NodeStates::version`] when it was taken.
    version: u64,
    /// By index, whether the node must not be selected; none where every node may be.
    unusable: Option<Box<[bool]>>,
}

impl Availability {
    /// The view of `set` as its states are now. Where no node is usable, all are: a request to a node that is probably down
    /// is better than a certain refusal (contract 2.3).
    pub(crate) fn of(set: &NodeSet) -> Availability {
        // The version first, so that a transition in between makes the view stale.
        let version = set.states.version();
        let unusable: Box<[bool]> = set.nodes.iter().map(|node| !node.state.is_usable()).collect();
        let left = set.nodes.iter().zip(&unusable).any(|(node, unusable)| !unusable && node.weight > 0);
        let is_partial = left && unusable.contains(&true);
        Availability { version, unusable: is_partial.then_some(unusable) }
    }

    /// Whether the node may be selected.
    pub(crate) fn is_usable(&self, node: usize) -> bool {
        self.unusable.as_deref().is_none_or(|unusable| !unusable[node])
    }

    /// Whether a node of `set` became usable or unusable since.
    #[inline]
    pub(crate) fn is_stale(&self, set: &NodeSet) -> bool {
        set.states.version() != self.version
    }
}

#[cfg(test)]
mod tests {
    use net::node_state::Unusable;

    use super::super::balance::testing::{set, transition};
    use super::*;

    #[test]
    fn unusable_nodes_are_excluded_unless_all_are() {
        // weights, unusable nodes → excluded
        type Case = (&'static [u32], &'static [usize], Option<&'static [bool]>);
        let cases: [Case; 5] = [
            (&[1, 1, 1], &[], None),
            (&[1, 1, 1], &[1], Some(&[false, true, false])),
            (&[1, 1], &[0, 1], None),
            (&[1, 0], &[0], None),
            (&[1, 0], &[1], Some(&[false, true])),
        ];
        for (weights, down, excluded) in cases {
            let set = set(weights);
            down.iter().for_each(|index| {
                set.nodes[*index].state.mark(Unusable::Unhealthy, true, transition());
            });
            assert_eq!(Availability::of(&set).unusable.as_deref(), excluded, "{weights:?} {down:?}");
        }
    }

    #[test]
    fn transition_makes_the_view_stale() {
        let set = set(&[1, 1]);
        let view = Availability::of(&set);
        assert!(!view.is_stale(&set));
        set.nodes[0].state.mark(Unusable::Ejected, true, transition());
        assert!(view.is_stale(&set));
    }
}

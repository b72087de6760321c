//! A worker's view of which nodes may be selected and with which weight, from the shared states of the nodes;
//! taken again when a state has changed or a growing weight is due for its next step.

use net::nodes::NodeSet;

use super::select::Policies;

/// See the module. The default is the view of no nodes.
#[derive(Default)]
pub(crate) struct Availability {
    /// [`net::node_state::NodeStates::version`] when it was taken.
    version: u64,
    /// By index, whether no state forbids the node.
    usable: Box<[bool]>,
    /// By index, the weight as it is now.
    weights: Box<[f64]>,
    /// Milliseconds of the monotonic clock at which weights have grown; never, if none is growing.
    next_ms: u64,
}

impl Availability {
    /// The view of `set` as its states are now, at `now_ms` of the monotonic clock and `wall_ms` since 1970.
    pub(crate) fn of(set: &NodeSet, policies: &Policies, now_ms: u64, wall_ms: u64) -> Availability {
        // The version first, so that a transition in between makes the view stale.
        let version = set.states.version_before_states();
        let usable = set.nodes.iter().map(|node| node.state.is_usable()).collect();
        let mut next_ms = u64::MAX;
        let weight = |node: &net::nodes::ResolvedNode| {
            let mut factor = 1.0;
            if let Some(slow_start) = &policies.slow_start {
                factor = slow_start.factor(&node.state, wall_ms);
                if factor < 1.0 {
                    next_ms = now_ms + slow_start.step_ms();
                }
            }
            f64::from(node.weight) * factor
        };
        let weights = set.nodes.iter().map(weight).collect();
        Availability { version, usable, weights, next_ms }
    }

    /// Whether the state of no kind forbids the node.
    pub(crate) fn is_usable(&self, node: usize) -> bool {
        self.usable[node]
    }

    /// The weight of the node as it is now.
    pub(crate) fn weight(&self, node: usize) -> f64 {
        self.weights[node]
    }

    /// Whether a node of `set` became usable or unusable since, or weights have grown.
    #[inline]
    pub(crate) fn is_stale(&self, set: &NodeSet, now_ms: u64) -> bool {
        set.states.version() != self.version || now_ms >= self.next_ms
    }
}

#[cfg(test)]
mod tests {
    use net::node_state::Unusable;

    use super::super::balance::testing::{set, transition};
    use super::super::select::slow_start::SlowStart;
    use super::*;

    #[test]
    fn transition_makes_the_view_stale() {
        let set = set(&[1, 1]);
        let view = Availability::of(&set, &Policies::default(), 0, 0);
        assert!(!view.is_stale(&set, u64::MAX - 1));
        set.nodes[0].state.mark(Unusable::Ejected, true, transition());
        assert!(view.is_stale(&set, 0));
        let view = Availability::of(&set, &Policies::default(), 0, 0);
        assert_eq!((view.is_usable(0), view.is_usable(1)), (false, true));
    }

    #[test]
    fn growing_weight_makes_the_view_stale() {
        let set = set(&[10, 10]);
        let slow_start = Some(SlowStart { window_ms: 2_000, least: 0.1 });
        let policies = Policies { slow_start, ..Policies::default() };
        for applies in [true, false] {
            set.nodes[0].state.mark(Unusable::Unhealthy, applies, transition());
        }
        let view = Availability::of(&set, &policies, 500, transition().at_ms + 1_000);
        assert_eq!((view.weight(0), view.weight(1)), (5.0, 10.0));
        assert!(!view.is_stale(&set, 599) && view.is_stale(&set, 600));
        let view = Availability::of(&set, &policies, 500, transition().at_ms + 2_000);
        assert_eq!((view.weight(0), view.is_stale(&set, u64::MAX - 1)), (10.0, false));
    }
}

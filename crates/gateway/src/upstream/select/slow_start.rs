//! Slow start: the weight of a node that joined the set or became usable again grows over a window, so that a
//! node with cold caches is not given its full share at once. Nodes that start together share as they will
//! later.

use net::node_state::NodeState;

/// The steps in which a weight grows over the window: the groups are rebuilt at each.
const STEPS: u64 = 20;
/// The shortest step, because each rebuild costs as much as there are nodes.
const STEP_MS_MIN: u64 = 10;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowStart {
    /// From the start to the full weight, in milliseconds; above 0.
    pub window_ms: u64,
    /// The part of the weight at the start, between 0 and 1.
    pub least: f64,
}

impl SlowStart {
    /// The factor of the weight of `node` at `wall_ms` since 1970; 1 after its window.
    pub(crate) fn factor(&self, node: &NodeState, wall_ms: u64) -> f64 {
        let since_ms = node.usable_since_ms();
        // The wall clock may have been set back; then the time is unknown and the node has its weight.
        let elapsed_ms = wall_ms.checked_sub(since_ms).unwrap_or(self.window_ms);
        if since_ms == 0 || elapsed_ms >= self.window_ms {
            return 1.0;
        }
        (elapsed_ms as f64 / self.window_ms as f64).max(self.least)
    }

    /// Milliseconds between two steps.
    pub(crate) fn step_ms(&self) -> u64 {
        (self.window_ms / STEPS).max(STEP_MS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use net::node_state::{NodeStates, Transition, Unusable};

    use super::*;

    #[test]
    fn weight_grows_over_the_window() {
        let states = Arc::<NodeStates>::default();
        let node = states.of(([127, 0, 0, 1], 80).into(), &Arc::from("a"));
        let slow_start = SlowStart { window_ms: 10_000, least: 0.2 };
        assert_eq!(slow_start.factor(&node, 5), 1.0, "a node of the first set has its weight");
        let at = |at_ms| Transition { at_ms, cause: "a test".into() };
        node.mark(Unusable::Unhealthy, true, at(1_000));
        node.mark(Unusable::Unhealthy, false, at(50_000));
        // milliseconds since 1970 → factor
        for (wall_ms, factor) in
            [(50_000, 0.2), (51_000, 0.2), (55_000, 0.5), (59_000, 0.9), (60_000, 1.0), (49_000, 1.0)]
        {
            assert_eq!(slow_start.factor(&node, wall_ms), factor, "at {wall_ms}");
        }
        assert_eq!(slow_start.step_ms(), 500);
    }
}

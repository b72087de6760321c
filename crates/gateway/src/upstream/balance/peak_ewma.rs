//! Peak EWMA: chooses the cheaper of two random nodes. The cost is the response time, averaged with an exponential
//! decay that follows a rise at once and forgets it slowly, times the requests in flight. (The power of two choices
//! after Mitzenmacher; the peak-sensitive average as in Finagle.) Each worker has its own averages.

use super::{Balancer, BalancerKind, Choice, Memory};

/// Time after which an average has lost all but 1/e of its weight; the usual choice, long compared with a request and
/// short compared with a deployment.
const DECAY_MS: f64 = 10_000.0;
/// The latency that a failed attempt counts as, because otherwise a node that refuses quickly would look fast.
const FAILURE_PENALTY_US: f64 = 5_000_000.0;

/// The better of two nodes, by response time weighted to the recent past and by requests in flight.
pub static KIND: BalancerKind =
    BalancerKind { name: "ewma", derive: None, make: |tier| Box::new(PeakEwma::new(tier.set.nodes.len())) };

/// The state of one worker.
pub struct PeakEwma {
    nodes: Vec<Memory>,
}

impl PeakEwma {
    /// For `nodes` nodes.
    pub fn new(nodes: usize) -> PeakEwma {
        PeakEwma { nodes: vec![Memory::default(); nodes] }
    }

    fn score(&self, index: usize, weight: u32, now_ms: u64) -> f64 {
        let node = &self.nodes[index];
        let decayed = node.cost_us * decay(now_ms, node.updated_ms);
        // A node without an average costs almost nothing, so that it is chosen soon; its load still counts.
        (decayed + 1.0) * f64::from(node.active + 1) / f64::from(weight)
    }
}

fn decay(now_ms: u64, updated_ms: u64) -> f64 {
    (-(now_ms.saturating_sub(updated_ms) as f64) / DECAY_MS).exp()
}

impl Balancer for PeakEwma {
    fn choose(&mut self, choice: &Choice<'_>) -> Option<usize> {
        let nodes = &choice.set.nodes;
        let usable = |index: &usize| nodes[*index].weight > 0 && !(choice.excluded)(*index);
        let count = (0..nodes.len()).filter(usable).count();
        let nth = |n: usize| (0..nodes.len()).filter(usable).nth(n);
        if count < 2 {
            return nth(0);
        }
        let first = (choice.random >> 32) as usize % count;
        // One of the other nodes, with equal probability.
        let second = (first + 1 + choice.random as u32 as usize % (count - 1)) % count;
        let (first, second) = (nth(first)?, nth(second)?);
        let score = |index: usize| self.score(index, nodes[index].weight, choice.now_ms);
        Some(if score(second) < score(first) { second } else { first })
    }

    fn memory(&self, node: usize) -> Memory {
        self.nodes[node]
    }

    fn remember(&mut self, node: usize, memory: Memory) {
        self.nodes[node] = memory;
    }

    fn started(&mut self, node: usize) {
        self.nodes[node].active += 1;
    }

    fn finished(&mut self, node: usize, latency_us: u64, now_ms: u64, failed: bool) {
        let state = &mut self.nodes[node];
        state.active = state.active.saturating_sub(1);
        let sample = if failed { FAILURE_PENALTY_US.max(latency_us as f64) } else { latency_us as f64 };
        let kept = decay(now_ms, state.updated_ms);
        state.cost_us =
            if sample > state.cost_us { sample } else { state.cost_us * kept + sample * (1.0 - kept) };
        state.updated_ms = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{choose, set};
    use super::*;

    #[test]
    fn slow_node_is_avoided_until_average_decays() {
        let set = set(&[1, 1]);
        let mut balancer = PeakEwma::new(2);
        balancer.started(0);
        balancer.finished(0, 900_000, 0, false);
        balancer.started(1);
        balancer.finished(1, 1_000, 0, false);
        for _ in 0..20 {
            assert_eq!(choose(&mut balancer, &set, 100), Some(1));
        }
        // A minute later the past of node 0 no longer counts, while node 1 has a request in flight.
        balancer.started(1);
        balancer.finished(1, 50_000, 200_000, false);
        balancer.started(1);
        assert_eq!(choose(&mut balancer, &set, 200_000), Some(0));
    }

    #[test]
    fn failing_node_does_not_count_as_fast() {
        let set = set(&[1, 1]);
        let mut balancer = PeakEwma::new(2);
        for (node, failed) in [(0, true), (1, false)] {
            balancer.started(node);
            balancer.finished(node, 2_000, 0, failed);
        }
        assert_eq!(choose(&mut balancer, &set, 0), Some(1));
    }
}

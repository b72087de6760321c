//! Least connections: chooses the node with the fewest requests in flight for its weight; equal nodes take turns, so
//! that idle nodes share the first requests. Each worker counts its own requests.

use super::{Balancer, BalancerKind, Choice, Memory};

/// The node with the fewest requests in flight for its weight.
pub static KIND: BalancerKind = BalancerKind {
    name: "least_conn",
    derive: None,
    make: |tier| Box::new(LeastConnections::new(tier.set.nodes.len(), tier.stagger)),
};

/// The state of one worker.
pub struct LeastConnections {
    active: Vec<u32>,
    next: usize,
}

impl LeastConnections {
    /// For `nodes` nodes, starting at `stagger`.
    pub fn new(nodes: usize, stagger: usize) -> LeastConnections {
        LeastConnections { active: vec![0; nodes], next: stagger }
    }
}

impl Balancer for LeastConnections {
    fn choose(&mut self, choice: &Choice<'_>) -> Option<usize> {
        let nodes = &choice.set.nodes;
        let count = nodes.len();
        let start = self.next;
        let usable = |index: &usize| nodes[*index].weight > 0 && !(choice.excluded)(*index);
        // (active + 1) / weight, compared by cross-multiplication.
        let load = |index: usize| (u64::from(self.active[index]) + 1, u64::from(nodes[index].weight));
        let best = (0..count).map(|step| (start + step) % count).filter(usable).reduce(|best, other| {
            let ((best_load, best_weight), (load, weight)) = (load(best), load(other));
            if load * best_weight < best_load * weight { other } else { best }
        })?;
        self.next = (best + 1) % count;
        Some(best)
    }

    fn memory(&self, node: usize) -> Memory {
        Memory { active: self.active[node], ..Memory::default() }
    }

    fn remember(&mut self, node: usize, memory: Memory) {
        self.active[node] = memory.active;
    }

    fn started(&mut self, node: usize) {
        self.active[node] += 1;
    }

    fn finished(&mut self, node: usize, _latency_us: u64, _now_ms: u64, _failed: bool) {
        self.active[node] = self.active[node].saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{choose, set};
    use super::*;

    #[test]
    fn node_with_least_load_per_weight_is_chosen() {
        let set = set(&[1, 2]);
        let mut balancer = LeastConnections::new(2, 0);
        let mut chosen = Vec::new();
        for _ in 0..6 {
            let node = choose(&mut balancer, &set, 0).unwrap();
            balancer.started(node);
            chosen.push(node);
        }
        assert_eq!(chosen.iter().filter(|node| **node == 1).count(), 4, "{chosen:?}");
        balancer.finished(0, 1, 0, false);
        balancer.finished(0, 1, 0, false);
        assert_eq!(choose(&mut balancer, &set, 0), Some(0));
    }
}

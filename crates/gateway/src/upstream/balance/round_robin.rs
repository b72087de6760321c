//! Smooth weighted round robin: at every turn each node gains its weight, and the node with the highest credit is
//! chosen and pays the sum, so that the turns of a heavy node are spread evenly. Workers start at different nodes.

use net::nodes::Node;

use super::{Balancer, BalancerKind, Choice};

/// Each node in turn, in the proportion of the weights.
pub static KIND: BalancerKind = BalancerKind {
    name: "roundrobin",
    derive: None,
    make: |tier| {
        // Nodes of other priorities must not take part in the staggering, although they are excluded at each choice.
        let weight = |node: &Node| if node.priority == tier.priority { node.weight } else { 0 };
        let weights: Vec<u32> = tier.set.nodes.iter().map(weight).collect();
        Box::new(RoundRobin::new(&weights, tier.stagger))
    },
};

/// The state of one worker.
pub struct RoundRobin {
    credit: Vec<i64>,
}

impl RoundRobin {
    /// The state for nodes with these weights; `stagger` is the worker's number, so that workers do not choose in step.
    pub fn new(weights: &[u32], stagger: usize) -> RoundRobin {
        let mut balancer = RoundRobin { credit: vec![0; weights.len()] };
        for _ in 0..stagger % weights.len().max(1) {
            balancer.turn(weights.iter().copied(), &|_| false);
        }
        balancer
    }

    fn turn(
        &mut self,
        weights: impl Iterator<Item = u32>,
        excluded: &dyn Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<usize> = None;
        for (index, weight) in weights.enumerate() {
            if weight == 0 || excluded(index) {
                continue;
            }
            total += i64::from(weight);
            self.credit[index] += i64::from(weight);
            if best.is_none_or(|best| self.credit[index] > self.credit[best]) {
                best = Some(index);
            }
        }
        let best = best?;
        self.credit[best] -= total;
        Some(best)
    }
}

impl Balancer for RoundRobin {
    fn choose(&mut self, choice: &Choice<'_>) -> Option<usize> {
        debug_assert_eq!(self.credit.len(), choice.set.nodes.len());
        self.turn(choice.set.nodes.iter().map(|node| node.weight), choice.excluded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(weights: &[u32], stagger: usize, turns: usize) -> String {
        let mut balancer = RoundRobin::new(weights, stagger);
        let turn =
            |_| balancer.turn(weights.iter().copied(), &|_| false).map_or('-', |n| (b'a' + n as u8) as char);
        (0..turns).map(turn).collect()
    }

    #[test]
    fn turns_follow_the_weights_smoothly() {
        assert_eq!(sequence(&[1, 1, 1], 0, 6), "abcabc");
        assert_eq!(sequence(&[5, 1, 1], 0, 7), "aabacaa");
        assert_eq!(sequence(&[1, 0, 1], 0, 4), "acac");
        assert_eq!(sequence(&[0], 0, 2), "--");
        assert_eq!(sequence(&[], 0, 1), "-");
    }

    #[test]
    fn workers_start_at_different_nodes() {
        assert_eq!(sequence(&[1, 1], 1, 2), "ba");
    }

    #[test]
    fn excluded_nodes_keep_their_credit() {
        let mut balancer = RoundRobin::new(&[1, 1], 0);
        let weights = || [1, 1].into_iter();
        assert_eq!(balancer.turn(weights(), &|index| index == 0), Some(1));
        assert_eq!(balancer.turn(weights(), &|_| true), None);
    }
}

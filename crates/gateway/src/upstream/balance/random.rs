//! Random two choices: draws two nodes at random, in proportion to their weights, and chooses the one with fewer requests in
//! flight for its weight (Mitzenmacher, "The power of two choices in randomized load balancing", 2001; nginx's `random two
//! least_conn`). Costs the same among three nodes and among thousands. Each worker counts its own requests.

use super::{Balancer, BalancerKind, Choice, Memory, Tier};

/// Draws for each of the two nodes: excluded nodes are drawn again. Behind them all nodes are looked at.
const DRAWS_MAX: usize = 8;

/// The better of two random nodes, by requests in flight.
pub static KIND: BalancerKind =
    BalancerKind { name: "random", derive: None, make: |tier| Box::new(RandomTwo::new(tier)) };

/// The state of one worker.
pub struct RandomTwo {
    active: Vec<u32>,
    /// The nodes of the priority that have a weight, with the sum of the weights up to each.
    sums: Vec<(u64, u32)>,
}

impl RandomTwo {
    /// For the nodes of a priority.
    pub fn new(tier: &Tier<'_>) -> RandomTwo {
        let nodes = (0_u32..).zip(&tier.set.nodes);
        let mut sum = 0;
        let sums = nodes
            .filter(|(_, node)| node.weight > 0 && node.priority == tier.priority)
            .map(|(index, node)| {
                sum += u64::from(node.weight);
                (sum, index)
            })
            .collect();
        RandomTwo { active: vec![0; tier.set.nodes.len()], sums }
    }

    /// The node at a random position of the sum of all weights.
    fn draw(&self, random: u64) -> Option<usize> {
        let total = self.sums.last()?.0;
        // The high half of the product is below `total`, and even enough: the sum of weights is far below 2^64.
        let position = (u128::from(random) * u128::from(total)) >> 64;
        let at = self.sums.partition_point(|(sum, _)| u128::from(*sum) <= position);
        self.sums.get(at).map(|(_, index)| *index as usize)
    }

    /// Whether `other` has fewer requests in flight for its weight than `best`. Among idle nodes the one drawn first stays,
    /// so that they share by weight.
    fn is_better(&self, choice: &Choice<'_>, other: usize, best: usize) -> bool {
        let load = |index: usize| u64::from(self.active[index]);
        let weight = |index: usize| u64::from(choice.set.nodes[index].weight);
        load(other) * weight(best) < load(best) * weight(other)
    }
}

/// The next of a sequence of numbers that begins with a random one (SplitMix64; Steele, Lea and Flood, 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Balancer for RandomTwo {
    fn choose(&mut self, choice: &Choice<'_>) -> Option<usize> {
        let mut state = choice.random;
        let mut first = None;
        for _ in 0..2 * DRAWS_MAX {
            let drawn = self.draw(next(&mut state))?;
            match first {
                _ if (choice.excluded)(drawn) => {}
                None => first = Some(drawn),
                Some(first) if first == drawn => {}
                Some(first) => return Some(if self.is_better(choice, drawn, first) { drawn } else { first }),
            }
        }
        // Nearly all weight is with one node or with excluded ones.
        let usable =
            self.sums.iter().map(|(_, index)| *index as usize).filter(|index| !(choice.excluded)(*index));
        usable.reduce(|best, other| if self.is_better(choice, other, best) { other } else { best })
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
    use super::super::testing::set;
    use super::*;
    use net::nodes::NodeSet;

    fn balancer(set: &NodeSet) -> RandomTwo {
        RandomTwo::new(&Tier { set, priority: 0, stagger: 0 })
    }

    /// Chooses `count` times, with different random numbers; requests end at once.
    fn shares(set: &NodeSet, count: u64, excluded: &dyn Fn(usize) -> bool) -> Vec<u64> {
        let mut balancer = balancer(set);
        let mut shares = vec![0; set.nodes.len()];
        for random in 0..count {
            let choice = Choice { set, key_hash: 0, random, now_ms: 0, excluded };
            shares[balancer.choose(&choice).unwrap()] += 1;
        }
        shares
    }

    #[test]
    fn idle_nodes_share_by_weight() {
        let shares = shares(&set(&[1, 1, 2, 0]), 40_000, &|_| false);
        assert!(shares[..2].iter().all(|share| (9_500..10_500).contains(share)), "{shares:?}");
        assert!((19_000..21_000).contains(&shares[2]), "{shares:?}");
        assert_eq!(shares[3], 0, "a node with weight 0 is not chosen");
    }

    #[test]
    fn busy_node_gets_no_request_beside_idle_ones() {
        let set = set(&[1, 1, 1]);
        let mut balancer = balancer(&set);
        (0..10).for_each(|_| balancer.started(1));
        for random in 0..1_000 {
            let choice = Choice { set: &set, key_hash: 0, random, now_ms: 0, excluded: &|_| false };
            assert_ne!(balancer.choose(&choice), Some(1));
        }
    }

    #[test]
    fn in_flight_requests_stay_even() {
        let set = set(&[1; 100]);
        let mut balancer = balancer(&set);
        for random in 0..10_000 {
            let choice = Choice { set: &set, key_hash: 0, random, now_ms: 0, excluded: &|_| false };
            let chosen = balancer.choose(&choice).unwrap();
            balancer.started(chosen);
        }
        let most = balancer.active.iter().max().unwrap();
        assert!(*most <= 106, "{most} at one node, 100 on average");
    }

    #[test]
    fn excluded_nodes_are_not_chosen() {
        let all = shares(&set(&[1, 1000]), 100, &|index| index == 1);
        assert_eq!(all, [100, 0]);
        let mut balancer = balancer(&set(&[1, 1]));
        let choice = Choice { set: &set(&[1, 1]), key_hash: 0, random: 7, now_ms: 0, excluded: &|_| true };
        assert_eq!(balancer.choose(&choice), None);
    }
}

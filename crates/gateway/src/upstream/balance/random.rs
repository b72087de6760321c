//! Two choices: draws two nodes at random, in proportion to their weights, and chooses the one with fewer
//! requests in flight for its weight (Mitzenmacher, "The power of two choices in randomized load balancing",
//! 2001; nginx's `random two least_conn`). Costs the same among three nodes and among thousands. Each worker
//! counts its own requests.

use super::{BalanceInput, Balancer, BalancerKind, Start, Uses, next_random};

/// Draws for each of the two nodes: tried nodes and the same one are drawn again. Behind them all nodes are
/// looked at.
const DRAWS_MAX: usize = 8;

/// The better of two random nodes, by requests in flight.
pub static KIND: BalancerKind = BalancerKind {
    name: "random",
    derive: None,
    make: |start| Box::new(RandomTwo::new(start)),
    uses: Uses::Loads,
};

/// The state of one worker.
pub struct RandomTwo {
    /// By member, the sum of the weights up to it; empty where all weights are equal.
    sums: Vec<f64>,
}

impl RandomTwo {
    /// For a group.
    pub fn new(start: &Start<'_>) -> RandomTwo {
        let mut weights = start.group.weights();
        let first = weights.next();
        if weights.all(|weight| Some(weight) == first) {
            return RandomTwo { sums: Vec::new() };
        }
        let mut sum = 0.0;
        let up_to = |weight| {
            sum += weight;
            sum
        };
        RandomTwo { sums: start.group.weights().map(up_to).collect() }
    }

    /// The member at a random position of the sum of all weights.
    #[inline]
    fn draw(&self, random: u64, count: usize) -> usize {
        if self.sums.is_empty() {
            // The high half of the product is evenly spread below `count`.
            return ((u128::from(random) * count as u128) >> 64) as usize;
        }
        let part = (random >> 11) as f64 / (1_u64 << 53) as f64;
        let position = part * self.sums[count - 1];
        self.sums.partition_point(|sum| *sum <= position).min(count - 1)
    }
}

/// Whether `other` has fewer requests in flight for its weight than `best`. Among idle nodes the one drawn
/// first stays, so that they share by weight.
#[inline]
fn is_better(choice: &BalanceInput<'_>, other: usize, best: usize) -> bool {
    let load = |member: usize| f64::from(choice.active(member));
    load(other) * choice.group.weight(best) < load(best) * choice.group.weight(other)
}

impl Balancer for RandomTwo {
    fn choose(&mut self, choice: &BalanceInput<'_>) -> Option<usize> {
        let count = choice.group.len();
        if count == 0 {
            return None;
        }
        let mut state = choice.random;
        let mut first = None;
        for _ in 0..2 * DRAWS_MAX {
            let drawn = self.draw(next_random(&mut state), count);
            match first {
                _ if choice.is_tried(drawn) => {}
                None => first = Some(drawn),
                Some(first) if first == drawn => {}
                Some(first) => return Some(if is_better(choice, drawn, first) { drawn } else { first }),
            }
        }
        // Nearly all weight is with one node or with tried ones.
        let untried = (0..count).filter(|member| !choice.is_tried(*member));
        untried.reduce(|best, other| if is_better(choice, other, best) { other } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, set};
    use super::*;

    /// Chooses `count` times, with different random numbers; requests end at once.
    fn shares(weights: &[u32], count: u64, tried: &[u64]) -> Vec<u64> {
        let mut bench = Bench::new(&KIND, set(weights));
        let mut shares = vec![0; weights.len()];
        for random in 0..count {
            bench.random = random;
            shares[bench.choose_untried(tried).unwrap()] += 1;
        }
        shares
    }

    #[test]
    fn idle_nodes_share_by_weight() {
        let unequal = shares(&[1, 1, 2, 0], 40_000, &[]);
        assert!(unequal[..2].iter().all(|share| (9_500..10_500).contains(share)), "{unequal:?}");
        assert!((19_000..21_000).contains(&unequal[2]), "{unequal:?}");
        assert_eq!(unequal[3], 0, "a node with weight 0 is not chosen");
        let equal = shares(&[7, 7, 7, 7], 40_000, &[]);
        assert!(equal.iter().all(|share| (9_500..10_500).contains(share)), "{equal:?}");
    }

    #[test]
    fn busy_node_gets_no_request_beside_idle_ones() {
        let mut bench = Bench::new(&KIND, set(&[1, 1, 1]));
        (0..10).for_each(|_| {
            bench.loads.started(1);
        });
        for random in 0..1_000 {
            bench.random = random;
            assert_ne!(bench.choose(), Some(1));
        }
    }

    #[test]
    fn in_flight_requests_stay_even() {
        let mut bench = Bench::new(&KIND, set(&[1; 100]));
        for random in 0..10_000 {
            bench.random = random;
            bench.start();
        }
        let most = (0..100).map(|node| bench.loads.active(node)).max().unwrap();
        assert!(most <= 106, "{most} at one node, 100 on average");
    }

    #[test]
    fn tried_nodes_are_not_chosen() {
        assert_eq!(shares(&[1, 1000], 100, &[1]), [100, 0]);
        let mut bench = Bench::new(&KIND, set(&[1, 1]));
        bench.random = 7;
        assert_eq!(bench.choose_untried(&[0, 1]), None);
    }
}

//! Peak EWMA: chooses the cheaper of two random nodes. The cost is the response time, averaged with an
//! exponential decay that follows a rise at once and forgets it slowly, times the requests in flight. (The
//! power of two choices after Mitzenmacher; the peak-sensitive average as in Finagle.) Each worker has its
//! own averages. A node without recent responses costs as much as the average response, so that it gets its
//! share and no more.

use super::{BalanceInput, Balancer, BalancerKind, Uses, next_random};

/// The better of two nodes, by response time weighted to the recent past and by requests in flight.
pub static KIND: BalancerKind =
    BalancerKind { name: "ewma", derive: None, make: |_| Box::new(PeakEwma), uses: Uses::Latencies };

/// The averages are in [`Loads`](super::Loads).
pub struct PeakEwma;

fn score(choice: &BalanceInput<'_>, member: usize) -> f64 {
    let latency_us = choice.loads.latency_us(choice.group.node(member), choice.now_ms);
    let weight = match choice.group.is_starting() {
        true => choice.group.weight_whole(member),
        false => choice.group.weight(member),
    };
    // One microsecond more, so that the load counts also where responses take no time.
    (latency_us + 1.0) * f64::from(choice.active(member) + 1) / weight
}

/// The better of two members, each given as its place among `count` candidates.
fn better_of_two(choice: &BalanceInput<'_>, count: usize, nth: impl Fn(usize) -> usize) -> Option<usize> {
    if count < 2 {
        return (count == 1).then(|| nth(0));
    }
    // The high half of each product is evenly spread below the factor.
    let first = (((choice.random >> 32) * count as u64) >> 32) as usize;
    let step = ((choice.random & 0xffff_ffff) * (count as u64 - 1)) >> 32;
    // One of the others, with equal probability.
    let second = (first + 1 + step as usize) % count;
    let (first, second) = (nth(first), nth(second));
    let (best, other) =
        if score(choice, second) < score(choice, first) { (second, first) } else { (first, second) };
    Some(if choice.group.is_starting() && is_passed_over(choice, best) { other } else { best })
}

/// Whether a member that starts slowly is not chosen although it is the better one: drawn by the part of its
/// share that it gets.
#[cold]
fn is_passed_over(choice: &BalanceInput<'_>, member: usize) -> bool {
    // Another number than the one that has drawn the members.
    let random = next_random(&mut choice.random.clone());
    random as f64 / u64::MAX as f64 > choice.group.start(member)
}

impl Balancer for PeakEwma {
    #[inline]
    fn choose(&mut self, choice: &BalanceInput<'_>) -> Option<usize> {
        if choice.tried.is_empty() {
            return better_of_two(choice, choice.group.len(), |member| member);
        }
        let untried: Vec<usize> =
            (0..choice.group.len()).filter(|member| !choice.is_tried(*member)).collect();
        better_of_two(choice, untried.len(), |place| untried[place])
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, set};
    use super::*;

    #[test]
    fn slow_node_is_avoided_until_average_decays() {
        let mut bench = Bench::new(&KIND, set(&[1, 1]));
        bench.loads.measured(0, 900_000, 0, false);
        bench.loads.measured(1, 1_000, 0, false);
        bench.now_ms = 100;
        for _ in 0..20 {
            assert_eq!(bench.choose(), Some(1));
        }
        // Minutes later the past of node 0 no longer counts, while node 1 has a request in flight.
        bench.now_ms = 200_000;
        bench.loads.measured(1, 50_000, bench.now_ms, false);
        bench.loads.started(1);
        assert_eq!(bench.choose(), Some(0));
    }

    #[test]
    fn failing_node_does_not_count_as_fast() {
        let mut bench = Bench::new(&KIND, set(&[1, 1]));
        bench.loads.measured(0, 2_000, 0, true);
        bench.loads.measured(1, 2_000, 0, false);
        assert_eq!(bench.choose(), Some(1));
    }

    #[test]
    fn new_node_gets_no_more_than_its_share() {
        let mut bench = Bench::new(&KIND, set(&[1; 10]));
        (0..9).for_each(|node| bench.loads.measured(node, 10_000, 0, false));
        let (mut random, mut shares) = (1, [0; 10]);
        for _ in 0..1_000 {
            bench.random = next_random(&mut random);
            let node = bench.start().unwrap();
            shares[node] += 1;
        }
        assert!((70..=130).contains(&shares[9]), "{shares:?}");
    }

    #[test]
    fn tried_nodes_are_not_chosen() {
        let mut bench = Bench::new(&KIND, set(&[1, 1, 1]));
        assert_eq!(bench.choose_untried(&[0, 2]), Some(1));
        assert_eq!(bench.choose_untried(&[0, 1, 2]), None);
    }
}

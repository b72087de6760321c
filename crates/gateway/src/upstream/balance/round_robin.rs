//! Weighted round robin by earliest due time: each member is due again after a time that is the inverse of
//! its weight, and the one that is due first is chosen. First turns are spread over the members, so that the
//! turns of a heavy node and of many light ones are spread evenly. A heap makes a turn cost the same step
//! among three nodes and among thousands. A member at which an attempt failed loses its next turn. See
//! decisions 0041 and 0058.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use smallvec::SmallVec;

use super::{BalanceInput, Balancer, BalancerKind, Start, Uses};

/// The time at which all due times are set back, long before they lose precision.
const TIME_MAX: f64 = 1_048_576.0;
/// The largest group of which a failed member loses a turn. In a larger one the dead member's part is small
/// in any case, and the search for it would cost more than it saves.
const DEBTORS_MAX: usize = 64;

/// Each node in turn, in the proportion of the weights.
pub static KIND: BalancerKind = BalancerKind {
    name: "roundrobin",
    derive: None,
    make: |start| Box::new(RoundRobin::new(start)),
    uses: Uses::Loads,
};

/// The due time of a member, as bits: those of numbers from 0 on are in the order of the numbers.
type MemberDueTime = Reverse<(u64, u32)>;

/// The state of one worker.
pub struct RoundRobin {
    heap: BinaryHeap<MemberDueTime>,
    /// By member, the time between two turns.
    strides: Vec<f64>,
    /// The due time of the member that was chosen last.
    now: f64,
    /// The members that lose their next turn, one bit each; only for groups of at most [`DEBTORS_MAX`].
    debtors: u64,
}

impl RoundRobin {
    /// For a group; members that had a turn before keep the part of their stride that is left.
    pub fn new(start: &Start<'_>) -> RoundRobin {
        let count = start.group.len();
        // A member of average weight has the stride 1.
        let average = start.group.weight_total() / count.max(1) as f64;
        let strides: Vec<f64> = start.group.weights().map(|weight| average / weight).collect();
        // Workers and new members begin at different parts of a stride.
        let first = |member: usize| ((member + count - start.stagger % count) % count) as f64 + 0.5;
        let due = |member: usize| match start.turns.get(member) {
            Some(Some(left)) => left * strides[member],
            _ => first(member) / count as f64 * strides[member],
        };
        let heap = (0..count).map(|member| Reverse((due(member).to_bits(), member as u32))).collect();
        RoundRobin { heap, strides, now: 0.0, debtors: 0 }
    }

    /// Chooses the member that is due first, except those that lose this turn.
    fn turn(&mut self) -> Option<usize> {
        loop {
            let member = self.take_first()?;
            if self.debtors == 0 || !self.pays(member) {
                return Some(member as usize);
            }
        }
    }

    /// Takes a turn of the member that is due first.
    fn take_first(&mut self) -> Option<u32> {
        let mut first = self.heap.peek_mut()?;
        let Reverse((due, member)) = *first;
        let due = f64::from_bits(due);
        self.now = self.now.max(due);
        // The order of the heap is restored when `first` is dropped.
        *first = Reverse(((due + self.strides[member as usize]).to_bits(), member));
        Some(member)
    }

    /// Whether this turn of `member` is the one that it loses.
    fn pays(&mut self, member: u32) -> bool {
        let bit = 1_u64.checked_shl(member).unwrap_or(0);
        let owes = self.debtors & bit != 0;
        self.debtors &= !bit;
        owes
    }

    /// Has the member at which the last attempt failed lose its next turn. The retry takes a turn of another
    /// one, so that otherwise of two members the dead one would be the first of every request.
    fn charge(&mut self, choice: &BalanceInput<'_>) {
        let count = self.strides.len();
        let Some(failed) = choice.failed.filter(|_| count <= DEBTORS_MAX) else { return };
        let is_failed = |member: &usize| choice.set.nodes[choice.group.node(*member)].endpoint.id == failed;
        self.debtors |= (0..count).find(is_failed).map_or(0, |member| 1 << member);
    }

    /// As [`turn`](Self::turn), but leaves tried members where they are. Debts wait for another turn: behind
    /// a debtor may be a member that was tried, and an attempt at it would be the last one in vain.
    #[cold]
    fn turn_untried(&mut self, choice: &BalanceInput<'_>) -> Option<usize> {
        self.charge(choice);
        let mut tried: SmallVec<[MemberDueTime; 4]> = SmallVec::new();
        while let Some(first) = self.heap.peek_mut() {
            if !choice.is_tried(first.0.1 as usize) {
                break;
            }
            tried.push(PeekMut::pop(first));
        }
        let chosen = self.take_first();
        self.heap.extend(tried);
        chosen.map(|member| member as usize)
    }

    #[cold]
    fn set_back(&mut self) {
        let now = self.now;
        let earlier = |Reverse((due, member)): MemberDueTime| {
            Reverse(((f64::from_bits(due) - now).max(0.0).to_bits(), member))
        };
        self.heap = std::mem::take(&mut self.heap).into_iter().map(earlier).collect();
        self.now = 0.0;
    }
}

impl Balancer for RoundRobin {
    #[inline]
    fn choose(&mut self, choice: &BalanceInput<'_>) -> Option<usize> {
        let chosen = if choice.tried.is_empty() { self.turn() } else { self.turn_untried(choice) };
        if self.now > TIME_MAX {
            self.set_back();
        }
        chosen
    }

    fn turns(&self) -> Vec<f64> {
        let mut turns = vec![0.0; self.strides.len()];
        for Reverse((due, member)) in &self.heap {
            let member = *member as usize;
            turns[member] = ((f64::from_bits(*due) - self.now) / self.strides[member]).clamp(0.0, 1.0);
        }
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, set};
    use super::*;

    fn sequence(weights: &[u32], stagger: usize, turns: usize) -> String {
        let mut bench = Bench::staggered(&KIND, set(weights), stagger);
        (0..turns).map(|_| bench.choose().map_or('-', |node| (b'a' + node as u8) as char)).collect()
    }

    #[test]
    fn turns_follow_the_weights_smoothly() {
        assert_eq!(sequence(&[1, 1, 1], 0, 6), "abcabc");
        assert_eq!(sequence(&[5, 1, 1], 0, 14), "aaabaacaaabaac");
        assert_eq!(sequence(&[1, 0, 1], 0, 4), "acac");
        assert_eq!(sequence(&[0], 0, 2), "--");
        assert_eq!(sequence(&[], 0, 1), "-");
    }

    #[test]
    fn workers_start_at_different_nodes() {
        assert_eq!(sequence(&[1, 1], 1, 2), "ba");
    }

    #[test]
    fn shares_are_exact_over_each_round() {
        let weights = [7, 1, 3, 1, 20];
        let turns = sequence(&weights, 3, 32 * 50);
        for round in turns.as_bytes().chunks(32) {
            let share = |node: u8| round.iter().filter(|chosen| **chosen == b'a' + node).count() as u32;
            for (node, weight) in (0..).zip(weights) {
                assert!(share(node).abs_diff(weight) <= 1, "node {node} has {} of 32 turns", share(node));
            }
        }
    }

    #[test]
    fn tried_nodes_keep_their_turn_but_the_last() {
        let mut bench = Bench::new(&KIND, set(&[1, 1, 1]));
        assert_eq!(bench.choose_untried(&[0, 1]), Some(2));
        let next: Vec<_> = (0..3).map(|_| bench.choose().unwrap()).collect();
        assert_eq!(next, [0, 0, 1], "node 1 has failed last and loses a turn");
        assert_eq!(bench.choose_untried(&[0, 1, 2]), None);
    }

    #[test]
    fn dead_node_is_not_the_first_of_every_request() {
        // nodes, of which the first is dead → requests of 120 that meet it, and those that each other node
        // serves
        for (count, met, served) in [(2, 60, 120), (3, 30, 60), (4, 20, 40)] {
            let mut bench = Bench::new(&KIND, set(&vec![1; count]));
            let (mut dead, mut shares) = (0, vec![0; count]);
            for _ in 0..120 {
                let mut node = bench.choose().unwrap();
                if node == 0 {
                    dead += 1;
                    node = bench.choose_untried(&[0]).unwrap();
                }
                shares[node] += 1;
            }
            assert!(dead <= met, "{count}: {dead}");
            assert!(
                shares[1..].iter().all(|share| served - 2 <= *share && *share <= served + 2),
                "{shares:?}"
            );
        }
    }

    #[test]
    fn retries_reach_each_node_once() {
        for count in 2..8 {
            let mut bench = Bench::new(&KIND, set(&vec![1; count]));
            for request in 0..200 {
                let mut tried = vec![bench.choose().unwrap() as u64];
                while tried.last() != Some(&0) {
                    let next = bench.choose_untried(&tried).expect("node 0 is not tried yet") as u64;
                    assert!(
                        !tried.contains(&next),
                        "{count} nodes, request {request}: {next} after {tried:?}"
                    );
                    tried.push(next);
                }
            }
        }
    }

    #[test]
    fn all_nodes_dead_are_chosen_on() {
        let mut bench = Bench::new(&KIND, set(&[1, 1]));
        for _ in 0..10 {
            let first = bench.choose().unwrap() as u64;
            let second = bench.choose_untried(&[first]).unwrap() as u64;
            assert_ne!(first, second);
            assert_eq!(bench.choose_untried(&[first, second]), None);
        }
    }

    #[test]
    fn frequent_changes_of_the_set_favour_no_node() {
        let mut bench = Bench::new(&KIND, set(&[1; 10]));
        let mut shares = [0; 10];
        for _ in 0..100 {
            (0..3).for_each(|_| shares[bench.choose().unwrap()] += 1);
            bench.rebuild(&KIND);
        }
        assert!(shares.iter().all(|share| (28..=32).contains(share)), "{shares:?}");
    }

    #[test]
    fn due_times_are_set_back_in_time() {
        let mut bench = Bench::new(&KIND, set(&[1, 2]));
        let start =
            Start { stagger: 0, turns: &[], set: &bench.set, group: &bench.group, loads: &bench.loads };
        let mut balancer = RoundRobin::new(&start);
        balancer.now = TIME_MAX - 0.5;
        balancer.heap = [(0, 0.1), (1, 0.2)]
            .map(|(member, after)| Reverse(((TIME_MAX + after).to_bits(), member)))
            .into_iter()
            .collect();
        bench.balancer = Box::new(balancer);
        let chosen: Vec<_> = (0..6).map(|_| bench.choose().unwrap()).collect();
        assert_eq!(chosen.iter().filter(|node| **node == 1).count(), 4, "{chosen:?}");
    }
}

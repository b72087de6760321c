//! Least connections: chooses the node with the fewest requests in flight for its weight; equal nodes take
//! turns, so that idle nodes share the first requests. A heap with the place of each member keeps the best
//! one in front. Each worker counts its own requests. A member that starts slowly waits after each choice
//! until as many others were made as its weight demands, because by load alone it would get no request among
//! idle nodes, or at once as many as the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::select::group::{NodeGroup, STARTED_PART};
use super::{BalanceInput, Balancer, BalancerKind, Start, Uses};

/// The node with the fewest requests in flight for its weight.
pub static KIND: BalancerKind = BalancerKind {
    name: "least_conn",
    derive: None,
    make: |start| Box::new(LeastConnections::new(start)),
    uses: Uses::LoadChanges,
};

/// A member as it is compared.
#[derive(Clone, Copy)]
struct HeapMember {
    /// Requests in flight with one more, for the weight.
    load: f64,
    /// The number of the last choice of it: of equal members, the one that waits longest is chosen.
    turn: u64,
    weight: f64,
    /// Its place in the heap.
    place: u32,
    /// Whether it waits after a choice, because it starts slowly; its load is then infinite.
    is_waiting: bool,
}

/// The state of one worker.
pub struct LeastConnections {
    /// By member.
    candidates: Vec<HeapMember>,
    /// The members, each no worse than the two at twice its place plus one and two.
    heap: Vec<u32>,
    turn: u64,
    /// The waiting members, each with the turn at which it may be chosen again.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
}

impl LeastConnections {
    /// For a group. Members keep the order of their turns; workers begin at different members.
    pub fn new(start: &Start<'_>) -> LeastConnections {
        let (group, count) = (start.group, start.group.len());
        let mut order: Vec<usize> = (0..count).collect();
        if count > 0 {
            order.rotate_left(start.stagger % count);
        }
        let (mut candidates, mut next) = (Vec::with_capacity(count), count as u64);
        for member in 0..count {
            let weight = group.weight_whole(member);
            let load = load(start.loads.active(group.node(member)), weight);
            candidates.push(HeapMember { load, turn: 0, weight, place: member as u32, is_waiting: false });
        }
        for (turn, member) in (0..).zip(&order) {
            // Members without a turn come first. The distances between turns stay, for members that wait.
            let before = start.turns.get(*member).copied().flatten();
            candidates[*member].turn = before.map_or(turn, |before| before as u64 + count as u64);
            next = next.max(candidates[*member].turn + 1);
        }
        let heap = (0..count as u32).collect();
        let mut balancer = LeastConnections { candidates, heap, turn: next, waiting: BinaryHeap::new() };
        if group.is_starting() {
            order.retain(|member| group.start(*member) < STARTED_PART);
            for member in order {
                let before = start.turns.get(member).copied().flatten();
                let since = before.map_or(next, |_| balancer.candidates[member].turn);
                balancer.wait(group, member, since);
            }
        }
        (0..count / 2).rev().for_each(|place| balancer.sink(place));
        balancer
    }

    /// Makes a member that was chosen at the turn `since` wait for its next; the heap must be put in order.
    fn wait(&mut self, group: &NodeGroup, member: usize, since: u64) {
        let due = since + (group.weight_total() / group.weight(member)) as u64;
        let candidate = &mut self.candidates[member];
        if due > self.turn && !candidate.is_waiting {
            candidate.is_waiting = true;
            candidate.load = f64::INFINITY;
            self.waiting.push(Reverse((due, member as u32)));
        }
    }

    /// Lets members be chosen that have waited.
    #[cold]
    fn release(&mut self, choice: &BalanceInput<'_>) {
        while let Some(Reverse((due, member))) = self.waiting.peek().copied() {
            if due > self.turn {
                return;
            }
            self.waiting.pop();
            let candidate = &mut self.candidates[member as usize];
            candidate.is_waiting = false;
            candidate.load = load(choice.active(member as usize), candidate.weight);
            let place = candidate.place as usize;
            self.rise(place);
        }
    }

    /// Whether the member `a` comes before `b`.
    fn is_before(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.candidates[a as usize], &self.candidates[b as usize]);
        a.load < b.load || (a.load == b.load && a.turn < b.turn)
    }

    fn put(&mut self, place: usize, member: u32) {
        self.heap[place] = member;
        self.candidates[member as usize].place = place as u32;
    }

    /// Moves the member at `place` behind better ones.
    fn sink(&mut self, mut place: usize) {
        let member = self.heap[place];
        loop {
            let left = 2 * place + 1;
            let Some(mut below) = self.heap.get(left).copied() else { break };
            let mut next = left;
            if let Some(right) = self.heap.get(left + 1).copied()
                && self.is_before(right, below)
            {
                (below, next) = (right, left + 1);
            }
            if !self.is_before(below, member) {
                break;
            }
            self.put(place, below);
            place = next;
        }
        self.put(place, member);
    }

    /// Moves the member at `place` in front of worse ones.
    fn rise(&mut self, mut place: usize) {
        let member = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            let above = self.heap[parent];
            if !self.is_before(member, above) {
                break;
            }
            self.put(place, above);
            place = parent;
        }
        self.put(place, member);
    }
}

fn load(active: u32, weight: f64) -> f64 {
    (f64::from(active) + 1.0) / weight
}

impl Balancer for LeastConnections {
    fn choose(&mut self, choice: &BalanceInput<'_>) -> Option<usize> {
        if !self.waiting.is_empty() {
            self.release(choice);
        }
        let best = if choice.tried.is_empty() {
            self.heap.first().copied()
        } else {
            let untried = (0..self.heap.len()).filter(|member| !choice.is_tried(*member));
            untried
                .map(|member| member as u32)
                .reduce(|best, other| if self.is_before(other, best) { other } else { best })
        }?;
        let candidate = &mut self.candidates[best as usize];
        candidate.turn = self.turn;
        let place = candidate.place as usize;
        self.turn += 1;
        if choice.group.is_starting() && choice.group.start(best as usize) < STARTED_PART {
            self.wait(choice.group, best as usize, self.turn);
        }
        self.sink(place);
        Some(best as usize)
    }

    fn load_changed(&mut self, member: usize, active: u32) {
        let candidate = &mut self.candidates[member];
        if candidate.is_waiting {
            return;
        }
        let place = candidate.place as usize;
        let load = load(active, candidate.weight);
        let is_better = load < std::mem::replace(&mut candidate.load, load);
        if is_better { self.rise(place) } else { self.sink(place) }
    }

    fn turns(&self) -> Vec<f64> {
        self.candidates.iter().map(|candidate| candidate.turn as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::next_random;
    use super::super::testing::{Bench, set};
    use super::*;

    #[test]
    fn node_with_least_load_per_weight_is_chosen() {
        let mut bench = Bench::new(&KIND, set(&[1, 2]));
        let chosen: Vec<usize> = (0..6).map(|_| bench.start().unwrap()).collect();
        assert_eq!(chosen.iter().filter(|node| **node == 1).count(), 4, "{chosen:?}");
        bench.finish(0);
        bench.finish(0);
        assert_eq!(bench.choose(), Some(0));
    }

    #[test]
    fn idle_nodes_take_turns() {
        let mut bench = Bench::new(&KIND, set(&[1, 1, 1]));
        let mut turn = || {
            let node = bench.start().unwrap();
            bench.finish(node);
            node
        };
        assert_eq!([(); 6].map(|()| turn()), [0, 1, 2, 0, 1, 2]);
        bench.rebuild(&KIND);
        bench.start();
        assert_eq!(bench.start(), Some(1), "turns go on after a change");
    }

    #[test]
    fn heap_agrees_with_a_scan_of_all_nodes() {
        let weights = [1, 2, 3, 1, 5, 1, 1, 8, 2, 1, 1];
        let (mut bench, mut random) = (Bench::new(&KIND, set(&weights)), 7);
        let mut busy: Vec<usize> = Vec::new();
        for _ in 0..5_000 {
            if next_random(&mut random).is_multiple_of(2) && !busy.is_empty() {
                let at = next_random(&mut random) as usize % busy.len();
                let node = busy.swap_remove(at);
                bench.finish(node);
            } else {
                let load = |node: usize| load(bench.loads.active(node), f64::from(weights[node]));
                let least = (0..weights.len()).map(load).fold(f64::MAX, f64::min);
                let loads: Vec<f64> = (0..weights.len()).map(load).collect();
                let node = bench.start().unwrap();
                assert_eq!(loads[node], least);
                busy.push(node);
            }
        }
    }

    #[test]
    fn tried_nodes_are_not_chosen() {
        let mut bench = Bench::new(&KIND, set(&[1, 1, 9]));
        assert_eq!(bench.choose_untried(&[2, 0]), Some(1));
        assert_eq!(bench.choose_untried(&[2, 0, 1]), None);
    }
}

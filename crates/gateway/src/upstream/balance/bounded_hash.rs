//! Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2017; HAProxy's `hash-balance-factor`): the
//! ring of `chash`, but a node that has a quarter more requests in flight than its share passes further ones to the next
//! node on the ring. A hot key then spreads over as many nodes as it needs. Each worker counts its own requests.

use super::consistent_hash::{Ring, derive_ring};
use super::{Balancer, BalancerKind, Choice, Memory, Tier};

/// The most requests in flight at a node, in percent of its share by weight.
const BOUND_PERCENT: u64 = 125;

/// The same node for the same key, as long as it has not too many requests.
pub static KIND: BalancerKind = BalancerKind {
    name: "chash_bounded",
    derive: Some(derive_ring),
    make: |tier| Box::new(BoundedHash::new(tier)),
};

/// The state of one worker.
pub struct BoundedHash {
    active: Vec<u32>,
    active_total: u64,
    weight_total: u64,
}

impl BoundedHash {
    /// For the nodes of a priority.
    pub fn new(tier: &Tier<'_>) -> BoundedHash {
        let nodes = tier.set.nodes.iter().filter(|node| node.priority == tier.priority);
        BoundedHash {
            active: vec![0; tier.set.nodes.len()],
            active_total: 0,
            weight_total: nodes.map(|node| u64::from(node.weight)).sum(),
        }
    }

    /// Whether `node` may take one more request: fewer than its share of all requests, this one included, times the bound,
    /// rounded up.
    fn has_room(&self, choice: &Choice<'_>, node: usize) -> bool {
        let weight = u128::from(choice.set.nodes[node].weight);
        let share = u128::from(self.active_total + 1) * weight * u128::from(BOUND_PERCENT);
        u128::from(self.active[node]) < share.div_ceil(u128::from(self.weight_total.max(1)) * 100)
    }
}

impl Balancer for BoundedHash {
    fn choose(&mut self, choice: &Choice<'_>) -> Option<usize> {
        let ring: &Ring = choice.set.derived.as_deref()?.downcast_ref()?;
        let mut usable = ring.from(choice.key_hash).filter(|node| !(choice.excluded)(*node));
        let first = usable.next()?;
        if self.has_room(choice, first) {
            return Some(first);
        }
        // Without exclusions there is always a node with room, because the bounds add up to more than all requests.
        Some(usable.find(|node| self.has_room(choice, *node)).unwrap_or(first))
    }

    fn memory(&self, node: usize) -> Memory {
        Memory { active: self.active[node], ..Memory::default() }
    }

    fn remember(&mut self, node: usize, memory: Memory) {
        self.active_total += u64::from(memory.active);
        self.active[node] = memory.active;
    }

    fn started(&mut self, node: usize) {
        self.active[node] += 1;
        self.active_total += 1;
    }

    fn finished(&mut self, node: usize, _latency_us: u64, _now_ms: u64, _failed: bool) {
        // A node that came back under another set begins with none of its earlier requests.
        if let Some(fewer) = self.active[node].checked_sub(1) {
            self.active[node] = fewer;
            self.active_total -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::set;
    use super::*;
    use net::nodes::NodeSet;

    fn balancer(set: &NodeSet) -> BoundedHash {
        BoundedHash::new(&Tier { set, priority: 0, stagger: 0 })
    }

    fn choose(balancer: &mut BoundedHash, set: &NodeSet, key_hash: u32) -> usize {
        let choice = Choice { set, key_hash, random: 0, now_ms: 0, excluded: &|_| false };
        balancer.choose(&choice).unwrap()
    }

    #[test]
    fn idle_nodes_are_chosen_as_on_the_ring() {
        let set = set(&[1, 2, 1]);
        let ring: &Ring = set.derived.as_deref().unwrap().downcast_ref().unwrap();
        for key in (0..u32::MAX).step_by(9_999_991) {
            assert_eq!(Some(choose(&mut balancer(&set), &set, key)), ring.from(key).next());
        }
    }

    #[test]
    fn hot_key_spreads_within_the_bound() {
        let set = set(&[1, 1, 2]);
        let mut balancer = balancer(&set);
        for _ in 0..400 {
            let node = choose(&mut balancer, &set, 7);
            balancer.started(node);
        }
        for (node, share) in [(0, 100), (1, 100), (2, 200)] {
            assert!(balancer.active[node] <= share * 5 / 4 + 1, "{:?}", balancer.active);
        }
    }

    #[test]
    fn node_is_chosen_again_when_it_has_room() {
        let set = set(&[1, 1]);
        let mut balancer = balancer(&set);
        let first = choose(&mut balancer, &set, 7);
        (0..4).for_each(|_| balancer.started(first));
        let other = choose(&mut balancer, &set, 7);
        assert_ne!(other, first);
        (0..4).for_each(|_| balancer.finished(first, 1, 0, false));
        assert_eq!(choose(&mut balancer, &set, 7), first);
        assert_eq!(balancer.active_total, 0);
    }

    #[test]
    fn counts_survive_a_change_of_the_set() {
        let set = set(&[1, 1]);
        let mut before = balancer(&set);
        (0..3).for_each(|_| before.started(0));
        let mut after = balancer(&set);
        (0..2).for_each(|node| after.remember(node, before.memory(node)));
        assert_eq!((after.active_total, after.active[0]), (3, 3));
    }
}

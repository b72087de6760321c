//! Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2017; HAProxy's
//! `hash-balance-factor`): the ring of `chash`, but a node that has a quarter more requests in flight than
//! its share passes further ones to the next node on the ring. A hot key then spreads over as many nodes as
//! it needs. Each worker counts its own requests.

use super::consistent_hash::{GroupRing, derive_ring};
use super::{BalanceInput, Balancer, BalancerKind, Start, Uses};

/// The most requests in flight at a node, for its share by weight.
const BOUND: f64 = 1.25;

/// Points of the ring that a retry looks at for a node below the bound, because there may be none among
/// untried nodes.
const RETRY_POINTS_MAX: usize = 1_024;

/// The same node for the same key, as long as it has not too many requests.
pub static KIND: BalancerKind = BalancerKind {
    name: "chash_bounded",
    derive: Some(derive_ring),
    make: |start| Box::new(BoundedHash::new(start)),
    uses: Uses::LoadChanges,
};

/// The state of one worker.
pub struct BoundedHash {
    ring: GroupRing,
    /// By member, as of the last change.
    active: Vec<u32>,
    active_total: u64,
}

impl BoundedHash {
    /// For a group.
    pub fn new(start: &Start<'_>) -> BoundedHash {
        let active = |member| start.loads.active(start.group.node(member));
        let active: Vec<u32> = (0..start.group.len()).map(active).collect();
        let active_total = active.iter().map(|active| u64::from(*active)).sum();
        BoundedHash { ring: GroupRing::new(start), active, active_total }
    }

    /// Whether `member` may take one more request: fewer than its share of all requests, this one included,
    /// times the bound, rounded up.
    fn has_room(&self, choice: &BalanceInput<'_>, member: usize) -> bool {
        let share = choice.group.weight(member) / choice.group.weight_total();
        f64::from(self.active[member]) < ((self.active_total + 1) as f64 * share * BOUND).ceil()
    }
}

impl Balancer for BoundedHash {
    fn choose(&mut self, choice: &BalanceInput<'_>) -> Option<usize> {
        let mut untried = self.ring.untried(choice)?;
        let first = untried.next()?;
        if self.has_room(choice, first) {
            return Some(first);
        }
        // Unless members were tried there is always one with room, because the bounds add up to more than all
        // requests.
        let points = if choice.tried.is_empty() { usize::MAX } else { RETRY_POINTS_MAX };
        Some(untried.take(points).find(|member| self.has_room(choice, *member)).unwrap_or(first))
    }

    fn load_changed(&mut self, member: usize, active: u32) {
        let before = std::mem::replace(&mut self.active[member], active);
        self.active_total = self.active_total - u64::from(before) + u64::from(active);
    }
}

#[cfg(test)]
mod tests {
    use super::super::consistent_hash::HashRing;
    use super::super::testing::{Bench, set};
    use super::*;

    #[test]
    fn idle_nodes_are_chosen_as_on_the_ring() {
        let weights = [1, 2, 1];
        let ring = HashRing::new(&set(&weights).nodes);
        let mut bench = Bench::new(&KIND, set(&weights));
        for key in (0..u32::MAX).step_by(9_999_991) {
            bench.key_hash = key;
            assert_eq!(bench.choose(), ring.from(key).next());
        }
    }

    #[test]
    fn hot_key_spreads_within_the_bound() {
        let mut bench = Bench::new(&KIND, set(&[1, 1, 2]));
        bench.key_hash = 7;
        (0..400).for_each(|_| {
            bench.start();
        });
        for (node, share) in [(0, 100), (1, 100), (2, 200)] {
            let active = bench.loads.active(node);
            assert!(active <= share * 5 / 4 + 1, "{active} at node {node}");
        }
    }

    #[test]
    fn node_is_chosen_again_when_it_has_room() {
        let mut bench = Bench::new(&KIND, set(&[1, 1]));
        bench.key_hash = 7;
        let first = bench.choose().unwrap();
        (0..4).for_each(|_| bench.start_at(first));
        assert_ne!(bench.choose(), Some(first));
        bench.rebuild(&KIND);
        assert_ne!(bench.choose(), Some(first), "requests in flight survive a change");
        (0..4).for_each(|_| bench.finish(first));
        assert_eq!(bench.choose(), Some(first));
    }
}

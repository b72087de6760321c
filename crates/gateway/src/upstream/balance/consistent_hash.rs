//! Consistent hashing on a ring (Karger et al. 1997, with the many points per node of ketama): a key always meets the
//! same node, and a node that comes or goes moves only its own share of the keys. The ring is built once per set of
//! nodes and shared by the workers.

use stdx::hash::hash_bytes;

use super::{Balancer, Choice};
use crate::upstream::Node;

/// Points per unit of reduced weight: enough that shares differ by a few per cent only.
const POINTS_PER_NODE: u64 = 160;
/// The most points a ring may have, whatever the weights: 16 bytes each.
const POINTS_MAX: u64 = 262_144;
/// The ring must be the same in every worker and every run.
const RING_SEED: u64 = 0x5745_4952;

/// Points on the ring, sorted.
#[derive(Default)]
pub struct Ring {
    points: Vec<(u64, u32)>,
}

impl Ring {
    /// The ring of `nodes`; nodes that weigh nothing have no point.
    pub fn new(nodes: &[Node]) -> Ring {
        let total: u64 = nodes.iter().map(|node| u64::from(node.weight)).sum();
        // Weights are reduced first: 100 and 100 are the ring that 1 and 1 are.
        let divisor =
            nodes.iter().fold(0, |divisor, node| greatest_common_divisor(divisor, node.weight)).max(1);
        let wanted = total / u64::from(divisor) * POINTS_PER_NODE;
        let mut points = Vec::with_capacity(wanted.min(POINTS_MAX) as usize);
        for (index, node) in (0_u32..).zip(nodes).filter(|(_, node)| node.weight > 0) {
            // A node's place depends on itself alone, so that the others' coming and going does not move it.
            let identity = node.endpoint.address.to_string();
            let share = u64::from(node.weight / divisor) * POINTS_PER_NODE;
            let share = if wanted > POINTS_MAX { (share * POINTS_MAX / wanted).max(1) } else { share };
            for point in 0..share {
                points.push((hash_bytes(RING_SEED ^ point, identity.as_bytes()), index));
            }
        }
        points.sort_unstable();
        Ring { points }
    }

    /// Nodes in the order in which the ring meets them from `hash` on, with repetitions.
    fn from(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        let start = self.points.partition_point(|(point, _)| *point < hash);
        self.points[start..].iter().chain(&self.points[..start]).map(|(_, node)| *node as usize)
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The hash of a request's key.
pub fn key_hash(key: &[u8]) -> u64 {
    hash_bytes(RING_SEED, key)
}

/// Consistent hashing keeps no state in the worker.
pub struct ConsistentHash;

impl Balancer for ConsistentHash {
    fn choose(&mut self, choice: &Choice<'_>) -> Option<usize> {
        choice.set.ring.from(choice.key_hash).find(|node| !(choice.excluded)(*node))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::set;
    use super::*;
    use crate::upstream::NodeSet;

    fn owner(set: &NodeSet, key: u32) -> usize {
        let choice = Choice {
            set,
            key_hash: key_hash(&key.to_le_bytes()),
            random: 0,
            now_ms: 0,
            excluded: &|_| false,
        };
        ConsistentHash.choose(&choice).unwrap()
    }

    #[test]
    fn shares_follow_the_weights() {
        let set = set(&[1, 3, 0]);
        let heavy = (0..20_000).filter(|key| owner(&set, *key) == 1).count();
        assert!((13_500..16_500).contains(&heavy), "{heavy} of 20000");
    }

    #[test]
    fn a_lost_node_moves_only_its_own_keys() {
        let (before, after) = (set(&[1, 1, 1, 1]), set(&[1, 1, 1, 0]));
        for key in 0..2_000 {
            let owner_before = owner(&before, key);
            if owner_before != 3 {
                assert_eq!(owner(&after, key), owner_before);
            }
        }
    }

    #[test]
    fn an_excluded_node_gives_way_to_the_next_on_the_ring() {
        let set = set(&[1, 1]);
        let choice = Choice { set: &set, key_hash: 7, random: 0, now_ms: 0, excluded: &|node| node == 0 };
        assert_eq!(ConsistentHash.choose(&choice), Some(1));
    }
}

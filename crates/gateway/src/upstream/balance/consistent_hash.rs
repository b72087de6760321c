//! Consistent hashing on the ring of APISIX (lua-resty-chash, with the points of nginx's `hash … consistent`): a key is
//! mapped to the same endpoint as there, and an endpoint that is added or removed moves only its own share of the keys.
//! The ring is built once per node set and shared by the workers. See decision 0028.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use stdx::hash::{crc32, crc32_continue};

use super::{Balancer, BalancerKind, Choice};
use net::nodes::Node;

/// Points per unit of reduced weight, as in nginx and APISIX.
const POINTS_PER_WEIGHT: u64 = 160;
/// The most points a ring may have, whatever the weights: 8 bytes each. A ring that would need more has fewer points per
/// weight, and no longer maps keys as APISIX does.
const POINTS_MAX: u64 = 1_048_576;

/// The same node for the same key.
pub static KIND: BalancerKind =
    BalancerKind { name: "chash", derive: Some(derive_ring), make: |_| Box::new(ConsistentHash) };

/// Points on the ring, sorted: the hash, and the index of the node.
#[derive(Default)]
pub struct Ring {
    points: Vec<(u32, u32)>,
}

impl Ring {
    /// The ring of `nodes`; nodes with weight 0 have no point. Nodes of all priorities share it: the points of one
    /// priority alone are the ring that APISIX builds for that priority.
    pub fn new(nodes: &[Node]) -> Ring {
        // Weights are reduced first, for each priority, because 100 and 100 must give the same ring as 1 and 1.
        let mut divisors = BTreeMap::new();
        for node in nodes {
            let divisor = divisors.entry(node.priority).or_insert(0);
            *divisor = greatest_common_divisor(*divisor, node.weight);
        }
        let reduced = |node: &Node| u64::from(node.weight / divisors[&node.priority].max(1));
        let wanted = nodes.iter().map(reduced).sum::<u64>().saturating_mul(POINTS_PER_WEIGHT);
        let mut points = Vec::with_capacity(wanted.min(POINTS_MAX) as usize);
        for (index, node) in (0_u32..).zip(nodes).filter(|(_, node)| node.weight > 0) {
            let share = reduced(node) * POINTS_PER_WEIGHT;
            let share = match wanted > POINTS_MAX {
                true => (u128::from(share) * u128::from(POINTS_MAX) / u128::from(wanted)).max(1) as u64,
                false => share,
            };
            points.extend(points_of(node).take(share as usize).map(|hash| (hash, index)));
        }
        points.sort_unstable();
        Ring { points }
    }

    /// Nodes in the order of the ring from `hash` on, with repetitions.
    pub(super) fn from(&self, hash: u32) -> impl Iterator<Item = usize> + '_ {
        let start = self.points.partition_point(|(point, _)| *point < hash);
        self.points[start..].iter().chain(&self.points[..start]).map(|(_, node)| *node as usize)
    }
}

/// The points of a node, an endless sequence. They depend on its address alone, so that other nodes that are added or
/// removed do not move them: each is the checksum of the address, its colons replaced by NUL, and of the point before.
fn points_of(node: &Node) -> impl Iterator<Item = u32> {
    let address = node.endpoint.address.to_string().replace(':', "\0");
    let base = crc32(address.as_bytes());
    std::iter::successors(Some(crc32_continue(base, &[0; 4])), move |point| {
        Some(crc32_continue(base, &point.to_le_bytes()))
    })
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The ring of `nodes`, as the value that a node set keeps.
pub fn derive_ring(nodes: &[Node]) -> Arc<dyn Any + Send + Sync> {
    Arc::new(Ring::new(nodes))
}

/// The hash of a request's key.
pub fn key_hash(key: &[u8]) -> u32 {
    crc32(key)
}

/// Consistent hashing keeps no state in the worker.
pub struct ConsistentHash;

impl Balancer for ConsistentHash {
    fn choose(&mut self, choice: &Choice<'_>) -> Option<usize> {
        let ring: &Ring = choice.set.derived.as_deref()?.downcast_ref()?;
        ring.from(choice.key_hash).find(|node| !(choice.excluded)(*node))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::testing::set;
    use super::*;
    use net::endpoint::Endpoint;
    use net::nodes::NodeSet;

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

    /// Nodes at ports from 1980 on with these weights and priorities.
    fn nodes(weights: &[(u32, i64)]) -> NodeSet {
        let weighed: Vec<u32> = weights.iter().map(|(weight, _)| *weight).collect();
        let mut nodes = set(&weighed).nodes;
        for (index, (node, (_, priority))) in nodes.iter_mut().zip(weights).enumerate() {
            node.priority = *priority;
            node.endpoint =
                Arc::new(Endpoint::cleartext(index as u64, ([127, 0, 0, 1], 1980 + index as u16).into()));
        }
        NodeSet { derived: Some(derive_ring(&nodes)), nodes, ..NodeSet::default() }
    }

    /// The port that each of the keys `key0`, `key1` and so on is mapped to.
    fn ports(set: &NodeSet, excluded: &dyn Fn(usize) -> bool) -> Vec<u16> {
        let port = |number: usize| {
            let key_hash = key_hash(format!("key{number}").as_bytes());
            let choice = Choice { set, key_hash, random: 0, now_ms: 0, excluded };
            let index = ConsistentHash.choose(&choice).unwrap();
            set.nodes[index].endpoint.address.port()
        };
        (0..24).map(port).collect()
    }

    /// The ports that nginx 1.22 chose with `hash $arg_k consistent` and the weights 1, 2 and 1.
    const NGINX: [u16; 24] = [
        1981, 1982, 1981, 1981, 1981, 1980, 1981, 1982, 1980, 1982, 1981, 1981, 1981, 1982, 1981, 1981, 1980,
        1981, 1981, 1981, 1981, 1981, 1981, 1981,
    ];

    #[test]
    fn keys_meet_the_endpoints_of_nginx() {
        let none = |_: usize| false;
        assert_eq!(ports(&nodes(&[(1, 0), (2, 0), (1, 0)]), &none), NGINX);
        // APISIX reduces weights, which nginx does not.
        assert_eq!(ports(&nodes(&[(50, 0), (100, 0), (50, 0)]), &none), NGINX);
    }

    #[test]
    fn each_priority_has_the_ring_of_its_own_nodes() {
        let mixed = nodes(&[(50, 0), (100, 0), (50, 0), (7, -1)]);
        assert_eq!(ports(&mixed, &|index| index == 3), NGINX);
        assert_eq!(ports(&mixed, &|index| index != 3), [1983; 24]);
    }

    #[test]
    fn points_are_the_checksums_of_address_and_point() {
        let points = |address: &str| {
            let mut node = set(&[1]).nodes.remove(0);
            let address = address.parse().unwrap();
            node.endpoint = Arc::new(Endpoint::cleartext(0, address));
            points_of(&node).take(2).collect::<Vec<u32>>()
        };
        assert_eq!(points("127.0.0.1:1980"), [0xe71d_cbbf, 0xfef4_f715]);
        assert_eq!(points("[::1]:80"), [0x885d_37ad, 0xfa0e_2d6b]);
    }

    #[test]
    fn a_ring_is_bounded_whatever_the_weights() {
        let ring = Ring::new(&nodes(&[(u32::MAX, 0), (u32::MAX - 1, 0), (1, 0)]).nodes);
        assert!(ring.points.len() as u64 <= POINTS_MAX + 3, "{} points", ring.points.len());
        assert!(ring.points.iter().any(|(_, node)| *node == 2), "the lightest node has a point");
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
    fn excluded_node_is_replaced_by_next_on_ring() {
        let set = set(&[1, 1]);
        let choice = Choice { set: &set, key_hash: 7, random: 0, now_ms: 0, excluded: &|node| node == 0 };
        assert_eq!(ConsistentHash.choose(&choice), Some(1));
    }
}

//! Consistent hashing on the ring of APISIX (lua-resty-chash, with the points of nginx's
//! `hash … consistent`): a key is mapped to the same endpoint as there, and an endpoint that is added or
//! removed moves only its own share of the keys. The ring is built once per node set and shared by the
//! workers. See decision 0028.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use stdx::hash::{crc32, crc32_continue};

use super::super::select::group::NodeGroup;
use super::{BalanceInput, Balancer, BalancerKind, Start, Uses};
use net::nodes::{NodeSet, ResolvedNode};

/// Points per unit of reduced weight, as in nginx and APISIX.
const POINTS_PER_WEIGHT: u64 = 160;
/// The most points a ring may have, whatever the weights: 8 bytes each. A ring that would need more has fewer
/// points per weight, and no longer maps keys as APISIX does.
const POINTS_MAX: u64 = 1_048_576;
/// A group with less than one in so many nodes gets a ring of its own, because most points of the shared one
/// would be passed over for each request.
const SPARSE_PART: usize = 4;

/// The same node for the same key.
pub static KIND: BalancerKind = BalancerKind {
    name: "chash",
    derive: Some(derive_ring),
    make: |start| Box::new(ConsistentHash(GroupRing::new(start))),
    uses: Uses::Loads,
};

/// Points on the ring, sorted: the hash, and the index of the node.
#[derive(Default)]
pub struct HashRing {
    points: Vec<(u32, u32)>,
}

impl HashRing {
    /// The ring of `nodes`; nodes with weight 0 have no point. Nodes of all priorities share it: the points
    /// of one priority alone are the ring that APISIX builds for that priority.
    pub fn new(nodes: &[ResolvedNode]) -> HashRing {
        // Weights are reduced first, for each priority, because 100 and 100 must give the same ring as 1 and
        // 1.
        let mut divisors = BTreeMap::new();
        for node in nodes {
            let divisor = divisors.entry(node.priority).or_insert(0);
            *divisor = greatest_common_divisor(*divisor, node.weight);
        }
        let reduced = |node: &ResolvedNode| u64::from(node.weight / divisors[&node.priority].max(1));
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
        HashRing { points }
    }

    /// The points of the members of `group`.
    fn part(&self, group: &NodeGroup) -> HashRing {
        let is_member = |(_, node): &&(u32, u32)| group.member(*node as usize).is_some();
        HashRing { points: self.points.iter().filter(is_member).copied().collect() }
    }

    /// Nodes in the order of the ring from `hash` on, with repetitions.
    pub(super) fn from(&self, hash: u32) -> impl Iterator<Item = usize> + '_ {
        let start = self.points.partition_point(|(point, _)| *point < hash);
        self.points[start..].iter().chain(&self.points[..start]).map(|(_, node)| *node as usize)
    }
}

/// The points of a node, an endless sequence. They depend on its address alone, so that other nodes that are
/// added or removed do not move them: each is the checksum of the address, its colons replaced by NUL, and of
/// the point before.
fn points_of(node: &ResolvedNode) -> impl Iterator<Item = u32> {
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
pub fn derive_ring(nodes: &[ResolvedNode]) -> Arc<dyn Any + Send + Sync> {
    Arc::new(HashRing::new(nodes))
}

/// The hash of a request's key.
pub fn hash_ring_key(key: &[u8]) -> u32 {
    crc32(key)
}

/// The ring of a group: that of the set, or a part of it where the group is sparse.
pub(super) struct GroupRing(Option<HashRing>);

impl GroupRing {
    pub(super) fn new(start: &Start<'_>) -> GroupRing {
        let whole = shared(start.set).filter(|_| start.group.is_sparse(SPARSE_PART));
        GroupRing(whole.map(|whole| whole.part(start.group)))
    }

    /// The members that were not tried in the order of the ring from the request's key on, with repetitions.
    pub(super) fn untried<'c>(
        &'c self,
        choice: &'c BalanceInput<'_>,
    ) -> Option<impl Iterator<Item = usize> + 'c> {
        // Otherwise a search of the whole ring would find out that none is left.
        if choice.tried.len() >= choice.group.len() && !choice.has_untried() {
            return None;
        }
        let ring = self.0.as_ref().or_else(|| shared(choice.set))?;
        let members = ring.from(choice.key_hash).filter_map(|node| choice.group.member(node));
        Some(members.filter(|member| !choice.is_tried(*member)))
    }
}

/// The ring of a node set.
fn shared(set: &NodeSet) -> Option<&HashRing> {
    set.derived.as_deref()?.downcast_ref()
}

/// Consistent hashing keeps no other state in the worker.
pub struct ConsistentHash(GroupRing);

impl Balancer for ConsistentHash {
    fn choose(&mut self, choice: &BalanceInput<'_>) -> Option<usize> {
        self.0.untried(choice)?.next()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::testing::{Bench, set};
    use super::*;
    use net::endpoint::Endpoint;

    fn owners(set: NodeSet, keys: u32) -> Vec<usize> {
        let mut bench = Bench::new(&KIND, set);
        let mut owner = |key: u32| {
            bench.key_hash = hash_ring_key(&key.to_le_bytes());
            bench.choose().unwrap()
        };
        (0..keys).map(&mut owner).collect()
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

    /// The port that each of the keys `key0`, `key1` and so on is mapped to among these nodes of the set.
    fn ports(set: NodeSet, members: &[usize]) -> Vec<u16> {
        let mut bench = Bench::of_group(&KIND, set, members);
        let mut port = |number: usize| {
            bench.key_hash = hash_ring_key(format!("key{number}").as_bytes());
            let index = bench.choose().unwrap();
            bench.set.nodes[index].endpoint.address.port()
        };
        (0..24).map(&mut port).collect()
    }

    /// The ports that nginx 1.22 chose with `hash $arg_k consistent` and the weights 1, 2 and 1.
    const NGINX: [u16; 24] = [
        1981, 1982, 1981, 1981, 1981, 1980, 1981, 1982, 1980, 1982, 1981, 1981, 1981, 1982, 1981, 1981, 1980,
        1981, 1981, 1981, 1981, 1981, 1981, 1981,
    ];

    #[test]
    fn keys_meet_the_endpoints_of_nginx() {
        assert_eq!(ports(nodes(&[(1, 0), (2, 0), (1, 0)]), &[0, 1, 2]), NGINX);
        // APISIX reduces weights, which nginx does not.
        assert_eq!(ports(nodes(&[(50, 0), (100, 0), (50, 0)]), &[0, 1, 2]), NGINX);
    }

    #[test]
    fn each_priority_has_the_ring_of_its_own_nodes() {
        let mixed = || nodes(&[(50, 0), (100, 0), (50, 0), (7, -1)]);
        assert_eq!(ports(mixed(), &[0, 1, 2]), NGINX);
        assert_eq!(ports(mixed(), &[3]), [1983; 24]);
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
        let ring = HashRing::new(&nodes(&[(u32::MAX, 0), (u32::MAX - 1, 0), (1, 0)]).nodes);
        assert!(ring.points.len() as u64 <= POINTS_MAX + 3, "{} points", ring.points.len());
        assert!(ring.points.iter().any(|(_, node)| *node == 2), "the lightest node has a point");
    }

    #[test]
    fn shares_follow_the_weights() {
        let heavy = owners(set(&[1, 3, 0]), 20_000).into_iter().filter(|owner| *owner == 1).count();
        assert!((13_500..16_500).contains(&heavy), "{heavy} of 20000");
    }

    #[test]
    fn a_lost_node_moves_only_its_own_keys() {
        let (before, after) = (owners(set(&[1, 1, 1, 1]), 2_000), owners(set(&[1, 1, 1, 0]), 2_000));
        assert!(before.iter().zip(after).all(|(before, after)| *before == 3 || *before == after));
    }

    #[test]
    fn sparse_group_is_mapped_as_on_the_shared_ring() {
        let (weights, members) = ([1; 40], [3, 17, 29]);
        let ring = HashRing::new(&set(&weights).nodes);
        let mut bench = Bench::of_group(&KIND, set(&weights), &members);
        for key in (0..u32::MAX).step_by(9_999_991) {
            bench.key_hash = key;
            assert_eq!(bench.choose(), ring.from(key).find(|node| members.contains(node)));
        }
    }

    #[test]
    fn tried_node_is_replaced_by_next_on_ring() {
        let mut bench = Bench::new(&KIND, set(&[1, 1]));
        bench.key_hash = 7;
        assert_eq!(bench.choose_untried(&[0]), Some(1));
        assert_eq!(bench.choose_untried(&[0, 1]), None);
    }
}

//! Maglev hashing (Eisenbud and others, "Maglev: a fast and reliable software network load balancer", NSDI
//! 2016): a key is one look-up in a table in which each node holds a share of the places by its weight.
//! Shares are more even than on the ring of `chash`, and a lost node moves few keys of others, where the ring
//! moves none. Built once per node set.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use stdx::hash::{crc32, crc32_continue};

use super::{BalanceInput, Balancer, BalancerKind, Uses, next_random};
use net::nodes::ResolvedNode;

/// Places of a table: a prime, so that every step visits all of them, and a hundred times the nodes of most
/// upstreams (section 5.3 of the paper). 256 KiB for each priority of an upstream.
const PLACES: usize = 65_537;

/// Places tried for a key with a node that may not be chosen, before the members of the group are compared
/// one by one.
const TRIES_MAX: u32 = 16;

/// The same node for the same key, by one look-up.
pub static KIND: BalancerKind = BalancerKind {
    name: "maglev",
    derive: Some(derive_tables),
    make: |_| Box::new(Maglev),
    uses: Uses::Loads,
};

/// The data of a node set.
struct MaglevTables {
    /// By priority, the index of the node at each place.
    places: BTreeMap<i64, Box<[u32]>>,
    /// By node, the hash of its address.
    addresses: Box<[u32]>,
}

fn derive_tables(nodes: &[ResolvedNode]) -> Arc<dyn Any + Send + Sync> {
    let mut tiers: BTreeMap<i64, Vec<(u32, &ResolvedNode)>> = BTreeMap::new();
    for (index, node) in (0..).zip(nodes).filter(|(_, node)| node.weight > 0) {
        tiers.entry(node.priority).or_default().push((index, node));
    }
    let places = tiers.into_iter().map(|(priority, nodes)| (priority, table(&nodes))).collect();
    Arc::new(MaglevTables { places, addresses: nodes.iter().map(address_hash).collect() })
}

fn address_hash(node: &ResolvedNode) -> u32 {
    crc32(node.endpoint.address.to_string().as_bytes())
}

impl MaglevTables {
    /// The untried member with the highest score for the key (weighted rendezvous hashing): for a group of
    /// which the table has few places. A member that leaves the group moves only its own keys.
    fn highest(&self, choice: &BalanceInput<'_>) -> Option<usize> {
        let score = |member: usize| {
            let address = u64::from(self.addresses[choice.group.node(member)]);
            let hash = next_random(&mut (u64::from(choice.key_hash) << 32 | address));
            // Above 0 and below 1.
            let part = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            choice.group.weight(member) / -part.ln()
        };
        let untried = (0..choice.group.len()).filter(|member| !choice.is_tried(*member));
        untried.map(|member| (member, score(member))).max_by(|a, b| a.1.total_cmp(&b.1)).map(|best| best.0)
    }
}

/// A node while the table is filled.
struct Preference {
    index: u32,
    weight: u64,
    /// The next place that it would take, and the step to the one behind.
    place: usize,
    step: usize,
    /// The turn at which its weight entitles it to a place, times the largest weight.
    due: u64,
}

/// Nodes take places in turn, each the next free one in its own order; a node of half the largest weight
/// every second turn. Nodes beyond the number of places get none.
fn table(nodes: &[(u32, &ResolvedNode)]) -> Box<[u32]> {
    const FREE: u32 = u32::MAX;
    let largest = nodes.iter().map(|(_, node)| u64::from(node.weight)).max().unwrap_or(1);
    let mut preferences: Vec<Preference> = nodes
        .iter()
        .map(|(index, node)| {
            let hash = address_hash(node);
            let other = crc32_continue(hash, b"step");
            Preference {
                index: *index,
                weight: u64::from(node.weight),
                place: hash as usize % PLACES,
                step: other as usize % (PLACES - 1) + 1,
                due: 0,
            }
        })
        .collect();
    // The order of the nodes in the configuration must not matter.
    preferences.sort_by_key(|preference| (preference.place, preference.step));
    let mut table = vec![FREE; PLACES].into_boxed_slice();
    let mut taken = 0;
    for turn in 1_u64.. {
        for preference in &mut preferences {
            if turn * preference.weight < preference.due {
                continue;
            }
            preference.due += largest;
            while table[preference.place] != FREE {
                preference.place = (preference.place + preference.step) % PLACES;
            }
            table[preference.place] = preference.index;
            taken += 1;
            if taken == PLACES {
                return table;
            }
        }
    }
    table
}

/// A look-up needs no state in the worker.
pub struct Maglev;

impl Balancer for Maglev {
    fn choose(&mut self, choice: &BalanceInput<'_>) -> Option<usize> {
        let tables: &MaglevTables = choice.set.derived.as_deref()?.downcast_ref()?;
        let table = tables.places.get(&choice.group.priority)?;
        let mut hash = choice.key_hash;
        for attempt in 0..TRIES_MAX {
            let node = table[hash as usize % PLACES] as usize;
            if let Some(member) = choice.group.member(node).filter(|member| !choice.is_tried(*member)) {
                return Some(member);
            }
            hash = crc32_continue(hash, &attempt.to_le_bytes());
        }
        // Most nodes may not be chosen. The less of them remain, the fewer there are to compare.
        tables.highest(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, set};
    use super::*;
    use net::nodes::NodeSet;

    fn with_tables(weights: &[u32]) -> NodeSet {
        let mut set = set(weights);
        set.derived = Some(derive_tables(&set.nodes));
        set
    }

    fn places(set: &NodeSet) -> Vec<u32> {
        set.derived.as_deref().and_then(|all| all.downcast_ref::<MaglevTables>()).unwrap().places[&0].to_vec()
    }

    fn share(set: &NodeSet, node: u32) -> usize {
        places(set).iter().filter(|index| **index == node).count()
    }

    /// The nodes that keys are mapped to among these nodes of the set.
    fn owners(set: NodeSet, keys: impl Iterator<Item = u32>, members: &[usize]) -> Vec<usize> {
        let mut bench = Bench::of_group(&KIND, set, members);
        let owner = |key| {
            bench.key_hash = key;
            bench.choose().unwrap()
        };
        keys.map(owner).collect()
    }

    #[test]
    fn shares_follow_the_weights_within_a_percent() {
        let set = with_tables(&[1, 3, 0, 2]);
        for (node, expected) in [(0, PLACES / 6), (1, PLACES / 2), (2, 0), (3, PLACES / 3)] {
            let share = share(&set, node);
            assert!(share.abs_diff(expected) <= PLACES / 100, "node {node}: {share} places, not {expected}");
        }
    }

    #[test]
    fn lost_node_moves_few_keys_of_others() {
        let (before, after) = (with_tables(&[1; 20]), with_tables(&[&[1; 19][..], &[0]].concat()));
        let pairs = places(&before).into_iter().zip(places(&after));
        let moved = pairs.filter(|(before, after)| *before != 19 && before != after).count();
        assert!(moved < PLACES / 20, "{moved} of {PLACES} places");
    }

    #[test]
    fn order_of_nodes_does_not_matter() {
        let mut reversed = set(&[1, 1, 1]);
        reversed.nodes.reverse();
        reversed.derived = Some(derive_tables(&reversed.nodes));
        let forward = with_tables(&[1, 1, 1]);
        let addresses = |set: NodeSet| {
            let addresses: Vec<_> = set.nodes.iter().map(|node| node.endpoint.address).collect();
            let owners = owners(set, (0..100_000).step_by(97), &[0, 1, 2]);
            owners.into_iter().map(|owner| addresses[owner]).collect::<Vec<_>>()
        };
        assert_eq!(addresses(forward), addresses(reversed));
    }

    #[test]
    fn keys_of_a_lost_node_spread_over_others() {
        let all = owners(with_tables(&[1; 4]), 0..20_000, &[0, 1, 2, 3]);
        let left = owners(with_tables(&[1; 4]), 0..20_000, &[1, 2, 3]);
        let mut shares = [0; 4];
        all.into_iter().zip(left).filter(|(owner, _)| *owner == 0).for_each(|(_, other)| shares[other] += 1);
        assert_eq!(shares[0], 0);
        assert!(shares[1..].iter().all(|share| (1_200..2_200).contains(share)), "{shares:?}");
    }

    #[test]
    fn keys_spread_over_the_few_nodes_left() {
        let chosen = owners(with_tables(&[1; 1_000]), 0..1_000, &[3, 500]);
        let first = chosen.iter().filter(|node| **node == 3).count();
        assert!((400..600).contains(&first), "{first} of 1000");
    }

    #[test]
    fn small_group_keeps_keys_of_nodes_that_stay() {
        let keys = || (0..2_000_u32).map(|key| crc32(&key.to_le_bytes()));
        let before = owners(with_tables(&[1; 1_000]), keys(), &[3, 200, 500, 900]);
        let after = owners(with_tables(&[1; 1_000]), keys(), &[3, 200, 900]);
        let pairs = before.into_iter().zip(after);
        assert_eq!(pairs.filter(|(before, after)| *before != 500 && before != after).count(), 0);
    }

    #[test]
    fn small_group_shares_by_weight() {
        let mut weights = vec![1; 1_000];
        weights[3] = 3;
        let keys = (0..4_000_u32).map(|key| crc32(&key.to_le_bytes()));
        let heavy = owners(with_tables(&weights), keys, &[3, 500]).into_iter().filter(|node| *node == 3);
        assert!((2_800..3_200).contains(&heavy.count()));
    }

    #[test]
    fn tried_nodes_are_not_chosen() {
        let mut bench = Bench::new(&KIND, with_tables(&[1; 4]));
        bench.key_hash = 5;
        assert_eq!(bench.choose_untried(&[0, 1, 2]), Some(3));
        assert_eq!(bench.choose_untried(&[0, 1, 2, 3]), None);
    }
}

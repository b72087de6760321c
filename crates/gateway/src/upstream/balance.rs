//! Balancing methods: one file per method, each a pure state machine over the group of nodes it was built
//! for; randomness and time are passed in. They know no sockets, health or configuration.

pub mod bounded_hash;
pub mod consistent_hash;
pub mod least_connections;
pub mod maglev;
pub mod original_dst;
pub mod peak_ewma;
pub mod random;
pub mod round_robin;

use net::nodes::{Derive, NodeSet};

use super::loads::Loads;
use super::select::group::NodeGroup;

/// All balancing methods. A method is a file of this folder and a line here.
pub static ALL: &[&BalancerKind] = &[
    &round_robin::KIND,
    &consistent_hash::KIND,
    &peak_ewma::KIND,
    &least_connections::KIND,
    &random::KIND,
    &maglev::KIND,
    &bounded_hash::KIND,
    &original_dst::KIND,
];

/// A balancing method, as its file declares it.
pub struct BalancerKind {
    /// The name users write as an upstream's `type`.
    pub name: &'static str,
    /// Computes data from a node set, once per set and off the workers.
    pub derive: Option<Derive>,
    /// Makes the state of one worker for one group.
    pub make: fn(&Start<'_>) -> Box<dyn Balancer>,
    /// The measurements that it uses.
    pub uses: Uses,
}

/// The measurements of [`Loads`] that a method uses; the others are not made for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    /// None, or the requests in flight as they are at a choice.
    Loads,
    /// Each change of the requests in flight: [`Balancer::load_changed`] is called.
    LoadChanges,
    /// The response times.
    Latencies,
}

/// The kind with this name.
pub fn named(name: &str) -> Option<&'static BalancerKind> {
    ALL.iter().copied().find(|kind| kind.name == name)
}

/// The input of a new balancer.
pub struct Start<'a> {
    /// The whole set.
    pub set: &'a NodeSet,
    /// The nodes of it that may be chosen.
    pub group: &'a NodeGroup,
    /// The state of all nodes of the set.
    pub loads: &'a Loads,
    /// The worker's number, so that not all workers begin with the same node.
    pub stagger: usize,
    /// The [turns](Balancer::turns) of the members under the balancer before; none for new members.
    pub turns: &'a [Option<f64>],
}

/// The facts that a balancer may use when it chooses.
pub struct BalanceInput<'a> {
    /// The set that the group belongs to.
    pub set: &'a NodeSet,
    /// The nodes that may be chosen; the balancer was built for them.
    pub group: &'a NodeGroup,
    /// The state of all nodes of the set.
    pub loads: &'a Loads,
    /// The hash of the request's key, for methods that use one.
    pub key_hash: u32,
    /// A random number.
    pub random: u64,
    /// Milliseconds of the monotonic clock.
    pub now_ms: u64,
    /// Endpoints that must not be chosen, because an attempt at them failed.
    pub tried: &'a [u64],
    /// The endpoint of the attempt that failed last, where this is a retry.
    pub failed: Option<u64>,
}

impl BalanceInput<'_> {
    /// Whether the request was tried at this member already.
    #[inline]
    pub fn is_tried(&self, member: usize) -> bool {
        !self.tried.is_empty() && self.tried.contains(&self.set.nodes[self.group.node(member)].endpoint.id)
    }

    /// The requests in flight at this member.
    #[inline]
    pub fn active(&self, member: usize) -> u32 {
        self.loads.active(self.group.node(member))
    }

    /// Whether a member was not tried.
    pub fn has_untried(&self) -> bool {
        (0..self.group.len()).any(|member| !self.is_tried(member))
    }
}

/// A balancing method's state in one worker for one group. Members are named by their index in the group.
pub trait Balancer {
    /// The chosen member; `None` if all were tried.
    fn choose(&mut self, choice: &BalanceInput<'_>) -> Option<usize>;
    /// Takes note of the requests in flight at a member, for methods with [`Uses::LoadChanges`].
    fn load_changed(&mut self, _member: usize, _active: u32) {}
    /// A number for each member that is lower the sooner its next turn is; empty for methods without turns.
    /// The next balancer of the group continues with them, so that a change does not favour the first nodes.
    fn turns(&self) -> Vec<f64> {
        Vec::new()
    }
}

/// The next of a sequence of numbers that begins with a random one (SplitMix64; Steele, Lea and Flood, 2014).
pub(crate) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use model::resource::BalanceMethod;

    use super::*;

    #[test]
    fn list_and_folder_and_model_agree() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/upstream/balance");
        let files = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(files, ALL.len(), "one file for each kind");
        let mut listed: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
        let mut written: Vec<&str> = BalanceMethod::ALL.iter().map(|method| method.name()).collect();
        listed.sort_unstable();
        written.sort_unstable();
        assert_eq!(listed, written);
    }

    #[test]
    fn starting_node_gets_its_part_with_each_method() {
        const COUNT: usize = 10;
        for kind in ["roundrobin", "least_conn", "ewma", "random"].map(|name| named(name).unwrap()) {
            // requests in flight, part of the weight → choices of 10,000
            for (busy, part, expected) in [(0, 0.1, 110), (0, 0.5, 526), (0, 1.0, 1_000), (40, 0.5, 526)] {
                let mut bench = testing::Bench::new(kind, testing::set(&[1; COUNT]));
                let weight = |node: usize| (node, if node == 9 { part } else { 1.0 });
                bench.group = NodeGroup::new(&bench.set, 0, (0..COUNT).map(weight));
                bench.rebuild(kind);
                let (mut random, mut chosen, mut active) = (7, 0, std::collections::VecDeque::new());
                for _ in 0..10_000 {
                    bench.random = next_random(&mut random);
                    active.push_back(bench.start().unwrap());
                    chosen += u32::from(active.back() == Some(&9));
                    if active.len() > busy {
                        active.pop_front().into_iter().for_each(|node| bench.finish(node));
                    }
                }
                let range = expected * 7 / 10..=expected * 14 / 10;
                assert!(range.contains(&chosen), "{}, {busy} in flight: {chosen} at {part}", kind.name);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! Sets of nodes, and a group with its balancer, for the tests of the methods.

    use std::sync::Arc;

    use super::consistent_hash::derive_ring;
    use super::*;
    use net::endpoint::Endpoint;
    use net::node_state::{NodeStates, Transition};
    use net::nodes::ResolvedNode;

    pub(in crate::upstream) fn transition() -> Transition {
        Transition { at_ms: 1, cause: "a test".into() }
    }

    pub(in crate::upstream) fn set(weights: &[u32]) -> NodeSet {
        let states = Arc::<NodeStates>::default();
        let node = |(index, weight): (usize, &u32)| {
            let address = ([127, 0, 0, 1], 8000 + index as u16).into();
            let host: Arc<str> = "127.0.0.1".into();
            let state = states.of(address, &host);
            let endpoint = Arc::new(Endpoint::cleartext(index as u64, address));
            ResolvedNode { endpoint, host, weight: *weight, priority: 0, metadata: None, state }
        };
        let nodes: Vec<_> = weights.iter().enumerate().map(node).collect();
        NodeSet { derived: Some(derive_ring(&nodes)), nodes, note: None, states }
    }

    /// A group of a set with its balancer, and the input of the next choice. The id of an endpoint is its
    /// index.
    pub(in crate::upstream) struct Bench {
        pub(in crate::upstream) set: NodeSet,
        pub(in crate::upstream) group: NodeGroup,
        pub(in crate::upstream) loads: Loads,
        pub(in crate::upstream) balancer: Box<dyn Balancer>,
        pub(in crate::upstream) key_hash: u32,
        pub(in crate::upstream) random: u64,
        pub(in crate::upstream) now_ms: u64,
    }

    impl Bench {
        pub(in crate::upstream) fn new(kind: &BalancerKind, set: NodeSet) -> Bench {
            Bench::staggered(kind, set, 0)
        }

        pub(in crate::upstream) fn staggered(kind: &BalancerKind, set: NodeSet, stagger: usize) -> Bench {
            let (group, loads) = (NodeGroup::whole(&set), Loads::new(set.nodes.len()));
            let start = Start { set: &set, group: &group, loads: &loads, stagger, turns: &[] };
            let balancer = (kind.make)(&start);
            Bench { set, group, loads, balancer, key_hash: 0, random: 1 << 40, now_ms: 0 }
        }

        /// With a group of these nodes only.
        pub(in crate::upstream) fn of_group(kind: &BalancerKind, set: NodeSet, nodes: &[usize]) -> Bench {
            let mut bench = Bench::new(kind, set);
            let weighted = nodes.iter().map(|node| (*node, f64::from(bench.set.nodes[*node].weight)));
            bench.group = NodeGroup::new(&bench.set, bench.set.nodes[nodes[0]].priority, weighted);
            bench.rebuild(kind);
            bench
        }

        /// Makes the balancer anew, as after a change of the set.
        pub(in crate::upstream) fn rebuild(&mut self, kind: &BalancerKind) {
            let turns: Vec<_> = self.balancer.turns().into_iter().map(Some).collect();
            let Bench { set, group, loads, .. } = self;
            self.balancer = (kind.make)(&Start { set, group, loads, stagger: 0, turns: &turns });
        }

        pub(in crate::upstream) fn choose(&mut self) -> Option<usize> {
            self.choose_untried(&[])
        }

        pub(in crate::upstream) fn choose_untried(&mut self, tried: &[u64]) -> Option<usize> {
            let Bench { set, group, loads, balancer, .. } = self;
            let (key_hash, random, now_ms) = (self.key_hash, self.random, self.now_ms);
            let failed = tried.last().copied();
            let choice = BalanceInput { set, group, loads, key_hash, random, now_ms, tried, failed };
            balancer.choose(&choice).map(|member| self.group.node(member))
        }

        /// Chooses a node and begins an attempt at it.
        pub(in crate::upstream) fn start(&mut self) -> Option<usize> {
            let node = self.choose()?;
            self.start_at(node);
            Some(node)
        }

        pub(in crate::upstream) fn start_at(&mut self, node: usize) {
            let active = self.loads.started(node);
            self.balancer.load_changed(self.group.member(node).unwrap(), active);
        }

        pub(in crate::upstream) fn finish(&mut self, node: usize) {
            let active = self.loads.finished(node);
            self.balancer.load_changed(self.group.member(node).unwrap(), active);
        }
    }
}

//! Balancing methods: one file per method, each a pure state machine over the weights it was built with; randomness and
//! time are passed in. They know no sockets, health or configuration.

pub mod bounded_hash;
pub mod consistent_hash;
pub mod least_connections;
pub mod maglev;
pub mod peak_ewma;
pub mod random;
pub mod round_robin;

use net::nodes::{Derive, NodeSet};

/// All balancing methods. A method is a file of this folder and a line here.
pub static ALL: &[&BalancerKind] = &[
    &round_robin::KIND,
    &consistent_hash::KIND,
    &peak_ewma::KIND,
    &least_connections::KIND,
    &random::KIND,
    &maglev::KIND,
    &bounded_hash::KIND,
];

/// A balancing method, as its file declares it.
pub struct BalancerKind {
    /// The name users write as an upstream's `type`.
    pub name: &'static str,
    /// Computes data from a node set, once per set and off the workers.
    pub derive: Option<Derive>,
    /// Makes the state of one worker for one node set.
    pub make: fn(&Tier<'_>) -> Box<dyn Balancer>,
}

/// The kind with this name.
pub fn named(name: &str) -> Option<&'static BalancerKind> {
    ALL.iter().copied().find(|kind| kind.name == name)
}

/// The nodes of one priority, for which a balancer is made.
pub struct Tier<'a> {
    /// The whole set; nodes of other priorities are excluded at each choice.
    pub set: &'a NodeSet,
    /// The priority.
    pub priority: i64,
    /// The worker's number, so that not all workers begin with the same node.
    pub stagger: usize,
}

/// The facts that a balancer may use when it chooses.
pub struct Choice<'a> {
    /// The nodes it was built for.
    pub set: &'a NodeSet,
    /// The hash of the request's key, for methods that use one.
    pub key_hash: u32,
    /// A random number.
    pub random: u64,
    /// Milliseconds of the monotonic clock.
    pub now_ms: u64,
    /// Nodes that must not be chosen (already tried, or of another priority), by index.
    pub excluded: &'a dyn Fn(usize) -> bool,
}

/// The state of one node; it survives changes of the set that do not concern the node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Attempts in flight.
    pub active: u32,
    /// The moving average of the response time, in microseconds.
    pub cost_us: f64,
    /// When it was last updated, in milliseconds.
    pub updated_ms: u64,
}

/// A balancing method's state in one worker for one set of nodes.
pub trait Balancer {
    /// The index of the chosen node; `None` if all are excluded or have weight 0.
    fn choose(&mut self, choice: &Choice<'_>) -> Option<usize>;
    /// The state of `node`, to be kept when the node set changes.
    fn memory(&self, _node: usize) -> Memory {
        Memory::default()
    }
    /// Restores the state that `node` had under another set.
    fn remember(&mut self, _node: usize, _memory: Memory) {}
    /// Records that an attempt at `node` begins.
    fn started(&mut self, _node: usize) {}
    /// Records that an attempt at `node` ended after `latency_us`; methods that use the response time count a `failed`
    /// one as slow.
    fn finished(&mut self, _node: usize, _latency_us: u64, _now_ms: u64, _failed: bool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_and_folder_and_model_agree() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/upstream/balance");
        let files = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(files, ALL.len(), "one file for each kind");
        let mut listed: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
        let mut written: Vec<&str> = model::resource::Balance::NAMES.to_vec();
        listed.sort_unstable();
        written.sort_unstable();
        assert_eq!(listed, written);
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! Sets of nodes and choices for the methods' tests.

    use std::sync::Arc;

    use super::consistent_hash::derive_ring;
    use super::*;
    use net::endpoint::Endpoint;
    use net::node_state::{NodeStates, Transition};
    use net::nodes::Node;

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
            Node { endpoint, host, weight: *weight, priority: 0, metadata: None, state }
        };
        let nodes: Vec<_> = weights.iter().enumerate().map(node).collect();
        NodeSet { derived: Some(derive_ring(&nodes)), nodes, note: None, states }
    }

    pub(in crate::upstream) fn choose(
        balancer: &mut dyn Balancer,
        set: &NodeSet,
        now_ms: u64,
    ) -> Option<usize> {
        balancer.choose(&Choice { set, key_hash: 0, random: now_ms | 1 << 40, now_ms, excluded: &|_| false })
    }
}

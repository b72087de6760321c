//! Choosing a node: one file per method, each a pure state machine over the weights it was built with; randomness and
//! time are handed in. Nothing here knows sockets, health or configuration.

pub mod consistent_hash;
pub mod least_connections;
pub mod peak_ewma;
pub mod round_robin;

use super::NodeSet;

/// What a balancer may look at when it chooses.
pub struct Choice<'a> {
    /// The nodes it was built for.
    pub set: &'a NodeSet,
    /// The hash of the request's key, for methods that use one.
    pub key_hash: u64,
    /// A random number.
    pub random: u64,
    /// Milliseconds of the monotonic clock.
    pub now_ms: u64,
    /// Nodes that must not be chosen (tried before, or of another priority), by index.
    pub excluded: &'a dyn Fn(usize) -> bool,
}

/// A balancing method's state in one worker for one set of nodes.
pub trait Balancer {
    /// The index of the chosen node, or nothing if all are excluded or weigh nothing.
    fn choose(&mut self, choice: &Choice<'_>) -> Option<usize>;
    /// A try at `node` begins.
    fn started(&mut self, _node: usize) {}
    /// A try at `node` ended after `latency_us`; `failed` tries count as slow ones where the method looks at time.
    fn finished(&mut self, _node: usize, _latency_us: u64, _now_ms: u64, _failed: bool) {}
}

#[cfg(test)]
mod testing {
    //! Sets of nodes and choices for the methods' tests.

    use std::sync::Arc;

    use super::super::{Endpoint, KeepAlive, Node};
    use super::consistent_hash::Ring;
    use super::*;

    pub(super) fn set(weights: &[u32]) -> NodeSet {
        let node = |(index, weight): (usize, &u32)| Node {
            endpoint: Arc::new(Endpoint {
                id: index as u64,
                address: ([127, 0, 0, 1], 8000 + index as u16).into(),
                keep_alive: KeepAlive::default(),
            }),
            host: "127.0.0.1".into(),
            weight: *weight,
            priority: 0,
        };
        let nodes: Vec<_> = weights.iter().enumerate().map(node).collect();
        NodeSet { ring: Ring::new(&nodes), nodes, note: None }
    }

    pub(super) fn choose(balancer: &mut dyn Balancer, set: &NodeSet, now_ms: u64) -> Option<usize> {
        balancer.choose(&Choice { set, key_hash: 0, random: now_ms | 1 << 40, now_ms, excluded: &|_| false })
    }
}

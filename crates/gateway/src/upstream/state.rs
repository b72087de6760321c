//! What one worker knows of its upstreams between requests: the balancer of each over its current nodes. Kept by slot,
//! rebuilt when the node set changes, apart from the configuration.

use std::sync::Arc;

use stdx::published::{Published, Reader};

use super::balance::consistent_hash::ConsistentHash;
use super::balance::least_connections::LeastConnections;
use super::balance::peak_ewma::PeakEwma;
use super::balance::round_robin::RoundRobin;
use super::balance::{Balancer, Choice};
use super::{Method, NodeSet, Upstream};

/// A chosen node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Picked {
    /// Its index in the node set of `generation`.
    pub(crate) index: usize,
    /// The generation of the node set the index belongs to.
    pub(crate) generation: u64,
}

/// What this worker knows of one upstream.
pub(crate) struct UpstreamState {
    /// Which node sets it follows; the same cell is the same upstream.
    source: Arc<Published<NodeSet>>,
    nodes: Reader<NodeSet>,
    /// One balancer for all nodes of a priority, the highest first.
    tiers: Vec<(i64, Box<dyn Balancer>)>,
}

impl UpstreamState {
    /// For `upstream`, in the worker with number `stagger`.
    pub(crate) fn new(upstream: &Upstream, stagger: usize) -> UpstreamState {
        let nodes = Reader::new(upstream.nodes.clone());
        let tiers = tiers(upstream, nodes.get(), stagger);
        UpstreamState { source: upstream.nodes.clone(), nodes, tiers }
    }

    /// Whether this state was made for `upstream` as it is now.
    pub(crate) fn fits(&self, upstream: &Upstream) -> bool {
        Arc::ptr_eq(&self.source, &upstream.nodes)
    }

    /// The current nodes; the balancers start anew when the set has changed.
    #[inline]
    pub(crate) fn refresh(&mut self, upstream: &Upstream, stagger: usize) -> &NodeSet {
        if self.nodes.refresh().is_some() {
            self.tiers = tiers(upstream, self.nodes.get(), stagger);
        }
        self.nodes.get()
    }

    /// The nodes as of the last refresh.
    pub(crate) fn nodes(&self) -> &NodeSet {
        self.nodes.get()
    }

    /// Whether `picked` was chosen among the current nodes.
    pub(crate) fn is_current(&self, picked: Picked) -> bool {
        picked.generation == self.nodes.generation()
    }

    /// Chooses a node that is not among `tried`.
    #[inline]
    pub(crate) fn choose(&mut self, key_hash: u64, random: u64, now_ms: u64, tried: &[usize]) -> Option<Picked> {
        let generation = self.nodes.generation();
        let set: &NodeSet = self.nodes.get();
        let one_tier = self.tiers.len() == 1;
        for (priority, balancer) in &mut self.tiers {
            let excluded = |index: usize| {
                (!one_tier && set.nodes[index].priority != *priority) || tried.contains(&index)
            };
            let choice = Choice { set, key_hash, random, now_ms, excluded: &excluded };
            if let Some(index) = balancer.choose(&choice) {
                balancer.started(index);
                return Some(Picked { index, generation });
            }
        }
        None
    }

    /// Tells the balancer that another try at `picked` begins.
    pub(crate) fn started(&mut self, picked: Picked) {
        if let Some(balancer) = self.balancer_of(picked) {
            balancer.started(picked.index);
        }
    }

    /// Tells the balancer that the try at `picked` has ended.
    #[inline]
    pub(crate) fn finished(&mut self, picked: Picked, latency_us: u64, now_ms: u64, failed: bool) {
        if let Some(balancer) = self.balancer_of(picked) {
            balancer.finished(picked.index, latency_us, now_ms, failed);
        }
    }

    /// The balancer that chose `picked`; nothing if the set has changed meanwhile, for then the index names another
    /// node, in balancers that never saw the beginning of this try.
    fn balancer_of(&mut self, picked: Picked) -> Option<&mut Box<dyn Balancer>> {
        if !self.is_current(picked) {
            return None;
        }
        let priority = self.nodes.get().nodes[picked.index].priority;
        self.tiers.iter_mut().find(|(tier, _)| *tier == priority).map(|(_, balancer)| balancer)
    }
}

fn tiers(upstream: &Upstream, set: &NodeSet, stagger: usize) -> Vec<(i64, Box<dyn Balancer>)> {
    let mut priorities: Vec<i64> = set.nodes.iter().map(|node| node.priority).collect();
    priorities.sort_unstable_by(|a, b| b.cmp(a));
    priorities.dedup();
    priorities.into_iter().map(|priority| (priority, balancer(upstream, set, priority, stagger))).collect()
}

fn balancer(upstream: &Upstream, set: &NodeSet, priority: i64, stagger: usize) -> Box<dyn Balancer> {
    let count = set.nodes.len();
    match upstream.method {
        Method::RoundRobin => {
            // The other tiers' nodes are excluded at each choice; they must not take part in the staggering either.
            let weight = |node: &super::Node| if node.priority == priority { node.weight } else { 0 };
            let weights: Vec<u32> = set.nodes.iter().map(weight).collect();
            Box::new(RoundRobin::new(&weights, stagger))
        }
        Method::ConsistentHash(_) => Box::new(ConsistentHash),
        Method::LeastConnections => Box::new(LeastConnections::new(count, stagger)),
        Method::PeakEwma => Box::new(PeakEwma::new(count)),
    }
}

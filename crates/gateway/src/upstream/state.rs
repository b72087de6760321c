//! The state of a worker's upstreams between requests: the balancers of each over its current nodes. Kept by slot,
//! rebuilt when the node set changes, separate from the configuration.

use std::rc::Rc;
use std::sync::Arc;

use net::nodes::{Node, NodeSet};
use stdx::published::{Published, Reader};

use super::Upstream;
use super::availability::Availability;
use super::balance::{Balancer, Choice, Tier};
use exchange::overload::limiter::Limiter;

/// A selected node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Its index in the node set of `generation`.
    pub(crate) index: usize,
    /// The generation of the node set the index belongs to.
    pub(crate) generation: u64,
    /// The node's endpoint, which identifies it in every set.
    pub(crate) endpoint_id: u64,
}

/// This worker's state of one upstream.
pub(crate) struct UpstreamState {
    /// The cell of node sets that it follows; the same cell is the same upstream.
    source: Arc<Published<NodeSet>>,
    nodes: Reader<NodeSet>,
    /// One balancer for all nodes of a priority, the highest first.
    tiers: Vec<(i64, Box<dyn Balancer>)>,
    availability: Availability,
    /// The concurrency limiter, made with the first request if requests are limited by latency.
    limiter: Option<Rc<Limiter>>,
}

impl UpstreamState {
    /// For `upstream`, in the worker with number `stagger`.
    pub(crate) fn new(upstream: &Upstream, stagger: usize) -> UpstreamState {
        let nodes = Reader::new(upstream.nodes.clone());
        let tiers = tiers(upstream, nodes.get(), stagger);
        let availability = Availability::of(nodes.get());
        UpstreamState { source: upstream.nodes.clone(), nodes, tiers, availability, limiter: None }
    }

    /// The limiter of requests that wait for this upstream.
    pub(crate) fn limiter(&mut self, now_us: u64) -> &Rc<Limiter> {
        self.limiter.get_or_insert_with(|| Rc::new(Limiter::new(now_us)))
    }

    /// Whether this state was made for `upstream` as it is now.
    pub(crate) fn fits(&self, upstream: &Upstream) -> bool {
        Arc::ptr_eq(&self.source, &upstream.nodes)
    }

    /// The selected node; none if it is gone.
    pub(crate) fn node_of(&self, selected: Selection) -> Option<&Node> {
        let nodes = &self.nodes.get().nodes;
        if selected.generation == self.nodes.generation() {
            return nodes.get(selected.index);
        }
        nodes.iter().find(|node| node.endpoint.id == selected.endpoint_id)
    }

    /// The current nodes; the balancers are rebuilt when the set has changed.
    #[inline]
    pub(crate) fn refresh(&mut self, upstream: &Upstream, stagger: usize) -> &NodeSet {
        if let Some(old) = self.nodes.refresh() {
            let before = std::mem::replace(&mut self.tiers, tiers(upstream, self.nodes.get(), stagger));
            self.carry_over(&old, &before);
            self.availability = Availability::of(self.nodes.get());
        } else if self.availability.is_stale(self.nodes.get()) {
            self.availability = Availability::of(self.nodes.get());
        }
        self.nodes.get()
    }

    /// The nodes as of the last refresh.
    pub(crate) fn nodes(&self) -> &NodeSet {
        self.nodes.get()
    }

    /// Whether `selected` was chosen among the current nodes.
    pub(crate) fn is_current(&self, selected: Selection) -> bool {
        selected.generation == self.nodes.generation()
    }

    /// Selects a node with an endpoint that is not among `tried`.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        key_hash: u32,
        random: u64,
        now_ms: u64,
        tried: &[u64],
    ) -> Option<Selection> {
        let generation = self.nodes.generation();
        let set: &NodeSet = self.nodes.get();
        let one_tier = self.tiers.len() == 1;
        let unusable = self.availability.unusable.as_deref();
        for (priority, balancer) in &mut self.tiers {
            let excluded = |index: usize| {
                (!one_tier && set.nodes[index].priority != *priority)
                    || (!tried.is_empty() && tried.contains(&set.nodes[index].endpoint.id))
                    || unusable.is_some_and(|unusable| unusable[index])
            };
            let choice = Choice { set, key_hash, random, now_ms, excluded: &excluded };
            if let Some(index) = balancer.choose(&choice) {
                balancer.started(index);
                return Some(Selection { index, generation, endpoint_id: set.nodes[index].endpoint.id });
            }
        }
        None
    }

    /// Tells the balancer that another attempt at `selected` begins.
    pub(crate) fn started(&mut self, selected: Selection) {
        if let Some((balancer, index)) = self.balancer_of(selected) {
            balancer.started(index);
        }
    }

    /// Tells the balancer that the attempt at `selected` has ended.
    #[inline]
    pub(crate) fn finished(&mut self, selected: Selection, latency_us: u64, now_ms: u64, failed: bool) {
        if let Some((balancer, index)) = self.balancer_of(selected) {
            balancer.finished(index, latency_us, now_ms, failed);
        }
    }

    /// Attempts in flight, if the method counts them.
    #[cfg(feature = "simulation")]
    pub(crate) fn under_way(&self) -> usize {
        let count = self.nodes.get().nodes.len();
        let of = |balancer: &dyn Balancer| {
            (0..count).map(|node| balancer.memory(node).active as usize).sum::<usize>()
        };
        self.tiers.iter().map(|(_, balancer)| of(&**balancer)).sum()
    }

    /// The balancer of the selected node, and its present index; `None` if the node is gone.
    #[inline]
    fn balancer_of(&mut self, selected: Selection) -> Option<(&mut Box<dyn Balancer>, usize)> {
        let nodes = &self.nodes.get().nodes;
        let index = if selected.generation == self.nodes.generation() {
            selected.index
        } else {
            nodes.iter().position(|node| node.endpoint.id == selected.endpoint_id)?
        };
        let priority = nodes[index].priority;
        let (_, balancer) = self.tiers.iter_mut().find(|(tier, _)| *tier == priority)?;
        Some((balancer, index))
    }

    /// Nodes that stay keep their state, because otherwise a change of the set would make a slow node look fast.
    fn carry_over(&mut self, old: &NodeSet, before: &[(i64, Box<dyn Balancer>)]) {
        for (index, node) in old.nodes.iter().enumerate() {
            let Some((_, balancer)) = before.iter().find(|(tier, _)| *tier == node.priority) else {
                continue;
            };
            let memory = balancer.memory(index);
            let selected = Selection { index, generation: 0, endpoint_id: node.endpoint.id };
            if let Some((balancer, index)) = self.balancer_of(selected) {
                balancer.remember(index, memory);
            }
        }
    }
}

fn tiers(upstream: &Upstream, set: &NodeSet, stagger: usize) -> Vec<(i64, Box<dyn Balancer>)> {
    let mut priorities: Vec<i64> = set.nodes.iter().map(|node| node.priority).collect();
    priorities.sort_unstable_by(|a, b| b.cmp(a));
    priorities.dedup();
    priorities
        .into_iter()
        .map(|priority| (priority, (upstream.balancer.make)(&Tier { set, priority, stagger })))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::PassHost;
    use super::super::balance::testing::{set, transition};
    use super::super::balance::{BalancerKind, least_connections, round_robin};
    use super::*;
    use exchange::options::Timeouts;
    use net::node_state::Unusable;

    fn upstream(balancer: &'static BalancerKind, weights: &[u32]) -> Upstream {
        Upstream {
            identity: "/upstreams/1".into(),
            slot: 0,
            balancer,
            hash_key: None,
            nodes: Arc::new(Published::new(Arc::new(set(weights)))),
            discovered: None,
            health: None,
            pass_host: PassHost::Pass,
            protocol: net::endpoint::Protocol::Http1,
            needs_http2: false,
            retries: None,
            retry_timeout_ms: 0,
            scheme: "http",
            timeouts: Timeouts::default(),
        }
    }

    #[test]
    fn new_endpoint_keeps_in_flight_counts() {
        let upstream = upstream(&least_connections::KIND, &[1]);
        let mut state = UpstreamState::new(&upstream, 0);
        let busy: Vec<Selection> = (0..3).map(|_| state.choose(0, 0, 0, &[]).unwrap()).collect();
        upstream.nodes.publish(Arc::new(set(&[1, 1])));
        state.refresh(&upstream, 0);
        let chosen: Vec<usize> = (0..3).map(|_| state.choose(0, 0, 0, &[]).unwrap().index).collect();
        assert_eq!(
            chosen,
            [1, 1, 1],
            "the node with three requests under way gets no fourth before its neighbour has as many"
        );
        // Attempts that began under the old set end under the new one.
        busy.into_iter().for_each(|selected| state.finished(selected, 1, 0, false));
        assert_eq!(state.choose(0, 0, 0, &[]).unwrap().index, 0);
    }

    #[test]
    fn tried_endpoint_is_known_in_every_node_set() {
        let upstream = upstream(&round_robin::KIND, &[1, 1]);
        let mut state = UpstreamState::new(&upstream, 0);
        let mut nodes = set(&[1, 1]);
        nodes.nodes.remove(0);
        upstream.nodes.publish(Arc::new(nodes));
        state.refresh(&upstream, 0);
        assert_eq!(state.choose(0, 0, 0, &[0]).map(|selected| selected.endpoint_id), Some(1));
        assert!(state.choose(0, 0, 0, &[1]).is_none());
    }

    #[test]
    fn unusable_node_is_left_out_until_it_is_usable() {
        let upstream = upstream(&round_robin::KIND, &[1, 1]);
        let mut state = UpstreamState::new(&upstream, 0);
        let node = upstream.nodes.load().nodes[0].state.clone();
        let mut chosen = || {
            state.refresh(&upstream, 0);
            (0..4).map(|_| state.choose(0, 0, 0, &[]).unwrap().index).collect::<Vec<_>>()
        };
        assert_eq!(chosen(), [0, 1, 0, 1]);
        node.mark(Unusable::Unhealthy, true, transition());
        assert_eq!(chosen(), [1, 1, 1, 1]);
        node.mark(Unusable::Unhealthy, false, transition());
        assert!(chosen().contains(&0));
    }

    #[test]
    fn lower_priority_is_used_when_no_higher_is_left() {
        let upstream = upstream(&round_robin::KIND, &[1, 1, 1]);
        let mut nodes = set(&[1, 1, 1]);
        nodes.nodes[0].priority = -1;
        upstream.nodes.publish(Arc::new(nodes));
        let mut state = UpstreamState::new(&upstream, 0);
        let mut tried = Vec::new();
        while let Some(selected) = state.choose(0, 0, 0, &tried) {
            tried.push(selected.endpoint_id);
        }
        assert_eq!(tried, [1, 2, 0]);
    }
}

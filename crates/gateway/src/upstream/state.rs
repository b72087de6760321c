//! The state of a worker's upstreams between requests: what was measured at its nodes, and the groups from
//! which they are chosen. Kept by slot,
//! rebuilt when the node set changes, separate from the configuration.

use std::rc::Rc;
use std::sync::Arc;

use net::nodes::NodeSet;
use stdx::published::{Published, Reader};

use super::Upstream;
use super::availability::Availability;
use super::balance::Uses;
use super::loads::Loads;
use super::select::divide::divide;
use super::select::plan::{Before, Plan, Request};
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
    loads: Loads,
    plan: Plan,
    availability: Availability,
    /// The measurements that the balancing method uses.
    uses: Uses,
    /// The concurrency limiter, made with the first request if requests are limited by latency.
    limiter: Option<Rc<Limiter>>,
}

impl UpstreamState {
    /// For `upstream`, in the worker with number `stagger`.
    pub(crate) fn new(upstream: &Upstream, stagger: usize) -> UpstreamState {
        let nodes = Reader::new(upstream.nodes.clone());
        let loads = Loads::new(nodes.get().nodes.len());
        let availability = Availability::of(nodes.get());
        let source = upstream.nodes.clone();
        let (plan, uses) = (Plan::default(), upstream.balancer.uses);
        let mut state = UpstreamState { source, nodes, loads, plan, availability, uses, limiter: None };
        state.rebuild(upstream, stagger, &[]);
        state
    }

    /// The limiter of requests that wait for this upstream.
    pub(crate) fn limiter(&mut self, now_us: u64) -> &Rc<Limiter> {
        self.limiter.get_or_insert_with(|| Rc::new(Limiter::new(now_us)))
    }

    /// Whether this state was made for `upstream` as it is now.
    pub(crate) fn fits(&self, upstream: &Upstream) -> bool {
        Arc::ptr_eq(&self.source, &upstream.nodes)
    }

    /// The current nodes; the groups are rebuilt when the set or the state of a node has changed.
    #[inline]
    pub(crate) fn refresh(&mut self, upstream: &Upstream, stagger: usize) -> &NodeSet {
        if let Some(old) = self.nodes.refresh() {
            let (loads, indices) = self.loads.carried_over(&old, self.nodes.get());
            self.loads = loads;
            self.rebuild(upstream, stagger, &indices);
        } else if self.availability.is_stale(self.nodes.get()) {
            self.rebuild(upstream, stagger, &[]);
        }
        self.nodes.get()
    }

    /// Makes the groups for the current nodes; `indices` are the earlier ones of the nodes, empty if they are the same.
    #[cold]
    fn rebuild(&mut self, upstream: &Upstream, stagger: usize, indices: &[Option<u32>]) {
        let set = self.nodes.get();
        self.availability = Availability::of(set);
        let parts = divide(set, &self.availability);
        let before = Before { plan: &self.plan, indices };
        self.plan = Plan::new(upstream.balancer, set, &self.loads, stagger, parts, &before);
    }

    /// The nodes as of the last refresh.
    pub(crate) fn nodes(&self) -> &NodeSet {
        self.nodes.get()
    }

    /// Whether `selected` was chosen among the current nodes.
    pub(crate) fn is_current(&self, selected: Selection) -> bool {
        selected.generation == self.nodes.generation()
    }

    /// Selects a node with an endpoint that was not tried, and counts the attempt.
    #[inline]
    pub(crate) fn choose(&mut self, request: Request<'_>) -> Option<Selection> {
        let set: &NodeSet = self.nodes.get();
        let index = self.plan.choose(set, &self.loads, request)?;
        let endpoint_id = set.nodes[index].endpoint.id;
        self.begin(index);
        Some(Selection { index, generation: self.nodes.generation(), endpoint_id })
    }

    /// Counts another attempt at `selected`.
    pub(crate) fn started(&mut self, selected: Selection) {
        if let Some(index) = self.index_of(selected) {
            self.begin(index);
        }
    }

    #[inline]
    fn begin(&mut self, index: usize) {
        let active = self.loads.started(index);
        if self.uses == Uses::LoadChanges {
            self.plan.load_changed(index, active);
        }
    }

    /// Records that the attempt at `selected` has ended.
    #[inline]
    pub(crate) fn finished(&mut self, selected: Selection, latency_us: u64, now_ms: u64, has_failed: bool) {
        let Some(index) = self.index_of(selected) else { return };
        let active = self.loads.finished(index);
        match self.uses {
            Uses::Loads => {}
            Uses::LoadChanges => self.plan.load_changed(index, active),
            Uses::Latencies => self.loads.measured(index, latency_us, now_ms, has_failed),
        }
    }

    /// Attempts in flight.
    #[cfg(feature = "simulation")]
    pub(crate) fn under_way(&self) -> usize {
        self.loads.active_total()
    }

    /// The present index of the selected node; `None` if it is gone.
    #[inline]
    fn index_of(&self, selected: Selection) -> Option<usize> {
        if selected.generation == self.nodes.generation() {
            return Some(selected.index);
        }
        self.nodes.get().nodes.iter().position(|node| node.endpoint.id == selected.endpoint_id)
    }
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
            pass_host: PassHost::Pass,
            protocol: net::endpoint::Protocol::Http1,
            needs_http2: false,
            retries: None,
            retry_timeout_ms: 0,
            scheme: "http",
            timeouts: Timeouts::default(),
        }
    }

    fn choose(state: &mut UpstreamState, tried: &[u64]) -> Option<Selection> {
        state.choose(Request { key_hash: 0, random: 0, now_ms: 0, tried })
    }

    #[test]
    fn new_endpoint_keeps_in_flight_counts() {
        let upstream = upstream(&least_connections::KIND, &[1]);
        let mut state = UpstreamState::new(&upstream, 0);
        let busy: Vec<Selection> = (0..3).map(|_| choose(&mut state, &[]).unwrap()).collect();
        upstream.nodes.publish(Arc::new(set(&[1, 1])));
        state.refresh(&upstream, 0);
        let chosen: Vec<usize> = (0..3).map(|_| choose(&mut state, &[]).unwrap().index).collect();
        assert_eq!(
            chosen,
            [1, 1, 1],
            "the node with three requests under way gets no fourth before its neighbour has as many"
        );
        // Attempts that began under the old set end under the new one.
        busy.into_iter().for_each(|selected| state.finished(selected, 1, 0, false));
        assert_eq!(choose(&mut state, &[]).unwrap().index, 0);
    }

    #[test]
    fn tried_endpoint_is_known_in_every_node_set() {
        let upstream = upstream(&round_robin::KIND, &[1, 1]);
        let mut state = UpstreamState::new(&upstream, 0);
        let mut nodes = set(&[1, 1]);
        nodes.nodes.remove(0);
        upstream.nodes.publish(Arc::new(nodes));
        state.refresh(&upstream, 0);
        assert_eq!(choose(&mut state, &[0]).map(|selected| selected.endpoint_id), Some(1));
        assert!(choose(&mut state, &[1]).is_none());
    }

    #[test]
    fn unusable_node_is_left_out_until_it_is_usable() {
        let upstream = upstream(&round_robin::KIND, &[1, 1]);
        let mut state = UpstreamState::new(&upstream, 0);
        let node = upstream.nodes.load().nodes[0].state.clone();
        let mut chosen = || {
            state.refresh(&upstream, 0);
            (0..4).map(|_| choose(&mut state, &[]).unwrap().index).collect::<Vec<_>>()
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
        while let Some(selected) = choose(&mut state, &tried) {
            tried.push(selected.endpoint_id);
        }
        assert_eq!(tried, [1, 2, 0]);
    }
}

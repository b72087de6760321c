//! The state of a worker's upstreams between requests: what was measured at their nodes, and the groups from
//! which they are chosen. Kept by slot, rebuilt when the node set changes, separate from the configuration.

use std::rc::Rc;
use std::sync::Arc;

use net::env;
use net::nodes::{NodeSet, ResolvedNode};
use smallvec::SmallVec;
use stdx::published::{Published, Reader};

use super::Upstream;
use super::availability::Availability;
use super::balance::Uses;
use super::loads::Loads;
use super::protection::admission::NodeAdmission;
use super::select::Policies;
use super::select::plan::SelectionRequest;
use super::select::plans::{Basis, Plans};
use super::select::sticky::NodeTags;
use super::select::subset::SubsetScope;
use super::wanted::WantedNode;
use exchange::observe::node_loads::{Measured, NODES_MAX, NodesCell};
use exchange::overload::limiter::Limiter;

/// Full nodes that a choice passes over by the balancing method; then any node with a place is taken, so that
/// a set of many full nodes does not make a choice expensive.
const FULL_NODES_MAX: usize = 16;

/// A selected node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SelectedNode {
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
    /// The policies that the groups were made for: they may change without the nodes.
    policies: Arc<Policies>,
    loads: Loads,
    plans: Plans,
    availability: Availability,
    /// The measurements that the balancing method uses.
    uses: Uses,
    /// The tags of the nodes, only for an upstream with stickiness.
    tags: Option<Box<NodeTags>>,
    /// The concurrency limiter, made with the first request if requests are limited by latency.
    limiter: Option<Rc<Limiter>>,
}

impl UpstreamState {
    /// For `upstream`, in the worker with number `stagger`.
    pub(crate) fn new(upstream: &Upstream, stagger: usize, now_ms: u64) -> UpstreamState {
        let nodes = Reader::new(upstream.nodes.clone());
        let mut state = UpstreamState {
            source: upstream.nodes.clone(),
            policies: upstream.policies.clone(),
            loads: Loads::new(nodes.get().nodes.len()),
            plans: Plans::default(),
            availability: Availability::default(),
            uses: upstream.balancer.uses,
            tags: None,
            limiter: None,
            nodes,
        };
        state.rebuild(upstream, stagger, now_ms, &[]);
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

    /// Whether no node has the metadata values that the request wants, and there is no fallback.
    pub(crate) fn has_no_subset(&self, upstream: &Upstream, subset: u64) -> bool {
        self.plans.scope(upstream, subset).is_none()
    }

    /// The selected node; none if it is gone.
    pub(crate) fn node_of(&self, selected: SelectedNode) -> Option<&ResolvedNode> {
        let nodes = &self.nodes.get().nodes;
        if selected.generation == self.nodes.generation() {
            return nodes.get(selected.index);
        }
        nodes.iter().find(|node| node.endpoint.id == selected.endpoint_id)
    }

    /// The current nodes; the groups are rebuilt when the set, the state of a node or a policy has changed.
    #[inline]
    pub(crate) fn refresh(&mut self, upstream: &Upstream, stagger: usize, now_ms: u64) -> &NodeSet {
        if let Some(old) = self.nodes.refresh() {
            let (loads, indices) = self.loads.carried_over(&old, self.nodes.get());
            self.loads = loads;
            self.rebuild(upstream, stagger, now_ms, &indices);
        } else if self.availability.is_stale(self.nodes.get(), now_ms)
            || !Arc::ptr_eq(&self.policies, &upstream.policies)
        {
            self.rebuild(upstream, stagger, now_ms, &[]);
        }
        self.nodes.get()
    }

    /// Makes the groups for the current nodes; `indices` are the earlier ones of the nodes, empty if they are
    /// the same.
    #[cold]
    fn rebuild(&mut self, upstream: &Upstream, stagger: usize, now_ms: u64, indices: &[Option<u32>]) {
        let set: &NodeSet = self.nodes.get();
        let policies = &upstream.policies;
        self.availability = Availability::of(set, policies, now_ms, wall_ms(&upstream.policies));
        self.policies = upstream.policies.clone();
        let basis = Basis { upstream, set, loads: &self.loads, availability: &self.availability, stagger };
        self.plans.rebuild(&basis, indices);
        policies.note_panic(&upstream.identity, self.plans.is_in_panic(SubsetScope::Whole));
        self.tags = policies.sticky.as_ref().map(|sticky| Box::new(NodeTags::of(sticky, set)));
    }

    /// The nodes as of the last refresh.
    pub(crate) fn nodes(&self) -> &NodeSet {
        self.nodes.get()
    }

    /// Whether `selected` was chosen among the current nodes.
    pub(crate) fn is_current(&self, selected: SelectedNode) -> bool {
        selected.generation == self.nodes.generation()
    }

    /// Selects a node with an endpoint that was not tried, and counts the attempt.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        upstream: &Upstream,
        stagger: usize,
        request: SelectionRequest<'_>,
    ) -> Option<SelectedNode> {
        let index = self.pick(upstream, stagger, request)?;
        Some(self.take(index))
    }

    /// As [`UpstreamState::choose`], of a node at which `admission` gets a place.
    pub(crate) fn choose_admitted(
        &mut self,
        upstream: &Upstream,
        stagger: usize,
        request: SelectionRequest<'_>,
        admission: &NodeAdmission<'_>,
    ) -> Option<SelectedNode> {
        let mut tried: SmallVec<[u64; 8]> = SmallVec::from_slice(request.tried);
        for _ in 0..FULL_NODES_MAX {
            let index = self.pick(upstream, stagger, SelectionRequest { tried: &tried, ..request })?;
            let node = &self.nodes.get().nodes[index];
            if admission.admits(node) {
                return Some(self.take(index));
            }
            tried.push(node.endpoint.id);
        }
        let index = self.spare(upstream, &request, &tried, admission)?;
        Some(self.take(index))
    }

    /// Any node of the highest priority at which `admission` gets a place, for a choice that found only full
    /// ones so far.
    #[cold]
    fn spare(
        &self,
        upstream: &Upstream,
        request: &SelectionRequest<'_>,
        tried: &[u64],
        admission: &NodeAdmission<'_>,
    ) -> Option<usize> {
        let scope = self.plans.scope(upstream, request.subset)?;
        let nodes = &self.nodes.get().nodes;
        let is_candidate = |index: &usize| {
            nodes[*index].weight > 0
                && (self.availability.is_usable(*index) || self.plans.is_in_panic(scope))
                && self.plans.is_in(scope, *index)
                && !admission.bars(&nodes[*index])
                && !tried.contains(&nodes[*index].endpoint.id)
        };
        let best = (0..nodes.len()).filter(is_candidate).max_by_key(|index| nodes[*index].priority)?;
        admission.admits(&nodes[best]).then_some(best)
    }

    /// The index of the node for a request.
    #[inline]
    fn pick(&mut self, upstream: &Upstream, stagger: usize, request: SelectionRequest<'_>) -> Option<usize> {
        let set: &NodeSet = self.nodes.get();
        let scope = self.plans.scope(upstream, request.subset);
        let (loads, availability) = (&self.loads, &self.availability);
        let basis = Basis { upstream, set, loads, availability, stagger };
        if let Some(scope) = scope {
            self.plans.prepare(&basis, scope);
        }
        if let Some(tag) = request.sticky
            && let Some(node) = self.node_of_session(tag.get(), scope, request.subset, request.tried)
        {
            return Some(node);
        }
        self.plans.choose(&basis, scope?, request)
    }

    /// Counts an attempt at the node that was picked.
    #[inline]
    fn take(&mut self, index: usize) -> SelectedNode {
        let endpoint_id = self.nodes.get().nodes[index].endpoint.id;
        self.begin(index);
        SelectedNode { index, generation: self.nodes.generation(), endpoint_id }
    }

    /// The node of a session, if it may be selected. Its weight does not count, so that a node with weight 0
    /// keeps its sessions while it is drained, also as the last of its subset.
    fn node_of_session(
        &self,
        tag: u64,
        scope: Option<SubsetScope>,
        subset: u64,
        tried: &[u64],
    ) -> Option<usize> {
        let node = self.tags.as_ref()?.node(tag)?;
        let is_in =
            scope.is_some_and(|scope| self.plans.is_in(scope, node)) || self.plans.is_named(subset, node);
        let is_in_panic = || self.plans.is_in_panic(scope.unwrap_or(SubsetScope::Whole));
        let is_usable = self.availability.is_usable(node) || is_in_panic();
        let is_tried = tried.contains(&self.nodes.get().nodes[node].endpoint.id);
        (is_in && is_usable && !is_tried).then_some(node)
    }

    /// Whether the node of the session may still be selected, so that only a limit of the moment kept a
    /// request of it away.
    pub(crate) fn keeps_session(&self, upstream: &Upstream, wanted: &WantedNode, tried: &[u64]) -> bool {
        let scope = self.plans.scope(upstream, wanted.subset);
        wanted
            .sticky
            .is_some_and(|tag| self.node_of_session(tag.get(), scope, wanted.subset, tried).is_some())
    }

    /// The tag of the selected node, for an upstream with stickiness; none if the node is gone.
    pub(crate) fn tag_of(&self, selected: SelectedNode) -> Option<u64> {
        let index = self.index_of(selected)?;
        self.tags.as_ref()?.tag(index)
    }

    /// Counts another attempt at `selected`.
    pub(crate) fn started(&mut self, selected: SelectedNode) {
        if let Some(index) = self.index_of(selected) {
            self.begin(index);
        }
    }

    #[inline]
    fn begin(&mut self, index: usize) {
        let active = self.loads.started(index);
        if self.uses == Uses::LoadChanges {
            self.plans.load_changed(index, active);
        }
    }

    /// Records that the attempt at `selected` has ended.
    #[inline]
    pub(crate) fn finished(
        &mut self,
        selected: SelectedNode,
        latency_us: u64,
        now_ms: u64,
        has_failed: bool,
    ) {
        if let Some(index) = self.released(selected)
            && matches!(self.uses, Uses::Latencies)
        {
            self.loads.measured(index, latency_us, now_ms, has_failed);
        }
    }

    /// Records that the attempt at `selected` has ended without reaching the node, which measures nothing;
    /// returns the node's index, if it is not gone.
    #[inline]
    pub(crate) fn released(&mut self, selected: SelectedNode) -> Option<usize> {
        let index = self.index_of(selected)?;
        let active = self.loads.finished(index);
        if let Uses::LoadChanges = self.uses {
            self.plans.load_changed(index, active);
        }
        Some(index)
    }

    /// Appends the measurements at the nodes of the upstream that is `only` meant, up to [`NODES_MAX`].
    pub(crate) fn report(&self, only: Option<&NodesCell>, measured: &mut Vec<Measured>) {
        if only.is_some_and(|only| !Arc::ptr_eq(only, &self.source)) {
            return;
        }
        let capacity = NODES_MAX - measured.len();
        measured.extend(self.nodes.get().nodes.iter().enumerate().take(capacity).map(|(index, node)| {
            Measured {
                cell: self.source.clone(),
                endpoint_id: node.endpoint.id,
                in_flight: self.loads.active(index),
                latency_us: self.loads.average_us(index),
            }
        }));
    }

    /// Attempts in flight.
    #[cfg(feature = "simulation")]
    pub(crate) fn under_way(&self) -> usize {
        self.loads.active_total()
    }

    /// The present index of the selected node; `None` if it is gone.
    #[inline]
    fn index_of(&self, selected: SelectedNode) -> Option<usize> {
        if selected.generation == self.nodes.generation() {
            return Some(selected.index);
        }
        self.nodes.get().nodes.iter().position(|node| node.endpoint.id == selected.endpoint_id)
    }
}

/// Milliseconds since 1970, if a policy uses them.
fn wall_ms(policies: &Policies) -> u64 {
    policies.slow_start.map_or(0, |_| env::wall_clock().as_millis() as u64)
}

#[cfg(test)]
mod tests;

//! The upstreams of one worker: selects an endpoint, checks streams out and in, records attempts. State is
//! kept by slot and by identity, so that a change of another object does not affect it.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::connector::UpstreamConnector;
use super::opening::{WantedConnection, WantedStream};
#[cfg(any(test, feature = "simulation"))]
use super::pool::Pools;
use super::protection::admission::NodeAdmission;
use super::protection::hold::NodeHold;
use super::protection::result::AttemptResult;
use super::protection::{Protection, ejection};
use super::select::plan::SelectionRequest;
use super::server_name;
use super::state::{SelectedNode, UpstreamState};
use super::stream::PooledStream;
use super::wanted::WantedNode;
use super::{PassHost, Upstream};
use crate::evict::Evictor;
use exchange::exchange::Attempt;
use exchange::failure::{Blame, Cause, ExchangeFailure};
use exchange::observe::node_loads::{Measured, NodesCell};
use exchange::observe::upstream_tls::UpstreamTlsCounts;
use exchange::overload::Priority;
use exchange::overload::limiter::Permit;
use exchange::{Exchange, WorkerLocal};
use net::endpoint::Endpoint;
use net::env;

/// The state of each upstream in use, by slot.
#[derive(Default)]
struct UpstreamStates {
    slots: Vec<Option<Box<UpstreamState>>>,
}

impl UpstreamStates {
    #[inline]
    fn of(&mut self, upstream: &Upstream, local: &WorkerLocal) -> &mut UpstreamState {
        let slot = upstream.slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        let state = &mut self.slots[slot];
        if !state.as_ref().is_some_and(|state| state.fits(upstream)) {
            *state = Some(Box::new(UpstreamState::new(upstream, local.index, local.now_ms())));
        }
        state.as_mut().expect("made above if it was missing")
    }
}

/// The upstreams of one worker.
pub(crate) struct Upstreams {
    local: Rc<WorkerLocal>,
    states: RefCell<UpstreamStates>,
    connector: Rc<UpstreamConnector>,
}

impl Upstreams {
    pub(crate) fn new(
        local: Rc<WorkerLocal>,
        evictor: Rc<Evictor>,
        handshakes: Arc<UpstreamTlsCounts>,
    ) -> Upstreams {
        let connector = UpstreamConnector::new(local.clone(), evictor, handshakes);
        Upstreams { local, states: RefCell::default(), connector }
    }

    /// Selects an endpoint that is not among `tried`, by what the request wants.
    #[inline]
    pub(crate) fn select(
        &self,
        upstream: &Upstream,
        wanted: &WantedNode,
        tried: &[u64],
    ) -> Result<SelectedNode, ExchangeFailure> {
        let mut states = self.states.borrow_mut();
        let state = states.of(upstream, &self.local);
        let (random, now_ms) = (env::random_u64(), self.local.now_ms());
        state.refresh(upstream, self.local.index, now_ms);
        let WantedNode { key_hash, subset, sticky } = *wanted;
        let failed = tried.last().copied();
        let request = SelectionRequest { key_hash, random, now_ms, tried, failed, subset, sticky };
        state.choose(upstream, self.local.index, request).ok_or_else(|| {
            let note = match (&state.nodes().note, &upstream.policies.subsets) {
                (Some(note), _) => note.clone(),
                (None, Some(subsets)) if state.has_no_subset(upstream, subset) => subsets.none(),
                _ => "no node may be used".to_owned(),
            };
            ExchangeFailure::new(Cause::NoNode, note)
        })
    }

    /// As [`Upstreams::select`], of a node at which `admission` gets a place.
    pub(crate) fn select_admitted(
        &self,
        upstream: &Upstream,
        protection: &Protection,
        wanted: &WantedNode,
        tried: &[u64],
        admission: &NodeAdmission<'_>,
    ) -> Option<SelectedNode> {
        let (random, now_ms) = (env::random_u64(), self.local.now_ms());
        let mut states = self.states.borrow_mut();
        let state = states.of(upstream, &self.local);
        let nodes = state.refresh(upstream, self.local.index, now_ms);
        ejection::begin_probes(protection, &upstream.nodes, nodes, now_ms);
        state.refresh(upstream, self.local.index, now_ms);
        let WantedNode { key_hash, subset, sticky } = *wanted;
        let failed = tried.last().copied();
        let request = SelectionRequest { key_hash, random, now_ms, tried, failed, subset, sticky };
        state.choose_admitted(upstream, self.local.index, request, admission)
    }

    /// A search for a place at a node.
    pub(crate) fn admission<'a>(
        &'a self,
        protection: &'a Arc<Protection>,
        ignores_circuits: bool,
    ) -> NodeAdmission<'a> {
        NodeAdmission::new(protection, &self.connector, self.local.now_ms(), ignores_circuits)
    }

    /// One more place at the node that was chosen, if the upstream is protected.
    pub(crate) fn hold_again(&self, upstream: &Upstream, selected: SelectedNode) -> Option<NodeHold> {
        let protection = upstream.protection.as_ref()?;
        let mut states = self.states.borrow_mut();
        let nodes = &states.of(upstream, &self.local).nodes().nodes;
        Some(NodeHold::again(nodes.get(selected.index)?.state.clone(), protection.clone()))
    }

    /// Counts the result of an attempt for the protection of the upstream.
    pub(crate) fn note_result(&self, upstream: &Upstream, hold: &mut NodeHold, result: &AttemptResult) {
        hold.note(upstream, result, self.local.now_ms());
    }

    /// The tag of the selected node for the session's cookie; none without stickiness, or if the node is
    /// gone.
    pub(crate) fn tag_of(&self, upstream: &Upstream, selected: SelectedNode) -> Option<u64> {
        self.states.borrow_mut().of(upstream, &self.local).tag_of(selected)
    }

    /// As [`UpstreamState::keeps_session`].
    pub(crate) fn keeps_session(&self, upstream: &Upstream, wanted: &WantedNode, tried: &[u64]) -> bool {
        self.states.borrow_mut().of(upstream, &self.local).keeps_session(upstream, wanted, tried)
    }

    /// Admits a request to the upstream, if its concurrency limit allows one more.
    pub(crate) fn admit(&self, upstream: &Upstream, priority: Priority) -> Option<Permit> {
        let now_us = self.local.recent_ns() / 1_000;
        let mut states = self.states.borrow_mut();
        states.of(upstream, &self.local).limiter(now_us).admit(now_us, priority)
    }

    /// Records that another attempt at the same endpoint begins.
    pub(crate) fn started_again(&self, upstream: &Upstream, selected: SelectedNode) {
        self.states.borrow_mut().of(upstream, &self.local).started(selected);
    }

    /// Records the result of the attempt at `selected`: its status or cause of failure, and its times.
    #[inline]
    pub(crate) fn record(&self, upstream: &Upstream, selected: SelectedNode, attempt: &Attempt) {
        let latency_us = if attempt.head_us > 0 { attempt.head_us } else { attempt.total_us };
        // A client that went away says nothing about the endpoint.
        let failed = attempt.failed.is_some_and(|cause| cause.blame() == Blame::Upstream);
        if attempt.failed == Some(Cause::NodeConnections) {
            self.released(upstream, selected);
            return;
        }
        self.finished(upstream, selected, latency_us, failed);
        if let Some(health) = &upstream.health
            && health.observes_attempts()
            && let Some(node) = self.states.borrow_mut().of(upstream, &self.local).node_of(selected)
        {
            health.note_attempt(node, attempt);
        }
    }

    /// Records that the attempt at `selected` has ended without a result.
    pub(crate) fn abandoned(&self, upstream: &Upstream, selected: SelectedNode, latency_us: u64) {
        self.finished(upstream, selected, latency_us, false);
    }

    /// Records that no attempt at `selected` has reached the node.
    #[cold]
    pub(crate) fn released(&self, upstream: &Upstream, selected: SelectedNode) {
        self.states.borrow_mut().of(upstream, &self.local).released(selected);
    }

    #[inline]
    fn finished(&self, upstream: &Upstream, selected: SelectedNode, latency_us: u64, failed: bool) {
        let now_ms = self.local.now_ms();
        let mut states = self.states.borrow_mut();
        states.of(upstream, &self.local).finished(selected, latency_us, now_ms, failed);
    }

    /// The number of nodes that the upstream has now.
    pub(crate) fn node_count(&self, upstream: &Upstream) -> usize {
        self.states.borrow_mut().of(upstream, &self.local).nodes().nodes.len()
    }

    /// Whether `selected` still identifies the node that was chosen.
    pub(crate) fn is_current(&self, upstream: &Upstream, selected: SelectedNode) -> bool {
        self.states.borrow_mut().of(upstream, &self.local).is_current(selected)
    }

    /// A stream to the node just chosen, or where to open one; and the node's name, where it is passed on. An
    /// attempt that `is_repeated` gets a stream on another connection than those that failed.
    #[inline]
    pub(crate) fn checkout(
        &self,
        exchange: &Exchange,
        upstream: &Upstream,
        selected: SelectedNode,
        is_repeated: bool,
    ) -> CheckedOutNode {
        let mut states = self.states.borrow_mut();
        let node = &states.of(upstream, &self.local).nodes().nodes[selected.index];
        let host = (upstream.pass_host == PassHost::Node).then(|| node.host.clone());
        let endpoint = &node.endpoint;
        let server_name =
            endpoint.tls.as_ref().map(|_| server_name::attempt_server_name(exchange, upstream, &node.host));
        let is_upgrade = exchange.decision.is_upgrade;
        let server_name = server_name.as_deref();
        let needs_http2 = upstream.needs_http2;
        let queue = upstream.protection.as_deref().and_then(Protection::queue_for_connections);
        let wanted = WantedStream {
            endpoint,
            server_name,
            is_upgrade,
            needs_http2,
            is_repeated,
            has_waited: false,
            queue,
        };
        let checkout = match self.connector.lend(wanted) {
            Some(stream) => Checkout::Stream(stream),
            None => Checkout::None(wanted.into()),
        };
        CheckedOutNode { address: endpoint.address, endpoint_id: endpoint.id, host, checkout }
    }

    /// The endpoint and the name of the node just chosen.
    pub(super) fn node_for_session(
        &self,
        upstream: &Upstream,
        selected: SelectedNode,
    ) -> Option<(Arc<Endpoint>, Arc<str>)> {
        let mut states = self.states.borrow_mut();
        let node = states.of(upstream, &self.local).node_of(selected)?;
        Some((node.endpoint.clone(), node.host.clone()))
    }

    pub(super) fn connector(&self) -> &Rc<UpstreamConnector> {
        &self.connector
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.local.now_ms()
    }

    /// The measurements at the nodes of the upstream that is `only` meant, or of all, for a report.
    #[cold]
    pub(crate) fn report(&self, only: Option<&NodesCell>) -> Vec<Measured> {
        let mut measured = Vec::new();
        let states = self.states.borrow();
        states.slots.iter().flatten().for_each(|state| state.report(only, &mut measured));
        measured
    }

    /// Attempts in flight at all upstreams, if their methods count them.
    #[cfg(feature = "simulation")]
    pub(crate) fn attempts_in_flight(&self) -> usize {
        self.states.borrow().slots.iter().flatten().map(|state| state.under_way()).sum()
    }

    /// Opens a connection for the attempt, or waits for one; see [`UpstreamConnector::connect`].
    ///
    /// # Errors
    /// Those of [`UpstreamConnector::connect`].
    pub(crate) async fn connect(
        &self,
        opening: WantedConnection,
        timeout_ms: u64,
        in_handshake: &Cell<bool>,
    ) -> Result<PooledStream, ExchangeFailure> {
        self.connector.connect(opening, timeout_ms, in_handshake).await
    }

    /// Checks a stream in; its connection is kept for the next request if this exchange was `complete`.
    #[inline]
    pub(crate) fn checkin(&self, stream: PooledStream, complete: bool) {
        match stream {
            PooledStream::Http1(stream) => {
                let (connection, bytes) = stream.into_inner().end(complete);
                self.local.give_bytes(bytes);
                if let Some(connection) = connection {
                    self.connector.give(connection);
                }
            }
            // Dropping it ends the stream; the connection stays where it is.
            PooledStream::Http2(stream) => drop(stream),
            // Dropping it ends the stream; the script keeps the connection.
            #[cfg(test)]
            PooledStream::Scripted(_) => {}
        }
    }

    /// Closes connections because a system call found no descriptor, and waits until they have ended. False
    /// if there was nothing to close.
    #[cold]
    pub(crate) async fn free_descriptors(&self) -> bool {
        self.connector.free_descriptors().await
    }

    /// Closes connections that have been idle for too long, and returns how many idle ones are left.
    pub(crate) fn sweep(&self, now_ms: u64) -> usize {
        self.connector.sweep(now_ms)
    }

    /// Closes every idle connection.
    pub(crate) fn close_idle(&self) {
        self.connector.close_idle();
    }

    /// Closes every idle connection, and later ones when they are checked in.
    pub(crate) fn drain(&self) {
        self.connector.drain();
    }

    /// The pools, for tests that put streams into them or count them.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn pools(&self) -> &RefCell<Pools> {
        &self.connector.pools
    }
}

/// The selected node, as far as an attempt needs it.
pub(crate) struct CheckedOutNode {
    pub(crate) address: SocketAddr,
    pub(crate) endpoint_id: u64,
    /// The node's name, if the endpoint receives it as Host.
    pub(crate) host: Option<Arc<str>>,
    pub(crate) checkout: Checkout,
}

/// The result of a checkout for a selected endpoint.
pub(crate) enum Checkout {
    /// A stream that is ready for a request.
    Stream(PooledStream),
    /// Nothing; a connection has to be opened.
    None(WantedConnection),
}

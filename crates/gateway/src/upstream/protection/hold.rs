//! Places that a request holds: at a node for an attempt, and at an upstream for the exchange. Each is given
//! back when it is dropped, whatever ends the request, and a waiting request is woken then.

use std::sync::Arc;

use net::node_state::NodeState;

use super::result::AttemptResult;
use super::{NodeGuard, Protection, ejection};
use crate::upstream::Upstream;
use exchange::overload::circuit::{Admission, CircuitEvidence, CircuitProbe};

/// A place at a node.
pub(crate) struct NodeHold {
    state: Arc<NodeState>,
    protection: Arc<Protection>,
    /// Few requests are probes, and every request keeps the space for a hold.
    probes: Option<Box<Probes>>,
}

#[derive(Default)]
struct Probes {
    /// The request is a probe of the node.
    node: Option<CircuitProbe>,
    /// The request is a probe of the upstream.
    breaker: Option<CircuitProbe>,
}

impl NodeHold {
    pub(super) fn new(state: Arc<NodeState>, protection: Arc<Protection>) -> NodeHold {
        NodeHold { state, protection, probes: None }
    }

    /// The request is a probe of the node.
    pub(super) fn set_probe(&mut self, probe: CircuitProbe) {
        self.probes.get_or_insert_default().node = Some(probe);
    }

    fn take_probes(&mut self) -> (Option<CircuitProbe>, Option<CircuitProbe>) {
        self.probes.take().map_or((None, None), |probes| (probes.node, probes.breaker))
    }

    /// One more place at the node of an attempt that is repeated there; its limit does not count, because the
    /// attempt before has just given its place back.
    pub(crate) fn again(state: Arc<NodeState>, protection: Arc<Protection>) -> NodeHold {
        NodeGuard::of(&state).requests.enter();
        NodeHold::new(state, protection)
    }

    /// Asks the circuit breaker; false if it refuses.
    pub(crate) fn pass_breaker(&mut self, now_ms: u64) -> bool {
        let Some(breaker) = &self.protection.breaker else { return true };
        match self.protection.shared.breaker.admit(&breaker.circuit, now_ms) {
            Admission::Closed => true,
            Admission::Probe(probe) => {
                self.probes.get_or_insert_default().breaker = Some(probe);
                true
            }
            Admission::Refused => false,
        }
    }

    /// Whether the request is a probe of the node or of the upstream.
    pub(crate) fn is_probe(&self) -> bool {
        self.probes.is_some()
    }

    /// Counts the result of the attempt; the place is held on.
    pub(crate) fn note(&mut self, upstream: &Upstream, result: &AttemptResult, now_ms: u64) {
        let (node_probe, breaker_probe) = self.take_probes();
        if let Some(breaker) = &self.protection.breaker {
            let verdict = result.verdict(&breaker.failures);
            ejection::note_breaker(&self.protection, breaker, now_ms, verdict, breaker_probe);
        }
        if let Some(rules) = &self.protection.ejection {
            let verdict = result.verdict(&rules.failures);
            let nodes =
                ejection::EjectionNodes { protection: &self.protection, rules, cell: &upstream.nodes };
            let latency_us = result.measured_us(verdict);
            nodes.note(&self.state, now_ms, verdict, latency_us, node_probe);
        }
    }
}

impl Drop for NodeHold {
    fn drop(&mut self) {
        // A probe without a result is given out again; it was taken if there was one.
        let (node_probe, breaker_probe) = self.take_probes();
        let guard = NodeGuard::of(&self.state);
        if let (Some(probe), Some(rules)) = (node_probe, &self.protection.ejection) {
            guard.circuit.note(&rules.circuit, 1, CircuitEvidence::Unknown, Some(probe));
        }
        if let (Some(probe), Some(breaker)) = (breaker_probe, &self.protection.breaker) {
            self.protection.shared.breaker.note(&breaker.circuit, 1, CircuitEvidence::Unknown, Some(probe));
        }
        guard.requests.leave();
        self.protection.shared.queue.wake_first();
    }
}

/// A place among the requests in flight of an upstream.
pub(crate) struct UpstreamPlace {
    protection: Arc<Protection>,
    wakes: bool,
}

impl UpstreamPlace {
    /// Takes a place, if there is one.
    pub(crate) fn new(protection: &Arc<Protection>) -> Option<UpstreamPlace> {
        let is_admitted = protection.shared.requests.try_enter(protection.max_requests);
        is_admitted.then(|| UpstreamPlace { protection: protection.clone(), wakes: true })
    }

    /// Whether it is a place of this upstream, whatever its form.
    pub(crate) fn is_of(&self, protection: &Protection) -> bool {
        Arc::ptr_eq(&self.protection.shared, &protection.shared)
    }

    /// Gives the place back for the first request of the queue, which is the caller: woken by itself, it
    /// would never stop.
    pub(crate) fn give_back_as_first(mut self) {
        self.wakes = false;
    }
}

impl Drop for UpstreamPlace {
    fn drop(&mut self) {
        self.protection.shared.requests.leave();
        if self.wakes {
            self.protection.shared.queue.wake_first();
        }
    }
}

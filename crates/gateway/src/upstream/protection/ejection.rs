//! Transitions: a node is ejected, gets probes, returns; the circuit breaker opens and closes. Each writes a
//! line of the log. Only results that are failures, and probes, come here; all of it is cold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use net::env;
use net::node_state::{NodeState, Transition, Unusable};
use net::nodes::{NodeSet, ResolvedNode};
use stdx::published::Published;

use super::{Breaker, Ejection, LatencyRule, NodeGuard, Protection, SharedProtection};
use exchange::overload::circuit::{
    CircuitEvent, CircuitEvidence, CircuitOpenReason, CircuitPhase, CircuitProbe,
};
use exchange::overload::{outliers, window};

/// Ejected nodes are looked at again after this time at the latest, so that a node that left the set and came
/// back is found.
const LOOK_MAX_MS: u64 = 1_000;
/// Latencies are compared at most so often, however short the window is.
const COMPARISON_MIN_MS: u64 = 100;

/// An ejection that was prevented is not tried again for so long, because it takes a lock and reads every
/// node.
const PREVENTED_MS: u64 = 100;

/// The nodes of an upstream, for a decision about one of them.
pub(super) struct EjectionNodes<'p> {
    pub(super) protection: &'p Protection,
    pub(super) rules: &'p Ejection,
    pub(super) cell: &'p Published<NodeSet>,
}

impl EjectionNodes<'_> {
    /// Counts the result of an attempt at the node with this state; `latency_us` if it tells how fast the
    /// node is.
    #[inline]
    pub(super) fn note(
        &self,
        state: &Arc<NodeState>,
        now_ms: u64,
        verdict: CircuitEvidence,
        latency_us: Option<u64>,
        probe: Option<CircuitProbe>,
    ) {
        let guard = NodeGuard::of(state);
        if let Some(latency) = &self.rules.latency
            && let Some(latency_us) = latency_us
        {
            guard.latency.record(now_ms, latency.window_ms, verdict == CircuitEvidence::Failure, latency_us);
            let interval_ms = (latency.window_ms / window::SLICES).max(COMPARISON_MIN_MS);
            if is_turn(&self.protection.shared.next_comparison_ms, now_ms, interval_ms) {
                self.compare(latency, now_ms);
            }
        }
        match guard.circuit.note(&self.rules.circuit, now_ms, verdict, probe) {
            None => {}
            // Each failure of a node that must not be ejected asks for it.
            Some(CircuitEvent::MayOpen(reason))
                if reason != CircuitOpenReason::ProbeFailed
                    && now_ms < guard.next_ejection_ms.load(Ordering::Relaxed) => {}
            Some(CircuitEvent::MayOpen(reason)) => self.eject(&self.cell.load(), state, reason, now_ms),
            Some(CircuitEvent::Closed) => {
                guard.latency.clear();
                readmit(state, "its probes succeeded");
                self.tell(&self.cell.load(), state, "node returns after its ejection");
            }
        }
    }

    /// Ejects the nodes that are far slower than the others.
    #[cold]
    fn compare(&self, rule: &LatencyRule, now_ms: u64) {
        let set = self.cell.load();
        let latency_us = |node: &ResolvedNode| {
            let totals = NodeGuard::of(&node.state).latency.totals(now_ms, rule.window_ms);
            totals.mean_us().filter(|_| totals.requests >= rule.min_requests)
        };
        let latencies_us: Vec<Option<u64>> = set.nodes.iter().map(latency_us).collect();
        for index in outliers::slow(&latencies_us, rule.factor) {
            let reason = CircuitOpenReason::Latency(latencies_us[index].unwrap_or_default() / 1_000);
            self.eject(&set, &set.nodes[index].state, reason, now_ms);
        }
    }

    #[cold]
    fn eject(&self, set: &NodeSet, state: &Arc<NodeState>, reason: CircuitOpenReason, now_ms: u64) {
        let shared = &self.protection.shared;
        let ejects = shared.ejects.lock();
        if !*ejects {
            return;
        }
        let others = || set.nodes.iter().filter(|node| node.weight > 0 && !Arc::ptr_eq(&node.state, state));
        let ejected = others().filter(|node| !NodeGuard::of(&node.state).circuit.is_closed()).count();
        let may_eject = outliers::ejectable(others().count() + 1, self.rules.max_ejected_percent);
        let is_last = !others().any(|node| node.state.is_usable());
        // After a failed probe the node is one of the ejected already.
        if reason != CircuitOpenReason::ProbeFailed && (ejected >= may_eject || is_last) {
            shared.counts.ejections_prevented.fetch_add(1, Ordering::Relaxed);
            NodeGuard::of(state).next_ejection_ms.store(now_ms + PREVENTED_MS, Ordering::Relaxed);
            return;
        }
        let circuit = &NodeGuard::of(state).circuit;
        let Some(opening) = circuit.open(&self.rules.circuit, now_ms, env::random_u64(), reason) else {
            return;
        };
        shared.counts.ejections.fetch_add(1, Ordering::Relaxed);
        shared.next_look_ms.fetch_min(now_ms + opening.for_ms, Ordering::Relaxed);
        state.mark(Unusable::Ejected, true, transition(&reason.to_string()));
        let (node, for_ms, in_a_row) = (name_in(set, state), opening.for_ms, opening.in_a_row);
        let upstream = self.upstream();
        tracing::warn!(%upstream, %node, %reason, for_ms, in_a_row, "node ejected");
    }

    fn upstream(&self) -> &str {
        self.protection.identity.trim_start_matches('/')
    }

    fn tell(&self, set: &NodeSet, state: &Arc<NodeState>, what: &str) {
        let (upstream, node) = (self.upstream(), name_in(set, state));
        tracing::info!(%upstream, %node, "{what}");
    }
}

/// Lets probes through to nodes of `set` after their ejection time. Cheap until a time may be over.
#[inline]
pub(crate) fn begin_probes(protection: &Protection, cell: &Published<NodeSet>, set: &NodeSet, now_ms: u64) {
    if let Some(rules) = &protection.ejection
        && is_turn(&protection.shared.next_look_ms, now_ms, LOOK_MAX_MS)
    {
        look(&EjectionNodes { protection, rules, cell }, set, now_ms);
    }
}

#[cold]
fn look(nodes: &EjectionNodes<'_>, set: &NodeSet, now_ms: u64) {
    for node in &set.nodes {
        let circuit = &NodeGuard::of(&node.state).circuit;
        if circuit.is_due(now_ms) && circuit.begin_half_open(now_ms) {
            readmit(&node.state, "its ejection time is over; probes are sent");
            nodes.tell(set, &node.state, "ejected node gets probes");
        } else if circuit.phase() == CircuitPhase::Open
            && let Some(at_ms) = circuit.next_probe_ms()
        {
            nodes.protection.shared.next_look_ms.fetch_min(at_ms, Ordering::Relaxed);
        }
    }
}

/// Counts the result of an attempt at the circuit breaker.
#[inline]
pub(super) fn note_breaker(
    protection: &Protection,
    breaker: &Breaker,
    now_ms: u64,
    verdict: CircuitEvidence,
    probe: Option<CircuitProbe>,
) {
    if let Some(event) = protection.shared.breaker.note(&breaker.circuit, now_ms, verdict, probe) {
        change_breaker(protection, breaker, now_ms, event);
    }
}

#[cold]
fn change_breaker(protection: &Protection, breaker: &Breaker, now_ms: u64, event: CircuitEvent) {
    let upstream = protection.identity.trim_start_matches('/');
    let reason = match event {
        CircuitEvent::Closed => {
            tracing::info!(%upstream, "circuit breaker closed after its probes succeeded");
            return;
        }
        CircuitEvent::MayOpen(reason) => reason,
    };
    let circuit = &protection.shared.breaker;
    if let Some(opening) = circuit.open(&breaker.circuit, now_ms, env::random_u64(), reason) {
        let (for_ms, in_a_row) = (opening.for_ms, opening.in_a_row);
        tracing::warn!(%upstream, %reason, for_ms, in_a_row, "circuit breaker opened");
    }
}

/// Takes back the ejections that rules of an earlier form made, where the new form has none, and prevents
/// later ones by requests in flight.
pub(crate) fn forget<'n>(shared: &SharedProtection, nodes: impl Iterator<Item = &'n Arc<NodeState>>) {
    let mut ejects = shared.ejects.lock();
    *ejects = false;
    for state in nodes {
        NodeGuard::of(state).circuit.reset();
        readmit(state, "the upstream ejects no nodes any more");
    }
}

/// Clears the mark of an ejection.
fn readmit(state: &NodeState, cause: &str) {
    state.mark(Unusable::Ejected, false, transition(cause));
}

fn transition(cause: &str) -> Transition {
    Transition { at_ms: env::wall_clock().as_millis() as u64, cause: cause.into() }
}

/// The node's host and address, for the log.
fn name_in(set: &NodeSet, state: &Arc<NodeState>) -> String {
    let node = set.nodes.iter().find(|node| Arc::ptr_eq(&node.state, state));
    node.map_or_else(|| "-".to_owned(), |node| node.endpoint.address.to_string())
}

/// Whether `interval_ms` have passed since the last turn; of several workers one gets the turn.
#[inline]
fn is_turn(next_ms: &AtomicU64, now_ms: u64, interval_ms: u64) -> bool {
    let due_ms = next_ms.load(Ordering::Relaxed);
    now_ms >= due_ms
        && next_ms
            .compare_exchange(due_ms, now_ms + interval_ms, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

#[cfg(test)]
#[path = "ejection/tests.rs"]
mod tests;

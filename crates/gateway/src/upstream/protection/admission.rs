//! Asks for a place at a node during a selection: which nodes have none, and taking one at the node that was
//! chosen.

use std::cell::Cell;
use std::sync::Arc;

use net::node_state::Unusable;
use net::nodes::ResolvedNode;

use super::hold::NodeHold;
use super::{NodeGuard, Protection, UNLIMITED};
use crate::upstream::connector::UpstreamConnector;
use exchange::failure::Cause;
use exchange::overload::circuit::Admission;

/// One request's search for a place.
pub(crate) struct NodeAdmission<'p> {
    protection: &'p Arc<Protection>,
    connector: &'p UpstreamConnector,
    now_ms: u64,
    /// Nodes that wait for the result of a probe are chosen too, because no other is left.
    ignores_circuits: bool,
    /// The limit that a node has reached.
    full: Cell<Option<Cause>>,
    hold: Cell<Option<NodeHold>>,
}

impl<'p> NodeAdmission<'p> {
    pub(crate) fn new(
        protection: &'p Arc<Protection>,
        connector: &'p UpstreamConnector,
        now_ms: u64,
        ignores_circuits: bool,
    ) -> Self {
        NodeAdmission {
            protection,
            connector,
            now_ms,
            ignores_circuits,
            full: Cell::default(),
            hold: Cell::default(),
        }
    }

    /// Whether this node must not be chosen now.
    pub(crate) fn bars(&self, node: &ResolvedNode) -> bool {
        let guard = NodeGuard::of(&node.state);
        if guard.requests.active() >= self.protection.max_requests_per_node {
            self.full.set(Some(Cause::NodeRequests));
            return true;
        }
        if self.protection.limits_connections && !self.connector.has_capacity(&node.endpoint) {
            self.full.set(Some(Cause::NodeConnections));
            return true;
        }
        // A node that is ejected reaches this only if no usable node is left; then it is better than none.
        self.protection.ejection.is_some()
            && !self.ignores_circuits
            && guard.circuit.refuses(self.now_ms)
            && !node.state.is(Unusable::Ejected)
    }

    /// Takes a place at the chosen node, if there is one.
    pub(crate) fn admits(&self, node: &ResolvedNode) -> bool {
        !self.bars(node) && self.enter(node)
    }

    /// Takes a place at the chosen node; false if another worker was faster.
    fn enter(&self, node: &ResolvedNode) -> bool {
        let guard = NodeGuard::of(&node.state);
        if self.protection.max_requests_per_node == UNLIMITED {
            guard.requests.enter();
        } else if !guard.requests.try_enter(self.protection.max_requests_per_node) {
            self.full.set(Some(Cause::NodeRequests));
            return false;
        }
        let rules = self.protection.ejection.as_ref();
        let admission = rules.map(|rules| guard.circuit.admit(&rules.circuit, self.now_ms));
        let mut hold = NodeHold::new(node.state.clone(), self.protection.clone());
        match admission {
            None | Some(Admission::Closed) => {}
            Some(Admission::Probe(probe)) => hold.set_probe(probe),
            Some(Admission::Refused) if self.ignores_circuits || node.state.is(Unusable::Ejected) => {}
            // Dropping the hold gives the place back.
            Some(Admission::Refused) => return false,
        }
        self.hold.set(Some(hold));
        true
    }

    /// The limit that a node has reached, if one has.
    pub(crate) fn full(&self) -> Option<Cause> {
        self.full.get()
    }

    /// The place that was taken.
    pub(crate) fn into_hold(self) -> Option<NodeHold> {
        self.hold.into_inner()
    }
}

//! The protection of a node and of an upstream, for reports.

use model::report::{NodeProtection, UpstreamProtection};
use net::node_state::NodeState;

use super::Upstream;
use super::protection::NodeGuard;
use exchange::overload::circuit::{Circuit, CircuitPhase};

/// That of the node with this state.
pub(crate) fn of_node(state: &NodeState) -> NodeProtection {
    let guard = NodeGuard::of(state);
    NodeProtection {
        circuit: phase(&guard.circuit),
        ejections: guard.circuit.openings(),
        requests: guard.requests.active(),
    }
}

/// That of `upstream`; none if it has no rules.
pub(crate) fn of_upstream(upstream: &Upstream) -> Option<UpstreamProtection> {
    let protection = upstream.protection.as_ref()?;
    let shared = &protection.shared;
    Some(UpstreamProtection {
        breaker: protection.breaker.as_ref().map(|_| phase(&shared.breaker)),
        requests: shared.requests.active(),
        waiting: shared.queue.length(),
    })
}

fn phase(circuit: &Circuit) -> &'static str {
    match circuit.is_closed() {
        true => CircuitPhase::Closed.as_str(),
        false => circuit.phase().as_str(),
    }
}

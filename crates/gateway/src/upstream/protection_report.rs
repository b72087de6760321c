//! The protection of a node and of an upstream, for reports.

use net::node_state::NodeState;

use super::Upstream;
use super::protection::NodeGuard;
use exchange::overload::circuit::{Circuit, Phase};

/// The protection of a node at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProtection {
    /// `closed`: it gets requests; `open`: it is ejected; `half_open`: it gets probes.
    pub phase: &'static str,
    /// How often it has been ejected.
    pub ejections: u64,
    /// Requests in flight at it, over all workers; counted while the upstream has rules.
    pub requests: u32,
}

impl NodeProtection {
    /// That of the node with this state.
    pub fn of(state: &NodeState) -> NodeProtection {
        let guard = NodeGuard::of(state);
        NodeProtection {
            phase: phase(&guard.circuit),
            ejections: guard.circuit.openings(),
            requests: guard.requests.active(),
        }
    }
}

/// The protection of an upstream at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamProtection {
    /// The phase of its circuit breaker, as that of a node; none if it has none.
    pub breaker: Option<&'static str>,
    /// Requests in flight, over all workers.
    pub requests: u32,
    /// Requests that wait for a place.
    pub waiting: u32,
}

impl UpstreamProtection {
    /// That of `upstream`; none if it has no rules.
    pub fn of(upstream: &Upstream) -> Option<UpstreamProtection> {
        let protection = upstream.protection.as_ref()?;
        let shared = &protection.shared;
        Some(UpstreamProtection {
            breaker: protection.breaker.as_ref().map(|_| phase(&shared.breaker)),
            requests: shared.requests.active(),
            waiting: shared.queue.length(),
        })
    }
}

fn phase(circuit: &Circuit) -> &'static str {
    match circuit.is_closed() {
        true => Phase::Closed.as_str(),
        false => circuit.phase().as_str(),
    }
}

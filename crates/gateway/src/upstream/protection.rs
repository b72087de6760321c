//! The protection of an upstream: its compiled rules, and the state of it that all workers share. State is
//! apart from the configuration: that of the upstream passes from one form to the next, that of a node is
//! held by its [`NodeState`]. An upstream without rules has none of it.

pub(crate) mod admission;
pub(crate) mod ejection;
pub(crate) mod hold;
pub(crate) mod metrics;
pub(crate) mod result;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use exchange::failure::FailureResponse;
use exchange::overload::circuit::{Circuit, CircuitRules};
use exchange::overload::gate::Gate;
use exchange::overload::wait_queue::WaitQueue;
use exchange::overload::window::SlidingWindow;
use net::node_state::NodeState;
use parking_lot::Mutex;

/// No limit on a number of requests.
pub(crate) const UNLIMITED: u32 = u32::MAX;

/// The rules of an upstream.
pub(crate) struct Protection {
    /// The upstream's identity, for the log.
    pub(crate) identity: Arc<str>,
    pub(crate) ejection: Option<Ejection>,
    pub(crate) breaker: Option<Breaker>,
    /// Requests in flight over all workers, or [`UNLIMITED`].
    pub(crate) max_requests: u32,
    /// The same at each node.
    pub(crate) max_requests_per_node: u32,
    /// Whether the connections to a node are limited; its endpoint has the limit.
    pub(crate) limits_connections: bool,
    pub(crate) queue: Option<QueueRule>,
    pub(crate) shared: Arc<SharedProtection>,
}

/// When nodes are ejected.
pub(crate) struct Ejection {
    pub(crate) circuit: CircuitRules,
    pub(crate) failures: FailureStatuses,
    pub(crate) latency: Option<LatencyRule>,
    pub(crate) max_ejected_percent: u32,
}

/// When a node is too slow.
pub(crate) struct LatencyRule {
    pub(crate) factor: f64,
    pub(crate) min_requests: u32,
    pub(crate) window_ms: u64,
}

/// When the upstream as a whole is left alone.
pub(crate) struct Breaker {
    pub(crate) circuit: CircuitRules,
    pub(crate) failures: FailureStatuses,
    /// The response to refused requests.
    pub(crate) answer: Arc<FailureResponse>,
}

/// The statuses that count as failures.
pub(crate) struct FailureStatuses {
    pub(crate) http: Box<[u16]>,
    pub(crate) grpc: Box<[u32]>,
}

/// How many requests over a limit may wait, and how long.
#[derive(Clone, Copy)]
pub(crate) struct QueueRule {
    pub(crate) length: u32,
    pub(crate) timeout_ms: u64,
}

/// The state of an upstream that all workers share.
#[derive(Debug, Default)]
pub(crate) struct SharedProtection {
    /// Requests in flight.
    pub(crate) requests: Gate,
    pub(crate) queue: Arc<WaitQueue>,
    pub(crate) breaker: Circuit,
    pub(crate) counts: ProtectionCounts,
    /// When ejected nodes are looked at next, because the time of one may be over.
    pub(crate) next_look_ms: AtomicU64,
    /// When latencies are compared next.
    pub(crate) next_comparison_ms: AtomicU64,
    /// Whether the newest form of the upstream ejects nodes; requests in flight may have the rules of an
    /// earlier one. Locked while a node is ejected, so that two workers do not eject more than the share that
    /// is allowed.
    pub(crate) ejects: Mutex<bool>,
}

/// Counts since the upstream was protected first.
#[derive(Debug, Default)]
pub(crate) struct ProtectionCounts {
    pub(crate) ejections: AtomicU64,
    /// Ejections that did not take place, because too many nodes were ejected already; of each node at most
    /// ten a second.
    pub(crate) ejections_prevented: AtomicU64,
    pub(crate) refused_by_breaker: AtomicU64,
    pub(crate) refused_by_requests: AtomicU64,
    pub(crate) refused_by_node_requests: AtomicU64,
    pub(crate) refused_by_node_connections: AtomicU64,
    pub(crate) refused_by_queue: AtomicU64,
    pub(crate) queue_timeouts: AtomicU64,
}

/// The state of a node that all workers share, beside its [`NodeState`].
#[derive(Debug, Default)]
pub(crate) struct NodeGuard {
    pub(crate) circuit: Circuit,
    pub(crate) latency: SlidingWindow,
    /// The time from which its ejection may be tried again, because one was prevented.
    pub(crate) next_ejection_ms: AtomicU64,
    /// Requests in flight.
    pub(crate) requests: Gate,
}

impl NodeGuard {
    /// The guard of this node.
    #[inline]
    pub(crate) fn of(state: &NodeState) -> &NodeGuard {
        state.extension().expect("no other type extends the state of a node")
    }
}

impl Protection {
    /// The requests that wait for a connection to close, where connections are limited.
    #[inline]
    pub(crate) fn queue_for_connections(&self) -> Option<&Arc<WaitQueue>> {
        (self.limits_connections && self.queue.is_some()).then_some(&self.shared.queue)
    }

    /// Places that are held at the upstream, in its queue, and at the nodes of `set`.
    #[cfg(feature = "simulation")]
    pub(crate) fn places(&self, set: &net::nodes::NodeSet) -> u32 {
        let at_nodes: u32 = set.nodes.iter().map(|node| NodeGuard::of(&node.state).requests.active()).sum();
        self.shared.requests.active() + self.shared.queue.length() + at_nodes
    }
}

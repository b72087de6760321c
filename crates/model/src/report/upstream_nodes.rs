//! The upstreams in force and the state of their nodes, as `GET /v1/weir/upstreams` shows them.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{HealthCounter, NodeVerdict};

/// The upstreams in force, in objects and in configurations of plugins.
pub trait UpstreamNodes: Send + Sync {
    /// All upstreams by name, or the one that is called `name`.
    fn upstreams(&self, name: Option<&str>) -> Vec<UpstreamReport>;

    /// The upstreams with nodes that are not used, by name, without asking workers.
    fn unusable(&self) -> Vec<UnusableNodes> {
        let unusable = |upstream: UpstreamReport| UnusableNodes::among(&upstream.name, &upstream.nodes);
        self.upstreams(None).into_iter().filter_map(unusable).collect()
    }
}

/// The nodes of one upstream that are not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableNodes {
    /// See [`UpstreamReport::name`].
    pub name: Arc<str>,
    /// The number of all its nodes.
    pub total: usize,
    /// The addresses that are not used, with the state (`unhealthy`, `ejected`), since when and why.
    pub nodes: Vec<(SocketAddr, &'static str, NodeTransition)>,
}

impl UnusableNodes {
    /// Those among `nodes`; none where all are used.
    fn among(name: &Arc<str>, nodes: &[NodeReport]) -> Option<UnusableNodes> {
        let unusable = |node: &NodeReport| {
            let transition = node.unhealthy.as_ref().or(node.ejected.as_ref())?;
            Some((node.address, node.state(), transition.clone()))
        };
        let found: Vec<_> = nodes.iter().filter_map(unusable).collect();
        (!found.is_empty()).then(|| UnusableNodes {
            name: Arc::clone(name),
            total: nodes.len(),
            nodes: found,
        })
    }
}

/// One upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamReport {
    /// The object that it is written in, as a path below the prefix (`/upstreams/1`, `/routes/7`).
    pub name: Arc<str>,
    /// The method by which nodes are chosen, as users write it.
    pub method: &'static str,
    /// Its scheme.
    pub scheme: &'static str,
    /// The protocol of its active health checks; none without checks.
    pub check_type: Option<&'static str>,
    /// Its circuit breaker and requests; none without ejection, breaker and limits.
    pub protection: Option<UpstreamProtection>,
    /// Why there are fewer nodes than were written.
    pub note: Option<String>,
    /// Its nodes in their written order.
    pub nodes: Vec<NodeReport>,
}

/// One node of an upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReport {
    /// Where connections go.
    pub address: SocketAddr,
    /// The host as it was written.
    pub host: Arc<str>,
    /// Its share.
    pub weight: u32,
    /// Its priority.
    pub priority: i64,
    /// Since when and why health checks took it out; none while they have not.
    pub unhealthy: Option<NodeTransition>,
    /// Since when and why it is ejected as an outlier; none while it is not.
    pub ejected: Option<NodeTransition>,
    /// Attempts in flight at it, over all workers.
    pub in_flight: u32,
    /// The moving average of its response time in milliseconds; none for a method that does not measure, and
    /// before the first response.
    pub ewma_ms: Option<f64>,
    /// The verdict of the health checks and its counters; none without checks.
    pub health: Option<(NodeVerdict, HealthCounter)>,
    /// Its circuit and requests; none without ejection, breaker and limits.
    pub protection: Option<NodeProtection>,
}

/// The protection of a node at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProtection {
    /// `closed`: it gets requests; `open`: it is ejected; `half_open`: it gets probes.
    pub circuit: &'static str,
    /// How often it has been ejected.
    pub ejections: u64,
    /// Requests in flight at it, over all workers.
    pub requests: u32,
}

/// The protection of an upstream at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamProtection {
    /// The phase of its circuit breaker, as the circuit of a node; none if it has none.
    pub breaker: Option<&'static str>,
    /// Requests in flight, over all workers.
    pub requests: u32,
    /// Requests that wait for a place.
    pub waiting: u32,
}

/// When and why a node became unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTransition {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The observation that led to it.
    pub cause: Arc<str>,
}

impl NodeReport {
    /// Its state in a word: `usable`, or why it is not.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (&self.unhealthy, &self.ejected) {
            (Some(_), _) => "unhealthy",
            (None, Some(_)) => "ejected",
            (None, None) => "usable",
        }
    }
}

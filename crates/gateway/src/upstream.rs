//! Compiled upstreams, their node sets, and the pools that check out streams to their endpoints. The
//! configuration of an upstream is immutable and part of a generation; its nodes are published separately
//! (DNS and discovery change them without a compilation), and what workers measure at nodes is in `state`.

pub(crate) mod authority;
pub(crate) mod availability;
pub mod balance;
pub(crate) mod connect_failure;
pub(crate) mod connector;
pub(crate) mod counted;
pub mod deadline_policy;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod hash_key;
pub mod health;
pub(crate) mod interim_rate;
pub mod loads;
pub(crate) mod opening;
pub mod original;
pub(crate) mod pool;
pub(crate) mod protection;
pub(crate) mod protection_report;
pub mod report;
pub mod retry_policy;
pub mod select;
pub(crate) mod server_name;
pub(crate) mod service;
pub(crate) mod session_node;
pub(crate) mod state;
pub(crate) mod stream;
pub(crate) mod tunnel_end;
pub(crate) mod wanted;
pub(crate) mod warnings;

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use router::vars::{Template, Variable};
use stdx::published::Published;

use balance::BalancerKind;
use deadline_policy::DeadlinePolicy;
use exchange::exchange::Attempt;
use exchange::options::AttemptTimeouts;
use health::CompiledHealthChecks;
use net::endpoint::EndpointProtocol;
use net::nodes::NodeSet;
use original::OriginalPolicy;
use protection::Protection;
use retry_policy::RetryPolicy;
use select::Policies;

/// A compiled upstream.
pub struct Upstream {
    /// The object that owns it, such as `/upstreams/1` or `/routes/7`: its identity across configuration
    /// changes.
    pub identity: Arc<str>,
    /// Its slot in the generation and in each worker's state table.
    pub slot: u32,
    /// How an endpoint is selected.
    pub balancer: &'static BalancerKind,
    /// The key of a request, for a balancer that uses one.
    pub hash_key: Option<HashKey>,
    /// The nodes as currently known.
    pub nodes: Arc<Published<NodeSet>>,
    /// Its health checks, if it has some.
    pub(crate) health: Option<Arc<CompiledHealthChecks>>,
    /// Fills the nodes from a registry, for as long as this form of the upstream lives.
    pub(crate) discovered: Option<Discovered>,
    /// The destinations of its sessions, in place of nodes.
    pub original: Option<Box<OriginalPolicy>>,
    /// Whether sessions come to the nodes from the address of their client.
    pub transparent_source: bool,
    /// The Host that the endpoint receives.
    pub pass_host: PassHost,
    /// Its scheme, as users write it.
    pub scheme: &'static str,
    /// The protocol of connections to the nodes.
    pub protocol: EndpointProtocol,
    /// Whether no request may use HTTP/1, because the scheme is one of gRPC.
    pub needs_http2: bool,
    /// Most retries; the number of nodes less one if not set.
    pub retries: Option<u32>,
    /// How long after the first attempt a retry may begin; 0 is without limit.
    pub retry_timeout_ms: u64,
    /// When a failed attempt is retried, in place of `retries`.
    pub retry: Option<Box<RetryPolicy>>,
    /// The time limit over all attempts.
    pub deadline: Option<Box<DeadlinePolicy>>,
    /// Timeouts of the steps of an attempt.
    pub timeouts: AttemptTimeouts,
    /// Outlier ejection, circuit breaker and limits, if it has any.
    pub(crate) protection: Option<Arc<Protection>>,
    /// The policies that narrow the choice.
    pub policies: Arc<Policies>,
}

impl Upstream {
    /// The record of an attempt that begins at the node with this address and endpoint.
    #[inline]
    pub(crate) fn attempt(&self, address: SocketAddr, endpoint_id: u64, started_ns: u64) -> Attempt {
        Attempt {
            address,
            endpoint_id,
            scheme: self.scheme,
            upstream: self.slot,
            status: 0,
            failed: None,
            started_ns,
            connect_us: 0,
            head_us: 0,
            total_us: 0,
        }
    }

    /// Whether the selection of an endpoint may depend on the request's body.
    pub(crate) fn reads_body(&self) -> bool {
        let key = match &self.hash_key {
            Some(HashKey::Template(key)) => Some(key),
            _ => None,
        };
        let subsets = self.policies.subsets.iter().flat_map(|subsets| &subsets.values);
        key.into_iter().chain(subsets).any(|text| text.variables().any(Variable::uses_request_body))
    }
}

/// A service of a registry that is followed for an upstream.
pub(crate) struct Discovered {
    /// The number of the plan that may fill the cell, shared by all forms of an upstream with the same cell.
    pub(crate) round: Arc<Mutex<u64>>,
    /// Ends the following when it is dropped.
    pub(crate) _following: Box<dyn Any + Send + Sync>,
}

/// The Host that the endpoint receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassHost {
    /// The client's Host.
    Pass,
    /// The node's own name.
    Node,
    /// This text.
    Rewrite(Box<str>),
}

/// The input of a consistent hash.
pub enum HashKey {
    /// A variable or a text with variables.
    Template(Template),
    /// The consumer's name.
    Consumer,
}

//! Where requests go: what an upstream is once compiled, the set of its nodes, the pools that lend streams to them.
//! The configuration of an upstream is immutable and part of a generation; its nodes are published apart (DNS and
//! discovery change them without compiling anything), and what workers learn of nodes lives in `state`.

pub mod balance;
pub(crate) mod connector;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod hash_key;
pub(crate) mod pool;
pub(crate) mod server_name;
pub(crate) mod service;
pub(crate) mod state;
pub(crate) mod stream;
pub(crate) mod warnings;

use std::sync::Arc;

use router::vars::{Template, Variable};
use stdx::published::Published;

use balance::BalancerKind;
use exchange::options::Timeouts;
use net::endpoint::Protocol;
use net::nodes::NodeSet;

/// A compiled upstream.
pub struct Upstream {
    /// The object that owns it, such as `/upstreams/1` or `/routes/7`: its identity over configuration changes.
    pub identity: Arc<str>,
    /// Its slot in the generation and in each worker's state table.
    pub slot: u32,
    /// How a node is chosen.
    pub balancer: &'static BalancerKind,
    /// The key of a request, for a balancer that uses one.
    pub hash_key: Option<HashKey>,
    /// The nodes as they are known now.
    pub nodes: Arc<Published<NodeSet>>,
    /// Which Host the node sees.
    pub pass_host: PassHost,
    /// What is spoken to the nodes.
    pub protocol: Protocol,
    /// Tries after the first; the number of nodes less one if not set.
    pub retries: Option<u32>,
    /// How long after the first try another may begin; 0 is without limit.
    pub retry_timeout_ms: u64,
    /// How long each step of a try may take.
    pub timeouts: Timeouts,
}

impl Upstream {
    /// Whether the choice of a node may depend on the request's body.
    pub(crate) fn reads_body(&self) -> bool {
        match &self.hash_key {
            Some(HashKey::Template(key)) => key.variables().any(Variable::uses_request_body),
            _ => false,
        }
    }
}

/// Which Host the node sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassHost {
    /// The client's.
    Pass,
    /// The node's own name.
    Node,
    /// This one.
    Rewrite(Box<str>),
}

/// The input of a consistent hash.
pub enum HashKey {
    /// A variable or a text with variables.
    Template(Template),
    /// The consumer's name.
    Consumer,
}

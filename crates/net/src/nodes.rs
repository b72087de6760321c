//! The nodes of an upstream: as they are written, and as a set of endpoints at one moment. Sets are made
//! where addresses become known and published apart from the configuration.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::endpoint::{Endpoint, EndpointProtocol, KeepAlive};
use crate::node_state::{NodeState, NodeStates};
use crate::tls::client::ClientTls;

/// Computes a value from the nodes of a set that every request reads, such as the ring of a consistent hash.
pub type Derive = fn(&[ResolvedNode]) -> Arc<dyn Any + Send + Sync>;

/// The marks of a node that a user wrote or a registry gave, such as its zone or its version.
pub type NodeMetadata = BTreeMap<Box<str>, Box<str>>;

/// Completes "the address is …" for an address that no connection may be opened to. Every address of a set
/// was held against it, those of names too and again after each lookup, so that no endpoint of a refused
/// address exists.
#[derive(Clone)]
pub struct AddressRule(pub Arc<dyn Fn(IpAddr) -> Option<&'static str> + Send + Sync>);

impl std::fmt::Debug for AddressRule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("AddressRule")
    }
}

/// The nodes of an upstream at one moment.
#[derive(Default)]
pub struct NodeSet {
    /// The nodes in their written order.
    pub nodes: Vec<ResolvedNode>,
    /// The value that [`NodePlan::derive`] computed from `nodes`.
    pub derived: Option<Arc<dyn Any + Send + Sync>>,
    /// Why there are fewer nodes than were written, a sentence for the log.
    pub note: Option<String>,
    /// The states of the upstream's nodes; every set of the upstream has the same.
    pub states: Arc<NodeStates>,
}

/// One node.
#[derive(Clone)]
pub struct ResolvedNode {
    /// Where connections go.
    pub endpoint: Arc<Endpoint>,
    /// The host as it was written, with the port where it was written.
    pub host: Arc<str>,
    /// Its share; 0 takes it out of the choice. Addresses of one name share what was written, and the weights
    /// of a set are multiplied so that shares are whole numbers.
    pub weight: u32,
    /// Nodes of a lower priority are used when no higher one is left.
    pub priority: i64,
    /// See [`NodeMetadata`]; none where it is empty.
    pub metadata: Option<Arc<NodeMetadata>>,
    /// Whether it may be selected.
    pub state: Arc<NodeState>,
}

/// A node as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedNode {
    /// An address or a name.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
    /// Host and port as the node's own Host would say them.
    pub authority: Arc<str>,
    /// Its share.
    pub weight: u32,
    /// Its priority.
    pub priority: i64,
    /// See [`NodeMetadata`]; none where it is empty.
    pub metadata: Option<Arc<NodeMetadata>>,
}

/// The nodes of an upstream as they are written.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// The nodes in order.
    pub nodes: Vec<PlannedNode>,
    /// With which TLS identity they are reached; without one, in cleartext.
    pub tls: Option<Arc<ClientTls>>,
    /// The protocol of their connections.
    pub protocol: EndpointProtocol,
    /// How their connections are kept.
    pub keep_alive: KeepAlive,
    /// Computes what the balancing method needs of a set, once per set and off the workers.
    pub derive: Option<Derive>,
    /// Why there are fewer nodes than there should be, a sentence for the log, where the registry that named
    /// them says so.
    pub note: Option<Arc<str>>,
    /// See [`AddressRule`]; none where a user wrote the nodes.
    pub refuses: Option<AddressRule>,
}

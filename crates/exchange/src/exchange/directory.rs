//! Look-ups of an exchange in the configuration it began with. The runtime implements it, so that the
//! exchange need not know compiled routes and chains.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use router::Rule;

use super::consumer::Consumer;

/// The configuration in force, as far as plugins, variables and metrics read it. [`Any`], so that the gateway
/// can go on with the very configuration that an exchange began with.
pub trait Directory: Any {
    /// The route in `slot`.
    fn route(&self, slot: u32) -> Option<&RouteInfo>;

    /// The route with this id.
    fn route_with_id(&self, id: &str) -> Option<&RouteInfo>;

    /// The consumer that presents `key` to the authentication plugin `plugin`.
    fn consumer(&self, plugin: &str, key: &str) -> Option<&Arc<Consumer>>;

    /// The consumer of that name, without any credential: an anonymous request counts as this one.
    fn consumer_named(&self, username: &str) -> Option<&Arc<Consumer>>;

    /// Whether there is an upstream of this identity.
    fn has_upstream(&self, identity: &str) -> bool;

    /// The host of a node as it is written, before a name is resolved: of the upstream in `slot`, the node
    /// with this endpoint. None once the node is no longer one of the upstream.
    fn node_host(&self, slot: u32, endpoint_id: u64) -> Option<Arc<str>>;

    /// The first node of the upstream of this identity, for a plugin that asks it about itself; none without
    /// a node.
    fn upstream_origin(&self, identity: &str) -> Option<UpstreamOrigin>;
}

/// A node of an upstream, as a plugin calls it.
#[derive(Debug, PartialEq, Eq)]
pub struct UpstreamOrigin {
    /// The scheme of the upstream, as users write it.
    pub scheme: &'static str,
    /// Its address.
    pub address: SocketAddr,
    /// The Host that it receives.
    pub host: UpstreamHost,
}

/// The Host of requests to an upstream.
#[derive(Debug, PartialEq, Eq)]
pub enum UpstreamHost {
    /// The client's.
    OfClient,
    /// This one: the node's own, or that of the configuration.
    Fixed(String),
}

/// The part of a route that plugins, variables, metrics and logs show.
#[derive(Clone)]
pub struct RouteInfo {
    /// Its id.
    pub id: Arc<str>,
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// The service it refers to.
    pub service: Option<Arc<ServiceName>>,
    /// The requests it matches.
    pub rule: Arc<Rule>,
    /// The object as it was written, in JSON.
    pub written: Arc<str>,
}

/// The part of a service that plugins, variables and metrics show.
#[derive(Debug, PartialEq, Eq)]
pub struct ServiceName {
    /// Its id.
    pub id: Arc<str>,
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// The object as it was written, in JSON.
    pub written: Arc<str>,
}

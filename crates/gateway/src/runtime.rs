//! One generation of the compiled configuration: immutable, shared by all workers, published as a whole.
//! `compile` makes it and `pipeline` uses it.

pub mod consumers;
pub(crate) mod merged;
pub mod stream_route;
pub mod stream_table;

use std::sync::Arc;
use std::sync::mpsc::Sender;

use net::tls::server::{ServerTls, SiteTable};
use router::Router;
use stdx::persistent::{ChunkedVec, ShardedMap};

pub use consumers::{ConsumerPlugins, Consumers};
pub use stream_route::StreamRoute;
use stream_table::StreamTable;

use crate::upstream::{PassHost, Upstream};
use exchange::exchange::{Consumer, Directory, RouteInfo, UpstreamHost, UpstreamOrigin};
use exchange::failure::Unavailable;
use exchange::options::AttemptTimeouts;
use exchange::overload::Priority;
use exchange::overload::bulkhead::Bulkhead;
use exchange::plugin::chain::Chain;

/// Everything a request is decided by.
#[derive(Clone)]
pub struct Runtime {
    /// The store's revision that this generation was compiled from.
    pub revision: u64,
    /// Finds the slot of a request's route.
    pub router: Router,
    /// The slots of routes by id.
    pub route_slots: ShardedMap<Arc<str>, u32>,
    /// Routes by slot.
    pub routes: ChunkedVec<Arc<CompiledRoute>>,
    /// Upstreams by slot.
    pub upstreams: ChunkedVec<Arc<Upstream>>,
    /// The slots of upstreams by identity, such as `/upstreams/1`.
    pub upstream_slots: ShardedMap<Arc<str>, u32>,
    /// The chain of the global rules.
    pub global: Arc<Chain>,
    /// Why no request may be served, if a plugin of a global rule cannot be built.
    pub global_missing: Option<Unavailable>,
    /// Routes that are not in the table because their match cannot be compiled; for [`crate::explain`].
    pub unplaced: Arc<[Unplaced]>,
    /// Consumers by authentication plugin and key.
    pub consumers: Consumers,
    /// The settings of TLS for clients; none where there are no handshakes.
    pub tls: Option<Arc<ServerTls>>,
    /// The sites that clients may ask for over TLS.
    pub sites: Arc<SiteTable>,
    /// Stream routes by id.
    pub stream_routes: ShardedMap<Arc<str>, Arc<StreamRoute>>,
    /// Finds the stream route of a session.
    pub stream_table: Arc<StreamTable>,
}

/// A compiled route.
pub struct CompiledRoute {
    /// Its identity, and what it matches.
    pub info: RouteInfo,
    /// Its plugins, merged with those of its plugin config and service.
    pub plugins: Arc<Chain>,
    /// The slot of its upstream.
    pub upstream: Option<u32>,
    /// Its own timeouts, in place of the upstream's.
    pub timeouts: Option<AttemptTimeouts>,
    /// Whether a client may upgrade the connection to a WebSocket.
    pub enable_websocket: bool,
    /// The limit of its requests in flight, if it has one.
    pub bulkhead: Option<Bulkhead>,
    /// How early its requests are rejected under overload.
    pub priority: Priority,
    /// Why it must not serve, if an object that it refers to is missing, or a plugin of it cannot be built;
    /// without this check a route could lose its protection.
    pub missing: Option<Unavailable>,
}

/// A route that is not in the table, because its match cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// Its id.
    pub id: Arc<str>,
    /// The fault, a sentence.
    pub reason: Box<str>,
}

/// A worker's reference to a generation. Exchanges share it by a count of the worker's own; the last one
/// sends the generation to the side thread to be freed, which for a large configuration takes longer than a
/// request may wait.
pub struct Generation {
    runtime: Option<Arc<Runtime>>,
    reclaimer: Sender<Arc<Runtime>>,
}

impl Generation {
    /// Holds `runtime`; dropping it sends `runtime` to `reclaimer`.
    pub(crate) fn new(runtime: Arc<Runtime>, reclaimer: Sender<Arc<Runtime>>) -> Generation {
        Generation { runtime: Some(runtime), reclaimer }
    }
}

impl Directory for Generation {
    fn route(&self, slot: u32) -> Option<&RouteInfo> {
        self.routes.get(slot).map(|route| &route.info)
    }

    fn route_with_id(&self, id: &str) -> Option<&RouteInfo> {
        self.routes.get(*self.route_slots.get(id)?).map(|route| &route.info)
    }

    fn consumer(&self, plugin: &str, key: &str) -> Option<&Arc<Consumer>> {
        self.consumers.find(plugin, key)
    }

    fn consumer_named(&self, username: &str) -> Option<&Arc<Consumer>> {
        self.consumers.named(username)
    }

    fn has_upstream(&self, identity: &str) -> bool {
        self.upstream_slots.get(identity).is_some()
    }

    fn node_host(&self, slot: u32, endpoint_id: u64) -> Option<Arc<str>> {
        let nodes = self.upstreams.get(slot)?.nodes.load();
        nodes.nodes.iter().find(|node| node.endpoint.id == endpoint_id).map(|node| node.host.clone())
    }

    fn upstream_origin(&self, identity: &str) -> Option<UpstreamOrigin> {
        let upstream = self.upstreams.get(*self.upstream_slots.get(identity)?)?;
        let nodes = upstream.nodes.load();
        // The least address, so that it is the same one as long as the nodes are.
        let first = nodes.nodes.iter().min_by_key(|node| node.endpoint.address)?;
        let host = match &upstream.pass_host {
            PassHost::Pass => UpstreamHost::OfClient,
            PassHost::Node => UpstreamHost::Fixed(first.host.to_string()),
            PassHost::Rewrite(host) => UpstreamHost::Fixed(host.to_string()),
        };
        Some(UpstreamOrigin { scheme: upstream.scheme, address: first.endpoint.address, host })
    }
}

impl std::ops::Deref for Generation {
    type Target = Runtime;

    #[inline]
    fn deref(&self) -> &Runtime {
        self.runtime.as_deref().expect("taken only when dropped")
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // At the very end of the process there is no side thread, and it is freed here.
            let _ = self.reclaimer.send(runtime);
        }
    }
}

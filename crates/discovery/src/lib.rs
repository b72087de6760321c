//! Service discovery: registries that name the nodes of upstreams. Each registry is a file or folder below
//! and one entry of `ALL`; one thread runs those that the settings configure. The last good answers stay in
//! force while a registry fails, and are kept on disk for a restart. It knows no upstream: the gateway
//! follows services through `model::discovery::ServiceDirectory`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod auto_routes;
mod blocks;
mod check;
mod consul;
mod consul_kv;
mod copy;
mod dns;
mod each;
mod element;
mod etcd;
mod eureka;
mod file;
mod http;
mod kubernetes;
mod limits;
mod nacos;
mod parts;
mod poll;
mod publish;
pub mod registration;
mod servicecomb;
mod services;
mod show;
mod table;
mod thread;
mod zookeeper;

use std::any::Any;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use model::discovery::{OnChange, ServiceDirectory, ServiceKey};
use model::outbound::OutboundPolicy;
use outbound::background::BackgroundThread;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use stdx::address_family::AddressChoice;

pub use auto_routes::AutoRoutes;
pub use check::{BlockFault, check_discovery_blocks};
pub(crate) use services::Services;
use table::{DiscoveryShared, Unfollow};

/// All kinds of registries, by name.
pub(crate) const ALL: &[RegistryKind] = &[
    consul::KIND,
    consul_kv::KIND,
    dns::KIND,
    etcd::KIND,
    eureka::KIND,
    file::KIND,
    kubernetes::KIND,
    nacos::KIND,
    servicecomb::KIND,
    zookeeper::KIND,
];

/// Makes a registry of its block.
type Build = fn(&Value, &BuildContext) -> Result<Box<dyn Registry>, String>;

/// A kind of registry.
pub(crate) struct RegistryKind {
    /// The name, as `discovery_type` and the block of the settings say it.
    pub(crate) name: &'static str,
    /// Whether it has several ports for an instance, so that the upstream's scheme, an argument of the
    /// service, chooses one.
    pub(crate) has_ports_by_scheme: bool,
    /// The JSON Schema of its block in the settings.
    pub(crate) schema: fn() -> Value,
    /// Makes a registry of a block that obeys the schema; called again after a panic. The error is a
    /// sentence.
    pub(crate) build: Build,
}

/// The settings and services that registries get besides their block.
#[derive(Clone, Debug, Default)]
pub(crate) struct BuildContext {
    /// The addresses that may not be connected to.
    pub(crate) policy: OutboundPolicy,
    /// Which of the addresses of one instance are used.
    pub(crate) addresses: AddressChoice,
}

/// A running registry.
pub(crate) trait Registry: Send + 'static {
    /// Asks the registry until the future is dropped, and passes each answer and failure to `services`. It
    /// ends only for a fault that another attempt cannot mend; it is then started again after a pause.
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The registries that the settings configure.
#[derive(Debug, Default)]
pub struct DiscoveryConfig {
    /// The block of each registry, by the name of its kind.
    pub blocks: Map<String, Value>,
    /// The addresses that may not be connected to.
    pub policy: OutboundPolicy,
    /// Which of the addresses of one instance are used.
    pub addresses: AddressChoice,
    /// The folder for the last good answers; none keeps none.
    pub directory: Option<PathBuf>,
    /// How long a new service may hold up the configuration that names it.
    pub settle: Duration,
}

/// The running registries. Dropping it ends the thread.
pub struct ServiceDiscovery {
    shared: Arc<DiscoveryShared>,
    thread: Mutex<Option<BackgroundThread>>,
    settle: Duration,
}

impl ServiceDiscovery {
    /// Reads the answers on disk and starts the registries; without any, there is no thread.
    ///
    /// # Errors
    /// A block is faulty, or the thread cannot be started.
    pub fn start(config: DiscoveryConfig) -> io::Result<ServiceDiscovery> {
        let faults = check_discovery_blocks(&config.blocks);
        if let Some(fault) = faults.first() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, fault.to_string()));
        }
        let kinds = ALL.iter().filter_map(|kind| Some((kind, config.blocks.get(kind.name)?.clone())));
        let kinds: Vec<(&'static RegistryKind, Value)> = kinds.collect();
        let auto_routes = AutoRoutes::new(kinds.iter().map(|(kind, block)| (kind.name, block.clone())))
            .map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
        let blocks = kinds.iter().map(|(kind, block)| (kind.name, show::masked(block.clone())));
        let shared = DiscoveryShared::new(blocks, config.directory, config.policy.clone())
            .with_auto_routes(auto_routes);
        let shared = Arc::new(shared);
        shared.load_copies();
        let context = BuildContext { policy: config.policy, addresses: config.addresses };
        let thread = match kinds.is_empty() {
            true => None,
            false => Some(thread::start_discovery_thread(Arc::clone(&shared), kinds, context)?),
        };
        Ok(ServiceDiscovery { shared, thread: Mutex::new(thread), settle: config.settle })
    }

    /// Ends the registries; the last answers stay in force.
    pub fn stop(&self) {
        if let Some(thread) = self.thread.lock().take() {
            thread.stop();
        }
    }

    /// Appends the metrics of all registries. An instance without registries has none.
    pub fn write_metrics(&self, text: &mut String) {
        show::write_discovery_metrics(&self.shared, text);
        if let Some(routes) = &self.shared.auto_routes {
            routes.write_metrics(text);
        }
    }

    /// The routes that are made of services, if a block asks for some.
    pub fn auto_routes(&self) -> Option<Arc<AutoRoutes>> {
        self.shared.auto_routes.clone()
    }

    /// How long a configuration may wait for registries.
    pub fn settle_limit(&self) -> Duration {
        self.settle
    }

    /// The body of `GET /v1/discovery/{name}/dump`; none where no such registry is configured.
    pub fn dump(&self, registry: &str) -> Option<Value> {
        show::dump(&self.shared, registry)
    }

    /// The text of the registry's file of last good answers; the outer option as of
    /// [`ServiceDiscovery::dump`].
    pub fn dump_file(&self, registry: &str) -> Option<Result<String, String>> {
        self.shared.has(registry).then(|| self.shared.read_copy(registry))
    }

    /// The state of each registry, for `GET /v1/discovery`.
    pub fn states(&self) -> Value {
        show::states(&self.shared)
    }
}

impl Drop for ServiceDiscovery {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ServiceDirectory for ServiceDiscovery {
    fn has_ports_by_scheme(&self, registry: &str) -> bool {
        ALL.iter().any(|kind| kind.name == registry && kind.has_ports_by_scheme)
    }

    fn follow(&self, key: &ServiceKey, on_change: OnChange) -> Box<dyn Any + Send + Sync> {
        let number = self.shared.follow(key, on_change);
        Box::new(Unfollow { shared: Arc::clone(&self.shared), key: key.clone(), number })
    }

    fn settle(&self) {
        self.shared.settle(self.settle);
    }
}

impl std::fmt::Debug for ServiceDiscovery {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Discovery")
    }
}

/// The names of all kinds of registries.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|kind| kind.name)
}

#[cfg(test)]
mod followed;
#[cfg(test)]
mod tests;

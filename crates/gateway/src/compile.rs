//! Compiles a checked snapshot into the generation that the workers run. It compiles the objects that a
//! change touches and shares the rest, so that one change among 100,000 objects costs as much as one among
//! ten. It runs on the control side's thread; it knows plugins only as kinds, and returns its faults to its
//! caller.

mod body_variables;
mod consumer;
mod contract;
mod discovered;
mod expiry;
mod extension;
mod global;
mod health;
mod key_set;
mod plugins;
mod protection;
mod reference;
mod retry;
mod route;
mod selection;
mod sharing;
mod sites;
mod ssl;
mod stream;
pub mod trial;
mod upstream;
mod upstream_tls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use model::discovery::ServiceDirectory;
use model::extension::LoadedVersion;
use model::resource::UpstreamScheme;
use model::secret_reference::SecretValues;
use model::snapshot::{Applied, Difference, Snapshot, SnapshotObject};
use model::staple::Staples;
use model::{ObjectKey, ObjectKind};
use router::{Mode, Router};
use stdx::hash::FastMap;
use stdx::persistent::{ChunkedVec, ShardedMap};

use expiry::Expiry;
use extension::FixedExtensions;
use key_set::KeySet;
use sharing::Sharing;

pub use expiry::ExpiredCertificates;

use crate::runtime::{Consumers, Runtime, Unplaced};
use crate::upstream::health::monitor::HealthMonitor;
use exchange::options::AttemptTimeouts;
use exchange::overload::bulkhead::Bulkheads;
use exchange::plugin::PluginKind;
use exchange::plugin::chain::{Chain, PluginInstance};
use exchange::plugin::extension_loader::LoadedCode;
use exchange::plugin::scripts::{NO_SCRIPTS, Scripts};
use exchange::plugin::services::Services;
use exchange::plugin::state::StateRegistry;
use exchange::plugin::stream::protocol::ProtocolKind;

/// A fault that the checks of the model did not find and that prevents compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileFault {
    /// The object.
    pub key: ObjectKey,
    /// The fault, a sentence.
    pub reason: String,
    /// Whether the form compiled before stays in force; otherwise requests that depend on the object are
    /// answered 503.
    pub kept: bool,
}

/// Compiles changes and keeps what did not change.
pub struct SnapshotCompiler {
    kinds: FastMap<&'static str, &'static PluginKind>,
    /// Extensions that the settings name.
    fixed: FixedExtensions,
    states: Arc<StateRegistry>,
    services: Arc<Services>,
    secrets: Arc<dyn SecretValues>,
    /// Compiles scripts in objects; none: the program has no language for them.
    scripts: Option<Arc<dyn Scripts>>,
    /// The protocols that stream routes may name.
    protocols: &'static [&'static ProtocolKind],
    default_timeouts: AttemptTimeouts,
    /// The zone of this instance.
    zone: Option<Box<str>>,
    current: Runtime,
    /// The upstreams that plugins hold in their configurations; dropped ones are removed with the next
    /// change.
    plugin_upstreams: FastMap<Box<str>, HeldUpstream>,
    consumer_entries: FastMap<Arc<str>, Vec<(&'static str, Box<str>)>>,
    /// Where OCSP responses are found; none: nothing is stapled.
    staples: Option<Arc<dyn Staples>>,
    /// Where the nodes of registries are found; none: there is no registry.
    directory: Option<Arc<dyn ServiceDirectory>>,
    /// Checks the nodes of upstreams; none: no node is checked.
    health: Option<Arc<HealthMonitor>>,
    expiry: Expiry,
    /// Consumers with a key that another consumer has already.
    consumers_in_conflict: BTreeSet<ObjectKey>,
    empty_chain: Arc<Chain>,
    sharing: Sharing,
    next_instance: u32,
    /// Nothing of it comes into force: upstreams get cells of their own instead of those that workers use.
    is_trial: bool,
    bulkheads: Bulkheads,
    /// The ids of the routes of each contract.
    contract_routes: FastMap<Arc<str>, Vec<Arc<str>>>,
    /// Plugins that run as long as there are metadata of them.
    by_metadata: Vec<Arc<PluginInstance>>,
    /// Objects that could not be compiled and have not been compiled since.
    faults: BTreeMap<ObjectKey, Vec<CompileFault>>,
}

/// An upstream that a plugin holds in its configuration.
struct HeldUpstream {
    /// The plugin's name for it, which lives as long as the plugin.
    holder: Weak<str>,
    /// The upstream, where it presents a certificate object: it is compiled again when that changes.
    written: Option<Box<model::resource::UpstreamConfig>>,
}

/// The objects that have to be compiled again.
#[derive(Default)]
struct Dirty {
    routes: KeySet,
    upstream_owners: KeySet,
    consumers: BTreeSet<ObjectKey>,
    stream_routes: BTreeSet<ObjectKey>,
    ssls: BTreeSet<ObjectKey>,
    global: bool,
}

impl SnapshotCompiler {
    /// A compiler for these kinds of plugins, in this router mode; nothing is compiled yet. Names are looked
    /// up through the services' resolver.
    pub fn new(
        kinds: &[&'static PluginKind],
        mode: Mode,
        default_timeouts: AttemptTimeouts,
        services: Arc<Services>,
    ) -> SnapshotCompiler {
        let empty_chain = Arc::new(Chain::default());
        let current = Runtime {
            revision: 0,
            router: Router::new(mode),
            route_slots: ShardedMap::new(),
            routes: ChunkedVec::new(),
            upstreams: ChunkedVec::new(),
            upstream_slots: ShardedMap::new(),
            global: empty_chain.clone(),
            global_missing: None,
            unplaced: Arc::default(),
            consumers: Consumers::default(),
            stream_routes: ShardedMap::new(),
            stream_table: Arc::default(),
            tls: None,
            sites: Arc::default(),
        };
        SnapshotCompiler {
            kinds: kinds.iter().map(|kind| (kind.name, *kind)).collect(),
            fixed: FixedExtensions::default(),
            states: Arc::default(),
            services,
            secrets: Arc::new(reference::NoValues),
            scripts: None,
            protocols: &[],
            default_timeouts,
            zone: None,
            current,
            plugin_upstreams: FastMap::default(),
            consumer_entries: FastMap::default(),
            staples: None,
            directory: None,
            health: None,
            expiry: Expiry::default(),
            consumers_in_conflict: BTreeSet::new(),
            empty_chain,
            sharing: Sharing::default(),
            next_instance: 0,
            is_trial: false,
            bulkheads: Bulkheads::default(),
            contract_routes: FastMap::default(),
            by_metadata: Vec::new(),
            faults: BTreeMap::new(),
        }
    }

    /// Resolves references to secrets and environment variables by `values`; without it no reference can be
    /// resolved. When a value changes, the objects that refer to it have to be applied again.
    #[must_use]
    pub fn with_secrets(mut self, values: Arc<dyn SecretValues>) -> SnapshotCompiler {
        self.secrets = values;
        self
    }

    /// Has the plugins of these extensions, which the settings name, beside the kinds and the extensions
    /// among the objects.
    #[must_use]
    pub fn with_fixed_extensions(mut self, extensions: &[LoadedVersion]) -> SnapshotCompiler {
        let code = |version: &LoadedVersion| {
            let code = version.code.downcast_ref::<LoadedCode>()?;
            Some((code.name, version.clone()))
        };
        self.fixed = extensions.iter().filter_map(code).collect();
        self
    }

    /// Stream routes may name `protocols`.
    #[must_use]
    pub fn with_protocols(mut self, protocols: &'static [&'static ProtocolKind]) -> SnapshotCompiler {
        self.protocols = protocols;
        self
    }

    /// Compiles scripts in objects with `scripts`.
    #[must_use]
    pub fn with_scripts(mut self, scripts: Option<Arc<dyn Scripts>>) -> SnapshotCompiler {
        self.scripts = scripts;
        self
    }

    /// Where instances keep state that outlives configurations; checks of plugins look at it.
    pub fn states(&self) -> &Arc<StateRegistry> {
        &self.states
    }

    /// The generation compiled last.
    pub fn current(&self) -> Arc<Runtime> {
        Arc::new(self.current.clone())
    }

    /// Compiles what `applied` changes. The generation is complete in any case; objects that could not be
    /// compiled, now or earlier, are in the faults, and their requests are answered 503 instead of being
    /// served unprotected.
    pub fn apply(&mut self, applied: &Applied) -> (Arc<Runtime>, Vec<CompileFault>) {
        let dirty = dirty(applied, &self.kinds);
        let snapshot = &applied.snapshot;
        self.faults.retain(|key, _| !dirty.contains(key));
        for owner in &dirty.upstream_owners.into_sorted() {
            self.compile_upstream(snapshot, owner);
        }
        if !dirty.ssls.is_empty() {
            self.renew_plugin_upstreams(snapshot, &dirty.ssls);
        }
        if dirty.global {
            self.compile_global(snapshot);
            self.compile_by_metadata(snapshot);
        }
        for key in &dirty.routes.into_sorted() {
            match key.kind {
                ObjectKind::Contract => self.compile_contract(snapshot, key),
                _ => self.compile_route(snapshot, key),
            }
        }
        self.compile_consumers(snapshot, dirty.consumers);
        self.compile_stream_routes(snapshot, &dirty.stream_routes);
        for key in &dirty.ssls {
            self.compile_ssl(snapshot, key);
        }
        self.sweep_plugin_upstreams();
        let unplaced = snapshot.unplaced().into_iter().take(MAX_UNPLACED).map(|faulty| Unplaced {
            id: faulty.written.key.id.clone(),
            reason: faulty.refusal.to_string().into(),
        });
        self.current.unplaced = unplaced.collect();
        self.current.revision = snapshot.revision();
        if let Some(directory) = &self.directory {
            directory.settle();
        }
        // New names are looked up before requests need them, within a bound; afterwards in the background.
        if self.is_trial {
            self.services.resolver().settle_aside();
        } else {
            self.services.resolver().settle();
        }
        (self.current(), self.faults.values().flatten().cloned().collect())
    }

    fn fault(&mut self, key: &ObjectKey, reason: impl Into<String>) {
        self.note(CompileFault { key: key.clone(), reason: reason.into(), kept: false });
    }

    fn note(&mut self, fault: CompileFault) {
        let faults = self.faults.entry(fault.key.clone()).or_default();
        // One plugin of a consumer is compiled for each route it is used on.
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
}

/// Unplaced routes that a generation lists at most; the verdicts of the Admin API list all.
const MAX_UNPLACED: usize = 100;

/// The compiler of scripts.
///
/// # Errors
/// There is none.
fn required(scripts: Option<&Arc<dyn Scripts>>) -> Result<&Arc<dyn Scripts>, String> {
    scripts.ok_or_else(|| NO_SCRIPTS.to_owned())
}

/// The objects that the differences touch, directly or through a reference.
fn dirty(applied: &Applied, kinds: &FastMap<&'static str, &'static PluginKind>) -> Dirty {
    let mut dirty = Dirty::default();
    for difference in &applied.diff {
        let key = &difference.key;
        match key.kind {
            ObjectKind::Route => {
                dirty.routes.insert(key.clone());
                if embeds_upstream(difference) {
                    dirty.upstream_owners.insert(key.clone());
                }
            }
            ObjectKind::Contract => {
                dirty.routes.insert(key.clone());
                dirty.holders_of(&applied.snapshot, key);
                if embeds_upstream(difference) {
                    dirty.upstream_owners.insert(key.clone());
                }
            }
            ObjectKind::Service | ObjectKind::Upstream => dirty.upstream_owners.insert(key.clone()),
            ObjectKind::PluginConfig | ObjectKind::ConsumerGroup => {}
            ObjectKind::Consumer => {
                dirty.consumers.insert(key.clone());
            }
            ObjectKind::Credential => {
                if let Some(consumer) = key.consumer_key() {
                    dirty.consumers.insert(consumer);
                }
            }
            ObjectKind::GlobalRule => dirty.global = true,
            ObjectKind::PluginMetadata => {
                let plugin = key.own_id();
                let made_of = kinds.values().filter(|kind| kind.parts.contains(&plugin));
                for name in made_of.map(|kind| kind.name).chain([plugin]) {
                    dirty.all_with_plugins(&applied.snapshot, name);
                }
            }
            ObjectKind::StreamRoute => {
                dirty.stream_routes.insert(key.clone());
                if embeds_upstream(difference) {
                    dirty.upstream_owners.insert(key.clone());
                }
            }
            ObjectKind::Ssl => {
                dirty.ssls.insert(key.clone());
                dirty.users_of_certificate(&applied.snapshot, key);
            }
            ObjectKind::Proto => dirty.holders_of(&applied.snapshot, key),
            ObjectKind::Extension => {
                dirty.holders_of(&applied.snapshot, key);
                if extension::has_endpoints(difference) {
                    for kind in kinds.values().filter(|kind| kind.opens_endpoints) {
                        dirty.all_with_plugins(&applied.snapshot, kind.name);
                    }
                }
            }
            ObjectKind::Secret => {}
        }
    }
    // In a second pass, because on a first load the first pass has already added all users, in sorted order.
    for difference in &applied.diff {
        let concerns_users = match difference.key.kind {
            ObjectKind::Service | ObjectKind::PluginConfig | ObjectKind::ConsumerGroup => true,
            // References are slots, so that only a new or a removed upstream concerns the objects that refer
            // to it, and one with another scheme, by which stream routes tell connections from datagrams.
            ObjectKind::Upstream => scheme(&difference.before) != scheme(&difference.after),
            _ => false,
        };
        if concerns_users {
            dirty.users_of(&applied.snapshot, &difference.key);
        }
    }
    dirty
}

/// The scheme of an upstream; none where there is no such object.
fn scheme(object: &Option<Arc<SnapshotObject>>) -> Option<UpstreamScheme> {
    object.as_ref().and_then(|object| object.resource.upstream()).map(|upstream| upstream.scheme)
}

/// Whether an object has or had an upstream of its own.
fn embeds_upstream(difference: &Difference) -> bool {
    let forms = [&difference.before, &difference.after];
    forms.into_iter().flatten().any(|object| object.resource.upstream().is_some())
}

impl Dirty {
    /// Whether the object under `key` is compiled again.
    fn contains(&self, key: &ObjectKey) -> bool {
        (matches!(key.kind, ObjectKind::GlobalRule | ObjectKind::PluginMetadata) && self.global)
            || self.routes.contains(key)
            || self.upstream_owners.contains(key)
            || self.consumers.contains(key)
            || self.stream_routes.contains(key)
            || self.ssls.contains(key)
    }

    fn users_of(&mut self, snapshot: &Snapshot, key: &ObjectKey) {
        for user in snapshot.users_of(key) {
            match user.kind {
                ObjectKind::Route | ObjectKind::Contract => self.routes.insert(user.clone()),
                ObjectKind::Service => self.users_of(snapshot, user),
                ObjectKind::Consumer => {
                    self.consumers.insert(user.clone());
                }
                ObjectKind::StreamRoute => {
                    self.stream_routes.insert(user.clone());
                }
                _ => {}
            }
        }
    }

    /// Upstreams that present the certificate `key`, and objects with a plugin that holds such an upstream.
    fn users_of_certificate(&mut self, snapshot: &Snapshot, key: &ObjectKey) {
        for owner in snapshot.users_of(key) {
            self.upstream_owners.insert(owner.clone());
            // The upstream may have had no slot, because the certificate could not be used.
            match owner.kind {
                ObjectKind::Route | ObjectKind::Contract => self.routes.insert(owner.clone()),
                ObjectKind::StreamRoute => {
                    self.stream_routes.insert(owner.clone());
                }
                _ => self.users_of(snapshot, owner),
            }
        }
        self.holders_of(snapshot, key);
    }

    /// Objects with a plugin that names the object `key` in its configuration.
    fn holders_of(&mut self, snapshot: &Snapshot, key: &ObjectKey) {
        for holder in snapshot.mentioned_by(key) {
            match holder.kind {
                ObjectKind::Route | ObjectKind::Contract => self.routes.insert(holder.clone()),
                ObjectKind::GlobalRule => self.global = true,
                ObjectKind::Consumer => {
                    self.consumers.insert(holder.clone());
                }
                ObjectKind::StreamRoute => {
                    self.stream_routes.insert(holder.clone());
                }
                _ => self.users_of(snapshot, holder),
            }
        }
    }

    /// A plugin's metadata concerns every object that has the plugin.
    fn all_with_plugins(&mut self, snapshot: &Snapshot, plugin: &str) {
        self.global = true;
        for kind in [
            ObjectKind::Route,
            ObjectKind::Contract,
            ObjectKind::Service,
            ObjectKind::PluginConfig,
            ObjectKind::ConsumerGroup,
            ObjectKind::Consumer,
            ObjectKind::StreamRoute,
        ] {
            let with_it =
                snapshot.iter(kind).filter(|object| object.resource.plugins().get(plugin).is_some());
            for key in with_it.map(|object| object.key()) {
                match kind {
                    ObjectKind::Route | ObjectKind::Contract => self.routes.insert(key.clone()),
                    ObjectKind::Consumer => {
                        self.consumers.insert(key.clone());
                    }
                    ObjectKind::StreamRoute => {
                        self.stream_routes.insert(key.clone());
                    }
                    _ => self.users_of(snapshot, key),
                }
            }
        }
    }
}

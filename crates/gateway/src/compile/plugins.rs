//! Plugin instances from their configurations, for HTTP and for layer 4.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use contract::ContractDocument;
use model::contract::CONTRACT_ID_FIELD;
use model::loaded_endpoint::LoadedEndpoint;
use model::resource::{PluginMeta, Resource, UpstreamConfig};
use model::secret_reference::SecretValues;
use model::snapshot::Snapshot;
use model::{Id, ObjectKey};
use router::vars::Expression;
use serde::Deserialize;
use serde_json::Value;
use stdx::hash::FastMap;

use super::body_variables::names_body;
use super::extension::{self, FixedExtensions, PluginSource};
use super::{CompileFault, SnapshotCompiler, reference, required};
use exchange::plugin::chain::{ErrorResponse, PluginInstance};
use exchange::plugin::scripts::Scripts;
use exchange::plugin::services::Services;
use exchange::plugin::state::StateRegistry;
use exchange::plugin::stream::chain::StreamInstance;
use exchange::plugin::stream::protocol::{ProtocolKind, ProtocolSettings, StreamProtocol};
use exchange::plugin::{Assembly, Build, PluginKind};

/// A plugin as it is written, with the inputs of its build.
struct Prepared<'a> {
    source: PluginSource<'a>,
    meta: PluginMeta<'a>,
    owner: String,
    config: Cow<'a, Value>,
    metadata: Option<Value>,
    filter: Option<Expression>,
}

impl SnapshotCompiler {
    /// The instance of plugin `name` with `config`, written in `owner`: the present one if none of its inputs
    /// has changed. `None` if it is switched off.
    ///
    /// # Errors
    /// Why it cannot be built.
    pub(super) fn instance(
        &mut self,
        snapshot: &Snapshot,
        owner: &ObjectKey,
        name: &str,
        config: &Value,
    ) -> Result<Option<Arc<PluginInstance>>, String> {
        let kind = self.kinds.get(name).copied();
        let mut version = self.secrets_version(snapshot, name, config);
        if kind.is_some_and(|kind| kind.check_contract.is_some()) {
            version ^= contract_version(snapshot, config).rotate_left(3);
        }
        if kind.is_some_and(|kind| kind.check_proto.is_some()) {
            version ^= proto_version(snapshot, config).rotate_left(2);
        }
        // The table knows the metadata of the plugin itself only, so that one made of others is built at each
        // change.
        let is_whole = |kind: &&PluginKind| kind.parts.is_empty() && !kind.opens_endpoints;
        let whole = kind.filter(is_whole).map(|kind| kind.name);
        let served =
            if kind.is_none() { extension::find_served_versions(&self.fixed, snapshot, name) } else { None };
        if let Some(served) = &served {
            version ^= served.version();
        }
        let extension = served.as_ref().map(extension::ServedVersions::name);
        if let Some(shared) =
            whole.or(extension).and_then(|name| self.sharing.instance(snapshot, owner, name, version))
        {
            return Ok(Some(shared));
        }
        let parts = PluginBuildContext::new(self, snapshot);
        let built = parts.instance(&owner.path(), 0, name, config);
        let PluginBuildContext { number, upstreams, .. } = parts;
        self.next_instance = number.get();
        let built = match (built, extension) {
            (Err(reason), Some(name)) => {
                // A version that cannot be built must not take the place of one that serves.
                let former = self.sharing.former(snapshot, owner, name).ok_or_else(|| reason.clone())?;
                self.note(CompileFault { key: owner.clone(), reason, kept: true });
                return Ok(Some(former));
            }
            (built, _) => built,
        };
        let Some(instance) = built? else { return Ok(None) };
        for (identity, written) in upstreams.into_inner() {
            let compiled = self.compile_plugin_upstream(snapshot, &identity, &written);
            compiled.map_err(|reason| format!("plugin {name}: {identity}: {reason}"))?;
        }
        self.sharing.keep_instance(snapshot, owner, &instance, version);
        Ok(Some(instance))
    }

    /// The script of a route as the one instance of its chain.
    ///
    /// # Errors
    /// Why it cannot be built.
    pub(super) fn script_instance(
        &mut self,
        snapshot: &Snapshot,
        owner: &ObjectKey,
        source: &str,
    ) -> Result<Arc<PluginInstance>, String> {
        let parts = PluginBuildContext::new(self, snapshot);
        let owner = owner.path();
        let build = Build {
            owner: &owner,
            metadata: None,
            states: parts.states,
            services: parts.services,
            assembly: &parts,
            depth: 0,
        };
        let built = required(parts.scripts).and_then(|scripts| scripts.script(&build, source));
        let number = parts.number.get().wrapping_add(1);
        self.next_instance = number;
        let (phases, plugin) = built.map_err(|reason| format!("failed to load script: {reason}"))?;
        if !self.is_trial {
            plugin.start();
        }
        Ok(Arc::new(PluginInstance {
            name: "script",
            priority: 0,
            phases,
            prefer_route: false,
            number,
            filter: None,
            reads_body: plugin.reads_body_in_rewrite(),
            error_response: None,
            plugin,
        }))
    }

    /// As [`SnapshotCompiler::instance`] for layer 4; nothing also if the plugin is for HTTP alone.
    ///
    /// # Errors
    /// Why it cannot be built.
    pub(super) fn stream_instance(
        &mut self,
        snapshot: &Snapshot,
        owner: &ObjectKey,
        name: &str,
        config: &Value,
    ) -> Result<Option<StreamInstance>, String> {
        let parts = PluginBuildContext::new(self, snapshot);
        let Some(instance) = parts.stream_instance(&owner.path(), name, config)? else { return Ok(None) };
        for (identity, written) in parts.upstreams.into_inner() {
            let compiled = self.compile_plugin_upstream(snapshot, &identity, &written);
            compiled.map_err(|reason| format!("plugin {name}: {identity}: {reason}"))?;
        }
        if !self.is_trial {
            instance.plugin.start();
        }
        Ok(Some(instance))
    }

    /// The protocol `kind` of a stream route, with `settings`.
    ///
    /// # Errors
    /// Why it cannot be built.
    pub(super) fn stream_protocol(
        &self,
        snapshot: &Snapshot,
        owner: &ObjectKey,
        kind: &ProtocolKind,
        settings: &ProtocolSettings<'_>,
    ) -> Result<Arc<dyn StreamProtocol>, String> {
        let (parts, owner) = (PluginBuildContext::new(self, snapshot), owner.path());
        let build = Build {
            owner: &owner,
            metadata: None,
            states: parts.states,
            services: parts.services,
            assembly: &parts,
            depth: 0,
        };
        (kind.build)(&build, settings)
    }

    /// The values behind references in configurations of plugins.
    fn plugin_secrets(&self) -> &dyn SecretValues {
        if self.is_trial { &reference::HiddenValues } else { &*self.secrets }
    }

    /// A number that changes when the values behind the references of the same texts change.
    fn secrets_version(&self, snapshot: &Snapshot, name: &str, config: &Value) -> u64 {
        let version = |config: &Value| reference::resolve(config, self.plugin_secrets()).version;
        version(config) ^ metadata(snapshot, name).map_or(0, version).rotate_left(1)
    }
}

/// The parts of a compiler that plugins are built with, and what they register while they are built.
struct PluginBuildContext<'c> {
    kinds: &'c FastMap<&'static str, &'static PluginKind>,
    fixed: &'c FixedExtensions,
    states: &'c StateRegistry,
    services: &'c Services,
    secrets: &'c dyn SecretValues,
    scripts: Option<&'c Arc<dyn Scripts>>,
    snapshot: &'c Snapshot,
    /// Whether the instances do not come into force.
    is_trial: bool,
    /// The number of the last instance.
    number: Cell<u32>,
    /// Upstreams that the plugins hold in their configurations.
    upstreams: RefCell<Vec<(Arc<str>, UpstreamConfig)>>,
}

impl<'c> PluginBuildContext<'c> {
    fn new(compiler: &'c SnapshotCompiler, snapshot: &'c Snapshot) -> PluginBuildContext<'c> {
        PluginBuildContext {
            kinds: &compiler.kinds,
            fixed: &compiler.fixed,
            states: &compiler.states,
            services: &compiler.services,
            secrets: compiler.plugin_secrets(),
            scripts: compiler.scripts.as_ref(),
            is_trial: compiler.is_trial,
            snapshot,
            number: Cell::new(compiler.next_instance),
            upstreams: RefCell::default(),
        }
    }

    /// A new instance of plugin `name`, which stands inside `depth` others.
    fn instance(
        &self,
        owner: &str,
        depth: u8,
        name: &str,
        config: &Value,
    ) -> Result<Option<Arc<PluginInstance>>, String> {
        let Some(prepared) = self.prepare(owner, name, config)? else { return Ok(None) };
        let Prepared { source, meta, filter, .. } = &prepared;
        let plugin = source.build(&prepared.build(self, depth), &prepared.config);
        let plugin = plugin.map_err(|reason| format!("plugin {name}: {reason}"))?;
        let plugin = match meta.pre_function {
            Some(text) => {
                let build = prepared.build(self, depth);
                let scripts = required(self.scripts);
                scripts
                    .and_then(|scripts| scripts.before(&build, source.name(), &prepared.config, text, plugin))
                    .map_err(|reason| {
                        format!("failed to load _meta.pre_function in plugin {name}: {reason}")
                    })?
            }
            None => plugin,
        };
        if !self.is_trial {
            plugin.start();
        }
        self.number.set(self.number.get().wrapping_add(1));
        Ok(Some(Arc::new(PluginInstance {
            name: source.name(),
            priority: meta.priority.unwrap_or_else(|| source.priority()),
            phases: source.phases(),
            prefer_route: source.prefers_route(),
            number: self.number.get(),
            filter: filter.clone(),
            reads_body: plugin.reads_body_in_rewrite()
                || names_body(&prepared.config)
                || prepared.metadata.as_ref().is_some_and(names_body),
            error_response: meta.error_response.map(ErrorResponse::new),
            plugin,
        })))
    }

    /// A new instance of plugin `name` for layer 4.
    fn stream_instance(
        &self,
        owner: &str,
        name: &str,
        config: &Value,
    ) -> Result<Option<StreamInstance>, String> {
        let Some(prepared) = self.prepare(owner, name, config)? else { return Ok(None) };
        let Prepared { source, meta, filter, .. } = &prepared;
        let phases = source.stream_phases();
        if phases.is_empty() {
            return Ok(None);
        }
        let plugin = source
            .build_stream(&prepared.build(self, 0), &prepared.config)
            .map_err(|reason| format!("plugin {name}: {reason}"))?;
        Ok(Some(StreamInstance {
            name: source.name(),
            priority: meta.priority.unwrap_or_else(|| source.priority()),
            phases,
            filter: filter.clone(),
            plugin,
        }))
    }

    /// The plugin of that name.
    fn source(&self, name: &str) -> Option<PluginSource<'c>> {
        let kind = self.kinds.get(name).copied().map(PluginSource::Kind);
        kind.or_else(|| {
            extension::find_served_versions(self.fixed, self.snapshot, name).map(PluginSource::Extension)
        })
    }

    fn prepare<'a>(&self, owner: &str, name: &str, config: &'a Value) -> Result<Option<Prepared<'a>>, String>
    where
        'c: 'a,
    {
        let meta = PluginMeta::of(config);
        if meta.disable {
            return Ok(None);
        }
        let source = self.source(name).ok_or_else(|| format!("unknown plugin [{name}]"))?;
        let owner = owner.to_owned();
        let resolved = reference::resolve(config, self.secrets);
        if resolved.incomplete {
            let faults = reference::require_secrets(&source.schema(), &resolved.config);
            faults.map_err(|reason| format!("plugin {name}: {reason}"))?;
        }
        let config = resolved.config;
        let metadata = metadata(self.snapshot, name)
            .map(|written| reference::resolve(written, self.secrets).config.into_owned());
        let filter = meta.filter.map(Expression::compile).transpose();
        let filter = filter.map_err(|error| format!("plugin {name}: _meta.filter: {error}"))?;
        Ok(Some(Prepared { source, meta, owner, config, metadata, filter }))
    }
}

impl Assembly for PluginBuildContext<'_> {
    fn plugin(
        &self,
        owner: &str,
        depth: u8,
        name: &str,
        config: &Value,
    ) -> Result<Option<Arc<PluginInstance>>, String> {
        let source = self.source(name).ok_or_else(|| format!("unknown plugin [{name}]"))?;
        source.check(config)?;
        self.instance(owner, depth, name, config)
    }

    fn knows(&self, name: &str) -> bool {
        self.source(name).is_some()
    }

    fn endpoints(&self) -> Vec<LoadedEndpoint> {
        extension::endpoints(self.fixed, self.snapshot)
    }

    fn proto(&self, id: &str) -> Option<&str> {
        proto(self.snapshot, id)
    }

    fn contract(&self, id: &str) -> Option<Arc<ContractDocument>> {
        contract_document(self.snapshot, id)
    }

    fn upstream(&self, identity: &Arc<str>, written: &Value) -> Result<(), String> {
        let written = UpstreamConfig::deserialize(written).map_err(|error| error.to_string())?;
        self.upstreams.borrow_mut().push((identity.clone(), written));
        Ok(())
    }
}

impl Prepared<'_> {
    fn build<'b>(&'b self, parts: &'b PluginBuildContext<'b>, depth: u8) -> Build<'b> {
        Build {
            owner: &self.owner,
            metadata: self.metadata.as_ref(),
            states: parts.states,
            services: parts.services,
            assembly: parts,
            depth,
        }
    }
}

/// A number that changes when the proto that a configuration names changes.
fn proto_version(snapshot: &Snapshot, config: &Value) -> u64 {
    let id = config.get("proto_id").and_then(|id| Id::deserialize(id).ok());
    let mut hasher = DefaultHasher::new();
    id.and_then(|id| proto(snapshot, id.as_str())).hash(&mut hasher);
    hasher.finish()
}

/// A number that changes when the document of the contract that a configuration names changes.
fn contract_version(snapshot: &Snapshot, config: &Value) -> u64 {
    let id = config.get(CONTRACT_ID_FIELD).and_then(|id| Id::deserialize(id).ok());
    let document = id.and_then(|id| contract_document(snapshot, id.as_str()));
    // The document lives as long as the instances that were made of it.
    document.map_or(0, |document| Arc::as_ptr(&document) as u64)
}

/// The document of a contract in force.
fn contract_document(snapshot: &Snapshot, id: &str) -> Option<Arc<ContractDocument>> {
    let key = ObjectKey::new(model::ObjectKind::Contract, id).ok()?;
    match &snapshot.get(&key)?.resource {
        Resource::Contract(contract) => contract.routes.document.clone(),
        _ => None,
    }
}

/// The content of a proto.
fn proto<'s>(snapshot: &'s Snapshot, id: &str) -> Option<&'s str> {
    let key = ObjectKey::new(model::ObjectKind::Proto, id).ok()?;
    match &snapshot.get(&key)?.resource {
        Resource::Proto(proto) => Some(&proto.content),
        _ => None,
    }
}

fn metadata<'s>(snapshot: &'s Snapshot, plugin: &str) -> Option<&'s Value> {
    let key = ObjectKey::new(model::ObjectKind::PluginMetadata, plugin).ok()?;
    match &snapshot.get(&key)?.resource {
        Resource::PluginMetadata(metadata) => Some(&metadata.value),
        _ => None,
    }
}

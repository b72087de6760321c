//! Plugin instances from their configurations, for HTTP and for layer 4.

use std::borrow::Cow;
use std::sync::Arc;

use model::Key;
use model::resource::{Meta, Resource};
use model::snapshot::Snapshot;
use router::vars::Expression;
use serde_json::Value;

use super::body_variables::names_body;
use super::{Compiler, reference};
use exchange::plugin::chain::{ErrorResponse, Instance};
use exchange::plugin::stream::chain::StreamInstance;
use exchange::plugin::{Build, PluginKind};

/// A plugin as it is written, with everything that building it needs.
struct Prepared<'a> {
    kind: &'static PluginKind,
    meta: Meta<'a>,
    owner: String,
    config: Cow<'a, Value>,
    metadata: Option<Value>,
    filter: Option<Expression>,
}

impl Compiler {
    /// The instance of plugin `name` with `config`, written in `owner`: the one that is in use if nothing it was made of
    /// has changed. Nothing if it is switched off.
    ///
    /// # Errors
    /// Why it cannot be built.
    pub(super) fn instance(
        &mut self,
        snapshot: &Snapshot,
        owner: &Key,
        name: &str,
        config: &Value,
    ) -> Result<Option<Arc<Instance>>, String> {
        let kind = self.kinds.get(name).copied();
        let version = self.secrets_version(snapshot, name, config);
        if let Some(shared) = kind.and_then(|kind| self.sharing.instance(snapshot, owner, kind.name, version))
        {
            return Ok(Some(shared));
        }
        let Some(prepared) = self.prepare(snapshot, owner, name, config)? else { return Ok(None) };
        let Prepared { kind, meta, filter, .. } = &prepared;
        let plugin = (kind.build)(&prepared.build(self), &prepared.config)
            .map_err(|reason| format!("plugin {name}: {reason}"))?;
        plugin.start();
        self.next_instance = self.next_instance.wrapping_add(1);
        let instance = Arc::new(Instance {
            name: kind.name,
            priority: meta.priority.unwrap_or(i64::from(kind.priority)),
            phases: kind.phases,
            prefer_route: kind.prefer_route,
            number: self.next_instance,
            filter: filter.clone(),
            reads_body: names_body(&prepared.config) || prepared.metadata.as_ref().is_some_and(names_body),
            error_response: meta.error_response.map(ErrorResponse::new),
            plugin,
        });
        self.sharing.keep_instance(snapshot, owner, &instance, version);
        Ok(Some(instance))
    }

    /// As [`Compiler::instance`] for layer 4; nothing also if the plugin is for HTTP alone.
    ///
    /// # Errors
    /// Why it cannot be built.
    pub(super) fn stream_instance(
        &mut self,
        snapshot: &Snapshot,
        owner: &Key,
        name: &str,
        config: &Value,
    ) -> Result<Option<StreamInstance>, String> {
        let Some(prepared) = self.prepare(snapshot, owner, name, config)? else { return Ok(None) };
        let Prepared { kind, meta, filter, .. } = &prepared;
        let Some(stream) = &kind.stream else { return Ok(None) };
        let plugin = (stream.build)(&prepared.build(self), &prepared.config)
            .map_err(|reason| format!("plugin {name}: {reason}"))?;
        plugin.start();
        Ok(Some(StreamInstance {
            name: kind.name,
            priority: meta.priority.unwrap_or(i64::from(kind.priority)),
            phases: stream.phases,
            filter: filter.clone(),
            plugin,
        }))
    }

    /// What tells a plugin's instance from one of the same texts with other values behind their references.
    fn secrets_version(&self, snapshot: &Snapshot, name: &str, config: &Value) -> u64 {
        let version = |config: &Value| reference::resolve(config, &*self.secrets).version;
        version(config) ^ metadata(snapshot, name).map_or(0, version).rotate_left(1)
    }

    fn prepare<'a>(
        &self,
        snapshot: &Snapshot,
        owner: &Key,
        name: &str,
        config: &'a Value,
    ) -> Result<Option<Prepared<'a>>, String> {
        let meta = Meta::of(config);
        if meta.disable {
            return Ok(None);
        }
        let kind: &'static PluginKind =
            self.kinds.get(name).copied().ok_or_else(|| format!("unknown plugin [{name}]"))?;
        let owner = owner.path();
        let config = reference::resolve(config, &*self.secrets).config;
        let metadata = metadata(snapshot, name)
            .map(|written| reference::resolve(written, &*self.secrets).config.into_owned());
        let filter = meta.filter.map(Expression::compile).transpose();
        let filter = filter.map_err(|error| format!("plugin {name}: _meta.filter: {error}"))?;
        Ok(Some(Prepared { kind, meta, owner, config, metadata, filter }))
    }
}

impl Prepared<'_> {
    fn build<'b>(&'b self, compiler: &'b Compiler) -> Build<'b> {
        Build {
            owner: &self.owner,
            metadata: self.metadata.as_ref(),
            states: &compiler.states,
            services: &compiler.services,
        }
    }
}

fn metadata<'s>(snapshot: &'s Snapshot, plugin: &str) -> Option<&'s Value> {
    let key = Key::new(model::Kind::PluginMetadata, plugin).ok()?;
    match &snapshot.get(&key)?.resource {
        Resource::PluginMetadata(metadata) => Some(&metadata.value),
        _ => None,
    }
}

//! Plugin instances from their configurations.

use std::sync::Arc;

use model::Key;
use model::resource::{Meta, Resource};
use model::snapshot::Snapshot;
use router::vars::Expression;
use serde_json::Value;

use super::{Compiler, reference};
use crate::plugin::chain::{ErrorResponse, Instance, kind_named};
use crate::plugin::{Build, PluginKind};

impl Compiler {
    /// The instance of plugin `name` with `config`, written in `owner`; nothing if it is switched off.
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
        let meta = Meta::of(config);
        if meta.disable {
            return Ok(None);
        }
        let kind: &'static PluginKind =
            kind_named(self.kinds, name).ok_or_else(|| format!("unknown plugin [{name}]"))?;
        let owner = owner.path();
        let config = reference::resolve(config, &owner, self.environment);
        let metadata = metadata(snapshot, name);
        let metadata = metadata.as_ref().map(|written| reference::resolve(written, name, self.environment));
        let build = Build { owner: &owner, metadata: metadata.as_deref(), states: &self.states };
        let plugin = (kind.build)(&build, &config).map_err(|reason| format!("plugin {name}: {reason}"))?;
        let filter = meta.filter.map(Expression::compile).transpose();
        let filter = filter.map_err(|error| format!("plugin {name}: _meta.filter: {error}"))?;
        plugin.start();
        self.next_instance = self.next_instance.wrapping_add(1);
        Ok(Some(Arc::new(Instance {
            name: kind.name,
            priority: meta.priority.unwrap_or(i64::from(kind.priority)),
            phases: kind.phases,
            prefer_route: kind.prefer_route,
            number: self.next_instance,
            filter,
            error_response: meta.error_response.map(ErrorResponse::new),
            plugin,
        })))
    }
}

fn metadata(snapshot: &Snapshot, plugin: &str) -> Option<Value> {
    let key = Key::new(model::Kind::PluginMetadata, plugin).ok()?;
    match &snapshot.get(&key)?.resource {
        Resource::PluginMetadata(metadata) => Some(metadata.value.clone()),
        _ => None,
    }
}

//! Everything that an instance is built with, other instances and upstreams of its own among it.

use std::sync::Arc;

use contract::ContractDocument;
use model::loaded_endpoint::LoadedEndpoint;
use serde_json::Value;

use super::chain::PluginInstance;
use super::phase::Plugin;
use super::upstream_ref::UpstreamRef;
use super::{services, state};

/// Compiles a configuration that was checked; the error is a sentence.
pub type BuildPlugin = fn(&Build<'_>, &Value) -> Result<Arc<dyn Plugin>, String>;

/// Plugins inside plugins, the outermost included. A configuration is at most as deep as its schema allows;
/// this holds where a schema refers to itself.
pub const NESTED_MAX: u8 = 4;

/// Everything that an instance is built with.
pub struct Build<'a> {
    /// The object it stands in, such as `/routes/1`; inside another plugin, with that plugin's label:
    /// `/routes/1#rules/0`.
    pub owner: &'a str,
    /// The plugin's metadata, if there is any.
    pub metadata: Option<&'a Value>,
    /// State that outlives configuration changes.
    pub states: &'a state::StateRegistry,
    /// Calls to other peers, and queues.
    pub services: &'a services::Services,
    /// The compiler of the configuration.
    pub assembly: &'a dyn Assembly,
    /// How many plugins this one stands inside.
    pub depth: u8,
}

/// The compiler, as far as a plugin needs it to build parts of its own.
pub trait Assembly {
    /// Builds an instance of the plugin `name` as a part of another one; nothing if `_meta.disable` switches
    /// it off.
    ///
    /// # Errors
    /// Why it cannot be built, a sentence.
    fn plugin(
        &self,
        owner: &str,
        depth: u8,
        name: &str,
        config: &Value,
    ) -> Result<Option<Arc<PluginInstance>>, String>;

    /// Whether there is a plugin `name` that may be used here.
    fn knows(&self, _name: &str) -> bool {
        false
    }

    /// The endpoints for clients of all extensions, for kinds that are built
    /// [with them](super::PluginKind::opening_endpoints).
    fn endpoints(&self) -> Vec<LoadedEndpoint> {
        Vec::new()
    }

    /// The content of the `protos` object `id`; none if there is none.
    fn proto(&self, _id: &str) -> Option<&str> {
        None
    }

    /// The document of the contract `id`; none if there is none in force.
    fn contract(&self, _id: &str) -> Option<Arc<ContractDocument>> {
        None
    }

    /// Compiles an upstream under the name `identity`.
    ///
    /// # Errors
    /// Why `written` is no upstream, a sentence.
    fn upstream(&self, identity: &Arc<str>, written: &Value) -> Result<(), String>;
}

impl Build<'_> {
    /// Builds an instance of the plugin `name` inside this one. `label` tells it from others inside this one:
    /// its state over configuration changes is kept under it. Nothing if it is switched off.
    ///
    /// # Errors
    /// When there is no such plugin, it cannot be built, or more than [`NESTED_MAX`] plugins stand inside
    /// each other.
    pub fn plugin(
        &self,
        label: &str,
        name: &str,
        config: &Value,
    ) -> Result<Option<Arc<PluginInstance>>, String> {
        let depth = self.depth + 1;
        if depth >= NESTED_MAX {
            return Err(format!("{label}: more than {NESTED_MAX} plugins inside each other"));
        }
        let owner = format!("{}#{label}", self.owner);
        self.assembly.plugin(&owner, depth, name, config).map_err(|reason| format!("{label}: {reason}"))
    }

    /// The content of the object of the kind `protos` that the configuration names in a field `proto_id`: a
    /// change of it builds the kinds that [check protos](super::PluginKind::checking_protos) anew. None if
    /// there is no such object.
    pub fn proto(&self, id: &str) -> Option<&str> {
        self.assembly.proto(id)
    }

    /// Compiles the upstream `written` in this plugin's configuration. `label` tells it from others there:
    /// its connections and balancers survive configuration changes under it.
    ///
    /// # Errors
    /// Why it is no upstream, a sentence.
    pub fn upstream(&self, label: &str, written: &Value) -> Result<UpstreamRef, String> {
        let identity: Arc<str> = format!("{}#{label}", self.owner).into();
        self.assembly.upstream(&identity, written).map_err(|reason| format!("{label}: {reason}"))?;
        Ok(UpstreamRef::held(identity))
    }
}

//! The declaration of a plugin: data, and how to build an instance.

use std::any::Any;
use std::sync::Arc;

use message::Method;
use model::catalog::{
    CheckContract, CheckProto, CheckRunning, CheckWithMetadata, PluginInfo, RunPolicy, Subsystem,
};
use model::control_endpoint::ControlEndpoint;
use serde_json::Value;

use super::build::BuildPlugin;
use super::phase_name::PluginPhase;
use super::state::StateRegistry;
use super::stream;

/// A check of a configuration against the state of running instances; the error is a sentence.
pub type CheckAmong = fn(&StateRegistry, &Value) -> Result<(), String>;

/// An endpoint of a plugin. It is reached only through a route with `public-api`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginApi {
    /// The method.
    pub method: Method,
    /// The path; one that ends in `/*` stands for all that begin with it.
    pub path: &'static str,
}

impl PluginApi {
    /// Whether a request with this method and path is for the endpoint.
    pub fn is_asked(&self, method: Method, path: &[u8]) -> bool {
        let is_path = match self.path.strip_suffix('*') {
            Some(start) => path.starts_with(start.as_bytes()),
            None => path == self.path.as_bytes(),
        };
        is_path && self.method == method
    }
}

/// Compiles a consumer's checked configuration once, for use at each request; the error is a sentence.
pub type CompileCredential = fn(&Value) -> Result<Arc<dyn Any + Send + Sync>, String>;

/// The declaration in a plugin's file: its name, order, phases, schemas, and how to build an instance.
pub struct PluginKind {
    /// The name users write.
    pub name: &'static str,
    /// Where it runs among the others: higher first.
    pub priority: i32,
    /// The phases it takes part in.
    pub phases: &'static [PluginPhase],
    /// Whether it authenticates consumers.
    pub auth: bool,
    /// Whether the copy of a global rule is skipped where the route has its own (contract section 2.5).
    pub prefer_route: bool,
    /// The JSON Schema of its configuration on routes, services, plugin configs, consumer groups and global
    /// rules.
    pub schema: fn() -> Value,
    /// The JSON Schema of its configuration on consumers and credentials, for authentication plugins.
    pub consumer_schema: Option<fn() -> Value>,
    /// The JSON Schema of its metadata.
    pub metadata_schema: Option<fn() -> Value>,
    /// Checks a configuration that the schema accepts, by rules that a schema cannot express.
    pub check: fn(&Value) -> Result<(), String>,
    /// Checks a configuration against the state of running instances, for rules that hold among them.
    pub check_running: Option<CheckAmong>,
    /// Checks a consumer's configuration as [`PluginKind::check`] does a route's.
    pub check_consumer: fn(&Value) -> Result<(), String>,
    /// Checks metadata as [`PluginKind::check`] does a route's configuration.
    pub check_metadata: fn(&Value) -> Result<(), String>,
    /// Checks a configuration together with the metadata, for what either may hold.
    pub check_with_metadata: CheckWithMetadata,
    /// Whether it is for all requests, whatever object names it.
    pub is_global: bool,
    /// Checks a configuration on a stream route, behind `check`.
    pub check_stream: fn(&Value) -> Result<(), String>,
    /// Checks the content of an object of the kind `protos`, for a kind that is built with them.
    pub check_proto: Option<CheckProto>,
    /// Checks the document of a contract, for the kind that serves them.
    pub check_contract: Option<CheckContract>,
    /// The fields of a consumer's configuration that find the consumer (`key` of `key-auth`), for
    /// authentication plugins. Of more than one field, all values together are the key (see
    /// [`model::catalog::consumer_key`]).
    pub consumer_key: &'static [&'static str],
    /// Compiles a consumer's configuration into [`Consumer::compiled`](crate::exchange::Consumer::compiled).
    pub compile_credential: Option<CompileCredential>,
    /// Compiles a checked configuration.
    pub build: BuildPlugin,
    /// Its part at layer 4; none if it is for HTTP alone.
    pub stream: Option<stream::StreamKind>,
    /// Whether it is for HTTP too.
    pub serves_http: bool,
    /// Its endpoints, which a route with `public-api` serves.
    pub apis: &'static [PluginApi],
    /// Its endpoints in the control API.
    pub control_endpoints: &'static [ControlEndpoint],
    /// Other plugins that its instances are built with, and so with their metadata: a change of it builds
    /// them anew.
    pub parts: &'static [&'static str],
    /// Whether its instances are built with the endpoints of extensions: a change of one builds them anew.
    pub opens_endpoints: bool,
    /// Whether its metadata, where there are some, make an instance that stands in no object.
    pub runs_by_metadata: bool,
    /// The module documentation, for the reference page.
    pub documentation: &'static str,
}

impl PluginKind {
    /// A kind for HTTP that has no metadata, authenticates no consumer, and checks nothing beyond its schema.
    pub const fn new(
        name: &'static str,
        priority: i32,
        phases: &'static [PluginPhase],
        schema: fn() -> Value,
        build: BuildPlugin,
    ) -> PluginKind {
        PluginKind {
            name,
            priority,
            phases,
            auth: false,
            prefer_route: false,
            schema,
            consumer_schema: None,
            metadata_schema: None,
            check: |_| Ok(()),
            check_running: None,
            check_consumer: |_| Ok(()),
            check_metadata: |_| Ok(()),
            check_with_metadata: |_, _| Ok(()),
            is_global: false,
            check_stream: |_| Ok(()),
            check_proto: None,
            check_contract: None,
            consumer_key: &[],
            compile_credential: None,
            build,
            stream: None,
            serves_http: true,
            apis: &[],
            control_endpoints: &[],
            parts: &[],
            opens_endpoints: false,
            runs_by_metadata: false,
            documentation: "",
        }
    }

    /// A kind for layer 4 alone, which is unknown on routes of HTTP.
    pub const fn for_streams(
        name: &'static str,
        priority: i32,
        schema: fn() -> Value,
        stream: stream::StreamKind,
    ) -> PluginKind {
        let refuse: BuildPlugin = |_, _| Err("the plugin is for stream routes alone".to_owned());
        PluginKind {
            stream: Some(stream),
            serves_http: false,
            ..PluginKind::new(name, priority, &[], schema, refuse)
        }
    }

    /// Runs as long as there are metadata of it: then an instance is built with an empty configuration, of
    /// which the owner is the metadata (`/plugin_metadata/NAME`).
    #[must_use]
    pub const fn running_by_metadata(self) -> PluginKind {
        PluginKind { runs_by_metadata: true, ..self }
    }

    /// Checks what the schema cannot express with `check`.
    #[must_use]
    pub const fn checked(self, check: fn(&Value) -> Result<(), String>) -> PluginKind {
        PluginKind { check, ..self }
    }

    /// Checks with `check` what must hold among running instances. The build must refuse the same, because
    /// the state may differ by then.
    #[must_use]
    pub const fn checked_with_running(self, check: CheckAmong) -> PluginKind {
        PluginKind { check_running: Some(check), ..self }
    }

    /// Checks what the schema of consumers cannot express with `check`.
    #[must_use]
    pub const fn checked_on_consumers(self, check: fn(&Value) -> Result<(), String>) -> PluginKind {
        PluginKind { check_consumer: check, ..self }
    }

    /// Checks with `check` what is allowed elsewhere and not on stream routes.
    #[must_use]
    pub const fn checked_on_streams(self, check: fn(&Value) -> Result<(), String>) -> PluginKind {
        PluginKind { check_stream: check, ..self }
    }

    /// Checks what the schema of the metadata cannot express with `check`.
    #[must_use]
    pub const fn checked_metadata(self, check: fn(&Value) -> Result<(), String>) -> PluginKind {
        PluginKind { check_metadata: check, ..self }
    }

    /// Checks with `check` what the configuration or the metadata must hold. The build must refuse the same,
    /// because the metadata may be gone by then.
    #[must_use]
    pub const fn checked_with_metadata(self, check: CheckWithMetadata) -> PluginKind {
        PluginKind { check_with_metadata: check, ..self }
    }

    /// Is for all requests, whatever object names it.
    #[must_use]
    pub const fn global(self) -> PluginKind {
        PluginKind { is_global: true, ..self }
    }

    /// Is built with objects of the kind `protos`, of which `check` checks the content: the error is a
    /// sentence with the line.
    #[must_use]
    pub const fn checking_protos(self, check: CheckProto) -> PluginKind {
        PluginKind { check_proto: Some(check), ..self }
    }

    /// Serves contracts, and checks the document of each with `check`.
    #[must_use]
    pub const fn checking_contracts(self, check: CheckContract) -> PluginKind {
        PluginKind { check_contract: Some(check), ..self }
    }

    /// Authenticates consumers: their configurations have this schema, and the values of the fields `key`
    /// find the consumer.
    #[must_use]
    pub const fn authenticates(
        self,
        consumer_schema: fn() -> Value,
        key: &'static [&'static str],
    ) -> PluginKind {
        PluginKind { auth: true, consumer_schema: Some(consumer_schema), consumer_key: key, ..self }
    }

    /// Is an authentication plugin without configurations of consumers, because it asks other plugins or a
    /// server.
    #[must_use]
    pub const fn authenticates_without_consumers(self) -> PluginKind {
        PluginKind { auth: true, ..self }
    }

    /// Compiles consumers' configurations with `compile` when they come into force. A consumer with one that
    /// cannot be compiled is not found by it, and the reason is a fault of the consumer.
    #[must_use]
    pub const fn compiling_credentials(self, compile: CompileCredential) -> PluginKind {
        PluginKind { compile_credential: Some(compile), ..self }
    }

    /// Has metadata of this schema.
    #[must_use]
    pub const fn with_metadata(self, schema: fn() -> Value) -> PluginKind {
        PluginKind { metadata_schema: Some(schema), ..self }
    }

    /// Skips the copy of a global rule where the route has its own (contract section 2.5).
    #[must_use]
    pub const fn prefers_route(self) -> PluginKind {
        PluginKind { prefer_route: true, ..self }
    }

    /// Serves layer 4 as well.
    #[must_use]
    pub const fn on_streams(self, stream: stream::StreamKind) -> PluginKind {
        PluginKind { stream: Some(stream), ..self }
    }

    /// Has these endpoints; [`Plugin::api`](super::Plugin::api) serves them.
    #[must_use]
    pub const fn with_apis(self, apis: &'static [PluginApi]) -> PluginKind {
        PluginKind { apis, ..self }
    }

    /// Has these endpoints in the control API.
    #[must_use]
    pub const fn with_control_endpoints(self, endpoints: &'static [ControlEndpoint]) -> PluginKind {
        PluginKind { control_endpoints: endpoints, ..self }
    }

    /// Is built with instances of these plugins.
    #[must_use]
    pub const fn with_parts(self, parts: &'static [&'static str]) -> PluginKind {
        PluginKind { parts, ..self }
    }

    /// Is built with the endpoints of extensions.
    #[must_use]
    pub const fn opening_endpoints(self) -> PluginKind {
        PluginKind { opens_endpoints: true, ..self }
    }

    /// Has this source text; its module documentation is the plugin's reference page.
    #[must_use]
    pub const fn documented(self, documentation: &'static str) -> PluginKind {
        PluginKind { documentation, ..self }
    }

    /// The kind as the catalog shows it to the control side: data, and no way to run it.
    pub fn info(&self) -> PluginInfo {
        PluginInfo {
            phases: self.phases.iter().filter_map(|phase| phase.contract_name()).collect(),
            subsystems: match (&self.stream, self.serves_http) {
                (Some(_), true) => &[Subsystem::Http, Subsystem::Stream],
                (Some(_), false) => &[Subsystem::Stream],
                (None, _) => &[Subsystem::Http],
            },
            is_auth: self.auth,
            run_policy: if self.prefer_route { RunPolicy::PreferRoute } else { RunPolicy::Both },
            consumer_schema: self.consumer_schema.map(|schema| schema().into()),
            metadata_schema: self.metadata_schema.map(|schema| schema().into()),
            consumer_key: self.consumer_key,
            check: self.check,
            check_consumer: self.check_consumer,
            check_metadata: self.check_metadata,
            check_with_metadata: self.check_with_metadata,
            is_global: self.is_global,
            check_stream: self.check_stream,
            control_endpoints: self.control_endpoints,
            check_proto: self.check_proto,
            check_contract: self.check_contract,
            ..PluginInfo::new(self.name, i64::from(self.priority), (self.schema)())
        }
    }

    /// As [`PluginKind::info`], with the check against the running instances that keep their state in
    /// `states`.
    pub fn info_with(&self, states: &Arc<StateRegistry>) -> PluginInfo {
        let running = self.check_running.map(|check| {
            let states = Arc::clone(states);
            Arc::new(move |config: &Value| check(&states, config)) as CheckRunning
        });
        PluginInfo { check_running: running, ..self.info() }
    }
}

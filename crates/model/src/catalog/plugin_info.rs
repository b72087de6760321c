//! A plugin as control and the checks see it: its name, its schemas and its rules, as data. It holds no
//! compiled schema.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use contract::{ContractDocument, DocumentFault};
use serde_json::Value;

use crate::control_endpoint::ControlEndpoint;
use crate::loaded_endpoint::LoadedEndpoint;

/// A plugin's own check of a configuration that its schema has let through; the error is a sentence.
pub type PluginCheck = fn(&Value) -> Result<(), String>;

/// A check of a configuration together with the plugin's metadata, where there are any; the error is a
/// sentence.
pub type CheckWithMetadata = fn(&Value, Option<&Value>) -> Result<(), String>;

/// A plugin's check of the content of a proto; the error is a sentence.
pub type CheckProto = fn(&str) -> Result<(), String>;

/// A plugin's check of the document of a contract; the error has the place.
pub type CheckContract = fn(&ContractDocument) -> Result<(), DocumentFault>;

/// A check of a configuration that holds values of its own, such as the instances that are running or loaded
/// code; the error is a sentence.
pub type CheckRunning = Arc<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

/// Which of a plugin's schemas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SchemaType {
    /// On routes, services, plugin configs, global rules and consumer groups.
    #[default]
    Plugin,
    /// On consumers and credentials.
    Consumer,
    /// As the plugin's metadata.
    Metadata,
}

impl SchemaType {
    /// The type that `?schema_type=` names; none for an unknown name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<SchemaType> {
        match name {
            "" | "plugin" => Some(SchemaType::Plugin),
            "consumer" => Some(SchemaType::Consumer),
            "metadata" => Some(SchemaType::Metadata),
            _ => None,
        }
    }
}

/// The traffic that a plugin serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Subsystem {
    /// HTTP requests.
    #[default]
    Http,
    /// Layer 4 connections.
    Stream,
}

/// The rule for a plugin that is both in a global rule and on the route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunPolicy {
    /// Both run.
    #[default]
    Both,
    /// Only the route's runs.
    PreferRoute,
}

/// A plugin as control and the checks see it.
#[derive(Clone)]
pub struct PluginInfo {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Higher runs first.
    pub priority: i64,
    /// Its version, as the control API shows it.
    pub version: Cow<'static, str>,
    /// The phases it takes part in.
    pub phases: Vec<&'static str>,
    /// The traffic that it serves.
    pub subsystems: &'static [Subsystem],
    /// Whether it authenticates the caller (`"type": "auth"`).
    pub is_auth: bool,
    /// The rule for where a global rule and the route both have it.
    pub run_policy: RunPolicy,
    /// The JSON Schema of its configuration.
    pub schema: Arc<Value>,
    /// The JSON Schema of its configuration on a consumer; none: as elsewhere.
    pub consumer_schema: Option<Arc<Value>>,
    /// The JSON Schema of its metadata; none: anything.
    pub metadata_schema: Option<Arc<Value>>,
    /// The fields that tell consumers apart (`key` of `key-auth`): no two consumers may have the same values
    /// of all of them. Empty: it authenticates none.
    pub consumer_key: &'static [&'static str],
    /// Its own check of a configuration.
    pub check: PluginCheck,
    /// Its own check of a configuration on a stream route, behind that of any place.
    pub check_stream: PluginCheck,
    /// Its check against running instances, or by loaded code; none: it has no such rule, or nothing runs
    /// here.
    pub check_running: Option<CheckRunning>,
    /// Its own check of a configuration on a consumer.
    pub check_consumer: PluginCheck,
    /// Its own check of its metadata.
    pub check_metadata: PluginCheck,
    /// Its check of a configuration together with its metadata, for what either may hold.
    pub check_with_metadata: CheckWithMetadata,
    /// Whether it is for all requests, whatever object names it (`"scope": "global"`).
    pub is_global: bool,
    /// Its endpoints in the control API.
    pub control_endpoints: &'static [ControlEndpoint],
    /// Endpoints in the control API that its loaded code has.
    pub loaded_endpoints: Arc<[LoadedEndpoint]>,
    /// Its check of the content of a proto, if it reads them; the error is a sentence.
    pub check_proto: Option<CheckProto>,
    /// Its check of the document of a contract, if it serves them.
    pub check_contract: Option<CheckContract>,
}

impl PluginInfo {
    /// A plugin that checks nothing beyond its schema and belongs to no consumer.
    #[must_use]
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        priority: i64,
        schema: impl Into<Arc<Value>>,
    ) -> PluginInfo {
        PluginInfo {
            name: name.into(),
            priority,
            version: Cow::Borrowed("0.1"),
            phases: Vec::new(),
            subsystems: &[Subsystem::Http],
            is_auth: false,
            run_policy: RunPolicy::Both,
            schema: schema.into(),
            consumer_schema: None,
            metadata_schema: None,
            consumer_key: &[],
            check: |_| Ok(()),
            check_stream: |_| Ok(()),
            check_running: None,
            check_consumer: |_| Ok(()),
            check_metadata: |_| Ok(()),
            check_with_metadata: |_, _| Ok(()),
            is_global: false,
            control_endpoints: &[],
            loaded_endpoints: Arc::default(),
            check_proto: None,
            check_contract: None,
        }
    }

    /// Whether it serves `subsystem`.
    #[must_use]
    pub fn serves(&self, subsystem: Subsystem) -> bool {
        self.subsystems.contains(&subsystem)
    }

    /// The traffic that both plugins serve.
    pub(crate) fn subsystems_shared_with(&self, other: &PluginInfo) -> &'static [Subsystem] {
        let both = |subsystem| self.serves(subsystem) && other.serves(subsystem);
        match (both(Subsystem::Http), both(Subsystem::Stream)) {
            (true, true) => &[Subsystem::Http, Subsystem::Stream],
            (true, false) => &[Subsystem::Http],
            (false, true) => &[Subsystem::Stream],
            (false, false) => &[],
        }
    }
}

impl fmt::Debug for PluginInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PluginInfo({}, {})", self.name, self.priority)
    }
}

/// The key by which a plugin finds the consumer with this configuration: the value of its one field, or of
/// several fields the values with a NUL behind each but the last. None where a value is missing, empty or no
/// text: a client that sends nothing must not find a consumer.
#[must_use]
pub fn consumer_key<'c>(fields: &[&str], config: &'c Value) -> Option<Cow<'c, str>> {
    let value = |field: &str| config.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    match fields {
        [] => None,
        [field] => value(field).map(Cow::Borrowed),
        fields => {
            let values: Option<Vec<&str>> = fields.iter().map(|field| value(field)).collect();
            values.map(|values| Cow::Owned(values.join("\0")))
        }
    }
}

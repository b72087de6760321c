//! The plugins and registries of this gateway, as data: boot has wired them, and control sees this and names
//! none.

mod plugin_info;
mod stream_ports;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::{ContractDocument, DocumentFault};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::check::unknown::{self, UnknownField};
use crate::check::{CheckOptions, UnknownFields};
use crate::extension::{ExtensionLoader, ExtensionPlugins};
use crate::schema;
use crate::validate::{SchemaFault, Validator};

pub use plugin_info::{
    CheckContract, CheckProto, CheckRunning, CheckWithMetadata, PluginCheck, PluginInfo, RunPolicy,
    SchemaType, Subsystem, consumer_key,
};
pub use stream_ports::StreamPorts;

/// A plugin in the catalog.
#[derive(Debug)]
pub struct CatalogPlugin {
    info: PluginInfo,
    plugin: Validator,
    consumer: Option<Validator>,
    metadata: Option<Validator>,
}

impl CatalogPlugin {
    pub(crate) fn new(info: PluginInfo) -> CatalogPlugin {
        CatalogPlugin::with_validators(info, |schema| Validator::new(schema.clone()))
    }

    /// A plugin with schemas that a user wrote.
    pub(crate) fn of_user(info: PluginInfo) -> CatalogPlugin {
        CatalogPlugin::with_validators(info, |schema| Validator::of_user(schema.clone()))
    }

    fn with_validators(mut info: PluginInfo, validator: fn(&Arc<Value>) -> Validator) -> CatalogPlugin {
        add_meta(&mut info.schema);
        info.consumer_schema.iter_mut().for_each(add_meta);
        CatalogPlugin {
            plugin: validator(&info.schema),
            consumer: info.consumer_schema.as_ref().map(validator),
            metadata: info.metadata_schema.as_ref().map(validator),
            info,
        }
    }

    fn validators(&self) -> impl Iterator<Item = &Validator> {
        let further = [&self.consumer, &self.metadata].into_iter().flatten();
        std::iter::once(&self.plugin).chain(further)
    }

    /// Compiles all schemas now.
    ///
    /// # Errors
    /// The words of the schema compiler about the first that is no JSON Schema.
    pub fn compile(&self) -> Result<(), String> {
        self.validators().try_for_each(Validator::compile)
    }

    /// The plugin as it was handed in, its schemas with `_meta` added.
    #[must_use]
    pub fn info(&self) -> &PluginInfo {
        &self.info
    }

    /// The schema of that type, as the Admin API shows it; none when the plugin has none.
    #[must_use]
    pub fn schema_for(&self, schema_type: SchemaType) -> Option<&Value> {
        match schema_type {
            SchemaType::Plugin => Some(&self.info.schema),
            SchemaType::Consumer => self.info.consumer_schema.as_deref(),
            SchemaType::Metadata => self.info.metadata_schema.as_deref(),
        }
    }

    /// Checks a configuration: by the schema, and if that has no fault, by the plugin's own check. Unknown
    /// fields are treated by `policy`; neither schema nor plugin sees them.
    #[must_use]
    pub fn check(&self, schema_type: SchemaType, config: &Value, policy: UnknownFields) -> CheckedConfig {
        let schema = match schema_type {
            SchemaType::Metadata => self.info.metadata_schema.as_deref(),
            SchemaType::Consumer => Some(self.info.consumer_schema.as_deref().unwrap_or(&self.info.schema)),
            SchemaType::Plugin => Some(&*self.info.schema),
        };
        let unknown_fields =
            schema.map(|schema| unknown::find_unknown_fields(schema, config)).unwrap_or_default();
        let faults = unknown::check_without_unknown(config, &unknown_fields, policy, |known| {
            self.faults_of_known(schema_type, known)
        });
        let ignored = unknown_fields.into_iter().filter(|field| !field.is_refused(policy)).collect();
        CheckedConfig { faults, ignored }
    }

    /// The first fault of a configuration on a route, in the words of plugins.
    #[must_use]
    pub fn first_fault(&self, config: &Value) -> Option<String> {
        let faults = self.check(SchemaType::Plugin, config, UnknownFields::default()).faults;
        faults.first().map(SchemaFault::plugin_message)
    }

    fn faults_of_known(&self, schema_type: SchemaType, config: &Value) -> Vec<SchemaFault> {
        let running = self.info.check_running.as_ref();
        let (validator, own, running) = match schema_type {
            SchemaType::Consumer => match &self.consumer {
                Some(validator) => (Some(validator), self.info.check_consumer, None),
                None => (Some(&self.plugin), self.info.check, running),
            },
            SchemaType::Plugin => (Some(&self.plugin), self.info.check, running),
            SchemaType::Metadata => (self.metadata.as_ref(), self.info.check_metadata, None),
        };
        let faults = validator.map(|validator| validator.faults(config)).unwrap_or_default();
        if !faults.is_empty() {
            return faults;
        }
        let checked = own(config).and_then(|()| running.map_or(Ok(()), |running| running(config)));
        checked.err().map(SchemaFault::at_root).into_iter().collect()
    }
}

/// The findings of the check of a plugin's configuration.
#[derive(Clone, Debug, Default)]
pub struct CheckedConfig {
    /// Why it is refused, the most useful fault first; empty: it is accepted.
    pub faults: Vec<SchemaFault>,
    /// Unknown fields that are accepted and not read.
    pub ignored: Vec<UnknownField>,
}

/// The checks of scripts in objects, each of a source; errors are sentences in APISIX's words.
#[derive(Clone, Copy, Debug)]
pub struct ScriptChecks {
    /// Of the condition of a route, `filter_func`.
    pub condition: fn(&str) -> Result<(), String>,
    /// Of the script of a route or service.
    pub script: fn(&str) -> Result<(), String>,
    /// Of a function before a plugin, `_meta.pre_function`.
    pub before: fn(&str) -> Result<(), String>,
}

/// A protocol that stream routes may name, as the checks see it.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolInfo {
    /// Its name.
    pub name: &'static str,
    /// Its check of what a stream route says in `protocol.conf`, or of a route that says nothing; the error
    /// is a sentence without the field.
    pub check: fn(Option<&Value>) -> Result<(), String>,
}

/// All plugins and registries of this gateway. Made once, at boot; [`PluginCatalog::with_extensions`] lays
/// the plugins of stored extensions over it. A clone shares everything.
#[derive(Clone, Debug, Default)]
pub struct PluginCatalog {
    by_name: Arc<HashMap<Box<str>, CatalogPlugin>>,
    by_priority: Arc<Vec<Box<str>>>,
    registries: Arc<BTreeSet<Box<str>>>,
    ignored: Arc<BTreeSet<Box<str>>>,
    /// Whether stream routes are refused. Shared by all clones, because listeners of layer 4 come and go at
    /// run time.
    refuses_stream_routes: Arc<AtomicBool>,
    /// See [`PluginCatalog::set_stream_ports`]. Shared by all clones, as above.
    stream_ports: Arc<Mutex<Option<StreamPorts>>>,
    options: Arc<CheckOptions>,
    /// The plugins of extensions that are objects.
    extensions: ExtensionPlugins,
    /// Loads extensions; none: this gateway has no language for them.
    loader: Option<Loader>,
    /// Checks scripts in objects; none: this gateway has no language for them.
    scripts: Option<ScriptChecks>,
    /// The protocols of layer 4 with a check.
    protocols: Arc<[ProtocolInfo]>,
    /// Which files objects may name; none: all.
    file_rule: Option<FileRule>,
}

/// Whether objects may name the file at a path; the error says why not.
#[derive(Clone)]
struct FileRule(Arc<CheckFile>);

/// The check of a path; its error is a sentence.
type CheckFile = dyn Fn(&str) -> Result<(), String> + Send + Sync;

impl fmt::Debug for FileRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FileRule")
    }
}

/// A loader, without its fields for readers of a debug print.
#[derive(Clone)]
struct Loader(Arc<dyn ExtensionLoader>);

impl fmt::Debug for Loader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Loader({})", self.0.languages().join(", "))
    }
}

/// Why a catalog cannot be made: a mistake in a plugin, found at boot.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// Two plugins have the same name.
    #[error("two plugins are called {0}")]
    Twice(String),
}

impl PluginCatalog {
    /// The same catalog, in which plugins of these names may be skipped where their configuration is faulty,
    /// or where they are unknown: an object from the source serves without them, and reports them. A write is
    /// refused all the same.
    #[must_use]
    pub fn ignoring(mut self, names: &[String]) -> PluginCatalog {
        self.ignored = Arc::new(names.iter().map(|name| name.as_str().into()).collect());
        self
    }

    /// Whether a faulty plugin of that name may be skipped.
    #[must_use]
    pub fn ignores(&self, name: &str) -> bool {
        self.ignored.contains(name)
    }

    /// Whether any faulty plugin may be skipped.
    #[must_use]
    pub fn ignores_any(&self) -> bool {
        !self.ignored.is_empty()
    }

    /// A catalog of those plugins. Adds `_meta` to their schemas, which are compiled when they are first
    /// needed.
    ///
    /// # Errors
    /// When a name is there twice.
    pub fn new(plugins: Vec<PluginInfo>) -> Result<PluginCatalog, CatalogError> {
        let mut by_name = HashMap::new();
        let mut by_priority: Vec<Box<str>> = Vec::new();
        for info in plugins {
            let entry = CatalogPlugin::new(info);
            let name: Box<str> = entry.info.name.as_ref().into();
            if by_name.contains_key(&name) {
                return Err(CatalogError::Twice(name.into()));
            }
            by_priority.push(name.clone());
            by_name.insert(name, entry);
        }
        by_priority.sort_by(|left, right| {
            let priority = |name: &str| by_name.get(name).map_or(0, |entry| entry.info.priority);
            priority(right).cmp(&priority(left)).then_with(|| left.cmp(right))
        });
        Ok(PluginCatalog {
            by_name: Arc::new(by_name),
            by_priority: Arc::new(by_priority),
            ..PluginCatalog::default()
        })
    }

    /// The same catalog with service registries (`discovery_type`) that upstreams may name.
    #[must_use]
    pub fn with_registries(self, registries: impl IntoIterator<Item = Box<str>>) -> PluginCatalog {
        let all = self.registries.iter().cloned().chain(registries).collect();
        PluginCatalog { registries: Arc::new(all), ..self }
    }

    /// The same catalog with a rule for files that objects name as certificates and keys (`$file:///PATH`).
    /// `rule` takes the path; its error is the reason of a fault.
    #[must_use]
    pub fn with_file_rule(
        self,
        rule: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static,
    ) -> PluginCatalog {
        PluginCatalog { file_rule: Some(FileRule(Arc::new(rule))), ..self }
    }

    /// Whether objects may name the file at `path`.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_file(&self, path: &str) -> Result<(), String> {
        self.file_rule.as_ref().map_or(Ok(()), |rule| (rule.0)(path))
    }

    /// The same catalog for a gateway that refuses stream routes, because it has no listener that would serve
    /// them.
    #[must_use]
    pub fn without_stream_routes(self) -> PluginCatalog {
        PluginCatalog { refuses_stream_routes: Arc::new(AtomicBool::new(true)), ..self }
    }

    /// Refuses stream routes from now on, or takes them, in all clones of this catalog. Objects that were
    /// checked before stay as they are.
    pub fn refuse_stream_routes(&self, refuses: bool) {
        self.refuses_stream_routes.store(refuses, Ordering::Relaxed);
    }

    /// Has warnings about ports from now on, in all clones of this catalog; none: every port may have a
    /// listener.
    pub fn set_stream_ports(&self, ports: Option<StreamPorts>) {
        *self.stream_ports.lock() = ports;
    }

    /// The ports of listeners of layer 4, where they are known.
    #[must_use]
    pub fn stream_ports(&self) -> Option<StreamPorts> {
        self.stream_ports.lock().clone()
    }

    /// The same catalog with settings that checks depend on.
    #[must_use]
    pub fn with_options(mut self, options: CheckOptions) -> PluginCatalog {
        self.options = Arc::new(options);
        self
    }

    /// The settings that checks depend on.
    #[must_use]
    pub fn options(&self) -> &CheckOptions {
        &self.options
    }

    /// The same catalog, which loads extensions with `loader`.
    #[must_use]
    pub fn with_loader(mut self, loader: Arc<dyn ExtensionLoader>) -> PluginCatalog {
        self.loader = Some(Loader(loader));
        self
    }

    /// The same catalog, which checks scripts in objects with `scripts`.
    #[must_use]
    pub fn with_scripts(mut self, scripts: Option<ScriptChecks>) -> PluginCatalog {
        self.scripts = scripts;
        self
    }

    /// The same catalog, which checks what stream routes say of these protocols.
    #[must_use]
    pub fn with_protocols(mut self, protocols: impl IntoIterator<Item = ProtocolInfo>) -> PluginCatalog {
        self.protocols = protocols.into_iter().collect();
        self
    }

    /// The protocol of layer 4 with this name, if the catalog can check it.
    #[must_use]
    pub fn protocol(&self, name: &str) -> Option<&ProtocolInfo> {
        self.protocols.iter().find(|protocol| protocol.name == name)
    }

    /// The checks of scripts in objects; none: this gateway has no language for them.
    #[must_use]
    pub fn scripts(&self) -> Option<ScriptChecks> {
        self.scripts
    }

    /// The loader of extensions; none: this gateway has no language for them.
    #[must_use]
    pub fn loader(&self) -> Option<&dyn ExtensionLoader> {
        self.loader.as_ref().map(|loader| &*loader.0)
    }

    /// The same catalog with the plugins of these extensions in place of those that it had.
    #[must_use]
    pub fn with_extensions(&self, extensions: &ExtensionPlugins) -> PluginCatalog {
        PluginCatalog { extensions: extensions.clone(), ..self.clone() }
    }

    /// The plugins of the extensions that lie over it.
    pub(crate) fn extensions(&self) -> &ExtensionPlugins {
        &self.extensions
    }

    /// Whether the plugin is there without any object: built in, or named by the settings.
    #[must_use]
    pub fn is_fixed(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The plugin of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&CatalogPlugin> {
        self.by_name.get(name).or_else(|| self.extensions.get(name))
    }

    /// The verdict of the plugins that read protos on the content of one; none if no plugin does.
    pub(crate) fn check_proto(&self, content: &str) -> Option<Result<(), String>> {
        let checks = self.by_name.values().filter_map(|plugin| plugin.info.check_proto);
        checks.map(|check| check(content)).reduce(Result::and)
    }

    /// The verdict of the plugin that serves contracts on the document of one; none if no plugin does.
    pub(crate) fn check_contract(&self, document: &ContractDocument) -> Option<Result<(), DocumentFault>> {
        let checks = self.by_name.values().filter_map(|plugin| plugin.info.check_contract);
        checks.map(|check| check(document)).reduce(Result::and)
    }

    /// All plugins' names, highest priority first; equals by name.
    pub fn names_by_priority(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|plugin| &*plugin.info.name)
    }

    /// All plugins, highest priority first; equals by name.
    pub fn iter(&self) -> impl Iterator<Item = &CatalogPlugin> {
        let order = |plugin: &&CatalogPlugin| (Reverse(plugin.info.priority), plugin.info.name.clone());
        let mut loaded: Vec<&CatalogPlugin> = self.extensions.iter().collect();
        loaded.retain(|plugin| !self.is_fixed(&plugin.info.name));
        loaded.sort_by_cached_key(order);
        let mut loaded = loaded.into_iter().peekable();
        let mut fixed = self.by_priority.iter().filter_map(|name| self.by_name.get(name)).peekable();
        std::iter::from_fn(move || match (loaded.peek(), fixed.peek()) {
            (Some(first), Some(second)) if order(first) < order(second) => loaded.next(),
            (Some(_), None) => loaded.next(),
            _ => fixed.next(),
        })
    }

    /// Drops the compiled schemas, of plugins and of kinds, that were not used since the last call.
    pub fn release_unused(&self) {
        self.iter().flat_map(CatalogPlugin::validators).for_each(Validator::release_unused);
        schema::release_unused();
    }

    /// Whether there is a registry of that name.
    #[must_use]
    pub fn has_registry(&self, name: &str) -> bool {
        self.registries.contains(name)
    }

    /// Whether stream routes are refused.
    #[must_use]
    pub fn refuses_stream_routes(&self) -> bool {
        self.refuses_stream_routes.load(Ordering::Relaxed)
    }
}

/// Adds what every plugin object may have to a plugin's schema.
fn add_meta(schema: &mut Arc<Value>) {
    let Some(schema) = Arc::make_mut(schema).as_object_mut() else {
        return;
    };
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("_meta".to_owned(), schema::meta().clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn catalog() -> PluginCatalog {
        let closed = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false});
        let mut auth = PluginInfo::new("auth", 2500, closed.clone());
        auth.consumer_schema = Some(json!({"type": "object", "required": ["key"]}).into());
        let mut own = PluginInfo::new("own", 10, closed.clone());
        own.check = |config| if config["n"] == 13 { Err("13 is unlucky".to_owned()) } else { Ok(()) };
        PluginCatalog::new(vec![
            PluginInfo::new("low", -3, closed.clone()),
            auth,
            own,
            PluginInfo::new("also", 10, closed),
        ])
        .unwrap()
    }

    #[test]
    fn plugins_are_listed_by_priority_then_name() {
        assert_eq!(catalog().names_by_priority().collect::<Vec<_>>(), ["auth", "also", "own", "low"]);
    }

    #[test]
    fn each_use_of_a_plugin_has_its_own_schema() {
        let catalog = catalog();
        let check = |name: &str, schema_type, config: Value| {
            let checked = catalog.get(name).unwrap().check(schema_type, &config, UnknownFields::Warn);
            checked.faults.first().map(|fault| fault.contract_message())
        };
        assert_eq!(check("auth", SchemaType::Plugin, json!({})), None);
        assert_eq!(
            check("auth", SchemaType::Consumer, json!({})).as_deref(),
            Some("property \"key\" is required")
        );
        assert_eq!(
            check("own", SchemaType::Consumer, json!({"n": 1})),
            None,
            "no consumer schema: the common one"
        );
        assert_eq!(check("own", SchemaType::Plugin, json!({"n": 13})).as_deref(), Some("13 is unlucky"));
        assert_eq!(check("own", SchemaType::Metadata, json!({"any": 1})), None);
        assert_eq!(
            check("own", SchemaType::Plugin, json!({"x": 1})).as_deref(),
            Some("additional properties forbidden, found x")
        );
        assert_eq!(check("low", SchemaType::Plugin, json!({"_meta": {"disable": true}})), None);
        assert_eq!(
            check("low", SchemaType::Plugin, json!({"_meta": {"disable": "blah"}})).as_deref(),
            Some(
                "property \"_meta\" validation failed: property \"disable\" validation failed: \
                 wrong type: expected boolean, got string"
            )
        );
    }

    #[test]
    fn unknown_fields_follow_the_policy() {
        let open = json!({"type": "object", "properties": {"count": {"minimum": 1}}, "required": ["count"]});
        let mut info = PluginInfo::new("count", 0, open.clone());
        info.metadata_schema = Some(open.into());
        // As a plugin's type that denies unknown fields.
        info.check = |config| match config.as_object().map(Map::len) {
            Some(1) => Ok(()),
            _ => Err(format!("unknown field in {config}")),
        };
        info.check_metadata = info.check;
        let catalog = PluginCatalog::new(vec![info]).unwrap();
        let check = |policy, config: Value, faults: &[&str], ignored: &[&str]| {
            for schema_type in [SchemaType::Plugin, SchemaType::Consumer, SchemaType::Metadata] {
                let checked = catalog.get("count").unwrap().check(schema_type, &config, policy);
                let found: Vec<_> = checked.faults.iter().map(SchemaFault::full_reason).collect();
                assert_eq!(found, faults, "{policy:?} {config}");
                let found: Vec<_> = checked.ignored.iter().map(|field| &*field.pointer).collect();
                assert_eq!(found, ignored, "{policy:?} {config}");
            }
        };
        let misspelt = "unknown field `cuont`; did you mean `count`?";
        check(UnknownFields::Warn, json!({"count": 1, "redis_host": "r"}), &[], &["/redis_host"]);
        check(UnknownFields::Accept, json!({"count": 1, "redis_host": "r"}), &[], &["/redis_host"]);
        check(
            UnknownFields::Refuse,
            json!({"count": 1, "redis_host": "r"}),
            &["unknown field `redis_host`"],
            &[],
        );
        check(UnknownFields::Warn, json!({"cuont": 1, "$comment": "c"}), &[misspelt], &["/$comment"]);
        check(UnknownFields::Warn, json!({"cuont": 0}), &[misspelt, "expected 0 to be at least 1"], &[]);
        check(UnknownFields::Accept, json!({"count": 1, "cuont": 0}), &[], &["/cuont"]);
    }

    #[test]
    fn a_schema_that_is_none_lets_nothing_through() {
        let catalog = PluginCatalog::new(vec![PluginInfo::new("x", 0, json!({"type": "nothing"}))]).unwrap();
        let plugin = catalog.get("x").unwrap();
        assert!(plugin.compile().is_err());
        let faults = plugin.check(SchemaType::Plugin, &json!({}), UnknownFields::Warn).faults;
        assert!(faults[0].reason.starts_with("its schema is faulty itself: "), "{faults:?}");
    }

    #[test]
    fn a_name_stands_for_one_plugin() {
        let twice =
            PluginCatalog::new(vec![PluginInfo::new("x", 0, json!({})), PluginInfo::new("x", 0, json!({}))]);
        assert!(matches!(twice, Err(CatalogError::Twice(_))));
    }
}

//! Plugin configurations against the catalog. Names no plugin.

use serde_json::Value;

use crate::catalog::{PluginCatalog, SchemaType, Subsystem};
use crate::fault::{CheckStage, Findings, extend_pointer};

use super::{expression, plugin_names};

/// The text before a plugin fault in the contract's line for consumers and credentials.
const fn invalid_plugins_prefix(schema_type: SchemaType) -> &'static str {
    match schema_type {
        SchemaType::Consumer => "invalid plugins configuration: ",
        SchemaType::Plugin | SchemaType::Metadata => "",
    }
}

/// Checks the plugins of an object that stands for requests.
pub(super) fn check_plugins(catalog: &PluginCatalog, object: &Value, findings: &mut Findings) {
    check_as(catalog, SchemaType::Plugin, object, findings);
}

/// Checks the plugins of a stream route: those that serve HTTP alone are unknown there.
pub(super) fn check_stream(catalog: &PluginCatalog, object: &Value, findings: &mut Findings) {
    each(catalog, Subsystem::Stream, SchemaType::Plugin, object, findings);
}

/// Checks the plugins of an object, each by the schema of that type.
pub(super) fn check_as(
    catalog: &PluginCatalog,
    schema_type: SchemaType,
    object: &Value,
    findings: &mut Findings,
) {
    each(catalog, Subsystem::Http, schema_type, object, findings);
}

/// Checks the plugins at `place` of an object.
pub(super) fn check_at(catalog: &PluginCatalog, object: &Value, place: &str, findings: &mut Findings) {
    let plugins = object.pointer(place).and_then(Value::as_object);
    for (name, config) in plugins.into_iter().flatten() {
        one(catalog, Subsystem::Http, SchemaType::Plugin, name, config, place, findings);
    }
}

/// Checks plugins that stand in a text of their own.
///
/// # Errors
/// The first fault, with the place of the field in front.
pub(crate) fn plugins_of(catalog: &PluginCatalog, plugins: &Value) -> Result<(), String> {
    let mut findings = Findings::default();
    check_at(catalog, plugins, "", &mut findings);
    let refusal = match findings.into_result() {
        Ok(()) => return Ok(()),
        Err(refusal) => refusal,
    };
    Err(refusal.faults().first().map(ToString::to_string).unwrap_or_default())
}

fn each(
    catalog: &PluginCatalog,
    subsystem: Subsystem,
    schema_type: SchemaType,
    object: &Value,
    findings: &mut Findings,
) {
    for (name, config) in object.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        one(catalog, subsystem, schema_type, name, config, "/plugins", findings);
    }
}

fn one(
    catalog: &PluginCatalog,
    subsystem: Subsystem,
    schema_type: SchemaType,
    name: &str,
    config: &Value,
    place: &str,
    findings: &mut Findings,
) {
    let prefix = invalid_plugins_prefix(schema_type);
    let pointer = extend_pointer(place, name);
    if !config.is_object() {
        let reason = format!("invalid plugin conf {config} for plugin [{name}]");
        findings.add_worded(CheckStage::Plugins, pointer, reason.clone(), format!("{prefix}{reason}"));
        return;
    }
    let Some(plugin) = catalog.get(name).filter(|plugin| plugin.info().serves(subsystem)) else {
        let reason = plugin_names::unknown(catalog, subsystem, name);
        findings.add_worded(CheckStage::Plugins, pointer, reason.clone(), format!("{prefix}{reason}"));
        return;
    };
    let policy = catalog.options().unknown_fields;
    let checked = plugin.check(schema_type, config, policy);
    for fault in &checked.faults {
        let message = fault.plugin_message();
        let contract = format!("{prefix}failed to check the configuration of plugin {name} err: {message}");
        findings.add_schema_fault(CheckStage::Plugins, &pointer, fault, contract);
    }
    if subsystem == Subsystem::Stream
        && checked.faults.is_empty()
        && let Err(reason) = (plugin.info().check_stream)(config)
    {
        let contract = format!("{prefix}failed to check the configuration of plugin {name} err: {reason}");
        findings.add_worded(CheckStage::Plugins, &pointer, reason, contract);
    }
    for field in &checked.ignored {
        findings.accept_unknown(&pointer, field, policy);
    }
    if let Some(filter) = config.pointer("/_meta/filter").filter(|filter| filter.is_array()) {
        expression::check_filter(filter, name, &format!("{pointer}/_meta/filter"), findings);
    }
    if let Some(source) = config.pointer("/_meta/pre_function").and_then(Value::as_str)
        && let Some(checks) = catalog.scripts()
        && let Err(reason) = (checks.before)(source)
    {
        let reason = format!("failed to load _meta.pre_function in plugin {name}: {reason}");
        findings.add(CheckStage::Plugins, format!("{pointer}/_meta/pre_function"), reason);
    }
}

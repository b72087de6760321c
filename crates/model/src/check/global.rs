//! The metadata of plugins: its schema is the plugin's.

use serde_json::{Map, Value};

use crate::Refusal;
use crate::catalog::{Catalog, SchemaType};
use crate::fault::{Findings, Stage};
use crate::resource::Resource;
use crate::resource::{PluginMetadata, own_fields};

/// Checks and reads the metadata of that plugin.
pub(super) fn plugin_metadata(catalog: &Catalog, plugin: &str, value: &Value) -> Result<Resource, Refusal> {
    let Some(entry) = catalog.get(plugin) else {
        return Err(Refusal::single(None, "", "invalid plugin name"));
    };
    let mut findings = Findings::default();
    let Some(fields) = value.as_object() else {
        let reason = "invalid configuration: wrong type: expected object";
        return Err(Refusal::single(None, "", reason));
    };
    let own = own_fields(Map::clone(fields));
    for fault in entry.check(SchemaType::Metadata, &own) {
        let contract = format!("invalid configuration: {}", fault.contract_message());
        let reason = fault.full_reason();
        findings.add_worded(Stage::Schema, fault.pointer, reason, contract);
    }
    findings.into_result()?;
    Ok(Resource::PluginMetadata(Box::new(PluginMetadata { value: own })))
}

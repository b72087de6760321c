//! The metadata of plugins: its schema is the plugin's.

use serde_json::{Map, Value};

use super::{Checked, unknown};
use crate::ObjectRefusal;
use crate::catalog::{PluginCatalog, SchemaType};
use crate::fault::{CheckStage, Findings};
use crate::resource::Resource;
use crate::resource::{PluginMetadata, own_fields};

/// Checks and reads the metadata of that plugin.
pub(super) fn plugin_metadata(
    catalog: &PluginCatalog,
    plugin: &str,
    value: &Value,
) -> Result<Checked, ObjectRefusal> {
    let Some(entry) = catalog.get(plugin) else {
        return Err(ObjectRefusal::single(None, "", "invalid plugin name"));
    };
    let mut findings = Findings::default();
    let Some(fields) = value.as_object() else {
        let reason = "invalid configuration: wrong type: expected object";
        return Err(ObjectRefusal::single(None, "", reason));
    };
    let mut own = own_fields(Map::clone(fields));
    let policy = catalog.options().unknown_fields;
    let checked = entry.check(SchemaType::Metadata, &own, policy);
    for fault in &checked.faults {
        let contract = format!("invalid configuration: {}", fault.hinted_message());
        findings.add_schema_fault(CheckStage::Schema, "", fault, contract);
    }
    for field in &checked.ignored {
        findings.accept_unknown("", field, policy);
    }
    let passed = findings.finish()?;
    for pointer in &passed.ignored {
        unknown::remove(&mut own, pointer);
    }
    let resource = Resource::PluginMetadata(Box::new(PluginMetadata { value: own }));
    Ok(Checked { resource, warnings: passed.warnings })
}

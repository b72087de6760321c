//! Rules for consumers and credentials that their schemas cannot express.

use serde_json::Value;

use super::plugins;
use crate::ObjectKind;
use crate::catalog::{PluginCatalog, PluginInfo, SchemaType};
use crate::fault::{CheckStage, Findings, extend_pointer};

/// Checks a consumer or a credential.
pub(super) fn check_consumer_object(
    catalog: &PluginCatalog,
    kind: ObjectKind,
    object: &Value,
    findings: &mut Findings,
) {
    plugins::check_as(catalog, SchemaType::Consumer, object, findings);
    if kind != ObjectKind::Credential {
        return;
    }
    for name in
        object.get("plugins").and_then(Value::as_object).into_iter().flat_map(|plugins| plugins.keys())
    {
        // An authentication plugin that finds no consumer by a key has no use for a credential.
        let is_useless = |info: &PluginInfo| !info.is_auth || info.consumer_key.is_empty();
        if catalog.get(name).is_some_and(|plugin| is_useless(plugin.info())) {
            let reason = "only supports auth type plugins in consumer credential";
            findings.add(CheckStage::Plugins, extend_pointer("/plugins", name), reason);
        }
    }
}

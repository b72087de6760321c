//! Rules for consumers and credentials that their schemas cannot express.

use serde_json::Value;

use super::plugins;
use crate::Kind;
use crate::catalog::{Catalog, SchemaType};
use crate::fault::{Findings, Stage, below};

/// Checks a consumer or a credential.
pub(super) fn check(catalog: &Catalog, kind: Kind, object: &Value, findings: &mut Findings) {
    plugins::check_as(catalog, SchemaType::Consumer, object, findings);
    if kind != Kind::Credential {
        return;
    }
    for name in
        object.get("plugins").and_then(Value::as_object).into_iter().flat_map(|plugins| plugins.keys())
    {
        if catalog.get(name).is_some_and(|plugin| !plugin.info().is_auth) {
            let reason = "only supports auth type plugins in consumer credential";
            findings.add(Stage::Plugins, below("/plugins", name), reason);
        }
    }
}

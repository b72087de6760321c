//! Secret managers: the first part of the id names the manager, and so the schema.

use serde_json::Value;

use super::unknown;
use crate::catalog::PluginCatalog;
use crate::fault::{CheckStage, Findings};
use crate::{ObjectKey, schema};

/// Checks a secret by the schema of its manager.
pub(super) fn check_secret(catalog: &PluginCatalog, key: &ObjectKey, value: &Value, findings: &mut Findings) {
    let manager = key.id.split('/').next().unwrap_or_default();
    let Some((schema, validator)) = schema::secret_manager(manager) else {
        findings.add(CheckStage::Alternatives, "", format!("invalid secret manager: {manager}"));
        return;
    };
    let policy = catalog.options().unknown_fields;
    let unknown_fields = unknown::find_unknown_fields(schema, value);
    for fault in
        unknown::check_without_unknown(value, &unknown_fields, policy, |known| validator.faults(known))
    {
        let contract = format!("invalid configuration: {}", fault.hinted_message());
        findings.add_schema_fault(CheckStage::Schema, "", &fault, contract);
    }
    for field in unknown_fields.iter().filter(|field| !field.is_refused(policy)) {
        findings.accept_unknown("", field, policy);
    }
}

//! Secret managers: the first part of the id names the manager, whose schema it is.

use serde_json::Value;

use crate::fault::{Findings, Stage};
use crate::{Key, schema};

/// Checks a secret by the schema of its manager.
pub(super) fn check(key: &Key, value: &Value, findings: &mut Findings) {
    let manager = key.id.split('/').next().unwrap_or_default();
    let Some((_, validator)) = schema::secret_manager(manager) else {
        findings.add(Stage::Alternatives, "", format!("invalid secret manager: {manager}"));
        return;
    };
    for fault in validator.faults(value) {
        let contract = format!("invalid configuration: {}", fault.contract_message());
        let reason = fault.full_reason();
        findings.add_worded(Stage::Schema, fault.pointer, reason, contract);
    }
}

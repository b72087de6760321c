//! Rules for contracts that their schema cannot express and that need no document.

use serde_json::Value;

use super::{plugins, route};
use crate::catalog::PluginCatalog;
use crate::contract::CONTRACT_PLUGIN;
use crate::fault::{CheckStage, Findings, extend_pointer};

/// Checks a contract.
pub(super) fn check_contract(catalog: &PluginCatalog, contract: &Value, findings: &mut Findings) {
    route::embedded_upstream(catalog, contract, findings);
    route::check_hosts(contract, findings);
    plugins::check_plugins(catalog, contract, findings);
    for (field, inner) in [("security", ""), ("operations", "/plugins"), ("operations", "/auth")] {
        for (name, _) in contract.get(field).and_then(Value::as_object).into_iter().flatten() {
            let place = format!("{}{inner}", extend_pointer(&format!("/{field}"), name));
            plugins::check_at(catalog, contract, &place, findings);
            own_plugin(contract, &place, findings);
        }
    }
    own_plugin(contract, "/plugins", findings);
    has_target(contract, findings);
}

/// The routes of a contract have its plugin already.
fn own_plugin(contract: &Value, place: &str, findings: &mut Findings) {
    if contract.pointer(place).and_then(|plugins| plugins.get(CONTRACT_PLUGIN)).is_some() {
        let reason = "the operations of a contract have this plugin already; write `request`, `response`, `headers` \
                      and `mock` of the contract";
        findings.add(CheckStage::Plugins, extend_pointer(place, CONTRACT_PLUGIN), reason);
    }
}

/// Requests need a place to go to, unless the document answers them.
fn has_target(contract: &Value, findings: &mut Findings) {
    let has = |field: &str| contract.get(field).is_some();
    let answers = contract.get("mock").and_then(Value::as_str) == Some("always");
    if !(has("upstream_id") || has("upstream") || has("service_id") || has("plugins") || answers) {
        let reason = "a contract needs upstream_id, upstream, service_id or plugins, or `mock: always`";
        findings.add(CheckStage::Schema, "", reason);
    }
}

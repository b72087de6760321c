//! What a user may write in APISIX and Weir cannot do yet. It is refused with the reason, never ignored.
//!
//! One list for all kinds: a feature that arrives deletes its line here and nothing else.

use serde_json::Value;

use crate::catalog::Catalog;
use crate::fault::{Findings, Stage, below};

/// Health checks: `true` once the data plane runs them.
pub(crate) const HEALTH_CHECKS: bool = false;

/// A field that is refused wherever it is written at the top of an object.
struct Field {
    name: &'static str,
    reason: &'static str,
}

/// Of routes and services.
const ROUTE_FIELDS: [Field; 3] = [
    Field { name: "filter_func", reason: "filter_func is not supported: write the condition as vars" },
    Field { name: "script", reason: "script is not supported: use plugins" },
    Field { name: "script_id", reason: "script_id is not supported: use plugins" },
];

/// The reason begins with APISIX's words.
const STREAM_ROUTES_REFUSED: &str = "stream mode is disabled, can not add stream routes: layer 4 is not served yet; the \
                                     setting `admin_stream_routes: true` keeps them without serving them";

/// Of upstreams.
const UPSTREAM_FIELDS: [Field; 1] = [Field {
    name: "tls",
    reason: "tls of an upstream is not supported yet: origins are reached over plain http",
}];

/// The protocols that origins can be spoken to with.
const SCHEMES: [&str; 1] = ["http"];

/// Refuses the fields of a route or service that Weir cannot do.
pub(crate) fn route(object: &Value, findings: &mut Findings) {
    refuse(&ROUTE_FIELDS, object, "", findings);
}

/// Refuses a stream route where the gateway serves no layer 4.
pub(crate) fn stream_route(catalog: &Catalog, findings: &mut Findings) {
    if catalog.refuses_stream_routes() {
        findings.add(Stage::Unsupported, String::new(), STREAM_ROUTES_REFUSED);
    }
}

/// Refuses what Weir cannot do of an upstream at that pointer.
pub(crate) fn upstream(upstream: &Value, pointer: &str, catalog: &Catalog, findings: &mut Findings) {
    refuse(&UPSTREAM_FIELDS, upstream, pointer, findings);
    if let Some(scheme) = upstream.get("scheme").and_then(Value::as_str)
        && !SCHEMES.contains(&scheme)
    {
        let reason =
            format!("scheme {scheme} of an upstream is not supported yet: only {}", SCHEMES.join(", "));
        findings.add(Stage::Unsupported, below(pointer, "scheme"), reason);
    }
    if let Some(registry) = upstream.get("discovery_type").and_then(Value::as_str)
        && !catalog.has_registry(registry)
    {
        let reason =
            format!("discovery_type {registry}: this gateway has no such registry; write nodes instead");
        findings.add(Stage::Unsupported, below(pointer, "discovery_type"), reason);
    }
    if !HEALTH_CHECKS && upstream.get("checks").is_some() {
        let reason = "checks of an upstream are not supported yet: health checks would not run";
        findings.add(Stage::Unsupported, below(pointer, "checks"), reason);
    }
}

/// Refuses what Weir cannot do of a plugin's `_meta`, the plugin being at that pointer.
pub(crate) fn meta(config: &Value, pointer: &str, findings: &mut Findings) {
    if config.pointer("/_meta/pre_function").is_some() {
        let reason = "_meta.pre_function is not supported: write the condition as _meta.filter";
        findings.add(Stage::Unsupported, format!("{pointer}/_meta/pre_function"), reason);
    }
}

fn refuse(fields: &[Field], object: &Value, pointer: &str, findings: &mut Findings) {
    for field in fields {
        if object.get(field.name).is_some() {
            findings.add(Stage::Unsupported, below(pointer, field.name), field.reason);
        }
    }
}

//! Features that a user may write in APISIX and that Weir does not have yet. They are refused with the
//! reason, never ignored.
//!
//! One list for all kinds: a feature that arrives deletes its line here and nothing else.

use serde_json::Value;

use crate::catalog::PluginCatalog;
use crate::fault::{CheckStage, Findings, extend_pointer};
use crate::kind::ObjectKind;

/// A field that is refused wherever it is written at the top of an object.
struct UnsupportedField {
    name: &'static str,
    reason: &'static str,
}

/// Of routes and services.
const ROUTE_FIELDS: [UnsupportedField; 1] = [UnsupportedField {
    name: "script_id",
    reason: "script_id is not supported: write the script in `script`",
}];

/// The reason begins with APISIX's words.
const STREAM_ROUTES_REFUSED: &str = "stream mode is disabled, can not add stream routes: the settings name no listener of \
                                     layer 4; write `stream_tcp`, `stream_tls` or `stream_udp`, or `admin_stream_routes: \
                                     true` for an instance that only keeps them";

/// The schemes that upstreams are served with.
const SCHEMES: &[&str] = &["http", "https", "grpc", "grpcs", "tcp", "tls", "udp"];

/// A field of a kind that the reference page marks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefusedField {
    /// The field, as the page writes it: `upstream.checks`.
    pub path: String,
    /// Why it is refused, or what of it.
    pub reason: String,
    /// Every value is refused, so that what is inside the field need not be described.
    pub is_whole: bool,
}

/// The fields that objects of this kind have in their schema and that `route` and `upstream` refuse.
#[must_use]
pub fn of_kind(kind: ObjectKind) -> Vec<RefusedField> {
    let whole = |field: &UnsupportedField| RefusedField {
        path: field.name.to_owned(),
        reason: field.reason.to_owned(),
        is_whole: true,
    };
    let mut refused = Vec::new();
    let prefix = match kind {
        ObjectKind::Upstream => "",
        ObjectKind::Route | ObjectKind::Service | ObjectKind::StreamRoute => "upstream.",
        _ => return refused,
    };
    if kind != ObjectKind::Upstream && kind != ObjectKind::StreamRoute {
        let in_schema = |field: &&UnsupportedField| {
            crate::schema::find_object_schema(kind)["properties"].get(field.name).is_some()
        };
        refused.extend(ROUTE_FIELDS.iter().filter(in_schema).map(whole));
    }
    refused.push(RefusedField {
        path: format!("{prefix}scheme"),
        reason: format!("any value but {}", SCHEMES.join(", ")),
        is_whole: false,
    });
    refused
}

/// Refuses the fields of a route or service that Weir cannot do.
pub(crate) fn refuse_route_fields(object: &Value, findings: &mut Findings) {
    refuse(&ROUTE_FIELDS, object, "", findings);
}

/// Refuses a stream route where the instance has no listener of layer 4.
pub(crate) fn stream_route(catalog: &PluginCatalog, findings: &mut Findings) {
    if catalog.refuses_stream_routes() {
        findings.add(CheckStage::Unsupported, String::new(), STREAM_ROUTES_REFUSED);
    }
}

/// Refuses what Weir cannot do of an upstream at that pointer.
pub(crate) fn upstream(upstream: &Value, pointer: &str, catalog: &PluginCatalog, findings: &mut Findings) {
    if let Some(scheme) = upstream.get("scheme").and_then(Value::as_str)
        && !SCHEMES.contains(&scheme)
    {
        let reason = format!(
            "scheme {scheme} of an upstream is not supported yet: no plugin speaks to Kafka; supported are {}",
            SCHEMES.join(", ")
        );
        findings.add(CheckStage::Unsupported, extend_pointer(pointer, "scheme"), reason);
    }
    if let Some(registry) = upstream.get("discovery_type").and_then(Value::as_str)
        && !catalog.has_registry(registry)
    {
        let reason = format!(
            "discovery_type {registry}: no such registry is configured; write a block `discovery: {{{registry}: …}}` in the \
             settings, or nodes instead"
        );
        findings.add(CheckStage::Unsupported, extend_pointer(pointer, "discovery_type"), reason);
    }
}

fn refuse(fields: &[UnsupportedField], object: &Value, pointer: &str, findings: &mut Findings) {
    for field in fields {
        if object.get(field.name).is_some() {
            findings.add(CheckStage::Unsupported, extend_pointer(pointer, field.name), field.reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The findings in an object of the kind that has only this field.
    fn findings(kind: ObjectKind, path: &str) -> bool {
        let value = match path.rsplit('.').next() {
            Some("scheme") => json!("kafka"),
            _ => json!({}),
        };
        let catalog = PluginCatalog::default();
        let mut found = Findings::default();
        match (path.strip_prefix("upstream."), kind) {
            (Some(field), _) => upstream(&of(field, value), "/upstream", &catalog, &mut found),
            (None, ObjectKind::Upstream) => upstream(&of(path, value), "", &catalog, &mut found),
            (None, _) => refuse_route_fields(&of(path, value), &mut found),
        }
        found.into_result().is_err()
    }

    fn of(field: &str, value: Value) -> Value {
        json!({ field: value })
    }

    #[test]
    fn fields_that_the_page_marks_are_refused() {
        for kind in ObjectKind::ALL {
            for refused in of_kind(kind) {
                assert!(findings(kind, &refused.path), "{kind:?} {}", refused.path);
            }
        }
        assert!(!findings(ObjectKind::Route, "uri") && !findings(ObjectKind::Upstream, "nodes"));
    }

    #[test]
    fn marked_fields_are_in_the_schemas() {
        for kind in ObjectKind::ALL {
            for refused in of_kind(kind) {
                let pointer: String =
                    refused.path.split('.').map(|step| format!("/properties/{step}")).collect();
                assert!(
                    crate::schema::find_object_schema(kind).pointer(&pointer).is_some(),
                    "{kind:?} {}",
                    refused.path
                );
            }
        }
    }
}

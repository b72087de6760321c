//! The session of a key (`weir/session`): its role, and the instance that answers.

use bytes::Bytes;
use http::{Response, StatusCode};
use model::ObjectKind;
use serde_json::{Value, json};

use crate::EMULATED_VERSION;
use crate::admin::call::{AdminParts, Call};
use crate::serve::respond;
use crate::serve::role::Role;

/// The role of the caller's key, the identity of the instance, and the features and kinds that it has.
pub(super) fn answer_session(parts: &AdminParts, call: &Call) -> Response<Bytes> {
    let instance = &parts.reports.instance;
    let role = match call.role {
        Role::Admin => "admin",
        Role::Viewer => "viewer",
    };
    let listener = |listener: model::report::ListenerReport| {
        json!({
            "name": listener.name,
            "address": listener.address.to_string(),
            "tls": listener.protocols.iter().any(|protocol| matches!(*protocol, "tls" | "quic")),
        })
    };
    let listeners: Vec<Value> = parts.reports.listening.listeners().into_iter().map(listener).collect();
    // Credentials are shown below their consumers.
    let is_shown = |kind: &ObjectKind| match kind {
        ObjectKind::Credential => false,
        ObjectKind::StreamRoute => !parts.catalog.refuses_stream_routes(),
        _ => true,
    };
    let kinds: Vec<&str> = ObjectKind::ALL.into_iter().filter(is_shown).map(ObjectKind::collection).collect();
    let body = json!({
        "role": role,
        // Keys have no names.
        "name": null,
        "version": env!("CARGO_PKG_VERSION"),
        "emulates": EMULATED_VERSION,
        "instance": name(&instance.id, &instance.hostname),
        "source": parts.source,
        "writable": call.role == Role::Admin && parts.source != "file",
        "key_required": parts.gate.key_required(),
        "started_ms": instance.boot_time_s.saturating_mul(1000),
        "listeners": listeners,
        "features": features(parts),
        "kinds": kinds,
    });
    respond::json(StatusCode::OK, &body)
}

/// The id of an instance, or the name of its machine if the id was made at random.
fn name<'n>(id: &'n str, hostname: &'n str) -> &'n str {
    let is_random = id.is_empty() || uuid::Uuid::parse_str(id).is_ok();
    if is_random && !hostname.is_empty() { hostname } else { id }
}

/// The parts of the API that not every build and source has.
fn features(parts: &AdminParts) -> Vec<&'static str> {
    let has = [
        ("conditions", true),
        ("history", parts.source != "file"),
        ("explain", parts.reports.explain.is_some()),
        ("traffic", parts.reports.traffic.is_some()),
        ("tap", parts.reports.tap.is_some()),
        ("acme", parts.acme.is_some()),
    ];
    has.into_iter().filter(|(_, has)| *has).map(|(feature, _)| feature).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_is_named_by_id_unless_it_is_random() {
        let random = "8f4e2f0e-5f0c-4a2e-9d2d-8a5b6b9b2a11";
        assert_eq!(name(random, "edge"), "edge");
        assert_eq!(name("fra-1", "edge"), "fra-1");
        assert_eq!(name(random, ""), random);
        assert_eq!(name("", ""), "");
    }
}

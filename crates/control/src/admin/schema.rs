//! `/apisix/admin/schema`: the JSON Schemas of kinds and plugins, and the check of a body against one.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use model::{ObjectKind, check, schema};

use super::call::{AdminParts, Call, unsupported};
use super::plugins;
use crate::serve::respond;

/// Answers one request for this path below `schema`.
pub(super) async fn answer_schema(parts: &Arc<AdminParts>, path: &[String], call: &Call) -> Response<Bytes> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match (&call.method, path.as_slice()) {
        (&Method::GET, ["plugins", name @ ..]) => {
            plugins::answer_plugin_schema(&parts.catalog(), name.first().copied(), &call.query)
        }
        (&Method::GET, [name]) => of_kind(name),
        (&Method::POST, ["validate", name]) => validate(parts, name, call),
        (&Method::GET, []) => respond::bad("not found schema: "),
        _ => respond::not_found(),
    }
}

fn of_kind(name: &str) -> Response<Bytes> {
    match ObjectKind::from_singular(name) {
        Some(kind) => respond::json(StatusCode::OK, schema::find_object_schema(kind)),
        None => respond::bad(format!("not found schema: {name}")),
    }
}

/// Checks a body as a write would, but not against stored objects.
fn validate(parts: &AdminParts, collection: &str, call: &Call) -> Response<Bytes> {
    let Some(kind) = ObjectKind::from_collection(collection) else { return unsupported(collection) };
    let Some(body) = &call.body else {
        return respond::bad("invalid request body: empty request body");
    };
    match check::value(&parts.catalog(), kind, body) {
        Ok(()) => respond::empty(StatusCode::OK),
        Err(refusal) => {
            // The contract has this text without the prefix that writes have.
            let message = refusal.contract_message();
            let message = message.strip_prefix("invalid configuration: ").unwrap_or(message);
            respond::bad(message)
        }
    }
}

//! Reading and writing objects, the same for every kind (contract 2.1). It checks ids and paths; `model`
//! checks the content.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use model::{ObjectKey, ObjectKind, PluginCatalog, Warning, WrittenObject, check};
use serde_json::{Map, Value, json};

use super::call::{AdminParts, Call, REVISION};
use super::listing::{self, ListingEntry, shown_key};
use super::{conditions, kinds};
use crate::object_path::ObjectPath;
use crate::reconcile::{Author, Done, PatchPart, Write, WriteCondition, WriteRefusal};
use crate::serve::RefusalResponse;
use crate::serve::respond::{self, bad, refuse_request};
use crate::serve::role::Role;

/// Answers one request for an object or a collection.
pub(super) async fn answer_resources(
    parts: &Arc<AdminParts>,
    target: ObjectPath,
    call: Call,
) -> Response<Bytes> {
    let kind = target.kind;
    if kind == ObjectKind::StreamRoute && parts.catalog.refuses_stream_routes() {
        return bad("stream mode is disabled, can not add stream routes");
    }
    if kinds::is_off(kind, &call.method) {
        let message = format!("not supported `{}` method for {}", call.method, kind.in_words());
        return respond::error_response(StatusCode::METHOD_NOT_ALLOWED, message);
    }
    let author = Arc::clone(&call.author);
    let condition = match conditions::read_write_condition(&call.headers) {
        Ok(condition) => condition,
        Err(refusal) => return *refusal,
    };
    let write = match call.method {
        Method::GET => return get(parts, target, call, &condition).await,
        Method::PUT => put(parts, &target, call),
        Method::POST => post(&target, call),
        Method::PATCH => patch(&target, call),
        Method::DELETE => delete(&target, &call),
        _ => return respond::not_found(),
    };
    match write {
        Ok(write) => finish(parts, write, author, condition).await,
        Err(refusal) => *refusal,
    }
}

async fn get(
    parts: &Arc<AdminParts>,
    target: ObjectPath,
    call: Call,
    condition: &WriteCondition,
) -> Response<Bytes> {
    let view = parts.view.load();
    if let Some(id) = target.key_id() {
        let written = ObjectKey::new(target.kind, &id).ok().and_then(|key| view.written(&key));
        let Some(written) = written else { return respond::key_not_found() };
        let index = written.modified_index;
        if !condition.holds(Some(index)) {
            return conditions::unmet_read(parts, &written.key, condition, index).await;
        }
        let shown = respond::json(StatusCode::OK, &entry(&parts.catalog(), call.role, written));
        return conditions::tag(shown, index);
    }
    let catalog = parts.catalog();
    let listed = respond::blocking(move || {
        let mut all = view.all_written(target.kind);
        if let Some(parent) = &target.parent {
            all.retain(|written| written.key.id.split('/').next() == Some(parent.as_str()));
        }
        if target.kind == ObjectKind::Credential && all.is_empty() {
            return respond::key_not_found();
        }
        let entries = all.into_iter().map(|written| entry(&catalog, call.role, written)).collect();
        match listing::list_entries(entries, &call.query, kinds::refers_to_upstreams(target.kind)) {
            Ok(listing) => respond::json(StatusCode::OK, &listing),
            Err(fault) => respond::text_response(StatusCode::BAD_REQUEST, fault),
        }
    });
    listed.await.unwrap_or_else(|refusal| *refusal)
}

/// The write of a PUT. Faults are looked for in APISIX's order: body, id, content.
fn put(parts: &AdminParts, target: &ObjectPath, call: Call) -> Result<Write, RefusalResponse> {
    let kind = target.kind;
    let ttl_s = call.query.number("ttl");
    let mut body = object(call.body.ok_or_else(|| refuse_request("missing configurations"))?)?;
    let id = match kind {
        ObjectKind::Consumer => match (&target.id, body.get("username")) {
            (Some(id), Some(Value::String(name))) if id != name => {
                return Err(refuse_request("wrong username"));
            }
            (_, Some(Value::String(name))) => name.clone(),
            _ => return Err(content_refusal(parts, kind, body, "property \"username\" is required")),
        },
        ObjectKind::PluginMetadata => {
            let name = target.id.clone().ok_or_else(|| refuse_request("missing plugin name"))?;
            if parts.catalog().get(&name).is_none() {
                return Err(refuse_request("invalid plugin name"));
            }
            name
        }
        ObjectKind::Secret if target.parent.is_none() || target.id.is_none() => return Err(missing_id(kind)),
        _ => own_id(target, &mut body)?,
    };
    match ObjectKey::new(kind, &target.key_id_of(&id)) {
        Ok(key) => Ok(Write::Put { key, body, ttl_s }),
        Err(fault) => Err(content_refusal(parts, kind, body, &fault.to_string())),
    }
}

/// The id from the path, otherwise from the body. An id from the path is written into the body.
fn own_id(target: &ObjectPath, body: &mut Map<String, Value>) -> Result<String, RefusalResponse> {
    let given = body.get("id").map(|id| match id {
        Value::String(id) => id.clone(),
        other => other.to_string(),
    });
    let whole = target.key_id();
    // The id in the body of a secret is `vault/1`; in other bodies it is the last segment only.
    let from_path = if target.kind == ObjectKind::Secret { whole } else { target.id.clone() };
    match (from_path, given) {
        (Some(id), Some(given)) if id != given => {
            Err(refuse_request(format!("wrong {} id", target.kind.in_words())))
        }
        (Some(id), _) => {
            body.insert("id".to_owned(), Value::String(id));
            Ok(target.id.clone().expect("key_id has a value only if id has one"))
        }
        (None, Some(given)) => Ok(given),
        (None, None) => Err(missing_id(target.kind)),
    }
}

fn post(target: &ObjectPath, call: Call) -> Result<Write, RefusalResponse> {
    let ttl_s = call.query.number("ttl");
    let body = object(call.body.ok_or_else(|| refuse_request("missing configurations"))?)?;
    if target.id.is_some() || body.contains_key("id") {
        return Err(refuse_request(format!("wrong {} id, do not need it", target.kind.in_words())));
    }
    Ok(Write::Create { kind: target.kind, body, ttl_s })
}

fn patch(target: &ObjectPath, call: Call) -> Result<Write, RefusalResponse> {
    if target.kind == ObjectKind::Secret && target.id.is_none() {
        return Err(refuse_request("no secret id"));
    }
    let id = target.key_id().ok_or_else(|| missing_id(target.kind))?;
    let ttl_s = call.query.number("ttl");
    let part = match (call.body, target.sub_path.is_empty()) {
        (None, _) => return Err(refuse_request("missing new configuration")),
        (Some(Value::Object(part)), true) => PatchPart::Merge(part),
        (Some(_), true) => return Err(refuse_request("invalid configuration")),
        (Some(part), false) => PatchPart::At(target.sub_path.clone(), part),
    };
    let key = ObjectKey::new(target.kind, &id).map_err(|_| Box::new(respond::key_not_found()))?;
    Ok(Write::Patch { key, part, ttl_s })
}

fn delete(target: &ObjectPath, call: &Call) -> Result<Write, RefusalResponse> {
    let id = target.key_id().ok_or_else(|| missing_id(target.kind))?;
    let key = ObjectKey::new(target.kind, &id).map_err(|_| Box::new(respond::key_not_found()))?;
    Ok(Write::Delete { key, force: call.query.get("force") == Some("true") })
}

/// Sends the write to the reconciling thread and makes the answer from its result.
async fn finish(
    parts: &AdminParts,
    write: Write,
    author: Author,
    condition: WriteCondition,
) -> Response<Bytes> {
    let is_patch = matches!(write, Write::Patch { .. });
    match parts.reconcile.write_if(write, author, condition).await {
        Ok(Done::Stored { key, text, created, revision }) => {
            let status = if created && !is_patch { StatusCode::CREATED } else { StatusCode::OK };
            let value = kinds::shown_as_stored(&parts.sealer, &key, &text);
            let body = json!({ "key": shown_key(&key.path()), "value": value });
            let mut response = conditions::tag(stamped(respond::json(status, &body), revision), revision);
            respond::add_warnings(&mut response, &warnings(parts, &key, &text));
            response
        }
        Ok(Done::Deleted { key, revision }) => {
            let body = json!({ "deleted": "1", "key": shown_key(&key.path()) });
            stamped(respond::json(StatusCode::OK, &body), revision)
        }
        Err(WriteRefusal::Changed(key)) => conditions::changed(parts, &key).await,
        Err(refused) => refusal_of_write(refused),
    }
}

/// The warnings of an object that was just written. If another write has replaced it since, the text is
/// checked again.
fn warnings(parts: &AdminParts, key: &ObjectKey, text: &str) -> Vec<Warning> {
    let view = parts.view.load();
    if view.written(key).is_some_and(|written| *written.text == *text) {
        return view.snapshot.warnings_at(key);
    }
    let value = serde_json::from_str(text).unwrap_or_default();
    check::check_object(&parts.catalog(), key, &value)
        .map(|checked| checked.warnings.into_vec())
        .unwrap_or_default()
}

/// The answer to a refused write.
pub(super) fn refusal_of_write(refused: WriteRefusal) -> Response<Bytes> {
    match refused {
        WriteRefusal::NotFound => respond::key_not_found(),
        WriteRefusal::Changed(key) => {
            let message =
                format!("{} was changed in the meantime", crate::stored_key::format_stored_key(&key));
            respond::error_response(StatusCode::PRECONDITION_FAILED, message)
        }
        WriteRefusal::NoConsumer => respond::error_response(StatusCode::NOT_FOUND, "consumer not found"),
        WriteRefusal::Invalid(message) => bad(message),
        WriteRefusal::ReadOnly(message) => {
            let mut response = respond::error_response(StatusCode::METHOD_NOT_ALLOWED, message);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, OPTIONS"));
            response
        }
        WriteRefusal::Store(message) => respond::error_response(StatusCode::SERVICE_UNAVAILABLE, message),
    }
}

/// The first fault of the content of a body without a usable key, or `otherwise` if the content has no fault.
fn content_refusal(
    parts: &AdminParts,
    kind: ObjectKind,
    body: Map<String, Value>,
    otherwise: &str,
) -> RefusalResponse {
    match check::value(&parts.catalog(), kind, &Value::Object(body)) {
        Err(refusal) => refuse_request(refusal.contract_message()),
        Ok(()) => refuse_request(format!("invalid configuration: {otherwise}")),
    }
}

fn entry<'w>(catalog: &PluginCatalog, role: Role, written: &'w WrittenObject) -> ListingEntry<'w> {
    ListingEntry {
        key: shown_key(&written.key.path()),
        value: kinds::shown_to(role, catalog, &written.key, &written.text),
        created_index: written.created_index,
        modified_index: written.modified_index,
    }
}

fn stamped(mut response: Response<Bytes>, revision: u64) -> Response<Bytes> {
    response.headers_mut().insert(REVISION, HeaderValue::from(revision));
    response
}

fn object(body: Value) -> Result<Map<String, Value>, RefusalResponse> {
    let found = match body {
        Value::Object(body) => return Ok(body),
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        Value::Null => "null",
    };
    Err(refuse_request(format!("invalid configuration: wrong type: expected object, got {found}")))
}

fn missing_id(kind: ObjectKind) -> RefusalResponse {
    refuse_request(format!("missing {} id", kind.in_words()))
}

//! `POST /apisix/admin/configs/validate`: checks a whole set of objects and stores nothing. It does not
//! follow references, because a set may refer to objects that are not in it.

use std::collections::HashSet;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, Response, StatusCode, header};
use model::{ObjectKey, ObjectKind, PluginCatalog, check, lenient_json};
use serde::Serialize;
use serde_json::{Map, Value};

use super::call::AdminParts;
use crate::serve::respond;
use crate::source::file::parse_value;

/// One fault of the set.
#[derive(Debug, Serialize)]
struct SetFault {
    resource_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    error: String,
}

/// Checks the body (JSON or YAML by its content type) against every rule that needs no other object.
pub(super) fn configs(parts: &AdminParts, headers: &HeaderMap, body: &Bytes) -> Response<Bytes> {
    if body.is_empty() {
        return respond::bad("invalid request body: empty request body");
    }
    let set = match parse_config_set(headers, body) {
        Ok(set) => set,
        Err(reason) => return respond::bad(format!("invalid request body: {reason}")),
    };
    let catalog = check::catalog_among(&parts.catalog(), set.get(ObjectKind::Extension.collection()));
    let faults = check_set(&catalog, set);
    if faults.is_empty() {
        return respond::empty(StatusCode::OK);
    }
    let answer = serde_json::json!({ "error_msg": "Configuration validation failed", "errors": faults });
    respond::json(StatusCode::BAD_REQUEST, &answer)
}

/// Whether the header field names YAML.
pub(super) fn is_yaml(headers: &HeaderMap, name: &HeaderName) -> bool {
    let value = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.starts_with("application/yaml")
}

/// The set in a body, JSON or YAML by its content type.
pub(super) fn parse_config_set(headers: &HeaderMap, body: &Bytes) -> Result<Map<String, Value>, String> {
    let set = if is_yaml(headers, &header::CONTENT_TYPE) {
        let text = std::str::from_utf8(body).map_err(|fault| fault.to_string())?;
        parse_value(text)?
    } else {
        lenient_json::from_slice(body)?
    };
    match set {
        Value::Object(set) => Ok(set),
        _ => Err("the set must be an object of lists".to_owned()),
    }
}

fn check_set(catalog: &PluginCatalog, set: Map<String, Value>) -> Vec<SetFault> {
    let mut faults = Vec::new();
    for (name, items) in set {
        let fault =
            |error: String| SetFault { resource_type: name.clone(), resource_id: None, index: None, error };
        if let Some(of) = name.strip_suffix("_conf_version") {
            if ObjectKind::from_collection(of).is_some() && !items.is_number() {
                faults.push(fault(format!("{name} must be a number")));
            }
            continue;
        }
        if SET_FIELDS.contains(&name.as_str()) {
            continue;
        }
        match (ObjectKind::from_collection(&name), items) {
            (Some(kind), Value::Array(items)) => check_items(catalog, kind, &name, items, &mut faults),
            (Some(_), _) => faults.push(fault(format!("{name} must be a list"))),
            (None, _) => faults.push(fault(format!("Unsupported resource type: {name}"))),
        }
    }
    faults
}

fn check_items(
    catalog: &PluginCatalog,
    kind: ObjectKind,
    name: &str,
    items: Vec<Value>,
    faults: &mut Vec<SetFault>,
) {
    let mut seen = HashSet::new();
    for (index, item) in items.into_iter().enumerate() {
        let id = read_item_id(kind, &item);
        let mut fault = |error: String| {
            let resource_type = name.to_owned();
            faults.push(SetFault { resource_type, resource_id: id.clone(), index: Some(index), error });
        };
        if let Err(reason) = check_item(catalog, kind, id.as_deref(), item) {
            fault(format!("invalid {name} at index {index}, err: {reason}"));
        }
        if let Some(id) = &id
            && !seen.insert(id.clone())
        {
            let field = if kind == ObjectKind::Consumer && !id.contains('/') { "username" } else { "id" };
            fault(format!("found duplicate {field} {id} in {name}"));
        }
    }
}

/// Checks one item of a collection; the error is the contract's text.
pub(super) fn check_item(
    catalog: &PluginCatalog,
    kind: ObjectKind,
    id: Option<&str>,
    mut item: Value,
) -> Result<(), String> {
    index_of(&mut item)?;
    let is_credential = kind == ObjectKind::Consumer && id.is_some_and(|id| id.contains("/credentials/"));
    let kind = if is_credential { ObjectKind::Credential } else { kind };
    let Some(id) = id else {
        return check::value(catalog, kind, &item).map_err(|refusal| refusal.contract_message().to_owned());
    };
    let key = ObjectKey::new(kind, id).map_err(|fault| fault.to_string())?;
    if let (ObjectKind::Credential, Some(object)) = (kind, item.as_object_mut()) {
        object.insert("id".to_owned(), key.own_id().into());
    }
    check::check_object(catalog, &key, &item)
        .map(drop)
        .map_err(|refusal| refusal.contract_message().to_owned())
}

/// Removes and returns the index that an item may have.
pub(super) fn index_of(item: &mut Value) -> Result<Option<u64>, String> {
    let Some(index) = item.as_object_mut().and_then(|item| item.shift_remove(INDEX)) else { return Ok(None) };
    index.as_u64().map(Some).ok_or_else(|| format!("{INDEX} must be a number: an integer from 0 up"))
}

/// The id of an item, or the name of a consumer.
pub(super) fn read_item_id(kind: ObjectKind, item: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let id = item.get("id").and_then(text);
    match kind {
        ObjectKind::Consumer if !id.as_deref().is_some_and(|id| id.contains('/')) => {
            item.get("username").and_then(text)
        }
        _ => id,
    }
}

/// The field of an item that holds the index that the owner of the set gave it.
pub(super) const INDEX: &str = "modifiedIndex";
/// Fields of a set beside its collections: answers to GET have them, and PUT accepts them.
pub(super) const SET_FIELDS: [&str; 2] = ["X-Digest", "X-Last-Modified"];

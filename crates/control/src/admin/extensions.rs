//! `extensions/NAME/…`: a version more, the list of versions, another active version, a canary, the way back.
//! Each change is a write of the whole object under the condition that it is as it was read. It names no
//! language.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header};
use model::ObjectKey;
use model::extension::decoded;
use serde_json::{Map, Value, json};

use super::call::{AdminParts, Call};
use super::conditions;
use super::endpoint::ExtensionAction;
use super::resources::refusal_of_write;
use crate::extension_edit::{self, ExtensionPush};
use crate::object_path::ObjectPath;
use crate::reconcile::{Done, Revisions, Write, WriteCondition, WriteRefusal};
use crate::serve::respond;

/// Times that a change is made anew because another write came in between.
const ATTEMPTS_MAX: usize = 5;

/// The body of a version that is sent as it is, in the place of JSON: its content in base64 and its language.
pub(super) fn raw_version(headers: &HeaderMap, body: &Bytes) -> Option<Value> {
    let media = headers.get(header::CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
    let language = match media {
        "application/json" | "application/x-www-form-urlencoded" => return None,
        "application/octet-stream" | "text/plain" => Value::Null,
        _ => {
            let (_, name) = media.split_once('/')?;
            name.strip_prefix("x-").unwrap_or(name).into()
        }
    };
    let raw = data_encoding::BASE64.encode(body);
    Some(json!({ RAW: raw, "language": language }))
}

/// Answers one request for an action.
pub(super) async fn answer_extension_action(
    parts: &Arc<AdminParts>,
    object: &ObjectPath,
    action: ExtensionAction,
    call: &Call,
) -> Response<Bytes> {
    let key = object.key_id().and_then(|name| ObjectKey::new(object.kind, &name).ok());
    let Some(key) = key else { return respond::key_not_found() };
    if (&call.method, action) == (&Method::GET, ExtensionAction::Versions) {
        return list(parts, &key);
    }
    let condition = match conditions::read_write_condition(&call.headers) {
        Ok(condition) => condition,
        Err(refusal) => return *refusal,
    };
    let mut refused = WriteRefusal::NotFound;
    for _ in 0..ATTEMPTS_MAX {
        match change_once(parts, &key, action, &condition, call).await {
            Ok(response) => return response,
            Err(WriteRefusal::Changed(key)) => refused = WriteRefusal::Changed(key),
            Err(other) => return refusal_of_write(other),
        }
    }
    refusal_of_write(refused)
}

/// Makes the change of the object as it is now. [`WriteRefusal::Changed`]: another write came in between.
async fn change_once(
    parts: &Arc<AdminParts>,
    key: &ObjectKey,
    action: ExtensionAction,
    condition: &WriteCondition,
    call: &Call,
) -> Result<Response<Bytes>, WriteRefusal> {
    let view = parts.view.load();
    let written = view.written(key);
    let index = written.map(|written| written.modified_index);
    if !condition.holds(index) {
        return Ok(conditions::changed(parts, key).await);
    }
    let stored = written.and_then(|written| serde_json::from_str::<Map<String, Value>>(&written.text).ok());
    let changed = {
        let (parts, name, change) =
            (Arc::clone(parts), Arc::clone(&key.id), ExtensionChange::of(action, call));
        respond::blocking(move || change.make(&parts, &name, stored)).await
    };
    let (mut body, version) = match changed {
        Ok(Ok(changed)) => changed,
        Ok(Err(fault)) => return Ok(fault.response()),
        Err(refusal) => return Ok(*refusal),
    };
    body.shift_remove("create_time");
    body.shift_remove("update_time");
    let write = Write::Put { key: key.clone(), body, ttl_s: None };
    match parts.reconcile.write_if(write, Arc::clone(&call.author), unchanged_since(index)).await? {
        Done::Stored { text, created, revision, .. } => {
            Ok(stored_answer(&key.id, version.as_deref(), &text, created, revision))
        }
        Done::Deleted { .. } => Ok(respond::key_not_found()),
    }
}

/// The condition that the object has this index still, or that there is none still.
fn unchanged_since(index: Option<u64>) -> WriteCondition {
    match index {
        Some(index) => WriteCondition { is_at: Some(Revisions::These(vec![index])), is_not_at: None },
        None => WriteCondition { is_at: None, is_not_at: Some(Revisions::Any) },
    }
}

fn stored_answer(
    name: &str,
    version: Option<&str>,
    text: &str,
    created: bool,
    revision: u64,
) -> Response<Bytes> {
    let object: Value = serde_json::from_str(text).unwrap_or_default();
    let body = json!({
        "name": name,
        "version": version,
        "active": object["active"],
        "previous": object["previous"],
        "canary": object["canary"],
    });
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    conditions::tag(respond::json(status, &body), revision)
}

fn list(parts: &AdminParts, key: &ObjectKey) -> Response<Bytes> {
    let view = parts.view.load();
    let Some(written) = view.written(key) else { return respond::key_not_found() };
    let object: Map<String, Value> = serde_json::from_str(&written.text).unwrap_or_default();
    let Some(loader) = parts.catalog.loader() else { return respond::bad(NO_LANGUAGE) };
    match extension_edit::list_extension_versions(loader, object) {
        Ok(versions) => conditions::tag(
            respond::json(StatusCode::OK, &json!({ "list": versions })),
            written.modified_index,
        ),
        Err(reason) => respond::bad(reason),
    }
}

/// A change that is asked for.
struct ExtensionChange {
    method: Method,
    action: ExtensionAction,
    query_activate: bool,
    query_canary: Option<Option<f64>>,
    query_language: Option<String>,
    body: Option<Value>,
    author: String,
}

enum ExtensionFault {
    NoExtension,
    NoMethod,
    Refused(String),
}

impl ExtensionFault {
    fn response(self) -> Response<Bytes> {
        match self {
            ExtensionFault::NoExtension => respond::key_not_found(),
            ExtensionFault::NoMethod => respond::not_found(),
            ExtensionFault::Refused(reason) => respond::bad(reason),
        }
    }
}

impl From<String> for ExtensionFault {
    fn from(reason: String) -> ExtensionFault {
        ExtensionFault::Refused(reason)
    }
}

impl ExtensionChange {
    fn of(action: ExtensionAction, call: &Call) -> ExtensionChange {
        ExtensionChange {
            method: call.method.clone(),
            action,
            query_activate: call.query.get("activate") == Some("true"),
            query_canary: call.query.get("canary").map(|_| call.query.number("canary")),
            query_language: call.query.get("language").map(str::to_owned),
            body: call.body.clone(),
            author: call.author.to_string(),
        }
    }

    /// The object that is to be stored, and the version that is meant.
    fn make(
        self,
        parts: &AdminParts,
        name: &str,
        stored: Option<Map<String, Value>>,
    ) -> Result<(Map<String, Value>, Option<String>), ExtensionFault> {
        let loader = parts.catalog.loader().ok_or_else(|| ExtensionFault::Refused(NO_LANGUAGE.to_owned()))?;
        let is_set = self.method == Method::PUT || self.method == Method::POST;
        if is_set && self.action == ExtensionAction::Versions {
            let push = self.push(loader)?;
            let (object, version) = extension_edit::push(loader, name, stored, push)?;
            return Ok((object, Some(version)));
        }
        let stored = stored.ok_or(ExtensionFault::NoExtension)?;
        let object = match (self.action, &self.method) {
            (ExtensionAction::Activate, _) if is_set => {
                let version = self.body.as_ref().and_then(|body| body.get("version")).and_then(Value::as_str);
                let version = version.ok_or_else(|| "property \"version\" is required".to_owned())?;
                extension_edit::activate(loader, stored, version)?
            }
            (ExtensionAction::Rollback, _) if is_set => extension_edit::roll_back_extension(loader, stored)?,
            (ExtensionAction::Canary, _) if is_set => match self.body {
                Some(Value::Object(canary)) => extension_edit::set_canary(loader, stored, Some(canary))?,
                _ => return Err(ExtensionFault::Refused("missing configurations".to_owned())),
            },
            (ExtensionAction::Canary, &Method::DELETE) => extension_edit::set_canary(loader, stored, None)?,
            _ => return Err(ExtensionFault::NoMethod),
        };
        Ok((object, None))
    }

    fn push(self, loader: &dyn model::extension::ExtensionLoader) -> Result<ExtensionPush, String> {
        let body = self.body.ok_or("missing configurations")?;
        let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
        let language = text("language").or(self.query_language);
        let content = match (text(RAW), text("content")) {
            (Some(raw), _) => {
                data_encoding::BASE64.decode(raw.as_bytes()).map_err(|error| error.to_string())?
            }
            (None, Some(content)) => {
                decoded(language.as_deref().is_some_and(|language| loader.is_binary(language)), &content)?
            }
            (None, None) => return Err("property \"content\" is required".to_owned()),
        };
        let canary = match self.query_canary {
            Some(None) => return Err("invalid argument canary: should be a number".to_owned()),
            canary => canary.flatten(),
        };
        let now = stdx::clock::unix_time();
        Ok(ExtensionPush {
            language,
            content,
            desc: text("desc"),
            author: self.author,
            now_s: now.as_secs(),
            activate: self.query_activate,
            canary,
        })
    }
}

/// The field of a content that was sent as it is. No field of a JSON body has such a name.
const RAW: &str = "\0raw";
/// The refusal of a program without languages.
const NO_LANGUAGE: &str = "this program has no language for extensions";

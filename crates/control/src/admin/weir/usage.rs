//! `weir/usage/KIND/ID`: the objects that an object names, and the objects that name it, with the places of
//! the names.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::{ObjectKey, ObjectKind};
use serde_json::{Value, json};

use crate::admin::call::{AdminParts, Call};
use crate::references::{self, ObjectReference};
use crate::serve::list_query::{limit, parse_object_key};
use crate::serve::{RefusalResponse, respond};
use crate::view::View;

/// Answers `weir/usage/KIND/ID?limit=`.
pub(super) async fn answer_usage(parts: &Arc<AdminParts>, path: &[String], call: &Call) -> Response<Bytes> {
    let found = async {
        let key = parse_object_key(path)?;
        let limit = limit(&call.query, LIMIT_MAX, LIMIT_MAX)?;
        let view = parts.view.load();
        respond::blocking(move || usage(&view, &key, limit)).await
    };
    let found: Result<Option<Value>, RefusalResponse> = found.await;
    match found {
        Ok(Some(body)) => respond::json(StatusCode::OK, &body),
        Ok(None) => respond::key_not_found(),
        Err(refusal) => *refusal,
    }
}

/// None: there is no such object.
fn usage(view: &View, key: &ObjectKey, limit: usize) -> Option<Value> {
    let own = view.written(key)?;
    let own = serde_json::from_str(&own.text).unwrap_or_default();
    let uses = references::find_references(key, &own);
    // Most plugins have no metadata object, and one that was not written is not named.
    let uses = uses.iter().filter(|named| {
        named.target.kind != ObjectKind::PluginMetadata || view.written(&named.target).is_some()
    });
    let users = users(view, key);
    let mut used_by = Vec::new();
    let mut total = 0;
    for user in &users {
        let Some(written) = view.written(user) else { continue };
        let value = serde_json::from_str(&written.text).unwrap_or_default();
        let names = references::find_references(user, &value);
        let names: Vec<&ObjectReference> = names.iter().filter(|named| named.target == *key).collect();
        total += usize::from(!names.is_empty());
        used_by.extend(names.iter().map(|named| describe(user, &named.pointer)));
        if used_by.len() >= limit {
            // The rest is counted and not read.
            total = users.len();
            break;
        }
    }
    used_by.truncate(limit);
    let uses: Vec<Value> = uses.take(limit).map(|named| describe(&named.target, &named.pointer)).collect();
    Some(json!({ "uses": uses, "used_by": used_by, "total": total }))
}

/// The objects that may name `key`, ordered by key.
fn users(view: &View, key: &ObjectKey) -> BTreeSet<ObjectKey> {
    let snapshot = &view.snapshot;
    let mut users: BTreeSet<ObjectKey> =
        snapshot.users_of(key).chain(snapshot.mentioned_by(key)).cloned().collect();
    // Faulty objects are in no index of the snapshot.
    let faulty = snapshot.faulty().filter(|faulty| references::may_name(&faulty.written.text, key));
    users.extend(faulty.map(|faulty| faulty.written.key.clone()));
    if matches!(key.kind, ObjectKind::Secret | ObjectKind::PluginMetadata) {
        // No index has these either. Looking into the texts of 10,000 objects takes a few milliseconds.
        let all = ObjectKind::ALL.into_iter().flat_map(|kind| snapshot.iter(kind));
        let named = all.filter(|object| references::may_name(&object.written.text, key));
        users.extend(named.map(|object| object.key().clone()));
    }
    users
}

fn describe(key: &ObjectKey, pointer: &str) -> Value {
    // Credentials are below their consumer, so that kind and id make the key of each object.
    let kind = if key.kind == ObjectKind::Credential { ObjectKind::Consumer } else { key.kind };
    json!({ "kind": kind.collection(), "id": &*key.id, "pointer": pointer })
}

/// Names in an answer, each way.
const LIMIT_MAX: usize = 500;

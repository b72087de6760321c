//! `weir/versions`: the kept revisions, the changes of each, and objects as they were.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::ObjectKey;
use serde_json::{Value, json};

use super::plan::answer_set_refusal;
use crate::admin::call::{AdminParts, Call};
use crate::hidden::places::with_hidden_secrets;
use crate::object_path::ObjectPath;
use crate::plan::{ConfigPlan, ObjectChange};
use crate::reconcile::versions::{VersionFilter, VersionList};
use crate::serve::RefusalResponse;
use crate::serve::list_query::{limit, whole_number};
use crate::serve::respond::{self, refuse_request};
use crate::source::store::RevisionInfo;
use crate::stored_key;

/// Answers `weir/versions`, `weir/versions/N` and `weir/versions/N/objects/KIND/ID`.
pub(super) async fn answer_versions(
    parts: &Arc<AdminParts>,
    path: &[String],
    call: &Call,
) -> Response<Bytes> {
    let answered = match path {
        [] => list(parts, call).await,
        [version] => one(parts, call, version).await,
        [version, objects, path @ ..] if objects == "objects" && path.len() >= 2 => {
            object(parts, version, path).await
        }
        _ => return respond::not_found(),
    };
    answered.unwrap_or_else(|refusal| *refusal)
}

async fn list(parts: &Arc<AdminParts>, call: &Call) -> Result<Response<Bytes>, RefusalResponse> {
    let limit = limit(&call.query, LIMIT_DEFAULT, LIMIT_MAX)?;
    let below = whole_number(&call.query, "before")?.unwrap_or(u64::MAX);
    let filter = filter(call)?;
    let listed = parts.reconcile.run(move |control| control.versions(below, limit, &filter)).await;
    let VersionList { revision, oldest, versions } = answered(listed)?;
    Ok(respond::json(StatusCode::OK, &versions_value(revision, oldest, &versions)))
}

/// The filter of a list: `key=routes/shop`, `by=ana`, `since=MILLISECONDS`.
fn filter(call: &Call) -> Result<VersionFilter, RefusalResponse> {
    let key = |text: &str| {
        let key = stored_key::parse_stored_key(text.trim_start_matches('/'));
        key.ok_or_else(|| refuse_request("the argument key must be the key of an object, such as routes/1"))
    };
    let key = call.query.get("key").map(key).transpose()?;
    let by = call.query.get("by").map(str::trim).filter(|by| !by.is_empty()).map(str::to_lowercase);
    Ok(VersionFilter { key, by, since_ms: whole_number(&call.query, "since")? })
}

/// One revision. Without `limit` all its changes are answered, as `weir history` reads them.
async fn one(
    parts: &Arc<AdminParts>,
    call: &Call,
    version: &str,
) -> Result<Response<Bytes>, RefusalResponse> {
    let version = revision(version)?;
    let limit = limit(&call.query, usize::MAX, CHANGES_MAX)?;
    let offset = whole_number(&call.query, "offset")?.unwrap_or_default();
    let found = parts.reconcile.run(move |control| control.version(version)).await;
    let (version, plan) = answered(found)?;
    Ok(respond::json(StatusCode::OK, &page_value(&version, &plan, offset, limit)))
}

/// An object as it was at a revision, its secrets hidden; `value` is null if it did not exist.
async fn object(
    parts: &Arc<AdminParts>,
    version: &str,
    path: &[String],
) -> Result<Response<Bytes>, RefusalResponse> {
    let version = revision(version)?;
    let key = object_key(path).ok_or_else(|| Box::new(respond::not_found()))?;
    let wanted = key.clone();
    let found = parts.reconcile.run(move |control| control.object_at(version, &wanted)).await;
    let value = answered(found)?.map(|text| with_hidden_secrets(&parts.catalog(), &key, &text));
    let body = json!({ "version": version, "key": stored_key::format_stored_key(&key), "value": value });
    Ok(respond::json(StatusCode::OK, &body))
}

fn object_key(path: &[String]) -> Option<ObjectKey> {
    let path = ObjectPath::parse(path).filter(|path| path.sub_path.is_empty())?;
    ObjectKey::new(path.kind, &path.key_id()?).ok()
}

fn revision(text: &str) -> Result<u64, RefusalResponse> {
    text.parse().map_err(|_| refuse_request("the segment after versions must be a revision, a whole number"))
}

fn answered<T>(
    answer: Option<Result<T, crate::reconcile::whole::WholeRefused>>,
) -> Result<T, RefusalResponse> {
    match answer {
        Some(Ok(found)) => Ok(found),
        Some(Err(refused)) => Err(Box::new(answer_set_refusal(refused, None))),
        None => Err(respond::busy()),
    }
}

/// The answer of `weir/versions`.
pub(crate) fn versions_value(revision: u64, oldest: u64, versions: &[RevisionInfo]) -> Value {
    let versions: Vec<Value> = versions.iter().map(describe).collect();
    json!({ "revision": revision, "oldest": oldest, "versions": versions })
}

/// The answer of `weir/versions/N` with all changes.
pub(crate) fn version_value(version: &RevisionInfo, plan: &ConfigPlan) -> Value {
    page_value(version, plan, 0, usize::MAX)
}

/// A revision with at most `limit` of its changes, beginning with the one at `offset`, and the number of all.
fn page_value(version: &RevisionInfo, plan: &ConfigPlan, offset: u64, limit: usize) -> Value {
    let first = usize::try_from(offset).unwrap_or(usize::MAX);
    let page: Vec<&ObjectChange> = plan.objects.iter().skip(first).take(limit).collect();
    let mut body = describe(version);
    body["changes"] = serde_json::to_value(page).expect("a plan is texts and numbers");
    body["total"] = plan.objects.len().into();
    body["offset"] = offset.into();
    body
}

fn describe(version: &RevisionInfo) -> Value {
    json!({
        "version": version.revision,
        "parent": version.parent,
        "at_ms": version.label.at_ms,
        "source": version.label.source,
        "by": &*version.label.by,
        "objects": version.objects,
    })
}

/// Default number of revisions: one or two screens of a terminal.
const LIMIT_DEFAULT: usize = 100;
/// Largest number of revisions in an answer.
const LIMIT_MAX: usize = 10_000;
/// Largest number of changes on a page: about half a megabyte of routes.
const CHANGES_MAX: usize = 1_000;

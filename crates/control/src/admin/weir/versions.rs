//! `weir/versions`: the kept revisions and the changes of each.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::plan::{number, refusal};
use crate::admin::respond::{self, refused};
use crate::admin::server::{AdminParts, Call};
use crate::plan::Plan;
use crate::reconcile::versions::VersionList;
use crate::serve::Refusal;
use crate::source::store::Version;

/// Answers `weir/versions` and `weir/versions/N`.
pub(super) async fn answer(parts: &Arc<AdminParts>, call: &Call) -> Response<Bytes> {
    let answered = match call.segments.get(2).map(|version| version.parse::<u64>()) {
        None => list(parts, call).await,
        Some(Ok(version)) => one(parts, version).await,
        Some(Err(_)) => Err(refused("the last segment must be a revision, a whole number")),
    };
    answered.unwrap_or_else(|refusal| *refusal)
}

async fn list(parts: &Arc<AdminParts>, call: &Call) -> Result<Response<Bytes>, Refusal> {
    let limit = number(&call.query, "limit")?.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(refused(format!("the argument limit must be 1 to {LIMIT_MAX}")));
    }
    let below = number(&call.query, "before")?.unwrap_or(u64::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let listed = parts.reconcile.run(move |reconciler| reconciler.versions(below, limit)).await;
    let VersionList { revision, oldest, versions } = answered(listed)?;
    Ok(respond::json(StatusCode::OK, &versions_value(revision, oldest, &versions)))
}

async fn one(parts: &Arc<AdminParts>, version: u64) -> Result<Response<Bytes>, Refusal> {
    let found = parts.reconcile.run(move |reconciler| reconciler.version(version)).await;
    let (version, plan) = answered(found)?;
    Ok(respond::json(StatusCode::OK, &version_value(&version, &plan)))
}

fn answered<T>(answer: Option<Result<T, crate::reconcile::whole::WholeRefused>>) -> Result<T, Refusal> {
    match answer {
        Some(Ok(found)) => Ok(found),
        Some(Err(refused)) => Err(Box::new(refusal(refused, None))),
        None => Err(respond::busy()),
    }
}

/// The answer of `weir/versions`.
pub(crate) fn versions_value(revision: u64, oldest: u64, versions: &[Version]) -> Value {
    let versions: Vec<Value> = versions.iter().map(describe).collect();
    json!({ "revision": revision, "oldest": oldest, "versions": versions })
}

/// The answer of `weir/versions/N`.
pub(crate) fn version_value(version: &Version, plan: &Plan) -> Value {
    let mut body = describe(version);
    body["changes"] = serde_json::to_value(&plan.objects).expect("a plan is texts and numbers");
    body
}

fn describe(version: &Version) -> Value {
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
const LIMIT_DEFAULT: u64 = 100;
/// Largest number of revisions in an answer.
const LIMIT_MAX: u64 = 10_000;

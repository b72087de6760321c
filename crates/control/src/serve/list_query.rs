//! The arguments that lists share: the filter `q`, the limit, whole numbers, and the refusal of a filter with
//! its place.

use std::sync::Arc;

use http::StatusCode;
use model::ObjectKind;
use model::search::{FilterFields, SearchFilter};
use serde_json::json;

use crate::clock::{Clock, SystemClock};
use crate::object_path::ObjectPath;
use crate::serve::RefusalResponse;
use crate::serve::query::Query;
use crate::serve::respond::{self, refuse_request};

/// The filter in the argument `q`; without it, everything matches.
///
/// # Errors
/// 400 `{"error_msg", "at", "expected"}`; `at` counts characters.
pub(crate) fn parse_filter(query: &Query, fields: &FilterFields) -> Result<SearchFilter, RefusalResponse> {
    SearchFilter::parse(query.get("q").unwrap_or_default(), fields).map_err(|fault| {
        let body = json!({ "error_msg": fault.reason, "at": fault.at, "expected": fault.expected });
        Box::new(respond::json(StatusCode::BAD_REQUEST, &body))
    })
}

/// The argument `limit`: 1 to `most`.
///
/// # Errors
/// 400 for any other value.
pub(crate) fn limit(query: &Query, default: usize, most: usize) -> Result<usize, RefusalResponse> {
    number_to(query, "limit", default, most)
}

/// The argument `name`: 1 to `most`.
///
/// # Errors
/// 400 for any other value.
pub(crate) fn number_to(
    query: &Query,
    name: &str,
    default: usize,
    most: usize,
) -> Result<usize, RefusalResponse> {
    let Some(found) = whole_number(query, name)? else { return Ok(default) };
    let found = usize::try_from(found).unwrap_or(usize::MAX);
    if (1..=most).contains(&found) {
        Ok(found)
    } else {
        Err(refuse_request(format!("the argument {name} must be 1 to {most}")))
    }
}

/// The argument `name`, a whole number; none where it is missing.
///
/// # Errors
/// 400 for any other value.
pub(crate) fn whole_number(query: &Query, name: &str) -> Result<Option<u64>, RefusalResponse> {
    let parse = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| refuse_request(format!("the argument {name} must be a whole number from 0")))
    };
    query.get(name).map(parse).transpose()
}

/// The collection that a path names, such as `routes` or `consumers/jack/credentials`: its kind, and of
/// credentials the consumer.
///
/// # Errors
/// 404 with the collections that there are.
pub(crate) fn collection(path: &[String]) -> Result<(ObjectKind, Option<Arc<str>>), RefusalResponse> {
    let target = ObjectPath::parse(path).filter(|target| target.id.is_none() && target.sub_path.is_empty());
    match target {
        // Secrets are one list, whatever their manager is.
        Some(target) if target.kind == ObjectKind::Credential => {
            Ok((target.kind, target.parent.map(Into::into)))
        }
        Some(target) if target.parent.is_none() => Ok((target.kind, None)),
        _ => Err(Box::new(respond::error_response(StatusCode::NOT_FOUND, unknown_collection()))),
    }
}

/// The object that a path names, as a key.
///
/// # Errors
/// 404 for a path that names no object.
pub(crate) fn parse_object_key(path: &[String]) -> Result<model::ObjectKey, RefusalResponse> {
    let target = ObjectPath::parse(path).filter(|target| target.sub_path.is_empty());
    let key = target.and_then(|target| model::ObjectKey::new(target.kind, &target.key_id()?).ok());
    key.ok_or_else(|| {
        let reason = "write KIND/ID behind it, such as routes/1 or consumers/jack/credentials/c1";
        Box::new(respond::error_response(StatusCode::NOT_FOUND, reason))
    })
}

fn unknown_collection() -> String {
    let names: Vec<&str> = ObjectKind::ALL
        .into_iter()
        .filter(|kind| *kind != ObjectKind::Credential)
        .map(ObjectKind::collection)
        .collect();
    format!("write objects/KIND; KIND is one of {}, consumers/USERNAME/credentials", names.join(", "))
}

/// The time now, in milliseconds, for ages in filters.
pub(crate) fn now_ms() -> u64 {
    SystemClock.unix_ms()
}

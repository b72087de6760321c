//! Conditional requests for single objects (RFC 9110 section 13): the entity tag of an object is its
//! `modifiedIndex`; `If-Match` and `If-None-Match` become the condition of a write. A request without these
//! fields is served as before.

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use model::ObjectKey;
use serde_json::{Value, json};

use super::call::AdminParts;
use crate::hidden::places::with_hidden_secrets;
use crate::reconcile::versions::VersionFilter;
use crate::reconcile::{Revisions, WriteCondition};
use crate::serve::{RefusalResponse, respond};

/// The condition that the header of a request states.
///
/// # Errors
/// The 400 for a field that is no list of entity tags, or a longer one than [`MAX_TAGS`].
pub(super) fn read_write_condition(headers: &HeaderMap) -> Result<WriteCondition, RefusalResponse> {
    // RFC 9110 section 13.1.1: a weak tag never meets `If-Match`.
    let is_at = revisions(headers, &header::IF_MATCH, false)?;
    let is_not_at = revisions(headers, &header::IF_NONE_MATCH, true)?;
    Ok(WriteCondition { is_at, is_not_at })
}

/// Adds the entity tag of an object that was last written at that revision. The answer may hold secrets, and
/// another role is shown another form under the same tag, so that no cache may keep it.
pub(super) fn tag(mut response: Response<Bytes>, modified_index: u64) -> Response<Bytes> {
    let tag =
        HeaderValue::from_str(&format!("\"{modified_index}\"")).expect("digits in quotes are a field value");
    response.headers_mut().insert(header::ETAG, tag);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The answer to a read under a condition that does not hold: 304 where the reader has the object already,
/// otherwise 412.
pub(super) async fn unmet_read(
    parts: &AdminParts,
    key: &ObjectKey,
    condition: &WriteCondition,
    modified_index: u64,
) -> Response<Bytes> {
    let without_first = WriteCondition { is_at: None, is_not_at: condition.is_not_at.clone() };
    if without_first.holds(Some(modified_index)) {
        return changed(parts, key).await;
    }
    tag(respond::empty(StatusCode::NOT_MODIFIED), modified_index)
}

/// 412: the object is not at the revision that the request names. Names the object as it is now, its secrets
/// hidden, and the author and the time of its last change where they are known.
pub(super) async fn changed(parts: &AdminParts, key: &ObjectKey) -> Response<Bytes> {
    let view = parts.view.load();
    let Some(written) = view.written(key) else {
        let message = format!("{} does not exist; the request expects that it does", shown(key));
        let nothing = Value::Null;
        let body = json!({
            "error_msg": message, "current": nothing, "modifiedIndex": nothing, "by": nothing, "at_ms": nothing,
        });
        return respond::json(StatusCode::PRECONDITION_FAILED, &body);
    };
    let revision = written.modified_index;
    let filter = VersionFilter::default();
    let listed =
        parts.reconcile.run(move |control| control.versions(revision.saturating_add(1), 1, &filter)).await;
    let version = listed.and_then(Result::ok).and_then(|mut listed| listed.versions.pop());
    let label = version.filter(|version| version.revision == revision).map(|version| version.label);
    let by = label.as_ref().map(|label| &*label.by);
    let author = by.filter(|by| !by.is_empty()).map(|by| format!(", written by {by}")).unwrap_or_default();
    let body = json!({
        "error_msg": format!(
            "{} is at revision {revision}{author}; the request expects another state",
            shown(key)
        ),
        "current": with_hidden_secrets(&parts.catalog(), key, &written.text),
        "modifiedIndex": revision,
        "by": by,
        "at_ms": label.as_ref().map(|label| label.at_ms),
    });
    tag(respond::json(StatusCode::PRECONDITION_FAILED, &body), revision)
}

fn shown(key: &ObjectKey) -> String {
    crate::stored_key::format_stored_key(key)
}

/// The revisions in the tags of a field; none if the field is missing.
fn revisions(
    headers: &HeaderMap,
    name: &HeaderName,
    is_weak: bool,
) -> Result<Option<Revisions>, RefusalResponse> {
    let mut listed = Vec::new();
    let mut is_there = false;
    for value in headers.get_all(name) {
        is_there = true;
        let text = value.to_str().unwrap_or_default().trim();
        if text == "*" {
            return Ok(Some(Revisions::Any));
        }
        for tag in text.split(',').map(str::trim) {
            let (strong, tag) = match tag.strip_prefix("W/") {
                Some(tag) => (false, tag),
                None => (true, tag),
            };
            let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let Some(inner) = inner.filter(|inner| !inner.contains('"')) else {
                return Err(refused(name, "must be * or entity tags, such as \"12\""));
            };
            if listed.len() == MAX_TAGS {
                return Err(refused(name, &format!("has more than {MAX_TAGS} entity tags")));
            }
            // A tag that is no revision is the tag of no object here.
            let revision = inner.parse::<u64>().ok().filter(|_| strong || is_weak);
            listed.push(revision);
        }
    }
    Ok(is_there.then(|| Revisions::These(listed.into_iter().flatten().collect())))
}

fn refused(name: &HeaderName, reason: &str) -> RefusalResponse {
    let name = if *name == header::IF_MATCH { "If-Match" } else { "If-None-Match" };
    respond::refuse_request(format!("the header {name} {reason}"))
}

/// Limit of the entity tags in a request: a client has read a few states of an object.
const MAX_TAGS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn fields_become_a_condition() {
        let these = |listed: &[u64]| Some(Revisions::These(listed.to_vec()));
        let check = |fields: &[(&'static str, &str)], is_at, is_not_at| {
            assert_eq!(
                read_write_condition(&headers(fields)).unwrap(),
                WriteCondition { is_at, is_not_at },
                "{fields:?}"
            );
        };
        check(&[], None, None);
        check(&[("if-match", "\"12\"")], these(&[12]), None);
        check(&[("if-match", "\"1\", \"2\""), ("if-match", "\"3\"")], these(&[1, 2, 3]), None);
        check(&[("if-match", "W/\"1\"")], these(&[]), None);
        check(&[("if-match", "\"abc\"")], these(&[]), None);
        check(&[("if-match", "*")], Some(Revisions::Any), None);
        check(&[("if-none-match", "*")], None, Some(Revisions::Any));
        check(&[("if-none-match", "W/\"7\",\"8\"")], None, these(&[7, 8]));
    }

    #[test]
    fn field_without_tags_is_refused() {
        for value in ["12", "", "\"1\" \"2\"", "\"1\",", "W/1", &"\"1\",".repeat(65)] {
            let refusal = read_write_condition(&headers(&[("if-match", value)])).unwrap_err();
            assert_eq!(refusal.status(), 400, "{value}");
            assert!(String::from_utf8_lossy(refusal.body()).contains("If-Match"), "{value}");
        }
    }
}

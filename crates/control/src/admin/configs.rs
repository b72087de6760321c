//! `/apisix/admin/configs`: an external owner such as ADC or the ingress controller reads and puts the whole
//! set (contract 2.1, API-driven standalone). The reconciling thread brings a set into force.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use model::{ObjectKey, ObjectKind, PluginCatalog, check};
use serde_json::{Map, Value};

use super::call::AdminParts;
use super::validate::{INDEX, SET_FIELDS, check_item, index_of, is_yaml, parse_config_set, read_item_id};
use super::weir::plan::answer_set_refusal;
use crate::hidden::places::hide_secrets;
use crate::reconcile::Author;
use crate::reconcile::configs::{Collection, ConfigsItem, ConfigsUpdate};
use crate::serve::RefusalResponse;
use crate::serve::respond::{self, refuse_request};
use crate::serve::role::Role;
use crate::source::file::compose::{collection_of, compose_document, yaml};
use crate::source::file::parse_item;
use crate::source::store::SetStatement;
use crate::view::View;

/// Answers one request for the whole set.
pub(super) async fn answer_configs(
    parts: &Arc<AdminParts>,
    head: &Parts,
    body: &Bytes,
    author: Author,
    role: Role,
) -> Response<Bytes> {
    let answered = match head.method {
        Method::GET | Method::HEAD => get(parts, head, role).await,
        Method::PUT => put(parts, head, body, author).await,
        _ => Ok(respond::not_found()),
    };
    answered.unwrap_or_else(|refusal| *refusal)
}

async fn get(parts: &Arc<AdminParts>, head: &Parts, role: Role) -> Result<Response<Bytes>, RefusalResponse> {
    let view = parts.view.load();
    let mut response = if head.method == Method::HEAD {
        respond::empty(StatusCode::OK)
    } else {
        let as_yaml = is_yaml(&head.headers, &header::ACCEPT);
        // An admin gets private keys, because a set without them could not be put back. A viewer cannot put a
        // set.
        let with_keys = role == Role::Admin;
        let (view, catalog) = (Arc::clone(&view), parts.catalog());
        let text = respond::blocking(move || text(&view, &catalog, with_keys, as_yaml)).await?;
        let mut response = Response::new(Bytes::from(text));
        if as_yaml {
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(YAML));
        }
        response
    };
    let headers = response.headers_mut();
    if let Some(last_modified_s) = view.last_modified_s() {
        headers.insert(LAST_MODIFIED, HeaderValue::from(last_modified_s));
    }
    if let Some(digest) = view.digest().and_then(|digest| HeaderValue::from_str(digest).ok()) {
        headers.insert(DIGEST, digest);
    }
    Ok(response)
}

/// The set as text, with `*_conf_version` of every collection.
fn text(view: &View, catalog: &PluginCatalog, with_keys: bool, as_yaml: bool) -> String {
    let mut whole = Map::new();
    for kind in ObjectKind::ALL.into_iter().filter(|kind| collection_of(*kind) == *kind) {
        let mut all = view.all_written(kind);
        if kind == ObjectKind::Consumer {
            all.extend(view.all_written(ObjectKind::Credential));
        }
        let lists = compose_document(all.iter().map(|written| (&written.key, &*written.text)));
        if let Some((name, Value::Array(mut items))) = lists.into_iter().next() {
            for (item, written) in items.iter_mut().zip(&all) {
                if !with_keys {
                    hide_secrets(catalog, &written.key, item);
                }
                let index = view.configs.index(&written.key, written.modified_index);
                if let (Some(index), Some(item)) = (index, item.as_object_mut()) {
                    item.insert(INDEX.to_owned(), index.into());
                }
            }
            whole.insert(name, Value::Array(items));
        }
        whole.insert(version_name(kind), view.configs.version(kind).into());
    }
    let [digest, last_modified] = SET_FIELDS;
    if let Some(found) = view.digest() {
        whole.insert(digest.to_owned(), found.into());
    }
    if let Some(found) = view.last_modified_s() {
        whole.insert(last_modified.to_owned(), found.into());
    }
    let whole = Value::Object(whole);
    if as_yaml { yaml(&whole) } else { format!("{whole}\n") }
}

async fn put(
    parts: &Arc<AdminParts>,
    head: &Parts,
    body: &Bytes,
    author: Author,
) -> Result<Response<Bytes>, RefusalResponse> {
    let digest = digest(&head.headers)?;
    if body.is_empty() {
        return Err(refuse_request("invalid request body: empty request body"));
    }
    let (headers, body) = (head.headers.clone(), body.clone());
    let parsed = respond::blocking(move || parse_config_set(&headers, &body)).await?;
    let whole = Arc::new(parsed.map_err(|reason| refuse_request(format!("invalid request body: {reason}")))?);
    for _ in 0..MAX_ATTEMPTS {
        let view = parts.view.load();
        if view.digest() == Some(&digest) {
            return Ok(respond::empty(StatusCode::NO_CONTENT));
        }
        let (follows, catalog, whole) = (Arc::clone(&view.configs), parts.catalog(), Arc::clone(&whole));
        let read = respond::blocking(move || collections(&catalog, &follows, &whole)).await?;
        let collections = read.map_err(refuse_request)?;
        let items = collections.iter().flat_map(|collection| &collection.items);
        let keys: Vec<ObjectKey> = items.map(|(key, ..)| key.clone()).collect();
        let (digest, follows, author) = (digest.clone(), Arc::clone(&view.configs), Arc::clone(&author));
        let put = ConfigsUpdate { digest, follows, collections, author };
        match parts.reconcile.change(move |reconciler| reconciler.put_configs(put)).await {
            Some(Ok(Ok(()))) => {
                let mut response = respond::empty(StatusCode::ACCEPTED);
                respond::warn_of(&mut response, &parts.view.load().snapshot, &keys);
                return Ok(response);
            }
            // Another set was put in the meantime, so the versions are compared with the new view.
            Some(Ok(Err(_))) => {}
            Some(Err(refused)) => return Err(Box::new(answer_set_refusal(refused, None))),
            None => break,
        }
    }
    Err(respond::busy())
}

/// The name of the set, which the caller chooses.
fn digest(headers: &HeaderMap) -> Result<String, RefusalResponse> {
    match headers.get(DIGEST).map(HeaderValue::to_str) {
        Some(Ok(digest)) if !digest.is_empty() && digest.len() <= MAX_DIGEST_BYTES => Ok(digest.to_owned()),
        Some(Ok("")) | None => Err(refuse_request("missing digest header")),
        Some(_) => {
            Err(refuse_request(format!("the digest must be 1 to {MAX_DIGEST_BYTES} visible characters")))
        }
    }
}

/// The collections of a set with a new version; the error is the contract's text.
fn collections(
    catalog: &PluginCatalog,
    follows: &SetStatement,
    whole: &Map<String, Value>,
) -> Result<Vec<Collection>, String> {
    let known = |name: &str| {
        let name = name.strip_suffix(VERSION).unwrap_or(name);
        ObjectKind::from_collection(name).is_some_and(|kind| kind != ObjectKind::Credential)
            || SET_FIELDS.contains(&name)
    };
    if let Some(name) = whole.keys().find(|name| !known(name)) {
        return Err(format!("Unsupported resource type: {name}"));
    }
    let catalog = &check::catalog_among(catalog, whole.get(ObjectKind::Extension.collection()));
    let mut collections = Vec::new();
    for kind in ObjectKind::ALL.into_iter().filter(|kind| collection_of(*kind) == *kind) {
        let current = follows.version(kind);
        let version = version(kind, current, whole.get(&version_name(kind)))?;
        if version == current {
            continue;
        }
        let name = kind.collection();
        let items = match whole.get(name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items_of(catalog, kind, items)?,
            Some(_) => return Err(format!("{name} must be a list")),
        };
        collections.push(Collection { kind, version, items });
    }
    Ok(collections)
}

/// The version of a collection: the given one, otherwise the next one.
fn version(kind: ObjectKind, current: u64, given: Option<&Value>) -> Result<u64, String> {
    let name = version_name(kind);
    let Some(given) = given else { return Ok(current + 1) };
    let number = given.as_f64().ok_or_else(|| format!("{name} must be a number"))?;
    // The conversion to f64 is exact below 2^53, and it is used only for numbers that are no u64.
    #[allow(clippy::cast_precision_loss)]
    let is_lower = given.as_u64().map_or(number < current as f64, |given| given < current);
    if is_lower {
        return Err(format!("{name} must be greater than or equal to ({current})"));
    }
    given.as_u64().ok_or_else(|| format!("{name} must be a number: an integer from 0 up"))
}

/// The objects of a collection, each checked on its own.
fn items_of(catalog: &PluginCatalog, kind: ObjectKind, items: &[Value]) -> Result<Vec<ConfigsItem>, String> {
    let name = kind.collection();
    let mut seen = HashSet::new();
    let mut objects = Vec::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        let mut item = item.clone();
        let id = read_item_id(kind, &item);
        let refused = |reason: String| format!("invalid {name} at index {position}, err: {reason}");
        let index = index_of(&mut item).map_err(refused)?;
        check_item(catalog, kind, id.as_deref(), item.clone()).map_err(refused)?;
        let object = parse_item(kind, position, item, "").map_err(|(_, reason)| refused(reason))?;
        if !seen.insert(object.key.clone()) {
            let field = match object.key.kind {
                ObjectKind::Consumer => "username",
                ObjectKind::Credential => "credential id",
                _ => "id",
            };
            return Err(format!("found duplicate {field} {} in {name}", object.key.id));
        }
        objects.push((object.key, object.text, index));
    }
    Ok(objects)
}

fn version_name(kind: ObjectKind) -> String {
    format!("{}{VERSION}", kind.collection())
}

const VERSION: &str = "_conf_version";
const DIGEST: HeaderName = HeaderName::from_static("x-digest");
const LAST_MODIFIED: HeaderName = HeaderName::from_static("x-last-modified");
const YAML: &str = "application/yaml";
/// Longest digest: any hash in any notation is shorter.
const MAX_DIGEST_BYTES: usize = 1024;
/// Attempts to put a set while other sets are put at the same time; then the answer is 503.
const MAX_ATTEMPTS: usize = 8;

#[cfg(test)]
mod tests;

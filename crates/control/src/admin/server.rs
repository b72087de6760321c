//! The entry to the Admin API: it checks address and key before the body is read, then calls the module of the path.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use model::extension::EXTENSION_CONTENT_BYTES_MAX;
use model::lenient_json;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::auth::Access;
use super::call::{AdminParts, Call, REVISION, unsupported};
use super::denial::denied_response;
use super::{configs, extensions, openapi, plugins, resources, schema, ui, validate, weir};
use crate::object_path::{COST_DECORATIONS, ObjectPath};
use crate::reconcile::Author;
use crate::serve::query::{Query, segments};
use crate::serve::{Answer, Handler, Peer, Refusal, respond};

/// The Admin API of one listener.
pub(crate) struct Admin {
    pub(crate) parts: Arc<AdminParts>,
    /// Permits for reading and working on a whole set.
    sets: Arc<Semaphore>,
}

impl Admin {
    /// An Admin API of these parts.
    pub(crate) fn new(parts: AdminParts) -> Admin {
        Admin { parts: Arc::new(parts), sets: Arc::new(Semaphore::new(SETS_AT_ONCE)) }
    }
}

impl Handler for Admin {
    fn allows(&self, peer: SocketAddr) -> bool {
        self.parts.gate.allows(peer)
    }

    fn admit(&self, head: &Parts, peer: SocketAddr) -> Result<(), Refusal> {
        if head.method == Method::OPTIONS || is_probe(head) || !is_below_prefix(head) {
            return Ok(());
        }
        match self.parts.gate.admit(head, access(head), peer) {
            Ok(_) => Ok(()),
            Err(denied) => {
                let refusal = denied_response(&self.parts.gate, denied, peer);
                Err(Box::new(self.parts.headers.add_to_refusal(refusal)))
            }
        }
    }

    fn too_large(&self, size: Option<u64>, limit: usize) -> Response<Bytes> {
        let size = size.map_or_else(|| "of the request".to_owned(), |size| size.to_string());
        let reason = format!(
            "invalid request body: request size {size} is greater than the maximum size {limit} allowed"
        );
        self.parts.headers.add_to(respond::bad(reason))
    }

    fn max_body_bytes(&self, head: &Parts) -> usize {
        let path = segments(head.uri.path());
        if is_version(&path) {
            EXTENSION_CONTENT_BYTES_MAX
        } else if whole_set(&path).is_empty() {
            MAX_BODY_BYTES
        } else {
            self.parts.max_set_bytes
        }
    }

    fn queue(&self, head: &Parts) -> Option<Arc<Semaphore>> {
        let path = segments(head.uri.path());
        let has_set = matches!(head.method, Method::PUT | Method::POST)
            && (is_version(&path) || !whole_set(&path).is_empty());
        has_set.then(|| Arc::clone(&self.sets))
    }

    fn busy(&self) -> Response<Bytes> {
        let reason = "another whole set is being read or written; nothing was changed, send this one again";
        self.parts.headers.add_to(respond::error(StatusCode::SERVICE_UNAVAILABLE, reason))
    }

    fn answer(&self, request: Request<Bytes>) -> Answer {
        let parts = Arc::clone(&self.parts);
        if parts.ui && ui::is_ours(request.uri().path()) {
            let (head, _) = request.into_parts();
            return Box::pin(std::future::ready(ui::answer(ui::embedded(), &head)));
        }
        Box::pin(async move {
            let mut response = route(&parts, request).await;
            let revision = parts.view.load().revision();
            response.headers_mut().entry(REVISION).or_insert_with(|| HeaderValue::from(revision));
            parts.headers.add_to(response)
        })
    }
}

async fn route(parts: &Arc<AdminParts>, request: Request<Bytes>) -> Response<Bytes> {
    let (head, body) = request.into_parts();
    if head.method == Method::OPTIONS {
        return parts.headers.options();
    }
    if is_probe(&head) {
        return respond::empty(StatusCode::OK);
    }
    let path = segments(head.uri.path());
    let known_method =
        matches!(head.method, Method::GET | Method::PUT | Method::POST | Method::PATCH | Method::DELETE);
    let author = author(&head);
    // `admit` refused callers without a role before the body was read. It is not repeated outside the API.
    let role = match parts.gate.check(&head, access(&head)) {
        Ok(role) => role,
        Err(_) => return respond::not_found(),
    };
    let whole = whole_set(&path);
    if whole == ["configs"] && (known_method || head.method == Method::HEAD) {
        return configs::answer(parts, &head, &body, author, role).await;
    }
    let behind = match path.as_slice() {
        [first, second, behind @ ..] if first == "apisix" && second == "admin" && known_method => {
            behind.to_vec()
        }
        _ => return respond::not_found(),
    };
    if behind.iter().map(String::as_str).eq(["configs", "validate"]) && head.method == Method::POST {
        return validate::configs(parts, &head.headers, &body);
    }
    let query = Query::parse(head.uri.query().unwrap_or_default());
    if weir::plan::is_whole(&whole) {
        return weir::plan::answer(parts, &head.method, whole[1], &query, &body, author).await;
    }
    let raw = extensions::action(&behind).and_then(|_| extensions::raw_version(&head.headers, &body));
    let body = match raw.map_or_else(|| parse_body(&body), |raw| Ok(Some(raw))) {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    match (query.get("ttl"), query.number("ttl")) {
        (Some(_), None) => {
            return respond::bad("invalid argument ttl: should be a number");
        }
        (_, Some(ttl)) if ttl <= 0.0 => {
            return respond::bad("invalid argument ttl: should be positive");
        }
        _ => {}
    }
    let (method, headers) = (head.method, head.headers);
    dispatch(parts, Call { method, segments: behind, query, headers, body, author, role }).await
}

async fn dispatch(parts: &Arc<AdminParts>, call: Call) -> Response<Bytes> {
    let Some(collection) = call.segments.first() else {
        return respond::not_found();
    };
    match collection.as_str() {
        "plugins" => plugins::answer(parts, &call).await,
        "schema" => schema::answer(parts, &call).await,
        "weir" => weir::answer(parts, &call).await,
        "openapi.json" if call.method == Method::GET && call.segments.len() == 1 => {
            openapi::answer(parts).await
        }
        _ if call.method != Method::PATCH && extensions::action(&call.segments).is_some() => {
            let Some((name, action)) = extensions::action(&call.segments) else {
                return respond::not_found();
            };
            extensions::answer(parts, name, action, &call).await
        }
        name => match ObjectPath::parse(&call.segments) {
            Some(target) => resources::answer(parts, target, call).await,
            None if name == "services" => unsupported(COST_DECORATIONS),
            None => unsupported(name),
        },
    }
}

/// The longest body of a whole set for this memory limit; 0 is no limit.
pub(crate) fn max_set_bytes(memory_limit_bytes: u64) -> usize {
    if memory_limit_bytes == 0 {
        return MAX_SET_BYTES;
    }
    let part = usize::try_from(memory_limit_bytes / SET_PART_OF_MEMORY).unwrap_or(usize::MAX);
    part.clamp(MAX_BODY_BYTES, MAX_SET_BYTES)
}

fn parse_body(body: &Bytes) -> Result<Option<Value>, Refusal> {
    if body.is_empty() {
        return Ok(None);
    }
    lenient_json::from_slice(body).map(Some).map_err(|fault| {
        let body = json!({
            "error_msg": format!("invalid request body: {fault}"),
            "req_body": String::from_utf8_lossy(body),
        });
        Box::new(respond::json(StatusCode::BAD_REQUEST, &body))
    })
}

/// The segments after `/apisix/admin` if the path reads or writes a whole set; otherwise none.
fn whole_set(path: &[String]) -> Vec<&str> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["apisix", "admin", behind @ ..]
            if matches!(behind, ["configs", ..]) || weir::plan::is_whole(behind) =>
        {
            behind.to_vec()
        }
        _ => Vec::new(),
    }
}

/// Whether the path is that of the versions of an extension, which may be longer than other bodies.
fn is_version(path: &[String]) -> bool {
    matches!(path, [first, second, behind @ ..] if first == "apisix" && second == "admin"
        && extensions::action(behind).is_some_and(|(_, action)| action == "versions"))
}

/// The author for the history: the peer's address, after the name that the caller states, which is not verified.
fn author(head: &Parts) -> Author {
    let address = head.extensions.get::<Peer>().map(|peer| peer.0.ip().to_canonical().to_string());
    let name = head.headers.get(AUTHOR).and_then(|name| name.to_str().ok()).unwrap_or_default();
    let name: String = name.chars().filter(|shown| !shown.is_control()).take(MAX_AUTHOR_CHARS).collect();
    match (name.trim(), address) {
        ("", address) => address.unwrap_or_default().into(),
        (name, Some(address)) => format!("{name} ({address})").into(),
        (name, None) => name.into(),
    }
}

/// Whether a request may change something. A reload may, because it reads the source again.
fn access(head: &Parts) -> Access {
    let path = segments(head.uri.path());
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match (&head.method, path.as_slice()) {
        (&Method::GET | &Method::HEAD, _)
        | (
            &Method::POST,
            ["apisix", "admin", "weir", "explain" | "plan"]
            | ["apisix", "admin", "schema", "validate", ..]
            | ["apisix", "admin", "configs", "validate"],
        ) => Access::Read,
        _ => Access::Write,
    }
}

/// Whether the path is one of the API, in the form in which it is dispatched: percent-decoded, without empty segments.
fn is_below_prefix(head: &Parts) -> bool {
    matches!(segments(head.uri.path()).as_slice(), [first, second, ..] if first == "apisix" && second == "admin")
}

/// Whether this is `HEAD /apisix/admin`, which tells clients without a key that an Admin API listens here.
fn is_probe(head: &Parts) -> bool {
    head.method == Method::HEAD && head.uri.path().trim_end_matches('/') == PREFIX
}

/// The prefix of every path of the Admin API.
const PREFIX: &str = "/apisix/admin";
/// APISIX's limit, 1.5 MiB.
const MAX_BODY_BYTES: usize = 1024 * 1024 * 3 / 2;
/// Limit of a whole set, the same as for a resource file.
const MAX_SET_BYTES: usize = 256 << 20;
/// The body of a whole set may take one part in so many of the memory limit, because a set that is parsed, checked and
/// compared takes three to four times its text, and several times more if its values are tiny.
const SET_PART_OF_MEMORY: u64 = 16;
/// Whole sets that are read and worked on at the same time. One, so that the limit above holds for all of them.
const SETS_AT_ONCE: usize = 1;
/// The name that the caller states; kept in the history with the revision of a write.
const AUTHOR: HeaderName = HeaderName::from_static("x-weir-author");
/// Longest name: it fits a line of `weir history`.
const MAX_AUTHOR_CHARS: usize = 64;

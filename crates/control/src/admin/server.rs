//! The entry to the Admin API: it checks address and key before the body is read, then calls the module of
//! the path.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use model::lenient_json;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::call::{AdminParts, Call, REVISION, unsupported};
use super::denial::denied_response;
use super::endpoint::{AdminEndpoint, JsonEndpoint, MAX_BODY_BYTES};
use super::{configs, extensions, openapi, plugins, resources, schema, ui, validate, weir};
use crate::reconcile::Author;
use crate::serve::query::Query;
use crate::serve::respond::{self, refuse_request};
use crate::serve::role::Role;
use crate::serve::{Handler, Peer, RefusalResponse, ResponseFuture};

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

    fn admit(&self, head: &mut Parts, peer: SocketAddr) -> Result<(), RefusalResponse> {
        let endpoint = AdminEndpoint::parse(&head.method, head.uri.path());
        let is_open = head.method == Method::OPTIONS || endpoint.is_open();
        let access = endpoint.access(&head.method);
        let checked = if is_open { Ok(None) } else { self.parts.gate.admit(head, access, peer).map(Some) };
        match checked {
            Ok(role) => {
                head.extensions.insert(AdmittedRequest { endpoint, role });
                Ok(())
            }
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
        let admitted = head.extensions.get::<AdmittedRequest>();
        admitted.map_or(MAX_BODY_BYTES, |admitted| {
            admitted.endpoint.body_limit(&head.method, self.parts.max_set_bytes)
        })
    }

    fn queue(&self, head: &Parts) -> Option<Arc<Semaphore>> {
        let admitted = head.extensions.get::<AdmittedRequest>()?;
        admitted.endpoint.waits_for_turn(&head.method).then(|| Arc::clone(&self.sets))
    }

    fn busy(&self) -> Response<Bytes> {
        let reason = "another whole set is being read or written; nothing was changed, send this one again";
        self.parts.headers.add_to(respond::error_response(StatusCode::SERVICE_UNAVAILABLE, reason))
    }

    fn answer(&self, request: Request<Bytes>) -> ResponseFuture {
        let parts = Arc::clone(&self.parts);
        if parts.ui && ui::is_dashboard_path(request.uri().path()) {
            let (head, _) = request.into_parts();
            return Box::pin(std::future::ready(ui::answer_dashboard(ui::embedded(), &head)));
        }
        Box::pin(async move {
            let mut response = answer_admitted(&parts, request).await;
            let revision = parts.view.load().revision();
            response.headers_mut().entry(REVISION).or_insert_with(|| HeaderValue::from(revision));
            parts.headers.add_to(response)
        })
    }
}

/// A request that may be answered. `admit` leaves it in the head, so that the path is read and the key is
/// checked once.
#[derive(Clone)]
struct AdmittedRequest {
    endpoint: AdminEndpoint,
    /// The role of the caller's key; none where no key is asked for.
    role: Option<Role>,
}

async fn answer_admitted(parts: &Arc<AdminParts>, request: Request<Bytes>) -> Response<Bytes> {
    let (mut head, body) = request.into_parts();
    if head.method == Method::OPTIONS {
        return parts.headers.options();
    }
    match head.extensions.remove() {
        Some(AdmittedRequest { endpoint, role: Some(role) }) => {
            answer_endpoint(parts, endpoint, role, head, &body).await
        }
        Some(AdmittedRequest { endpoint: AdminEndpoint::Probe, .. }) => respond::empty(StatusCode::OK),
        _ => respond::not_found(),
    }
}

async fn answer_endpoint(
    parts: &Arc<AdminParts>,
    endpoint: AdminEndpoint,
    role: Role,
    head: Parts,
    body: &Bytes,
) -> Response<Bytes> {
    match endpoint {
        AdminEndpoint::Configs => configs::answer_configs(parts, &head, body, author(&head), role).await,
        _ if !is_known(&head.method) => respond::not_found(),
        AdminEndpoint::Outside | AdminEndpoint::Probe => respond::not_found(),
        AdminEndpoint::ConfigsValidation => validate::configs(parts, &head.headers, body),
        AdminEndpoint::WholeSet(command) => {
            weir::plan::answer_plan(parts, &head.method, command, &query(&head), body, author(&head)).await
        }
        AdminEndpoint::Json(endpoint) => match read_call(&endpoint, role, head, body) {
            Ok(call) => answer_call(parts, endpoint, call).await,
            Err(refusal) => *refusal,
        },
    }
}

async fn answer_call(parts: &Arc<AdminParts>, endpoint: JsonEndpoint, call: Call) -> Response<Bytes> {
    match endpoint {
        JsonEndpoint::Prefix => respond::not_found(),
        JsonEndpoint::Plugins { name } => plugins::answer_plugins(parts, name.as_deref(), &call).await,
        JsonEndpoint::Schema { path } => schema::answer_schema(parts, &path, &call).await,
        JsonEndpoint::Weir { path } => weir::answer_weir(parts, &path, &call).await,
        JsonEndpoint::OpenApi => openapi::answer_openapi(parts).await,
        JsonEndpoint::ExtensionAction { object, action } if call.method != Method::PATCH => {
            extensions::answer_extension_action(parts, &object, action, &call).await
        }
        JsonEndpoint::ExtensionAction { object, .. } | JsonEndpoint::Object(object) => {
            resources::answer_resources(parts, object, call).await
        }
        JsonEndpoint::BelowConfigs => unsupported("configs"),
        JsonEndpoint::Unsupported(name) => unsupported(&name),
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

/// Reads body and arguments. Faults are looked for in APISIX's order: body, then `ttl`.
fn read_call(
    endpoint: &JsonEndpoint,
    role: Role,
    head: Parts,
    body: &Bytes,
) -> Result<Call, RefusalResponse> {
    let body = read_body(endpoint, &head.headers, body)?;
    let query = query(&head);
    match (query.get("ttl"), query.number("ttl")) {
        (Some(_), None) => return Err(refuse_request("invalid argument ttl: should be a number")),
        (_, Some(ttl)) if ttl <= 0.0 => {
            return Err(refuse_request("invalid argument ttl: should be positive"));
        }
        _ => {}
    }
    let author = author(&head);
    Ok(Call { method: head.method, query, headers: head.headers, body, author, role })
}

fn read_body(
    endpoint: &JsonEndpoint,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Option<Value>, RefusalResponse> {
    if matches!(endpoint, JsonEndpoint::ExtensionAction { .. })
        && let Some(raw) = extensions::raw_version(headers, body)
    {
        return Ok(Some(raw));
    }
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

fn query(head: &Parts) -> Query {
    Query::parse(head.uri.query().unwrap_or_default())
}

/// Whether the method has a meaning for most endpoints.
fn is_known(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::PUT | Method::POST | Method::PATCH | Method::DELETE)
}

/// The author for the history: the peer's address, after the name that the caller states, which is not
/// verified.
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

/// Limit of a whole set, the same as for a resource file.
const MAX_SET_BYTES: usize = 256 << 20;
/// The body of a whole set may take one part in so many of the memory limit, because a set that is parsed,
/// checked and compared takes three to four times its text, and several times more if its values are tiny.
const SET_PART_OF_MEMORY: u64 = 16;
/// Whole sets that are read and worked on at the same time. One, so that the limit above holds for all of
/// them.
const SETS_AT_ONCE: usize = 1;
/// The name that the caller states; kept in the history with the revision of a write.
const AUTHOR: HeaderName = HeaderName::from_static("x-weir-author");
/// Longest name: it fits a line of `weir history`.
const MAX_AUTHOR_CHARS: usize = 64;

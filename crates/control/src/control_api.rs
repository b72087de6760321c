//! The control API (contract 2.6): the configuration and the state of this instance, for users and agents on
//! the same machine. It does not write the configuration; it can reload it and set the log level.

mod effective;
mod loaded_endpoints;
mod plugin_endpoints;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use discovery::ServiceDiscovery;
use discovery::registration::Registration;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use jsonx::Bounds;
use model::catalog::Subsystem;
use model::report::UpstreamHealth;
use model::{ObjectKey, ObjectKind, PluginCatalog, WrittenObject, schema, secret_field};
use serde_json::{Map, Value, json};

use crate::admin::listing::shown_key;
use crate::admin::plugins::plugin_descriptions;
use crate::reconcile::Reconcile;
use crate::report::Reports;
use crate::serve::query::{Query, segments};
use crate::serve::role::Role;
use crate::serve::{Handler, RefusalResponse, ResponseFuture, respond};
use crate::view::{SharedView, View};
use crate::{certificates, explain, log_level, upstreams, verdict};

/// Answers everything below `/v1`.
pub struct ControlApi {
    parts: Arc<ControlParts>,
}

/// The parts of a control API.
pub struct ControlParts {
    /// The configuration in force.
    pub view: SharedView,
    /// Reloads the configuration.
    pub reconcile: Reconcile,
    /// The plugins of this gateway.
    pub catalog: Arc<PluginCatalog>,
    /// The state of the running gateway.
    pub reports: Reports,
    /// The registries, if any are configured.
    pub discovery: Option<Arc<ServiceDiscovery>>,
    /// The registrations of this instance, if there are any.
    pub registration: Option<Arc<Registration>>,
    /// Whether the configuration is a file. Keys of objects begin with `/apisix` otherwise, as those of etcd.
    pub is_file: bool,
}

impl ControlApi {
    /// A control API of these parts.
    pub fn new(parts: ControlParts) -> ControlApi {
        ControlApi { parts: Arc::new(parts) }
    }
}

impl Handler for ControlApi {
    fn admit(&self, head: &mut Parts, _peer: SocketAddr) -> Result<(), RefusalResponse> {
        let known = matches!(head.method, Method::GET | Method::PUT | Method::POST);
        if known || self.parts.is_loaded(head) { Ok(()) } else { Err(Box::new(respond::not_found())) }
    }

    fn too_large(&self, _size: Option<u64>, _limit: usize) -> Response<Bytes> {
        respond::error_response(StatusCode::PAYLOAD_TOO_LARGE, "no body is expected here")
    }

    fn max_body_bytes(&self, _: &Parts) -> usize {
        MAX_BODY_BYTES
    }

    fn answer(&self, request: Request<Bytes>) -> ResponseFuture {
        let parts = Arc::clone(&self.parts);
        Box::pin(async move {
            let path = segments(request.uri().path());
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let mut response = match (request.method(), path.as_slice()) {
                (&Method::GET, ["v1", "weir", "verdicts", rest @ ..]) => {
                    let path: Vec<String> = rest.iter().map(|step| (*step).to_owned()).collect();
                    let query = Query::parse(request.uri().query().unwrap_or_default());
                    verdict::answer_verdicts(&parts.view.load(), &path, query.get("kind"))
                }
                (&Method::GET, ["v1", "weir", "upstreams", rest @ ..]) => {
                    let query = Query::parse(request.uri().query().unwrap_or_default());
                    let path = rest.iter().map(|step| (*step).to_owned()).collect();
                    upstreams::answer_upstreams(parts.reports.clone(), path, query).await
                }
                (&Method::GET, ["v1", rest @ ..]) => match parts.of_plugin(request.uri()) {
                    Some(response) => response,
                    None => parts.get(rest, request.headers()),
                },
                (&Method::POST, ["v1", "weir", "explain"]) => {
                    let body = jsonx::read(request.body(), Bounds::DEFAULT).ok();
                    let explain = parts.reports.explain.clone();
                    // It needs no key, so that it is told as much as a viewer.
                    let role = Role::Viewer;
                    explain::answer_explain(explain, parts.view.load(), &parts.catalog(), body.as_ref(), role)
                        .await
                }
                (&Method::PUT, ["v1", "weir", "log_level"]) => {
                    log_level::put_log_level(parts.reports.log_level.as_deref(), request.body())
                }
                (&Method::POST, ["v1", "gc"]) => respond::empty(StatusCode::OK),
                (&Method::PUT, ["v1", "plugins", "reload"]) => {
                    parts.reconcile.reload().await;
                    respond::text_response(StatusCode::OK, "done")
                }
                _ => respond::not_found(),
            };
            if response.status() == StatusCode::NOT_FOUND
                && let Some(response) = parts.of_loaded(&request).await
            {
                return response;
            }
            response.headers_mut().entry(header::CONTENT_TYPE).or_insert(JSON);
            response
        })
    }
}

impl ControlParts {
    fn get(&self, path: &[&str], headers: &HeaderMap) -> Response<Bytes> {
        let view = self.view.load();
        match path {
            ["schema"] => respond::json(StatusCode::OK, &self.schema()),
            ["routes"] => self.all(&view, ObjectKind::Route),
            ["services"] => self.all(&view, ObjectKind::Service),
            ["upstreams"] => self.all(&view, ObjectKind::Upstream),
            ["stream_routes"] => self.all(&view, ObjectKind::StreamRoute),
            ["route", id] => self.one(&view, ObjectKind::Route, id),
            ["service", id] => self.one(&view, ObjectKind::Service, id),
            ["upstream", id] => self.one(&view, ObjectKind::Upstream, id),
            ["stream_route", id] => self.one(&view, ObjectKind::StreamRoute, id),
            ["plugin_metadatas"] => {
                let all: Vec<Value> = in_force(&view, ObjectKind::PluginMetadata)
                    .into_iter()
                    .map(|written| self.metadata(written))
                    .collect();
                respond::json(StatusCode::OK, &all)
            }
            ["plugin_metadata", name] => match find(&view, ObjectKind::PluginMetadata, name) {
                Some(written) => respond::json(StatusCode::OK, &self.metadata(written)),
                None => missing(&format!("plugin metadata[{name}] not found")),
            },
            ["weir", "certificates"] => certificates::answer_certificate_status(&*self.reports.certificates),
            ["weir", "auto_routes"] => {
                match self.discovery.as_ref().and_then(|discovery| discovery.auto_routes()) {
                    Some(routes) => respond::json(StatusCode::OK, &routes.shown()),
                    None => respond::not_found(),
                }
            }
            ["weir", "listeners"] => respond::json(StatusCode::OK, &self.listeners()),
            ["weir", "log_level"] => log_level::get_log_level(self.reports.log_level.as_deref()),
            ["discovery"] => match &self.discovery {
                Some(discovery) => respond::json(StatusCode::OK, &discovery.states()),
                None => respond::not_found(),
            },
            ["discovery", registry, "dump"] => {
                match self.discovery.as_ref().and_then(|discovery| discovery.dump(registry)) {
                    Some(dump) => respond::json(StatusCode::OK, &dump),
                    None => respond::not_found(),
                }
            }
            ["discovery", registry, "show_dump_file"] => {
                match self.discovery.as_ref().and_then(|discovery| discovery.dump_file(registry)) {
                    Some(Ok(text)) => respond::with_body(StatusCode::OK, Bytes::from(text)),
                    Some(Err(reason)) => respond::error_response(StatusCode::SERVICE_UNAVAILABLE, &reason),
                    None => respond::not_found(),
                }
            }
            ["registration"] => match &self.registration {
                Some(registration) => respond::json(StatusCode::OK, &registration.shown()),
                None => respond::not_found(),
            },
            ["healthcheck"] => self.health(headers, self.reports.health.health(), HealthShape::List),
            ["healthcheck", kind, rest @ ..] => self.health_of(&view, kind, rest.first().copied(), headers),
            _ => respond::not_found(),
        }
    }

    fn all(&self, view: &View, kind: ObjectKind) -> Response<Bytes> {
        let all: Vec<Value> = in_force(view, kind).into_iter().map(|written| self.dump(written)).collect();
        respond::json(StatusCode::OK, &all)
    }

    fn one(&self, view: &View, kind: ObjectKind, id: &str) -> Response<Bytes> {
        match find(view, kind, id) {
            Some(written) => respond::json(StatusCode::OK, &self.dump(written)),
            None => missing(&format!("{}[{id}] not found", kind.singular())),
        }
    }

    fn dump(&self, written: &WrittenObject) -> Value {
        let value = self.shown(written);
        let has_domain =
            [value.get("nodes"), value.pointer("/upstream/nodes")].into_iter().flatten().any(names_domain);
        let value = effective::effective(written.key.kind, &written.key.id, value);
        json!({
            "key": self.shown_name(&written.key.path()),
            "value": value,
            "createdIndex": written.created_index,
            "modifiedIndex": written.modified_index,
            "has_domain": has_domain,
        })
    }

    /// The key of the object at `path`, as APISIX shows it with the source of this gateway.
    fn shown_name(&self, path: &str) -> String {
        if self.is_file { path.to_owned() } else { shown_key(path) }
    }

    /// The plugins of this gateway, with those of the extensions in force.
    fn catalog(&self) -> Arc<PluginCatalog> {
        self.view.load().catalog(&self.catalog)
    }

    /// Metadata with the name of the plugin as its id, as in APISIX.
    fn metadata(&self, written: &WrittenObject) -> Value {
        let mut value = self.shown(written);
        value["id"] = Value::from(&*written.key.id);
        value
    }

    /// The object with its secrets masked, because the control API needs no key.
    fn shown(&self, written: &WrittenObject) -> Value {
        let mut value: Value = serde_json::from_str(&written.text).unwrap_or_else(|_| json!({}));
        secret_field::for_each_secret(&self.catalog(), &written.key, &mut value, &mut |_, _, secret| {
            MASK.clone_into(secret);
        });
        value
    }

    fn listeners(&self) -> Value {
        let shown = |listener: model::report::ListenerReport| {
            json!({
                "name": listener.name,
                "address": listener.address.to_string(),
                "protocols": listener.protocols,
            })
        };
        self.reports.listening.listeners().into_iter().map(shown).collect()
    }

    fn schema(&self) -> Value {
        let main: Map<String, Value> = ObjectKind::ALL
            .into_iter()
            .map(|kind| (kind.singular().to_owned(), schema::find_object_schema(kind).clone()))
            .collect();
        json!({
            "main": main,
            "plugins": plugin_descriptions(&self.catalog(), Subsystem::Http),
            "stream_plugins": plugin_descriptions(&self.catalog(), Subsystem::Stream),
        })
    }

    fn health_of(
        &self,
        view: &View,
        collection: &str,
        id: Option<&str>,
        headers: &HeaderMap,
    ) -> Response<Bytes> {
        let Some(id) = id else {
            return missing(&format!("missing src id for src type {collection}"));
        };
        let kind = match ObjectKind::from_collection(collection) {
            Some(
                kind @ (ObjectKind::Route
                | ObjectKind::Service
                | ObjectKind::Upstream
                | ObjectKind::StreamRoute),
            ) => kind,
            _ => return respond::bad(format!("invalid src type {collection}")),
        };
        if find(view, kind, id).is_none() {
            return missing(&format!("{collection}[{id}] not found"));
        }
        let name = format!("/{collection}/{id}");
        match self.reports.health.health().into_iter().find(|upstream| upstream.name == name) {
            Some(upstream) => self.health(headers, vec![upstream], HealthShape::Single),
            None => missing(&format!("no checker for {collection}[{id}]")),
        }
    }

    fn health(
        &self,
        headers: &HeaderMap,
        mut upstreams: Vec<UpstreamHealth>,
        shape: HealthShape,
    ) -> Response<Bytes> {
        for upstream in &mut upstreams {
            upstream.name = self.shown_name(&upstream.name);
        }
        let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if accepts.contains("text/html") {
            let mut response = Response::new(Bytes::from(health_page(&upstreams)));
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
            return response;
        }
        let mut all: Vec<Value> = upstreams.iter().map(health_value).collect();
        match shape {
            HealthShape::Single if all.len() == 1 => respond::json(StatusCode::OK, &all.remove(0)),
            _ => respond::json(StatusCode::OK, &all),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HealthShape {
    List,
    Single,
}

fn health_value(upstream: &UpstreamHealth) -> Value {
    let node = |node: &model::report::NodeStatus| {
        let mut value = json!({
            "ip": node.ip,
            "port": node.port,
            "status": node.status.as_str(),
            "counter": {
                "success": node.counter.success,
                "http_failure": node.counter.http_failure,
                "tcp_failure": node.counter.tcp_failure,
                "timeout_failure": node.counter.timeout_failure,
            },
        });
        if let (Some(hostname), Some(object)) = (&node.hostname, value.as_object_mut()) {
            object.insert("hostname".to_owned(), Value::from(&**hostname));
        }
        value
    };
    let nodes: Vec<Value> = upstream.nodes.iter().map(node).collect();
    json!({ "name": upstream.name, "type": upstream.check_type, "nodes": nodes })
}

/// A table for browsers. Every value is escaped, because names and addresses come from users.
fn health_page(upstreams: &[UpstreamHealth]) -> String {
    let mut page = String::from(
        "<!doctype html><title>Upstream health</title><h1>Upstream health</h1><table border=\"1\">\
         <tr><th>Upstream<th>Check<th>Node<th>Status<th>Successes<th>HTTP failures<th>TCP failures<th>Timeouts</tr>\n",
    );
    for upstream in upstreams {
        for node in &upstream.nodes {
            page.push_str(&format!(
                "<tr><td>{}<td>{}<td>{}:{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n",
                escaped(&upstream.name),
                escaped(upstream.check_type),
                escaped(&node.ip),
                node.port,
                node.status.as_str(),
                node.counter.success,
                node.counter.http_failure,
                node.counter.tcp_failure,
                node.counter.timeout_failure,
            ));
        }
    }
    page.push_str("</table>\n");
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The objects in force, ordered by id.
fn in_force(view: &View, kind: ObjectKind) -> Vec<&WrittenObject> {
    let mut all: Vec<&WrittenObject> = view.snapshot.iter(kind).map(|object| &object.written).collect();
    all.sort_by(|left, right| left.key.id.cmp(&right.key.id));
    all
}

fn find<'a>(view: &'a View, kind: ObjectKind, id: &str) -> Option<&'a WrittenObject> {
    let key = ObjectKey::new(kind, id).ok()?;
    view.snapshot.get(&key).map(|object| &object.written)
}

/// Whether a node has a host name instead of an address.
fn names_domain(nodes: &Value) -> bool {
    let is_domain = |host: &str| host.trim_matches(['[', ']']).parse::<IpAddr>().is_err();
    match nodes {
        Value::Object(nodes) => nodes.keys().any(|node| {
            let host = if node.ends_with(']') {
                node
            } else {
                node.rsplit_once(':').map_or(node.as_str(), |(host, _)| host)
            };
            is_domain(host)
        }),
        Value::Array(nodes) => nodes.iter().filter_map(|node| node.get("host")?.as_str()).any(is_domain),
        _ => false,
    }
}

fn missing(message: &str) -> Response<Bytes> {
    respond::error_response(StatusCode::NOT_FOUND, message)
}

/// Replaces a secret.
const MASK: &str = "***";
/// Limit of a body; the longest one is a request to explain.
const MAX_BODY_BYTES: usize = 128 * 1024;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[cfg(test)]
mod tests;

//! `/apisix/admin/weir`: Weir's additions to the contract: status, object states, history, the state of
//! nodes, and the route of a request.

mod attention;
mod certificates;
mod events;
mod marks;
mod objects;
mod overview;
pub(super) mod plan;
mod plugins;
mod search;
mod session;
mod tap;
mod top;
mod topology;
mod usage;
pub(crate) mod versions;

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use model::ConfigFault;
use serde_json::{Value, json};

use super::call::{AdminParts, Call};
use crate::serve::respond;
use crate::{explain, upstreams, verdict};

/// Answers one request for this path below `weir`.
pub(super) async fn answer_weir(parts: &Arc<AdminParts>, path: &[String], call: &Call) -> Response<Bytes> {
    let Some((page, path)) = path.split_first() else { return respond::not_found() };
    match (&call.method, page.as_str(), path) {
        (&Method::GET, "status", _) => status(parts),
        (&Method::GET, "certificates", []) => certificates::answer_certificates(parts, call).await,
        (&Method::POST, "adopt", _) => adopt(parts),
        (&Method::GET, "versions", path) => versions::answer_versions(parts, path, call).await,
        (&Method::GET, "session", []) => session::answer_session(parts, call),
        (&Method::GET, "verdicts", path) => {
            verdict::answer_verdicts(&parts.view.load(), path, call.query.get("kind"))
        }
        (&Method::GET, "upstreams", path) => {
            upstreams::answer_upstreams(parts.reports.clone(), path.to_vec(), call.query.clone()).await
        }
        (&Method::GET, "objects", path) => objects::answer_objects(parts, path, call).await,
        (&Method::GET, "plugins", []) => plugins::answer_plugin_catalog(parts, None).await,
        (&Method::GET, "plugins", [name]) => plugins::answer_plugin_catalog(parts, Some(name.clone())).await,
        (&Method::GET, "search", []) => search::answer_search(parts, call).await,
        (&Method::GET, "topology", []) => topology::answer_topology(parts, call).await,
        (&Method::GET, "usage", path) => usage::answer_usage(parts, path, call).await,
        (&Method::GET, "overview", []) => overview::answer_overview(parts, call).await,
        (&Method::GET, "top", []) => top::answer_top(parts, call).await,
        (&Method::GET, "events", []) => events::answer_events(parts, call),
        (&Method::GET, "tap", []) => tap::answer_tap(parts, call),
        (&Method::GET, "failures", []) => tap::failures(parts, call),
        (&Method::POST, "explain", _) => {
            let explain = parts.reports.explain.clone();
            explain::answer_explain(
                explain,
                parts.view.load(),
                &parts.catalog(),
                call.body.as_ref(),
                call.role,
            )
            .await
        }
        _ => respond::not_found(),
    }
}

/// `{"revision", "workers": [{"worker", "revision"}], "objects": {...}, "faults": [...]}`, and with listeners
/// of layer 4, etcd or ACME `layer_4`, `etcd` or `acme`, while writes fail `write_failure`.
fn status(parts: &AdminParts) -> Response<Bytes> {
    let view = parts.view.load();
    let workers: Vec<Value> = parts
        .reports
        .workers
        .revisions()
        .into_iter()
        .map(|worker| json!({ "worker": worker.worker, "revision": worker.revision }))
        .collect();
    let objects: serde_json::Map<String, Value> = model::ObjectKind::ALL
        .into_iter()
        .map(|kind| (kind.collection().to_owned(), view.snapshot.len(kind).into()))
        .collect();
    let mut faults: Vec<Value> = view.faults.iter().map(|reason| json!({ "reason": reason })).collect();
    let late = view.compile_faults.iter().chain(&view.reference_faults);
    faults.extend(view.snapshot.faults().iter().chain(late).map(describe));
    let mut body =
        json!({ "revision": view.revision(), "workers": workers, "objects": objects, "faults": faults });
    if let Some(layer_4) = layer_4(parts) {
        body["layer_4"] = layer_4;
    }
    if let Some(etcd) = &view.etcd {
        body["etcd"] = json!({
            "state": etcd.state.as_str(),
            "reason": etcd.reason,
            "endpoint": etcd.endpoint,
            "cluster_id": format!("{:x}", etcd.cluster_id),
            "revision": etcd.revision,
            "copy_fault": etcd.copy_fault,
        });
    }
    if let Some(failure) = &view.write_failure {
        body["write_failure"] = json!({ "reason": failure.reason, "since_ms": failure.since_ms });
    }
    if let Some(acme) = &parts.acme {
        body["acme"] = acme.summary();
    }
    respond::json(StatusCode::OK, &body)
}

/// The listeners of layer 4 with their open sessions; none without such a listener.
fn layer_4(parts: &AdminParts) -> Option<Value> {
    let listening = &parts.reports.listening;
    let listeners = listening.listeners().into_iter().filter(model::report::ListenerReport::is_layer_4);
    let shown = |listener: model::report::ListenerReport| json!({ "name": listener.name, "address": listener.address.to_string() });
    let listeners: Vec<Value> = listeners.map(shown).collect();
    let sessions = listening.sessions();
    (!listeners.is_empty())
        .then(|| json!({ "listeners": listeners, "sessions": { "tcp": sessions.tcp, "udp": sessions.udp } }))
}

/// `POST /apisix/admin/weir/adopt`: brings the configuration in etcd into force, even if its revision is
/// older.
fn adopt(parts: &AdminParts) -> Response<Bytes> {
    if parts.view.load().etcd.is_none() {
        return respond::bad("the configuration does not come from etcd");
    }
    if parts.reconcile.adopt() {
        respond::json(StatusCode::ACCEPTED, &json!({ "adopting": true }))
    } else {
        respond::error_response(StatusCode::SERVICE_UNAVAILABLE, "too many commands are waiting")
    }
}

fn describe(fault: &ConfigFault) -> Value {
    json!({
        "key": fault.key.as_ref().map(model::ObjectKey::path),
        "pointer": fault.pointer,
        "reason": fault.reason,
        "kept": fault.kept,
    })
}

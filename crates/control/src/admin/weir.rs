//! `/apisix/admin/weir`: Weir's additions to the contract: status, object states, history, the state of nodes, and the route
//! of a request.

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

/// Answers one request below `weir`.
pub(super) async fn answer(parts: &Arc<AdminParts>, call: &Call) -> Response<Bytes> {
    match (&call.method, call.segments.get(1).map(String::as_str)) {
        (&Method::GET, Some("status")) => status(parts),
        (&Method::GET, Some("certificates")) if call.segments.len() == 2 => {
            certificates::answer(parts, call).await
        }
        (&Method::POST, Some("adopt")) => adopt(parts),
        (&Method::GET, Some("versions")) => versions::answer(parts, call).await,
        (&Method::GET, Some("session")) if call.segments.len() == 2 => session::answer(parts, call),
        (&Method::GET, Some("verdicts")) => {
            verdict::answer(&parts.view.load(), &call.segments[2..], call.query.get("kind"))
        }
        (&Method::GET, Some("upstreams")) => {
            upstreams::answer(parts.reports.clone(), call.segments[2..].to_vec(), call.query.clone()).await
        }
        (&Method::GET, Some("objects")) => objects::answer(parts, call).await,
        (&Method::GET, Some("plugins")) if call.segments.len() <= 3 => plugins::answer(parts, call).await,
        (&Method::GET, Some("search")) if call.segments.len() == 2 => search::answer(parts, call).await,
        (&Method::GET, Some("topology")) if call.segments.len() == 2 => topology::answer(parts, call).await,
        (&Method::GET, Some("usage")) => usage::answer(parts, call).await,
        (&Method::GET, Some("overview")) if call.segments.len() == 2 => overview::answer(parts, call).await,
        (&Method::GET, Some("top")) if call.segments.len() == 2 => top::answer(parts, call).await,
        (&Method::GET, Some("events")) if call.segments.len() == 2 => events::answer(parts, call),
        (&Method::GET, Some("tap")) if call.segments.len() == 2 => tap::follow(parts, call),
        (&Method::GET, Some("failures")) if call.segments.len() == 2 => tap::failures(parts, call),
        (&Method::POST, Some("explain")) => {
            let explain = parts.reports.explain.clone();
            explain::answer(explain, parts.view.load(), &parts.catalog(), call.body.as_ref(), call.role).await
        }
        _ => respond::not_found(),
    }
}

/// `{"revision", "workers": [{"worker", "revision"}], "objects": {...}, "faults": [...]}`, and with listeners of layer 4, etcd or ACME
/// `layer_4`, `etcd` or `acme`, while writes fail `write_failure`.
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

/// `POST /apisix/admin/weir/adopt`: brings the configuration in etcd into force, even if its revision is older.
fn adopt(parts: &AdminParts) -> Response<Bytes> {
    if parts.view.load().etcd.is_none() {
        return respond::bad("the configuration does not come from etcd");
    }
    if parts.reconcile.adopt() {
        respond::json(StatusCode::ACCEPTED, &json!({ "adopting": true }))
    } else {
        respond::error(StatusCode::SERVICE_UNAVAILABLE, "too many commands are waiting")
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

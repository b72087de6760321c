//! The upstreams in force with the state of their nodes, as the control API answers them at `/v1/weir/upstreams` and the Admin API at
//! `weir/upstreams`. It
//! measures nothing.

use bytes::Bytes;
use http::{Response, StatusCode};
use model::report::{NodeReport, NodeTransition, UpstreamNodes, UpstreamReport};
use serde_json::{Value, json};

use crate::admin::respond;
use crate::certificates::shown_time;

/// Upstreams in one answer, the first by name.
const MAX_LISTED: usize = 1000;

/// Answers with all upstreams, or with the one that `path` names: `upstreams/1`, `routes/7`, or `1` for `upstreams/1`.
pub(crate) fn answer(upstreams: &dyn UpstreamNodes, path: &[&str]) -> Response<Bytes> {
    if path.is_empty() {
        let all = upstreams.upstreams(None);
        let list: Vec<Value> = all.iter().take(MAX_LISTED).map(describe).collect();
        return respond::json(StatusCode::OK, &json!({ "total": all.len(), "list": list }));
    }
    let name = match path {
        [id] => format!("/upstreams/{id}"),
        path => format!("/{}", path.join("/")),
    };
    match upstreams.upstreams(Some(&name)).first() {
        Some(upstream) => respond::json(StatusCode::OK, &describe(upstream)),
        None => {
            let reason =
                format!("no upstream is in force at {name}; write upstreams/ID, routes/ID or services/ID");
            respond::error(StatusCode::NOT_FOUND, &reason)
        }
    }
}

fn describe(upstream: &UpstreamReport) -> Value {
    let mut described = json!({
        "name": &*upstream.name,
        "type": upstream.method,
        "scheme": upstream.scheme,
        "nodes": upstream.nodes.iter().map(node).collect::<Vec<Value>>(),
    });
    if let Some(check_type) = upstream.check_type {
        described["checks"] = json!(check_type);
    }
    if let Some(protection) = &upstream.protection {
        described["protection"] = json!({ "requests": protection.requests, "waiting": protection.waiting });
        if let Some(breaker) = protection.breaker {
            described["protection"]["breaker"] = json!(breaker);
        }
    }
    if let Some(note) = &upstream.note {
        described["note"] = json!(note);
    }
    described
}

fn node(node: &NodeReport) -> Value {
    let mut described = json!({
        "address": node.address.to_string(),
        "host": &*node.host,
        "weight": node.weight,
        "priority": node.priority,
        "state": node.state(),
        "in_flight": node.in_flight,
    });
    if let Some(ewma_ms) = node.ewma_ms {
        // Microseconds are the resolution of the measurement.
        described["ewma_ms"] = json!((ewma_ms * 1_000.0).round() / 1_000.0);
    }
    for (name, transition) in [("unhealthy", &node.unhealthy), ("ejected", &node.ejected)] {
        if let Some(NodeTransition { at_ms, cause }) = transition {
            let since = shown_time(i64::try_from(at_ms / 1000).unwrap_or(i64::MAX));
            described[name] = json!({ "since": since, "why": &**cause });
        }
    }
    if let Some(protection) = &node.protection {
        described["protection"] = json!({
            "circuit": protection.circuit,
            "ejections": protection.ejections,
            "requests": protection.requests,
        });
    }
    if let Some((verdict, counter)) = &node.health {
        described["health"] = json!({
            "status": verdict.as_str(),
            "success": counter.success,
            "http_failure": counter.http_failure,
            "tcp_failure": counter.tcp_failure,
            "timeout_failure": counter.timeout_failure,
        });
    }
    described
}

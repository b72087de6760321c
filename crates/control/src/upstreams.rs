//! The upstreams in force with the state of their nodes and their traffic, as the control API answers them at
//! `/v1/weir/upstreams` and the Admin API at `weir/upstreams`. It measures nothing.

use bytes::Bytes;
use http::{Response, StatusCode};
use model::report::{NodeReport, NodeTransition, UpstreamReport};
use model::search::{OBJECT_FIELDS, Searchable};
use serde_json::{Value, json};

use crate::certificates::shown_time;
use crate::report::Reports;
use crate::serve::list_query::{limit, parse_filter};
use crate::serve::query::Query;
use crate::serve::{RefusalResponse, respond};
use crate::summary::{EndpointRates, rates};

/// Upstreams in one answer, the first by name.
const MAX_LISTED: usize = 1000;

/// Answers with all upstreams, filtered by `q`, at most `limit`, or with the one that `path` names:
/// `upstreams/1`, `routes/7`, or `1` for `upstreams/1`.
pub(crate) async fn answer_upstreams(reports: Reports, path: Vec<String>, query: Query) -> Response<Bytes> {
    // Workers are waited for.
    let answered = respond::blocking(move || answer_now(&reports, &path, &query)).await;
    answered.unwrap_or_else(|refusal| *refusal)
}

fn answer_now(reports: &Reports, path: &[String], query: &Query) -> Response<Bytes> {
    if path.is_empty() {
        return list(reports, query).unwrap_or_else(|refusal| *refusal);
    }
    let name = match path {
        [id] => format!("/upstreams/{id}"),
        path => format!("/{}", path.join("/")),
    };
    let endpoints = EndpointRates::of(reports.traffic.as_deref());
    match reports.upstreams.upstreams(Some(&name)).first() {
        Some(upstream) => respond::json(StatusCode::OK, &describe(upstream, &endpoints)),
        None => {
            let reason =
                format!("no upstream is in force at {name}; write upstreams/ID, routes/ID or services/ID");
            respond::error_response(StatusCode::NOT_FOUND, &reason)
        }
    }
}

fn list(reports: &Reports, query: &Query) -> Result<Response<Bytes>, RefusalResponse> {
    let filter = parse_filter(query, &OBJECT_FIELDS)?;
    let limit = limit(query, MAX_LISTED, MAX_LISTED)?;
    let endpoints = EndpointRates::of(reports.traffic.as_deref());
    let all = reports.upstreams.upstreams(None);
    let matched: Vec<&UpstreamReport> =
        all.iter().filter(|upstream| filter.matches(&UpstreamRow(upstream))).collect();
    let list: Vec<Value> =
        matched.iter().take(limit).map(|upstream| describe(upstream, &endpoints)).collect();
    Ok(respond::json(StatusCode::OK, &json!({ "total": matched.len(), "list": list })))
}

/// An upstream as filters see it.
struct UpstreamRow<'a>(&'a UpstreamReport);

impl Searchable for UpstreamRow<'_> {
    fn any_word(&self, test: &mut dyn FnMut(&str) -> bool) -> bool {
        test(&self.0.name)
            || self.0.nodes.iter().any(|node| test(&node.host) || test(&node.address.to_string()))
    }

    fn any_text(&self, field: &str, test: &mut dyn FnMut(&str) -> bool) -> bool {
        match field {
            // The name is a path: `/upstreams/1`.
            "id" | "name" | "upstream" => {
                test(&self.0.name) || self.0.name.rsplit('/').next().is_some_and(test)
            }
            "type" => test(self.0.method),
            "host" => self.0.nodes.iter().any(|node| test(&node.host) || test(&node.address.to_string())),
            "state" => test("in_force"),
            _ => false,
        }
    }

    fn number(&self, _: &str) -> Option<f64> {
        None
    }
}

fn describe(upstream: &UpstreamReport, endpoints: &EndpointRates) -> Value {
    let mut described = json!({
        "name": &*upstream.name,
        "type": upstream.method,
        "scheme": upstream.scheme,
        "nodes": upstream.nodes.iter().map(|one| node(&upstream.name, one, endpoints)).collect::<Vec<Value>>(),
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

fn node(upstream: &str, node: &NodeReport, endpoints: &EndpointRates) -> Value {
    let address = node.address.to_string();
    let traffic = endpoints.get(upstream, &address);
    let mut described = json!({
        "address": address,
        "host": &*node.host,
        "weight": node.weight,
        "priority": node.priority,
        "state": node.state(),
        "in_flight": node.in_flight,
        // Pools of connections belong to workers and are not counted by endpoint.
        "idle": null,
        "last_failure": last_failure(node, traffic.and_then(|traffic| traffic.last_failure)),
    });
    rates::add_figures(&mut described, traffic.map(|traffic| traffic.figures));
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

/// The newest one of the observations that took the node out and the last failed attempt.
fn last_failure(node: &NodeReport, attempt: Option<(&str, u64)>) -> Value {
    let transitions = [&node.unhealthy, &node.ejected].into_iter().flatten();
    let observed = transitions.map(|transition| (&*transition.cause, transition.at_ms));
    let last = observed.chain(attempt).max_by_key(|(_, at_ms)| *at_ms);
    last.map_or(Value::Null, |(cause, at_ms)| json!({ "cause": cause, "at_ms": at_ms }))
}

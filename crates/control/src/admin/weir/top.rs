//! `weir/top`: the busiest routes, consumers, endpoints, upstreams and causes of failures.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::report::{Breakdown, Top, TrafficRate, TrafficRow};
use model::{ObjectKey, ObjectKind};
use serde_json::{Value, json};

use super::attention::object_path;
use super::overview::round_number;
use crate::admin::call::{AdminParts, Call};
use crate::serve::RefusalResponse;
use crate::serve::list_query::{limit, whole_number};
use crate::serve::respond::{self, refuse_request};
use crate::view::View;

/// Answers `weir/top`.
pub(super) async fn answer_top(parts: &Arc<AdminParts>, call: &Call) -> Response<Bytes> {
    let asked = match TopQuery::read(call) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    let parts = Arc::clone(parts);
    let made = respond::blocking(move || {
        let Some(traffic) = &parts.reports.traffic else {
            return asked.body(Top::default(), &parts.view.load());
        };
        let by = asked.by.breakdown();
        // Endpoints are joined to upstreams, so that all of them are needed.
        let limit = if asked.by == By::Upstreams { usize::MAX } else { asked.limit };
        asked.body(traffic.top(by, asked.window_s, limit), &parts.view.load())
    });
    made.await.map_or_else(|refusal| *refusal, |body| respond::json(StatusCode::OK, &body))
}

/// The property that rows are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Routes,
    Consumers,
    Endpoints,
    Upstreams,
    Causes,
}

impl By {
    const NAMES: [(&str, By); 5] = [
        ("routes", By::Routes),
        ("consumers", By::Consumers),
        ("endpoints", By::Endpoints),
        ("upstreams", By::Upstreams),
        ("causes", By::Causes),
    ];

    fn breakdown(self) -> Breakdown {
        match self {
            By::Routes => Breakdown::Routes,
            By::Consumers => Breakdown::Consumers,
            By::Endpoints | By::Upstreams => Breakdown::Endpoints,
            By::Causes => Breakdown::Causes,
        }
    }
}

/// The arguments.
struct TopQuery {
    by: By,
    window_s: u64,
    limit: usize,
}

impl TopQuery {
    fn read(call: &Call) -> Result<TopQuery, RefusalResponse> {
        let by = call.query.get("by").unwrap_or("routes");
        let Some((_, by)) = By::NAMES.into_iter().find(|(name, _)| *name == by) else {
            let names = By::NAMES.map(|(name, _)| name).join(", ");
            return Err(refuse_request(format!("the argument by must be one of {names}")));
        };
        let window_s = whole_number(&call.query, "window")?.unwrap_or(WINDOW_MAX_S);
        if !(WINDOW_MIN_S..=WINDOW_MAX_S).contains(&window_s) {
            let message = format!("the argument window must be {WINDOW_MIN_S} to {WINDOW_MAX_S}, in seconds");
            return Err(refuse_request(message));
        }
        Ok(TopQuery { by, window_s, limit: limit(&call.query, LIMIT_DEFAULT, LIMIT_MAX)? })
    }

    fn body(&self, mut top: Top, view: &View) -> Value {
        if self.by == By::Upstreams {
            top = by_upstream(top, self.limit);
        }
        let list: Vec<Value> = top.rows.iter().map(|row| self.row(row, &top, view)).collect();
        json!({
            "window_s": round_number(top.seconds),
            "total": round_number(top.total),
            "list": list,
            "other": { "rps": round_number(top.other), "count": top.other_count },
        })
    }

    fn row(&self, row: &TrafficRow, top: &Top, view: &View) -> Value {
        let mut body = json!({
            "id": &*row.id,
            "name": null,
            "match": null,
            "rps": round_number(row.requests),
            "share": round_number(if top.total > 0.0 { row.requests * 100.0 / top.total } else { 0.0 }),
            "p4xx": round_number(row.client_errors),
            "p5xx": round_number(row.server_errors),
            "mean_us": row.mean_us,
            "p99_us": row.p99_us,
            "bytes": round_number(row.bytes),
        });
        match self.by {
            By::Routes => {
                let route = described(view, ObjectKind::Route, &row.id);
                body["name"] = route["name"].clone();
                body["match"] = json!(matched(&route));
                body["service"] = route["service_id"].clone();
                body["upstream"] = target(&route);
            }
            By::Upstreams => {
                let key = object_path(&row.id).split_once('/');
                let kind = key.and_then(|(kind, id)| Some((ObjectKind::from_collection(kind)?, id)));
                body["name"] =
                    kind.map_or(Value::Null, |(kind, id)| described(view, kind, id)["name"].take());
                body["id"] = json!(row.id.trim_start_matches('/'));
            }
            By::Endpoints => {
                body["upstream"] = json!(row.upstream.as_ref().map(|name| name.trim_start_matches('/')));
                body["last_failure"] =
                    json!(row.last_failure.map(|(cause, at_ms)| json!({ "cause": cause, "at_ms": at_ms })));
            }
            By::Consumers => {
                body["group"] = described(view, ObjectKind::Consumer, &row.id)["group_id"].take();
            }
            By::Causes => {}
        }
        body
    }
}

/// Joins the endpoints of each upstream.
fn by_upstream(top: Top, limit: usize) -> Top {
    let mut joined: BTreeMap<Arc<str>, (TrafficRate, f64)> = BTreeMap::new();
    for row in top.rows {
        let Some(id) = row.upstream else { continue };
        let rate = TrafficRate {
            id: Arc::clone(&id),
            requests: row.requests,
            client_errors: row.client_errors,
            server_errors: row.server_errors,
            p99_us: row.p99_us,
            bytes: row.bytes,
        };
        let time = row.mean_us as f64 * row.requests;
        match joined.get_mut(&id) {
            Some((sum, time_us)) => {
                sum.join(&rate);
                *time_us += time;
            }
            None => {
                joined.insert(id, (rate, time));
            }
        }
    }
    let row = |(rate, time_us): (TrafficRate, f64)| TrafficRow {
        mean_us: (time_us / rate.requests.max(f64::MIN_POSITIVE)) as u64,
        id: rate.id,
        upstream: None,
        requests: rate.requests,
        client_errors: rate.client_errors,
        server_errors: rate.server_errors,
        p99_us: rate.p99_us,
        bytes: rate.bytes,
        last_failure: None,
    };
    let mut rows: Vec<TrafficRow> = joined.into_values().map(row).collect();
    rows.sort_by(|left, right| right.requests.total_cmp(&left.requests));
    let left = rows.split_off(limit.min(rows.len()));
    let beyond: f64 = left.iter().map(|row| row.requests).sum();
    Top { other: top.other + beyond, other_count: left.len(), rows, ..top }
}

/// The object as it was written last; null if there is none or it cannot be read.
fn described(view: &View, kind: ObjectKind, id: &str) -> Value {
    let written =
        ObjectKey::new(kind, id).ok().and_then(|key| view.written(&key).map(|found| found.text.clone()));
    written.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The requests of a route in a line: `GET shop.example/shop/*`; none for a route that cannot be read.
fn matched(route: &Value) -> Option<String> {
    let path = listed(&route["uri"], &route["uris"], "");
    if path.is_empty() {
        return None;
    }
    let methods: Vec<&str> =
        route["methods"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let methods = match methods[..] {
        [] => String::new(),
        [one] => format!("{one} "),
        [one, other] => format!("{one},{other} "),
        [one, ..] => format!("{one} +{} ", methods.len() - 1),
    };
    let host = listed(&route["host"], &route["hosts"], "");
    Some(format!("{methods}{host}{path}"))
}

/// One text, or the first of several and the number of the others.
fn listed(one: &Value, several: &Value, none: &str) -> String {
    let several: Vec<&str> = several.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match (one.as_str(), &several[..]) {
        (Some(one), []) => one.to_owned(),
        (_, [first]) => (*first).to_owned(),
        (_, [first, rest @ ..]) => format!("{first} +{}", rest.len()),
        (None, []) => none.to_owned(),
    }
}

/// The upstream of a route: its id, `(here)` where the route has nodes of its own, else null.
fn target(route: &Value) -> Value {
    match (&route["upstream_id"], &route["upstream"]) {
        (Value::Null, Value::Object(_)) => "(here)".into(),
        (id, _) => id.clone(),
    }
}

/// Shortest window: counts are kept every ten seconds.
const WINDOW_MIN_S: u64 = 10;
/// Longest window that is kept.
const WINDOW_MAX_S: u64 = 60;
/// Rows in an answer by default: what a page shows.
const LIMIT_DEFAULT: usize = 20;
/// Most rows in an answer.
const LIMIT_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_of_a_route_is_one_line() {
        let check = |route: Value, line: Option<&str>| {
            assert_eq!(matched(&route).as_deref(), line, "{route}");
        };
        check(json!({ "uri": "/a" }), Some("/a"));
        check(
            json!({ "uri": "/shop/*", "host": "shop.example", "methods": ["GET"] }),
            Some("GET shop.example/shop/*"),
        );
        check(
            json!({ "uris": ["/a", "/b"], "hosts": ["x", "y", "z"], "methods": ["GET", "PUT", "POST"] }),
            Some("GET +2 x +2/a +1"),
        );
        check(Value::Null, None);
    }

    #[test]
    fn upstreams_are_joined_endpoints() {
        let row = |id: &str, upstream: &str, requests, p99_us| TrafficRow {
            id: id.into(),
            upstream: Some(upstream.into()),
            requests,
            client_errors: 0.0,
            server_errors: 50.0,
            mean_us: 100,
            p99_us,
            bytes: 1.0,
            last_failure: None,
        };
        let rows = vec![
            row("a:1", "/upstreams/x", 3.0, Some(7)),
            row("b:1", "/upstreams/y", 4.0, None),
            row("c:1", "/upstreams/x", 2.0, Some(9)),
        ];
        let top = by_upstream(Top { rows, total: 9.0, ..Top::default() }, 1);
        assert_eq!(
            (&*top.rows[0].id, top.rows[0].requests, top.rows[0].p99_us),
            ("/upstreams/x", 5.0, Some(9))
        );
        assert_eq!((top.rows[0].mean_us, top.other, top.other_count), (100, 4.0, 1));
    }
}

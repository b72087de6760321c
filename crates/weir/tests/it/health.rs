//! Health checks: a gateway in front of origins that fail and recover, and what the tests of it share.

mod active;
mod changes;
mod passive;
mod reports;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Weir, wait_until};

use crate::support::BINARY;

/// A gateway of two workers, so that verdicts have to reach more than one.
fn gateway(arguments: &[&str]) -> Weir {
    Weir::builder(BINARY).arguments(&["--workers", "2"]).arguments(arguments).start()
}

/// An origin that answers checks at `/up` with a status that can be changed, and everything else with 200 and
/// its name.
struct Checked {
    origin: Origin,
    status: Arc<AtomicU16>,
}

impl Checked {
    fn start(name: &str) -> Checked {
        let status = Arc::new(AtomicU16::new(200));
        let (answered, name) = (status.clone(), name.to_owned());
        let origin = Origin::start(move |request| match request.path() {
            "/up" => Reply::status(answered.load(Ordering::Relaxed), ""),
            _ => Reply::ok(&name),
        });
        Checked { origin, status }
    }

    fn set(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    fn address(&self) -> SocketAddr {
        self.origin.address()
    }
}

/// Active checks that judge by one result, a second apart, with further fields.
fn quick(more: Value) -> Value {
    let mut active = json!({
        "http_path": "/up",
        "healthy": {"interval": 1, "successes": 1},
        "unhealthy": {"interval": 1, "http_failures": 1, "tcp_failures": 1, "timeouts": 1},
    });
    extend(&mut active, more);
    json!({ "active": active })
}

fn extend(object: &mut Value, more: Value) {
    let (Value::Object(object), Value::Object(more)) = (object, more) else { panic!("no objects") };
    object.extend(more);
}

/// An upstream of these nodes with these checks.
fn upstream(nodes: &[SocketAddr], checks: Value) -> Value {
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|node| json!({"host": node.ip().to_string(), "port": node.port(), "weight": 1}))
        .collect();
    json!({"nodes": nodes, "retries": 0, "checks": checks})
}

/// Sets the upstream `1` and a route to it.
fn set(weir: &Weir, upstream: Value) {
    weir.put("upstreams/1", upstream);
    weir.put("routes/1", json!({"uri": "/*", "upstream_id": "1"}));
}

/// The answer of the control API.
fn control(weir: &Weir, path: &str, fields: &[(&str, &str)]) -> Response {
    Client::connect(weir.address("control")).request("GET", path, fields, b"")
}

/// The nodes of the upstream `name` as `/v1/weir/upstreams` tells them.
fn nodes(weir: &Weir, name: &str) -> Vec<Value> {
    let answer = control(weir, &format!("/v1/weir/upstreams/{name}"), &[]).json();
    answer["nodes"].as_array().cloned().unwrap_or_default()
}

/// Waits until the nodes of the upstream have these states.
fn wait_for_states(weir: &Weir, name: &str, states: &[&str]) {
    wait_until(&format!("the nodes of {name} are {states:?}"), || {
        nodes(weir, name)
            .iter()
            .map(|node| node["state"].as_str().unwrap().to_owned())
            .eq(states.iter().copied())
    });
}

/// The different answers to twenty requests over connections to any worker.
fn answers(weir: &Weir) -> Vec<String> {
    let mut answers: Vec<String> = (0..20).map(|_| weir.client().get("/").text()).collect();
    answers.sort();
    answers.dedup();
    answers
}

//! Passive checks: nodes that go out by the responses and failures of clients' requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};
use testkit::{Origin, Reply, Signal, wait_until};

use super::{answers, gateway, nodes, set, upstream, wait_for_states};

/// Checks that ask so rarely that only requests decide.
fn passive(unhealthy: Value) -> Value {
    let active = json!({"type": "tcp", "healthy": {"interval": 86_400}, "unhealthy": {"interval": 86_400}});
    json!({"active": active, "passive": {"healthy": {"successes": 2}, "unhealthy": unhealthy}})
}

#[test]
fn statuses_of_responses_take_a_node_out() {
    let status = Arc::new(AtomicU16::new(503));
    let answered = status.clone();
    let bad = Origin::start(move |_| Reply::status(answered.load(Ordering::Relaxed), "bad"));
    let good = Origin::answering("good");
    let weir = gateway(&[]);
    set(&weir, upstream(&[bad.address(), good.address()], passive(json!({"http_failures": 3}))));
    wait_until("the node is out", || {
        weir.client().get("/");
        nodes(&weir, "1")[0]["state"] == "unhealthy"
    });
    assert!(bad.requests().len() >= 3);
    assert_eq!(answers(&weir), ["good"]);
    let why = &nodes(&weir, "1")[0]["unhealthy"]["why"];
    assert_eq!(*why, "passive checks: 3 HTTP failures, the last: status 503");
}

#[test]
fn success_between_failures_starts_anew() {
    let count = AtomicU16::new(0);
    let mixed = Origin::start(move |_| match count.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => Reply::status(500, ""),
        _ => Reply::ok(""),
    });
    let weir = gateway(&[]);
    set(&weir, upstream(&[mixed.address()], passive(json!({"http_failures": 2}))));
    // One connection, so that one worker counts the responses in their order.
    let mut client = weir.client();
    (0..10).for_each(|_| drop(client.get("/")));
    assert_eq!((mixed.requests().len(), &nodes(&weir, "1")[0]["state"]), (10, &json!("usable")));
}

#[test]
fn failed_connections_and_timeouts_take_a_node_out() {
    let silent = Origin::start(|_| Reply::new().wait(&Signal::new()));
    let good = Origin::answering("good");
    let weir = gateway(&[]);
    for (node, limits, why) in [
        (Origin::nowhere(), json!({"tcp_failures": 1}), "passive checks: 1 TCP failure, the last: "),
        (silent.address(), json!({"timeouts": 1}), "passive checks: 1 timeout, the last: "),
    ] {
        let mut written = upstream(&[node, good.address()], passive(limits));
        super::extend(&mut written, json!({"timeout": {"connect": 1, "send": 1, "read": 0.2}}));
        set(&weir, written);
        wait_until("the node is out", || {
            weir.client().get("/");
            nodes(&weir, "1")[0]["state"] == "unhealthy"
        });
        let reason = nodes(&weir, "1")[0]["unhealthy"]["why"].as_str().unwrap().to_owned();
        assert!(reason.starts_with(why), "{reason}");
        assert_eq!(answers(&weir), ["good"]);
    }
}

#[test]
fn requests_bring_nodes_back_when_all_are_out() {
    let status = Arc::new(AtomicU16::new(500));
    let answered = status.clone();
    let origin = Origin::start(move |_| Reply::status(answered.load(Ordering::Relaxed), ""));
    let weir = gateway(&[]);
    set(&weir, upstream(&[origin.address()], passive(json!({"http_failures": 1}))));
    weir.client().get("/");
    wait_for_states(&weir, "1", &["unhealthy"]);
    status.store(200, Ordering::Relaxed);
    weir.client().get("/");
    // A response is counted behind its last byte.
    wait_until("a success was counted", || nodes(&weir, "1")[0]["health"]["status"] == "mostly_unhealthy");
    weir.client().get("/");
    wait_for_states(&weir, "1", &["usable"]);
}

#[test]
fn passive_checks_need_active_ones() {
    let weir = gateway(&[]);
    let written = upstream(&[Origin::nowhere()], json!({"passive": {"unhealthy": {"http_failures": 1}}}));
    let (status, answer) = weir.admin("PUT", "upstreams/1", written);
    let reason = answer["error_msg"].as_str().unwrap_or_default();
    assert!(status == 400 && reason.contains("needs `active`"), "{status} {answer}");
}

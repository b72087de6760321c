//! Tests of the calls in turn: by the registry Nacos with a scripted server, and by calls that the test
//! answers.

use std::sync::Arc;

use model::outbound::OutboundPolicy;
use serde_json::{Value, json};
use testkit::{Origin, Reply, WAIT_LIMIT, wait_until};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::*;
use crate::followed::Followed;
use crate::table::DiscoveryShared;

fn listed() -> Reply {
    Reply::ok(&json!({"hosts": [{"ip": "10.0.0.1", "port": 80}]}).to_string())
}

fn block(server: &Origin) -> Value {
    json!({"host": [format!("http://{}", server.address())], "push": false, "fetch_interval": 1})
}

#[test]
fn broken_answer_fails_its_service_only() {
    let server = Origin::start(|request| match request.target.contains("serviceName=a") {
        true => Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{").close(),
        false => listed(),
    });
    // More faulty services than calls at the same time, in front of the good one.
    let first = Followed::start("nacos", &block(&server), "a0");
    let faulty: Vec<Followed> =
        (1..12).map(|number| first.follow(&ServiceKey::new("nacos", &format!("a{number}")))).collect();
    let good = first.follow(&ServiceKey::new("nacos", "good"));
    good.wait_for(&["10.0.0.1:80 100"]);
    first.wait_for_note("broke off");
    faulty.iter().for_each(|service| service.wait_for_note("broke off"));
    let state = || first.discovery.states()["nacos"].clone();
    wait_until("a registry without a failure", || {
        let state = state();
        state["failure"].is_null() && state["failing_services"].as_object().is_some_and(|all| all.len() == 12)
    });
    // The good service and the faulty ones are due at different times from now on.
    let asked = server.requests().len();
    wait_until("further calls", || {
        assert!(state()["failure"].is_null(), "{}", state());
        server.requests().len() > asked + 60
    });
}

#[test]
fn calls_in_flight_outlast_a_failed_one() {
    let server = Origin::start(|request| match request.target.contains("serviceName=a&") {
        true => Reply::status(503, "down"),
        false => listed(),
    });
    let first = Followed::start("nacos", &block(&server), "a");
    let other = first.follow(&ServiceKey::new("nacos", "b"));
    other.wait_for(&["10.0.0.1:80 100"]);
    first.wait_for_note("status 503");
}

#[test]
fn silent_registry_is_one_failure() {
    let block = json!({"host": [format!("http://{}", Origin::nowhere())], "push": false});
    let first = Followed::start("nacos", &block, "a");
    let other = first.follow(&ServiceKey::new("nacos", "b"));
    first.wait_for_note("it fails");
    other.wait_for_note("it fails");
    let state = &first.discovery.states()["nacos"];
    assert!(state["failure"].is_string() && state["failing_services"] == json!({}), "{state}");
}

#[tokio::test]
async fn changes_during_a_round_are_asked_for_once() {
    let shared = DiscoveryShared::new([("nacos", Value::Null)].into_iter(), None, OutboundPolicy::default());
    let (shared, key) = (Arc::new(shared), ServiceKey::new("nacos", "a"));
    shared.follow(&key, Box::new(|_| ()));
    let (changes, changed) = mpsc::channel(16);
    let pushed = Pushed { wanted: watch::channel(Vec::new()).0, changed };
    let (sender, mut calls) = mpsc::unbounded_channel();
    // Each call waits until the test answers it.
    let ask = move |question: PollQuery| {
        let (answer, answered) = oneshot::channel();
        sender.send((question, answer)).unwrap();
        async move { answered.await.unwrap() }
    };
    let services = Services::new(shared, "nacos");
    tokio::spawn(poll(services, Duration::from_secs(3600), Some(pushed), ask));
    let (first, answer) = timeout(WAIT_LIMIT, calls.recv()).await.unwrap().unwrap();
    assert_eq!(first, PollQuery { key: key.clone(), revision: None });
    for _ in 0..5 {
        changes.send(key.clone()).await.unwrap();
    }
    let found = ServiceLookup::Instances(Vec::new(), None);
    answer.send(Ok(PollAnswer::Whole(found, Some("r1".to_owned())))).unwrap();
    let (second, _answer) = timeout(WAIT_LIMIT, calls.recv()).await.unwrap().unwrap();
    assert_eq!(second, PollQuery { key, revision: Some("r1".to_owned()) });
    assert_eq!(changes.capacity(), changes.max_capacity());
}

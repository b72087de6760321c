//! Tests of the registry Eureka against a server that is scripted by its API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::discovery::ServiceKey;
use serde_json::{Value, json};
use testkit::{Origin, Reply, Request, Signal, wait_until};

use crate::followed::Followed;

fn answer(hash: &str, entries: &[Value]) -> Reply {
    let text = json!({"applications": {"apps__hashcode": hash,
        "application": [{"name": "ORDERS", "instance": entries}]}});
    Reply::ok(&text.to_string())
}

fn entry(number: u8, status: &str) -> Value {
    json!({"instanceId": number.to_string(), "ipAddr": format!("10.0.0.{number}"), "status": status,
        "port": {"$": 80, "@enabled": "true"}})
}

fn follow(server: &Origin, service: &str) -> Followed {
    let host = format!("http://me:secret@{}", server.address());
    Followed::start("eureka", &json!({"host": [host], "prefix": "/eureka/", "fetch_interval": 1}), service)
}

/// Two applications with one instance each.
fn two() -> Reply {
    let text = json!({"applications": {"apps__hashcode": "UP_2_", "application": [
        {"name": "ORDERS", "instance": [entry(1, "UP")]}, {"name": "OTHER", "instance": [entry(2, "UP")]}]}});
    Reply::ok(&text.to_string())
}

/// The requests for everything.
fn whole(server: &Origin) -> usize {
    let is_whole = |request: &&Request| request.path() == "/eureka/apps";
    server.requests().iter().filter(is_whole).count()
}

#[test]
fn changes_follow_the_first_answer() {
    let server = Origin::start(|request| match request.path() {
        "/eureka/apps" => answer("UP_1_", &[entry(1, "UP")]),
        _ => answer("DOWN_1_UP_1_", &[entry(1, "DOWN"), entry(2, "UP")]),
    });
    let followed = follow(&server, "orders");
    followed.wait_for(&["10.0.0.2:80 100"]);
    assert_eq!(whole(&server), 1);
    assert_eq!(server.last_request().header("authorization"), Some("Basic bWU6c2VjcmV0"));
}

#[test]
fn other_hash_code_fetches_everything_again() {
    let fetched = Arc::new(AtomicUsize::new(0));
    let server = Origin::start(move |request| match request.path() {
        "/eureka/apps" => {
            let number = fetched.fetch_add(1, Ordering::SeqCst);
            answer("UP_1_", &[entry(if number == 0 { 1 } else { 2 }, "UP")])
        }
        _ => answer("UP_7_", &[]),
    });
    follow(&server, "ORDERS").wait_for(&["10.0.0.2:80 100"]);
    assert!(whole(&server) >= 2);
}

#[test]
fn last_answer_stays_while_eureka_answers_garbage() {
    let asked = Arc::new(AtomicUsize::new(0));
    let server = Origin::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => answer("UP_1_", &[entry(1, "UP")]),
        1..3 => Reply::status(503, "starting"),
        _ => Reply::ok("<html>"),
    });
    let followed = follow(&server, "ORDERS");
    followed.wait_for(&["10.0.0.1:80 100"]);
    followed.wait_for_failure("the answer is no list of applications");
    assert_eq!(followed.shown(), ["10.0.0.1:80 100"]);
}

#[test]
fn unknown_application_differs_from_a_failure() {
    let server = Origin::start(|_| answer("UP_1_", &[entry(1, "UP")]));
    follow(&server, "other").wait_for_note("does not know the service other");
    let refusing = Origin::start(|_| Reply::status(401, ""));
    follow(&refusing, "orders").wait_for_note("status 401");
}

#[test]
fn service_followed_during_a_fetch_gets_its_answer() {
    let go = Signal::new();
    let signal = go.clone();
    let server = Origin::start(move |request| match request.path() {
        "/eureka/apps" => two(),
        _ => {
            signal.wait();
            answer("UP_2_", &[])
        }
    });
    let first = follow(&server, "orders");
    first.wait_for(&["10.0.0.1:80 100"]);
    server.wait_for_requests(2);
    let other = first.follow(&ServiceKey::new("eureka", "other"));
    go.set();
    other.wait_for(&["10.0.0.2:80 100"]);
    assert_eq!(whole(&server), 1);
}

#[test]
fn service_followed_again_gets_its_answer() {
    let server = Origin::start(|_| two());
    let host = format!("http://{}", server.address());
    let keeper = Followed::start("eureka", &json!({"host": [host], "fetch_interval": 3600}), "other");
    keeper.wait_for(&["10.0.0.2:80 100"]);
    let key = ServiceKey::new("eureka", "orders");
    for _ in 0..3 {
        let followed = keeper.follow(&key);
        followed.wait_for(&["10.0.0.1:80 100"]);
        // The first state is that of an earlier following.
        wait_until("an answer", || followed.all_shown().len() > 1);
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn unreadable_application_fails_its_service() {
    let server = Origin::start(|_| {
        let text = json!({"applications": {"apps__hashcode": "UP_1_", "application": [
            {"name": "ORDERS", "instance": [{"status": "UP"}]}, {"name": "OTHER", "instance": [entry(2, "UP")]}]}});
        Reply::ok(&text.to_string())
    });
    let orders = follow(&server, "orders");
    orders.wait_for_note("an instance has no usable instanceId");
    orders.follow(&ServiceKey::new("eureka", "other")).wait_for(&["10.0.0.2:80 100"]);
}

//! Tests of the calls in turn, by the registry Nacos and a scripted server.

use model::discovery::ServiceKey;
use serde_json::{Value, json};
use testkit::{Origin, Reply, wait_until};

use crate::discovery::followed::Followed;

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

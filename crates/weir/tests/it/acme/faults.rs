//! Authorities that are down, send garbage, limit or refuse, and names that never validate: attempts pause,
//! another authority is asked, and the state says why.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testkit::{Origin, Pebble, Reply, Weir};

use super::{ordering, pebble_for, state_of, wait_for_state};
use crate::support::BINARY;

/// Seconds since the Unix epoch.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A gateway that orders from an authority that is a script.
fn ordering_from(directory: &str) -> Weir {
    let arguments = ["--acme-domains", "shop.example", "--acme-authorities", directory];
    Weir::builder(BINARY).arguments(&arguments).start()
}

/// The state of its certificate after an attempt that failed with this in its reason.
fn failure(weir: &Weir, part: &str) -> Value {
    let state = wait_for_state(weir, "acme-shop.example", "failing");
    let error = state["error"].as_str().unwrap_or_default();
    assert!(error.contains(part), "{part:?} is not in {error:?}");
    state
}

#[test]
fn name_that_never_validates_pauses_with_its_reason() {
    // The authority asks a port where nothing listens.
    let pebble = pebble_for(Pebble::free_port());
    let weir = ordering(&pebble, Pebble::free_port(), "shop.example").start();
    let before = now();
    let state = failure(&weir, "shop.example: ");
    assert!(state["error"].as_str().unwrap().contains("connection refused"), "{state}");
    assert_eq!((&state["failures"], &state["not_after"]), (&json!(1), &Value::Null));
    assert!(state["next_order"].as_u64().unwrap() >= before + 50, "{state}");
    testkit::wait_until("the failure is counted and logged", || {
        let metrics = testkit::Client::connect(weir.address("metrics")).get("/metrics").text();
        let log = weir.stderr().join("\n");
        metrics.contains("weir_acme_attempts_total{result=\"failed\"} 1")
            && metrics.contains("weir_acme_certificates{state=\"failing\"} 1")
            && log.contains("no certificate was issued")
            && log.contains("connection refused")
    });
    let weir = weir.restart();
    let again = state_of(&weir, "acme-shop.example");
    assert_eq!(
        (&again["failures"], &again["next_order"]),
        (&json!(1), &state["next_order"]),
        "a restart is no way around"
    );
}

#[test]
fn second_authority_issues_if_the_first_sends_garbage() {
    let garbage = Origin::answering("<html>no directory</html>");
    let port = Pebble::free_port();
    let pebble = pebble_for(port);
    let both = format!("http://{}/dir,{}", garbage.address(), pebble.directory());
    let weir = ordering(&pebble, port, "shop.example").arguments(&["--acme-authorities", &both]).start();
    let state = wait_for_state(&weir, "acme-shop.example", "valid");
    assert_eq!(state["authority"], pebble.directory());
}

#[test]
fn rate_limit_is_waited_for() {
    let limiting = Origin::start(|_| {
        Reply::raw(
            b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7200\r\nContent-Type: application/problem+json\r\n\
              Content-Length: 2\r\n\r\n{}",
        )
    });
    let before = now();
    let weir = ordering_from(&format!("http://{}/dir", limiting.address()));
    let state = failure(&weir, "it answered 429");
    let next = state["next_order"].as_u64().unwrap();
    assert!((before + 7190..now() + 7210).contains(&next), "{state}");
}

#[test]
fn absurd_waits_and_answers_harm_nothing() {
    let absurd = Origin::start(|_| {
        Reply::raw(
            b"HTTP/1.1 503 Down\r\nRetry-After: 18446744073709551615\r\nContent-Length: 3\r\n\r\n\x00\xff\n",
        )
    });
    let weir = ordering_from(&format!("http://{}/dir", absurd.address()));
    let state = failure(&weir, "it answered 503");
    assert!(state["next_order"].as_u64().unwrap() <= now() + 604_810, "at most a week: {state}");
    let endless = Origin::start(|_| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n".to_vec();
        Reply::raw(&[head, vec![b' '; 3_000_000]].concat())
    });
    failure(&ordering_from(&format!("http://{}/dir", endless.address())), "is longer than 1048576 bytes");
    let plain = Origin::answering(
        r#"{"newNonce":"http://192.0.2.1/n","newAccount":"ftp://x/","newOrder":"https://x/","keyChange":"https://x/"}"#,
    );
    failure(&ordering_from(&format!("http://{}/dir", plain.address())), "its URL is not https");
}

#[test]
fn authority_that_is_down_is_named() {
    let weir = ordering_from(&format!("https://127.0.0.1:{}/dir", Pebble::free_port()));
    let state = failure(&weir, "cannot be reached");
    assert!(state["error"].as_str().unwrap().starts_with("127.0.0.1: "), "{state}");
    let (port, untrusted) = (Pebble::free_port(), pebble_for(1));
    let weir = Weir::builder(BINARY)
        .arguments(&["--acme-domains", "shop.example", "--acme-authorities", &untrusted.directory()])
        .arguments(&["--acme-email", "ops@example.com", "--proxy", &format!("127.0.0.1:{port}")]);
    failure(&weir.start(), "acme_ca names the authority");
}

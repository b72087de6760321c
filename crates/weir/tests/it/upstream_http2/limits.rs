//! Limits of a node that is reached with HTTP/2: its streams count as requests, and requests share its one
//! connection.

use serde_json::json;
use testkit::{Signal, wait_until};

use super::origin::H2Origin;
use super::{gateway, set};

/// An origin that answers all but the path `/r` after `go`.
fn slow_origin(asked: &Signal, go: &Signal) -> H2Origin {
    let (asked, go) = (asked.clone(), go.clone());
    H2Origin::start(move |peer| {
        peer.settings(&[]);
        while let Some((stream, fields)) = peer.request() {
            if fields.iter().any(|(name, path)| name == ":path" && path == "/r") {
                peer.answer(stream, b"quick");
            } else {
                asked.set();
                peer.answer_after(&go, stream, b"slow");
            }
        }
    })
}

#[test]
fn streams_at_a_node_count_as_requests() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = slow_origin(&asked, &go);
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({"limits": {"max_requests_per_node": 1}}));
    let mut held = weir.client();
    held.send(b"GET /r/slow HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(asked.wait());
    let refused = weir.get("/r");
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("node_max_requests"), "{}", refused.text());
    go.set();
    assert_eq!(held.read_response(false).unwrap().text(), "slow");
    wait_until("the place is free", || weir.get("/r").status == 200);
}

#[test]
fn one_connection_serves_many_streams() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = slow_origin(&asked, &go);
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({"limits": {"max_connections_per_node": 1}}));
    let mut held = weir.client();
    held.send(b"GET /r/slow HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(asked.wait());
    for _ in 0..3 {
        assert_eq!(weir.get("/r").text(), "quick");
    }
    go.set();
    assert_eq!(held.read_response(false).unwrap().text(), "slow");
}

//! How requests share connections: limits of streams, idle connections, and connections that are found dead.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use testkit::{Authority, Origin, Signal, TlsFront, Weir, wait_until};

use super::origin::{ACK, GOAWAY, H2Origin, HEADERS, PING};
use super::{gateway, set};
use crate::support::BINARY;

const MAX_CONCURRENT_STREAMS: u16 = 3;

/// Sends a request on each of `count` connections, then reads the responses.
fn at_once(weir: &Weir, count: usize) {
    let mut clients: Vec<_> = (0..count).map(|_| weir.client()).collect();
    clients.iter_mut().for_each(|client| client.send(b"GET /r HTTP/1.1\r\nHost: a\r\n\r\n"));
    for client in &mut clients {
        assert_eq!(client.read_response(false).unwrap().text(), "ok");
    }
}

#[test]
fn requests_share_one_connection() {
    let origin = H2Origin::answering();
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    at_once(&weir, 40);
    at_once(&weir, 40);
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn stream_limits_open_further_connections() {
    // The origin's limit, the gateway's; the connections for four requests at once.
    for (theirs, ours, expected) in [(1, "100", 4), (2, "100", 2), (100, "1", 4), (100, "3", 2)] {
        let (seen, all_are_there) = (AtomicUsize::new(0), Signal::new());
        let origin = H2Origin::start(move |peer| {
            peer.settings(&[(MAX_CONCURRENT_STREAMS, theirs)]);
            while let Some((stream, _)) = peer.request() {
                match seen.fetch_add(1, Ordering::SeqCst) {
                    0 => peer.answer(stream, b"ok"),
                    number => {
                        // The last of the four lets all of them go on.
                        if number == 4 {
                            all_are_there.set();
                        }
                        peer.answer_after(&all_are_there, stream, b"ok");
                    }
                }
            }
        });
        let weir = gateway(&["--upstream-http2-max-streams", ours]);
        set(&weir, &origin.node(), json!({}));
        // The limit is known once the first response is there.
        at_once(&weir, 1);
        at_once(&weir, 4);
        let found = origin.accepted();
        assert!(found >= expected && found <= 4, "{theirs}, {ours}: {found} connections");
    }
}

#[test]
fn origin_that_allows_no_streams_is_a_failure() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[(MAX_CONCURRENT_STREAMS, 0)]);
        while let Some((stream, _)) = peer.request() {
            peer.reset(stream, super::origin::REFUSED_STREAM);
        }
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({"retries": 0, "timeout": {"connect": 0.5, "send": 5, "read": 5}}));
    for _ in 0..3 {
        let response = weir.client().request("POST", "/r", &[], b"body");
        assert!([502, 504].contains(&response.status), "{}", response.text());
    }
    wait_until("the log says why", || {
        weir.stderr().iter().any(|line| line.contains("it allows no streams (MAX_CONCURRENT_STREAMS is 0)"))
    });
    assert!(origin.accepted() <= 2, "a request does not open connections without end");
}

#[test]
fn request_waits_until_streams_are_allowed_again() {
    let is_asked = Signal::new();
    let again = is_asked.clone();
    let origin = H2Origin::start(move |peer| {
        peer.settings(&[]);
        let (stream, _) = peer.request().unwrap();
        peer.settings(&[(MAX_CONCURRENT_STREAMS, 0)]);
        // The gateway answers the PING once it knows.
        peer.send(PING, 0, 0, b"12345678");
        peer.wait_for(PING);
        peer.answer(stream, b"ok");
        again.wait();
        peer.settings(&[(MAX_CONCURRENT_STREAMS, 10)]);
        let (stream, _) = peer.request().unwrap();
        peer.answer(stream, b"ok");
        peer.drain();
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({"timeout": {"connect": 20, "send": 20, "read": 20}}));
    assert_eq!(weir.get("/r").text(), "ok");
    let mut client = weir.client();
    client.send(b"GET /r HTTP/1.1\r\nHost: a\r\n\r\n");
    is_asked.set();
    assert_eq!((client.read_response(false).unwrap().text().as_str(), origin.accepted()), ("ok", 1));
}

#[test]
fn limits_of_the_keepalive_pool_hold() {
    let origin = H2Origin::answering();
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({"keepalive_pool": {"size": 1, "idle_timeout": 60, "requests": 2}}));
    for _ in 0..6 {
        assert_eq!(weir.get("/r").text(), "ok");
    }
    assert_eq!(origin.accepted(), 3, "two requests a connection");
    let idle = H2Origin::answering();
    set(&weir, &idle.node(), json!({"keepalive_pool": {"size": 1, "idle_timeout": 1, "requests": 1000}}));
    assert_eq!(weir.get("/r").text(), "ok");
    wait_until("the idle connection is closed", || idle.has_seen(|frame| frame.kind == GOAWAY));
    assert_eq!(weir.get("/r").text(), "ok");
    assert_eq!(idle.accepted(), 2);
}

#[test]
fn closed_idle_connections_fail_no_request() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[]);
        if let Some((stream, _)) = peer.request() {
            peer.answer(stream, b"ok");
        }
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    for _ in 0..5 {
        assert_eq!(weir.get("/r").status, 200);
    }
    assert_eq!(origin.accepted(), 5);
}

#[test]
fn silent_origin_is_found_by_pings() {
    let arguments = ["--upstream-http2-ping-after-ms", "100", "--upstream-http2-ping-timeout-ms", "200"];
    let dead = H2Origin::start(|peer| {
        peer.settings(&[]);
        peer.request();
        // Reads and says nothing.
        peer.drain();
    });
    let weir = gateway(&arguments);
    set(&weir, &dead.node(), json!({"retries": 0}));
    let response = weir.get("/r");
    assert_eq!(response.status, 504, "{}", response.text());
    assert!(response.text().contains("read_timeout"), "{}", response.text());
    wait_until("the log says why", || {
        weir.stderr().iter().any(|line| line.contains("it did not answer a PING in time"))
    });

    let slow = H2Origin::start(|peer| {
        peer.settings(&[]);
        let (stream, _) = peer.request().unwrap();
        let ping = peer.wait_for(PING).unwrap();
        peer.send(PING, ACK, 0, &ping.payload);
        // The next one is sent after the timeout of a PING that got no answer.
        let ping = peer.wait_for(PING).unwrap();
        peer.send(PING, ACK, 0, &ping.payload);
        peer.answer(stream, b"ok");
        peer.drain();
    });
    set(&weir, &slow.node(), json!({"retries": 0}));
    assert_eq!(weir.get("/r").text(), "ok", "an origin that answers its PING is only slow");
    assert_eq!(slow.accepted(), 1);
}

#[test]
fn tls_origin_without_http2_is_spoken_to_in_http1() {
    let authority = Authority::new("trusted");
    let origin = Origin::answering("ok");
    let front = TlsFront::to(origin.address(), &authority.pair(&["a.example"]));
    let weir = gateway(&[]);
    set(&weir, &front.address().to_string(), json!({"scheme": "https"}));
    at_once(&weir, 5);
    for _ in 0..3 {
        assert_eq!(weir.get("/r").text(), "ok");
    }
    assert_eq!(origin.requests().len(), 8);
    set(&weir, &front.address().to_string(), json!({"scheme": "grpcs"}));
    let response = weir.get("/r");
    assert_eq!(response.status, 502);
    assert!(response.text().contains("tls_failed"), "{}", response.text());
}

#[test]
fn drain_ends_connections_with_their_last_stream() {
    let signal = Signal::new();
    let is_draining = signal.clone();
    let origin = H2Origin::start(move |peer| {
        peer.settings(&[]);
        let (stream, _) = peer.request().unwrap();
        is_draining.wait();
        peer.answer(stream, b"ok");
        peer.drain();
    });
    let mut weir = Weir::builder(BINARY).arguments(&["--workers", "1"]).start();
    set(&weir, &origin.node(), json!({}));
    let mut client = weir.client();
    client.send(b"GET /r HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the request is there", || origin.has_seen(|frame| frame.kind == HEADERS));
    weir.terminate();
    wait_until("it accepts no more", || std::net::TcpStream::connect(weir.proxy()).is_err());
    signal.set();
    assert_eq!(client.read_response(false).unwrap().text(), "ok");
    assert!(weir.wait_for_exit().success());
    assert!(origin.has_seen(|frame| frame.kind == GOAWAY));
}

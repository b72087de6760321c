//! Protocol upgrades on a route that allows them: WebSocket and any other, but none that carries requests
//! itself.

use testkit::{Authority, Client, Origin, Reply, Signal, Step, TlsFront, Weir, raw_exchange};

use crate::support::{builder, gateway, route, upstream};

/// The handshake of RFC 6455 section 1.2, ready for more fields.
const HANDSHAKE: &str = "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
/// An origin's 101 for that handshake.
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// A gateway with one route, which allows WebSocket.
fn allowing(origin: &Origin) -> Weir {
    gateway(&route("uri: /*, enable_websocket: true", &upstream(&[origin.address()], "")))
}

fn shake_hands(weir: &Weir) -> Client {
    let mut client = weir.client();
    client.send(HANDSHAKE.as_bytes());
    let response = client.read_response(false).unwrap();
    assert_eq!(response.status, 101, "{response:?}");
    assert_eq!(response.header("upgrade"), Some("websocket"));
    assert_eq!(response.header("connection").map(str::to_ascii_lowercase).as_deref(), Some("upgrade"));
    assert_eq!(response.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    client
}

#[test]
fn a_tunnel_carries_bytes_both_ways() {
    let origin = Origin::start(|_| Reply::raw(SWITCHING.as_bytes()).send("hi").then(Step::Echo).close());
    let weir = allowing(&origin);
    let mut client = shake_hands(&weir);
    let seen = origin.last_request();
    assert_eq!(seen.header("upgrade"), Some("websocket"));
    assert_eq!(seen.header("connection").map(str::to_ascii_lowercase).as_deref(), Some("upgrade"));
    assert_eq!(seen.header("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
    assert_eq!(client.read_bytes(2), b"hi", "what came with the 101 is passed on");
    for length in [1, 10, 100_000] {
        let frame: Vec<u8> = (0..length).map(|number| (number % 251) as u8).collect();
        client.send(&frame);
        assert!(client.read_bytes(length) == frame, "{length} bytes came back changed");
    }
    client.finish_sending();
    assert!(client.closes_cleanly(), "the origin saw the end and closed");
}

#[test]
fn tunnel_to_http2_upstream_has_an_http1_connection() {
    let origin = Origin::start(|_| Reply::raw(SWITCHING.as_bytes()).then(Step::Echo).close());
    let pair = Authority::new("known").pair(&["localhost"]);
    let front = TlsFront::to(origin.address(), &pair);
    for (address, scheme) in [(origin.address(), "http"), (front.address(), "https")] {
        let more = format!("http_version: \"2\", scheme: {scheme}");
        let weir = gateway(&route("uri: /*, enable_websocket: true", &upstream(&[address], &more)));
        let mut client = shake_hands(&weir);
        client.send(b"ping");
        assert_eq!(client.read_bytes(4), b"ping", "{scheme}");
    }
    // An origin in cleartext is asked in HTTP/2 first, and closes that connection.
    let upgrades = origin.requests().iter().filter(|request| request.body_error.is_none()).count();
    assert_eq!(upgrades, 2);
}

#[test]
fn each_way_of_a_tunnel_ends_by_itself() {
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |_| {
            Reply::raw(SWITCHING.as_bytes())
                .then(Step::FinishSending)
                .wait(&go)
                .then(Step::ReadBytes(4))
                .close()
        }
    });
    let weir = allowing(&origin);
    let mut client = shake_hands(&weir);
    assert!(client.closes_cleanly(), "the origin has finished sending");
    client.send(b"more");
    go.set();
    origin.wait_for_closed(1);
}

#[test]
fn quiet_tunnel_is_closed_by_timeout_read() {
    let check = |fields: &str, more: &str| {
        let origin = Origin::start(|_| Reply::raw(SWITCHING.as_bytes()).then(Step::Echo).close());
        let fields = format!("uri: /*, enable_websocket: true{fields}");
        let weir = gateway(&route(&fields, &upstream(&[origin.address()], more)));
        let mut client = shake_hands(&weir);
        client.send(b"hello");
        assert_eq!(client.read_bytes(5), b"hello");
        assert!(client.closes_cleanly(), "{fields} {more}");
        origin.wait_for_closed(1);
    };
    check("", "timeout: {connect: 60, send: 60, read: 0.3}");
    check(", timeout: {connect: 60, send: 60, read: 0.3}", "");
    check(", timeout: {connect: 60, send: 60, read: 0.3}", "timeout: {connect: 60, send: 60, read: 60}");
}

#[test]
fn quiet_tunnel_is_closed_by_its_setting() {
    let origin = Origin::start(|_| Reply::raw(SWITCHING.as_bytes()).then(Step::Echo).close());
    let fields = |id: &str, uri: &str, more: &str| {
        let upstream = upstream(&[origin.address()], more);
        format!("  - {{id: '{id}', uri: {uri}, enable_websocket: true, upstream: {upstream}}}\n")
    };
    let explicit = "timeout: {connect: 60, send: 60, read: 60}";
    let resources = format!("routes:\n{}{}", fields("1", "/chat", ""), fields("2", "/other", explicit));
    // The default read timeout (`upstream_read_timeout_ms`) does not apply to tunnels.
    let arguments = ["--tunnel-idle-timeout-ms", "300", "--upstream-read-timeout-ms", "60000"];
    let weir = builder(&resources).arguments(&arguments).start();
    let mut patient = weir.client();
    patient.send(HANDSHAKE.replace("/chat", "/other").as_bytes());
    assert_eq!(patient.read_response(false).unwrap().status, 101);
    assert!(shake_hands(&weir).closes_cleanly());
    patient.send(b"hello");
    assert_eq!(patient.read_bytes(5), b"hello", "timeout.read of its upstream is longer");
    let weir = builder(&resources).arguments(&["--upstream-read-timeout-ms", "100"]).start();
    let mut long = shake_hands(&weir);
    // The tunnel with the default of an hour outlives one with a shorter timeout.
    let weir = builder(&resources).arguments(&["--tunnel-idle-timeout-ms", "300"]).start();
    assert!(shake_hands(&weir).closes_cleanly());
    long.send(b"hello");
    assert_eq!(long.read_bytes(5), b"hello", "an hour by default");
}

#[test]
fn a_tunnel_ends_with_either_peer() {
    let origin = Origin::start(|_| Reply::raw(SWITCHING.as_bytes()).then(Step::AwaitClose));
    let weir = allowing(&origin);
    drop(shake_hands(&weir));
    origin.wait_for_closed(1);
    let rude = Origin::start(|_| Reply::raw(SWITCHING.as_bytes()).then(Step::ReadBytes(1)).reset());
    let weir = allowing(&rude);
    let mut client = shake_hands(&weir);
    client.send(b"x");
    client.read_to_end();
}

#[test]
fn a_refused_handshake_is_an_ordinary_answer() {
    let origin = Origin::start(|_| Reply::status(403, "no"));
    let weir = allowing(&origin);
    let mut client = weir.client();
    for _ in 0..2 {
        client.send(HANDSHAKE.as_bytes());
        let response = client.read_response(false).unwrap();
        assert_eq!(
            (response.status, response.text(), response.header("upgrade")),
            (403, "no".to_owned(), None)
        );
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn bytes_sent_before_the_switch_are_never_passed_raw() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
    let early = format!("{HANDSHAKE}{smuggled}");
    // The origin refuses, so that the bytes are the next request.
    let refusing = Origin::start(|request| Reply::status(403, request.path()));
    let weir = allowing(&refusing);
    let mut client = weir.client();
    client.send(early.as_bytes());
    assert_eq!(client.read_response(false).unwrap().text(), "/chat");
    assert_eq!(client.read_response(false).unwrap().text(), "/smuggled");
    // The origin accepts, so that the protocol of the bytes is unknown.
    let origin = Origin::start(|_| Reply::raw(SWITCHING.as_bytes()).then(Step::Echo).close());
    let weir = allowing(&origin);
    let answer = raw_exchange(weir.proxy(), early.as_bytes());
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 400 ") && !answer.contains("smuggled"), "{answer}");
}

#[test]
fn only_allowed_protocols_are_an_upgrade() {
    let check = |allowed: bool, request: &str, want: Option<&str>| {
        let origin = Origin::start(|_| Reply::ok("plain"));
        let fields = if allowed { "uri: /*, enable_websocket: true" } else { "uri: /*" };
        let weir = gateway(&route(fields, &upstream(&[origin.address()], "")));
        let mut client = weir.client();
        client.send(request.as_bytes());
        assert_eq!(client.read_response(false).unwrap().text(), "plain", "{request:?}");
        let seen = origin.last_request();
        assert_eq!(seen.header("upgrade"), want, "{allowed} {request:?}");
        assert_eq!(seen.header("connection").is_some(), want.is_some(), "{allowed} {request:?}");
        assert_eq!(seen.header("http2-settings"), None);
    };
    let asking = |method: &str, version: &str, protocol: &str| {
        format!(
            "{method} / HTTP/{version}\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\n\
             HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        )
    };
    check(true, HANDSHAKE, Some("websocket"));
    check(false, HANDSHAKE, None);
    check(true, &asking("GET", "1.1", "WebSocket"), Some("WebSocket"));
    check(true, &asking("GET", "1.1", "SPDY/3.1"), Some("SPDY/3.1"));
    check(false, &asking("GET", "1.1", "SPDY/3.1"), None);
    check(true, &asking("GET", "1.1", "websocket, foo"), Some("websocket, foo"));
    check(true, &asking("GET", "1.1", "TLS/1.0, HTTP/1.1"), None);
    check(true, &asking("GET", "1.0", "SPDY/3.1"), None);
    check(true, &asking("GET", "1.1", "h2c"), None);
    check(false, &asking("GET", "1.1", "h2c"), None);
    check(true, &asking("GET", "1.1", "websocket, h2c"), None);
    check(true, &asking("POST", "1.1", "websocket"), Some("websocket"));
    check(true, &asking("GET", "1.0", "websocket"), None);
    check(true, &HANDSHAKE.replace("\r\n\r\n", "\r\nContent-Length: 1\r\n\r\nx"), None);
    check(true, "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n", None);
}

#[test]
fn other_protocols_are_tunnelled() {
    for method in ["POST", "GET", "PUT"] {
        let switching =
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: spdy/3.1\r\nConnection: Upgrade\r\n\r\n";
        let origin = Origin::start(move |_| Reply::raw(switching.as_bytes()).then(Step::Echo).close());
        let weir = allowing(&origin);
        let mut client = weir.client();
        let request = format!(
            "{method} /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"
        );
        client.send(request.as_bytes());
        let response = client.read_response(false).unwrap();
        assert_eq!((response.status, response.header("upgrade")), (101, Some("spdy/3.1")), "{method}");
        assert_eq!(origin.last_request().header("content-length"), Some("0"));
        client.send(b"ping");
        assert_eq!(client.read_bytes(4), b"ping", "{method}");
    }
}

#[test]
fn a_switch_on_a_route_without_websocket_is_a_502() {
    let origin = Origin::start(|_| Reply::raw(SWITCHING.as_bytes()));
    let weir = gateway(&route("uri: /*", &upstream(&[origin.address()], "")));
    let mut client = weir.client();
    client.send(HANDSHAKE.as_bytes());
    assert_eq!(client.read_response(false).unwrap().status, 502);
    // A switch to another protocol than the requested one.
    let origin = Origin::start(|_| Reply::with(101, &[("Connection", "Upgrade"), ("Upgrade", "h2c")], b""));
    let weir = allowing(&origin);
    let mut client = weir.client();
    client.send(HANDSHAKE.as_bytes());
    assert_eq!(client.read_response(false).unwrap().status, 502);
}

#[test]
fn connect_and_trace_are_refused_with_405() {
    let origin = Origin::answering("");
    let weir = allowing(&origin);
    for request in [
        format!(
            "CONNECT {} HTTP/1.1\r\nHost: {0}\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            origin.address()
        ),
        "TRACE / HTTP/1.1\r\nHost: h\r\nCookie: secret\r\n\r\n".to_owned(),
    ] {
        let answer = raw_exchange(weir.proxy(), request.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 405 ") && !answer.contains("secret"), "{answer}");
        assert!(answer.contains("\r\nAllow: GET, HEAD, POST,"), "RFC 9110 section 15.5.6: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    }
    assert_eq!(origin.connections(), 0);
}

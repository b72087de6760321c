//! WebSocket to origins of HTTP/2: an extended CONNECT (RFC 8441) where their SETTINGS allow it, and HTTP/1
//! otherwise.

use serde_json::{Value, json};
use testkit::{Client, Weir, wait_until};

use super::gateway;
use super::origin::{
    CANCEL, DATA, END_HEADERS, END_STREAM, Frame, H2Origin, HEADERS, Peer, RESET, STATUS_200, WINDOW_UPDATE,
};

const ENABLE_CONNECT_PROTOCOL: u16 = 8;
/// The handshake of RFC 6455 section 1.2 and the answer to its key.
const HANDSHAKE: &str = "GET /chat?room=1 HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: chat\r\n\r\n";
const PROOF: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

fn set(weir: &Weir, node: &str, more: Value) {
    let mut upstream = json!({"http_version": "2", "nodes": {node: 1}});
    let (Value::Object(fields), Value::Object(more)) = (&mut upstream, more) else { panic!("no objects") };
    fields.extend(more);
    weir.put("routes/w", json!({"uri": "/*", "enable_websocket": true, "upstream": upstream}));
}

/// Echoes the bytes of a tunnel until its end.
fn echo(peer: &mut Peer, stream: u32) {
    while let Some(Frame { kind, flags, payload, .. }) = peer.frame() {
        if kind != DATA {
            continue;
        }
        if !payload.is_empty() {
            let count = u32::try_from(payload.len()).unwrap().to_be_bytes();
            peer.send(WINDOW_UPDATE, 0, stream, &count);
            peer.send(WINDOW_UPDATE, 0, 0, &count);
        }
        peer.send(DATA, flags & END_STREAM, stream, &payload);
        if flags & END_STREAM != 0 {
            return;
        }
    }
}

/// An origin that takes WebSockets and tells the fields of the request as the first bytes.
fn telling() -> H2Origin {
    H2Origin::start(|peer| {
        peer.settings(&[(ENABLE_CONNECT_PROTOCOL, 1)]);
        while let Some((stream, fields)) = peer.request() {
            // :status 200 and a literal field.
            peer.send(HEADERS, END_HEADERS, stream, b"\x88\x00\x16sec-websocket-protocol\x04chat");
            let text: String = fields.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
            peer.send(DATA, 0, stream, format!("{text}\n").as_bytes());
            echo(peer, stream);
        }
    })
}

fn read_to_blank_line(client: &mut Client) -> String {
    let mut text = String::new();
    while !text.ends_with("\n\n") {
        text.push_str(&String::from_utf8(client.read_bytes(1)).unwrap());
    }
    text
}

#[test]
fn upgrade_becomes_an_extended_connect() {
    let origin = telling();
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    for _ in 0..2 {
        let mut client = weir.client();
        client.send(HANDSHAKE.as_bytes());
        let response = client.read_response(false).unwrap();
        assert_eq!(response.status, 101, "{response:?}");
        assert_eq!(response.header("sec-websocket-accept"), Some(PROOF));
        assert_eq!(response.header("sec-websocket-protocol"), Some("chat"));
        assert_eq!(response.header("upgrade"), Some("websocket"));
        let text = read_to_blank_line(&mut client);
        let lines: Vec<&str> = text.lines().collect();
        for expected in [
            ":method=CONNECT",
            ":protocol=websocket",
            ":scheme=http",
            ":path=/chat?room=1",
            ":authority=h",
            "sec-websocket-version=13",
            "sec-websocket-protocol=chat",
        ] {
            assert!(lines.contains(&expected), "{expected} is missing: {text}");
        }
        for name in ["sec-websocket-key", "upgrade", "connection", "content-length"] {
            assert!(!lines.iter().any(|line| line.starts_with(&format!("{name}="))), "{name}: {text}");
        }
        for length in [1, 1_000, 300_000] {
            let bytes: Vec<u8> = (0..length).map(|number| (number % 251) as u8).collect();
            let mut sender = client.stream().try_clone().unwrap();
            let sent = bytes.clone();
            let sending = std::thread::spawn(move || std::io::Write::write_all(&mut sender, &sent));
            assert!(client.read_bytes(length) == bytes, "{length} bytes came back changed");
            sending.join().unwrap().unwrap();
        }
        client.finish_sending();
        assert!(client.closes_cleanly(), "the origin saw the end and ended its way");
    }
    assert_eq!(origin.accepted(), 1, "tunnels share the connection");
    assert!(!origin.has_seen(|frame| frame.kind == RESET), "both ways ended in order");
}

#[test]
fn tunnel_shares_its_connection_with_requests() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[(ENABLE_CONNECT_PROTOCOL, 1)]);
        while let Some((stream, fields)) = peer.request() {
            if fields.contains(&(":method".to_owned(), "CONNECT".to_owned())) {
                peer.send(HEADERS, END_HEADERS, stream, STATUS_200);
            } else {
                peer.answer(stream, b"ok");
            }
        }
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    assert_eq!(weir.get("/r").text(), "ok");
    let mut client = weir.client();
    client.send(HANDSHAKE.as_bytes());
    assert_eq!(client.read_response(false).unwrap().status, 101);
    assert_eq!(weir.get("/r").text(), "ok");
    drop(client);
    // A client that closes without the end of its way resets the stream, and the connection goes on.
    wait_until("the tunnel has ended", || {
        origin.has_seen(|frame| frame.kind == RESET || frame.kind == DATA && frame.flags & END_STREAM != 0)
    });
    assert_eq!(weir.get("/r").text(), "ok");
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn refusal_of_the_origin_reaches_the_client() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[(ENABLE_CONNECT_PROTOCOL, 1)]);
        while let Some((stream, _)) = peer.request() {
            // :status 404 by index.
            peer.send(HEADERS, END_HEADERS, stream, &[0x8d]);
            peer.send(DATA, END_STREAM, stream, b"no room");
        }
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    let mut client = weir.client();
    for _ in 0..2 {
        client.send(HANDSHAKE.as_bytes());
        let response = client.read_response(false).unwrap();
        assert_eq!((response.status, response.text().as_str()), (404, "no room"));
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn reset_by_the_origin_cuts_the_tunnel() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[(ENABLE_CONNECT_PROTOCOL, 1)]);
        let (stream, _) = peer.request().unwrap();
        peer.send(HEADERS, END_HEADERS, stream, STATUS_200);
        peer.wait_for(DATA);
        peer.reset(stream, CANCEL);
        peer.drain();
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    let mut client = weir.client();
    client.send(HANDSHAKE.as_bytes());
    assert_eq!(client.read_response(false).unwrap().status, 101);
    client.send(b"hello");
    let mut room = [0; 1];
    let end = std::io::Read::read(client.stream(), &mut room);
    assert!(end.is_err(), "a reset is passed on as one: {end:?}");
}

#[test]
fn origin_without_the_setting_gets_http1() {
    let origin = H2Origin::answering();
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    let mut client = weir.client();
    client.send(HANDSHAKE.as_bytes());
    // The scripted origin takes no HTTP/1.
    assert_eq!(client.read_response(false).unwrap().status, 502);
    assert!(origin.http1_connections() >= 1, "an own connection was tried");
    assert!(!origin.has_seen(|frame| frame.kind == HEADERS), "no request over HTTP/2");
    set(&weir, &origin.node(), json!({"scheme": "grpc"}));
    let mut client = weir.client();
    client.send(HANDSHAKE.as_bytes());
    let response = client.read_response(false).unwrap();
    assert_eq!(response.status, 501);
    assert!(response.text().contains("the upstream's scheme has no HTTP/1"), "{}", response.text());
}

#[test]
fn handshake_without_a_key_is_refused() {
    let origin = telling();
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    for key in ["", "Sec-WebSocket-Key: c2hvcnQ=\r\n"] {
        let mut client = weir.client();
        let head = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
        client.send(format!("{head}{key}\r\n").as_bytes());
        assert_eq!(client.read_response(false).unwrap().status, 400);
    }
    assert!(!origin.has_seen(|frame| frame.kind == HEADERS));
}

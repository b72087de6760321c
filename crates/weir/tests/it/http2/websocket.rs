//! WebSocket over HTTP/2 (RFC 8441): an extended CONNECT becomes an upgrade of HTTP/1.1, and its stream a
//! tunnel.

use bytes::Bytes;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::Request;
use testkit::{Origin, Reply, Step, Weir};

use super::client::{Client, rest, whole};
use crate::support::{gateway, in_front_of, route, upstream};
use crate::upstream_http2::origin::{self, H2Origin};

/// The value of Sec-WebSocket-Accept that answers the key of a request.
fn accept_of(key: &str) -> String {
    peer::websocket::accept(key)
}

/// An origin that agrees to the upgrade with the right answer to the key, and echoes.
fn echo() -> Origin {
    Origin::start(|request| {
        let accept = accept_of(request.header("sec-websocket-key").unwrap_or_default());
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
        );
        Reply::raw(head.as_bytes()).send("hi").then(Step::Echo).close()
    })
}

fn allowing(origin: &Origin) -> Weir {
    gateway(&route("uri: /*, enable_websocket: true", &upstream(&[origin.address()], "")))
}

fn connect(protocol: &str) -> Request<()> {
    let mut request = Request::builder()
        .method("CONNECT")
        .uri("http://h/chat?room=1")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "chat")
        .body(())
        .unwrap();
    request.extensions_mut().insert(Protocol::from(protocol));
    request
}

async fn read_exactly(body: &mut RecvStream, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let piece = body.data().await.expect("more is to come").unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend_from_slice(&piece);
    }
    bytes
}

async fn write_all(stream: &mut SendStream<Bytes>, bytes: &[u8]) {
    let mut rest = Bytes::copy_from_slice(bytes);
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let count = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
        stream.send_data(rest.split_to(count.min(rest.len())), false).unwrap();
    }
}

#[test]
fn tunnel_carries_bytes_both_ways() {
    let origin = echo();
    let weir = allowing(&origin);
    let mut client = Client::connect(weir.proxy());
    client.get("/");
    for _ in 0..2 {
        let (response, mut stream) = client.start(connect("websocket"), false);
        let response = client.run(response).unwrap();
        assert_eq!(response.status(), 200, "{response:?}");
        assert_eq!(response.headers().get("sec-websocket-protocol").unwrap(), "chat");
        for name in ["sec-websocket-accept", "upgrade", "connection"] {
            assert!(!response.headers().contains_key(name), "{response:?}");
        }
        let mut body = response.into_body();
        assert_eq!(client.run(read_exactly(&mut body, 2)), b"hi");
        for length in [1, 1_000, 300_000] {
            let bytes: Vec<u8> = (0..length).map(|number| (number % 251) as u8).collect();
            let (back, ()) = client
                .run(async { tokio::join!(read_exactly(&mut body, length), write_all(&mut stream, &bytes)) });
            assert!(back == bytes, "{length} bytes came back changed");
        }
        stream.send_data(Bytes::new(), true).unwrap();
        let left = client.run(rest(body)).unwrap().0;
        assert!(left.is_empty(), "the origin saw the end and closed");
    }
    let seen = origin.last_request();
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", "/chat?room=1"));
    assert_eq!(seen.header("upgrade"), Some("websocket"));
    let keys: Vec<String> = origin
        .requests()
        .iter()
        .filter_map(|request| request.header("sec-websocket-key").map(str::to_owned))
        .collect();
    assert!(keys.len() == 2 && keys[0] != keys[1] && keys[0].len() == 24, "{keys:?}");
}

#[test]
fn tunnel_to_http2_has_a_stream_on_both_sides() {
    let origin = H2Origin::start(|peer| {
        // ENABLE_CONNECT_PROTOCOL
        peer.settings(&[(8, 1)]);
        let (stream, fields) = peer.request().unwrap();
        assert!(fields.contains(&(":protocol".to_owned(), "websocket".to_owned())), "{fields:?}");
        assert!(!fields.iter().any(|(name, _)| name == "sec-websocket-key"), "{fields:?}");
        peer.send(origin::HEADERS, origin::END_HEADERS, stream, origin::STATUS_200);
        while let Some(frame) = peer.frame() {
            if frame.kind == origin::DATA {
                peer.send(origin::DATA, frame.flags, stream, &frame.payload);
            }
        }
    });
    let node = origin.node().parse().unwrap();
    let more = "http_version: \"2\"";
    let weir = gateway(&route("uri: /*, enable_websocket: true", &upstream(&[node], more)));
    let mut client = Client::connect(weir.proxy());
    client.run_until("the settings of the gateway are there", || {
        client.send.is_extended_connect_protocol_enabled()
    });
    let (response, mut stream) = client.start(connect("websocket"), false);
    let response = client.run(response).unwrap();
    assert_eq!(response.status(), 200, "{response:?}");
    assert!(!response.headers().contains_key("sec-websocket-accept"), "{response:?}");
    let mut body = response.into_body();
    stream.send_data(Bytes::from_static(b"hello"), false).unwrap();
    assert_eq!(client.run(read_exactly(&mut body, 5)), b"hello");
    stream.send_data(Bytes::new(), true).unwrap();
    assert!(client.run(rest(body)).unwrap().0.is_empty(), "both ways have ended in order");
}

#[test]
fn reset_of_the_stream_ends_the_tunnel() {
    let origin = echo();
    let weir = allowing(&origin);
    let mut client = Client::connect(weir.proxy());
    client.get("/");
    let (response, mut stream) = client.start(connect("websocket"), false);
    assert_eq!(client.run(response).unwrap().status(), 200);
    stream.send_reset(Reason::CANCEL);
    // The response to the first request switched protocols unasked, so that its connection was closed as
    // well.
    client.run_until("all connections are closed", || origin.closed_connections() == origin.connections());
}

#[test]
fn tunnel_opens_only_where_it_may() {
    let plain = Origin::answering("no upgrade");
    let liar = Origin::start(|_| {
        Reply::raw(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        )
        .close()
    });
    let refusing = Origin::start(|_| Reply::status(403, "not you"));
    for (name, weir, protocol, status) in [
        ("the route does not allow it", in_front_of(&plain), "websocket", 501),
        ("another protocol", allowing(&plain), "connect-udp", 501),
        ("the node answers 200", allowing(&plain), "websocket", 502),
        ("the node does not know the key", allowing(&liar), "websocket", 502),
        ("the node refuses", allowing(&refusing), "websocket", 403),
    ] {
        let mut client = Client::connect(weir.proxy());
        // The settings of the server have to be there before the client may send it.
        client.get("/");
        let (response, _stream) = client.start(connect(protocol), false);
        let answer = client.run(whole(response)).unwrap();
        assert_eq!(answer.status, status, "{name}: {}", answer.text());
    }
}

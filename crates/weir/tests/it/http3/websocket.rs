//! WebSocket over HTTP/3 (RFC 9220): an extended CONNECT becomes an upgrade of HTTP/1.1, and its stream a
//! tunnel. The client writes its frames with the crate `http3`.

use http3::{Config, Connection, ErrorCode, FieldSink, RequestEvent, RequestReader, writer};
use message::ResponseHead;
use multiplex::RequestTarget;
use quinn::{RecvStream, SendStream};
use testkit::{Origin, Reply, Step};

use super::client::H3Client;
use super::scene;

/// An origin that agrees to the upgrade with the right answer to the key, and echoes.
fn echo() -> Origin {
    Origin::start(|request| {
        let accept = peer::websocket::accept(request.header("sec-websocket-key").unwrap_or_default());
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        Reply::raw(head.as_bytes()).send("hi").then(Step::Echo).close()
    })
}

/// One extended CONNECT and what comes back.
struct Tunnel {
    engine: Connection,
    reader: RequestReader,
    send: Option<SendStream>,
    receive: RecvStream,
    /// Content that was not read.
    held: Vec<u8>,
    status: u16,
}

impl Tunnel {
    async fn open(client: &H3Client, protocol: &str) -> Tunnel {
        let (mut send, receive) = client.quic.open_bi().await.unwrap();
        let target = RequestTarget {
            method: b"CONNECT",
            scheme: "https",
            authority: b"a.example",
            path: b"/chat",
            query: Some(b"room=1"),
            protocol: Some(protocol),
        };
        let mut head = Vec::new();
        let mut writer = writer::request(&mut head, &target);
        writer.field("sec-websocket-version", b"13");
        writer.finish();
        send.write_all(&head).await.unwrap();
        let mut engine = Connection::client(Config::default());
        let id = send.id().into();
        let reader = engine.start_request(id, &RequestTarget { protocol: None, ..target }).unwrap();
        let mut tunnel = Tunnel { engine, reader, send: Some(send), receive, held: Vec::new(), status: 0 };
        while tunnel.status == 0 {
            assert!(tunnel.read().await, "a response comes");
        }
        tunnel
    }

    /// Reads once; false at the end.
    async fn read(&mut self) -> bool {
        let Some(chunk) = self.receive.read_chunk(usize::MAX, true).await.unwrap() else { return false };
        let mut rest = &chunk.bytes[..];
        while !rest.is_empty() {
            let step = self.reader.read(&mut self.engine, rest).unwrap();
            match step.event {
                Some(RequestEvent::Head) => {
                    let mut head = ResponseHead::new();
                    self.reader.take_response(&mut head).unwrap();
                    self.status = head.status;
                }
                Some(RequestEvent::Data(range)) => self.held.extend_from_slice(&rest[range]),
                _ => {}
            }
            rest = &rest[step.consumed..];
        }
        true
    }

    /// Sends a frame and reads so many bytes at the same time.
    async fn echoed(&mut self, frame: &[u8], length: usize) -> Vec<u8> {
        let mut send = self.send.take().unwrap();
        let (written, back) = tokio::join!(send.write_all(frame), self.exactly(length));
        written.unwrap();
        self.send = Some(send);
        back
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.held.len() < length {
            assert!(self.read().await, "more is to come");
        }
        self.held.drain(..length).collect()
    }
}

#[test]
fn tunnel_carries_bytes_both_ways() {
    let origin = echo();
    let scene = scene(&origin, &[]);
    let client = scene.client();
    client.run(async {
        let mut tunnel = Tunnel::open(&client, "websocket").await;
        assert_eq!(tunnel.status, 200);
        assert_eq!(tunnel.exactly(2).await, b"hi");
        for length in [1, 1_000, 300_000] {
            let bytes: Vec<u8> = (0..length).map(|number| (number % 251) as u8).collect();
            let mut frame = Vec::new();
            writer::data(&mut frame, &bytes);
            let back = tunnel.echoed(&frame, length).await;
            assert!(back == bytes, "{length} bytes came back changed");
        }
        tunnel.send.as_mut().unwrap().finish().unwrap();
        while tunnel.read().await {}
        assert!(tunnel.held.is_empty(), "the origin saw the end and closed");
    });
    let seen = origin.last_request();
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", "/chat?room=1"));
    assert_eq!(seen.header("upgrade"), Some("websocket"));
}

#[test]
fn reset_of_the_stream_ends_the_tunnel() {
    let origin = echo();
    let scene = scene(&origin, &[]);
    let client = scene.client();
    client.run(async {
        let mut tunnel = Tunnel::open(&client, "websocket").await;
        assert_eq!(tunnel.exactly(2).await, b"hi");
        let code = quinn::VarInt::from_u64(ErrorCode::REQUEST_CANCELLED.0).unwrap();
        tunnel.send.as_mut().unwrap().reset(code).unwrap();
    });
    client.runs_until("the connection to the node is closed", || origin.closed_connections() > 0);
}

#[test]
fn other_protocols_are_refused() {
    let origin = echo();
    let scene = scene(&origin, &[]);
    let client = scene.client();
    let status = client.run(async { Tunnel::open(&client, "connect-udp").await.status });
    assert_eq!(status, 501);
    assert!(origin.requests().is_empty());
}

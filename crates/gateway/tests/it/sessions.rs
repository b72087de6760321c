//! Sessions of layer 4 through an engine, with sockets of the real kernel: routes, nodes, bytes both ways,
//! and how a session ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod hostile;
mod optional_header;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use gateway::engine::{Engine, EngineConfig};
use gateway::testing;
use model::ObjectKind;
use net::listener::{Protocols, WantedListener};
use net::quic::QuicProcess;
use serde_json::{Value, json};
use testkit::wait_until;

/// Longer than any step of these tests takes, shorter than a test may hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// A gateway with stream routes and one listener.
struct Gateway {
    engine: Engine,
    address: SocketAddr,
}

fn gateway_at(protocols: Protocols, routes: &[Value]) -> Gateway {
    gateway_with(protocols, routes, "127.0.0.0/8")
}

/// As [`gateway_at`], with other peers that may send a PROXY protocol header.
fn gateway_with(protocols: Protocols, routes: &[Value], trusted: &str) -> Gateway {
    let (options, _) = testing::without_routes();
    let mut options = Arc::unwrap_or_clone(options);
    options.real_ip.proxy_protocol_from = vec![trusted.parse().unwrap()];
    let ids: Vec<String> = (1..=routes.len()).map(|id| id.to_string()).collect();
    let objects: Vec<_> = routes
        .iter()
        .zip(&ids)
        .map(|(route, id)| (ObjectKind::StreamRoute, id.as_str(), route.clone()))
        .collect();
    let engine = Engine::start(EngineConfig {
        options: Arc::new(options),
        workers: 1,
        runtime: testing::runtime_of(&[], &objects),
        access_log: None,
        session_log: None,
        services: Arc::new(exchange::testing::services()),
        quic: QuicProcess::first().unwrap(),
    })
    .unwrap();
    let wanted = WantedListener { address: ([127, 0, 0, 1], 0).into(), protocols };
    let address = engine.listen(&[wanted]).unwrap().added[0];
    Gateway { engine, address }
}

fn gateway(routes: &[Value]) -> Gateway {
    gateway_at(Protocols::TCP, routes)
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.engine.stop();
    }
}

impl Gateway {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The count of sessions that ended so.
    fn ended(&self, cause: &str) -> u64 {
        self.count(&format!("weir_stream_session_ends_total{{cause=\"{cause}\"}} "))
    }

    /// The count of connections that this limit or setting refused.
    fn refused(&self, limit: &str) -> u64 {
        self.count(&format!("weir_connections_refused_total{{limit=\"{limit}\"}} "))
    }

    fn count(&self, line: &str) -> u64 {
        let mut text = String::new();
        self.engine.write_metrics(&mut text);
        text.lines().find_map(|found| found.strip_prefix(line)?.parse().ok()).unwrap_or(0)
    }

    fn wait_for_end(&self, cause: &str) {
        wait_until(cause, || self.ended(cause) == 1);
    }
}

/// An origin that sends everything back, and then closes its side when the client does.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut copy = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut copy, &mut stream);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

/// An origin that hands its connections to the test.
fn origin() -> (SocketAddr, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, accepted) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    (address, accepted)
}

fn to(node: SocketAddr) -> Value {
    json!({"upstream": {"type": "roundrobin", "nodes": {node.to_string(): 1}}})
}

fn read_exact(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Bytes that have arrived and were not read.
fn unread_bytes(stream: &TcpStream) -> usize {
    let mut room = vec![0; 200_000];
    stream.peek(&mut room).unwrap_or(0)
}

fn is_reset(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// Whether the gateway has closed the connection, also in order.
fn is_gone(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn bytes_pass_both_ways_and_half_close_is_kept() {
    let (address, accepted) = origin();
    let gateway = gateway(&[to(address)]);
    let mut client = gateway.connect();
    // The node speaks first.
    let mut node = accepted.recv_timeout(PATIENCE).unwrap();
    node.write_all(b"220 ready").unwrap();
    assert_eq!(read_exact(&mut client, 9), b"220 ready");
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    node.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"question");
    node.write_all(b"late answer").unwrap();
    drop(node);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"late answer");
    gateway.wait_for_end("closed");
}

#[test]
fn bulk_passes_unchanged_past_a_slow_reader() {
    const BYTES: usize = 20_000_000;
    let gateway = gateway(&[to(echo())]);
    let mut client = gateway.connect();
    let mut writer = client.try_clone().unwrap();
    let pattern = |index: usize| (index % 251) as u8;
    let writing = thread::spawn(move || {
        let bytes: Vec<u8> = (0..BYTES).map(pattern).collect();
        writer.write_all(&bytes).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    // All buffers on the way fill, because nothing is read until the origin's answer has filled the client's.
    wait_until("the client's buffer is full of answers", || unread_bytes(&client) > 100_000);
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    writing.join().unwrap();
    assert_eq!(got.len(), BYTES);
    assert!(got.iter().enumerate().all(|(index, byte)| *byte == pattern(index)));
    gateway.wait_for_end("closed");
}

/// A step of a linear congruential generator, so that sizes are irregular and the same in each run.
fn next_size(state: &mut u64, most: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    1 + (*state >> 33) as usize % most
}

#[test]
fn irregular_pieces_keep_their_order() {
    const BYTES: usize = 40_000_000;
    let (address, accepted) = origin();
    let gateway = gateway(&[to(address)]);
    let mut client = gateway.connect();
    let mut node = accepted.recv_timeout(PATIENCE).unwrap();
    node.set_nodelay(true).unwrap();
    let writing = thread::spawn(move || {
        let bytes: Vec<u8> = (0..BYTES).map(|index| (index % 251) as u8).collect();
        let (mut at, mut state) = (0, 1);
        while at < BYTES {
            // Large pieces fill all buffers, small ones arrive while the client's is full.
            let most = if state % 3 == 0 { 200_000 } else { 6_000 };
            let piece = next_size(&mut state, most).min(BYTES - at);
            node.write_all(&bytes[at..at + piece]).unwrap();
            at += piece;
        }
    });
    let (mut room, mut at, mut state) = (vec![0; 40_000], 0, 7);
    while at < BYTES {
        let most = next_size(&mut state, room.len());
        let count = client.read(&mut room[..most]).unwrap();
        assert!(count > 0, "the session ended after {at} bytes");
        let wrong =
            room[..count].iter().enumerate().find(|(index, byte)| **byte != ((at + index) % 251) as u8);
        assert_eq!(wrong, None, "after {at} bytes");
        at += count;
    }
    writing.join().unwrap();
}

#[test]
fn dead_node_gives_way_to_another() {
    let dead = testkit::Origin::nowhere();
    let good = echo();
    let upstream = json!({"type": "roundrobin", "nodes": {dead.to_string(): 1, good.to_string(): 1}});
    let gateway = gateway(&[json!({"upstream": upstream})]);
    for _ in 0..4 {
        let mut client = gateway.connect();
        client.write_all(b"hello").unwrap();
        assert_eq!(read_exact(&mut client, 5), b"hello");
    }
}

#[test]
fn session_without_a_node_or_route_is_reset() {
    let dead = testkit::Origin::nowhere();
    let without_node = gateway(&[to(dead)]);
    assert!(is_reset(&mut without_node.connect()));
    without_node.wait_for_end("connect_failed");
    let without_route = gateway(&[json!({"server_port": 1, "upstream": {"nodes": {"127.0.0.1:1": 1}}})]);
    assert!(is_reset(&mut without_route.connect()));
    without_route.wait_for_end("stream_route_not_found");
}

#[test]
fn reset_of_one_side_reaches_the_other() {
    let (address, accepted) = origin();
    let gateway = gateway(&[to(address)]);
    let mut client = gateway.connect();
    let mut node = accepted.recv_timeout(PATIENCE).unwrap();
    // Before that, the session may still be connecting.
    node.write_all(b"ready").unwrap();
    assert_eq!(read_exact(&mut client, 5), b"ready");
    socket2::SockRef::from(&node).set_linger(Some(Duration::ZERO)).unwrap();
    drop(node);
    assert!(is_reset(&mut client));
    gateway.wait_for_end("node_reset");
    let client = gateway.connect();
    let mut node = accepted.recv_timeout(PATIENCE).unwrap();
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    assert!(is_reset(&mut node));
    gateway.wait_for_end("client_reset");
}

#[test]
fn header_of_a_trusted_balancer_names_the_client() {
    let (address, accepted) = origin();
    let mut route = to(address);
    route["remote_addr"] = json!("192.0.2.0/24");
    let gateway = gateway_at(Protocols::TCP.behind_proxy_protocol(), &[route]);
    let mut client = gateway.connect();
    client.write_all(b"PROXY TCP4 192.0.2.7 198.51.100.1 4000 443\r\nhello").unwrap();
    let mut node = accepted.recv_timeout(PATIENCE).unwrap();
    assert_eq!(read_exact(&mut node, 5), b"hello");
    let mut other = gateway.connect();
    other.write_all(b"PROXY TCP4 203.0.113.7 198.51.100.1 4000 443\r\nhello").unwrap();
    assert!(is_reset(&mut other));
}

/// A ClientHello for `name` as rustls writes it.
fn client_hello(name: &'static str) -> Vec<u8> {
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name.try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn tls_passes_through_by_its_server_name() {
    let (one, at_one) = origin();
    let (many, at_many) = origin();
    let named = |node: SocketAddr, name: &str| {
        let mut route = to(node);
        route["sni"] = json!(name);
        route
    };
    let gateway = gateway(&[named(one, "a.test"), named(many, "*.b.test")]);
    for (name, accepted) in [("a.test", &at_one), ("x.b.test", &at_many)] {
        let hello = client_hello(name);
        // Byte by byte, and whole.
        for piece in [1, hello.len()] {
            let mut client = gateway.connect();
            client.set_nodelay(true).unwrap();
            for bytes in hello.chunks(piece) {
                client.write_all(bytes).unwrap();
            }
            let mut node = accepted.recv_timeout(PATIENCE).unwrap();
            assert_eq!(read_exact(&mut node, hello.len()), hello, "{name} in pieces of {piece}");
        }
    }
    let mut stranger = gateway.connect();
    stranger.write_all(&client_hello("c.test")).unwrap();
    assert!(is_reset(&mut stranger));
    let mut plain = gateway.connect();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(is_reset(&mut plain), "without a name no route matches");
}

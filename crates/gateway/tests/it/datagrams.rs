//! Sessions of layer 4 over UDP through an engine, with sockets of the real kernel: routes, nodes, answers,
//! limits, and how a session ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
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
/// Long enough for an answer over the loopback interface; a datagram that comes later counts as none.
const MOMENT: Duration = Duration::from_millis(200);

/// A gateway with stream routes and one listener.
struct Gateway {
    engine: Engine,
    address: SocketAddr,
}

fn gateway_at(address: [u8; 4], routes: &[Value]) -> Gateway {
    let (options, _) = testing::without_routes();
    let ids: Vec<String> = (1..=routes.len()).map(|id| id.to_string()).collect();
    let objects: Vec<_> = routes
        .iter()
        .zip(&ids)
        .map(|(route, id)| (ObjectKind::StreamRoute, id.as_str(), route.clone()))
        .collect();
    let engine = Engine::start(EngineConfig {
        options,
        workers: 1,
        runtime: testing::runtime_of(&[], &objects),
        access_log: None,
        session_log: None,
        services: Arc::new(exchange::testing::services()),
        quic: QuicProcess::first().unwrap(),
    })
    .unwrap();
    let wanted = WantedListener { address: (address, 0).into(), protocols: Protocols::UDP };
    let address = engine.listen(&[wanted]).unwrap().added[0];
    Gateway { engine, address }
}

fn gateway(routes: &[Value]) -> Gateway {
    gateway_at([127, 0, 0, 1], routes)
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.engine.stop();
    }
}

impl Gateway {
    fn client(&self) -> UdpSocket {
        client_of(self.address)
    }

    fn metric(&self, name: &str) -> u64 {
        let mut text = String::new();
        self.engine.write_metrics(&mut text);
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        found.unwrap_or(0)
    }

    /// The count of sessions that ended so.
    fn ended(&self, cause: &str) -> u64 {
        self.metric(&format!("weir_stream_session_ends_total{{cause=\"{cause}\"}}"))
    }

    fn open(&self) -> u64 {
        self.metric("weir_stream_sessions_open{protocol=\"udp\"}")
    }

    fn dropped(&self, reason: &str) -> u64 {
        self.metric(&format!("weir_stream_datagrams_dropped_total{{reason=\"{reason}\"}}"))
    }
}

fn client_of(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn node() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A node that sends every datagram back.
fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut room = vec![0; 65_536];
        while let Ok((length, peer)) = socket.recv_from(&mut room) {
            let _ = socket.send_to(&room[..length], peer);
        }
    });
    address
}

/// A port of UDP that nothing listens on.
fn dead() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn to(node: SocketAddr) -> Value {
    json!({"upstream": {"type": "roundrobin", "scheme": "udp", "nodes": {node.to_string(): 1}}})
}

fn with(mut route: Value, name: &str, value: Value) -> Value {
    route[name] = value;
    route
}

fn answer(client: &UdpSocket) -> Vec<u8> {
    let mut room = vec![0; 65_536];
    let length = client.recv(&mut room).unwrap();
    room.truncate(length);
    room
}

/// Whether the client is answered within a moment.
fn is_answered(client: &UdpSocket, question: &[u8]) -> bool {
    client.set_read_timeout(Some(MOMENT)).unwrap();
    client.send(question).unwrap();
    let got = client.recv(&mut [0; 100]);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    got.is_ok_and(|length| length == question.len())
}

#[test]
fn each_client_has_its_own_answers() {
    // The kernel drops what does not fit into the buffer of the node.
    const CLIENTS: usize = 100;
    let gateway = gateway(&[to(echo())]);
    let clients: Vec<_> = (0..CLIENTS).map(|_| gateway.client()).collect();
    for round in 0..3 {
        for (number, client) in clients.iter().enumerate() {
            client.send(format!("{round} {number}").as_bytes()).unwrap();
        }
        for (number, client) in clients.iter().enumerate() {
            assert_eq!(answer(client), format!("{round} {number}").as_bytes());
        }
    }
    assert_eq!(gateway.open(), CLIENTS as u64);
    assert_eq!(gateway.metric("weir_stream_datagrams_total{from=\"client\"}"), 3 * CLIENTS as u64);
    assert_eq!(gateway.metric("weir_stream_datagrams_total{from=\"node\"}"), 3 * CLIENTS as u64);
}

#[test]
fn datagrams_of_every_length_pass() {
    let gateway = gateway(&[to(echo())]);
    let client = gateway.client();
    for length in [0, 1, 1_472, 9_000, 65_507] {
        let question = vec![7; length];
        client.send(&question).unwrap();
        assert!(answer(&client) == question, "{length} bytes");
    }
}

#[test]
fn answer_comes_from_the_address_that_was_asked() {
    let gateway = gateway_at([0, 0, 0, 0], &[to(echo())]);
    for last in 1..=3 {
        // A connected socket takes datagrams of that one address alone.
        let client = client_of((Ipv4Addr::new(127, 0, 0, last), gateway.address.port()).into());
        client.send(b"hello").unwrap();
        assert_eq!(answer(&client), b"hello");
    }
}

#[test]
fn answers_may_come_late_and_in_any_order() {
    let node = node();
    let gateway = gateway(&[to(node.local_addr().unwrap())]);
    let client = gateway.client();
    let mut room = [0; 100];
    client.send(b"1").unwrap();
    let (_, session) = node.recv_from(&mut room).unwrap();
    client.send(b"2").unwrap();
    let (_, second) = node.recv_from(&mut room).unwrap();
    assert_eq!(session, second, "one session has one port");
    for answer in [&b"2"[..], b"1", b"unasked"] {
        node.send_to(answer, session).unwrap();
    }
    assert_eq!([answer(&client), answer(&client), answer(&client)], [&b"2"[..], b"1", b"unasked"]);
    // Datagrams of another sender are none of the node.
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"forged", session).unwrap();
    node.send_to(b"last", session).unwrap();
    assert_eq!(answer(&client), b"last");
}

#[test]
fn dead_node_gives_way_to_another() {
    let upstream = json!({"type": "roundrobin", "nodes": {dead().to_string(): 1, echo().to_string(): 1}});
    let gateway = gateway(&[json!({"upstream": upstream})]);
    for _ in 0..4 {
        let client = gateway.client();
        // The first datagram may be the one that the dead node has refused.
        let is_served = is_answered(&client, b"one") || is_answered(&client, b"two");
        assert!(is_served, "the second datagram goes to the other node");
        assert!(is_answered(&client, b"three"), "the session stays there");
    }
    assert_eq!(gateway.open(), 4);
}

#[test]
fn node_that_goes_away_ends_the_session() {
    let node = node();
    let gateway = gateway(&[to(node.local_addr().unwrap())]);
    let client = gateway.client();
    client.send(b"1").unwrap();
    let (_, session) = node.recv_from(&mut [0; 100]).unwrap();
    node.send_to(b"1", session).unwrap();
    answer(&client);
    drop(node);
    wait_until("the node refuses a datagram", || {
        client.send(b"2").unwrap();
        gateway.ended("node_reset") >= 1
    });
    wait_until("a session without any node ends", || {
        client.send(b"3").unwrap();
        gateway.ended("connect_failed") >= 1
    });
}

#[test]
fn datagram_without_a_route_is_dropped() {
    let gateway = gateway(&[with(to(echo()), "server_port", json!(1))]);
    let client = gateway.client();
    client.send(b"hello").unwrap();
    wait_until("the session is refused", || gateway.ended("stream_route_not_found") == 1);
    assert_eq!((gateway.dropped("refused"), gateway.open()), (1, 0));
}

#[test]
fn first_datagram_of_a_session_has_a_proxy_header() {
    let node = node();
    let route = with(to(node.local_addr().unwrap()), "proxy_protocol", json!({"version": 2}));
    let gateway = gateway(&[route]);
    let client = gateway.client();
    client.send(b"first").unwrap();
    client.send(b"second").unwrap();
    let mut room = [0; 100];
    let length = node.recv(&mut room).unwrap();
    assert_eq!(&room[..12], b"\r\n\r\n\0\r\nQUIT\n");
    assert_eq!(room[13], 0x12, "datagrams of IPv4");
    let port = client.local_addr().unwrap().port();
    assert_eq!(&room[16..26], [&[127, 0, 0, 1, 127, 0, 0, 1][..], &port.to_be_bytes()].concat());
    assert_eq!(&room[28..length], b"first");
    let length = node.recv(&mut room).unwrap();
    assert_eq!(&room[..length], b"second");
}

#[test]
fn proxy_header_of_version_1_is_refused() {
    let gateway = gateway(&[with(to(echo()), "proxy_protocol", json!({"version": 1}))]);
    gateway.client().send(b"hello").unwrap();
    wait_until("it is refused", || gateway.ended("faulty_configuration") == 1);
}

#[test]
fn source_port_is_kept_where_it_is_free() {
    let node = node();
    let gateway = gateway(&[with(to(node.local_addr().unwrap()), "udp", json!({"keep_source_port": true}))]);
    let peer_of = |client: &UdpSocket| {
        client.send_to(b"question", gateway.address).unwrap();
        let mut room = [0; 100];
        let (length, peer) = node.recv_from(&mut room).unwrap();
        assert_eq!(&room[..length], b"question");
        node.send_to(b"answer", peer).unwrap();
        let (length, from) = client.recv_from(&mut room).unwrap();
        assert_eq!((&room[..length], from), (&b"answer"[..], gateway.address));
        peer
    };
    // Clients at other addresses than the node's leave the port free there; a socket of another test can have
    // it, which five clients in a row do not meet.
    let kept = (0..5).find_map(|_| {
        let client = UdpSocket::bind("127.0.0.2:0").unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let port = client.local_addr().unwrap().port();
        (peer_of(&client) == SocketAddr::from(([127, 0, 0, 1], port))).then_some((client, port))
    });
    let (first, port) = kept.expect("no port was kept");
    let second = UdpSocket::bind(("127.0.0.3", port)).unwrap();
    second.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_ne!(peer_of(&second).port(), port, "the session of the first client has it");
    assert_eq!(peer_of(&first).port(), port);
}

#[test]
fn upstream_for_connections_gets_no_datagrams() {
    let node = echo();
    let original =
        json!({"type": "original_dst", "scheme": "tcp", "original_dst": {"allow": ["127.0.0.0/8"]}});
    let transparent = json!({"scheme": "tcp", "nodes": {node.to_string(): 1}, "transparent_source": true});
    for upstream in [original, transparent] {
        let gateway = gateway(&[json!({"upstream": upstream})]);
        gateway.client().send(b"hello").unwrap();
        wait_until("it is dropped", || gateway.dropped("refused") == 1);
        assert_eq!(gateway.open(), 0);
    }
}

#[test]
fn session_ends_with_the_answers_that_it_expects() {
    let gateway = gateway(&[with(to(echo()), "udp", json!({"responses": 1}))]);
    let client = gateway.client();
    for count in 1..=3 {
        client.send(b"hello").unwrap();
        assert_eq!(answer(&client), b"hello");
        wait_until("the session has ended", || gateway.ended("closed") == count);
    }
    assert_eq!(gateway.open(), 0);
}

#[test]
fn session_ends_at_once_where_no_answer_is_expected() {
    let node = node();
    let gateway = gateway(&[with(to(node.local_addr().unwrap()), "udp", json!({"responses": 0}))]);
    let client = gateway.client();
    for count in 1..=3 {
        client.send(b"line").unwrap();
        node.recv(&mut [0; 100]).unwrap();
        wait_until("the session has ended", || gateway.ended("closed") == count);
    }
}

#[test]
fn client_begins_another_session_after_its_requests() {
    let node = node();
    let route = with(to(node.local_addr().unwrap()), "udp", json!({"requests": 2}));
    let gateway = gateway(&[route]);
    let client = gateway.client();
    let mut sessions = BTreeSet::new();
    let mut room = [0; 100];
    for number in 0..6_u8 {
        client.send(&[number]).unwrap();
        let (_, session) = node.recv_from(&mut room).unwrap();
        sessions.insert(session);
        node.send_to(&[number], session).unwrap();
        assert_eq!(answer(&client), [number]);
    }
    assert_eq!((sessions.len(), gateway.open()), (3, 3));
    // The first one goes on for answers.
    for session in sessions {
        node.send_to(b"late", session).unwrap();
        assert_eq!(answer(&client), b"late");
    }
}

#[test]
fn idle_and_long_sessions_end() {
    let idle = gateway(&[with(to(echo()), "idle_timeout", json!(0.3))]);
    let long = gateway(&[with(to(echo()), "session_timeout", json!(0.5))]);
    let (idle_client, long_client) = (idle.client(), long.client());
    assert!(is_answered(&idle_client, b"hello"));
    wait_until("the idle session ends", || {
        long_client.send(b"hello").unwrap();
        idle.ended("idle_timeout") == 1
    });
    wait_until("the long session ends", || {
        long_client.send(b"hello").unwrap();
        long.ended("session_timeout") >= 1
    });
    assert!(is_answered(&idle_client, b"again"), "the next datagram begins another session");
}

#[test]
fn flood_of_sources_stays_bounded() {
    const SOURCES: u32 = 18_000;
    const SESSIONS_MAX: u64 = 16_384;
    let gateway = gateway(&[to(echo())]);
    let real = gateway.client();
    // Its client has seen an answer and sent again, so that it is no forged address.
    assert!(is_answered(&real, b"1") && is_answered(&real, b"2"));
    for number in 0..SOURCES {
        let address = IpAddr::from(Ipv4Addr::from(0x7f10_0000 + number));
        let source = UdpSocket::bind((address, 0)).unwrap();
        source.send_to(b"flood", gateway.address).unwrap();
        if number % 64 == 0 {
            // The kernel's buffer must not overflow, because all sources are to be seen.
            let begun = || gateway.metric("weir_stream_datagrams_total{from=\"client\"}");
            wait_until("the flood is received", || begun() + 64 >= u64::from(number));
        }
    }
    wait_until("all are received", || {
        gateway.metric("weir_stream_datagrams_total{from=\"client\"}") == u64::from(SOURCES) + 2
    });
    let (open, evicted) = (gateway.open(), gateway.ended("evicted"));
    assert!(open <= SESSIONS_MAX && evicted > 0, "{open} are open, {evicted} gave way");
    assert_eq!(open + evicted, u64::from(SOURCES) + 1);
    assert!(is_answered(&real, b"3"));
    assert_eq!(gateway.metric("weir_stream_sessions_total{protocol=\"udp\"}"), u64::from(SOURCES) + 1);
}

#[test]
fn closed_listener_keeps_its_sessions_and_begins_none() {
    let gateway = gateway(&[to(echo())]);
    let client = gateway.client();
    assert!(is_answered(&client, b"1"));
    gateway.engine.listen(&[]).unwrap();
    let stranger = gateway.client();
    wait_until("the listener is closed", || {
        stranger.send(b"hello").unwrap();
        gateway.dropped("closing") > 0
    });
    let open = gateway.open();
    assert!(is_answered(&client, b"2"), "its session goes on");
    assert_eq!(gateway.open(), open);
}

//! Stream routes over UDP through the real gateway: a real name server and a real syslog server behind it,
//! the log of sessions, listeners that close, and a binary upgrade.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use testkit::dnsmasq::{Dnsmasq, ask};
use testkit::{Client, Rsyslog, Weir, wait_for, wait_until};

use crate::support::BINARY;

/// Longer than an answer takes, shorter than a test may hang.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer that takes longer counts as none.
const MOMENT: Duration = Duration::from_millis(200);

fn gateway(more: &str, arguments: &[&str]) -> Weir {
    let settings = format!("stream_udp: 127.0.0.1:0\nstream_access_log: sessions.log\n{more}");
    Weir::builder(BINARY).settings(&settings).arguments(arguments).start()
}

fn route_to(weir: &Weir, id: &str, node: SocketAddr, more: Value) {
    let nodes = json!({node.to_string(): 1});
    let mut route = json!({"upstream": {"type": "roundrobin", "scheme": "udp", "nodes": nodes}});
    route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    weir.put(&format!("stream_routes/{id}"), route);
}

fn client_of(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A node that sends every datagram back.
fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut room = [0; 2_000];
        while let Ok((length, peer)) = socket.recv_from(&mut room) {
            let _ = socket.send_to(&room[..length], peer);
        }
    });
    address
}

/// Whether the client is answered in a moment.
fn is_answered(client: &UdpSocket) -> bool {
    client.set_read_timeout(Some(MOMENT)).unwrap();
    client.send(b"hello").unwrap();
    client.recv(&mut [0; 100]).is_ok_and(|length| length == 5)
}

/// The lines of the log of sessions.
fn log_of(weir: &Weir) -> Vec<String> {
    let text = fs::read_to_string(weir.directory().join("sessions.log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn names_are_looked_up_through_the_gateway() {
    let server = Dnsmasq::start("shop.test", "192.0.2.7");
    let weir = gateway("", &[]);
    route_to(&weir, "1", server.address(), json!({"udp": {"responses": 1}}));
    let client = client_of(weir.address("stream-udp"));
    for _ in 0..3 {
        assert_eq!(ask(&client, "shop.test"), Some([192, 0, 2, 7]));
    }
    let line = wait_for("the sessions are logged", || {
        log_of(&weir).into_iter().find(|line| line.contains(" closed "))
    });
    let node = server.address().to_string();
    for part in ["127.0.0.1 [", " UDP ", " 200 ", &node] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[test]
fn lines_of_syslog_pass_without_an_answer() {
    let server = Rsyslog::start();
    let weir = gateway("", &[]);
    route_to(&weir, "1", server.address(), json!({"udp": {"responses": 0}}));
    let client = client_of(weir.address("stream-udp"));
    for number in 0..5 {
        client.send(format!("<14>1 - host app - - - line {number}").as_bytes()).unwrap();
    }
    let has_all =
        |lines: &[String]| (0..5).all(|n| lines.iter().any(|line| line.ends_with(&format!("line {n}"))));
    wait_until("all lines are there", || has_all(&server.messages()));
}

#[test]
fn plugin_refuses_a_client_of_udp() {
    let weir = gateway("", &[]);
    let refuse = json!({"plugins": {"ip-restriction": {"blacklist": ["127.0.0.0/8"]}}});
    route_to(&weir, "1", echo(), refuse);
    let client = client_of(weir.address("stream-udp"));
    client.send(b"hello").unwrap();
    wait_until("the refusal is logged", || log_of(&weir).iter().any(|line| line.contains(" 403 ")));
    let text = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
    assert!(text.contains("weir_stream_datagrams_dropped_total{reason=\"refused\"} 1"), "{text}");
    route_to(&weir, "1", echo(), json!({}));
    wait_until("the changed route serves it", || is_answered(&client));
}

#[test]
fn answers_go_on_over_a_binary_upgrade() {
    let weir = gateway("workers: 2\n", &["--upgrade-grace", "3"]);
    route_to(&weir, "1", echo(), json!({}));
    let clients: Vec<_> = (0..16).map(|_| client_of(weir.address("stream-udp"))).collect();
    assert!(clients.iter().all(is_answered));
    let before = weir.pid();
    weir.upgrade();
    let successor = wait_for("another process has taken over", || {
        let unanswered = clients.iter().filter(|client| !is_answered(client)).count();
        assert_eq!(unanswered, 0, "every datagram is answered meanwhile");
        weir.holder().filter(|holder| *holder != before)
    });
    assert_ne!(successor, before);
    let _successor = weir.wait_for_successor(before);
    let mut weir = weir;
    weir.wait_until_gone();
    assert!(clients.iter().all(is_answered), "the new process alone serves them");
}

#[test]
fn descriptors_bound_the_sessions() {
    const CLIENTS: usize = 120;
    let weir = gateway("workers: 1\n", &[]);
    route_to(&weir, "1", echo(), json!({}));
    let clients: Vec<_> = (0..CLIENTS).map(|_| client_of(weir.address("stream-udp"))).collect();
    assert!(clients.iter().all(is_answered));
    let open = || {
        let text = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        let line =
            text.lines().find_map(|line| line.strip_prefix("weir_stream_sessions_open{protocol=\"udp\"} "));
        line.and_then(|count| count.parse::<usize>().ok()).unwrap()
    };
    assert_eq!(open(), CLIENTS);
    let pid = Pid::from_raw(weir.pid().cast_signed()).unwrap();
    // A quarter of them is for sessions over UDP.
    let limit = Rlimit { current: Some(400), ..getrlimit(Resource::Nofile) };
    prlimit(Some(pid), Resource::Nofile, limit).unwrap();
    wait_until("the sessions that were idle longest have ended", || open() == 100);
    assert!(clients.iter().all(is_answered), "new sessions take the place of idle ones");
    assert_eq!(open(), 100);
}

//! Listeners of layer 4 with the real program: added and removed by HUP, ranges of ports, headers to nodes,
//! and an upgrade under open sessions.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Client, Weir, wait_for, wait_until};

use crate::support::BINARY;

/// Longer than any step of these tests takes, shorter than a test may hang.
const PATIENCE: Duration = Duration::from_secs(10);
/// Sessions that are open while the program is replaced.
const SESSIONS: usize = 64;
/// Changes of stream routes under these sessions.
const CHANGES: usize = 200;

/// A server that sends each connection its own bytes back.
pub(crate) fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut back = stream.try_clone().unwrap();
                // Ends with an error when a test has ended in between.
                let _ = std::io::copy(&mut stream, &mut back);
                let _ = back.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends the bytes and reads as many.
fn echoes(stream: &mut TcpStream, text: &[u8]) -> bool {
    let mut answer = vec![0; text.len()];
    stream.write_all(text).and_then(|()| stream.read_exact(&mut answer)).is_ok() && answer == text
}

/// The announced addresses of a listener, in order.
fn announced(weir: &Weir, name: &str) -> Vec<SocketAddr> {
    let prefix = format!("listening {name} ");
    let lines = weir.stdout();
    let addresses = lines.iter().filter_map(|line| line.strip_prefix(&prefix));
    addresses.map(|address| address.parse().unwrap()).collect()
}

fn wait_for_listener(weir: &Weir, name: &str) -> SocketAddr {
    wait_for(&format!("{name} is announced"), || announced(weir, name).first().copied())
}

fn control(weir: &Weir, target: &str) -> Value {
    Client::connect(weir.address("control")).get(target).json()
}

fn stream_route(node: SocketAddr, more: Value) -> Value {
    let mut route = json!({"upstream": {"scheme": "tcp", "nodes": {node.to_string(): 1}}});
    route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    route
}

fn wait_for_message(weir: &Weir, parts: &[&str]) {
    let said = || weir.stderr().iter().any(|line| parts.iter().all(|part| line.contains(part)));
    wait_until(&format!("the log says {parts:?}"), said);
}

#[test]
fn stream_listeners_come_and_go_with_hup() {
    let node = echo_server();
    let weir = Weir::builder(BINARY).settings("workers: 2\n").start();
    let put = |id: &str| weir.admin("PUT", &format!("stream_routes/{id}"), stream_route(node, json!({})));
    let refused = (400, json!({"error_msg": "stream mode is disabled, can not add stream routes"}));
    assert_eq!(put("1"), refused);
    weir.rewrite_settings("workers: 2\nstream_tcp: 127.0.0.1:0\nstream_udp: 127.0.0.1:0\n");
    weir.reload();
    let (tcp, udp) = (wait_for_listener(&weir, "stream-tcp"), wait_for_listener(&weir, "stream-udp"));
    // The Admin API learns of the mode after the listener is announced.
    wait_until("the route is made", || put("1").0 == 201);
    wait_until("the route is in force", || echoes(&mut connect(tcp), b"hello"));
    // More connections than one worker would get by chance.
    for _ in 0..20 {
        assert!(echoes(&mut connect(tcp), b"hello"));
    }
    let taken = UdpSocket::bind(udp).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "{udp} is bound");
    let listed = control(&weir, "/v1/weir/listeners");
    for (name, address, protocols) in [("stream-tcp", tcp, ["tcp"]), ("stream-udp", udp, ["udp"])] {
        let entry = json!({"name": name, "address": address.to_string(), "protocols": protocols});
        assert!(listed.as_array().unwrap().contains(&entry), "{listed}");
    }
    let routes = control(&weir, "/v1/stream_routes");
    assert_eq!((&routes[0]["key"], routes.as_array().unwrap().len()), (&json!("/apisix/stream_routes/1"), 1));
    assert_eq!(control(&weir, "/v1/stream_route/1")["value"]["upstream"]["scheme"], "tcp");
    weir.rewrite_settings("workers: 2\n");
    weir.reload();
    for (name, address) in [("stream-tcp", tcp), ("stream-udp", udp)] {
        let line = format!("closed {name} {address}");
        wait_until("the listener is closed", || weir.stdout().contains(&line));
    }
    wait_until("it refuses connections", || TcpStream::connect(tcp).is_err());
    wait_until("the UDP port is free", || UdpSocket::bind(udp).is_ok());
    assert_eq!(put("2"), refused);
}

#[test]
fn range_of_ports_is_served_and_explained() {
    let node = echo_server();
    let settings = "stream_tcp: 127.77.3.1:19100-19102\nstream_send_proxy_protocol: 127.77.3.1:19101-19102\n";
    let weir = Weir::builder(BINARY).settings(settings).start();
    weir.put("stream_routes/all", stream_route(node, json!({})));
    let silent = json!({"server_port": 19102, "proxy_protocol": {"version": 0}, "name": "silent"});
    weir.put("stream_routes/silent", stream_route(node, silent));
    let at = |port: u16| SocketAddr::from(([127, 77, 3, 1], port));
    wait_until("the routes are in force", || echoes(&mut connect(at(19_102)), b"hello"));
    assert!(echoes(&mut connect(at(19_100)), b"hello"), "no header is asked for");
    let sends_a_header = |port: u16| {
        let mut stream = connect(at(port));
        let own = stream.local_addr().unwrap();
        let expected = format!("PROXY TCP4 127.0.0.1 127.77.3.1 {} {port}\r\nhello", own.port());
        stream.write_all(b"hello").unwrap();
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), expected);
    };
    sends_a_header(19_101);
    let explained = |arguments: &[&str]| {
        let control = weir.address("control").to_string();
        let all: Vec<&str> = ["explain", "--control", &control].iter().chain(arguments).copied().collect();
        let outcome = crate::command::weir(weir.directory(), &all, &[]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        outcome.stdout
    };
    let text = explained(&["--tcp", "127.77.3.1:19102", "--from", "10.0.0.7"]);
    for part in
        ["silent (silent)", "lost: stream route silent is more precise", "client    10.0.0.7", "100 %"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = explained(&["--tcp", "127.77.3.1:19100", "--json"]);
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["matched"]["id"], "all", "{record}");
    assert_eq!(record["considered"][0]["verdict"], "server_port", "{record}");
    // A changed header comes into force with HUP, and sessions that are open keep theirs; another listener
    // comes beside.
    let mut kept = connect(at(19_101));
    let own = format!("PROXY TCP4 127.0.0.1 127.77.3.1 {} 19101\r\n", kept.local_addr().unwrap().port());
    let mut header = vec![0; own.len()];
    kept.read_exact(&mut header).unwrap();
    assert_eq!(String::from_utf8(header).unwrap(), own, "it is sent before the client has said anything");
    let settings = "stream_tcp: 127.77.3.1:19100-19103\nstream_send_proxy_protocol: 127.77.3.1:19100\n";
    weir.rewrite_settings(settings);
    weir.reload();
    wait_until("a fourth address is announced", || announced(&weir, "stream-tcp").len() == 4);
    wait_for_message(&weir, &["INFO", "the PROXY protocol of a listener has changed", "127.77.3.1:19101"]);
    for port in [19_101, 19_103] {
        assert!(echoes(&mut connect(at(port)), b"hello"), "{port} sends no header");
    }
    sends_a_header(19_100);
    assert!(echoes(&mut kept, b"hello"), "the session goes on");
    assert!(!weir.stderr().iter().any(|line| line.contains("wait for a restart")));
    let more = Weir::builder(BINARY).settings("stream_udp: 127.0.0.1:1-1001\n").try_start().err().unwrap();
    assert!(more.stderr.contains("makes 1001 addresses; a list has at most 1000"), "{more}");
}

#[test]
fn changes_and_upgrades_keep_sessions_of_layer_4() {
    let node = echo_server();
    let settings = "stream_tcp: 127.0.0.1:0\nstream_udp: 127.0.0.1:0\nworkers: 2\nupgrade_grace: 60\n";
    let mut weir = Weir::builder(BINARY).settings(settings).start();
    weir.put("stream_routes/1", stream_route(node, json!({})));
    let tcp = wait_for_listener(&weir, "stream-tcp");
    wait_until("the route is in force", || echoes(&mut connect(tcp), b"hello"));
    let listed = || {
        let all = control(&weir, "/v1/weir/listeners");
        let is_stream = |one: &&Value| one["name"].as_str().unwrap().starts_with("stream-");
        all.as_array().unwrap().iter().filter(is_stream).cloned().collect::<Vec<_>>()
    };
    let before = listed();
    assert_eq!(before.len(), 2);
    // Any node will do for a route that gets no session, and the changed route of the sessions has another
    // one each time.
    let others = [echo_server(), echo_server()];
    let node_of = |number: usize| others[number % 2];
    let mut sessions: Vec<TcpStream> = (0..SESSIONS).map(|_| connect(tcp)).collect();
    let all_echo = |sessions: &mut Vec<TcpStream>, round: &str| {
        for session in sessions.iter_mut() {
            assert!(echoes(session, round.as_bytes()), "{round}");
        }
    };
    all_echo(&mut sessions, "before");
    // Changes of the routes and of the listeners touch none of them.
    for number in 0..CHANGES {
        let node = json!({"server_port": 1 + number % 1_000, "idle_timeout": 60 + number});
        let (id, route) = match number % 4 {
            0 => ("1", stream_route(node_of(number), json!({"idle_timeout": 60 + number}))),
            3 => {
                assert_eq!(weir.admin("DELETE", "stream_routes/2", Value::Null).0, 200);
                continue;
            }
            _ => ("2", stream_route(node_of(number), node)),
        };
        weir.put(&format!("stream_routes/{id}"), route);
        let session = &mut sessions[number % SESSIONS];
        assert!(echoes(session, b"between changes"), "after change {number}");
    }
    weir.put("stream_routes/1", stream_route(node, json!({})));
    weir.rewrite_settings(&format!("{settings}stream_tls: 127.0.0.1:0\n"));
    weir.reload();
    wait_for_listener(&weir, "stream-tls");
    weir.rewrite_settings(settings);
    weir.reload();
    wait_until("the listener is closed", || {
        weir.stdout().iter().any(|line| line.starts_with("closed stream-tls"))
    });
    all_echo(&mut sessions, "after changes and two reloads");
    weir.upgrade();
    let first = weir.wait_for_successor(weir.pid());
    all_echo(&mut sessions, "after one upgrade");
    assert_eq!(listed(), before, "the addresses are those of the first process");
    sessions.extend((0..SESSIONS).map(|_| connect(tcp)));
    all_echo(&mut sessions, "of two processes");
    first.upgrade();
    let second = weir.wait_for_successor(first.pid());
    all_echo(&mut sessions, "after two upgrades");
    assert_eq!(listed(), before);
    assert!(echoes(&mut connect(tcp), b"a new session"));
    drop(sessions);
    assert!(weir.wait_until_gone().success());
    first.wait_until_gone();
    second.terminate();
    second.wait_until_gone();
}

/// A server that speaks first.
fn greeter() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                // Ends with an error when a test has ended in between.
                let _ = stream.write_all(b"greeting");
                let _ = stream.read(&mut [0; 100]);
            });
        }
    });
    address
}

/// Whether the server's greeting comes before the client has said anything.
fn is_greeted(address: SocketAddr) -> bool {
    let mut greeting = [0; 8];
    connect(address).read_exact(&mut greeting).is_ok() && &greeting == b"greeting"
}

fn datagram_echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut room = [0; 100];
        while let Ok((length, peer)) = socket.recv_from(&mut room) {
            let _ = socket.send_to(&room[..length], peer);
        }
    });
    address
}

#[test]
fn plain_port_waits_for_no_first_bytes() {
    // A session that waited for first bytes would be silent for longer than the client waits.
    let settings =
        "stream_tcp: 127.77.4.1:19200-19201\nstream_udp: 127.77.4.1:19200\nhead_timeout_ms: 60000\n";
    let weir = Weir::builder(BINARY).settings(settings).start();
    let at = |port: u16| SocketAddr::from(([127, 77, 4, 1], port));
    weir.put("stream_routes/mysql", stream_route(greeter(), json!({"server_port": 19200})));
    weir.put("stream_routes/names", stream_route(echo_server(), json!({"sni": "db.test"})));
    let node = datagram_echo().to_string();
    let datagrams = json!({"server_port": 19200, "upstream": {"scheme": "udp", "nodes": {node: 1}}});
    weir.put("stream_routes/datagrams", datagrams);
    wait_until("a server that speaks first is heard", || is_greeted(at(19_200)));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(b"datagram", at(19_200)).unwrap();
    let mut room = [0; 100];
    assert_eq!(client.recv(&mut room).map(|length| room[..length].to_vec()).unwrap(), b"datagram");
    // At a port without a plain route bytes that are no TLS end the wait; no route needs none, so that it is
    // closed.
    let mut other = connect(at(19_201));
    other.write_all(b"stats").unwrap();
    assert!(other.read(&mut room).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
    for (arguments, expected) in
        [(["--tcp", "127.77.4.1:19200"], "mysql"), (["--udp", "127.77.4.1:19200"], "datagrams")]
    {
        let control = weir.address("control").to_string();
        let all = ["explain", "--control", &control, arguments[0], arguments[1], "--json"];
        let outcome = crate::command::weir(weir.directory(), &all, &[]);
        let record: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!((&record["matched"]["id"], &record["awaits"]), (&json!(expected), &json!([])), "{record}");
    }
}

#[test]
fn session_goes_on_at_the_end_of_the_wait() {
    let settings = "stream_tcp: 127.0.0.1:0\nhead_timeout_ms: 200\n";
    let weir = Weir::builder(BINARY).settings(settings).start();
    let address = weir.address("stream-tcp");
    weir.put("stream_routes/ssh", stream_route(echo_server(), json!({"sniff": "ssh"})));
    let mut silent = connect(address);
    assert!(silent.read(&mut [0; 8]).is_err(), "no route serves a client that is silent");
    weir.put("stream_routes/rest", stream_route(greeter(), json!({})));
    wait_until("a silent client is served", || is_greeted(address));
    assert!(echoes(&mut connect(address), b"SSH-2.0-test\r\n"), "first bytes decide still");
}

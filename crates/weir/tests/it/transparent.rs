//! Connections to other destinations, which rules of the kernel bring to the gateway: REDIRECT and TPROXY
//! with the real program, in network namespaces. Each test starts itself again in one, with rules, gateway,
//! clients and servers.

mod namespace;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Weir, wait_until};

use crate::support::BINARY;
use namespace::{CLIENT, CLIENT_V6, connect_from, in_namespace, must, without_capabilities};

/// Longer than any step takes, shorter than a test may hang.
const PATIENCE: Duration = Duration::from_secs(20);
/// A server at a destination of clients.
const SERVER: &str = "198.51.100.7:8080";

/// A server that greets with its own address and a line feed, and then sends back what it gets.
fn server(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let _ = writeln!(stream, "{}", stream.local_addr().unwrap());
                let mut copy = stream.try_clone().unwrap();
                // Ends with an error when the test has ended in between.
                let _ = std::io::copy(&mut copy, &mut stream);
            });
        }
    });
}

/// A server that tells each client its address.
fn namer(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let peer = stream.peer_addr().unwrap();
            let _ = writeln!(stream, "{}", peer.ip());
        }
    });
}

/// The line that a server at the end of a connection to `destination` greets with; empty if there is none.
fn greeting(destination: &str) -> String {
    let destination: SocketAddr = destination.parse().unwrap();
    let own = if destination.is_ipv4() { CLIENT } else { CLIENT_V6 };
    let Ok(stream) = connect_from(own, destination) else { return String::new() };
    line_of(stream)
}

fn line_of(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut line, mut byte) = (Vec::new(), [0]);
    while let Ok(1) = stream.read(&mut byte) {
        if byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// The settings of a gateway with these lines and a log of sessions.
fn settings(lines: &str) -> String {
    format!(
        "{lines}stream_access_log: stdout\nstream_access_log_format: '$server_addr $server_port $upstream_addr $weir_cause \
         $weir_detail'\n"
    )
}

/// A stream route to the destinations of clients that are in these networks.
fn to_destinations(allow: Value, more: Value) -> Value {
    let original = json!({"allow": allow});
    let mut route = json!({"upstream": {"type": "original_dst", "scheme": "tcp", "original_dst": original}});
    route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    route
}

fn wait_for_session(weir: &Weir, line: &str) {
    wait_until(&format!("the log has {line:?}"), || weir.stdout().iter().any(|said| said.starts_with(line)));
}

fn wait_for_log(weir: &Weir, parts: &[&str]) {
    let said = || weir.stderr().iter().any(|line| parts.iter().all(|part| line.contains(part)));
    wait_until(&format!("the log says {parts:?}"), said);
}

#[test]
fn redirected_sessions_reach_their_destinations() {
    in_namespace("redirected_sessions_reach_their_destinations", || {
        for address in [SERVER, "198.51.100.7:8081", "203.0.113.7:8080", "[fd00::7]:8080"] {
            server(address);
        }
        let weir = Weir::builder(BINARY)
            .settings(&settings(
                "stream_tcp: [127.0.0.1:15001, '[::1]:15001']\nstream_redirect: [127.0.0.1:15001, '[::1]:15001']\nworkers: 2\n",
            ))
            .start();
        let narrow = json!({"type": "original_dst", "scheme": "tcp",
            "original_dst": {"allow": ["198.51.100.0/24", "fd00::/8", "127.0.0.0/8"], "ports": ["8080-8080", 15001]}});
        weir.put("upstreams/narrow", narrow);
        weir.put("stream_routes/any", json!({"upstream_id": "narrow"}));
        must(&format!("iptables -t nat -A OUTPUT -s {CLIENT} -p tcp -j REDIRECT --to-ports 15001"));
        wait_until("the route is in force", || greeting(SERVER) == SERVER);
        // More sessions than one worker gets by chance.
        for _ in 0..20 {
            assert_eq!(greeting(SERVER), SERVER);
        }
        wait_for_session(&weir, "198.51.100.7 8080 198.51.100.7:8080 closed");
        assert_eq!(greeting("198.51.100.7:8081"), "", "its port is not allowed");
        wait_for_session(
            &weir,
            "198.51.100.7 8081 - destination_refused original_dst.ports does not hold its port",
        );
        assert_eq!(greeting("203.0.113.7:8080"), "", "its address is not allowed");
        wait_for_session(
            &weir,
            "203.0.113.7 8080 - destination_refused original_dst.allow does not hold its address",
        );
        wait_for_log(&weir, &["WARN", "destination_refused", "destination=198.51.100.7:8081", "route=any"]);
        // A connection to the listener itself was not redirected.
        assert_eq!(line_of(TcpStream::connect("127.0.0.1:15001").unwrap()), "");
        wait_for_session(
            &weir,
            "127.0.0.1 15001 - not_intercepted the client has connected to 127.0.0.1:15001 itself",
        );
        // Routes match by the destination.
        weir.put(
            "stream_routes/other",
            json!({"server_addr": "203.0.113.7", "server_port": 8080,
            "upstream": {"scheme": "tcp", "nodes": {"198.51.100.7:8081": 1}}}),
        );
        wait_until("the destination has a route of its own", || {
            greeting("203.0.113.7:8080") == "198.51.100.7:8081"
        });
        assert_eq!(greeting(SERVER), SERVER);
        let explained = |destination: &str| {
            let control = weir.address("control").to_string();
            let arguments = ["explain", "--control", &control, "--tcp", destination];
            let outcome = crate::command::weir(weir.directory(), &arguments, &[]);
            assert_eq!(outcome.code, 0, "{outcome:?}");
            outcome.stdout
        };
        let text = explained(SERVER);
        assert!(
            text.contains("narrow (original_dst)") && text.contains("198.51.100.7:8080  allowed"),
            "{text}"
        );
        assert!(explained("198.51.100.7:9").contains("198.51.100.7:9  refused"));
        must(&format!("ip6tables -t nat -A OUTPUT -s {CLIENT_V6} -p tcp -j REDIRECT --to-ports 15001"));
        assert_eq!(greeting("[fd00::7]:8080"), "[fd00::7]:8080");
        wait_for_session(&weir, "fd00::7 8080 [fd00::7]:8080 closed");
        // Routes of HTTP have no destination of their own.
        weir.put("routes/1", json!({"uri": "/*", "upstream_id": "narrow"}));
        wait_until("HTTP is refused", || {
            let answer = weir.get("/");
            answer.status == 503 && answer.text().contains("no_upstream")
        });
    });
}

#[test]
fn tproxy_sessions_reach_their_destinations() {
    in_namespace("tproxy_sessions_reach_their_destinations", || {
        server(SERVER);
        let mut weir = Weir::builder(BINARY)
            .settings(&settings("stream_tcp: 0.0.0.0:15002\nworkers: 2\nupgrade_grace: 60\n"))
            .start();
        weir.put("stream_routes/1", to_destinations(json!(["0.0.0.0/0"]), json!({"server_port": 8080})));
        weir.put("stream_routes/2", to_destinations(json!(["0.0.0.0/0"]), json!({})));
        must(&format!(
            "iptables -t mangle -A PREROUTING -s {CLIENT} -p tcp --dport 8080 -j TPROXY --on-port 15002 --tproxy-mark 1"
        ));
        let direct = || line_of(connect_from(CLIENT, "127.0.0.1:15002".parse().unwrap()).unwrap());
        wait_until("the route is in force", || {
            direct();
            weir.stdout().iter().any(|line| line.starts_with("127.0.0.1 15002 - not_intercepted"))
        });
        wait_for_log(&weir, &["WARN", "name it in stream_tproxy or stream_redirect"]);
        // A listener cannot be bound beside itself, so that it is taken away first.
        weir.rewrite_settings(&settings("stream_tcp: off\nadmin_stream_routes: true\n"));
        weir.reload();
        wait_until("the listener is closed", || {
            weir.stdout().iter().any(|line| line == "closed stream-tcp 0.0.0.0:15002")
        });
        wait_until("the port is free", || TcpListener::bind("0.0.0.0:15002").is_ok());
        weir.rewrite_settings(&settings(
            "stream_tcp: 0.0.0.0:15002\nstream_tproxy: 0.0.0.0:15002\nworkers: 2\nupgrade_grace: 60\n",
        ));
        weir.reload();
        wait_until("sessions are handed over", || greeting(SERVER) == SERVER);
        for _ in 0..20 {
            assert_eq!(greeting(SERVER), SERVER);
        }
        wait_for_session(&weir, "198.51.100.7 8080 198.51.100.7:8080 closed");
        let listeners = testkit::Client::connect(weir.address("control")).get("/v1/weir/listeners").json();
        let of_stream = listeners.as_array().unwrap().iter().find(|one| one["name"] == "stream-tcp").unwrap();
        assert_eq!(of_stream["protocols"], json!(["tproxy", "tcp"]), "{listeners}");
        // Every address of this machine with the listener's port is the listener.
        for address in ["127.0.0.1", "198.51.100.8"] {
            assert_eq!(greeting(&format!("{address}:15002")), "");
            wait_for_session(&weir, &format!("{address} 15002 - not_intercepted"));
        }
        weir.upgrade();
        let successor = weir.wait_for_successor(weir.pid());
        for _ in 0..20 {
            assert_eq!(greeting(SERVER), SERVER, "after an upgrade");
        }
        assert!(weir.wait_until_gone().success());
        assert_eq!(greeting(SERVER), SERVER, "of the new process alone");
        successor.terminate();
        successor.wait_until_gone();
    });
}

#[test]
fn transparent_source_shows_the_client_to_nodes() {
    in_namespace("transparent_source_shows_the_client_to_nodes", || {
        namer(SERVER);
        let folder = tempfile::tempdir().unwrap();
        let neither = without_capabilities(&["net_admin", "net_raw"], folder.path());
        let route = |transparent: bool| {
            let node = json!({"scheme": "tcp", "nodes": {SERVER: 1}, "transparent_source": transparent});
            json!({ "upstream": node })
        };
        let lines = settings("stream_tcp: [127.0.0.1:15001, '[::1]:15001']\n");
        let weir = Weir::builder(BINARY).settings(&lines).start();
        let from_client = || line_of(connect_from(CLIENT, "127.0.0.1:15001".parse().unwrap()).unwrap());
        weir.put("stream_routes/1", route(false));
        wait_until("the route is in force", || from_client() == "198.51.100.7");
        weir.put("stream_routes/1", route(true));
        wait_until("the node sees the client", || from_client() == CLIENT);
        // More connections at once than one source port would allow, to one node.
        let open: Vec<TcpStream> =
            (0..50).map(|_| connect_from(CLIENT, "127.0.0.1:15001".parse().unwrap()).unwrap()).collect();
        assert!(open.into_iter().all(|stream| line_of(stream) == CLIENT));
        assert_eq!(line_of(TcpStream::connect("[::1]:15001").unwrap()), "");
        wait_for_log(
            &weir,
            &["WARN", "cause=faulty_configuration", "::1 cannot connect to 198.51.100.7:8080"],
        );
        drop(weir);
        let weir = Weir::builder(&neither).settings(&lines).start();
        weir.put("stream_routes/1", route(true));
        wait_until("the log names the capability", || {
            assert_eq!(from_client(), "");
            weir.stderr()
                .iter()
                .any(|line| line.contains("cause=faulty_configuration") && line.contains("CAP_NET_RAW"))
        });
    });
}

#[test]
fn sessions_that_would_come_back_are_refused() {
    in_namespace("sessions_that_would_come_back_are_refused", || {
        let weir = Weir::builder(BINARY)
            .settings(&settings(
                "stream_tcp: [127.0.0.1:15001, '0.0.0.0:15003']\nstream_redirect: 127.0.0.1:15001\nworkers: 2\nadmin: 127.0.0.1:9180\n",
            ))
            .start();
        weir.put("stream_routes/1", to_destinations(json!(["0.0.0.0/0"]), json!({})));
        must(&format!("iptables -t nat -A OUTPUT -s {CLIENT} -p tcp -j REDIRECT --to-ports 15001"));
        // The whole network is redirected, also the gateway's own connections.
        must("iptables -t nat -A OUTPUT -d 198.51.100.8 -p tcp -j REDIRECT --to-ports 15001");
        for (destination, listener) in
            [("127.0.0.1:9180", "127.0.0.1:9180"), ("198.51.100.7:15003", "0.0.0.0:15003")]
        {
            let (address, port) = destination.split_once(':').unwrap();
            let line = format!(
                "{address} {port} - loop_detected the destination {destination} is the listener {listener}"
            );
            wait_until("the loop is refused", || {
                assert_eq!(greeting(destination), "");
                weir.stdout().iter().any(|said| said.starts_with(&line))
            });
        }
        let sessions = || weir.stdout().iter().filter(|line| line.starts_with("198.51.100.8 9 ")).count();
        for round in 1..=10 {
            assert_eq!(greeting("198.51.100.8:9"), "", "round {round}");
        }
        wait_until("each loop is found", || {
            let found = |line: &String| line.contains("loop_detected the rules of the kernel redirect");
            weir.stdout().iter().filter(|line| found(line)).count() >= 10
        });
        assert!(sessions() <= 100, "ten sessions of clients made {} sessions", sessions());
        wait_for_log(&weir, &["WARN", "cause=loop_detected"]);
        let metrics = testkit::Client::connect(weir.address("metrics")).get("/metrics").text();
        assert!(metrics.contains("weir_stream_session_ends_total{cause=\"loop_detected\"}"), "{metrics}");
    });
}

#[test]
fn tproxy_without_its_capability_is_refused() {
    in_namespace("tproxy_without_its_capability_is_refused", || {
        let folder = tempfile::tempdir().unwrap();
        let neither = without_capabilities(&["net_admin", "net_raw"], folder.path());
        let raw = without_capabilities(&["net_admin"], folder.path());
        let intercepted = "stream_tcp: 127.0.0.1:15002\nstream_tproxy: 127.0.0.1:15002\n";
        let refused = Weir::builder(&neither).settings(&settings(intercepted)).try_start().err().unwrap();
        for part in ["127.0.0.1:15002", "CAP_NET_ADMIN", "CAP_NET_RAW", "stream_redirect", "transparent.conf"]
        {
            assert!(refused.stderr.contains(part), "{part} in {refused}");
        }
        assert_eq!(refused.status.code(), Some(78), "{refused}");
        drop(Weir::builder(&raw).settings(&settings(intercepted)).start());
        let plain = "stream_tcp: 127.0.0.1:15001\nstream_redirect: 127.0.0.1:15001\n";
        let weir = Weir::builder(&neither).settings(&settings(plain)).start();
        let both = "stream_tcp: [127.0.0.1:15001, 127.0.0.1:15002]\nstream_redirect: 127.0.0.1:15001\nstream_tproxy: 127.0.0.1:15002\n";
        weir.rewrite_settings(&settings(both));
        weir.reload();
        wait_for_log(&weir, &["ERROR", "stay as they are", "127.0.0.1:15002", "CAP_NET_ADMIN"]);
        assert!(TcpStream::connect("127.0.0.1:15001").is_ok());
        assert!(TcpStream::connect("127.0.0.1:15002").is_err());
        std::fs::write(folder.path().join("weir.yaml"), intercepted).unwrap();
        let arguments = ["doctor", "--config", "weir.yaml", "--data", "data"];
        let outcome =
            std::process::Command::new(&neither).args(arguments).current_dir(folder.path()).output().unwrap();
        let text = String::from_utf8(outcome.stdout).unwrap();
        let line = text.lines().find(|line| line.contains("stream_tproxy")).unwrap_or_default();
        assert!(line.starts_with("failed") && line.contains("CAP_NET_RAW"), "{text}");
    });
}

#[test]
fn interception_names_listeners_without_a_header() {
    for (lines, reason) in [
        ("stream_tproxy: 127.0.0.1:15001\n", "127.0.0.1:15001 is in none of `stream_tcp`, `stream_tls`"),
        (
            "stream_proxy_protocol: 127.0.0.1:15001\nproxy_protocol_from: 10.0.0.1\nstream_redirect: 127.0.0.1:15001\n",
            "127.0.0.1:15001 is in none of `stream_tcp`, `stream_tls`",
        ),
        (
            "stream_tcp: 127.0.0.1:15001\nstream_redirect: 127.0.0.1:15001\nstream_tproxy: 127.0.0.1:15001\n",
            "both name 127.0.0.1:15001",
        ),
    ] {
        let refused = Weir::builder(BINARY).settings(lines).try_start().err().unwrap();
        assert!(refused.stderr.contains(reason), "{refused}");
    }
}

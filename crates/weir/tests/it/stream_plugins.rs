//! Plugins on stream routes through the real gateway: limits, divided sessions, metrics and logs, with real
//! peers.

mod mqtt;
mod redis;
mod sinks;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Client, Weir, wait_until};

use crate::support::BINARY;

/// Longer than any step takes, shorter than a test may hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway with a TCP listener of layer 4.
struct Stage {
    weir: Weir,
}

impl Stage {
    fn start() -> Stage {
        Stage { weir: Weir::builder(BINARY).arguments(&["--stream-tcp", "127.0.0.1:0"]).start() }
    }

    fn address(&self) -> SocketAddr {
        self.weir.address("stream-tcp")
    }

    /// Puts the stream route `1` to the nodes with these plugins.
    fn route(&self, nodes: &[SocketAddr], plugins: Value) {
        self.weir.put("stream_routes/1", json!({"upstream": {"nodes": weights(nodes)}, "plugins": plugins}));
    }

    /// A connection that has got the greeting of its node, and the greeting; none if it was closed without
    /// one.
    fn greeted(&self) -> Option<(TcpStream, String)> {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while let Ok(1) = stream.read(&mut byte) {
            if byte[0] == b'\n' {
                return Some((stream, String::from_utf8(line).unwrap()));
            }
            line.push(byte[0]);
        }
        None
    }

    /// The value of a metric; 0 if there is no such line.
    fn metric(&self, line: &str) -> u64 {
        let text = Client::connect(self.weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        let mut values = text.lines().filter_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        values.next().unwrap_or(0)
    }
}

/// Nodes with the weight 1.
fn weights(nodes: &[SocketAddr]) -> Value {
    nodes.iter().map(|node| (node.to_string(), json!(1))).collect::<serde_json::Map<_, _>>().into()
}

/// A node that greets with its name and a line feed, and then sends back what it gets.
fn greeter(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let _ = stream.write_all(format!("{name}\n").as_bytes());
                let mut copy = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut copy, &mut stream);
                let _ = stream.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    address
}

/// Sends `text` and waits until it has come back; then ends the session.
fn echo(mut stream: TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut back = String::new();
    stream.read_to_string(&mut back).unwrap();
    assert_eq!(back, text);
}

#[test]
fn session_over_the_limit_is_closed_until_one_ends() {
    let stage = Stage::start();
    let limit = json!({"conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr"});
    stage.route(&[greeter("a")], json!({"limit-conn": limit}));
    let (first, _) = stage.greeted().unwrap();
    assert!(stage.greeted().is_none(), "the second session is one too many");
    let rejected = "weir_plugin_events_total{plugin=\"limit-conn\",event=\"rejected_session\"}";
    assert_eq!(stage.metric(rejected), 1);
    echo(first, "hello");
    wait_until("the place is given back", || stage.greeted().is_some());
}

#[test]
fn sessions_are_divided_by_weight() {
    let stage = Stage::start();
    let other = json!({"upstream": {"nodes": weights(&[greeter("b")])}, "weight": 1});
    let split = json!({"rules": [{"weighted_upstreams": [other, {"weight": 2}]}]});
    stage.route(&[greeter("a")], json!({"traffic-split": split}));
    let names: Vec<String> = (0..6).map(|_| stage.greeted().unwrap().1).collect();
    assert_eq!(names.iter().filter(|name| *name == "b").count(), 2, "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == "a").count(), 4, "{names:?}");
}

#[test]
fn sessions_of_a_route_are_counted() {
    let stage = Stage::start();
    let (node, listener) = (greeter("a"), stage.address());
    stage.route(&[node], json!({"prometheus": {}}));
    let active = format!("apisix_stream_active_connections{{listen_addr=\"{listener}\"}}");
    let (open, _) = stage.greeted().unwrap();
    assert_eq!(stage.metric(&active), 1);
    echo(open, "hello");
    let total = "apisix_stream_connection_total{route=\"1\"}";
    wait_until("the session is counted", || stage.metric(total) == 1);
    assert_eq!(stage.metric(&active), 0);
    let status = format!("apisix_stream_status{{code=\"200\",listen_addr=\"{listener}\",node=\"{node}\"}}");
    assert_eq!(stage.metric(&status), 1);
    assert_eq!(stage.metric("weir_stream_route_sessions_total{route=\"1\",end=\"closed\"}"), 1);
    assert_eq!(stage.metric("weir_stream_route_bytes_total{route=\"1\",direction=\"received\"}"), 5);
    assert_eq!(stage.metric("weir_stream_route_bytes_total{route=\"1\",direction=\"sent\"}"), 7);
}

#[test]
fn plugin_of_the_other_layer_is_refused() {
    let stage = Stage::start();
    let upstream = json!({"nodes": {"127.0.0.1:1": 1}});
    let mqtt = json!({"mqtt-proxy": {"protocol_level": 4}});
    let (status, answer) =
        stage.weir.admin("PUT", "routes/1", json!({"uri": "/", "upstream": upstream, "plugins": mqtt}));
    assert_eq!(status, 400, "{answer}");
    assert!(answer.to_string().contains("layer 4 only"), "{answer}");
    let (status, answer) = stage.weir.admin(
        "PUT",
        "stream_routes/1",
        json!({"upstream": upstream, "plugins": {"key-auth": {}}}),
    );
    assert_eq!(status, 400, "{answer}");
    assert!(answer.to_string().contains("HTTP only"), "{answer}");
}

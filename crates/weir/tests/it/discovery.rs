//! Upstreams with nodes of registries, in the real binary: files of targets, and a stand-in that speaks Consul's protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Weir, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

fn origin(text: &'static str) -> Origin {
    Origin::start(move |_| Reply::ok(text))
}

/// Asks one of the gateway's own listeners.
fn ask(weir: &Weir, listener: &str, path: &str) -> Response {
    Client::connect(weir.address(listener)).get(path)
}

fn route(weir: &Weir, registry: &str) {
    let upstream = json!({"discovery_type": registry, "service_name": "shop"});
    weir.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
}

/// A stand-in for a Consul agent: answers the health and catalog endpoints with `answer`, the rest with 404.
struct Consul {
    address: SocketAddr,
    answer: Arc<Mutex<(u16, Value)>>,
}

impl Consul {
    fn start(answer: Value) -> Consul {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new((200, answer)));
        let script = Arc::clone(&answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = Arc::clone(&script);
                // Ignored, because the gateway may have closed the connection.
                thread::spawn(move || drop(serve(stream, &script)));
            }
        });
        Consul { address, answer }
    }

    fn say(&self, status: u16, answer: Value) {
        *self.answer.lock().unwrap() = (status, answer);
    }
}

fn serve(mut stream: TcpStream, script: &Mutex<(u16, Value)>) -> std::io::Result<()> {
    let mut seen = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = stream.read(&mut part)?;
        if read == 0 {
            return Ok(());
        }
        seen.extend_from_slice(&part[..read]);
        if seen.ends_with(b"\r\n\r\n") {
            seen.clear();
            let (status, answer) = script.lock().unwrap().clone();
            let body = answer.to_string();
            write!(stream, "HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        }
    }
}

fn entry(address: SocketAddr) -> Value {
    json!({"Node": {"Address": "127.0.0.1"}, "Service": {"Address": address.ip().to_string(), "Port": address.port()}})
}

#[test]
fn file_of_targets_is_followed() {
    let (one, other) = (origin("one"), origin("other"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    let write = |address: SocketAddr| std::fs::write(&path, format!("- targets: ['{address}']\n")).unwrap();
    write(one.address());
    let settings =
        format!("discovery: {{file: {{files: ['{}'], interval_ms: 20}}}}\n", folder.path().display());
    let weir = Weir::builder(BINARY).settings(&settings).start();
    route(&weir, "file");
    assert_eq!(weir.get("/").text(), "one");
    write(other.address());
    wait_until("the new target is used", || weir.get("/").text() == "other");
    std::fs::write(&path, "- targets: [").unwrap();
    wait_until("the fault is shown", || ask(&weir, "control", "/v1/discovery").text().contains("shop.yaml"));
    assert_eq!(weir.get("/").text(), "other");
    let dump = ask(&weir, "control", "/v1/discovery/file/dump").text();
    assert!(dump.contains(&other.address().port().to_string()), "{dump}");
}

#[test]
fn consul_failure_and_restart_keep_nodes() {
    let origin = origin("one");
    let consul = Consul::start(json!([entry(origin.address())]));
    let settings = format!(
        "discovery: {{consul: {{servers: ['http://{}'], fetch_interval: 1, token: secret}}}}\n",
        consul.address
    );
    let weir = Weir::builder(BINARY).settings(&settings).start();
    route(&weir, "consul");
    assert_eq!(weir.get("/").text(), "one");
    wait_until("the copy is written", || {
        ask(&weir, "control", "/v1/discovery/consul/show_dump_file").text().contains("127.0.0.1")
    });
    assert!(!ask(&weir, "control", "/v1/discovery/consul/dump").text().contains("secret"));
    consul.say(403, json!("ACL not found"));
    wait_until("the refusal is shown", || {
        ask(&weir, "control", "/v1/discovery/consul/dump").status == 200
            && ask(&weir, "metrics", "/metrics")
                .text()
                .contains("weir_discovery_failures_total{registry=\"consul\"} 1")
    });
    assert_eq!(weir.get("/").text(), "one");
    let weir = weir.restart();
    assert_eq!(weir.get("/").text(), "one", "the copy on disk serves");
    consul.say(200, json!([]));
    wait_until("the empty answer is taken up", || weir.get("/").status == 503);
}

#[test]
fn unconfigured_registry_is_refused() {
    let weir = Weir::start(BINARY);
    let upstream = json!({"discovery_type": "consul", "service_name": "shop"});
    let (status, answer) = weir.admin("PUT", "upstreams/1", upstream);
    assert_eq!(status, 400);
    assert!(answer.to_string().contains("write a block `discovery: {consul: "), "{answer}");
}

//! Upstreams with nodes of registries, in the real binary: files of targets, and a stand-in that speaks
//! Consul's protocol.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Weir, wait_until};

use crate::support::{BINARY, follow_service};

/// Asks one of the gateway's own listeners.
fn ask(weir: &Weir, listener: &str, path: &str) -> Response {
    Client::connect(weir.address(listener)).get(path)
}

/// A stand-in for a Consul agent: answers every request with the status and the value that were set last.
struct Consul {
    origin: Origin,
    answer: Arc<Mutex<(u16, Value)>>,
}

impl Consul {
    fn start(answer: Value) -> Consul {
        let answer = Arc::new(Mutex::new((200, answer)));
        let script = Arc::clone(&answer);
        let origin = Origin::start(move |_| {
            let (status, answer) = script.lock().unwrap().clone();
            Reply::status(status, &answer.to_string())
        });
        Consul { origin, answer }
    }

    fn say(&self, status: u16, answer: Value) {
        *self.answer.lock().unwrap() = (status, answer);
    }
}

fn entry(address: SocketAddr) -> Value {
    json!({"Node": {"Address": "127.0.0.1"}, "Service": {"Address": address.ip().to_string(), "Port": address.port()}})
}

#[test]
fn file_of_targets_is_followed() {
    let (one, other) = (Origin::answering("one"), Origin::answering("other"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.yaml");
    let write = |address: SocketAddr| std::fs::write(&path, format!("- targets: ['{address}']\n")).unwrap();
    write(one.address());
    let settings =
        format!("discovery: {{file: {{files: ['{}'], interval_ms: 20}}}}\n", folder.path().display());
    let weir = Weir::builder(BINARY).settings(&settings).start();
    follow_service(&weir, "file", "shop");
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
    let origin = Origin::answering("one");
    let consul = Consul::start(json!([entry(origin.address())]));
    let settings = format!(
        "discovery: {{consul: {{servers: ['http://{}'], fetch_interval: 1, token: secret}}}}\n",
        consul.origin.address()
    );
    let weir = Weir::builder(BINARY).settings(&settings).start();
    follow_service(&weir, "consul", "shop");
    assert_eq!(weir.get("/").text(), "one");
    wait_until("the copy is written", || {
        ask(&weir, "control", "/v1/discovery/consul/show_dump_file").text().contains("127.0.0.1")
    });
    assert!(!ask(&weir, "control", "/v1/discovery/consul/dump").text().contains("secret"));
    consul.say(403, json!("ACL not found"));
    wait_until("the refusal is shown", || {
        let states: Value = serde_json::from_str(&ask(&weir, "control", "/v1/discovery").text()).unwrap();
        states["consul"]["failing_services"]["shop"].as_str().is_some_and(|reason| reason.contains("403"))
    });
    let metrics = ask(&weir, "metrics", "/metrics").text();
    let failures = metrics
        .lines()
        .find_map(|line| line.strip_prefix("weir_discovery_failures_total{registry=\"consul\"} "));
    assert!(failures.is_some_and(|failures| failures.parse::<u64>().unwrap() > 0), "{metrics}");
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

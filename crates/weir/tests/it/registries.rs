//! Upstreams with nodes of registries that push, in the real binary: a real etcd, and a scripted API of
//! Kubernetes.

use serde_json::{Value, json};
use testkit::{Client, Etcd, Origin, Reply, Signal, Step, Weir, wait_until};

use crate::support::{BINARY, follow_service};

/// A gateway with this block of settings and a route to the service.
fn gateway(block: &Value, registry: &str, service: &str) -> Weir {
    let settings = json!({"discovery": {registry: block}}).to_string();
    let weir = Weir::builder(BINARY).settings(&settings).start();
    follow_service(&weir, registry, service);
    weir
}

fn wait_for(weir: &Weir, body: &str) {
    wait_until(&format!("an answer of {body}"), || {
        let response = Client::connect(weir.address("proxy")).get("/");
        response.status == 200 && response.text() == body
    });
}

#[test]
fn keys_of_etcd_are_nodes_and_outlive_it() {
    let (one, two) = (Origin::answering("one"), Origin::answering("two"));
    let mut etcd = Etcd::start(1);
    etcd.put("/services/shop/1", &one.address().to_string());
    let weir = gateway(&json!({"host": [etcd.endpoints()]}), "etcd", "shop");
    wait_for(&weir, "one");
    etcd.put("/services/shop/1", &two.address().to_string());
    wait_for(&weir, "two");
    etcd.kill_all();
    wait_until("the control API names the failure", || {
        Client::connect(weir.address("control")).get("/v1/discovery").text().contains("cannot be reached")
    });
    wait_for(&weir, "two");
}

#[test]
fn event_of_kubernetes_moves_the_traffic() {
    let (one, two) = (Origin::answering("one"), Origin::answering("two"));
    let slice = |origin: &Origin| {
        json!({"metadata": {"name": "web-1", "namespace": "shop", "resourceVersion": "6",
                "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": [{"addresses": ["127.0.0.1"]}], "ports": [{"name": "http", "port": origin.port()}]})
    };
    let list = json!({"metadata": {"resourceVersion": "5"}, "items": [slice(&one)]}).to_string();
    let event = format!("{}\n", json!({"type": "MODIFIED", "object": slice(&two)}));
    let go = Signal::new();
    let signal = go.clone();
    let server = Origin::start(move |request| match request.target.contains("watch=1") {
        true => Reply::raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            .wait(&signal)
            .send(format!("{:x}\r\n{event}\r\n", event.len()))
            .then(Step::AwaitClose),
        false => Reply::ok(&list),
    });
    let block = json!({
        "service": {"schema": "http", "host": "127.0.0.1", "port": server.port().to_string()},
        "client": {"token": "abc"}
    });
    let weir = gateway(&block, "kubernetes", "shop/web:http");
    wait_for(&weir, "one");
    go.set();
    wait_for(&weir, "two");
}

//! Clients that close while their request waits: the work for the request is stopped.

use serde_json::json;
use testkit::{Client, Origin, Reply, Step, Weir, wait_until};

use super::FullQueue;
use crate::support::{BINARY, everything_to, gateway};

fn descriptors(weir: &Weir) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", weir.pid())).unwrap().count()
}

/// The counter of requests that failed because their client had closed.
fn gone(metrics: &mut Client) -> usize {
    let text = metrics.get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with("weir_failures_total{cause=\"client_gone\","));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("a counter of every cause")
}

/// Sends `request` from several clients to a node that does not accept, then closes them.
fn leave_while_connecting(request: &[u8]) {
    const CLIENTS: usize = 5;
    let full = FullQueue::new();
    // Connecting may take a minute before it times out.
    let weir = gateway(&everything_to(full.address, ""));
    let mut metrics = Client::connect(weir.address("metrics"));
    assert_eq!(gone(&mut metrics), 0);
    let before = descriptors(&weir);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| weir.client()).collect();
    clients.iter_mut().for_each(|client| client.send(request));
    wait_until("the node is connected to", || descriptors(&weir) == before + 2 * CLIENTS);
    drop(clients);
    wait_until("all are noticed", || gone(&mut metrics) == CLIENTS);
    wait_until("nothing is held for them", || descriptors(&weir) == before);
}

#[test]
fn client_leaving_during_connect_is_noticed() {
    leave_while_connecting(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
}

#[test]
fn client_leaving_behind_unread_body_is_noticed() {
    // More than is read before a node is chosen, so that the rest is in the kernel's buffer, before the end
    // of the stream.
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n";
    let request = [head.as_bytes(), &[b'x'; 20_000]].concat();
    leave_while_connecting(&request);
}

#[test]
fn client_leaving_while_a_plugin_waits_is_noticed() {
    let origin = Origin::answering("hello");
    let slow = Origin::start(|_| Reply::new().then(Step::AwaitClose));
    let weir = Weir::start(BINARY);
    let auth = json!({"uri": format!("http://{}/", slow.address()), "timeout": 60_000});
    let nodes = json!({origin.address().to_string(): 1});
    weir.put(
        "routes/1",
        json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {"forward-auth": auth}}),
    );
    let mut metrics = Client::connect(weir.address("metrics"));
    let mut client = weir.client();
    client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    slow.wait_for_requests(1);
    drop(client);
    slow.wait_for_closed(1);
    wait_until("it is counted", || gone(&mut metrics) == 1);
    assert_eq!(origin.connections(), 0);
}

//! Limits of requests in flight at upstreams, nodes, routes and consumers, and the queue of requests over a
//! limit.

use testkit::{Client, Origin, Reply, Signal, Weir, wait_until};

use crate::support::{TUNNEL, builder, gateway, lasting_origin, route, upstream};

/// An origin that answers its path after `go`, at `/slow…`, and at once elsewhere.
fn slow_origin(go: &Signal) -> Origin {
    let go = go.clone();
    Origin::start(move |request| {
        let reply = Reply::ok(request.path());
        if request.path().starts_with("/slow") {
            Reply::new().wait(&go).send(ok(request.path()))
        } else {
            reply
        }
    })
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn in_front(origin: &Origin, more: &str) -> Weir {
    gateway(&route("uri: /*", &upstream(&[origin.address()], more)))
}

/// Sends a request and does not wait for its response.
fn begin(weir: &Weir, path: &str) -> Client {
    let mut client = weir.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    client
}

/// Holds as many requests as the origin has seen `count` of.
fn hold(weir: &Weir, origin: &Origin, count: usize) -> Vec<Client> {
    let held = (0..count).map(|_| begin(weir, "/slow")).collect();
    origin.wait_for_requests(count);
    held
}

fn value(weir: &Weir, metric: &str) -> Option<String> {
    let text = Client::connect(weir.address("metrics")).get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with(metric))?;
    line.rsplit(' ').next().map(str::to_owned)
}

fn finish(clients: Vec<Client>) {
    for mut client in clients {
        assert_eq!(client.read_response(false).unwrap().status, 200);
    }
}

fn refusal(client: &mut Client, path: &str) -> (u16, String) {
    let response = client.get(path);
    let text = response.json()["error_msg"].as_str().unwrap_or_default().to_owned();
    (response.status, text.rsplit(' ').next().unwrap_or_default().to_owned())
}

#[test]
fn requests_over_a_limit_are_refused() {
    for (limit, code) in
        [("max_requests", "upstream_max_requests"), ("max_requests_per_node", "node_max_requests")]
    {
        let go = Signal::new();
        let origin = slow_origin(&go);
        let weir = in_front(&origin, &format!("limits: {{{limit}: 2}}"));
        let held = hold(&weir, &origin, 2);
        let mut client = weir.client();
        assert_eq!(refusal(&mut client, "/"), (503, code.to_owned()));
        let reason = format!("weir_upstream_refused_total{{upstream=\"routes/1\",reason=\"{limit}\"}}");
        assert_eq!(value(&weir, &reason).as_deref(), Some("1"));
        go.set();
        finish(held);
        wait_until("the places are free", || client.get("/").status == 200);
        wait_until("no place is held", || value(&weir, "weir_upstream_requests{").as_deref() == Some("0"));
    }
}

#[test]
fn node_at_its_limit_is_left_out() {
    let go = Signal::new();
    let (slow, quick) = (slow_origin(&go), Origin::answering("quick"));
    let nodes = upstream(&[slow.address(), quick.address()], "limits: {max_requests_per_node: 1}");
    let weir = gateway(&route("uri: /*", &nodes));
    let mut held = Vec::new();
    while slow.requests().is_empty() {
        let quick_before = quick.requests().len();
        held.push(begin(&weir, "/slow"));
        wait_until("a node was asked", || {
            !slow.requests().is_empty() || quick.requests().len() > quick_before
        });
        if slow.requests().is_empty() {
            finish(vec![held.pop().unwrap()]);
        }
    }
    let mut client = weir.client();
    for _ in 0..10 {
        assert_eq!(client.get("/").text(), "quick");
    }
    go.set();
    finish(held);
}

#[test]
fn queue_serves_higher_priorities_first() {
    let go = Signal::new();
    let origin = slow_origin(&go);
    let node = origin.address();
    let one = |id: &str, priority: &str| {
        format!(
            "  - {{id: {id}, uri: '/slow/{id}', upstream_id: u, labels: {{weir.priority: {priority}}}}}\n"
        )
    };
    let routes: String = [one("low", "sheddable"), one("usual", "default"), one("high", "critical")].concat();
    let weir = gateway(&format!(
        "upstreams:\n  - {{id: u, nodes: {{'{node}': 1}}, limits: {{max_requests: 1, queue: {{length: 10, timeout: 30}}}}}}\n\
         routes:\n  - {{id: first, uri: /slow, upstream_id: u}}\n{routes}"
    ));
    let mut clients = hold(&weir, &origin, 1);
    for (count, path) in ["/slow/low", "/slow/usual", "/slow/high", "/slow/usual"].into_iter().enumerate() {
        clients.push(begin(&weir, path));
        let waiting = (count + 1).to_string();
        wait_until("it waits", || value(&weir, "weir_upstream_queue_length{") == Some(waiting.clone()));
    }
    go.set();
    finish(clients);
    let order: Vec<String> = origin.requests().iter().map(|request| request.path().to_owned()).collect();
    assert_eq!(order, ["/slow", "/slow/high", "/slow/usual", "/slow/usual", "/slow/low"]);
    assert_eq!(value(&weir, "weir_upstream_queue_waits_total{").as_deref(), Some("4"));
    assert_eq!(value(&weir, "weir_upstream_queue_length{").as_deref(), Some("0"));
}

#[test]
fn queue_refuses_when_full_and_after_its_timeout() {
    let go = Signal::new();
    let origin = slow_origin(&go);
    let limits = |timeout: &str| {
        format!("limits: {{max_requests_per_node: 1, queue: {{length: 1, timeout: {timeout}}}}}")
    };
    let weir = in_front(&origin, &limits("0.1"));
    let held = hold(&weir, &origin, 1);
    assert_eq!(refusal(&mut weir.client(), "/"), (503, "queue_timeout".to_owned()));
    let patient = in_front(&origin, &limits("30"));
    let held_there = begin(&patient, "/slow");
    origin.wait_for_requests(2);
    let waiting = begin(&patient, "/waits");
    wait_until("it waits", || value(&patient, "weir_upstream_queue_length{").as_deref() == Some("1"));
    assert_eq!(refusal(&mut patient.client(), "/"), (503, "queue_full".to_owned()));
    go.set();
    finish(held);
    finish(vec![held_there, waiting]);
}

#[test]
fn client_that_goes_away_leaves_the_queue() {
    let go = Signal::new();
    let origin = slow_origin(&go);
    let weir = in_front(&origin, "limits: {max_requests: 1, queue: {length: 5, timeout: 60}}");
    let held = hold(&weir, &origin, 1);
    let waiting = begin(&weir, "/gone");
    wait_until("it waits", || value(&weir, "weir_upstream_queue_length{").as_deref() == Some("1"));
    drop(waiting);
    wait_until("it left", || value(&weir, "weir_upstream_queue_length{").as_deref() == Some("0"));
    go.set();
    finish(held);
    assert!(origin.requests().iter().all(|request| request.path() != "/gone"));
}

#[test]
fn websocket_holds_its_place_until_it_ends() {
    let origin = lasting_origin(&Signal::new(), &Signal::new());
    let nodes = upstream(&[origin.address()], "limits: {max_requests: 1, max_requests_per_node: 1}");
    let weir = gateway(&route("uri: /*, enable_websocket: true", &nodes));
    let mut tunnel = weir.client();
    tunnel.send(b"GET /t HTTP/1.1\r\nHost: h\r\n");
    for (name, value) in TUNNEL {
        tunnel.send(format!("{name}: {value}\r\n").as_bytes());
    }
    tunnel.send(b"\r\n");
    assert_eq!(tunnel.read_response(true).unwrap().status, 101);
    tunnel.send(b"ping");
    assert_eq!(tunnel.read_bytes(4), b"ping");
    let mut client = weir.client();
    assert_eq!(refusal(&mut client, "/").0, 503);
    drop(tunnel);
    wait_until("the place is free", || client.get("/").status == 200);
}

#[test]
fn bulkhead_of_a_route_leaves_the_rest_to_others() {
    let go = Signal::new();
    let origin = slow_origin(&go);
    let nodes = format!("{{nodes: {{'{}': 1}}}}", origin.address());
    let weir = gateway(&format!(
        "routes:\n  - {{id: a, uri: '/slow*', limits: {{max_requests: 1}}, upstream: {nodes}}}\n  - {{id: b, uri: /other, \
         upstream: {nodes}}}\n"
    ));
    let held = hold(&weir, &origin, 1);
    let mut client = weir.client();
    assert_eq!(refusal(&mut client, "/slow/2"), (503, "route_max_requests".to_owned()));
    assert_eq!(client.get("/other").status, 200);
    go.set();
    finish(held);
    wait_until("the place is free", || client.get("/slow/2").status == 200);
}

#[test]
fn bulkhead_of_a_consumer_counts_over_its_routes() {
    let go = Signal::new();
    let origin = slow_origin(&go);
    let nodes = format!("{{nodes: {{'{}': 1}}}}", origin.address());
    let weir = gateway(&format!(
        "consumers:\n  - {{username: jack, limits: {{max_requests: 1}}, plugins: {{key-auth: {{key: jack}}}}}}\n  \
         - {{username: jill, plugins: {{key-auth: {{key: jill}}}}}}\n\
         routes:\n  - {{id: a, uri: '/slow*', plugins: {{key-auth: {{}}}}, upstream: {nodes}}}\n  \
         - {{id: b, uri: /other, plugins: {{key-auth: {{}}}}, upstream: {nodes}}}\n"
    ));
    let mut held = weir.client();
    held.send(b"GET /slow HTTP/1.1\r\nHost: h\r\napikey: jack\r\n\r\n");
    origin.wait_for_requests(1);
    let mut client = weir.client();
    let refused = client.request("GET", "/other", &[("apikey", "jack")], b"");
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("consumer_max_requests"), "{}", refused.text());
    assert_eq!(client.request("GET", "/other", &[("apikey", "jill")], b"").status, 200);
    go.set();
    finish(vec![held]);
}

#[test]
fn connections_to_a_node_are_limited() {
    let go = Signal::new();
    let origin = slow_origin(&go);
    let resources = route("uri: /*", &upstream(&[origin.address()], "limits: {max_connections_per_node: 1}"));
    let weir = builder(&resources).arguments(&["--workers", "1"]).start();
    let held = hold(&weir, &origin, 1);
    let mut client = weir.client();
    assert_eq!(refusal(&mut client, "/"), (503, "node_max_connections".to_owned()));
    go.set();
    finish(held);
    wait_until("the connection is idle", || client.get("/").status == 200);
    // The connection may have given way once for the refused request.
    client.get("/");
    let opened = origin.connections();
    for _ in 0..5 {
        assert_eq!((client.get("/").status, origin.connections()), (200, opened), "the connection is kept");
    }
}

#[test]
fn idle_connection_of_another_worker_gives_way() {
    let origin = Origin::answering("x");
    let limits = "limits: {max_connections_per_node: 1, queue: {length: 10, timeout: 30}}";
    let resources = route("uri: /*", &upstream(&[origin.address()], limits));
    let weir = builder(&resources).arguments(&["--workers", "2"]).start();
    // Several connections at once are spread over both workers.
    let mut clients: Vec<Client> = (0..6).map(|_| weir.client()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
        assert!(origin.connections() - origin.closed_connections() <= 2, "one may be about to be closed");
    }
}

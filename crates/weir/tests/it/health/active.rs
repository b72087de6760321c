//! Active checks by protocol: HTTP, HTTPS, TCP and gRPC.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use testkit::{Authority, Origin, Reply, TlsFront, Weir, wait_until};

use super::{Checked, answers, extend, gateway, nodes, quick, set, upstream, wait_for_states};
use crate::grpc::Server;
use crate::support::BINARY;

#[test]
fn node_with_bad_status_goes_out_and_comes_back() {
    let (a, b) = (Checked::start("a"), Checked::start("b"));
    let weir = gateway(&[]);
    set(&weir, upstream(&[a.address(), b.address()], quick(json!({}))));
    wait_for_states(&weir, "1", &["usable", "usable"]);
    assert_eq!(answers(&weir), ["a", "b"]);
    a.set(503);
    wait_for_states(&weir, "1", &["unhealthy", "usable"]);
    assert_eq!(answers(&weir), ["b"]);
    let node = &nodes(&weir, "1")[0];
    assert_eq!(node["unhealthy"]["why"], "active checks: 1 HTTP failure, the last: status 503");
    assert_eq!(
        (&node["health"]["status"], &node["health"]["http_failure"]),
        (&json!("unhealthy"), &json!(1))
    );
    a.set(200);
    wait_for_states(&weir, "1", &["usable", "usable"]);
    assert_eq!(answers(&weir), ["a", "b"]);
    wait_until("the log tells both", || {
        let lines = weir.stderr();
        let has = |text: &str| lines.iter().any(|line| line.contains(text) && line.contains("/upstreams/1"));
        has("a node is unhealthy") && has("a node is healthy again")
    });
}

#[test]
fn check_asks_as_it_is_written() {
    let origin = Origin::answering("");
    let weir = gateway(&[]);
    let active = json!({
        "http_method": "POST", "http_path": "/a?b", "http_req_body": "body", "host": "checks.test",
        "req_headers": ["X-One: 1"], "http_request_headers": ["User-Agent: mine"],
    });
    weir.put("upstreams/1", upstream(&[origin.address()], quick(active)));
    let request = origin.wait_for_requests(1).remove(0);
    assert_eq!((&*request.method, &*request.target, &request.body[..]), ("POST", "/a?b", &b"body"[..]));
    let field = |name: &str| request.header(name).unwrap_or_default().to_owned();
    assert_eq!(
        (field("host"), field("x-one"), field("user-agent"), field("connection")),
        ("checks.test".into(), "1".into(), "mine".into(), "close".into())
    );
    let mut rewritten = upstream(&[origin.address()], quick(json!({"host": "checks.test"})));
    extend(&mut rewritten, json!({"pass_host": "rewrite", "upstream_host": "rewritten.test"}));
    weir.put("upstreams/1", rewritten);
    wait_until("the checks take up the host of the upstream", || {
        origin.last_request().header("host") == Some("rewritten.test")
    });
}

#[test]
fn dead_port_is_found_by_tcp() {
    let (alive, dead) = (Checked::start("a"), Origin::nowhere());
    let weir = gateway(&[]);
    set(&weir, upstream(&[alive.address(), dead], quick(json!({"type": "tcp"}))));
    wait_for_states(&weir, "1", &["usable", "unhealthy"]);
    assert_eq!(answers(&weir), ["a"]);
    let why = nodes(&weir, "1")[1]["unhealthy"]["why"].as_str().unwrap().to_owned();
    assert!(why.starts_with("active checks: 1 TCP failure, the last: cannot connect"), "{why}");
    let revived = Origin::start_at(&dead.to_string(), |_| Reply::ok("b"));
    wait_for_states(&weir, "1", &["usable", "usable"]);
    assert_eq!(answers(&weir), ["a", "b"]);
    drop(revived);
}

#[test]
fn silent_node_is_found_by_its_timeout() {
    let silent = Origin::on_accept(|_| Reply::new().wait(&testkit::Signal::new()));
    let weir = gateway(&[]);
    weir.put("upstreams/1", upstream(&[silent.address()], quick(json!({"timeout": 0.2}))));
    wait_for_states(&weir, "1", &["unhealthy"]);
    let why = &nodes(&weir, "1")[0]["unhealthy"]["why"];
    assert_eq!(*why, "active checks: 1 timeout, the last: no answer within 200 ms");
}

#[test]
fn certificates_are_verified_by_https_checks() {
    let (authority, stranger) = (Authority::new("trusted"), Authority::new("stranger"));
    let origin = Checked::start("a");
    let good = TlsFront::to(origin.address(), &authority.pair(&["a.example"]));
    let foreign = TlsFront::to(origin.address(), &stranger.pair(&["a.example"]));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let trusted = ["--trusted-certificates", file.to_str().unwrap()];
    let weir = Weir::builder(BINARY).arguments(&trusted).start();
    let put = |id: &str, active: Value| {
        let mut upstream = upstream(&[good.address(), foreign.address()], quick(active));
        extend(&mut upstream, json!({"scheme": "https"}));
        weir.put(&format!("upstreams/{id}"), upstream);
    };
    put("verified", json!({"type": "https", "host": "a.example"}));
    put("port", json!({"type": "https", "host": "a.example:8443"}));
    put("unverified", json!({"type": "https", "host": "a.example", "https_verify_certificate": false}));
    wait_for_states(&weir, "verified", &["usable", "unhealthy"]);
    let why = nodes(&weir, "verified")[1]["unhealthy"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("signed by no authority that is trusted"), "{why}");
    wait_until("a host with a port is verified without it, and asked with it", || {
        let of_port = |request: &testkit::Request| request.header("host") == Some("a.example:8443");
        origin.origin.requests().iter().any(of_port)
    });
    wait_for_states(&weir, "port", &["usable", "unhealthy"]);
    wait_until("both were asked without verification", || {
        let asked = |front: &TlsFront| !front.handshakes().is_empty();
        asked(&good) && asked(&foreign)
    });
    wait_for_states(&weir, "unverified", &["usable", "usable"]);
    let asked = origin.origin.requests();
    assert!(asked.iter().any(|request| request.header("host") == Some("a.example")));
}

#[test]
fn grpc_service_decides_by_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s");
    let serving = |status: &str| std::fs::write(&file, status).unwrap();
    serving("2");
    let server = Server::start(&[]);
    let weir = gateway(&[]);
    let active = json!({"type": "grpc", "grpc_service": file.to_str().unwrap()});
    let mut upstream = upstream(&[([127, 0, 0, 1], server.port()).into()], quick(active));
    extend(&mut upstream, json!({"scheme": "grpc"}));
    weir.put("upstreams/1", upstream);
    wait_for_states(&weir, "1", &["unhealthy"]);
    let why = nodes(&weir, "1")[0]["unhealthy"]["why"].clone();
    assert_eq!(why, "active checks: 1 HTTP failure, the last: NOT_SERVING");
    serving("1");
    wait_for_states(&weir, "1", &["usable"]);
    std::fs::remove_file(&file).unwrap();
    wait_for_states(&weir, "1", &["unhealthy"]);
    let why = nodes(&weir, "1")[0]["unhealthy"]["why"].clone();
    assert_eq!(why, "active checks: 1 HTTP failure, the last: grpc-status 5");
}

#[test]
fn server_without_grpc_is_unhealthy_to_grpc_checks() {
    let origin = Origin::answering("a");
    let weir = gateway(&[]);
    weir.put("upstreams/1", upstream(&[origin.address()], quick(json!({"type": "grpc"}))));
    wait_for_states(&weir, "1", &["unhealthy"]);
}

#[test]
fn all_nodes_are_used_when_all_are_unhealthy() {
    let (a, b) = (Checked::start("a"), Checked::start("b"));
    let weir = gateway(&[]);
    set(&weir, upstream(&[a.address(), b.address()], quick(json!({}))));
    a.set(500);
    b.set(500);
    wait_for_states(&weir, "1", &["unhealthy", "unhealthy"]);
    assert_eq!(answers(&weir), ["a", "b"]);
    b.status.store(200, Ordering::Relaxed);
    wait_for_states(&weir, "1", &["unhealthy", "usable"]);
    assert_eq!(answers(&weir), ["b"]);
}

#[test]
fn metadata_service_is_not_asked() {
    let weir = gateway(&[]);
    let of = |node: &str| json!({"nodes": {node: 1}, "checks": quick(json!({"type": "tcp"}))});
    for node in ["169.254.169.254:80", "[fd00:ec2::254]:80"] {
        let (status, answer) = weir.admin("PUT", "upstreams/1", of(node));
        let reason = answer["error_msg"].as_str().unwrap_or_default();
        assert!(status == 400 && reason.contains("outbound_allow"), "{node}: {status} {answer}");
    }
    let allowed = gateway(&["--outbound-allow", "169.254.169.254/32"]);
    allowed.put("upstreams/1", of("169.254.169.254:80"));
}

#[test]
fn node_of_many_upstreams_is_asked_once_for_all() {
    let origin = Checked::start("a");
    origin.set(500);
    let weir = gateway(&[]);
    let upstreams: Vec<String> = (0..30).map(|number| format!("u{number}")).collect();
    for id in &upstreams {
        weir.put(&format!("upstreams/{id}"), upstream(&[origin.address()], quick(json!({}))));
    }
    for id in &upstreams {
        wait_for_states(&weir, id, &["unhealthy"]);
    }
    let asked = origin.origin.requests().len();
    assert!(asked < upstreams.len(), "one check serves those that are due within half a second: {asked}");
}

/// An origin that answers the first request of each connection, and closes it at the second one.
fn closing_at_the_second_request() -> Origin {
    let asked = std::sync::Mutex::new(std::collections::BTreeSet::new());
    Origin::start(move |request| match asked.lock().unwrap().insert(request.connection) {
        true => Reply::ok("up"),
        false => Reply::new().close(),
    })
}

#[test]
fn checks_reuse_connections_of_ended_responses() {
    let (own, reused) = (json!({}), json!({"reuse_connection": true}));
    let with_method = |method: &str| json!({"reuse_connection": true, "http_method": method});
    let up = || Origin::start(|_| Reply::ok("up"));
    let raw = |bytes: &'static [u8]| Origin::start(move |_| Reply::raw(bytes));
    // how the node answers, fields of the checks, connections of the first three requests
    let cases = [
        ("own connections", own, up(), 3),
        ("a length", reused.clone(), up(), 1),
        ("no body", reused.clone(), raw(b"HTTP/1.1 204 No Content\r\n\r\n"), 1),
        ("chunks", reused.clone(), Origin::start(|_| Reply::chunked(&["up", "up"], &[("x-end", "1")])), 1),
        ("HEAD", with_method("HEAD"), raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"), 1),
        ("a method that may change something", with_method("POST"), up(), 3),
        ("close", reused.clone(), Origin::start(|_| Reply::with(200, &[("Connection", "close")], b"up")), 3),
        ("a closed idle connection", reused.clone(), Origin::start(|_| Reply::ok("up").close()), 3),
        ("a connection that closes at a request", reused.clone(), closing_at_the_second_request(), 2),
        ("bytes behind the end", reused.clone(), raw(b"HTTP/1.1 204 No Content\r\n\r\nmore"), 3),
        ("a long body", reused, Origin::start(|_| Reply::with(200, &[], &[b'x'; 65_537])), 3),
    ];
    let weir = gateway(&[]);
    let statuses = json!({"interval": 1, "successes": 1, "http_statuses": [200, 204]});
    for (id, (_, active, origin, _)) in cases.iter().enumerate() {
        let mut active = active.clone();
        extend(&mut active, json!({"healthy": statuses}));
        weir.put(&format!("upstreams/{id}"), upstream(&[origin.address()], quick(active)));
    }
    for (id, (name, _, origin, expected)) in cases.iter().enumerate() {
        let asked = origin.wait_for_requests(3);
        let connections: std::collections::BTreeSet<usize> =
            asked[..3].iter().map(|request| request.connection).collect();
        assert_eq!(connections.len(), *expected, "{name}");
        let node = &nodes(&weir, &id.to_string())[0];
        let failures = (&node["health"]["tcp_failure"], &node["health"]["http_failure"]);
        assert_eq!(failures, (&json!(0), &json!(0)), "{name}: {node}");
    }
}

#[test]
fn outcome_does_not_wait_for_the_body() {
    let stalled = testkit::Signal::new();
    let held = stalled.clone();
    let origin = Origin::start(move |_| {
        Reply::raw(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n").wait(&held)
    });
    let weir = gateway(&[]);
    let active = json!({"reuse_connection": true, "timeout": 3_600});
    weir.put("upstreams/1", upstream(&[origin.address()], quick(active)));
    wait_for_states(&weir, "1", &["unhealthy"]);
    let asked = origin.wait_for_requests(4);
    let last = &asked[2..4];
    assert_ne!(last[0].connection, last[1].connection, "a check does not wait for the body of another one");
    stalled.set();
}

//! Used-up descriptors and slow nodes; memory and ports are in modules of their own. Requests in flight go
//! on, new work waits or is rejected, and everything recovers when capacity is back. The tests lower the
//! limits from outside while the gateway runs.

mod memory;
mod ports;
mod silent_clients;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use testkit::{Client, Origin, Reply, Signal, Weir, wait_for, wait_until};

use crate::support::{TUNNEL, builder, gateway, in_front_of, lasting_origin, route, upstream};

/// Leaves a gateway no free descriptor.
fn let_open_nothing(weir: &Weir) {
    let open = descriptors(weir);
    // The kernel gives out the lowest free number.
    let_open(weir, (0..).find(|number| !open.contains(number)).unwrap());
}

/// Lowers or raises the limit on a gateway's descriptors.
fn let_open(weir: &Weir, descriptors: u64) {
    let pid = Pid::from_raw(weir.pid().cast_signed()).unwrap();
    // The hard limit stays, so that the limit can be raised again.
    let limit = Rlimit { current: Some(descriptors), ..getrlimit(Resource::Nofile) };
    prlimit(Some(pid), Resource::Nofile, limit).unwrap();
}

fn descriptors(weir: &Weir) -> BTreeSet<u64> {
    let entries = fs::read_dir(format!("/proc/{}/fd", weir.pid())).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
}

/// User and system time so far, in ticks of the kernel (proc(5), fields 14 and 15).
fn cpu_ticks(weir: &Weir) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", weir.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn without_descriptors_new_clients_wait_for_one() {
    // A tunnel counts as a request in flight, so that the connection is not evicted.
    let origin = lasting_origin(&Signal::new(), &Signal::new());
    let weir = gateway(&route("uri: /*, enable_websocket: true", &upstream(&[origin.address()], "")));
    let mut held = weir.client();
    assert_eq!(held.request("GET", "/", &TUNNEL, b"").status, 101);
    let_open_nothing(&weir);
    // The kernel completes their handshakes; the gateway cannot accept them.
    let mut waiting: Vec<Client> = (0..5).map(|_| weir.client()).collect();
    waiting.iter_mut().for_each(|client| client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    let logged = |part: &str| weir.stderr().iter().filter(|line| line.contains(part)).count();
    wait_until("the gateway says so", || logged("raise the limit on open files") == 1);
    let before = cpu_ticks(&weir);
    for _ in 0..50 {
        held.send(b"hello");
        assert_eq!(held.read_bytes(5), b"hello", "its connections to client and node are there");
        // Ten times the pause between two attempts to accept.
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(logged("raise the limit on open files"), 1, "once, not with every try");
    // Half a second: a busy loop would use 50 ticks of 10 ms.
    assert!(cpu_ticks(&weir) - before < 25, "it spins: {} ticks", cpu_ticks(&weir) - before);
    let_open(&weir, 1_000);
    for client in &mut waiting {
        assert_eq!(client.read_response(false).unwrap().status, 200, "served as soon as there is room");
    }
    wait_until("the gateway says so", || logged("accepted again") == 1);
}

#[test]
fn without_a_descriptor_for_a_node_the_answer_is_503() {
    let origin = Origin::answering("hello");
    let weir = in_front_of(&origin);
    let mut metrics = metrics(&weir);
    let before = accepted(&mut metrics);
    let mut client = weir.client();
    wait_until("it is accepted, and nobody connected to the node", || accepted(&mut metrics) == before + 1);
    let_open_nothing(&weir);
    let answer = client.get("/");
    assert_eq!((answer.status, answer.text().contains("no_resources")), (503, true), "{}", answer.text());
    let_open(&weir, 1_000);
    assert_eq!(client.get("/").status, 200);
}

/// A connection for reading metrics. It stays open, because another connection would take the descriptor of a
/// closed one.
fn metrics(weir: &Weir) -> Client {
    Client::connect(weir.address("metrics"))
}

/// The number of client connections accepted so far.
fn accepted(metrics: &mut Client) -> u64 {
    metric(metrics, "apisix_nginx_http_current_connections{state=\"accepted\"}")
}

fn metric(metrics: &mut Client, series: &str) -> u64 {
    let text = metrics.get("/apisix/prometheus/metrics").text();
    let line = text.lines().find(|line| line.starts_with(series));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no {series} in {text}"))
}

#[test]
fn slow_upstream_gets_less_until_it_recovers() {
    let slow = Arc::new(AtomicBool::new(false));
    let go = Signal::new();
    let origin = Origin::start({
        let (slow, go) = (slow.clone(), go.clone());
        move |_| {
            if slow.load(Ordering::SeqCst) { Reply::new().wait(&go).send(ANSWER) } else { Reply::raw(ANSWER) }
        }
    });
    let nodes = upstream(&[origin.address()], "");
    let upstreams = nodes.replacen('{', "{id: u, ", 1);
    let route = |id: &str, uri: &str, priority: &str| {
        format!("  - {{id: '{id}', uri: {uri}, labels: {{weir.priority: {priority}}}, upstream_id: u}}\n")
    };
    let resources = format!(
        "upstreams: [{upstreams}]\nroutes:\n{}{}{}",
        route("1", "/critical", "critical"),
        route("2", "/sheddable", "sheddable"),
        route("3", "/*", "default"),
    );
    let weir = builder(&resources).arguments(&["--overload", "adaptive"]).start();
    // Measures the usual latency.
    let mut quick = weir.client();
    for _ in 0..1_000 {
        assert_eq!(quick.get("/").status, 200);
    }
    slow.store(true, Ordering::SeqCst);
    let mut stuck: Vec<Client> = Vec::new();
    let mut shed = |path: &str| {
        wait_for("a request is shed", || {
            let mut client = weir.client();
            client.set_read_timeout(Duration::from_millis(20));
            client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
            let answer = client.read_response(false).ok();
            stuck.push(client);
            answer
        })
    };
    let answer = shed("/");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.text());
    assert!(answer.text().contains("overloaded"), "{}", answer.text());
    wait_until("it is counted", || {
        metric(&mut metrics(&weir), "weir_failures_total{cause=\"overloaded\",") > 0
    });
    // A request with the priority `sheddable` is rejected too. A critical one is admitted as soon as at most
    // twice the limit wait, and then waits.
    assert_eq!(shed("/sheddable").status, 503);
    let mut tries = 0;
    let mut critical = wait_for("the node was asked", || {
        let mut client = weir.client();
        client.set_read_timeout(Duration::from_millis(20));
        tries += 1;
        let target = format!("/critical?{tries}");
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
        let waits = client.read_response(false).is_err();
        (waits && origin.requests().iter().any(|request| request.target == target)).then_some(client)
    });
    slow.store(false, Ordering::SeqCst);
    go.set();
    critical.set_read_timeout(Duration::from_secs(10));
    assert_eq!(critical.read_response(false).unwrap().status, 200);
    wait_until("nothing is shed any more", || {
        let statuses: Vec<u16> = (0..20).map(|_| weir.get("/").status).collect();
        statuses.iter().all(|status| *status == 200)
    });
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_priority_that_is_none_is_refused() {
    let weir = Weir::start(crate::support::BINARY);
    let route = serde_json::json!({
        "uri": "/", "labels": {"weir.priority": "urgent"}, "upstream": {"nodes": {"127.0.0.1:1": 1}}
    });
    let (status, answer) = weir.admin("PUT", "routes/1", route);
    assert_eq!(status, 400, "{answer}");
    let reason = answer["error_msg"].as_str().unwrap();
    assert!(reason.contains("urgent") && reason.contains("critical, default, sheddable"), "{reason}");
}

//! Second attempts beside slow ones, which APISIX does not have, through the real gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::{Client, Origin, Reply, Signal, Weir, wait_until};

use crate::retries::metric;
use crate::support::{BINARY, builder, gateway, route, upstream};

/// An upstream with a node, another one of a lower priority, and a retry policy, as YAML flow.
fn first_and_second(first: &Origin, second: &Origin, policy: &str) -> String {
    let node = |origin: &Origin, priority: i32| {
        format!("{{host: 127.0.0.1, port: {}, weight: 1, priority: {priority}}}", origin.port())
    };
    format!("{{nodes: [{}, {}], retry: {policy}}}", node(first, 0), node(second, -1))
}

/// An origin that answers `slow` once `go` is set.
fn slow_origin(go: &Signal) -> Origin {
    let go = go.clone();
    Origin::start(move |_| Reply::new().wait(&go).send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow"))
}

#[test]
fn slow_attempt_is_hedged_at_another_node() {
    let go = Signal::new();
    let (slow, quick) = (slow_origin(&go), Origin::answering("quick"));
    let weir = gateway(&route("uri: /*", &first_and_second(&slow, &quick, "{hedge: {after: 0.05}}")));
    let mut client = weir.client();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "quick");
    }
    // A request with a body is sent once.
    client.send(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nb");
    slow.wait_for_requests(4);
    go.set();
    assert_eq!(client.read_response(false).unwrap().text(), "slow");
    // The cancelled attempts have ended their connections.
    slow.wait_for_closed(3);
    let counted = ["weir_upstream_hedges_total", "weir_upstream_hedges_won_total"];
    assert_eq!(counted.map(|name| metric(&weir, name)), [3, 3]);
    assert_eq!((slow.requests().len(), quick.requests().len()), (4, 3));
}

#[test]
fn slow_attempt_goes_on_if_the_second_fails() {
    let check = |second: Origin, policy: &str| {
        let go = Signal::new();
        let slow = slow_origin(&go);
        let nodes = first_and_second(&slow, &second, policy);
        let weir = gateway(&route("uri: /*", &nodes));
        let mut client = weir.client();
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        second.wait_for_requests(1);
        go.set();
        assert_eq!(client.read_response(false).unwrap().text(), "slow", "{policy}");
    };
    check(Origin::start(|_| Reply::new().reset()), "{hedge: {after: 0.05}}");
    check(Origin::start(|_| Reply::status(503, "busy")), "{statuses: [503], hedge: {after: 0.05}}");
}

#[test]
fn hedge_without_a_place_is_no_refused_request() {
    let go = Signal::new();
    let slow = slow_origin(&go);
    let more = "retry: {hedge: {after: 0.02}}, limits: {max_requests_per_node: 1}";
    let weir = gateway(&route("uri: /*", &upstream(&[slow.address()], more)));
    let (mut client, began) = (weir.client(), Instant::now());
    client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_until("the time for a hedge has come", || began.elapsed() > Duration::from_millis(150));
    go.set();
    assert_eq!(client.read_response(false).unwrap().text(), "slow");
    let name = "weir_upstream_refused_total{upstream=\"routes/1\",reason=\"max_requests_per_node\"}";
    assert_eq!(metric(&weir, name), 0);
}

/// A request that may be hedged.
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// An origin that answers `fast` at once until it `hangs`, and `slow` once its signal is set from then on.
struct HangingOrigin {
    origin: Origin,
    hangs: Arc<AtomicBool>,
    go: Signal,
}

impl HangingOrigin {
    /// With that status until it hangs.
    fn start(status: &'static str) -> HangingOrigin {
        let (hangs, go) = (Arc::new(AtomicBool::new(false)), Signal::new());
        let origin = Origin::start({
            let (hangs, go) = (hangs.clone(), go.clone());
            move |_| match hangs.load(Ordering::SeqCst) {
                true => Reply::new().wait(&go).send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow"),
                false => Reply::raw(format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nfast").as_bytes()),
            }
        });
        HangingOrigin { origin, hangs, go }
    }

    /// Sends the request so many times through each of the clients. Then waits as long as a computed
    /// percentile holds, and lets the origin hang.
    fn measure(&self, clients: &mut [Client], request: &[u8], requests: usize) {
        for client in clients {
            for _ in 0..requests {
                client.send(request);
                client.read_response(false).unwrap();
            }
        }
        let ended = Instant::now();
        wait_until("the percentile is computed anew", || ended.elapsed() > Duration::from_millis(300));
        self.hangs.store(true, Ordering::SeqCst);
    }
}

#[test]
fn hanging_attempt_is_hedged_after_a_percentile() {
    let (first, quick) = (HangingOrigin::start("200 OK"), Origin::answering("quick"));
    // Enough for every request, so that only the times decide.
    let policy = "{hedge: {percentile: 95}, budget: {percent: 100}}";
    let resources = route("uri: /*", &first_and_second(&first.origin, &quick, policy));
    let weir = builder(&resources).arguments(&["--workers", "4"]).start();
    // Connections are spread over the workers, so that each one alone has too few times.
    let mut clients: Vec<_> = (0..16).map(|_| weir.client()).collect();
    first.measure(&mut clients, GET, 10);
    for client in &mut clients[..3] {
        assert_eq!(client.get("/").text(), "quick");
    }
    assert!(metric(&weir, "weir_upstream_hedges_won_total") >= 3);
    first.go.set();
}

#[test]
fn percentile_of_few_times_hedges_nothing() {
    let check = |first: HangingOrigin, request: &[u8], requests: usize| {
        let quick = Origin::answering("quick");
        let policy = "{hedge: {percentile: 50, after: 0.001}}";
        let weir = gateway(&route("uri: /*", &first_and_second(&first.origin, &quick, policy)));
        first.measure(&mut [weir.client()], request, requests);
        let (mut client, began) = (weir.client(), Instant::now());
        client.send(GET);
        first.origin.wait_for_requests(requests + 1);
        wait_until("the least time is over", || began.elapsed() > Duration::from_millis(150));
        first.go.set();
        assert_eq!(client.read_response(false).unwrap().text(), "slow");
        assert_eq!(metric(&weir, "weir_upstream_hedges_total"), 0);
    };
    check(HangingOrigin::start("200 OK"), GET, 99);
    // Neither is measured.
    check(HangingOrigin::start("500 Bad"), GET, 150);
    check(HangingOrigin::start("200 OK"), b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nb", 150);
}

#[test]
fn measured_times_outlive_a_change_of_the_upstream() {
    let (first, quick) = (HangingOrigin::start("200 OK"), Origin::answering("quick"));
    let weir = Weir::start(BINARY);
    let put = |attempts: u32| {
        let node = |origin: &Origin, priority: i32| json!({"host": "127.0.0.1", "port": origin.port(), "weight": 1, "priority": priority});
        let retry = json!({"attempts": attempts, "hedge": {"percentile": 95}, "budget": {"percent": 100}});
        let nodes = [node(&first.origin, 0), node(&quick, -1)];
        weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": nodes, "retry": retry}}));
    };
    put(2);
    first.measure(&mut [weir.client()], GET, 120);
    put(3);
    assert_eq!(weir.get("/").text(), "quick");
    first.go.set();
}

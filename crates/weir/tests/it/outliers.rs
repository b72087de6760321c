//! Nodes that are ejected because they fail or are slow, and the circuit breaker of an upstream, over real
//! connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use testkit::{Client, Origin, Reply, Weir, wait_until};

use crate::support::{gateway, route, upstream};

/// An origin with a status that a test changes.
struct Moody {
    origin: Origin,
    status: Arc<AtomicU16>,
}

impl Moody {
    fn new(status: u16) -> Moody {
        let status = Arc::new(AtomicU16::new(status));
        let shared = status.clone();
        let origin = Origin::start(move |_| Reply::status(shared.load(Ordering::SeqCst), "moody"));
        Moody { origin, status }
    }

    fn set(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }
}

/// A gateway in front of these origins with further fields of the upstream.
fn in_front(origins: &[&Origin], more: &str) -> Weir {
    let nodes: Vec<_> = origins.iter().map(|origin| origin.address()).collect();
    gateway(&route("uri: /*", &upstream(&nodes, more)))
}

fn statuses(client: &mut Client, count: usize) -> Vec<u16> {
    (0..count).map(|_| client.get("/").status).collect()
}

fn metric(weir: &Weir, line: &str) -> bool {
    Client::connect(weir.address("metrics")).get("/metrics").text().lines().any(|one| one == line)
}

#[test]
fn failing_node_is_ejected_and_returns() {
    let (good, bad) = (Moody::new(200), Moody::new(503));
    let ejection = "outlier_ejection: {consecutive_failures: 3, base_ejection_time: 2}";
    let weir = in_front(&[&good.origin, &bad.origin], ejection);
    let mut client = weir.client();
    let seen = statuses(&mut client, 20);
    assert_eq!(seen.iter().filter(|status| **status == 503).count(), 3, "{seen:?}");
    assert_eq!(bad.origin.requests().len(), 3);
    assert!(metric(&weir, "weir_upstream_ejections_total{upstream=\"routes/1\"} 1"));
    bad.set(200);
    let before = bad.origin.requests().len();
    wait_until("the node has its share again", || {
        client.get("/");
        bad.origin.requests().len() > before + 5
    });
    wait_until("it counts as usable", || {
        let node = bad.origin.address();
        metric(&weir, &format!("weir_upstream_node_ejected{{upstream=\"routes/1\",node=\"{node}\"}} 0"))
    });
    let log = weir.stderr().join("\n");
    for line in
        ["node ejected", "3 failures in a row", "ejected node gets probes", "node returns after its ejection"]
    {
        assert!(log.contains(line), "{line} is missing in {log}");
    }
}

#[test]
fn failed_probe_ejects_again_for_longer() {
    let (good, bad) = (Moody::new(200), Moody::new(502));
    let ejection =
        "outlier_ejection: {consecutive_failures: 1, base_ejection_time: 0.1, max_ejection_time: 60}";
    let weir = in_front(&[&good.origin, &bad.origin], ejection);
    let mut client = weir.client();
    wait_until("the third ejection in a row", || {
        client.get("/");
        weir.stderr().iter().any(|line| line.contains("\"in_a_row\":3") || line.contains("in_a_row=3"))
    });
    assert_eq!(bad.origin.requests().len(), 3, "one failure and two probes");
}

#[test]
fn refused_connections_eject_a_node() {
    let good = Origin::answering("good");
    let nowhere = Origin::nowhere();
    let ejection = "retries: 0, outlier_ejection: {consecutive_failures: 2, base_ejection_time: 60}";
    let weir = gateway(&route("uri: /*", &upstream(&[good.address(), nowhere], ejection)));
    let seen = statuses(&mut weir.client(), 20);
    assert_eq!(seen.iter().filter(|status| **status == 502).count(), 2, "{seen:?}");
}

#[test]
fn last_node_is_never_ejected() {
    let only = Moody::new(503);
    let weir = in_front(&[&only.origin], "outlier_ejection: {consecutive_failures: 1}");
    assert_eq!(statuses(&mut weir.client(), 5), [503; 5]);
    assert_eq!(only.origin.requests().len(), 5);
    // An attempt is counted after its response was sent.
    wait_until("a prevented ejection", || {
        !metric(&weir, "weir_upstream_ejections_prevented_total{upstream=\"routes/1\"} 0")
    });
}

#[test]
fn at_most_the_given_share_is_ejected() {
    let nodes = [503, 503, 503, 200].map(Moody::new);
    let ejection =
        "outlier_ejection: {consecutive_failures: 1, base_ejection_time: 60, max_ejected_percent: 50}";
    let weir = in_front(&[0, 1, 2, 3].map(|index| &nodes[index].origin), ejection);
    let seen = statuses(&mut weir.client(), 40);
    // Two of four are ejected with their first failure, so that the third keeps half of the requests.
    assert!(metric(&weir, "weir_upstream_ejections_total{upstream=\"routes/1\"} 2"));
    assert!(seen.iter().filter(|status| **status == 503).count() > 10, "{seen:?}");
}

#[test]
fn slow_node_is_ejected_by_its_latency() {
    let slow = Origin::start(|_| {
        // The node is slow; no test waits for it.
        std::thread::sleep(Duration::from_millis(80));
        Reply::ok("slow")
    });
    let (one, two) = (Origin::answering("1"), Origin::answering("2"));
    let ejection =
        "outlier_ejection: {latency: {factor: 5, min_requests: 3, window: 2}, base_ejection_time: 60}";
    let weir = in_front(&[&slow, &one, &two], ejection);
    let mut client = weir.client();
    wait_until("the slow node is ejected", || {
        client.get("/");
        weir.stderr().iter().any(|line| line.contains("node ejected") && line.contains("mean latency"))
    });
    let before = slow.requests().len();
    statuses(&mut client, 20);
    assert_eq!(slow.requests().len(), before);
}

#[test]
fn breaker_answers_at_once_and_closes_again() {
    let node = Moody::new(503);
    let breaker = "circuit_breaker: {consecutive_failures: 3, base_break_time: 2, break_response_code: 529, \
                   break_response_body: 'come later', break_response_headers: [{key: X-Broken, value: 'yes'}]}";
    let weir = in_front(&[&node.origin], breaker);
    let mut client = weir.client();
    assert_eq!(statuses(&mut client, 3), [503; 3]);
    let refused = client.get("/");
    assert_eq!((refused.status, refused.text().as_str()), (529, "come later"));
    assert_eq!(refused.header("x-broken"), Some("yes"));
    assert_eq!(node.origin.requests().len(), 3);
    assert!(metric(&weir, "weir_upstream_breaker_openings_total{upstream=\"routes/1\"} 1"));
    assert!(metric(&weir, "weir_failures_total{cause=\"circuit_open\",blame=\"gateway\"} 1"));
    node.set(200);
    wait_until("a probe closes it", || client.get("/").status == 200);
    assert_eq!(statuses(&mut client, 5), [200; 5]);
    let log = weir.stderr().join("\n");
    assert!(log.contains("circuit breaker opened") && log.contains("circuit breaker closed"), "{log}");
}

#[test]
fn other_routes_of_a_broken_upstream_are_refused_too() {
    let node = Moody::new(500);
    let nodes = format!("{{'{}': 1}}", node.origin.address());
    let weir = gateway(&format!(
        "upstreams:\n  - {{id: u, nodes: {nodes}, circuit_breaker: {{consecutive_failures: 1, failure_statuses: [500], \
         base_break_time: 60}}}}\nroutes:\n  - {{id: a, uri: /a, upstream_id: u}}\n  - {{id: b, uri: /b, upstream_id: u}}\n"
    ));
    let mut client = weir.client();
    assert_eq!(client.get("/a").status, 500);
    let refused = client.get("/b");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.text().contains("circuit_open"), "{}", refused.text());
}

#[test]
fn report_shows_ejection_and_breaker() {
    let (good, bad) = (Moody::new(200), Moody::new(503));
    let fields = "outlier_ejection: {consecutive_failures: 1, base_ejection_time: 60}, \
                  circuit_breaker: {consecutive_failures: 100}";
    let weir = in_front(&[&good.origin, &bad.origin], fields);
    statuses(&mut weir.client(), 6);
    let report = Client::connect(weir.address("control")).get("/v1/weir/upstreams/routes/1").json();
    assert_eq!(report["protection"]["breaker"], "closed", "{report}");
    let node = |moody: &Moody| {
        let address = moody.origin.address().to_string();
        let nodes = report["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["address"] == address.as_str()).unwrap()
    };
    assert_eq!(
        (&node(&bad)["state"], &node(&bad)["protection"]["circuit"]),
        (&"ejected".into(), &"open".into())
    );
    assert_eq!(node(&bad)["ejected"]["why"], "1 failures in a row");
    assert_eq!(node(&good)["protection"]["ejections"], 0);
}

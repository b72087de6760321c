//! The policies that narrow the choice of a node: sessions, subsets, zones, slow start.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Weir, wait_for};

use crate::support::{BINARY, builder, gateway, route};

/// A list of nodes with weight, as YAML flow; each answers with its letter.
fn nodes(nodes: &[(&Origin, u32, &str)]) -> String {
    let node = |(origin, weight, more): &(&Origin, u32, &str)| {
        format!("{{host: 127.0.0.1, port: {}, weight: {weight}{more}}}", origin.port())
    };
    format!("nodes: [{}]", nodes.iter().map(node).collect::<Vec<_>>().join(", "))
}

fn upstream(nodes: &str, more: &str) -> String {
    route("uri: /*", &format!("{{{nodes}, {more}}}"))
}

/// Responses from each origin to `count` requests with these fields.
fn counts(client: &mut Client, fields: &[(&str, &str)], count: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..count {
        *counts.entry(client.request("GET", "/", fields, b"").text()).or_default() += 1;
    }
    counts
}

fn all(letter: &str, count: usize) -> BTreeMap<String, usize> {
    [(letter.to_owned(), count)].into()
}

/// The value that the response gives to the cookie `name`.
fn cookie_of(response: &testkit::Response, name: &str) -> Option<String> {
    let pairs = response.header_all("Set-Cookie").into_iter().filter_map(|line| line.split(';').next());
    pairs
        .filter_map(|pair| pair.split_once('='))
        .find(|(given, _)| *given == name)
        .map(|(_, value)| value.to_owned())
}

#[test]
fn set_cookie_keeps_a_client_at_its_node() {
    let [a, b, c] = ["a", "b", "c"].map(Origin::answering);
    let sticky = "sticky: {cookie: node, ttl: 60, path: /, same_site: lax}";
    let nodes = nodes(&[(&a, 1, ""), (&b, 1, ""), (&c, 1, "")]);
    let (weir, other) = (gateway(&upstream(&nodes, sticky)), gateway(&upstream(&nodes, sticky)));
    let mut client = weir.client();
    let first = client.get("/");
    let value = cookie_of(&first, "node").expect("a new session gets a cookie");
    let line = first.header("Set-Cookie").unwrap();
    assert_eq!(line, format!("node={value}; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"));
    assert!(!line.contains("127.0.0.1"), "the address is not shown");
    let field = format!("x=y; node={value}");
    let fields = [("Cookie", field.as_str())];
    assert_eq!(counts(&mut client, &fields, 9), all(&first.text(), 9));
    assert_eq!(cookie_of(&client.request("GET", "/", &fields, b""), "node"), None, "it has the cookie");
    // Another instance with the same configuration knows the node by the same value.
    assert_eq!(counts(&mut other.client(), &fields, 9), all(&first.text(), 9));
    // A value of no node is replaced.
    for bad in ["node=0123456789abcdef", "node=junk"] {
        assert!(cookie_of(&client.request("GET", "/", &[("Cookie", bad)], b""), "node").is_some(), "{bad}");
    }
}

#[test]
fn session_of_a_lost_node_moves_and_gets_a_cookie() {
    let [a, b] = ["a", "b"].map(Origin::answering);
    let weir = gateway(&upstream(&nodes(&[(&a, 1, ""), (&b, 1, "")]), "sticky: {cookie: node}"));
    let mut client = weir.client();
    let first = client.get("/");
    let value = cookie_of(&first, "node").unwrap();
    let left = if first.text() == "a" {
        drop(a);
        "b"
    } else {
        drop(b);
        "a"
    };
    let field = format!("node={value}");
    let moved = client.request("GET", "/", &[("Cookie", &field)], b"");
    assert_eq!((moved.status, moved.text().as_str()), (200, left));
    let moved_to = cookie_of(&moved, "node").expect("the cookie is replaced");
    assert_ne!(moved_to, value);
    let field = format!("node={moved_to}");
    let again = client.request("GET", "/", &[("Cookie", &field)], b"");
    assert_eq!((again.text().as_str(), cookie_of(&again, "node")), (left, None));
}

#[test]
fn drained_node_keeps_its_sessions() {
    let [a, b] = ["a", "b"].map(Origin::answering);
    let weir = Weir::start(BINARY);
    let put = |weight: u32| {
        let nodes = json!({a.address().to_string(): weight, b.address().to_string(): 1});
        weir.put(
            "routes/1",
            json!({"uri": "/*", "upstream": {"nodes": nodes, "sticky": {"cookie": "node"}}}),
        );
    };
    put(1);
    let mut client = weir.client();
    let of_a = std::iter::repeat_with(|| client.get("/")).find(|response| response.text() == "a").unwrap();
    let field = format!("node={}", cookie_of(&of_a, "node").unwrap());
    put(0);
    weir.put("routes/2", json!({"uri": "/other", "upstream": {"nodes": {b.address().to_string(): 1}}}));
    assert_eq!(counts(&mut client, &[("Cookie", &field)], 5), all("a", 5));
    assert_eq!(counts(&mut client, &[], 5), all("b", 5));
}

#[test]
fn learned_cookie_keeps_a_client_at_its_node() {
    // Each application begins a session at /login, and knows only its own. One quotes its values, as Tomcat
    // may.
    let value = |letter: &str| match letter {
        "b" => "\"b-session\"".to_owned(),
        _ => format!("{letter}-session"),
    };
    let application = |letter: &'static str| {
        Origin::start(move |request| match request.path() {
            "/login" => {
                let cookie = format!("sid={}; Path=/; HttpOnly", value(letter));
                Reply::with(200, &[("Set-Cookie", &cookie)], letter.as_bytes())
            }
            _ => Reply::ok(letter),
        })
    };
    let (a, b, c) = (application("a"), application("b"), application("c"));
    let sticky = "sticky: {mode: learn, cookie: sid}";
    let weir = gateway(&upstream(&nodes(&[(&a, 1, ""), (&b, 1, ""), (&c, 1, "")]), sticky));
    let mut client = weir.client();
    let unknown = counts(&mut client, &[("Cookie", "sid=a-session")], 3);
    assert_eq!(unknown.len(), 3, "a session that no node began is balanced: {unknown:?}");
    for _ in 0..3 {
        let login = client.get("/login");
        let sid = cookie_of(&login, "sid").unwrap();
        assert_eq!(sid, value(&login.text()));
        let field = format!("sid={sid}");
        assert_eq!(counts(&mut client, &[("Cookie", &field)], 5), all(&login.text(), 5));
        // Another connection may be another worker.
        assert_eq!(counts(&mut weir.client(), &[("Cookie", &field)], 5), all(&login.text(), 5));
    }
    drop(a);
    let fields = [("Cookie", "sid=a-session")];
    let moved_to = client.request("GET", "/", &fields, b"").text();
    assert_eq!(counts(&mut client, &fields, 6), all(&moved_to, 6), "the session stays where it moved to");
}

#[test]
fn subset_is_chosen_by_a_field_of_the_request() {
    let [a, b, c] = ["a", "b", "c"].map(Origin::answering);
    let nodes = nodes(&[
        (&a, 1, ", metadata: {version: v1}"),
        (&b, 1, ", metadata: {version: v1}"),
        (&c, 1, ", metadata: {version: v2}"),
    ]);
    let with = |more: &str| {
        gateway(&upstream(&nodes, &format!("subset: {{match: {{version: $http_x_version}}{more}}}")))
    };
    let (v1, v2, v3) = ([("X-Version", "v1")], [("X-Version", "v2")], [("X-Version", "v3")]);
    let any = with("");
    let mut client = any.client();
    assert_eq!(counts(&mut client, &v1, 10), [("a".to_owned(), 5), ("b".to_owned(), 5)].into());
    assert_eq!(counts(&mut client, &v2, 10), all("c", 10));
    assert_eq!(counts(&mut client, &v3, 9).len(), 3);
    let none = with(", fallback: none");
    assert_eq!(none.client().request("GET", "/", &v3, b"").status, 503);
    assert_eq!(counts(&mut none.client(), &v2, 3), all("c", 3));
    let default = with(", fallback: default, default: {version: v1}");
    assert_eq!(counts(&mut default.client(), &v3, 10), [("a".to_owned(), 5), ("b".to_owned(), 5)].into());
    assert_eq!(counts(&mut default.client(), &[], 4).len(), 2);
}

#[test]
fn own_zone_is_preferred_and_others_are_retried() {
    let [a, b] = ["a", "b"].map(Origin::answering);
    let down = Origin::nowhere();
    let marked = nodes(&[(&a, 1, ", metadata: {zone: z1}"), (&b, 1, ", metadata: {zone: z2}")]);
    let in_zone = |zone: &str, nodes: &str| {
        builder(&upstream(nodes, "zone_aware: {}")).environment("WEIR_ZONE", zone).start()
    };
    assert_eq!(counts(&mut in_zone("z1", &marked).client(), &[], 6), all("a", 6));
    assert_eq!(counts(&mut in_zone("z2", &marked).client(), &[], 6), all("b", 6));
    assert_eq!(counts(&mut in_zone("z3", &marked).client(), &[], 6).len(), 2);
    assert_eq!(counts(&mut gateway(&upstream(&marked, "zone_aware: {}")).client(), &[], 6).len(), 2);
    let first_down = format!(
        "nodes: [{{host: 127.0.0.1, port: {}, weight: 1, metadata: {{zone: z1}}}}, {{host: 127.0.0.1, port: {}, weight: 1}}]",
        down.port(),
        b.port()
    );
    assert_eq!(counts(&mut in_zone("z1", &first_down).client(), &[], 6), all("b", 6));
}

#[test]
fn new_node_begins_with_a_part_of_its_weight() {
    let [a, b, c] = ["a", "b", "c"].map(Origin::answering);
    let weir = Weir::start(BINARY);
    let put = |origins: &[&Origin], slow_start: Value| {
        let nodes: serde_json::Map<String, Value> =
            origins.iter().map(|origin| (origin.address().to_string(), json!(1))).collect();
        let upstream = json!({"type": "roundrobin", "nodes": nodes, "slow_start": slow_start});
        weir.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
    };
    // So long that the weight stays at its least while the test runs.
    let slow_start = json!({"window": 86_400, "min_weight_percent": 25});
    put(&[&a, &b], slow_start.clone());
    let mut client = weir.client();
    assert_eq!(counts(&mut client, &[], 10), [("a".to_owned(), 5), ("b".to_owned(), 5)].into());
    put(&[&a, &b, &c], slow_start);
    let shares = counts(&mut client, &[], 90);
    assert!((9..=11).contains(&shares["c"]), "a quarter of the weight is a ninth of 90: {shares:?}");
}

/// An origin that fails always.
fn failing() -> Origin {
    Origin::start(|_| Reply::status(503, "down"))
}

/// Ejects a node at its first failure, for longer than a test runs.
const EJECTION: &str =
    "outlier_ejection: {consecutive_failures: 1, base_ejection_time: 300, max_ejected_percent: 100}";

/// Sends requests until `origin` is ejected, as the report tells it.
fn wait_for_ejection(weir: &Weir, client: &mut Client, origin: &Origin) {
    let address = origin.address().to_string();
    wait_for("the failing node is ejected", || {
        let _ = client.get("/");
        let report = Client::connect(weir.address("control")).get("/v1/weir/upstreams/routes/1").json();
        let mut nodes = report["nodes"].as_array()?.iter();
        let node = nodes.find(|node| node["address"] == address.as_str())?;
        (node["state"] == "ejected").then_some(())
    });
}

#[test]
fn too_few_usable_nodes_mean_that_all_are_used() {
    // percent → whether the failing one of two nodes gets requests after its ejection
    for (percent, is_in_panic) in [(0, false), (50, false), (51, true)] {
        let (good, bad) = (Origin::answering("a"), failing());
        let more = format!("retries: 0, panic_threshold: {percent}, {EJECTION}");
        let weir = gateway(&upstream(&nodes(&[(&good, 1, ""), (&bad, 1, "")]), &more));
        let mut client = weir.client();
        wait_for_ejection(&weir, &mut client, &bad);
        let before = bad.requests().len();
        counts(&mut client, &[], 20);
        let failed = bad.requests().len() - before;
        assert_eq!(failed > 0, is_in_panic, "{failed} of 20 with {percent} percent");
    }
}

#[test]
fn weak_priority_passes_a_part_on() {
    let (good, bad, spare) = (Origin::answering("a"), failing(), Origin::answering("c"));
    let nodes = nodes(&[(&good, 1, ""), (&bad, 1, ""), (&spare, 1, ", priority: -1")]);
    let weir = gateway(&upstream(&nodes, &format!("retries: 0, overflow: {{percent: 100}}, {EJECTION}")));
    let mut client = weir.client();
    wait_for_ejection(&weir, &mut client, &bad);
    let shares = counts(&mut client, &[], 200);
    // Half of the weight is left: half of the requests, give or take five standard deviations.
    assert!((65..=135).contains(&shares["c"]) && shares["a"] + shares["c"] == 200, "{shares:?}");
}

//! The choice of the node for a request, the Host that it gets, and the connections that stay when nodes
//! change.

use std::collections::BTreeMap;

use testkit::{Client, Nginx, Origin, Reply, Signal, Weir, wait_for};

use crate::support::{gateway, route};

/// Origins that answer with their letter.
fn origins<const COUNT: usize>() -> [Origin; COUNT] {
    std::array::from_fn(|index| Origin::answering(&LETTERS[index..=index]))
}

/// An upstream of these nodes and weights, as YAML flow.
fn weighted(nodes: &[(&Origin, u32)], more: &str) -> String {
    let nodes: String =
        nodes.iter().map(|(origin, weight)| format!("'{}': {weight}, ", origin.address())).collect();
    format!("{{nodes: {{{nodes}}}, {more}}}")
}

/// Number of responses from each letter for `count` requests.
fn counts(client: &mut Client, count: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..count {
        *counts.entry(client.get("/").text()).or_default() += 1;
    }
    counts
}

fn letters(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts.iter().map(|(letter, count)| ((*letter).to_owned(), *count)).collect()
}

#[test]
fn round_robin_keeps_to_the_weights() {
    let [a, b, c] = origins();
    let weir = gateway(&route("uri: /*", &weighted(&[(&a, 5), (&b, 1), (&c, 0)], "type: roundrobin")));
    let mut client = weir.client();
    assert_eq!(counts(&mut client, 60), letters(&[("a", 50), ("b", 10)]));
    // The turns of the lighter node are spread evenly.
    let turns: String = (0..12).map(|_| client.get("/").text()).collect();
    assert!(!turns.contains("bb") && turns.matches('b').count() == 2, "{turns}");
}

#[test]
fn consistent_hashing_goes_by_its_key() {
    let [a, b, c, d] = origins();
    let nodes = [(&a, 1), (&b, 1), (&c, 1), (&d, 1)];
    let check = |hash: &str, request: &dyn Fn(usize) -> (String, Vec<(&'static str, String)>)| {
        let weir = gateway(&route("uri: /*", &weighted(&nodes, &format!("type: chash, {hash}"))));
        let mut client = weir.client();
        let mut answer = |number: usize| {
            let (path, headers) = request(number);
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            client.request("GET", &path, &headers, b"").text()
        };
        let first: Vec<String> = (0..40).map(&mut answer).collect();
        let again: Vec<String> = (0..40).map(&mut answer).collect();
        assert_eq!(first, again, "{hash}: the same key goes to the same node");
        let used: std::collections::BTreeSet<&String> = first.iter().collect();
        assert!(used.len() >= 3, "{hash}: 40 keys reach {used:?} only");
    };
    check("hash_on: vars, key: uri", &|number| (format!("/{number}"), Vec::new()));
    check("hash_on: vars, key: arg_id", &|number| (format!("/?id={number}"), Vec::new()));
    check("hash_on: header, key: X-User", &|number| ("/".to_owned(), vec![("X-User", number.to_string())]));
    check("hash_on: header, key: http_x_user", &|number| {
        ("/".to_owned(), vec![("X-User", number.to_string())])
    });
    check("hash_on: cookie, key: session", &|number| {
        ("/".to_owned(), vec![("Cookie", format!("session={number}"))])
    });
    check("hash_on: cookie, key: cookie_session", &|number| {
        ("/".to_owned(), vec![("Cookie", format!("session={number}"))])
    });
    check("hash_on: vars_combinations, key: '$arg_id-$http_x_user'", &|number| {
        (format!("/?id={}", number % 7), vec![("X-User", (number / 7).to_string())])
    });
}

#[test]
fn a_missing_key_goes_by_the_client() {
    let [a, b, c] = origins();
    let more = "type: chash, hash_on: header, key: X-User";
    let weir = gateway(&route("uri: /*", &weighted(&[(&a, 1), (&b, 1), (&c, 1)], more)));
    assert_eq!(counts(&mut weir.client(), 20).len(), 1);
}

#[test]
fn consistent_hashing_goes_by_the_consumer() {
    let [a, b, c, d] = origins();
    let hash = weighted(&[(&a, 1), (&b, 1), (&c, 1), (&d, 1)], "type: chash, hash_on: consumer");
    let mut consumers = "consumers:\n".to_owned();
    for number in 0..30 {
        consumers += &format!("  - {{username: u{number}, plugins: {{key-auth: {{key: k{number}}}}}}}\n");
    }
    let weir = gateway(&(consumers + &route("uri: /*, plugins: {key-auth: {}}", &hash)));
    let mut client = weir.client();
    let mut ask =
        |number: usize| client.request("GET", "/", &[("apikey", &format!("k{number}"))], b"").text();
    let first: Vec<String> = (0..30).map(&mut ask).collect();
    assert_eq!(first, (0..30).map(&mut ask).collect::<Vec<_>>());
    assert!(first.iter().collect::<std::collections::BTreeSet<_>>().len() >= 3, "{first:?}");
}

#[test]
fn a_lost_node_moves_only_its_own_keys() {
    let [a, b, c] = origins();
    let ask = |nodes: &[(&Origin, u32)]| -> Vec<String> {
        let weir = gateway(&route("uri: /*", &weighted(nodes, "type: chash, key: uri")));
        let mut client = weir.client();
        (0..60).map(|number| client.get(&format!("/{number}")).text()).collect()
    };
    let (before, after) = (ask(&[(&a, 1), (&b, 1), (&c, 1)]), ask(&[(&a, 1), (&b, 1)]));
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after || before == "c", "{before} became {after}");
    }
}

#[test]
fn least_connections_goes_where_least_is_under_way() {
    let go = Signal::new();
    let slow = Origin::start({
        let go = go.clone();
        move |_| Reply::new().wait(&go).send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
    });
    let quick = Origin::answering("b");
    let weir = gateway(&route("uri: /*", &weighted(&[(&slow, 1), (&quick, 1)], "type: least_conn")));
    let mut busy = Vec::new();
    // Once the slow node holds a request, the quick one gets all others; the requests until then may go to
    // either.
    while slow.requests().is_empty() {
        let mut client = weir.client();
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let seen = wait_for("a node was asked", || {
            let quick_seen = quick.requests().len();
            (!slow.requests().is_empty() || quick_seen > busy.len()).then_some(quick_seen)
        });
        assert!(seen <= busy.len() + 1);
        busy.push(client);
    }
    assert_eq!(counts(&mut weir.client(), 10), letters(&[("b", 10)]));
    go.set();
}

#[test]
fn ewma_answers_from_the_nodes_that_work() {
    let [a, b] = origins();
    let good = weighted(&[(&a, 1), (&b, 1)], "type: ewma");
    let seen = counts(&mut gateway(&route("uri: /*", &good)).client(), 40);
    assert!(seen.keys().all(|letter| letter == "a" || letter == "b"), "{seen:?}");
    let half = format!("{{nodes: {{'{}': 1, '{}': 1}}, type: ewma}}", a.address(), Origin::nowhere());
    assert_eq!(counts(&mut gateway(&route("uri: /*", &half)).client(), 40), letters(&[("a", 40)]));
}

#[test]
fn lower_priorities_are_for_when_no_higher_is_left() {
    let [a, b] = origins();
    let node = |port: u16, priority: i32| {
        format!("{{host: 127.0.0.1, port: {port}, weight: 1, priority: {priority}}}")
    };
    let both = format!("{{nodes: [{}, {}]}}", node(a.port(), 0), node(b.port(), -1));
    assert_eq!(counts(&mut gateway(&route("uri: /*", &both)).client(), 6), letters(&[("a", 6)]));
    let gone = format!("{{nodes: [{}, {}]}}", node(Origin::nowhere().port(), 0), node(b.port(), -1));
    assert_eq!(counts(&mut gateway(&route("uri: /*", &gone)).client(), 6), letters(&[("b", 6)]));
}

#[test]
fn the_host_is_passed_as_configured() {
    let origin = Origin::echoing();
    let port = origin.port();
    let check = |more: &str, want: &str| {
        let weir = gateway(&route("uri: /*", &format!("{{nodes: {{'localhost:{port}': 1}}, {more}}}")));
        let response = weir.client().request("GET", "/", &[("Host", "asked.example:1")], b"");
        let text = response.text();
        assert!(text.contains(&format!("\r\nHost: {want}\r\n")), "{more}: {text}");
        assert_eq!(text.matches("\r\nHost: ").count(), 1, "{more}: {text}");
        assert!(text.contains("\r\nX-Forwarded-Host: asked.example:1\r\n"), "{more}: {text}");
    };
    check("", "asked.example:1");
    check("pass_host: pass", "asked.example:1");
    check("pass_host: node", &format!("localhost:{port}"));
    check("pass_host: rewrite, upstream_host: other.example", "other.example");
}

#[test]
fn nodes_may_be_names_and_ipv6() {
    let six = Origin::start_at("[::1]:0", |_| Reply::ok("six"));
    let check = |nodes: &str| {
        let weir = gateway(&route("uri: /*", &format!("{{nodes: {nodes}}}")));
        assert_eq!(weir.get("/").text(), "six", "{nodes}");
    };
    check(&format!("{{'[::1]:{}': 1}}", six.port()));
    check(&format!("[{{host: '[::1]', port: {}, weight: 1}}]", six.port()));
    let four = Origin::answering("four");
    let weir = gateway(&route("uri: /*", &format!("{{nodes: {{'localhost:{}': 1}}}}", four.port())));
    assert_eq!(weir.get("/").text(), "four");
    let nowhere = gateway(&route("uri: /*", "{nodes: {'no-such-host.invalid:80': 1}}"));
    assert_eq!(nowhere.get("/").status, 503);
}

#[test]
fn a_change_of_nodes_keeps_the_others_connections() {
    let [a, b] = origins();
    let weir = Weir::start(crate::support::BINARY);
    let put = |nodes: serde_json::Value| {
        weir.put("upstreams/1", serde_json::json!({"type": "roundrobin", "nodes": nodes}));
    };
    put(serde_json::json!({a.address().to_string(): 1}));
    weir.put("routes/1", serde_json::json!({"uri": "/*", "upstream_id": "1"}));
    let mut client = weir.client();
    assert_eq!(counts(&mut client, 3), letters(&[("a", 3)]));
    put(serde_json::json!({a.address().to_string(): 1, b.address().to_string(): 1}));
    weir.put("routes/2", serde_json::json!({"uri": "/other", "upstream_id": "1"}));
    assert_eq!(counts(&mut client, 10), letters(&[("a", 5), ("b", 5)]));
    assert_eq!((a.connections(), b.connections()), (1, 1));
    put(serde_json::json!({b.address().to_string(): 1}));
    assert_eq!(counts(&mut client, 4), letters(&[("b", 4)]));
    assert_eq!(b.connections(), 1);
}

/// The letters of the origins, in order.
const LETTERS: &str = "abcd";

#[test]
fn keys_meet_the_same_endpoints_as_with_nginx() {
    // `make test` installs nginx; without it there is nothing to compare with.
    if !Nginx::is_available() {
        return;
    }
    let [a, b, c, d] = origins();
    // Weights without a common divisor: APISIX and Weir reduce them, nginx does not.
    let nodes = [(&a, 1), (&b, 2), (&c, 3), (&d, 1)];
    let servers: String = nodes
        .iter()
        .map(|(origin, weight)| format!("server {} weight={weight};", origin.address()))
        .collect();
    let nginx = Nginx::start_beside(
        &format!("upstream ring {{ hash $arg_k consistent; {servers} }}"),
        "location / { proxy_pass http://ring; }",
    );
    let weir = gateway(&route("uri: /*", &weighted(&nodes, "type: chash, hash_on: vars, key: arg_k")));
    let (mut by_nginx, mut by_weir) = (Client::connect(nginx.address()), weir.client());
    for key in 0..200 {
        let target = format!("/?k=key-{key}");
        assert_eq!(by_weir.get(&target).text(), by_nginx.get(&target).text(), "{target}");
    }
}

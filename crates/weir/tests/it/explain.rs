//! `weir/explain` against the gateway that serves: plugins and destination, without an effect.

use serde_json::{Value, json};
use testkit::{Origin, Weir, wait_until};

use crate::support::BINARY;

/// A gateway with a route that asks for a key, limits, and rewrites the path.
fn gateway(origin: &Origin) -> Weir {
    let weir = Weir::start(BINARY);
    weir.put("upstreams/orders", json!({"nodes": {origin.address().to_string(): 1}}));
    weir.put("services/shop", json!({"upstream_id": "orders", "plugins": {"key-auth": {}}}));
    weir.put("consumers/jack", json!({"username": "jack", "plugins": {"key-auth": {"key": "k1"}}}));
    let plugins = json!({
        "limit-count": {"count": 5, "time_window": 600, "key": "remote_addr"},
        "proxy-rewrite": {"uri": "/v2$uri"},
        "ip-restriction": {"blacklist": ["10.9.9.9"]},
        "cors": {"_meta": {"filter": [["arg_none", "==", "1"]]}},
    });
    weir.put("routes/a", json!({"uri": "/a/*", "service_id": "shop", "plugins": plugins}));
    wait_until("the route is in force", || weir.get("/a/1").status == 401);
    weir
}

fn ask(weir: &Weir, more: Value) -> Value {
    let mut question = json!({"method": "GET", "url": "http://h/a/1?b=2", "headers": [["apikey", "k1"]]});
    question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (status, answer) = weir.admin("POST", "weir/explain", question);
    assert_eq!(status, 200, "{answer}");
    answer
}

fn step(record: &Value, plugin: &str) -> Value {
    let steps = record["pipeline"].as_array().unwrap();
    steps.iter().find(|step| step["plugin"] == plugin).cloned().unwrap_or_default()
}

#[test]
fn explaining_counts_nothing_and_says_what_is_left() {
    let origin = Origin::answering("x");
    let weir = gateway(&origin);
    for _ in 0..100 {
        let record = ask(&weir, json!({}));
        assert_eq!(step(&record, "limit-count")["would"]["text"], "5 of 5 left in 600 s", "{record}");
    }
    let mut client = weir.client();
    for left in ["4", "3", "2", "1", "0"] {
        let response = client.request("GET", "/a/1", &[("apikey", "k1")], b"");
        assert_eq!((response.status, response.header("x-ratelimit-remaining")), (200, Some(left)));
    }
    let record = ask(&weir, json!({}));
    let limit = step(&record, "limit-count");
    assert_eq!(
        (&limit["would"]["action"], &limit["would"]["status"]),
        (&json!("reply"), &json!(503)),
        "{record}"
    );
    assert_eq!((&record["forwarded"], &record["upstream"]), (&Value::Null, &Value::Null));
    assert_eq!(origin.requests().len(), 5);
}

#[test]
fn plugins_and_destination_are_reported() {
    let origin = Origin::answering("x");
    let weir = gateway(&origin);
    let record = ask(&weir, json!({}));
    let key = step(&record, "key-auth");
    assert_eq!(
        (&key["from"], &key["why"]),
        (&json!("service"), &json!("passes as consumer jack")),
        "{record}"
    );
    assert_eq!(step(&record, "ip-restriction")["runs"], true);
    assert_eq!(step(&record, "cors")["runs"], false);
    assert_eq!(record["forwarded"]["url"], "http://h/v2/a/1?b=2", "{record}");
    let fields = record["forwarded"]["headers"].as_array().unwrap();
    assert!(fields.contains(&json!(["X-Consumer-Username", "jack"])), "{record}");
    let endpoint = json!({"address": origin.address(), "state": "usable", "share": 100.0});
    assert_eq!(
        (&record["upstream"]["id"], &record["upstream"]["candidates"]),
        (&json!("orders"), &json!([endpoint]))
    );
    let sent = weir.client().request("GET", "/a/1?b=2", &[("apikey", "k1"), ("Host", "h")], b"");
    assert_eq!((sent.status, origin.requests()[0].target.as_str()), (200, "/v2/a/1?b=2"));
    let refused = ask(&weir, json!({"headers": [], "remote_addr": "10.9.9.9"}));
    let key = step(&refused, "key-auth");
    assert_eq!(
        (&key["would"]["status"], &key["would"]["action"]),
        (&json!(401), &json!("reply")),
        "{refused}"
    );
    assert_eq!(step(&refused, "ip-restriction")["why"], "key-auth has answered");
}

#[test]
fn unsaved_object_is_laid_over_and_leaves_nothing() {
    let origin = Origin::answering("x");
    let weir = gateway(&origin);
    let value = json!({"uri": "/a/*", "plugins": {"redirect": {"uri": "/new", "ret_code": 302}},
        "upstream": {"nodes": {"127.0.0.1:9": 1}}});
    let record = ask(&weir, json!({"with": {"key": "routes/a", "value": value}}));
    let redirect = step(&record, "redirect");
    assert_eq!(
        (&redirect["would"]["action"], &redirect["would"]["text"]),
        (&json!("redirect"), &json!("/new"))
    );
    let changed = json!({"nodes": {"127.0.0.1:9": 1}});
    let record = ask(&weir, json!({"with": {"key": "upstreams/orders", "value": changed}}));
    assert_eq!(record["upstream"]["candidates"][0]["address"], "127.0.0.1:9", "{record}");
    let renewed = json!({"username": "jack", "plugins": {"key-auth": {"key": "k2"}}});
    for (key, action) in [("k1", "reply"), ("k2", "change")] {
        let with = json!({"key": "consumers/jack", "value": renewed});
        let record = ask(&weir, json!({"headers": [["apikey", key]], "with": with}));
        assert_eq!(step(&record, "key-auth")["would"]["action"], action, "{record}");
    }
    let served = weir.client().request("GET", "/a/1", &[("apikey", "k1")], b"");
    assert_eq!((served.status, origin.requests().len()), (200, 1));
    let question = json!({"method": "GET", "url": "/a", "headers": [["Host", "h"]],
        "with": {"key": "routes/x", "value": {"uri": 7}}});
    let (status, answer) = weir.admin("POST", "weir/explain", question);
    assert!(status == 400 && answer["faults"][0]["pointer"].is_string(), "{answer}");
}

#[test]
fn secrets_stay_out_of_explanations() {
    let origin = Origin::answering("x");
    let weir = gateway(&origin);
    // Every process has this variable.
    let path = std::env::var("PATH").unwrap();
    let value = json!({"uri": "/a/*", "upstream_id": "orders", "plugins": {
        "proxy-rewrite": {"headers": {"set": {"X-Secret": "$env://PATH", "X-Plain": "written"}}},
        "response-rewrite": {"body": "$env://PATH"}, "fault-injection": {"delay": {"duration": 0.001}}}});
    let field = |record: &Value, name: &str| {
        let fields = record["forwarded"]["headers"].as_array().cloned().unwrap_or_default();
        fields.into_iter().find(|field| field[0] == name).map(|field| field[1].clone())
    };
    let unsaved = ask(&weir, json!({"with": {"key": "routes/a", "value": value}}));
    assert!(!unsaved.to_string().contains(&path), "{unsaved}");
    assert_eq!(field(&unsaved, "X-Plain"), Some(json!("written")), "{unsaved}");
    let answers = json!({"uri": "/a/*", "plugins": {"mocking": {"response_example": "$env://PATH"}}});
    let unsaved = ask(&weir, json!({"with": {"key": "routes/a", "value": answers}}));
    assert!(!unsaved.to_string().contains(&path), "{unsaved}");
    weir.put("routes/a", value);
    wait_until("the route is in force", || {
        weir.client().request("GET", "/a/1", &[], b"");
        origin.requests().last().is_some_and(|request| request.header("x-secret") == Some(&path))
    });
    let saved = ask(&weir, json!({}));
    assert_eq!(
        (field(&saved, "X-Secret"), field(&saved, "X-Plain")),
        (Some(json!("(hidden)")), Some(json!("written"))),
        "{saved}"
    );
    assert!(!saved.to_string().contains(&path), "{saved}");
}

/// Requests that are compared, over the routes of [`routes_that_overlap`].
const COMPARED: u32 = 1_000;

/// Routes with overlapping paths, hosts, methods, conditions and priorities, each of which answers with its
/// id.
fn routes_that_overlap(weir: &Weir) {
    let routes = [
        json!({"uri": "/*"}),
        json!({"uri": "/a/*"}),
        json!({"uri": "/a/*", "methods": ["GET"], "priority": 2}),
        json!({"uri": "/a/b", "hosts": ["*.example"]}),
        json!({"uri": "/a/b", "hosts": ["x.example"], "vars": [["arg_q", "==", "1"]], "priority": 1}),
        json!({"uris": ["/a/b/*", "/c"], "methods": ["POST", "PUT"]}),
        json!({"uri": "/c", "remote_addrs": ["10.0.0.0/8"], "priority": 5}),
        json!({"uri": "/c", "vars": [["http_x", "~~", "^1"]]}),
    ];
    for (index, mut route) in routes.into_iter().enumerate() {
        let id = format!("r{index}");
        route["plugins"] = json!({"mocking": {"response_example": id}});
        weir.put(&format!("routes/{id}"), route);
    }
    wait_until("the last route is in force", || {
        weir.client().request("GET", "/c", &[("x", "12")], b"").text() == "r7"
    });
}

#[test]
fn explained_route_is_the_one_that_serves() {
    let weir = Weir::start(BINARY);
    routes_that_overlap(&weir);
    let mut client = weir.client();
    for number in 0..COMPARED {
        // Each digit chooses one part, so that all combinations come up.
        let choose = |divisor: u32, choices: &[&'static str]| {
            choices[((number / divisor) as usize + number as usize / 7) % choices.len()]
        };
        let method = choose(1, &["GET", "POST", "PUT", "DELETE"]);
        let path =
            choose(4, &["/", "/a", "/a/", "/a/b", "/a/b/c", "/c", "/%61/b", "/a//b", "/c?q=1", "/a/b?q=1"]);
        let host = choose(40, &["x.example", "y.example", "other", "X.EXAMPLE:80"]);
        let x = choose(160, &["1", "2", "12"]);
        let served = client.request(method, path, &[("Host", host), ("x", x)], b"").text();
        let question = json!({"method": method, "url": path, "headers": [["Host", host], ["x", x]]});
        let (_, record) = weir.admin("POST", "weir/explain", question);
        assert_eq!(record["matched"]["id"], served, "{method} {path} {host} {x}: {record}");
    }
}

#[test]
fn fields_of_an_upgrade_are_shown() {
    let origin = Origin::answering("x");
    let weir = gateway(&origin);
    let nodes = json!({origin.address().to_string(): 1});
    weir.put(
        "routes/w",
        json!({"uri": "/w", "enable_websocket": true, "upstream": {"nodes": nodes.clone()}}),
    );
    weir.put("routes/p", json!({"uri": "/p", "upstream": {"nodes": nodes}}));
    for (path, protocol, shown) in [
        ("/w", "websocket", true),
        ("/w", "SPDY/3.1", true),
        ("/w", "h2c", false),
        ("/p", "websocket", false),
    ] {
        let headers = json!([["Connection", "Upgrade"], ["Upgrade", protocol]]);
        let record = ask(&weir, json!({"url": format!("http://h{path}"), "headers": headers}));
        let fields = record["forwarded"]["headers"].as_array().unwrap();
        assert_eq!(fields.contains(&json!(["Upgrade", protocol])), shown, "{path} {protocol}: {record}");
        assert_eq!(fields.contains(&json!(["Connection", "Upgrade"])), shown, "{path} {protocol}: {record}");
    }
}

//! `public-api` and the endpoints behind it through the real gateway: batches with requests that pass the
//! whole data plane, and metrics.

use serde_json::{Value, json};
use testkit::{Client, Origin, Redis, Reply, Response, Signal, Weir, wait_for, wait_until};

use crate::support::BINARY;

/// A gateway with an open endpoint for batches, and an origin that echoes the request head.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new(arguments: &[&str]) -> Stage {
        let stage =
            Stage { weir: Weir::builder(BINARY).arguments(arguments).start(), origin: Origin::echoing() };
        let open = json!({"uri": "/batch", "plugins": {"public-api": {"uri": "/apisix/batch-requests"}}});
        stage.weir.put("routes/batch", open);
        stage
    }

    fn route(&self, id: &str, uri: &str, plugins: Value) {
        let nodes = json!({self.origin.address().to_string(): 1});
        let route = json!({"uri": uri, "upstream": {"nodes": nodes}, "plugins": plugins});
        self.weir.put(&format!("routes/{id}"), route);
    }

    fn send(&self, fields: &[(&str, &str)], batch: &Value) -> Response {
        self.weir.client().request("POST", "/batch", fields, batch.to_string().as_bytes())
    }

    /// The responses to a batch of these paths.
    fn batch(&self, fields: &[(&str, &str)], paths: &[&str]) -> Vec<Value> {
        let pipeline: Vec<Value> = paths.iter().map(|path| json!({"path": path})).collect();
        let response = self.send(fields, &json!({"pipeline": pipeline}));
        assert_eq!(response.status, 200, "{}", response.text());
        response.json().as_array().unwrap().clone()
    }
}

fn statuses(responses: &[Value]) -> Vec<u64> {
    responses.iter().map(|response| response["status"].as_u64().unwrap()).collect()
}

#[test]
fn batch_is_answered_with_all_responses() {
    let stage = Stage::new(&[]);
    stage.route("a", "/a", json!({}));
    stage.route(
        "b",
        "/b/*",
        json!({"response-rewrite": {"status_code": 201, "headers": {"set": {"X-B": "1"}}}}),
    );
    let batch = json!({
        "headers": {"X-All": "all"}, "query": {"lang": "en"},
        "pipeline": [
            {"path": "/a", "headers": {"X-One": "one", "Host": "inner.example"}},
            {"path": "/b/c?x=1", "method": "POST", "body": "text", "headers": {"Content-Type": "text/a"}},
            {"path": "/a", "method": "HEAD"},
            {"path": "/none"}
        ]
    });
    let response = stage.send(&[("Cookie", "c=1")], &batch);
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    let list = response.json();
    let all = list.as_array().unwrap();
    assert_eq!(statuses(all), [200, 201, 200, 404], "{list}");
    let body = |index: usize| list[index]["body"].as_str().unwrap().to_ascii_lowercase();
    let first = body(0);
    assert!(first.starts_with("get /a?lang=en http/1.1\r\n"), "{first}");
    for field in ["x-all: all\r\n", "x-one: one\r\n", "host: inner.example\r\n", "cookie: c=1\r\n"] {
        assert!(first.contains(field), "{field}{first}");
    }
    assert!(!first.contains("content-"), "fields of the outer body are not passed on: {first}");
    let second = body(1);
    assert!(second.starts_with("post /b/c?x=1&lang=en http/1.1\r\n"), "{second}");
    assert!(
        second.contains("content-type: text/a\r\n") && second.contains("content-length: 4\r\n"),
        "{second}"
    );
    assert_eq!((&list[1]["reason"], &list[1]["headers"]["X-B"]), (&json!("Created"), &json!("1")));
    let asked = stage.origin.requests();
    assert_eq!((asked[1].body.as_slice(), asked[2].method.as_str()), (&b"text"[..], "HEAD"));
    assert!(list[3]["body"].as_str().unwrap().contains("404 Route Not Found"), "{list}");
}

#[test]
fn check_38_batch_is_authenticated_and_limited() {
    let stage = Stage::new(&[]);
    stage.route("key", "/key", json!({"key-auth": {}}));
    let limit = json!({"limit-count": {"count": 3, "time_window": 3600, "rejected_code": 429}});
    stage.route("limit", "/limit", limit);
    stage.weir.put("consumers", json!({"username": "jack"}));
    stage.weir.put("consumers/jack/credentials/k", json!({"plugins": {"key-auth": {"key": "jack-key"}}}));
    assert_eq!(statuses(&stage.batch(&[], &["/key"])), [401]);
    assert_eq!(statuses(&stage.batch(&[("apikey", "jack-key")], &["/key"])), [200]);
    assert_eq!(statuses(&stage.batch(&[], &["/limit", "/limit"])), [200, 200]);
    assert_eq!(statuses(&stage.batch(&[], &["/limit", "/limit"])), [200, 429]);
}

#[test]
fn check_38_batch_keeps_the_address_of_its_client() {
    let stage = Stage::new(&["--real-ip-from", "127.0.0.0/8"]);
    stage.route("a", "/a", json!({"ip-restriction": {"whitelist": ["10.1.2.3"]}}));
    let from = [("X-Real-IP", "10.1.2.3")];
    let responses = stage.batch(&from, &["/a"]);
    assert_eq!(statuses(&responses), [200]);
    let seen = responses[0]["body"].as_str().unwrap().to_ascii_lowercase();
    assert!(seen.contains("x-real-ip: 10.1.2.3\r\n"), "{seen}");
    for name in ["X-Real-IP", "x-real-ip", "X-Forwarded-For", "Forwarded"] {
        let forged = json!({"pipeline": [{"path": "/a", "headers": {name: "10.1.2.3"}}], "headers": {name: "10.1.2.3"}});
        let response = stage.send(&[("X-Real-IP", "10.9.9.9")], &forged).json();
        assert_eq!(response[0]["status"], 403, "{name}: {response}");
    }
    let plugins = json!({"ip-restriction": {"whitelist": ["10.1.2.3"]}, "real-ip": {"source": "arg_realip"}});
    stage.route("b", "/b", plugins);
    assert_eq!(stage.weir.get("/b?realip=10.1.2.3").status, 200);
    assert_eq!(statuses(&stage.batch(&[], &["/b?realip=10.1.2.3"])), [403]);
}

#[test]
fn check_38_batch_reaches_no_endpoint_of_a_plugin() {
    let stage = Stage::new(&[]);
    stage.weir.put("routes/all", json!({"uri": "/apisix/*", "plugins": {"public-api": {}}}));
    assert_eq!(statuses(&stage.batch(&[], &["/batch", "/apisix/batch-requests"])), [404, 404]);
    let inner = json!({"pipeline": [{"path": "/batch", "method": "POST", "body": "{\"pipeline\":[{\"path\":\"/\"}]}"}]});
    assert_eq!(stage.send(&[], &inner).json()[0]["status"], 404);
    assert_eq!(stage.batch(&[], &["/apisix/prometheus/metrics"])[0]["status"], 404);
    // Directly they are there, with the right method only.
    assert_eq!(stage.weir.get("/apisix/prometheus/metrics").status, 200);
    assert_eq!(stage.weir.get("/apisix/batch-requests").status, 404);
    assert_eq!(stage.weir.get("/apisix/none").status, 404);
    stage.weir.delete("routes/all");
    assert_eq!(stage.weir.get("/apisix/prometheus/metrics").status, 404);
}

#[test]
fn inner_request_over_its_time_is_answered_504() {
    let (go, stage) = (Signal::new(), Stage::new(&[]));
    let held = go.clone();
    let slow = Origin::start(move |_| Reply::new().wait(&held).close());
    stage
        .weir
        .put("routes/slow", json!({"uri": "/slow", "upstream": {"nodes": {slow.address().to_string(): 1}}}));
    stage.route("a", "/a", json!({}));
    let batch = json!({"timeout": 100, "pipeline": [{"path": "/slow"}, {"path": "/a"}]});
    let list = stage.send(&[], &batch).json();
    assert_eq!(list[0], json!({"status": 504, "reason": "upstream timeout"}));
    assert_eq!(list[1]["status"], 200);
    go.set();
}

#[test]
fn inner_request_over_its_time_frees_its_place() {
    let (go, stage, redis) = (Signal::new(), Stage::new(&[]), Redis::start());
    let held = go.clone();
    let slow = Origin::start(move |_| Reply::new().wait(&held).close());
    let limit = json!({
        "conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr", "policy": "redis",
        "redis_host": "127.0.0.1", "redis_port": redis.address().port()
    });
    let upstream = json!({"nodes": {slow.address().to_string(): 1}});
    stage
        .weir
        .put("routes/slow", json!({"uri": "/slow", "upstream": upstream, "plugins": {"limit-conn": limit}}));
    let list = stage.send(&[], &json!({"timeout": 500, "pipeline": [{"path": "/slow"}]})).json();
    assert_eq!(list[0]["status"], 504);
    assert_eq!(slow.requests().len(), 1, "Redis has counted it");
    wait_until("no request is in progress", || redis.cli(&["KEYS", "limit_conn:*"]).is_empty());
    go.set();
}

#[test]
fn client_that_leaves_ends_the_inner_request() {
    let (asked, go, stage) = (Signal::new(), Signal::new(), Stage::new(&[]));
    let (seen, held) = (asked.clone(), go.clone());
    let slow = Origin::start(move |_| {
        seen.set();
        Reply::new().wait(&held).close()
    });
    let nodes = json!({slow.address().to_string(): 1});
    let route = json!({"uri": "/slow", "upstream": {"nodes": nodes}, "plugins": {"prometheus": {}}});
    stage.weir.put("routes/slow", route);
    stage.route("a", "/a", json!({}));
    let body = json!({"pipeline": [{"path": "/slow"}, {"path": "/a"}]}).to_string();
    let head = format!("POST /batch HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut client = stage.weir.client();
    client.send(format!("{head}{body}").as_bytes());
    assert!(asked.wait());
    drop(client);
    wait_until("the inner request is counted without a status", || {
        let page = Client::connect(stage.weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        page.contains("apisix_http_status{code=\"0\",route=\"slow\"")
    });
    assert!(stage.origin.requests().is_empty(), "no other request of the batch is sent");
    go.set();
}

#[test]
fn faulty_batch_sends_no_request() {
    let stage = Stage::new(&[]);
    stage.route("a", "/a", json!({}));
    let batch = json!({"pipeline": [{"path": "/a", "method": "POST"}, {"path": "/a b"}]});
    assert_eq!(stage.send(&[], &batch).status, 400);
    assert!(stage.origin.requests().is_empty());
}

#[test]
fn limits_of_batches_follow_the_metadata() {
    let stage = Stage::new(&[]);
    stage.route("a", "/a", json!({}));
    let two = json!({"pipeline": [{"path": "/a"}, {"path": "/a"}]});
    assert_eq!(stage.send(&[], &two).status, 200);
    stage.weir.put("plugin_metadata/batch-requests", json!({"max_body_size": 64, "max_pipeline_items": 1}));
    let refused = wait_for("the metadata are in force", || {
        let response = stage.send(&[], &two);
        (response.status != 200).then_some(response)
    });
    let reason = json!({"error_msg": "too many pipeline requests, 2 exceeds the maximum of 1"});
    assert_eq!((refused.status, refused.json()), (400, reason));
    let long = json!({"pipeline": [{"path": "/a", "body": "x".repeat(64)}]});
    let size = long.to_string().len();
    let refused = stage.send(&[], &long);
    let reason = format!("request size {size} is greater than the maximum size 64 allowed");
    assert_eq!((refused.status, refused.json()), (413, json!({"error_msg": reason})));
}

#[test]
fn protected_metrics_are_served_by_a_route() {
    let stage = Stage::new(&[]);
    stage.route("a", "/a", json!({"prometheus": {}}));
    let metadata = json!({
        "disabled_labels": {"http_status": ["matched_uri"]}, "extra_labels": {"http_status": [{"at": "$uri"}]}
    });
    stage.weir.put("plugin_metadata/prometheus", metadata);
    let plugins = json!({"public-api": {"uri": "/apisix/prometheus/metrics"}, "key-auth": {}});
    stage.weir.put("routes/metrics", json!({"uri": "/m", "plugins": plugins}));
    stage.weir.put("consumers", json!({"username": "jack"}));
    stage.weir.put("consumers/jack/credentials/k", json!({"plugins": {"key-auth": {"key": "jack-key"}}}));
    assert_eq!(stage.weir.get("/a").status, 200);
    assert_eq!(stage.weir.get("/m").status, 401);
    let line = "apisix_http_status{code=\"200\",route=\"a\",matched_uri=\"\"";
    wait_until("the request is counted", || {
        let response = stage.weir.client().request("GET", "/m", &[("apikey", "jack-key")], b"");
        assert_eq!(response.status, 200, "{}", response.text());
        assert!(response.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
        response
            .text()
            .lines()
            .any(|found| found.starts_with(line) && found.contains("response_source=\"upstream\",at=\"/a\"}"))
    });
}

#[test]
fn switched_off_plugin_has_no_endpoint() {
    let stage = Stage::new(&["--plugins", "public-api,prometheus"]);
    let response = stage.send(&[], &json!({"pipeline": [{"path": "/a"}]}));
    assert_eq!((response.status, response.text().as_str()), (404, ""));
}

#[test]
fn request_validation_refuses_with_its_own_status() {
    let stage = Stage::new(&[]);
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
    let plugin = json!({"request-validation": {
        "body_schema": schema, "header_schema": {"required": ["X-Version"]}, "max_req_body_size": 32, "rejected_code": 422,
    }});
    stage.route("a", "/a", plugin);
    let post = |fields: &[(&str, &str)], body: &str| {
        let response = stage.weir.client().request("POST", "/a", fields, body.as_bytes());
        (response.status, response.text())
    };
    let good = [("x-version", "1")];
    assert_eq!(post(&[], "{\"a\":1}"), (422, "property \"x-version\" is required".to_owned()));
    assert_eq!(post(&good, "{}"), (422, "property \"a\" is required".to_owned()));
    assert_eq!(post(&good, &format!("{{\"a\":1,\"b\":\"{}\"}}", "x".repeat(40))), (422, String::new()));
    assert_eq!(post(&good, "{ \"a\": \"x\", \"a\": 1 }").0, 200);
    assert_eq!(stage.origin.last_request().body, b"{\"a\":1}");
    assert_eq!(stage.origin.requests().len(), 1);
    stage.route("large", "/large", json!({"request-validation": {"body_schema": schema}}));
    let large = |value: &str| {
        let body = format!("{{\"pad\":\"{}\",\"a\":{value}}}", "x".repeat(300_000));
        let response = stage.weir.client().request("POST", "/large", &[], body.as_bytes());
        (response.status, stage.origin.requests().len())
    };
    assert_eq!(
        (large("\"no\""), large("1")),
        ((400, 1), (200, 2)),
        "large bodies are checked on another thread"
    );
}

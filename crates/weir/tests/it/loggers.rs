//! http-logger through the real gateway with a real log server: the entries and their times while the server
//! runs, stops, comes back or is too slow; and the delivery of queued entries at the end of the instance.

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Signal, Step, Weir, wait_until};

use crate::support::BINARY;

/// A gateway in front of an origin that answers `hello`.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        Stage { weir: Weir::start(BINARY), origin: Origin::answering("hello") }
    }

    /// Puts the route `id` at `/id` with a logger to `server`.
    fn log(&self, id: &str, server: &str, more: Value) {
        let mut logger = json!({"uri": server});
        logger.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let nodes = json!({self.origin.address().to_string(): 1});
        self.weir.put(
            &format!("routes/{id}"),
            json!({"uri": format!("/{id}"), "upstream": {"nodes": nodes}, "plugins": {"http-logger": logger}}),
        );
    }

    fn post(&self, path: &str, body: &[u8]) -> u16 {
        self.weir.client().request("POST", path, &[("X-A", "b")], body).status
    }

    /// The value of the sample of this metric with this label.
    fn metric(&self, name: &str, label: &str) -> Option<f64> {
        let text = Client::connect(self.weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        let line = text.lines().find(|line| line.starts_with(name) && line.contains(label))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

fn uri(server: &Origin) -> String {
    format!("http://{}/logs", server.address())
}

/// The entries of all batches that a log server received, in order.
fn entries(server: &Origin) -> Vec<Value> {
    let batches = server.requests().into_iter().map(|request| serde_json::from_slice(&request.body).unwrap());
    batches.flat_map(|batch: Value| batch.as_array().cloned().unwrap_or_else(|| vec![batch])).collect()
}

#[test]
fn log_entry_has_all_or_chosen_fields() {
    let (stage, server) = (Stage::new(), Origin::answering(""));
    stage.log(
        "whole",
        &uri(&server),
        json!({"batch_max_size": 1, "auth_header": "Bearer letmein", "include_req_body": true, "include_resp_body": true,
               "max_resp_body_bytes": 4, "log_format_extra": {"tenant": "$http_x_a"}}),
    );
    assert_eq!(stage.post("/whole?x=1", b"ping"), 200);
    let sent = server.wait_for_requests(1).remove(0);
    assert_eq!((sent.method.as_str(), sent.target.as_str()), ("POST", "/logs"));
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.header("authorization"), Some("Bearer letmein"));
    let entry: Value = serde_json::from_slice(&sent.body).unwrap();
    let at = |pointer: &str| entry.pointer(pointer).cloned().unwrap_or_default();
    for (pointer, expected) in [
        ("/request/uri", json!("/whole?x=1")),
        ("/request/method", json!("POST")),
        ("/request/headers/x-a", json!("b")),
        ("/request/querystring", json!({"x": "1"})),
        ("/request/body", json!("ping")),
        ("/response/status", json!(200)),
        ("/response/body", json!("hell")),
        ("/upstream", json!(stage.origin.address().to_string())),
        ("/client_ip", json!("127.0.0.1")),
        ("/route_id", json!("whole")),
        ("/service_id", json!("")),
        ("/tenant", json!("b")),
    ] {
        assert_eq!(at(pointer), expected, "{pointer} of {entry}");
    }
    assert!(at("/latency").as_f64().unwrap() >= at("/upstream_latency").as_f64().unwrap(), "{entry}");
    assert_eq!(stage.origin.last_request().text(), "ping", "the body passed on its way");

    stage
        .weir
        .put("plugin_metadata/http-logger", json!({"log_format": {"path": "$uri", "status": "$status"}}));
    stage.log("chosen", &uri(&server), json!({"batch_max_size": 1}));
    stage.post("/chosen", b"");
    wait_until("the chosen entry has come", || entries(&server).len() == 2);
    let chosen = json!({"path": "/chosen", "status": 200, "route_id": "chosen"});
    assert_eq!(entries(&server)[1], chosen);
    stage.weir.delete("plugin_metadata/http-logger");
    wait_until("the metadata is out of force", || {
        stage.post("/chosen", b"");
        entries(&server).last().unwrap().get("request").is_some()
    });
}

#[test]
fn batches_are_filled_or_sent_in_time() {
    let (stage, server) = (Stage::new(), Origin::answering(""));
    stage.log(
        "full",
        &uri(&server),
        json!({"batch_max_size": 3, "inactive_timeout": 3_600, "buffer_duration": 3_600}),
    );
    for _ in 0..5 {
        stage.post("/full", b"");
    }
    let sent = server.wait_for_requests(1);
    let batch: Value = serde_json::from_slice(&sent[0].body).unwrap();
    assert_eq!((sent.len(), batch.as_array().map(Vec::len)), (1, Some(3)));
    wait_until("two entries wait", || {
        stage.metric("apisix_batch_process_entries", "route_id=\"full\"") == Some(2.0)
    });

    let lines = Origin::answering("");
    stage.log(
        "line",
        &uri(&lines),
        json!({"batch_max_size": 100, "inactive_timeout": 1, "concat_method": "new_line"}),
    );
    stage.post("/line", b"");
    stage.post("/line", b"");
    let sent = lines.wait_for_requests(1);
    assert_eq!((sent[0].header("content-type"), sent[0].text().lines().count()), (Some("text/plain"), 2));
}

#[test]
fn queue_survives_other_changes_and_flushes_last() {
    let (stage, server) = (Stage::new(), Origin::answering(""));
    let waiting = json!({"batch_max_size": 3, "inactive_timeout": 3_600, "buffer_duration": 3_600});
    stage.log("1", &uri(&server), waiting.clone());
    stage.post("/1", b"");
    stage.weir.put("routes/other", json!({"uri": "/other", "upstream": {"nodes": {"127.0.0.1:1": 1}}}));
    let nodes = json!({stage.origin.address().to_string(): 1});
    let mut logger = waiting;
    logger["uri"] = json!(uri(&server));
    let again = json!({"uri": "/1", "upstream": {"nodes": nodes}, "name": "changed", "plugins": {"http-logger": logger}});
    stage.weir.put("routes/1", again);
    stage.post("/1", b"");
    stage.post("/1", b"");
    assert_eq!((server.wait_for_requests(1).len(), entries(&server).len()), (1, 3), "one batch of all three");
    stage.post("/1", b"");
    stage.weir.delete("routes/1");
    wait_until("what was left goes out with the route", || entries(&server).len() == 4);
}

#[test]
fn returning_log_server_gets_kept_entries() {
    let (stage, address) = (Stage::new(), Origin::nowhere());
    let server = format!("http://{address}/logs");
    stage.log("kept", &server, json!({"batch_max_size": 1, "max_retry_count": 10_000, "retry_delay": 0}));
    stage.log("lost", &server, json!({"batch_max_size": 1, "retry_delay": 0}));
    assert_eq!(
        (stage.post("/kept", b""), stage.post("/lost", b"")),
        (200, 200),
        "no request waits for the log"
    );
    let failed = "weir_batch_entries_total{name=\"http logger\",route_id=\"lost\"";
    wait_until("what may not be repeated is given up", || {
        stage.metric(failed, "result=\"failed\"") == Some(1.0)
    });
    wait_until("and told", || stage.weir.stderr().join("\n").contains("could not be delivered and are lost"));
    let reason = format!("cannot connect to {address}");
    wait_until("with the reason", || stage.weir.stderr().join("\n").contains(&reason));
    let back = Origin::start_at(&address.to_string(), |_| Reply::ok(""));
    let sent = back.wait_for_requests(1);
    assert!(sent[0].text().contains("/kept"), "{}", sent[0].text());
    let counted = "weir_batch_entries_total{name=\"http logger\",route_id=\"kept\"";
    wait_until("it is counted", || stage.metric(counted, "result=\"sent\"") == Some(1.0));

    let refusing = Origin::start(|_| Reply::status(500, "disk full"));
    stage.log(
        "refused",
        &uri(&refusing),
        json!({"batch_max_size": 1, "max_retry_count": 1, "retry_delay": 0}),
    );
    stage.post("/refused", b"");
    assert_eq!(refusing.wait_for_requests(2).len(), 2, "once more and no oftener");
    let failed = "weir_batch_entries_total{name=\"http logger\",route_id=\"refused\"";
    wait_until("a refusal is a failure", || stage.metric(failed, "result=\"failed\"") == Some(1.0));
}

#[test]
fn slow_log_server_costs_entries_only() {
    let stage = Stage::new();
    let gate = Signal::new();
    let waiting = gate.clone();
    let server = Origin::start(move |_| Reply::new().wait(&waiting).then(Step::Close));
    stage.weir.put("plugin_metadata/http-logger", json!({"max_pending_entries": 20}));
    stage.log("slow", &uri(&server), json!({"batch_max_size": 1, "timeout": 600}));
    let mut client = stage.weir.client();
    for _ in 0..50 {
        assert_eq!(client.get("/slow").status, 200);
    }
    let series = "weir_batch_entries_total{name=\"http logger\",route_id=\"slow\"";
    // The last request is logged when it ends, which may be after its client has read the response.
    wait_until("all are counted", || stage.metric(series, "result=\"dropped\"") == Some(30.0));
    assert_eq!(stage.metric("apisix_batch_process_entries", "route_id=\"slow\""), Some(20.0));
    let notices = |weir: &Weir| weir.stderr().iter().filter(|line| line.contains("a queue is full")).count();
    wait_until("the loss is told", || notices(&stage.weir) > 0);
    assert_eq!(notices(&stage.weir), 1, "once, not for each entry");
    gate.set();
}

#[test]
fn shutdown_delivers_queued_entries() {
    let (mut stage, server) = (Stage::new(), Origin::answering(""));
    stage.log(
        "1",
        &uri(&server),
        json!({"batch_max_size": 100, "inactive_timeout": 3_600, "buffer_duration": 3_600}),
    );
    for _ in 0..3 {
        stage.post("/1", b"");
    }
    assert_eq!(server.requests().len(), 0);
    stage.weir.terminate();
    assert!(stage.weir.wait_for_exit().success());
    assert_eq!(entries(&server).len(), 3);
}

#[test]
fn shutdown_does_not_wait_for_stuck_log_server() {
    let never = Signal::new();
    let waiting = never.clone();
    let server = Origin::start(move |_| Reply::new().wait(&waiting).then(Step::Close));
    let weir = Weir::builder(BINARY).arguments(&["--grace", "1"]).start();
    let mut stage = Stage { weir, origin: Origin::answering("hello") };
    stage.log("1", &uri(&server), json!({"batch_max_size": 1, "timeout": 3_600}));
    stage.post("/1", b"");
    server.wait_for_requests(1);
    stage.weir.terminate();
    assert!(stage.weir.wait_for_exit().success());
    let log = stage.weir.stderr().join("\n");
    assert!(log.contains("was not delivered in time and is lost"), "{log}");
    never.set();
}

#[test]
fn masked_parts_are_in_no_log_and_reach_the_upstream() {
    let server = Origin::answering("");
    let origin = Origin::answering("hello");
    let weir = Weir::builder(BINARY)
        .arguments(&["--access-log", "stdout", "--access-log-format", "$request|$http_x_key|$status"])
        .start();
    let masks = json!({"request": [
        {"type": "query", "name": "password", "action": "remove"},
        {"type": "query", "name": "card", "action": "regex", "regex": "(\\d+)-\\d+-(\\d+)", "value": "$1-**-$2"},
        {"type": "header", "name": "X-Key", "action": "replace", "value": "*****"},
        {"type": "body", "body_format": "json", "name": "$.users[*].token", "action": "replace", "value": "*****"},
        {"type": "body", "body_format": "urlencoded", "name": "secret", "action": "remove"},
    ]});
    let logger = json!({
        "uri": uri(&server), "batch_max_size": 1, "include_req_body": true,
        "log_format_extra": {"line": "$request", "key": "$http_x_key", "card": "$arg_card"},
    });
    let nodes = json!({origin.address().to_string(): 1});
    let plugins = json!({"data-mask": masks, "http-logger": logger});
    weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": plugins}));
    let users = |token: &str| format!(r#"{{"users":[{{"name":"a","token":"{token}"}}]}}"#);
    for (number, (media_type, body, logged)) in [
        ("application/json", users("t-1"), users("*****")),
        ("application/x-www-form-urlencoded", "secret=t-1&b=c".into(), "b=c".into()),
    ]
    .into_iter()
    .enumerate()
    {
        let path = "/p?password=t-1&card=11-99-22&a=b";
        let sent = [("X-Key", "t-1"), ("Content-Type", media_type)];
        assert_eq!(weir.client().request("POST", path, &sent, body.as_bytes()).status, 200);
        let seen = origin.last_request();
        assert_eq!(
            (seen.target.as_str(), seen.text().as_str(), seen.header("x-key")),
            (path, &*body, Some("t-1"))
        );
        let entry: Value =
            serde_json::from_slice(&server.wait_for_requests(number + 1)[number].body).unwrap();
        let masked = "/p?card=11-**-22&a=b";
        for (pointer, expected) in [
            ("/request/uri", json!(masked)),
            ("/request/querystring", json!({"card": "11-**-22", "a": "b"})),
            ("/request/headers/x-key", json!("*****")),
            ("/request/body", json!(logged)),
            ("/line", json!(format!("POST {masked} HTTP/1.1"))),
            ("/key", json!("*****")),
            ("/card", json!("11-**-22")),
        ] {
            assert_eq!(entry.pointer(pointer), Some(&expected), "{pointer} of {entry}");
        }
    }
    let line = "POST /p?card=11-**-22&a=b HTTP/1.1|*****|200";
    wait_until("both requests are in the access log", || {
        weir.stdout().iter().filter(|known| *known == line).count() == 2
    });
}

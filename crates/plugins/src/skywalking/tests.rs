//! Configurations of `skywalking`, the contexts that it reads and writes, and the segments that it reports.

use exchange::testing::{Scene, check_configuration, decide, lines, respond};
use model::catalog::SchemaType;
use serde_json::json;
use testkit::{Origin, wait_until};

use super::*;

#[test]
fn configurations() {
    for (config, fault) in [
        (json!({}), None),
        (json!({"sample_ratio": 0.00001}), None),
        (json!({"sample_ratio": 0}), Some("sample_ratio")),
        (json!({"sample_ratio": 1.5}), Some("sample_ratio")),
    ] {
        check_configuration(&KIND, SchemaType::Plugin, &config, fault);
    }
    for (metadata, fault) in [
        (json!({}), None),
        (json!({"service_name": "a", "report_interval": 1, "endpoint_addr": "https://oap:12800"}), None),
        (json!({"endpoint_addr": "oap:12800"}), Some("endpoint_addr")),
        (json!({"report_interval": 0}), Some("report_interval")),
    ] {
        check_configuration(&KIND, SchemaType::Metadata, &metadata, fault);
    }
}

/// Runs a request with these fields; gives those that the upstream gets, and the segment.
fn run(fields: &str, status: u16) -> (Vec<String>, Value) {
    let (mut scene, server) = (Scene::new(), Origin::answering(""));
    let metadata = json!({
        "endpoint_addr": format!("http://{}/", server.address()), "service_name": "s", "service_instance_name": "i",
    });
    let plugin = scene.build_with(&KIND, &json!({}), Some(&metadata));
    let head = format!("GET /orders/7?x=1 HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
    let mut exchange = scene.exchange(head.as_bytes());
    exchange.instance.set(9);
    assert!(decide(plugin.rewrite(&mut exchange)).is_none());
    let passed = lines(&exchange.request.headers);
    respond(&mut exchange, status, &[]);
    exchange.times.ended_ns = exchange.times.started_ns + 7_000_000;
    plugin.log(&exchange);
    drop((plugin, scene));
    let requests = server.wait_for_requests(2);
    let described =
        json!({"service": "s", "serviceInstance": "i", "properties": [{"key": "language", "value": "rust"}]});
    assert_eq!(requests[0].target, "/v3/management/reportProperties");
    assert_eq!(serde_json::from_slice::<Value>(&requests[0].body).unwrap(), described);
    assert_eq!((&*requests[1].method, &*requests[1].target), ("POST", "/v3/segments"));
    assert_eq!(requests[1].header("content-type"), Some("application/json"));
    let segments: Value = serde_json::from_slice(&requests[1].body).unwrap();
    assert_eq!(segments.as_array().map(Vec::len), Some(1));
    (passed, segments[0].clone())
}

fn field<'l>(lines: &'l [String], name: &str) -> Option<&'l str> {
    lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn segment_has_entry_and_exit_of_protocol() {
    let (passed, segment) = run("", 503);
    assert_eq!((&segment["service"], &segment["serviceInstance"]), (&json!("s"), &json!("i")));
    assert_eq!(segment["traceId"], segment["traceSegmentId"]);
    let [exit, entry] = &segment["spans"].as_array().unwrap()[..] else { panic!("{segment}") };
    let mut entry = entry.clone();
    let start = entry["startTime"].take().as_u64().unwrap();
    assert_eq!(entry["endTime"].take().as_u64().unwrap() - start, 7);
    assert!(start > 1_700_000_000_000, "milliseconds since 1970");
    let expected = json!({
        "spanId": 0, "parentSpanId": -1, "startTime": null, "endTime": null, "spanLayer": "Http", "componentId": 6002,
        "operationName": "/orders/7", "spanType": "Entry", "isError": true, "tags": [
            {"key": "http.method", "value": "GET"},
            {"key": "http.params", "value": "http://a.example/orders/7?x=1"},
            {"key": "http.status_code", "value": "503"},
        ],
    });
    assert_eq!(entry, expected);
    assert_eq!((&exit["spanId"], &exit["parentSpanId"]), (&json!(1), &json!(0)));
    assert_eq!((&exit["spanType"], &exit["peer"]), (&json!("Exit"), &json!("upstream service")));
    let carrier = context::reference(field(&passed, "sw8").unwrap().as_bytes()).unwrap();
    assert_eq!(carrier.trace_id, segment["traceId"].as_str().unwrap());
    assert_eq!(carrier.segment_id, segment["traceSegmentId"].as_str().unwrap());
    let rest = (carrier.span_id, &*carrier.service, &*carrier.instance, &*carrier.endpoint, &*carrier.peer);
    assert_eq!(rest, (1, "s", "i", "/orders/7", "upstream service"));
}

#[test]
fn trace_of_the_caller_is_joined() {
    let names = Names::new("shop", "shop-1");
    let carrier = context::carrier("trace-9", "segment-9", &names, "/cart");
    let (_, segment) = run(&format!("sw8: {carrier}\r\nRequest-Id: other\r\n"), 200);
    assert_eq!(segment["traceId"], "trace-9");
    let reference = json!([{
        "refType": "CrossProcess", "parentSpanId": 1, "traceId": "trace-9", "parentTraceSegmentId": "segment-9",
        "parentService": "shop", "parentServiceInstance": "shop-1", "parentEndpoint": "/cart",
        "networkAddressUsedAtPeer": "upstream service",
    }]);
    assert_eq!(segment["spans"][1]["refs"], reference);
    assert_eq!(segment["spans"][1]["isError"], false);

    let (passed, segment) = run("sw8: garbage\r\nRequest-Id: mine\r\nsw8-correlation: a\r\n", 200);
    assert_eq!(segment["traceId"], "mine");
    assert_eq!(segment["spans"][1].get("refs"), None);
    assert_eq!(field(&passed, "sw8-correlation"), None);
    let (passed, _) = run("sw8-correlation: a2V5:dmFsdWU=\r\n", 200);
    assert_eq!(field(&passed, "sw8-correlation"), Some("a2V5:dmFsdWU="));
}

#[test]
fn sample_ratio_leaves_requests_alone() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({"sample_ratio": 0.00001}));
    let mut untouched = 0;
    for _ in 0..100 {
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(decide(plugin.rewrite(&mut exchange)).is_none());
        untouched += u32::from(!exchange.request.headers.contains("sw8"));
    }
    assert!(untouched >= 98, "{untouched}");
}

#[test]
fn instance_is_kept_alive_after_it_is_known() {
    let server = Origin::answering("");
    let (scene, address) = (Scene::new(), format!("http://{}", server.address()));
    let metadata =
        json!({"endpoint_addr": address, "report_interval": 1, "service_instance_name": "$hostname"});
    let plugin = scene.build_with(&KIND, &json!({}), Some(&metadata));
    let mut scene = scene;
    let paths = || server.requests().into_iter().map(|request| request.target).collect::<Vec<_>>();
    for expected in ["/v3/management/reportProperties", "/v3/management/keepAlive"] {
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(decide(plugin.rewrite(&mut exchange)).is_none());
        plugin.log(&exchange);
        wait_until("the instance and its segment are reported", || {
            paths().ends_with(&[expected.to_owned(), "/v3/segments".to_owned()])
        });
    }
    let reported: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
    assert_eq!(reported["serviceInstance"], json!(host::read_machine_name()));
}

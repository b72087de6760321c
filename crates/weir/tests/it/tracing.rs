//! The plugins of tracing through the real gateway, with the collector of OpenTelemetry, Zipkin, and a
//! stand-in for the OAP server of SkyWalking.

use serde_json::{Value, json};
use testkit::{Client, Origin, Otelcol, Prometheus, Weir, Zipkin, wait_for, wait_until};

use crate::support::BINARY;

/// A gateway in front of an origin, with a route for every path that has these plugins.
fn traced(weir: &Weir, origin: &Origin, plugins: Value) {
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/traced", json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": plugins}));
}

/// The metadata of `opentelemetry` for a collector; batches leave at once.
fn collector(address: &str, protocol: &str) -> Value {
    json!({
        "collector": {"address": address, "protocol": protocol},
        "batch_span_processor": {"inactive_timeout": 0, "batch_timeout": 0},
        "resource": {"service.name": "shop-gateway"},
        "set_ngx_var": true,
        "spans": {"plugins": "all"},
    })
}

/// The context of a caller with a trace that ends in these two digits.
fn parent(trace: &str, flags: &str) -> String {
    format!("00-0af7651916cd43dd8448eb211c8031{trace}-b7ad6b7169203331-{flags}")
}

#[test]
#[ignore = "make test-peers: the collector of OpenTelemetry"]
fn collector_gets_spans_over_http_and_grpc() {
    let (otelcol, origin) = (Otelcol::start(), Origin::answering("hello"));
    let format = ["--access-log", "stdout", "--access-log-format", "<$opentelemetry_trace_id> $uri"];
    let weir = Weir::builder(BINARY).arguments(&format).start();
    let sampler = json!({"name": "parent_base", "options": {"root": {"name": "always_on"}}});
    traced(
        &weir,
        &origin,
        json!({"opentelemetry": {"sampler": sampler}, "uri-blocker": {"block_rules": ["nothing"]}}),
    );
    let (http, grpc) = (otelcol.http_address().to_string(), otelcol.grpc_address().to_string());
    for (protocol, address, digits) in [("http", &http, "10"), ("grpc", &grpc, "20")] {
        weir.put("plugin_metadata/opentelemetry", collector(address, protocol));
        let path = format!("/{protocol}");
        let get = |context: &str| weir.client().request("GET", &path, &[("Traceparent", context)], b"");
        let unsampled = parent("ff", "00");
        assert_eq!((get(&unsampled).status, get(&parent(digits, "01")).status), (200, 200));
        let trace_id = parent(digits, "01")[3..35].to_owned();
        let span = otelcol.wait_for_span(|span| span.trace_id == trace_id && span.kind == "Server");
        assert_eq!((&*span.name, &*span.parent_id, &*span.status), ("GET /*", "b7ad6b7169203331", "Unset"));
        let attribute = |name: &str| span.attributes.get(name).map(String::as_str);
        assert_eq!(attribute("http.response.status_code"), Some("Int(200)"));
        assert_eq!(attribute("apisix.route_id"), Some("Str(traced)"));
        assert_eq!(attribute("apisix.response_source"), Some("Str(upstream)"));
        let server_port = format!("Int({})", weir.proxy().port());
        for (name, expected) in [
            ("http.request.method", "Str(GET)"),
            ("url.path", &*format!("Str({path})")),
            ("url.scheme", "Str(http)"),
            ("http.route", "Str(/*)"),
            ("server.address", "Str(127.0.0.1)"),
            ("server.port", &server_port),
            ("client.address", "Str(127.0.0.1)"),
            ("network.peer.address", "Str(127.0.0.1)"),
            ("network.protocol.version", "Str(1.1)"),
        ] {
            assert_eq!(attribute(name), Some(expected), "{name}");
        }
        let attempt = otelcol.wait_for_span(|span| span.trace_id == trace_id && span.kind == "Client");
        assert_eq!((&attempt.parent_id, &*attempt.name), (&span.id, "GET"));
        let port = format!("Int({})", origin.port());
        assert_eq!(attempt.attributes.get("server.port"), Some(&port));
        let url = format!("Str(http://{}{path})", origin.address());
        assert_eq!(attempt.attributes.get("url.full"), Some(&url));
        let name = "apisix.phase.rewrite.plugins.uri-blocker";
        let plugin = otelcol.wait_for_span(|span| span.trace_id == trace_id && span.name == name);
        assert_eq!((&plugin.parent_id, &*plugin.kind), (&span.id, "Internal"));
        let passed = origin.last_request().header("traceparent").unwrap().to_owned();
        assert_eq!(passed, format!("00-{trace_id}-{}-01", span.id));
        assert!(otelcol.spans().iter().all(|span| span.trace_id != unsampled[3..35]), "it was not sampled");
        wait_until("the access log has the trace", || {
            weir.stdout().contains(&format!("<{trace_id}> {path}"))
        });
    }
    assert!(otelcol.output().contains("service.name: Str(shop-gateway)"), "{}", otelcol.output());

    weir.client().request("GET", "/garbage", &[("Traceparent", "00-garbage"), ("Tracestate", "a=1")], b"");
    let span = otelcol
        .wait_for_span(|span| span.attributes.get("url.path").is_some_and(|path| path == "Str(/garbage)"));
    assert_eq!((span.trace_id.len(), &*span.parent_id), (32, ""));
    assert_eq!(origin.last_request().header("tracestate"), None);
}

#[test]
#[ignore = "make test-peers: the collector of OpenTelemetry"]
fn failed_attempts_and_statuses_are_errors_of_spans() {
    let (otelcol, origin) = (Otelcol::start(), Origin::answering("hello"));
    let weir = Weir::start(BINARY);
    weir.put("plugin_metadata/opentelemetry", collector(&otelcol.http_address().to_string(), "http"));
    let nodes = json!([
        {"host": "127.0.0.1", "port": Origin::nowhere().port(), "weight": 1, "priority": 1},
        {"host": "127.0.0.1", "port": origin.port(), "weight": 1, "priority": 0},
    ]);
    let plugins = json!({"opentelemetry": {"sampler": {"name": "always_on"}}});
    let route = |retries: u32| json!({"uri": "/*", "upstream": {"nodes": nodes, "retries": retries}, "plugins": plugins});
    weir.put("routes/1", route(1));
    assert_eq!(weir.get("/retried").text(), "hello");
    let failed = otelcol.wait_for_span(|span| span.kind == "Client" && span.status == "Error");
    assert_eq!(failed.attributes.get("error.type").map(String::as_str), Some("Str(connect_failed)"));
    let second = otelcol.wait_for_span(|span| span.attributes.contains_key("http.request.resend_count"));
    assert_eq!((second.parent_id, &*second.status), (failed.parent_id.clone(), "Unset"));
    let request = otelcol.wait_for_span(|span| span.id == failed.parent_id);
    assert_eq!(&*request.status, "Unset");

    weir.put("routes/1", route(0));
    assert_eq!(weir.get("/refused").status, 502);
    let is_error = |span: &testkit::CollectedSpan| span.kind == "Server" && span.status == "Error";
    let request = otelcol.wait_for_span(is_error);
    let attribute = |name: &str| request.attributes.get(name).map(String::as_str);
    assert_eq!(attribute("http.status_code"), Some("Int(502)"));
    assert_eq!(attribute("apisix.response_source"), Some("Str(nginx)"));
    assert_eq!(attribute("error.type"), Some("Str(connect_failed)"));
}

#[test]
fn collector_that_is_down_costs_bounded_memory() {
    let origin = Origin::answering("hello");
    let weir = Weir::start(BINARY);
    let mut metadata = collector(&Origin::nowhere().to_string(), "http");
    metadata["batch_span_processor"] =
        json!({"inactive_timeout": 0, "max_queue_size": 8, "max_export_batch_size": 4});
    weir.put("plugin_metadata/opentelemetry", metadata);
    traced(&weir, &origin, json!({"opentelemetry": {"sampler": {"name": "always_on"}}}));
    let mut client = weir.client();
    for _ in 0..40 {
        assert_eq!(client.get("/").status, 200);
    }
    let metric = |name: &str, label: &str| -> Option<u64> {
        let text = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        let is_it =
            |line: &&str| line.starts_with(name) && line.contains("opentelemetry") && line.contains(label);
        text.lines().find(is_it)?.rsplit(' ').next()?.parse().ok()
    };
    // Two spans for each request, and eight that wait.
    let dropped = wait_for("spans are dropped", || {
        metric("weir_batch_entries_total", "result=\"dropped\"").filter(|dropped| *dropped > 0)
    });
    assert!((1..=80).contains(&dropped), "{dropped}");
    assert!(metric("apisix_batch_process_entries", "").unwrap() <= 8);
    wait_until("the log says so", || {
        weir.stderr().iter().any(|line| line.contains("opentelemetry") && line.contains("full"))
    });
}

#[test]
#[ignore = "make test-peers: Zipkin"]
fn zipkin_shows_spans_below_the_caller() {
    let (zipkin, origin) = (Zipkin::start(), Origin::answering("hello"));
    let weir = Weir::start(BINARY);
    let endpoint = format!("http://{}/api/v2/spans", zipkin.address());
    traced(
        &weir,
        &origin,
        json!({"zipkin": {"endpoint": endpoint, "sample_ratio": 1, "service_name": "gate"}}),
    );
    let (trace, caller) = ("80f198ee56343ba864fe8b2a57d3eff7", "e457b5a2e4d86bd1");
    let b3 = format!("{trace}-{caller}-1");
    assert_eq!(weir.client().request("GET", "/orders?x=1", &[("b3", &b3)], b"").status, 200);
    let passed = origin.last_request();
    assert_eq!(passed.header("b3"), None);
    assert_eq!(passed.header("x-b3-traceid"), Some(trace));
    assert_eq!(weir.client().request("GET", "/", &[("b3", trace)], b"").status, 400);
    // The route is deleted so that what is left is sent at once.
    weir.delete("routes/traced");
    let spans = wait_for("Zipkin has the trace", || zipkin.trace(trace));
    let named =
        |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{spans:?}"));
    let (request, proxy) = (named("apisix.request"), named("apisix.proxy"));
    assert_eq!((&request["parentId"], &request["kind"]), (&json!(caller), &json!("SERVER")));
    assert_eq!(request["localEndpoint"]["serviceName"], "gate");
    assert_eq!(request["tags"]["http.url"], "/orders?x=1");
    assert_eq!(request["tags"]["apisix.response_source"], "upstream");
    assert_eq!(proxy["parentId"], request["id"]);
    assert_eq!(passed.header("x-b3-spanid"), proxy["id"].as_str());
    assert_eq!(named("apisix.response_span")["parentId"], request["id"]);
}

#[test]
fn skywalking_gets_segments_of_proxied_requests() {
    let (server, origin) = (Origin::answering("{}"), Origin::answering("hello"));
    let weir = Weir::start(BINARY);
    let address = format!("http://{}", server.address());
    weir.put("plugin_metadata/skywalking", json!({"endpoint_addr": address, "report_interval": 1}));
    traced(&weir, &origin, json!({"skywalking": {}}));
    assert_eq!(weir.get("/orders").text(), "hello");
    let carrier = origin.last_request().header("sw8").unwrap().to_owned();
    assert_eq!(carrier.split('-').count(), 8, "{carrier}");
    let sent = server.wait_for_requests(2);
    assert_eq!((&*sent[0].target, &*sent[1].target), ("/v3/management/reportProperties", "/v3/segments"));
    let segments: Value = serde_json::from_slice(&sent[1].body).unwrap();
    let exit = &segments[0]["spans"][0];
    assert_eq!((&exit["spanType"], &exit["operationName"]), (&json!("Exit"), &json!("/orders")));
    assert_eq!(exit["tags"], json!([{"key": "http.status_code", "value": "200"}]));
    assert_eq!(segments[0]["service"], "APISIX");
}

/// Slow requests are found by the ids that a bucket of the latencies has. Prometheus itself says that the
/// format is right.
#[test]
fn prometheus_finds_traces_in_latencies() {
    let origin = Origin::answering("hello");
    let weir = Weir::builder(BINARY).start();
    // Without `set_ngx_var`, which is about variables alone.
    weir.put("plugin_metadata/opentelemetry", json!({"collector": {"address": "127.0.0.1:9"}}));
    let sampler = json!({"name": "parent_base", "options": {"root": {"name": "always_off"}}});
    traced(&weir, &origin, json!({"opentelemetry": {"sampler": sampler}, "prometheus": {}}));
    for context in [parent("9c", "01"), parent("00", "00")] {
        let answer = weir.client().request("GET", "/", &[("Traceparent", &context)], b"");
        assert_eq!(answer.status, 200);
    }
    let prometheus = Prometheus::scraping(weir.address("metrics"));
    let window = "start=0&end=9999999999";
    let asked = format!("query_exemplars?query=apisix_http_latency_bucket&{window}");
    let found = wait_for("the exemplar is stored", || {
        let found = prometheus.api(&asked);
        found.as_array().is_some_and(|found| !found.is_empty()).then_some(found)
    });
    let exemplars: Vec<(&str, &str)> = (found.as_array().into_iter().flatten())
        .flat_map(|series| series["exemplars"].as_array().into_iter().flatten())
        .map(|one| &one["labels"])
        .map(|labels| (labels["trace_id"].as_str().unwrap(), labels["span_id"].as_str().unwrap()))
        .collect();
    let [(trace_id, span_id)] = exemplars[..] else { panic!("{found}") };
    assert_eq!((trace_id, span_id.len()), (&parent("9c", "01")[3..35], 16), "only the sampled one");
    assert_eq!(found[0]["seriesLabels"]["type"], "request");
    // The series are those of the plain text, and the counter of APISIX without a suffix is among them.
    wait_until("both requests are counted", || {
        let total = prometheus.api("query?query=sum(apisix_http_status)");
        total["result"][0]["value"][1] == "2"
    });
    let bounds = prometheus.api("query?query=apisix_http_latency_bucket{type=%22request%22,le=%221%22}");
    assert_eq!(bounds["result"].as_array().map(Vec::len), Some(1), "{bounds}");
    let health = prometheus.api("targets");
    assert_eq!(health["activeTargets"][0]["health"], "up", "{health}");
}

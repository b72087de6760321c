//! Configurations of `opentelemetry`, its samplers, and the spans that it reports.

use std::net::SocketAddr;

use exchange::exchange::{Attempt, ServiceName};
use exchange::failure::Cause;
use exchange::testing::{Scene, check_configuration, decide, respond, route};
use model::catalog::SchemaType;
use prost::Message;
use router::vars::{Variable, VariableSource};
use serde_json::json;
use testkit::{Origin, wait_for};

use super::otlp::decoded::DecodedExportRequest;
use super::*;

#[test]
fn configurations() {
    let sampler = |sampler: Value| json!({ "sampler": sampler });
    for (config, fault) in [
        (json!({}), None),
        (sampler(json!({"name": "always_on"})), None),
        (sampler(json!({"name": "trace_id_ratio", "options": {"fraction": 0.5}})), None),
        (sampler(json!({"name": "traceid_ratio"})), Some("sampler")),
        (sampler(json!({"name": "parent_base", "options": {"root": {"name": "parent_base"}}})), Some("root")),
        (sampler(json!({"options": {"fraction": "1"}})), Some("fraction")),
        (json!({"additional_attributes": ["http_x", "consumer_name"]}), None),
        (json!({"additional_attributes": [""]}), Some("additional_attributes")),
        (json!({"additional_attributes": ["post_arg.["]}), Some("additional_attributes")),
        (json!({"additional_header_prefix_attributes": [1]}), Some("additional_header_prefix_attributes")),
    ] {
        check_configuration(&KIND, SchemaType::Plugin, &config, fault);
    }
    for (metadata, fault) in [
        (json!({}), None),
        (json!({"resource": {"a": 1, "b": true, "c": "d"}}), None),
        (json!({"resource": {"a": []}}), Some("resource")),
        (json!({"collector": {"request_headers": {"a": {}}}}), Some("request_headers")),
        (json!({"collector": {"request_headers": {"a b": "c"}}}), Some("request_headers.a b")),
        (json!({"collector": {"address": "a:b:c"}}), Some("collector.address")),
        (json!({"collector": {"address": "https://c:4317", "protocol": "grpc"}}), None),
        (json!({"collector": {"protocol": "thrift"}}), Some("protocol")),
        (json!({"batch_span_processor": {"max_queue_size": 0}}), Some("max_queue_size")),
        (json!({"trace_id_source": "uuid"}), Some("trace_id_source")),
        (json!({"spans": {"plugins": "some"}}), Some("plugins")),
    ] {
        check_configuration(&KIND, SchemaType::Metadata, &metadata, fault);
    }
}

/// A plugin with a collector that keeps what it gets.
struct Stage {
    scene: Scene,
    collector: Origin,
    plugin: Arc<dyn Plugin>,
}

impl Stage {
    fn new(config: Value, mut metadata: Value) -> Stage {
        let mut of = route("r1");
        of.name = Some("orders".into());
        of.service = Some(Arc::new(ServiceName { id: "s1".into(), name: None, written: "{}".into() }));
        let scene = Scene::new().with_route(of);
        let collector = Origin::answering("");
        metadata["collector"] =
            json!({"address": collector.address().to_string(), "request_headers": {"X-Token": "t"}});
        // Batches are delivered beside each other: spans that a test compares in their order are one batch.
        let spans = metadata.as_object_mut().unwrap().remove("spans_of_batch").unwrap_or(json!(1));
        metadata["batch_span_processor"] =
            json!({"inactive_timeout": 3_600, "batch_timeout": 3_600, "max_export_batch_size": spans});
        let plugin = scene.build_with(&KIND, &config, Some(&metadata));
        Stage { scene, collector, plugin }
    }

    /// Runs a request with these lines of fields; gives the request as it is passed on.
    fn run(&mut self, fields: &str, end: impl Fn(&mut Exchange)) -> Vec<String> {
        let head = format!("GET /orders/7?x=1 HTTP/1.1\r\nHost: a.example:80\r\n{fields}\r\n");
        let mut exchange = self.scene.exchange(head.as_bytes());
        exchange.instance.set(5);
        assert!(decide(self.plugin.rewrite(&mut exchange)).is_none());
        let passed = exchange::testing::lines(&exchange.request.headers);
        exchange.times.ended_ns = exchange.times.started_ns + 5_000_000;
        respond(&mut exchange, 200, &[]);
        end(&mut exchange);
        self.plugin.log(&exchange);
        passed
    }

    /// The spans of all batches, once there are so many.
    fn received(&self, count: usize) -> DecodedExportRequest {
        wait_for("the spans have come", || {
            let mut whole = DecodedExportRequest::default();
            for request in self.collector.requests() {
                assert_eq!((&*request.method, &*request.target), ("POST", "/v1/traces"));
                assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
                assert_eq!(request.header("x-token"), Some("t"));
                whole.merge(&*request.body).unwrap();
            }
            (whole.spans().len() >= count).then_some(whole)
        })
    }
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn always() -> Value {
    json!({"sampler": {"name": "always_on"}})
}

fn field<'l>(lines: &'l [String], name: &str) -> Option<&'l str> {
    lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn span_of_request_has_attributes_of_contract() {
    let config = json!({
        "sampler": {"name": "always_on"},
        "additional_attributes": ["arg_x", "http_nothing"],
        "additional_header_prefix_attributes": ["x-my-*", "X-Other"],
    });
    let mut stage = Stage::new(config, json!({"resource": {"zone": 3, "prod": true}}));
    let fields = format!(
        "User-Agent: curl/8\r\nX-My-B: 1\r\nx-my-b: 2\r\nX-Other: o\r\nTraceparent: {PARENT}\r\nTracestate: a=1\r\n"
    );
    let passed = stage.run(&fields, |exchange| exchange.stats.answered_locally = true);
    let request = stage.received(1);
    assert_eq!(request.resource("service.name"), "\"APISIX\"");
    assert_eq!((request.resource("zone"), request.resource("prod")), ("3".into(), "true".into()));
    let span = request.spans()[0].clone();
    assert_eq!((&*span.name, span.kind, &*span.trace_state), ("GET /*", 2, "a=1"));
    assert_eq!(span.ended_ns - span.started_ns, 5_000_000);
    assert!(span.started_ns > 1_700_000_000_000_000_000, "nanoseconds since 1970");
    assert!(span.status.is_none());
    for (name, expected) in [
        ("net.host.name", "\"a.example\""),
        ("http.method", "\"GET\""),
        ("http.scheme", "\"http\""),
        ("http.target", "\"/orders/7?x=1\""),
        ("http.user_agent", "\"curl/8\""),
        ("http.request.method", "\"GET\""),
        ("url.scheme", "\"http\""),
        ("url.path", "\"/orders/7\""),
        ("url.query", "\"x=1\""),
        ("server.address", "\"a.example\""),
        ("server.port", "80"),
        ("client.address", "\"127.0.0.1\""),
        ("network.peer.address", "\"127.0.0.1\""),
        ("error.type", ""),
        ("http.request.method_original", ""),
        ("user_agent.original", "\"curl/8\""),
        ("network.protocol.version", "\"1.1\""),
        ("apisix.route_id", "\"r1\""),
        ("apisix.route_name", "\"orders\""),
        ("http.route", "\"/*\""),
        ("apisix.service_id", "\"s1\""),
        ("apisix.service_name", ""),
        ("apisix.response_source", "\"apisix\""),
        ("http.status_code", "200"),
        ("http.response.status_code", "200"),
        ("arg_x", "\"1\""),
        ("http_nothing", ""),
        ("x-my-b", "\"1, 2\""),
        ("X-Other", "\"o\""),
    ] {
        assert_eq!(span.attribute(name), expected, "{name}");
    }
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (trace, id) = (hexadecimal(&span.trace_id), hexadecimal(&span.span_id));
    assert_eq!(hexadecimal(&span.parent_span_id), PARENT[36..52]);
    assert_eq!(trace, PARENT[3..35]);
    assert_eq!(field(&passed, "traceparent"), Some(&*format!("00-{trace}-{id}-01")));
    assert_eq!(field(&passed, "Tracestate"), Some("a=1"));
}

#[test]
fn failure_attempts_and_plugins_are_spans_below() {
    let mut stage = Stage::new(always(), json!({"spans": {"slow_ms": 2}, "spans_of_batch": 4}));
    stage.run("", |exchange| {
        let started_ns = exchange.times.started_ns;
        let attempt = Attempt {
            address: SocketAddr::from(([127, 0, 0, 2], 81)),
            upstream: 0,
            endpoint_id: 1,
            scheme: "http",
            status: 0,
            failed: Some(Cause::ConnectFailed),
            started_ns: started_ns + 1_000_000,
            connect_us: 0,
            head_us: 0,
            total_us: 500,
        };
        exchange.attempts.push(attempt);
        exchange.attempts.push(Attempt { status: 502, failed: None, connect_us: 7, head_us: 9, ..attempt });
        respond(exchange, 502, &[]);
        exchange.timeline.record("key-auth", 1, PluginPhase::Rewrite, started_ns, started_ns + 1_999_999);
        exchange.timeline.record("opa", 1, PluginPhase::Access, started_ns, started_ns + 2_000_000);
    });
    let request = stage.received(4);
    let spans = request.spans();
    let shown: Vec<_> = spans
        .iter()
        .map(|span| {
            (&*span.name, span.kind, span.status.as_ref().map(|status| (status.code, &*status.message)))
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("GET /*", 2, Some((2, "upstream error: 502"))),
            ("GET", 3, Some((2, Cause::ConnectFailed.code()))),
            ("GET", 3, Some((2, "502"))),
            ("apisix.phase.access.plugins.opa", 1, None),
        ]
    );
    for (name, expected) in
        [("error.type", "\"502\""), ("weir.cause", "\"upstream_status\""), ("weir.phase", "\"wait\"")]
    {
        assert_eq!(spans[0].attribute(name), expected, "{name}");
    }
    let url = "\"http://127.0.0.2:81/orders/7?x=1\"";
    for (name, first, second) in [
        ("url.full", url, url),
        ("network.peer.address", "\"127.0.0.2\"", "\"127.0.0.2\""),
        ("network.peer.port", "81", "81"),
        ("server.address", "\"127.0.0.2\"", "\"127.0.0.2\""),
        ("server.port", "81", "81"),
        ("http.response.status_code", "", "502"),
        ("http.request.resend_count", "", "1"),
        ("weir.connect_us", "", "7"),
        ("weir.head_us", "", "9"),
        ("error.type", &format!("\"{}\"", Cause::ConnectFailed.code()), "\"502\""),
    ] {
        assert_eq!((&*spans[1].attribute(name), &*spans[2].attribute(name)), (first, second), "{name}");
    }
    assert!(spans[1..].iter().all(|span| span.parent_span_id == spans[0].span_id));
    assert_eq!(spans[1].started_ns - spans[0].started_ns, 1_000_000);
    assert_eq!(spans[1].ended_ns - spans[1].started_ns, 500_000);
}

#[test]
fn unregistered_method_is_other_in_spans() {
    let mut stage = Stage::new(always(), json!({}));
    let mut exchange = stage.scene.exchange(b"BREW /pot HTTP/1.1\r\nHost: a.example:8080\r\n\r\n");
    exchange.instance.set(5);
    assert!(decide(stage.plugin.rewrite(&mut exchange)).is_none());
    exchange.times.ended_ns = exchange.times.started_ns + 1;
    respond(&mut exchange, 418, &[]);
    stage.plugin.log(&exchange);
    let span = stage.received(1).spans()[0].clone();
    assert_eq!(&*span.name, "HTTP /*");
    for (name, expected) in [
        ("http.request.method", "\"_OTHER\""),
        ("http.request.method_original", "\"BREW\""),
        ("http.method", "\"BREW\""),
        ("server.port", "8080"),
        ("error.type", ""),
    ] {
        assert_eq!(span.attribute(name), expected, "{name}");
    }
    assert!(span.status.is_none(), "a fault of the client is no error of a server");
}

#[test]
fn unsampled_requests_only_pass_the_trace_on() {
    let parent_base = json!({"sampler": {"name": "parent_base"}});
    let mut stage = Stage::new(parent_base, json!({"set_ngx_var": true}));
    let unsampled = PARENT.replace("-01", "-00");
    for (fields, is_own_trace) in [
        (String::new(), true),
        (format!("traceparent: {unsampled}\r\n"), false),
        ("traceparent: garbage\r\ntracestate: a=1\r\n".to_owned(), true),
        (format!("traceparent: {PARENT}\r\ntraceparent: {PARENT}\r\n"), true),
    ] {
        let passed = stage.run(&fields, |exchange| {
            assert!(!exchange.timeline.is_on());
            assert!(!exchange.traces.opentelemetry.unwrap().is_sampled);
        });
        let parents: Vec<_> =
            passed.iter().filter(|line| line.to_lowercase().starts_with("traceparent")).collect();
        assert_eq!(parents.len(), 1, "{passed:?}");
        let parent = parents[0].split_once(": ").unwrap().1;
        assert!(parent.len() == 55 && parent.ends_with("-00"), "{parent}");
        assert_eq!(parent[3..35] != PARENT[3..35], is_own_trace, "{parent}");
        assert_ne!(parent[36..52], PARENT[36..52]);
        assert!(field(&passed, "tracestate").is_none(), "{passed:?}");
    }
    assert!(stage.collector.requests().is_empty());
}

#[test]
fn metadata_decide_about_variables_alone() {
    for is_set in [false, true] {
        let mut stage = Stage::new(always(), json!({ "set_ngx_var": is_set }));
        stage.run("", |exchange| {
            let id = Variable::parse("opentelemetry_trace_id").unwrap();
            assert_eq!(exchange.variable(&id).is_some(), is_set);
            assert!(exchange.traces.sampled().is_some(), "exemplars do not depend on it");
        });
    }
}

#[test]
fn masked_parts_of_the_request_are_not_exported() {
    let mut stage = Stage::new(always(), json!({}));
    // As `data-mask` does it before the log phase.
    stage.run("User-Agent: secret\r\n", |exchange| {
        exchange.request.set_query(Some(b"x=***"));
        exchange.request.headers.remove("user-agent");
    });
    let span = stage.received(1).spans()[0].clone();
    for (name, expected) in [
        ("http.target", "\"/orders/7?x=***\""),
        ("url.query", "\"x=***\""),
        ("http.user_agent", ""),
        ("user_agent.original", ""),
    ] {
        assert_eq!(span.attribute(name), expected, "{name}");
    }
}

#[test]
fn trace_id_is_taken_from_valid_request_id() {
    let id = "0123456789ABCDEF0123456789abcdef";
    let zeros = "0".repeat(32);
    for (source, fields, expected) in [
        ("x-request-id", format!("X-Request-Id: {id}\r\n"), true),
        ("random", format!("X-Request-Id: {id}\r\n"), false),
        ("x-request-id", "X-Request-Id: 8a6e0804-2bd0-4672-b79d-d97027f9071a\r\n".to_owned(), false),
        ("x-request-id", format!("X-Request-Id: {zeros}\r\n"), false),
        ("x-request-id", format!("X-Request-Id: {id}\r\nX-Request-Id: {id}\r\n"), false),
        ("x-request-id", "X-Request-Id: \r\n".to_owned(), false),
        ("x-request-id", String::new(), false),
    ] {
        let mut stage = Stage::new(json!({}), json!({"trace_id_source": source}));
        let passed = stage.run(&fields, |_| {});
        let parent = field(&passed, "traceparent").unwrap();
        assert_eq!(parent[3..35] == id.to_lowercase(), expected, "{source} {fields}");
        assert_ne!(parent[3..35], zeros);
    }
}

#[test]
fn without_metadata_requests_are_left_alone() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &always());
    let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(decide(plugin.rewrite(&mut exchange)).is_none());
    assert!(!exchange.request.headers.contains("traceparent"));
    plugin.log(&exchange);
}

//! Configurations of `zipkin`, the contexts that it reads and writes, and the spans that it reports.

use exchange::testing::{Scene, check_configuration, decide, finish, lines, respond};
use model::catalog::SchemaType;
use testkit::Origin as Server;

use super::*;

#[test]
fn configurations() {
    let base = json!({"endpoint": "http://127.0.0.1:9411/api/v2/spans", "sample_ratio": 1});
    let with = |more: Value| {
        let mut config = base.clone();
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    for (more, fault) in [
        (json!({}), None),
        (json!({"sample_ratio": 0.00001, "span_version": 1, "server_addr": "10.0.0.1"}), None),
        (json!({"sample_ratio": -0.1}), Some("sample_ratio")),
        (json!({"sample_ratio": 2}), Some("sample_ratio")),
        (json!({"server_addr": "10.0.0"}), Some("server_addr")),
        (json!({"server_addr": "bad addr"}), Some("server_addr")),
        (json!({"span_version": 3}), Some("span_version")),
        (json!({"endpoint": "127.0.0.1:9411"}), Some("not")),
        (json!({"endpoint": "ftp://a/"}), Some("ftp")),
    ] {
        check_configuration(&KIND, SchemaType::Plugin, &with(more), fault);
    }
    check_configuration(&KIND, SchemaType::Plugin, &json!({"sample_ratio": 1}), Some("endpoint"));
    check_configuration(&KIND, SchemaType::Plugin, &json!({"endpoint": "http://a/"}), Some("sample_ratio"));
}

/// A plugin with a server that keeps the spans.
struct Stage {
    scene: Scene,
    server: Server,
    plugin: Arc<dyn Plugin>,
}

impl Stage {
    fn new(more: Value) -> Stage {
        let (scene, server) = (Scene::new(), Server::answering(""));
        let mut config =
            json!({"endpoint": format!("http://{}/api/v2/spans", server.address()), "sample_ratio": 1});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let plugin = scene.build(&KIND, &config);
        Stage { scene, server, plugin }
    }

    /// Runs a request with these lines of fields; gives those that the upstream gets, or the status of a
    /// refusal.
    fn run(&mut self, fields: &str) -> Result<Vec<String>, u16> {
        let head = format!("GET /a%20b?x=%22 HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut exchange = self.scene.exchange(head.as_bytes());
        exchange.instance.set(3);
        if let Some(reply) = decide(self.plugin.rewrite(&mut exchange)) {
            assert!(reply.body.is_empty());
            self.plugin.log(&exchange);
            return Err(reply.status);
        }
        assert!(decide(self.plugin.access(&mut exchange)).is_none());
        let passed = lines(&exchange.request.headers);
        respond(&mut exchange, 201, &[]);
        finish(self.plugin.response_head(&mut exchange));
        exchange.times.ended_ns = exchange.local().clock_ns();
        self.plugin.log(&exchange);
        Ok(passed)
    }

    /// The spans of all requests, once the plugin is gone, which delivers what is left.
    fn received(self) -> Vec<Value> {
        let Stage { scene, server, plugin } = self;
        drop((plugin, scene));
        let request = server.wait_for_requests(1).remove(0);
        assert_eq!((&*request.method, &*request.target), ("POST", "/api/v2/spans"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        let spans: Value = serde_json::from_slice(&request.body).unwrap();
        spans.as_array().unwrap().clone()
    }
}

const TRACE: &str = "80f198ee56343ba864fe8b2a57d3eff7";
const SPAN: &str = "e457b5a2e4d86bd1";

fn field<'l>(lines: &'l [String], name: &str) -> Option<&'l str> {
    lines.iter().find_map(|line| {
        let (known, value) = line.split_once(": ")?;
        known.eq_ignore_ascii_case(name).then_some(value)
    })
}

#[test]
fn caller_decides_before_the_ratio() {
    let single = |rest: &str| format!("b3: {TRACE}-{SPAN}{rest}\r\n");
    for (ratio, fields, sampled) in [
        (1.0, String::new(), "1"),
        (0.00001, String::new(), "0"),
        (1.0, "x-b3-sampled: 0\r\n".to_owned(), "0"),
        (1.0, "X-B3-Sampled: false\r\n".to_owned(), "0"),
        (0.00001, "x-b3-sampled: 1\r\n".to_owned(), "1"),
        (0.00001, "x-b3-sampled: true\r\n".to_owned(), "1"),
        (0.00001, "x-b3-sampled: d\r\n".to_owned(), "0"),
        (0.00001, "x-b3-flags: 1\r\n".to_owned(), "1"),
        (0.00001, "x-b3-flags: 1\r\nx-b3-sampled: 0\r\n".to_owned(), "0"),
        (1.0, "b3: 0\r\n".to_owned(), "0"),
        (1.0, single(""), "1"),
        (1.0, single("-0-05e3ac9a4f6e3b90"), "0"),
        (0.00001, single("-1-05e3ac9a4f6e3b90"), "1"),
        (0.00001, single("-d"), "1"),
    ] {
        let passed = Stage::new(json!({"sample_ratio": ratio})).run(&fields).unwrap();
        assert_eq!(field(&passed, "x-b3-sampled"), Some(sampled), "{ratio} {fields}");
        assert_eq!(field(&passed, "b3"), None, "{fields}");
        let is_debug = fields.contains("-d") || fields.contains("flags: 1");
        assert_eq!(field(&passed, "x-b3-flags") == Some("1"), is_debug, "{fields}");
        assert_eq!(field(&passed, "x-b3-traceid") == Some(TRACE), fields.contains(TRACE), "{fields}");
        assert_eq!(field(&passed, "x-b3-spanid").unwrap().len(), 16, "{fields}");
    }
    assert_eq!(Stage::new(json!({})).run(&format!("b3: {TRACE}\r\n")), Err(400));
}

#[test]
fn unsampled_upstream_is_below_the_caller() {
    let passed = Stage::new(json!({})).run(&format!("b3: {TRACE}-{SPAN}-0-05e3ac9a4f6e3b90\r\n")).unwrap();
    assert_eq!(field(&passed, "x-b3-parentspanid"), Some(SPAN));
    assert_ne!(field(&passed, "x-b3-spanid"), Some(SPAN));
    let invalid = "x-b3-traceid: abc\r\nx-b3-spanid: 1\r\nx-b3-parentspanid: zz\r\nx-b3-sampled: 0\r\n";
    let passed = Stage::new(json!({})).run(invalid).unwrap();
    assert_eq!(field(&passed, "x-b3-traceid").map(str::len), Some(32));
    assert_eq!(field(&passed, "x-b3-parentspanid"), None);
    let short = format!("x-b3-traceid: {}\r\nx-b3-spanid: {SPAN}\r\n", &TRACE[..16]);
    assert_eq!(field(&Stage::new(json!({})).run(&short).unwrap(), "x-b3-traceid"), Some(&TRACE[..16]));
}

#[test]
fn spans_of_version_2_are_those_of_the_contract() {
    let mut stage = Stage::new(json!({"service_name": "a \"b\"", "server_addr": "1.2.3.4"}));
    let passed = stage.run(&format!("b3: {TRACE}-{SPAN}-1\r\n")).unwrap();
    let spans = stage.received();
    let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["apisix.proxy", "apisix.response_span", "apisix.request"]);
    let request = &spans[2];
    assert_eq!((&request["traceId"], &request["parentId"]), (&json!(TRACE), &json!(SPAN)));
    assert_eq!(field(&passed, "x-b3-spanid"), spans[0]["id"].as_str());
    assert_eq!(field(&passed, "x-b3-parentspanid"), request["id"].as_str());
    assert!(spans[..2].iter().all(|span| span["parentId"] == request["id"] && span["traceId"] == TRACE));
    assert_eq!(request["kind"], "SERVER");
    assert_eq!(request["localEndpoint"], json!({"serviceName": "a \"b\"", "ipv4": "1.2.3.4", "port": 9080}));
    assert_eq!(request["remoteEndpoint"], json!({"ipv4": "127.0.0.1", "port": 40000}));
    let tags = json!({
        "component": "apisix", "http.method": "GET", "http.url": "/a%20b?x=%22", "http.status_code": "201",
        "apisix.response_source": "apisix",
    });
    assert_eq!(request["tags"], tags);
    assert_eq!((&spans[0]["tags"], &spans[0]["remoteEndpoint"]), (&json!({}), &Value::Null));
    let time = |span: &Value, name: &str| span[name].as_u64().unwrap();
    let ends: Vec<_> = spans.iter().map(|span| time(span, "timestamp") + time(span, "duration")).collect();
    assert!(time(request, "timestamp") > 1_700_000_000_000_000, "microseconds since 1970");
    assert!(ends[0].abs_diff(time(&spans[1], "timestamp")) <= 1, "{spans:?}");
    assert!(ends[1].abs_diff(ends[2]) <= 1, "{spans:?}");
}

#[test]
fn spans_of_version_1_follow_the_phases() {
    let mut stage = Stage::new(json!({"span_version": 1}));
    stage.run("").unwrap();
    let spans = stage.received();
    let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    let expected =
        ["apisix.rewrite", "apisix.access", "apisix.body_filter", "apisix.proxy", "apisix.request"];
    assert_eq!(names, expected);
    assert_eq!(spans[2]["parentId"], spans[3]["id"]);
    assert_eq!(spans[3]["parentId"], spans[4]["id"]);
    assert_eq!(spans[4].get("parentId"), None);
    assert_eq!(
        spans[4]["localEndpoint"],
        json!({"serviceName": "APISIX", "ipv4": "127.0.0.1", "port": 9080})
    );
}

//! Configurations, and the responses that count; tests of the binary use a real origin.

use std::net::SocketAddr;

use exchange::exchange::Attempt;
use exchange::testing::{Scene, configuration_check, decide, with_fields};
use serde_json::json;

use super::*;

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    let with = |fields: Value| with_fields(json!({ "break_response_code": 502 }), &fields);
    check(with(json!({})), None);
    check(with(json!({ "unhealthy": { "failures": 1 }, "healthy": { "http_statuses": [200, 201] } })), None);
    check(with(json!({ "break_response_headers": [{ "key": "A", "value": "$remote_addr" }] })), None);
    check(json!({}), Some("property \"break_response_code\" is required"));
    check(json!({ "break_response_code": 199 }), Some("break_response_code"));
    check(json!({ "break_response_code": 600 }), Some("break_response_code"));
    check(with(json!({ "max_breaker_sec": 2 })), Some("max_breaker_sec"));
    check(with(json!({ "unhealthy": { "http_statuses": [] } })), Some("at least 1 items"));
    check(with(json!({ "unhealthy": { "http_statuses": [499] } })), Some("http_statuses"));
    check(with(json!({ "unhealthy": { "failures": 0 } })), Some("failures"));
    check(with(json!({ "healthy": { "http_statuses": [500] } })), Some("http_statuses"));
    check(with(json!({ "healthy": { "http_statuses": [200, 200] } })), Some("unique"));
    check(with(json!({ "break_response_headers": [{ "key": "A" }] })), Some("value"));
    check(with(json!({ "break_response_headers": [{ "key": "A b", "value": "c" }] })), Some("character"));
    check(with(json!({ "break_response_headers": [{ "key": "A", "value": "${" }] })), Some("brace"));
}

/// A plugin with its scene.
struct Stage {
    scene: Scene,
    plugin: Arc<dyn Plugin>,
}

impl Stage {
    fn new(config: Value) -> Stage {
        let scene = Scene::new();
        let plugin = scene.build(&KIND, &config);
        Stage { scene, plugin }
    }

    /// A request for `path` with this response of the upstream; returns the reply in its place if there was
    /// one.
    fn ask(&mut self, path: &str, attempt: Option<(u16, Option<Cause>)>) -> Option<BufferedReply> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut exchange = self.scene.exchange(head.as_bytes());
        let reply = decide(self.plugin.access(&mut exchange));
        if let (None, Some((status, failed))) = (&reply, attempt) {
            let address = SocketAddr::from(([127, 0, 0, 1], 1));
            exchange.attempts.push(Attempt {
                address,
                upstream: 0,
                endpoint_id: 0,
                scheme: "http",
                status,
                failed,
                started_ns: 0,
                connect_us: 0,
                head_us: 0,
                total_us: 0,
            });
        }
        self.plugin.log(&exchange);
        reply
    }

    fn status(&mut self, path: &str, status: u16) -> u16 {
        self.ask(path, Some((status, None))).map_or(status, |reply| reply.status)
    }
}

#[test]
fn failing_path_is_answered_in_its_place() {
    let mut stage = Stage::new(json!({
        "break_response_code": 599, "break_response_body": "later",
        "break_response_headers": [{ "key": "X-Client", "value": "$remote_addr" }],
        "unhealthy": { "http_statuses": [500, 503], "failures": 2 }, "healthy": { "successes": 1 },
    }));
    assert_eq!([500, 404, 502, 503].map(|status| stage.status("/a", status)), [500, 404, 502, 503]);
    let reply = stage.ask("/a?b=c", None).unwrap();
    assert_eq!((reply.status, &*reply.body), (599, &b"later"[..]));
    assert_eq!(reply.headers, [("X-Client".into(), "127.0.0.1".to_owned())]);
    assert_eq!(stage.status("/b", 200), 200, "another path");
    // The state outlives a change of the configuration.
    stage.plugin =
        stage.scene.build(&KIND, &json!({ "break_response_code": 502, "unhealthy": { "failures": 2 } }));
    assert_eq!(stage.status("/a", 200), 502);
}

#[test]
fn success_before_the_limit_forgets_failures() {
    let mut stage = Stage::new(json!({ "break_response_code": 502, "healthy": { "successes": 1 } }));
    let answers = [500, 500, 200, 500, 500].map(|status| stage.status("/", status));
    assert_eq!(answers, [500, 500, 200, 500, 500]);
    assert_eq!([500, 500].map(|status| stage.status("/", status)), [500, 502]);
}

#[test]
fn headers_are_sent_only_with_a_body() {
    let headers = json!([{ "key": "X-A", "value": "b" }]);
    let mut stage = Stage::new(json!({
        "break_response_code": 502, "break_response_headers": headers, "unhealthy": { "failures": 1 },
    }));
    stage.status("/", 500);
    let reply = stage.ask("/", None).unwrap();
    assert!(reply.headers.is_empty() && reply.body.is_empty(), "{reply:?}");
}

#[test]
fn upstream_that_is_not_reached_counts() {
    let mut stage = Stage::new(json!({
        "break_response_code": 599, "unhealthy": { "http_statuses": [502], "failures": 1 },
    }));
    assert!(stage.ask("/", Some((0, Some(Cause::ConnectFailed)))).is_none());
    assert_eq!(stage.ask("/", None).map(|reply| reply.status), Some(599));
    assert!(stage.ask("/other", None).is_none(), "a response without an attempt does not count");
    assert!(stage.ask("/other", None).is_none());
}

//! The skeleton with a plugin that has one field of its own: formats, bodies, the life of queues.

use exchange::plugin::batch::{BatchEntry, Delivery};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::state::StateRegistry;
use exchange::testing::{Scene, services, with_fields};

use super::*;
use crate::shared::attributes::attributes;
use contents::copy;

attributes! {
    struct Config {
        /// The only field.
        place: String;
    }
}

struct Probe;
struct Nowhere;

impl Sink for Nowhere {
    fn deliver<'a>(&'a self, _: &'a HttpClient, _: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async { Ok(()) })
    }
}

impl LogPlugin for Probe {
    type TcpLoggerConfig = Config;
    type Sink = Nowhere;

    const NAME: &'static str = "probe";
    const QUEUE_NAME: &'static str = "probe logger";
    const BATCH_MAX_SIZE: usize = 7;

    fn compile(config: &Config, _: Option<&Value>) -> Result<Probe, String> {
        if config.place.is_empty() { Err("place is empty".to_owned()) } else { Ok(Probe) }
    }

    fn sink(&self, _: &Build<'_>, config: &Config, _: &QueueSettings) -> Result<Nowhere, String> {
        if config.place == "gone" { Err("it is gone".to_owned()) } else { Ok(Nowhere) }
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        Some(contents.entry(exchange).into_json())
    }

    fn may_log(&self, exchange: &Exchange) -> bool {
        exchange.path() != b"/silent"
    }
}

fn with(fields: Value) -> Value {
    with_fields(json!({"place": "here"}), &fields)
}

#[test]
fn schema_has_own_and_common_fields() {
    let schema = schema::<Probe>();
    let property = |name: &str, keyword: &str| schema["properties"][name][keyword].clone();
    assert_eq!(property("place", "type"), "string");
    assert_eq!(property("name", "default"), "probe logger");
    assert_eq!(property("batch_max_size", "default"), 7);
    assert_eq!(property("max_resp_body_bytes", "default"), 524_288);
    assert_eq!(property("log_format", "type"), "object");
    assert_eq!(schema["required"], json!(["place"]));
    let metadata = log_metadata_schema::<Probe>();
    let names: Vec<&str> = metadata["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["log_format", "log_format_extra", "max_pending_entries"]);
    let read_size = |config: Value| read::<Probe>(&with(config)).unwrap().batch.batch_max_size;
    assert_eq!((read_size(json!({})), read_size(json!({"batch_max_size": 3}))), (7, 3));
}

#[test]
fn faults_name_their_field() {
    let check = |config: Value, expected: &str| {
        let reason = check::<Probe>(&with(config)).unwrap_err();
        assert!(reason.contains(expected), "{reason}");
    };
    check(json!({"place": ""}), "place is empty");
    check(json!({"log_formt": {}}), "did you mean `log_format`?");
    check(json!({"log_format": {"a": {"b": "${"}}}), "log_format.a.b: ");
    check(json!({"log_format_extra": {"a": "${"}}), "log_format_extra.a: ");
    check(json!({"include_req_body_expr": [["a", "<>", 1]]}), "the 'include_req_body_expr' expression");
    check(json!({"include_resp_body_expr": [["a", "<>", 1]]}), "the 'include_resp_body_expr' expression");
}

/// The entry of a request to `/a?n=1` that was answered 200.
fn entry(config: Value, metadata: Option<Value>) -> Value {
    serde_json::from_slice(&testing::entry::<Probe>(&with(config), metadata.as_ref())).unwrap()
}

#[test]
fn plugin_format_wins_over_metadata_format() {
    let metadata =
        || Some(json!({"log_format": {"who": "metadata"}, "log_format_extra": {"more": "metadata"}}));
    let chosen = entry(json!({"log_format": {"who": "instance", "n": "$arg_n"}}), metadata());
    assert_eq!(chosen, json!({"who": "instance", "n": "1", "route_id": "r1"}));
    assert_eq!(entry(json!({}), metadata()), json!({"who": "metadata", "route_id": "r1"}));
    assert_eq!(entry(json!({"log_format": {}}), metadata()), json!({"route_id": "r1"}), "chosen, and empty");
    let whole = entry(json!({}), Some(json!({"log_format": {}})));
    assert_eq!((&whole["response"]["status"], &whole["route_id"]), (&json!(200), &json!("r1")));
}

#[test]
fn extra_fields_add_and_replace_none() {
    let extra = json!({"log_format_extra": {"tenant": "$arg_n", "client_ip": "other", "route_id": "other"}});
    let whole = entry(extra.clone(), None);
    assert_eq!((&whole["tenant"], &whole["response"]["status"]), (&json!("1"), &json!(200)));
    assert_eq!((&whole["client_ip"], &whole["route_id"]), (&json!("127.0.0.1"), &json!("r1")));
    let metadata = Some(json!({"log_format_extra": {"more": "metadata"}}));
    assert_eq!(entry(json!({}), metadata.clone())["more"], "metadata");
    assert_eq!(entry(json!({"log_format_extra": {}}), metadata)["more"], Value::Null, "empty wins as well");
    let mut both = extra;
    both["log_format"] = json!({"a": "b"});
    assert_eq!(entry(both, None), json!({"a": "b", "route_id": "r1"}), "a chosen format stands alone");
}

#[test]
fn bodies_are_buffered_only_if_logged() {
    let check = |config: Value, request: usize, response: usize| {
        let mut scene = Scene::new();
        let (services, states) = (services(), StateRegistry::default());
        let plugin =
            build::<Probe>(&exchange::testing::build("r", None, &states, &services), &with(config.clone()));
        let plugin = plugin.unwrap();
        let needs =
            |exchange: &Exchange| (plugin.wants_request_body(exchange), plugin.wants_response_body(exchange));
        let exchange = scene.exchange(b"GET /a?n=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(needs(&exchange), (copy(request), copy(response)), "{config}");
        let silent = scene.exchange(b"GET /silent?n=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(needs(&silent), (BodyNeed::None, BodyNeed::None), "{config}");
    };
    check(json!({}), 0, 0);
    check(json!({"include_req_body": true}), 512 * 1024, 0);
    check(json!({"include_resp_body": true, "max_resp_body_bytes": 7}), 0, 7);
    let condition = |value: &str| json!([["arg_n", "==", value]]);
    check(json!({"include_resp_body": true, "include_resp_body_expr": condition("2")}), 0, 0);
    check(json!({"include_resp_body": true, "include_resp_body_expr": condition("1")}), 0, 512 * 1024);
    check(json!({"include_req_body": true, "log_format": {"a": "$host"}}), 0, 0);
    let both = json!({"a": "$request_body", "b": "$resp_body"});
    check(json!({"log_format": both, "max_req_body_bytes": 5}), 5, 512 * 1024);
    check(json!({"log_format_extra": both, "max_resp_body_bytes": 5}), 512 * 1024, 5);
}

#[test]
fn queue_is_kept_while_configuration_stays() {
    let (services, states) = (services(), StateRegistry::default());
    let queue = |owner: &str, config: Value, metadata: Option<Value>| {
        let build_of = exchange::testing::build(owner, metadata.as_ref(), &states, &services);
        let plugin = build::<Probe>(&build_of, &with(config.clone())).unwrap();
        let key = queue_key::<Probe>(&build_of, &with(config));
        let kept = states.held::<Result<BatchQueue, String>>(&key).expect("it is kept under its key");
        (plugin, kept)
    };
    let (_first, one) = queue("/routes/1", json!({}), None);
    let same = |config: Value, metadata: Option<Value>| queue("/routes/1", config, metadata).1;
    assert!(Arc::ptr_eq(&one, &same(json!({"_meta": {"priority": 1}}), None)));
    assert!(Arc::ptr_eq(&one, &same(json!({"log_format": {"a": "b"}}), None)), "formats come before it");
    let (_formatted, metadata) = queue("/routes/1", json!({}), Some(json!({"log_format": {"a": "b"}})));
    let (_again, other) = queue("/routes/1", json!({}), Some(json!({"log_format": {"a": "c"}})));
    assert!(Arc::ptr_eq(&metadata, &other));
    assert!(!Arc::ptr_eq(&one, &queue("/routes/2", json!({}), None).1));
    assert!(!Arc::ptr_eq(&one, &same(json!({"batch_max_size": 2}), None)));
    assert!(!Arc::ptr_eq(&one, &same(json!({}), Some(json!({"max_pending_entries": 3})))));
    let build_of = exchange::testing::build("/routes/1", None, &states, &services);
    assert_eq!(build::<Probe>(&build_of, &with(json!({"place": "gone"}))).err().unwrap(), "it is gone");
}

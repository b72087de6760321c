//! JSON over HTTP to a gRPC service: the server is that of grpcio, which sends messages back as they are.

use serde_json::{Value, json};
use testkit::{Origin, Response, Weir, wait_until};

use crate::grpc::{Server, node};
use crate::http2::client::{Client, request};
use crate::support::BINARY;

pub(crate) const PROTO: &str = "syntax = \"proto3\"; package test;
    enum Size { SMALL = 0; LARGE = 1; }
    message Item { string text = 1; int64 number = 2; repeated string tags = 3; Size size = 4; Item inner = 5; }
    service Echo {
        rpc Unary(Item) returns (Item);
        rpc Repeat(Item) returns (stream Item);
        rpc ClientStream(stream Item) returns (Item);
    }";

/// A gateway with the proto `1`.
fn gateway() -> Weir {
    let weir = Weir::start(BINARY);
    weir.put("protos/1", json!({"content": PROTO}));
    weir
}

/// Sets the route for paths below `/path/` to a method of the server.
pub(crate) fn route(weir: &Weir, path: &str, node: &str, fields: Value, others: Value) {
    let mut transcode = json!({"proto_id": "1", "service": "test.Echo", "method": "Unary"});
    transcode.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let mut plugins = json!({"grpc-transcode": transcode});
    plugins.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
    weir.put(
        &format!("routes/{path}"),
        json!({
            "uri": format!("/{path}/*"),
            "plugins": plugins,
            "upstream": {"scheme": "grpc", "nodes": {node: 1}},
        }),
    );
}

fn post(weir: &Weir, path: &str, fields: &[(&str, &str)], body: &str) -> Response {
    let fields = [&[("Content-Type", "application/json")], fields].concat();
    weir.client().request("POST", path, &fields, body.as_bytes())
}

#[test]
fn json_forms_and_queries_become_calls() {
    let server = Server::start(&[]);
    let weir = gateway();
    let sparse = json!({"pb_option": ["no_default_values", "int64_as_string"]});
    route(&weir, "sparse", &node(&server), sparse, json!({}));
    route(&weir, "plain", &node(&server), json!({}), json!({}));
    let item =
        r#"{"text":"a","number":"9007199254740993","tags":["x","y"],"size":"LARGE","inner":{"text":"b"}}"#;
    let response = post(&weir, "/sparse/x", &[], item);
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    assert_eq!(response.text(), item.replace("\"9", "\"#9"));
    let trailers = [("grpc-status".to_owned(), "0".to_owned()), ("grpc-message".to_owned(), String::new())];
    assert_eq!(response.trailers[..1], trailers[..1], "{:?}", response.trailers);
    let form = weir.client().request(
        "POST",
        "/sparse/x",
        &[("Content-Type", "application/x-www-form-urlencoded")],
        b"text=a+b&tags=1&tags=2",
    );
    assert_eq!(form.text(), r#"{"text":"a b","tags":["1","2"]}"#);
    let query = weir.get("/plain/x?text=a&number=2251799813685261&unknown=1");
    assert_eq!(query.text(), r#"{"text":"a","number":2.2517998136853e+15,"tags":[],"size":"SMALL"}"#);
    // Messages of more than one piece, converted beside the worker.
    let long = json!({"text": "x".repeat(300_000)}).to_string();
    assert!(post(&weir, "/sparse/x", &[], &long).text() == long, "a long message passes");
    let mut client = Client::connect(weir.proxy());
    let over_http2 = client.ask(request("GET", "/sparse/x?text=h2")).unwrap();
    assert_eq!((over_http2.status, &*over_http2.text()), (200, r#"{"text":"h2"}"#));
    assert_eq!(over_http2.trailers.unwrap().get("grpc-status").unwrap(), "0");
    let refused = post(&weir, "/sparse/x", &[], r#"{"number":"x"}"#);
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("field test.Item.number: this text does not fit"), "{}", refused.text());
    assert_eq!(post(&weir, "/sparse/x", &[], &" ".repeat(5_000_000)).status, 413);
}

#[test]
fn failed_calls_have_statuses_of_http() {
    let server = Server::start(&[]);
    let weir = gateway();
    route(&weir, "plain", &node(&server), json!({}), json!({}));
    route(&weir, "shown", &node(&server), json!({"show_status_in_body": true}), json!({}));
    route(&weir, "late", &node(&server), json!({"deadline": 200}), json!({}));
    route(&weir, "nowhere", &Origin::nowhere().to_string(), json!({}), json!({}));
    let check = |path: &str, fields: &[(&str, &str)], status: u16, grpc_status: Option<&str>, body: &str| {
        let response = post(&weir, path, fields, "{}");
        assert_eq!((response.status, response.header("grpc-status")), (status, grpc_status), "{fields:?}");
        assert!(
            response.text().contains(body) && !body.is_empty() || response.body.is_empty(),
            "{}",
            response.text()
        );
        assert_eq!(response.trailers, [], "{fields:?}");
    };
    check("/plain/x", &[("fail-code", "5")], 404, Some("5"), "");
    // The server sends its head before it fails, so that the status is in the trailers.
    check("/plain/x", &[("fail-code", "16"), ("echo-initial-a", "1")], 401, Some("16"), "");
    let details = ("details-bin", "CA4SA3doeRoKCgF0EgUKA2FiYw==");
    let shown = r#"{"error":{"code":14,"message":"why","details":[{"type_url":"t","value":"\n\u0003abc"}]}}"#;
    check("/shown/x", &[("fail-code", "14"), details], 503, Some("14"), shown);
    check("/shown/x", &[("fail-code", "14"), ("echo-initial-a", "1"), details], 503, Some("14"), shown);
    check("/plain/x", &[("fail-code", "14"), details], 503, Some("14"), "");
    let late = post(&weir, "/late/x", &[("sleep-ms", "20000")], "{}");
    assert_eq!(late.status, 504);
    assert_eq!(post(&weir, "/nowhere/x", &[], "{}").status, 502);
}

#[test]
fn stream_is_sent_line_by_line() {
    let server = Server::start(&[]);
    let weir = gateway();
    let watch = json!({"method": "Repeat", "pb_option": ["no_default_values"]});
    route(&weir, "watch", &node(&server), watch, json!({}));
    let response = post(&weir, "/watch/x", &[("count", "3")], r#"{"text":"a"}"#);
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/x-ndjson")));
    assert_eq!(response.text(), "{\"text\":\"a\"}\n".repeat(3));
    let failed = post(&weir, "/watch/x", &[("count", "1"), ("fail-after", "1")], r#"{"text":"a"}"#);
    let line = "{\"error\":{\"code\":15,\"message\":\"broke in the middle\"}}\n";
    assert_eq!((failed.status, failed.text()), (200, format!("{{\"text\":\"a\"}}\n{line}")));
    assert_eq!(post(&weir, "/watch/x", &[("fail-code", "7")], "{}").status, 403);
}

#[test]
fn protos_are_checked_and_changes_are_in_force() {
    let server = Server::start(&[]);
    let weir = Weir::start(BINARY);
    route(&weir, "a", &node(&server), json!({"pb_option": ["no_default_values"]}), json!({}));
    assert_eq!(weir.get("/a/x?text=1").status, 503, "there is no proto");
    let put = |content: &str| weir.admin("PUT", "protos/1", json!({ "content": content }));
    let (status, refusal) = put("syntax = \"proto3\";\nmessage A { B b = 1; }");
    assert_eq!(status, 400);
    let reason = refusal["error_msg"].as_str().unwrap();
    assert!(reason.contains("content: line 2: ") && reason.contains("'B'"), "{reason}");
    let (status, refusal) = put("syntax = \"proto3\";\nimport \"shop/a.proto\";");
    assert!(status == 400 && refusal.to_string().contains("import 'shop/a.proto' not found"), "{refusal}");
    assert_eq!(put(PROTO).0, 201);
    wait_until("the proto is in force", || weir.get("/a/x?text=1").text() == r#"{"text":"1"}"#);
    assert_eq!(put(&PROTO.replace("string text = 1", "string word = 1")).0, 200);
    wait_until("the changed proto is in force", || weir.get("/a/x?word=1").text() == r#"{"word":"1"}"#);
    let (status, refusal) = weir.admin("DELETE", "protos/1", Value::Null);
    assert!(status == 400 && refusal.to_string().contains("route [a] is still using it now"), "{refusal}");
    route(&weir, "stream", &node(&server), json!({"method": "ClientStream"}), json!({}));
    assert_eq!(weir.get("/stream/x").status, 503);
    let (_, state) = weir.admin("GET", "weir/status", Value::Null);
    assert!(state.to_string().contains("it takes a stream of messages"), "{state}");
}

#[test]
fn cache_keeps_no_messages_of_calls() {
    let server = Server::start(&[]);
    let weir = gateway();
    let cache = json!({"proxy-cache": {"cache_strategy": "memory", "cache_zone": "memory_cache"}});
    route(&weir, "a", &node(&server), json!({"pb_option": ["no_default_values"]}), cache);
    for _ in 0..3 {
        assert_eq!(weir.get("/a/x?text=1").text(), r#"{"text":"1"}"#);
    }
}

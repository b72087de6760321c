//! Chosen fields and the full entry, of exchanges made without a socket.

use exchange::testing::{Scene, respond, route};

use super::*;

const HEAD: &[u8] =
    b"POST /a?x=1&y&x=2&z=%20+ HTTP/1.1\r\nHost: Shop.example\r\nAccept: a\r\nAccept: b\r\n\r\nbody";

const LIMITS: BodyLimits = BodyLimits { request_bytes: 3, response_bytes: 3 };

#[test]
fn chosen_fields() {
    let mut scene = Scene::new().with_route(route("r1"));
    let mut exchange = scene.exchange(HEAD);
    respond(&mut exchange, 201, &[]);
    let check = |format: Value, expected: Value| {
        let format = LogFormat::compile("log_format", format.as_object().unwrap(), LIMITS).unwrap();
        assert_eq!(Value::Object(format.render(&exchange)), expected);
    };
    check(
        json!({"host": "$host", "text": "host", "n": 1}),
        json!({"host": "shop.example", "text": "host", "n": 1}),
    );
    check(json!({"status": "$status", "port": "$remote_port"}), json!({"status": 201, "port": "40000"}));
    check(json!({"gone": "$arg_none", "kept": "$arg_x"}), json!({"kept": "1"}));
    check(
        json!({"a": "$host:$arg_x", "b": "${arg_x}", "c": "a $host"}),
        json!({"a": "shop.example:1", "b": "1", "c": "a $host"}),
    );
    check(json!({"a": {"b": {"c": "$host"}}}), json!({"a": {"b": {"c": "shop.example"}}}));
    check(
        json!({"1": {"2": {"3": {"4": {"5": "$host", "deeper": {"6": "$host"}}}}}}),
        json!({"1": {"2": {"3": {"4": {"5": "shop.example"}}}}}),
    );
    check(json!({"body": "$request_body", "resp": "$resp_body"}), json!({"body": "bod"}));
    check(json!({}), json!({}));
    let refused = LogFormat::compile("log_format", json!({"a": {"b": "${"}}).as_object().unwrap(), LIMITS);
    assert!(refused.err().unwrap().starts_with("log_format.a.b: "));
    let uses = |format: Value| {
        let format = LogFormat::compile("log_format", format.as_object().unwrap(), LIMITS).unwrap();
        (format.uses_request_body(), format.uses_response_body())
    };
    assert_eq!(uses(json!({"a": "$host"})), (false, false));
    assert_eq!(uses(json!({"a": {"b": "$request_body"}})), (true, false));
    assert_eq!(uses(json!({"a": "$post_arg_x", "b": "$resp_body!"})), (true, true));
}

#[test]
fn everything() {
    let mut scene = Scene::new().with_route(route("r1"));
    let mut exchange = scene.exchange(HEAD);
    respond(&mut exchange, 200, &[("X-A", "1"), ("X-A", "2")]);
    exchange.times.ended_ns = exchange.times.started_ns + 2_500_000;
    let part = |condition: Option<Value>, max_bytes| {
        Some(BodyPart { condition: condition.map(|value| Expression::compile(&value).unwrap()), max_bytes })
    };
    let bodies = Bodies { request: part(Some(json!([["arg_x", "==", "1"]])), 3), response: part(None, 3) };
    let mut entry = full(&exchange, &bodies);
    add_route(&mut entry, &exchange, true);
    let entry = Value::Object(entry);
    assert_eq!(
        entry["request"],
        json!({
            "url": "http://shop.example:9080/a?x=1&y&x=2&z=%20+", "uri": "/a?x=1&y&x=2&z=%20+", "method": "POST",
            "headers": {"host": "Shop.example", "accept": ["a", "b"]},
            "querystring": {"x": ["1", "2"], "y": true, "z": "  "}, "size": HEAD.len(), "body": "bod",
        })
    );
    assert_eq!(entry["response"], json!({"status": 200, "headers": {"x-a": ["1", "2"]}, "size": 0}));
    assert_eq!((&entry["client_ip"], &entry["route_id"]), (&json!("127.0.0.1"), &json!("r1")));
    assert_eq!((&entry["service_id"], &entry["latency"]), (&json!(""), &json!(2.5)));
    assert!(entry["start_time"].as_u64().unwrap() > 1_600_000_000_000, "{entry}");
    assert!(entry.get("upstream").is_none() && entry.get("consumer").is_none());
    assert_eq!(entry["server"]["version"], env!("CARGO_PKG_VERSION"));
    let closed = Bodies { request: part(Some(json!([["arg_x", "==", "9"]])), 3), response: None };
    assert!(full(&exchange, &closed)["request"].get("body").is_none());
    let mut unmatched = Map::new();
    add_route(&mut unmatched, &Scene::new().exchange(HEAD), false);
    assert_eq!(Value::Object(unmatched), json!({}));
}

#[test]
fn coded_response_bodies_are_logged_as_text() {
    let text = "a text that is repeated, a text that is repeated; ".repeat(20);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
    let coded = gzip.finish().unwrap();
    let check = |coding: &str, body: &[u8], max_bytes: usize, expected: &str| {
        let mut exchange = Scene::new().exchange(HEAD);
        respond(&mut exchange, 200, &[("Content-Encoding", coding)]);
        exchange.copy_response(body.len());
        exchange.note_response(body);
        let got = response_beginning(&exchange, max_bytes).unwrap();
        assert_eq!(got, expected, "{coding} {max_bytes}");
    };
    check("gzip", &coded, 10_000, &text);
    check("gzip", &coded, 30, &text[..30]);
    check("identity", b"plain", 3, "pla");
    check("unknown", b"plain", 3, "pla");
    check("gzip", b"no gzip at all", 5, "no gz");
    check("br", b"", 5, "");
    // Of a body that is cut, the part before the cut is text.
    let mut exchange = Scene::new().exchange(HEAD);
    respond(&mut exchange, 200, &[("Content-Encoding", "gzip")]);
    exchange.copy_response(coded.len());
    exchange.note_response(&coded[..coded.len() - 8]);
    let got = response_beginning(&exchange, 10_000).unwrap();
    assert_eq!(got, text);
}

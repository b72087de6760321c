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
        json!({"1": {"2": {"3": {"4": {"5": "shop.example", "deeper": {}}}}}}),
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
    let bodies =
        LoggedBodies { request: part(Some(json!([["arg_x", "==", "1"]])), 3), response: part(None, 3) };
    let mut entry = build_full_entry(&exchange, &bodies);
    add_route_ids(&mut entry, &exchange, true);
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
    let closed = LoggedBodies { request: part(Some(json!([["arg_x", "==", "9"]])), 3), response: None };
    assert!(build_full_entry(&exchange, &closed)["request"].get("body").is_none());
    let mut unmatched = Map::new();
    add_route_ids(&mut unmatched, &Scene::new().exchange(HEAD), false);
    assert_eq!(Value::Object(unmatched), json!({}));
}

#[test]
fn body_compressed_by_the_upstream_is_decoded() {
    use std::io::Read;
    let mut gzip = Vec::new();
    let body = "a body in plain words, in plain words, in plain words";
    let level = flate2::Compression::fast();
    flate2::read::GzEncoder::new(body.as_bytes(), level).read_to_end(&mut gzip).unwrap();
    let limits = BodyLimits { request_bytes: 0, response_bytes: 12 };
    let format = LogFormat::compile("log_format", json!({"b": "$resp_body"}).as_object().unwrap(), limits);
    let format = format.unwrap();
    let check = |coding: &str, sent: &[u8], is_coded_here: bool, expected: &str| {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        respond(&mut exchange, 200, &[("Content-Encoding", coding)]);
        exchange.response_is_coded = is_coded_here;
        exchange.copy_response(1_000);
        exchange.note_response(sent);
        let bodies =
            LoggedBodies { request: None, response: Some(BodyPart { condition: None, max_bytes: 12 }) };
        assert_eq!(build_full_entry(&exchange, &bodies)["response"]["body"], json!(expected), "{coding}");
        assert_eq!(format.render(&exchange)["b"], json!(expected), "{coding}");
    };
    check("gzip", &gzip, false, "a body in pl");
    check("gzip", &gzip[..gzip.len() - 12], false, "a body in pl");
    check("gzip", body.as_bytes(), true, "a body in pl");
    check("identity", body.as_bytes(), false, "a body in pl");
    // A body that cannot be decoded is logged as it came.
    check("gzip", body.as_bytes(), false, "a body in pl");
    check("compress", body.as_bytes(), false, "a body in pl");
}

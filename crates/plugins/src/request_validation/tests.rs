//! Tests of `request-validation`.

use exchange::testing::{Scene, check_configuration, decide, lines};
use model::catalog::SchemaType;
use serde_json::json;

use super::*;

#[test]
fn configurations() {
    let object = json!({"type": "object"});
    let rows = [
        (json!({"body_schema": {}}), None),
        (json!({"body_schema": object, "header_schema": object, "rejected_code": 599}), None),
        (json!({}), Some("object matches none of the required")),
        (json!({"rejected_msg": "no"}), Some("object matches none of the required")),
        (json!({"body_schema": object, "rejected_code": 600}), Some("rejected_code")),
        (json!({"body_schema": object, "rejected_msg": ""}), Some("rejected_msg")),
        (json!({"body_schema": object, "rejected_msg": "x".repeat(257)}), Some("rejected_msg")),
        (json!({"body_schema": object, "max_req_body_size": 0}), Some("max_req_body_size")),
        (json!({"body_schema": {"type": "test"}}), Some("body_schema: /type")),
        (json!({"header_schema": {"required": "a"}}), Some("header_schema: /required")),
        (json!({"body_schema": {"$ref": "http://127.0.0.1/a.json"}}), Some("body_schema")),
        (json!({"body_schema": {"pattern": "["}}), Some("body_schema")),
    ];
    for (config, fault) in rows {
        check_configuration(&KIND, SchemaType::Plugin, &config, fault);
    }
}

/// The refusal of a request, and the body that is forwarded.
fn run(config: &Value, fields: &str, body: &str) -> (Option<(u16, String)>, String) {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, config);
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}");
    let mut exchange = scene.exchange(head.as_bytes());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut reply = decide(plugin.rewrite(&mut exchange));
    if reply.is_none() {
        reply = decide(plugin.access(&mut exchange));
    }
    let reply = reply.map(|reply| (reply.status, text(&reply.body)));
    (reply, text(exchange.request_body().unwrap_or_default()))
}

#[test]
fn body_is_checked_by_its_content_type() {
    let config = json!({"body_schema": {
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string", "pattern": "^good$"}, "flag": {"const": true},
            "many": {"type": "array", "minItems": 2}}
    }});
    let form = "Content-Type: Application/X-WWW-Form-Urlencoded; charset=utf-8\r\n";
    let (passes, required) = (None, Some((400, "property \"name\" is required".to_owned())));
    let pattern = |value: &str| {
        let text = format!(
            "property \"name\" validation failed: failed to match pattern \"^good$\" with \"{value}\""
        );
        Some((400, text))
    };
    let rows = [
        ("", r#"{"name": "good"}"#, passes.clone()),
        ("Content-Type: text/plain\r\n", r#"{"name":"good"}"#, passes.clone()),
        ("", "{}", required.clone()),
        ("", r#"{"name":"bad"}"#, pattern("bad")),
        (form, "name=good&flag&many=1&many=2", passes.clone()),
        (form, "name=%67ood", passes.clone()),
        (form, "name=a+b", pattern("a b")),
        (form, "other=good", required),
        ("", "", Some((400, String::new()))),
        (
            "Content-Type: text/a\r\nContent-Type: text/b\r\n",
            r#"{"name":"good"}"#,
            Some((400, String::new())),
        ),
    ];
    for (fields, body, expected) in rows {
        assert_eq!(run(&config, fields, body).0, expected, "{fields}{body}");
    }
    let (refusal, _) = run(&config, "", "name=good");
    assert!(refusal.unwrap().1.starts_with("the body is not JSON: "));
}

#[test]
fn json_is_forwarded_as_it_was_checked() {
    let config = json!({"body_schema": {"properties": {"k": {"pattern": "^good$"}}}});
    let (refusal, body) = run(&config, "", r#"{"k":"bad", "k":"good"}"#);
    assert_eq!((refusal, &*body), (None, r#"{"k":"good"}"#));
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    assert_eq!(run(&config, form, "k=good&&a=%31").1, "k=good&&a=%31");
    // A body without repeated names is forwarded as it came, others with the digits of their numbers.
    let numbers = [
        "18446744073709551616",
        "0.1000000000000000055511151231257827",
        "1e2",
        "-0",
        "1E400",
        "[9007199254740993, 1.50]",
    ];
    for number in numbers {
        for (body, forwarded) in [
            (format!("{{ \"x\": {number}}}"), format!("{{ \"x\": {number}}}")),
            (
                format!("{{\"x\":{number},\"k\":1,\"k\":2}}"),
                format!("{{\"x\":{},\"k\":2}}", number.replace(' ', "")),
            ),
        ] {
            assert_eq!(run(&config, "", &body), (None, forwarded), "{body}");
        }
    }
}

#[test]
fn body_of_too_many_values_is_refused() {
    let config = json!({"body_schema": {"type": "object"}});
    let body = format!("{{\"a\":[{}0]}}", "0,".repeat(30_000));
    assert_eq!(run(&config, "", &body).0, None);
    // 400 KB in 200,003 values, which the side thread would check.
    let fault = examine(
        &UserSchema::compile(&json!({"type": "object"})).unwrap(),
        None,
        format!("{{\"a\":[{}0]}}", "0,".repeat(200_000)).as_bytes(),
        &mut SchemaSteps::on_worker(),
    );
    assert_eq!(fault, Err("the body has more than 200000 values".to_owned()));
}

#[test]
fn fields_are_checked_whatever_their_case() {
    let config = json!({"header_schema": {
        "required": ["X-Api_Version"],
        "properties": {"X-Api-Version": {"type": "string", "enum": ["1", "2"]}},
        "allOf": [{"not": {"required": ["X-Debug"]}}],
        "dependencies": {"X-User": ["X-Token"]}
    }});
    let status = |fields: &str| run(&config, fields, "").0.map(|(status, _)| status);
    let rows = [
        ("x-api-version: 1\r\n", None),
        ("X-API-VERSION: 2\r\nX-User: a\r\nx-token: b\r\n", None),
        ("", Some(400)),
        ("X-Api-Version: 3\r\n", Some(400)),
        ("X-Api-Version: 1\r\nX-Api-Version: 2\r\n", Some(400)),
        ("X-Api-Version: 1\r\nx-debug: 1\r\n", Some(400)),
        ("X-Api-Version: 1\r\nX-User: a\r\n", Some(400)),
    ];
    for (fields, expected) in rows {
        assert_eq!(status(fields), expected, "{fields}");
    }
    let (refusal, _) = run(&config, "", "");
    assert_eq!(refusal, Some((400, "property \"x-api-version\" is required".to_owned())));
}

#[test]
fn refusal_has_configured_status_and_text() {
    let config = json!({
        "body_schema": {"required": ["a"]}, "header_schema": {"required": ["b"]},
        "rejected_code": 505, "rejected_msg": "customize reject message"
    });
    let refusal = Some((505, "customize reject message".to_owned()));
    assert_eq!(run(&config, "", "{\"a\":1}").0, refusal, "the field is missing");
    assert_eq!(run(&config, "b: 1\r\n", "{}").0, refusal, "the property is missing");
    assert_eq!(run(&config, "b: 1\r\n", "").0, refusal, "the body is missing");
    assert_eq!(run(&config, "b: 1\r\n", "{\"a\":1}").0, None);
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &config);
    let exchange = scene.exchange(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n");
    let reply = plugin.refuse_long_body(&exchange).unwrap();
    assert_eq!((reply.status, &*reply.body), (505, &b"customize reject message"[..]));
    assert_eq!(lines(&exchange.response.headers), [""; 0]);
    assert!(matches!(plugin.wants_request_body(&exchange), BodyNeed::Buffer { limit_bytes: 67_108_864 }));
}

//! Tests of `oas-validator`.

use exchange::testing::{Scene, check_configuration, decide, with_fields};
use model::catalog::SchemaType;
use serde_json::json;

use super::*;

fn document() -> Value {
    json!({
        "openapi": "3.0.2", "info": {"title": "Shop", "version": "1"},
        "paths": {
            "/orders": {"post": {
                "parameters": [{"name": "X-Tenant", "in": "header", "required": true, "schema": {"type": "string", "minLength": 2}}],
                "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}},
                "responses": {"201": {"description": "made"}},
            }},
            "/orders/{id}": {
                "parameters": [{"$ref": "#/components/parameters/Id"}],
                "get": {"parameters": [
                    {"name": "fields", "in": "query", "explode": false, "schema": {"type": "array", "items": {"enum": ["id", "total"]}}},
                ]},
            },
        },
        "components": {
            "parameters": {"Id": {"name": "id", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1}}},
            "schemas": {"Order": {"type": "object", "required": ["total"], "properties": {
                "total": {"type": "number"}, "note": {"type": "string", "nullable": true},
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Order"}},
            }}},
        },
    })
}

fn config(more: Value) -> Value {
    with_fields(json!({"spec": document().to_string()}), &more)
}

#[test]
fn configurations() {
    let url = "http://127.0.0.1:9/openapi.json";
    let one = "value should match only one schema";
    let bad_type = json!({"openapi": "3.0.0", "components": {}, "paths": {"/a": {"get": {"parameters": [
        {"name": "a", "in": "query", "schema": {"type": "text"}}]}}}});
    let rows = [
        (config(json!({})), None),
        (config(json!({"rejection_status_code": 599, "verbose_errors": true})), None),
        (json!({"spec_url": url, "spec_url_request_headers": {"Authorization": "x"}}), None),
        (json!({"spec": "$secret://vault/1/spec"}), None),
        (json!({}), Some(one)),
        (config(json!({"spec_url": url})), Some(one)),
        (json!({"spec_url": "ftp://a"}), Some("spec_url")),
        (json!({"spec_url": url, "timeout": 999}), Some("timeout")),
        (json!({"spec_url": url, "spec_url_request_headers": {"A": 1}}), Some("spec_url_request_headers")),
        (json!({"spec": "not json"}), Some("invalid JSON string provided, err: ")),
        (json!({"spec": "{}"}), Some("spec: /openapi: ")),
        (json!({"spec": bad_type.to_string()}), Some("spec: /paths/~1a/get/parameters/0/schema: ")),
        (config(json!({"rejection_status_code": 399})), Some("rejection_status_code")),
        (config(json!({"max_req_body_size": 0})), Some("max_req_body_size")),
    ];
    for (config, fault) in rows {
        check_configuration(&KIND, SchemaType::Plugin, &config, fault);
    }
    check_configuration(&KIND, SchemaType::Metadata, &json!({"spec_url_ttl": 60}), None);
    check_configuration(&KIND, SchemaType::Metadata, &json!({"spec_url_ttl": 0}), Some("spec_url_ttl"));
}

/// The status and the message of a refusal.
fn run(more: Value, line: &str, fields: &str, body: &str) -> Option<(u16, String)> {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &config(more));
    let mut exchange = scene.exchange(format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}").as_bytes());
    let reply = decide(plugin.access(&mut exchange))?;
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    Some((reply.status, body["message"].as_str().unwrap().to_owned()))
}

const GOOD: &str = "X-Tenant: acme\r\nContent-Type: application/json\r\n";

#[test]
fn requests_are_checked_part_by_part() {
    let check = |line: &str, fields: &str, body: &str, expected: Option<&str>| {
        let got = run(json!({"verbose_errors": true}), line, fields, body);
        match expected {
            None => assert_eq!(got, None, "{line} {body}"),
            Some(part) => {
                let (status, text) = got.unwrap_or_else(|| panic!("{line} {body} passes"));
                assert_eq!(status, 400, "{line}");
                assert!(text.starts_with("failed to validate request. ") && text.contains(part), "{text}");
            }
        }
    };
    check("POST /orders", GOOD, r#"{"total":1.5,"note":null,"parts":[{"total":1}]}"#, None);
    check("POST /orders", GOOD, r#"{"total":1,"parts":[{"total":"x"}]}"#, Some("body: property \"parts\""));
    check("POST /orders", GOOD, "{}", Some("body: property \"total\" is required"));
    check("POST /orders", GOOD, "", Some("request body is required"));
    check("POST /orders", GOOD, "{", Some("the body is not JSON"));
    check("POST /orders", "X-Tenant: a\r\n", r#"{"total":1}"#, Some("header X-Tenant: "));
    check("POST /orders", "", r#"{"total":1}"#, Some("header X-Tenant is required"));
    let doubled = format!("{GOOD}Content-Type: text/plain\r\n");
    check("POST /orders", &doubled, r#"{"total":1}"#, Some("duplicated Content-Type"));
    check("GET /orders/7?fields=id,total&other=1", "", "", None);
    check("GET /orders/7?fields=id,secret", "", "", Some("query parameter fields: "));
    check("GET /orders/zero", "", "", Some("path parameter id: "));
    check("GET /orders/0", "", "", Some("path parameter id: "));
    check("DELETE /orders/7", "", "", Some("no such path and method"));
    check("GET /customers", "", "", Some("no such path and method"));
}

#[test]
fn settings_change_the_refusal() {
    let bad = |more: Value| run(more, "GET /orders/zero?fields=x", "", "");
    assert_eq!(bad(json!({})), Some((400, "failed to validate request. ".to_owned())));
    assert_eq!(bad(json!({"rejection_status_code": 422})).map(|(status, _)| status), Some(422));
    assert_eq!(bad(json!({"reject_if_not_match": false})), None);
    assert!(bad(json!({"skip_path_params_validation": true})).is_some());
    assert_eq!(bad(json!({"skip_path_params_validation": true, "skip_query_param_validation": true})), None);
    let post = |more: Value| run(more, "POST /orders", "", "x");
    assert!(post(json!({"skip_request_header_validation": true})).is_some());
    let skipped = json!({"skip_request_header_validation": true, "skip_request_body_validation": true});
    assert_eq!(post(skipped), None);
}

#[test]
fn long_bodies_are_refused_with_500() {
    let mut scene = Scene::new();
    let exchange = scene.exchange(b"POST /orders HTTP/1.1\r\nHost: a\r\n\r\nlong");
    let plugin = scene.build(&KIND, &config(json!({"max_req_body_size": 3})));
    assert_eq!(plugin.wants_request_body(&exchange), BodyNeed::Buffer { limit_bytes: 3 });
    let reply = plugin.refuse_long_body(&exchange).unwrap();
    assert_eq!(reply.status, 500);
    assert!(String::from_utf8_lossy(&reply.body).contains("greater than the maximum size 3 allowed"));
    let plugin = scene.build(&KIND, &config(json!({"skip_request_body_validation": true})));
    assert_eq!(plugin.wants_request_body(&exchange), BodyNeed::None);
    assert!(plugin.refuse_long_body(&exchange).is_none());
}

//! Keys, headers, bodies and paths that name nothing.

use http::header;
use serde_json::{Value, json};

use super::Talk;
use crate::testing::{ask, block_on};

#[test]
fn key_is_checked_before_the_path() {
    let talk = Talk::new();
    let check = |method: &str, key: Option<&str>, expected: (u16, &str)| {
        let headers: Vec<(&str, &str)> = key.into_iter().map(|key| ("X-API-KEY", key)).collect();
        let (status, headers_of_answer, body) =
            block_on(ask(&talk.rig.admin, method, "/apisix/admin/routes", &headers, ""));
        let body: Value = serde_json::from_str(&body).unwrap_or_default();
        assert_eq!((status, body["description"].as_str().unwrap_or_default()), expected, "{method} {key:?}");
        assert_eq!(status == 401, body["error_msg"] == "failed to check token");
        assert_eq!(status == 401, !headers_of_answer.contains_key("x-api-version"));
    };
    check("GET", None, (401, "missing apikey"));
    check("GET", Some("x"), (401, "wrong apikey"));
    check("GET", Some("guest"), (200, ""));
    check("PUT", Some("guest"), (401, "invalid method for role viewer"));
    check("HEAD", Some("guest"), (404, ""));
    check("GET", Some("boss"), (200, ""));
}

#[test]
fn every_answer_has_the_common_headers() {
    let talk = Talk::new();
    let check = |method: &str, target: &str, expected_status: u16| {
        let (status, headers, body) =
            block_on(ask(&talk.rig.admin, method, target, &[("X-API-KEY", "boss")], ""));
        assert_eq!(status, expected_status, "{method} {target}");
        let header = |name: &str| {
            headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
        };
        assert_eq!(header("server"), "APISIX/3.18.0");
        assert_eq!(header("x-api-version"), "v3");
        assert_eq!(header("access-control-allow-origin"), "*");
        assert_eq!(header("access-control-allow-credentials"), "true");
        assert_eq!(header("access-control-expose-headers"), "*");
        assert_eq!(header("access-control-max-age"), "3600");
        if method != "OPTIONS" {
            assert_eq!(header("content-type"), "application/json");
        }
        assert!(body.is_empty() || body.ends_with('\n'), "{body}");
    };
    check("GET", "/apisix/admin/routes", 200);
    check("GET", "/apisix/admin/nothing", 404);
    check("GET", "/elsewhere", 404);
    check("HEAD", "/apisix/admin", 200);
    check("OPTIONS", "/apisix/admin/routes/1", 200);
}

#[test]
fn probe_and_preflight_need_no_key() {
    let talk = Talk::new();
    for (method, target) in
        [("HEAD", "/apisix/admin"), ("HEAD", "/apisix/admin/"), ("OPTIONS", "/apisix/admin/routes")]
    {
        let (status, headers, _) = block_on(ask(&talk.rig.admin, method, target, &[], ""));
        assert_eq!(status, 200, "{method} {target}");
        assert_eq!(headers.contains_key(header::ACCESS_CONTROL_ALLOW_METHODS), method == "OPTIONS");
    }
    let (status, _, _) = block_on(ask(&talk.rig.admin, "HEAD", "/apisix/admin/routes", &[], ""));
    assert_eq!(status, 401);
}

#[test]
fn unknown_path_is_answered_404() {
    let talk = Talk::new();
    talk.check(
        "GET",
        "/apisix/admin/nothing",
        Value::Null,
        404,
        json!({"error_msg": "Unsupported resource type: nothing"}),
    );
    talk.check(
        "GET",
        "/apisix/admin/credentials",
        Value::Null,
        404,
        json!({"error_msg": "Unsupported resource type: credentials"}),
    );
    let unsupported = json!({"error_msg": "Unsupported resource type: graphql_cost_decorations"});
    talk.rig.json("PUT", "/apisix/admin/services/1", &json!({}));
    for (method, target) in [("GET", ""), ("PUT", "/1"), ("DELETE", ""), ("DELETE", "/1")] {
        let target = format!("/apisix/admin/services/1/graphql_cost_decorations{target}");
        talk.check(method, &target, json!({}), 404, unsupported.clone());
    }
    assert_eq!(
        talk.rig.json("GET", "/apisix/admin/services/1", &Value::Null).0,
        200,
        "the service is untouched"
    );
    talk.check("PUT", "/apisix/admin/plugins/x", json!({}), 404, json!({"error_msg": "not found"}));
    talk.check("DELETE", "/apisix/admin/schema/route", Value::Null, 404, json!({"error_msg": "not found"}));
    talk.check("GET", "/apisix/admin", Value::Null, 404, json!({"error_msg": "not found"}));
}

#[test]
fn malformed_body_is_answered_400() {
    let talk = Talk::new();
    let (status, body) = talk.rig.ask("PUT", "/apisix/admin/routes/1", "{\"uri\":");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["req_body"]), (400, &json!("{\"uri\":")));
    assert!(body["error_msg"].as_str().unwrap().starts_with("invalid request body: "), "{body}");
    let proto = "{\"content\":\"syntax = \\\"proto3\\\";\n\tmessage A {}\r\n\"}";
    let (status, body) = talk.rig.ask("PUT", "/apisix/admin/protos/1", proto);
    let body: Value = serde_json::from_str(&body).unwrap();
    let expected = json!("syntax = \"proto3\";\n\tmessage A {}\r\n");
    assert_eq!((status, &body["value"]["content"]), (201, &expected), "raw line breaks are taken");
    let large = format!("{{\"desc\":\"{}\"}}", "x".repeat(1_572_864));
    let (status, body) = talk.rig.ask("PUT", "/apisix/admin/routes/1", &large);
    assert_eq!(status, 400);
    assert!(body.contains("is greater than the maximum size 1572864 allowed"), "{body}");
    let missing = json!({"error_msg": "missing configurations"});
    talk.check("PUT", "/apisix/admin/routes/1", Value::Null, 400, missing.clone());
    talk.check("POST", "/apisix/admin/routes", Value::Null, 400, missing);
    let wrong = json!({"error_msg": "invalid configuration: wrong type: expected object, got array"});
    talk.check("PUT", "/apisix/admin/routes/1", json!([1]), 400, wrong);
    let ttl = json!({"error_msg": "invalid argument ttl: should be a number"});
    talk.check("PUT", "/apisix/admin/routes/1?ttl=soon", json!({"uri": "/"}), 400, ttl);
    let ttl = json!({"error_msg": "invalid argument ttl: should be positive"});
    talk.check("PUT", "/apisix/admin/routes/1?ttl=-1", json!({"uri": "/"}), 400, ttl);
}

#[test]
fn status_and_revision_are_answered() {
    let talk = Talk::new();
    let upstream = json!({"nodes": {"127.0.0.1:1": 1}, "type": "roundrobin"});
    let (_, headers, _) = block_on(ask(
        &talk.rig.admin,
        "PUT",
        "/apisix/admin/upstreams/1",
        &[("X-API-KEY", "boss")],
        &upstream.to_string(),
    ));
    assert_eq!(headers["x-weir-revision"], "1");
    let (status, body) = talk.rig.json("GET", "/apisix/admin/weir/status", &Value::Null);
    assert_eq!(status, 200);
    assert_eq!(body["revision"], 1);
    assert_eq!(body["workers"], json!([{"worker": 0, "revision": 3}, {"worker": 1, "revision": 2}]));
    assert_eq!((&body["objects"]["upstreams"], &body["faults"]), (&json!(1), &json!([])));
    talk.check(
        "POST",
        "/apisix/admin/weir/explain",
        json!({}),
        404,
        json!({"error_msg": "this gateway cannot explain its routing"}),
    );
}

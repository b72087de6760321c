//! Plugins, schemas and checks that store nothing.

use serde_json::{Value, json};

use super::Talk;
use crate::testing::{ask, block_on};

#[test]
fn plugins_are_listed_and_described() {
    let talk = Talk::new();
    talk.check("GET", "/apisix/admin/plugins/list", Value::Null, 200, json!(["auth", "count"]));
    talk.check("GET", "/apisix/admin/plugins/list?subsystem=stream", Value::Null, 200, json!(["count"]));
    let not_there = json!({"error_msg": "plugin not found in subsystem stream"});
    talk.check("GET", "/apisix/admin/plugins/auth?subsystem=stream", Value::Null, 404, not_there);
    let unsupported = json!({"error_msg": "unsupported subsystem: x"});
    talk.check("GET", "/apisix/admin/plugins/list?subsystem=x", Value::Null, 400, unsupported.clone());
    talk.check("GET", "/apisix/admin/plugins/auth?subsystem=x", Value::Null, 400, unsupported);
    let missing = json!({"error_msg": "plugin not found in subsystem http"});
    talk.check("GET", "/apisix/admin/plugins/none", Value::Null, 404, missing);
    talk.check(
        "GET",
        "/apisix/admin/plugins",
        Value::Null,
        400,
        json!({"error_msg": "not found plugin name"}),
    );
    let pointer = |target: &str, pointer: &str| {
        let (status, body) = talk.rig.json("GET", target, &Value::Null);
        (status, body.pointer(pointer).cloned().unwrap_or_default())
    };
    assert_eq!(pointer("/apisix/admin/plugins/count", "/properties/count/minimum"), (200, json!(1)));
    assert_eq!(
        pointer("/apisix/admin/schema/plugins/count", "/properties/_meta/type"),
        (200, json!("object"))
    );
    assert_eq!(
        pointer("/apisix/admin/schema/plugins/auth?schema_type=consumer", "/required/0"),
        (200, json!("key"))
    );
    assert_eq!(
        pointer("/apisix/admin/plugins/count?schema_type=metadata", "/properties/size/type"),
        (200, json!("integer"))
    );
    assert_eq!(
        pointer("/apisix/admin/plugins/auth?schema_type=metadata", "/error_msg"),
        (400, json!("not found schema"))
    );
    assert_eq!(pointer("/apisix/admin/plugins?all=true", "/auth/priority"), (200, json!(2500)));
    assert_eq!(pointer("/apisix/admin/plugins?all=true", "/auth/type"), (200, json!("auth")));
    assert_eq!(talk.rig.ask("PUT", "/apisix/admin/plugins/reload", ""), (200, "done".to_owned()));
    for method in ["GET", "POST", "PATCH", "DELETE"] {
        let message = format!("please use PUT method to reload the plugins, {method} method is not allowed.");
        let refused = json!({"error_msg": message});
        talk.check(method, "/apisix/admin/plugins/reload", Value::Null, 405, refused);
    }
}

#[test]
fn schema_of_each_kind_is_answered() {
    let talk = Talk::new();
    for name in model::ObjectKind::ALL.map(model::ObjectKind::singular) {
        let (status, body) = talk.rig.json("GET", &format!("/apisix/admin/schema/{name}"), &Value::Null);
        assert_eq!((status, &body["type"]), (200, &json!("object")), "{name}");
    }
    talk.check(
        "GET",
        "/apisix/admin/schema/none",
        Value::Null,
        400,
        json!({"error_msg": "not found schema: none"}),
    );
}

#[test]
fn object_is_checked_and_not_stored() {
    let talk = Talk::new();
    let check = |kind: &str, body: Value, status: u16, part: &str| {
        let (found, answer) =
            talk.rig.ask("POST", &format!("/apisix/admin/schema/validate/{kind}"), &body.to_string());
        assert!(found == status && answer.contains(part), "{kind} {body} {found} {answer}");
    };
    let route = json!({"uri": "/*", "upstream": {"type": "roundrobin", "nodes": {"nghttp2.org": 1}}});
    check("routes", route, 200, "");
    check(
        "routes",
        json!({"uri": 666, "plugins": {}}),
        400,
        r#"{"error_msg":"property \"uri\" validation failed: wrong type"#,
    );
    check("routes", json!({"uri": "/", "upstream_id": "none"}), 200, "");
    check(
        "routes",
        json!({"uri": "/", "plugins": {"count": {}}}),
        400,
        "failed to check the configuration of plugin count",
    );
    check("nothing", json!({}), 404, "Unsupported resource type: nothing");
    // Every kind has a check; the tests of `model` cover its rules.
    for kind in model::ObjectKind::ALL {
        let collection = kind.collection();
        check(collection, json!([]), 400, "wrong type: expected object, got table");
        let expected = match kind {
            // These kinds accept any object, because the plugin or the manager defines the fields.
            model::ObjectKind::PluginMetadata | model::ObjectKind::Secret => (200, ""),
            _ => (400, "additional properties forbidden, found no_such_field"),
        };
        let body = match kind {
            model::ObjectKind::Consumer => json!({"username": "a", "no_such_field": 1}),
            model::ObjectKind::Proto => json!({"content": "a", "no_such_field": 1}),
            model::ObjectKind::Contract => {
                let content = "openapi: 3.1.0\npaths: {}";
                json!({"content": content, "plugins": {}, "no_such_field": 1})
            }
            model::ObjectKind::Extension => json!({"language": "tiny", "content": "a", "no_such_field": 1}),
            model::ObjectKind::GlobalRule
            | model::ObjectKind::PluginConfig
            | model::ObjectKind::ConsumerGroup => {
                json!({"id": "1", "plugins": {}, "no_such_field": 1})
            }
            model::ObjectKind::Route => json!({"uri": "/", "plugins": {}, "no_such_field": 1}),
            model::ObjectKind::Upstream => json!({"nodes": {}, "no_such_field": 1}),
            _ => json!({"no_such_field": 1}),
        };
        check(collection, body, expected.0, expected.1);
    }
}

#[test]
fn set_is_checked_and_not_stored() {
    let talk = Talk::new();
    let check = |content_type: &str, body: &str, status: u16, expected: &[&str]| {
        let headers = [("X-API-KEY", "boss"), ("Content-Type", content_type)];
        let target = "/apisix/admin/configs/validate";
        let (found, _, answer) = block_on(ask(&talk.rig.admin, "POST", target, &headers, body));
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let errors: Vec<&str> = answer["errors"]
            .as_array()
            .map(|errors| errors.iter().filter_map(|fault| fault["error"].as_str()).collect())
            .unwrap_or_default();
        assert_eq!((found, errors.len()), (status, expected.len()), "{body} {answer}");
        for (error, part) in errors.iter().zip(expected) {
            assert!(error.contains(part), "{error} lacks {part}");
        }
        if status == 400 && !expected.is_empty() {
            assert_eq!(answer["error_msg"], "Configuration validation failed");
        }
    };
    let json = "application/json";
    check(
        json,
        r#"{"routes": [{"id": "1", "uri": "/", "upstream_id": "x"}], "routes_conf_version": 1}"#,
        200,
        &[],
    );
    check("application/yaml", "routes:\n- id: r\n  uri: /\n  service_id: s\n", 200, &[]);
    check(
        json,
        r#"{"routes": [{"id": "1", "uri": 5}, {"id": 1, "uri": "/", "service_id": "x"}], "consumers": [{"username": "j"}, {"username": "j"}]}"#,
        400,
        &[
            "invalid routes at index 0, err: ",
            "found duplicate id 1 in routes",
            "found duplicate username j in consumers",
        ],
    );
    check(json, r#"{"things": []}"#, 400, &["Unsupported resource type: things"]);
    check(json, r#"{"routes": {}}"#, 400, &["routes must be a list"]);
    check(json, "", 400, &[]);
    check(json, "{", 400, &[]);
}

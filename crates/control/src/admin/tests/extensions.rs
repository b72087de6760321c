//! Extensions: written, pushed, activated, tried on a share, taken back, and shown.

use model::extension::version_of;
use serde_json::{Value, json};

use super::Talk;
use crate::testing::{ask, block_on};

const PATH: &str = "/apisix/admin/extensions/mine";

fn push(talk: &Talk, content: &str, query: &str) -> (u16, Value) {
    let body = json!({"language": "tiny", "content": content});
    talk.rig.json("POST", &format!("{PATH}/versions{query}"), &body)
}

/// The state of each version, the newest first.
fn states(talk: &Talk) -> Vec<String> {
    let (status, answer) = talk.rig.json("GET", &format!("{PATH}/versions"), &Value::Null);
    assert_eq!(status, 200, "{answer}");
    let list = answer["list"].as_array().unwrap();
    list.iter().map(|version| version["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn plugin_of_an_extension_is_used_like_any_other() {
    let talk = Talk::new();
    let route = |config: Value| {
        let upstream = json!({"nodes": {"127.0.0.1:1": 1}});
        let body = json!({"uri": "/", "upstream": upstream, "plugins": {"mine": config}});
        let (status, answer) = talk.rig.json("PUT", "/apisix/admin/routes/1", &body);
        (status, answer["error_msg"].as_str().unwrap_or_default().to_owned())
    };
    assert!(route(json!({"a": 1})).1.starts_with("unknown plugin [mine]"));
    assert_eq!(push(&talk, "a", "").0, 201);
    assert_eq!(route(json!({"a": 1})).0, 201);
    let refused = "failed to check the configuration of plugin mine err: property \"a\" is required";
    assert_eq!(route(json!({})), (400, refused.to_owned()));
    let (_, list) = talk.rig.json("GET", "/apisix/admin/plugins/list", &Value::Null);
    assert_eq!(list, json!(["auth", "count", "mine"]));
    let (_, all) = talk.rig.json("GET", "/apisix/admin/plugins?all=true", &Value::Null);
    assert_eq!(all["mine"]["priority"], 7);
    for place in ["plugins/mine", "schema/plugins/mine"] {
        let (_, schema) = talk.rig.json("GET", &format!("/apisix/admin/{place}"), &Value::Null);
        assert_eq!(schema["required"], json!(["a"]), "{place}");
    }
    let (status, _) = talk.rig.json("PUT", "/apisix/admin/plugin_metadata/mine", &json!({"size": 1}));
    assert_eq!(status, 201);
    let (_, shown) = talk.rig.json("GET", "/apisix/admin/weir/plugins/mine", &Value::Null);
    assert_eq!((&shown["group"], &shown["used_by"]), (&json!("extension"), &json!(1)));
    let (status, answer) = talk.rig.json("DELETE", PATH, &Value::Null);
    let used = "can not delete this extension, route [1] is still using it now";
    assert_eq!((status, &answer["error_msg"]), (400, &json!(used)));
}

#[test]
fn versions_are_pushed_activated_and_taken_back() {
    let talk = Talk::new();
    let (status, first) = push(&talk, "a", "");
    assert_eq!((status, &first["active"]), (201, &json!(version_of(b"a"))));
    assert_eq!(push(&talk, "b", "").0, 200);
    assert_eq!(states(&talk), ["", "active"]);
    let version = &version_of(b"b")[..8];
    let change = |method: &str, action: &str, body: Value| {
        let (status, answer) = talk.rig.json(method, &format!("{PATH}/{action}"), &body);
        assert_eq!(status, 200, "{method} {action}: {answer}");
        states(&talk)
    };
    let canary = json!({"version": version, "percent": 5, "vars": [["uri", "==", "/"]]});
    assert_eq!(change("PUT", "canary", canary), ["canary", "active"]);
    assert_eq!(change("DELETE", "canary", Value::Null), ["", "active"]);
    assert_eq!(change("PUT", "activate", json!({"version": version})), ["active", "previous"]);
    assert_eq!(change("POST", "rollback", Value::Null), ["previous", "active"]);
    let (status, canary) = push(&talk, "c", "?canary=2.5");
    assert_eq!((status, &canary["canary"]["percent"]), (200, &json!(2.5)));
    assert_eq!(push(&talk, "d", "?activate=true").1["active"], json!(version_of(b"d")));
}

#[test]
fn faulty_versions_and_requests_change_nothing() {
    let talk = Talk::new();
    push(&talk, "a", "");
    let check = |method: &str, action: &str, body: Value, status: u16, reason: &str| {
        let (found, answer) = talk.rig.json(method, &format!("{PATH}/{action}"), &body);
        let message = answer["error_msg"].as_str().unwrap_or_default();
        assert!(found == status && message.contains(reason), "{method} {action}: {found} {answer}");
    };
    let broken = json!({"content": "broken"});
    for query in ["", "?activate=true", "?canary=5"] {
        let reason = "invalid configuration: mine cannot be loaded: line 1: it is broken";
        check("POST", &format!("versions{query}"), broken.clone(), 400, reason);
    }
    check("POST", "versions", json!({"language": "perl", "content": "a"}), 400, "written in tiny");
    check("POST", "versions", json!({}), 400, "property \"content\" is required");
    check("POST", "versions?canary=x", json!({"content": "b"}), 400, "invalid argument canary");
    check("PUT", "activate", json!({"version": "none"}), 400, "there is no version none");
    check("PUT", "activate", json!({}), 400, "property \"version\" is required");
    check("POST", "rollback", Value::Null, 400, "no version that served before");
    check("PUT", "canary", json!({"version": version_of(b"a"), "percent": 101}), 400, "percent");
    check("DELETE", "activate", Value::Null, 404, "");
    assert_eq!(states(&talk), ["active"]);
    let (status, _) = talk.rig.json("GET", "/apisix/admin/extensions/none/versions", &Value::Null);
    assert_eq!(status, 404);
}

#[test]
fn content_may_be_sent_as_it_is() {
    let talk = Talk::new();
    let headers = [("X-API-KEY", "boss"), ("Content-Type", "text/x-tiny")];
    let target = format!("{PATH}/versions");
    let (status, headers, answer) = block_on(ask(&talk.rig.admin, "PUT", &target, &headers, "field"));
    assert_eq!(status, 201, "{answer}");
    assert!(headers.contains_key("etag"));
    let (_, read) = talk.rig.json("GET", PATH, &Value::Null);
    assert_eq!(read["value"]["versions"][0]["content"], "field");
    let old = [("X-API-KEY", "boss"), ("Content-Type", "text/x-tiny"), ("If-Match", "\"99\"")];
    let (status, ..) = block_on(ask(&talk.rig.admin, "PUT", &target, &old, "other"));
    assert_eq!(status, 412);
}

#[test]
fn viewer_sees_no_content() {
    let talk = Talk::new();
    push(&talk, "field", "");
    let (_, read) = talk.rig.json("GET", PATH, &Value::Null);
    let key = model::ObjectKey::new(model::ObjectKind::Extension, "mine").unwrap();
    let hidden = crate::hidden::places::with_hidden_secrets(
        &crate::testing::catalog(),
        &key,
        &read["value"].to_string(),
    );
    assert_ne!(hidden["versions"][0]["content"], "field");
    assert_eq!(hidden["versions"][0]["version"], read["value"]["versions"][0]["version"]);
}

#[test]
fn set_has_extensions_beside_their_users() {
    let talk = Talk::new();
    let route = |config: Value| json!({"id": "1", "uri": "/", "upstream": {"nodes": {"a:1": 1}}, "plugins": {"mine": config}});
    let set = |config: Value| {
        json!({
            "extensions": [{"id": "mine", "language": "tiny", "content": "a"}], "routes": [route(config)],
        })
    };
    let check = |set: &Value| talk.rig.json("POST", "/apisix/admin/configs/validate", set);
    assert_eq!(check(&set(json!({"a": 1}))).0, 200);
    let (status, answer) = check(&set(json!({})));
    assert!(status == 400 && answer.to_string().contains("property \\\"a\\\" is required"), "{answer}");
    let (status, answer) = check(&json!({"routes": [route(json!({"a": 1}))]}));
    assert!(status == 400 && answer.to_string().contains("unknown plugin [mine]"), "{answer}");
    let headers = [("X-API-KEY", "boss"), ("X-Digest", "one")];
    let body = set(json!({"a": 1})).to_string();
    let (status, _, answer) = block_on(ask(&talk.rig.admin, "PUT", "/apisix/admin/configs", &headers, &body));
    assert_eq!(status, 202, "{answer}");
    assert_eq!(talk.rig.json("GET", "/apisix/admin/routes/1", &Value::Null).0, 200);
}

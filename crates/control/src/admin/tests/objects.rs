//! Writing, reading, listing and deleting objects, and refused writes.

use serde_json::{Value, json};

use super::Talk;

fn upstream() -> Value {
    json!({"nodes": {"127.0.0.1:8080": 1}, "type": "roundrobin"})
}

fn route(uri: &str) -> Value {
    json!({"uri": uri, "upstream": upstream()})
}

/// `value` with more fields.
fn with(value: &Value, more: Value) -> Value {
    let mut object = value.as_object().unwrap().clone();
    object.extend(more.as_object().unwrap().clone());
    Value::Object(object)
}

fn error(message: &str) -> Value {
    json!({ "error_msg": message })
}

#[test]
fn route_is_created_replaced_and_deleted() {
    let talk = Talk::new();
    let stored = with(&route("/a"), json!({"id": "1"}));
    let answer = json!({"key": "/apisix/routes/1", "value": stored});
    talk.check("PUT", "/apisix/admin/routes/1", route("/a"), 201, answer.clone());
    talk.check("PUT", "/apisix/admin/routes/1", route("/a"), 200, answer);
    let read = json!({"key": "/apisix/routes/1", "value": stored, "createdIndex": 1, "modifiedIndex": 2});
    talk.check("GET", "/apisix/admin/routes/1", Value::Null, 200, read.clone());
    talk.check("GET", "/apisix/admin/routes", Value::Null, 200, json!({"list": [read], "total": 1}));
    talk.check(
        "DELETE",
        "/apisix/admin/routes/1",
        Value::Null,
        200,
        json!({"deleted": "1", "key": "/apisix/routes/1"}),
    );
    let gone = json!({"message": "Key not found"});
    for method in ["GET", "DELETE"] {
        talk.check(method, "/apisix/admin/routes/1", Value::Null, 404, gone.clone());
    }
    talk.check("PATCH", "/apisix/admin/routes/1", json!({"uri": "/b"}), 404, gone.clone());
    talk.check("GET", "/apisix/admin/routes/a%20b", Value::Null, 404, gone);
    talk.check("GET", "/apisix/admin/routes/", Value::Null, 200, json!({"list": [], "total": 0}));
}

#[test]
fn id_comes_from_path_or_body() {
    let talk = Talk::new();
    let check = |method: &str, target: &str, more: Value, status: u16, expected: Value| {
        talk.check(method, target, with(&route("/a"), more), status, expected);
    };
    let stored = |id: Value| with(&route("/a"), json!({ "id": id }));
    check(
        "PUT",
        "/apisix/admin/routes",
        json!({"id": 7}),
        201,
        json!({"key": "/apisix/routes/7", "value": stored(json!(7))}),
    );
    check(
        "PUT",
        "/apisix/admin/routes/7",
        json!({"id": 7}),
        200,
        json!({"key": "/apisix/routes/7", "value": stored(json!("7"))}),
    );
    check("PUT", "/apisix/admin/routes", json!({}), 400, error("missing route id"));
    check("PUT", "/apisix/admin/routes/7", json!({"id": "8"}), 400, error("wrong route id"));
    check("POST", "/apisix/admin/routes", json!({"id": "8"}), 400, error("wrong route id, do not need it"));
    check("POST", "/apisix/admin/routes/8", json!({}), 400, error("wrong route id, do not need it"));
    for method in ["DELETE", "PATCH"] {
        talk.check(method, "/apisix/admin/routes", json!({}), 400, error("missing route id"));
    }
    // The id takes a revision, so the write has the next one.
    let id = "00000000000000000003";
    check(
        "POST",
        "/apisix/admin/routes",
        json!({}),
        201,
        json!({"key": format!("/apisix/routes/{id}"), "value": stored(json!(id))}),
    );
    let (_, read) = talk.rig.json("GET", &format!("/apisix/admin/routes/{id}"), &Value::Null);
    assert_eq!((&read["createdIndex"], &read["modifiedIndex"]), (&json!(4), &json!(4)));
    let (status, body) = talk.rig.json("PUT", "/apisix/admin/routes/a%20b", &route("/a"));
    assert!(
        status == 400 && body["error_msg"].as_str().unwrap().starts_with("invalid configuration: "),
        "{body}"
    );
}

#[test]
fn times_are_set_by_the_gateway() {
    let talk = Talk::new();
    let times = |target: &str| {
        let (_, read) = talk.rig.json("GET", target, &Value::Null);
        (read["value"]["create_time"].clone(), read["value"]["update_time"].clone())
    };
    let start = 1_767_225_600_u64;
    talk.rig.json("PUT", "/apisix/admin/routes/1", &route("/a"));
    assert_eq!(times("/apisix/admin/routes/1"), (json!(start), json!(start)));
    talk.rig.clock.advance(5000);
    talk.rig.json("PUT", "/apisix/admin/routes/1", &route("/b"));
    assert_eq!(times("/apisix/admin/routes/1"), (json!(start), json!(start + 5)));
    talk.rig.clock.advance(5000);
    talk.rig.json("PATCH", "/apisix/admin/routes/1", &json!({"desc": "x"}));
    assert_eq!(times("/apisix/admin/routes/1"), (json!(start), json!(start + 10)));
    let forbidden = error("the property is forbidden:  create_time");
    talk.check(
        "PUT",
        "/apisix/admin/routes/1",
        with(&route("/a"), json!({"create_time": 1})),
        400,
        forbidden,
    );
    let forbidden = error("the property is forbidden:  update_time");
    talk.check("POST", "/apisix/admin/routes", with(&route("/a"), json!({"update_time": 1})), 400, forbidden);
}

#[test]
fn patch_merges_or_replaces_at_a_sub_path() {
    let talk = Talk::new();
    talk.rig.json(
        "PUT",
        "/apisix/admin/routes/1",
        &with(&route("/a"), json!({"methods": ["GET"], "labels": {"a": "1"}})),
    );
    let check = |target: &str, part: Value, status: u16, pointer: &str, expected: Value| {
        let (found_status, body) = talk.rig.json("PATCH", &format!("/apisix/admin/routes/1{target}"), &part);
        let found = body.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!((found_status, found), (status, expected), "{target} {part} {body}");
    };
    check("", json!({"desc": "d"}), 200, "/value/desc", json!("d"));
    check("", json!({"desc": null}), 200, "/value/desc", Value::Null);
    check("", json!({"labels": {"b": "2"}}), 200, "/value/labels", json!({"a": "1", "b": "2"}));
    check("", json!({"methods": ["PUT", "POST"]}), 200, "/value/methods", json!(["PUT", "POST"]));
    check("/methods", json!(["GET"]), 200, "/value/methods", json!(["GET"]));
    check("/upstream/nodes", json!({"127.0.0.2:1": 1}), 200, "/value/upstream/nodes/127.0.0.2:1", json!(1));
    check("/labels/b", Value::Bool(true), 400, "/value", Value::Null);
    check("/uri/x", json!(1), 400, "/error_msg", json!("invalid sub-path: /uri"));
    check("", json!(1), 400, "/error_msg", json!("invalid configuration"));
    check("", Value::Null, 400, "/error_msg", json!("missing new configuration"));
    check("", json!({"uri": 5}), 400, "/value", Value::Null);
    check("", json!({"id": "2"}), 400, "/error_msg", json!("wrong route id"));
    check("", json!({"id": 1}), 200, "/value/id", json!("1"));
    check("", json!({"id": null}), 200, "/value/id", json!("1"));
    let (_, read) = talk.rig.json("GET", "/apisix/admin/routes/1", &Value::Null);
    assert_eq!(read["value"]["labels"], json!({"a": "1", "b": "2"}), "what was refused changed nothing");
}

#[test]
fn disabled_verb_is_answered_405() {
    let talk = Talk::new();
    let check = |method: &str, target: &str, name: &str| {
        let message = format!("not supported `{method}` method for {name}");
        talk.check(method, &format!("/apisix/admin/{target}"), json!({}), 405, error(&message));
    };
    check("POST", "consumers", "consumer");
    check("PATCH", "consumers/jack", "consumer");
    check("POST", "consumers/jack/credentials", "credential");
    check("PATCH", "consumers/jack/credentials/c", "credential");
    check("POST", "plugin_metadata", "plugin_metadata");
    check("PATCH", "plugin_metadata/count", "plugin_metadata");
    check("POST", "global_rules", "global rule");
    check("POST", "plugin_configs", "plugin config");
    check("POST", "consumer_groups", "consumer group");
    check("POST", "secrets/vault", "secret");
    check("PATCH", "protos/1", "proto");
    check("PATCH", "stream_routes/1", "stream route");
}

#[test]
fn stream_routes_are_stored_unless_disabled() {
    let talk = Talk::new();
    let route = json!({"server_port": 9100, "upstream": upstream(), "plugins": {"count": {"count": 1}}});
    let stored = json!({"key": "/apisix/stream_routes/1", "value": with(&route, json!({"id": "1"}))});
    talk.check("PUT", "/apisix/admin/stream_routes/1", route.clone(), 201, stored);
    let (status, read) = talk.rig.json("GET", "/apisix/admin/stream_routes/1", &Value::Null);
    assert_eq!((status, &read["value"]["server_port"]), (200, &json!(9100)));
    let (status, made) = talk.rig.json("POST", "/apisix/admin/stream_routes", &route);
    assert_eq!(status, 201, "{made}");
    let refused = |more: Value, expected: &str| {
        let (status, body) =
            talk.rig.json("PUT", "/apisix/admin/stream_routes/2", &with(&route, more.clone()));
        assert!(status == 400 && body["error_msg"].as_str().unwrap().contains(expected), "{more} {body}");
    };
    refused(json!({"server_port": 0}), "expected 0 to be at least 1");
    refused(
        json!({"upstream_id": "9"}),
        "failed to fetch upstream info by upstream id [9], response code: 404",
    );
    refused(json!({"service_id": "9"}), "failed to fetch service info by service id [9], response code: 404");
    // `auth` serves HTTP only.
    refused(json!({"plugins": {"auth": {}}}), "unknown plugin [auth]");
    talk.check(
        "DELETE",
        "/apisix/admin/stream_routes/1",
        Value::Null,
        200,
        json!({"deleted": "1", "key": "/apisix/stream_routes/1"}),
    );

    let directory = tempfile::tempdir().unwrap();
    let rig = crate::testing::Rig::store_without_stream_routes(directory.path());
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        assert_eq!(
            rig.json(method, "/apisix/admin/stream_routes/1", &json!({})),
            (400, error("stream mode is disabled, can not add stream routes"))
        );
    }
}

#[test]
fn faulty_content_is_answered_400() {
    let talk = Talk::new();
    let check = |more: Value, expected: &str| {
        let (status, body) =
            talk.rig.json("PUT", "/apisix/admin/routes/1", &with(&route("/a"), more.clone()));
        let message = body["error_msg"].as_str().unwrap_or_default();
        assert!(status == 400 && message.starts_with(expected), "{more} {status} {body}");
    };
    check(json!({"unknown": 1}), "invalid configuration: additional properties forbidden, found unknown");
    check(
        json!({"uri": 1}),
        "invalid configuration: property \"uri\" validation failed: wrong type: expected string",
    );
    check(json!({"host": "a", "hosts": ["b"]}), "only one of host or hosts is allowed");
    check(json!({"plugins": {"none": {}}}), "unknown plugin [none]");
    check(
        json!({"plugins": {"count": {"count": 0}}}),
        "failed to check the configuration of plugin count err: ",
    );
    check(
        json!({"upstream_id": "9"}),
        "failed to fetch upstream info by upstream id [9], response code: 404",
    );
    check(json!({"service_id": "9"}), "failed to fetch service info by service id [9], response code: 404");
    check(
        json!({"plugin_config_id": "9"}),
        "failed to fetch plugin config info by plugin config id [9], response code: 404",
    );
    check(json!({"vars": [["a"]]}), "failed to validate the 'vars' expression: ");
    assert!(
        talk.rig.published.0.lock().iter().all(|(_, keys)| keys.is_empty()),
        "nothing of it was published"
    );
}

#[test]
fn referenced_object_is_deleted_by_force_only() {
    let talk = Talk::new();
    talk.rig.json("PUT", "/apisix/admin/upstreams/u", &upstream());
    talk.rig.json("PUT", "/apisix/admin/services/s", &json!({"upstream_id": "u"}));
    talk.rig.json(
        "PUT",
        "/apisix/admin/routes/r",
        &json!({"uri": "/", "service_id": "s", "upstream_id": "u"}),
    );
    let used = error("can not delete this upstream, route [r] is still using it now");
    talk.check("DELETE", "/apisix/admin/upstreams/u", Value::Null, 400, used.clone());
    talk.check("DELETE", "/apisix/admin/upstreams/u?force=1", Value::Null, 400, used);
    let used = error("can not delete this service directly, route [r] is still using it now");
    talk.check("DELETE", "/apisix/admin/services/s", Value::Null, 400, used);
    let deleted = json!({"deleted": "1", "key": "/apisix/upstreams/u"});
    talk.check("DELETE", "/apisix/admin/upstreams/u?force=true", Value::Null, 200, deleted);
    let (_, status) = talk.rig.json("GET", "/apisix/admin/weir/status", &Value::Null);
    let faulty: Vec<&str> =
        status["faults"].as_array().unwrap().iter().filter_map(|fault| fault["key"].as_str()).collect();
    assert_eq!(faulty, ["/services/s", "/routes/r"]);
    let (code, _) = talk.rig.json("GET", "/apisix/admin/routes/r", &Value::Null);
    assert_eq!(code, 200, "a faulty object is still readable");
}

#[test]
fn credentials_are_below_their_consumer() {
    let talk = Talk::new();
    let credential = json!({"plugins": {"auth": {"key": "k1"}}});
    let missing = error("consumer not found");
    talk.check("PUT", "/apisix/admin/consumers/jack/credentials/c1", credential.clone(), 404, missing);
    let jack = json!({"key": "/apisix/consumers/jack", "value": {"username": "jack"}});
    talk.check("PUT", "/apisix/admin/consumers", json!({"username": "jack"}), 201, jack.clone());
    talk.check("PUT", "/apisix/admin/consumers/jack", json!({"username": "jack"}), 200, jack);
    talk.check(
        "PUT",
        "/apisix/admin/consumers/jack",
        json!({"username": "joe"}),
        400,
        error("wrong username"),
    );
    let gone = json!({"message": "Key not found"});
    talk.check("GET", "/apisix/admin/consumers/jack/credentials", Value::Null, 404, gone.clone());
    let stored = json!({"key": "/apisix/consumers/jack/credentials/c1", "value": with(&credential, json!({"id": "c1"}))});
    talk.check("PUT", "/apisix/admin/consumers/jack/credentials/c1", credential.clone(), 201, stored);
    talk.check(
        "PUT",
        "/apisix/admin/consumers/jack/credentials",
        credential,
        400,
        error("missing credential id"),
    );
    let (_, list) = talk.rig.json("GET", "/apisix/admin/consumers", &Value::Null);
    assert_eq!((&list["total"], &list["list"][0]["key"]), (&json!(1), &json!("/apisix/consumers/jack")));
    let (_, list) = talk.rig.json("GET", "/apisix/admin/consumers/jack/credentials", &Value::Null);
    assert_eq!((&list["total"], &list["list"][0]["value"]["id"]), (&json!(1), &json!("c1")));
    let other = json!({"username": "joe", "plugins": {"auth": {"key": "k1"}}});
    let (status, body) = talk.rig.json("PUT", "/apisix/admin/consumers", &other);
    assert!(
        status == 400
            && body["error_msg"].as_str().unwrap().contains("duplicate key found with consumer: jack"),
        "{body}"
    );
    let deleted = json!({"deleted": "1", "key": "/apisix/consumers/jack"});
    talk.check("DELETE", "/apisix/admin/consumers/jack", Value::Null, 200, deleted);
    talk.check("GET", "/apisix/admin/consumers/jack/credentials", Value::Null, 404, gone.clone());
    talk.rig.json("PUT", "/apisix/admin/consumers", &json!({"username": "jack"}));
    talk.check("GET", "/apisix/admin/consumers/jack/credentials/c1", Value::Null, 404, gone);
    let (status, body) = talk.rig.json("PUT", "/apisix/admin/consumers", &json!({"desc": "x"}));
    assert!(status == 400 && body["error_msg"].as_str().unwrap().contains("username"), "{body}");
}

#[test]
fn other_kinds_are_written_and_read() {
    let talk = Talk::new();
    let stored = json!({"key": "/apisix/plugin_metadata/count", "value": {"id": "count", "size": 5}});
    talk.check("PUT", "/apisix/admin/plugin_metadata/count", json!({"size": 5}), 201, stored);
    talk.check("PUT", "/apisix/admin/plugin_metadata/none", json!({}), 400, error("invalid plugin name"));
    talk.check("PUT", "/apisix/admin/plugin_metadata", json!({}), 400, error("missing plugin name"));
    let (status, _) = talk.rig.json("PUT", "/apisix/admin/plugin_metadata/count", &json!({"size": "x"}));
    assert_eq!(status, 400);
    let rule = json!({"plugins": {"count": {"count": 1}}});
    let stored = json!({"key": "/apisix/global_rules/1", "value": with(&rule, json!({"id": "1"}))});
    talk.check("PUT", "/apisix/admin/global_rules/1", rule.clone(), 201, stored);
    let twice = error("plugin 'count' already exists in global rule with id '1'");
    talk.check("PUT", "/apisix/admin/global_rules/2", rule.clone(), 400, twice);
    for kind in ["plugin_configs", "consumer_groups"] {
        let stored = json!({"key": format!("/apisix/{kind}/1"), "value": with(&rule, json!({"id": "1"}))});
        talk.check("PUT", &format!("/apisix/admin/{kind}/1"), rule.clone(), 201, stored);
    }
    talk.rig.json("PUT", "/apisix/admin/consumers", &json!({"username": "jack", "group_id": "1"}));
    let used = error("can not delete this consumer group, consumer [jack] is still using it now");
    talk.check("DELETE", "/apisix/admin/consumer_groups/1", Value::Null, 400, used);
}

#[test]
fn secret_is_stored_below_its_manager() {
    let talk = Talk::new();
    let vault = json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "t"});
    let stored = json!({"key": "/apisix/secrets/vault/1", "value": with(&vault, json!({"id": "vault/1"}))});
    talk.check("PUT", "/apisix/admin/secrets/vault/1", vault.clone(), 201, stored.clone());
    let (_, read) = talk.rig.json("GET", "/apisix/admin/secrets/vault/1", &Value::Null);
    assert_eq!(read["key"], "/apisix/secrets/vault/1");
    talk.check("PUT", "/apisix/admin/secrets/vault", vault, 400, error("missing secret id"));
    talk.check("PATCH", "/apisix/admin/secrets/vault", json!({"token": "u"}), 400, error("no secret id"));
    let (status, body) = talk.rig.json("PATCH", "/apisix/admin/secrets/vault/1", &json!({"prefix": "p"}));
    assert_eq!((status, &body["value"]["prefix"]), (200, &json!("p")));
    let (status, body) = talk.rig.json("PATCH", "/apisix/admin/secrets/vault/1/token", &json!("u"));
    assert_eq!((status, &body["value"]["token"]), (200, &json!("u")));
    let deleted = json!({"deleted": "1", "key": "/apisix/secrets/vault/1"});
    talk.check("DELETE", "/apisix/admin/secrets/vault/1", Value::Null, 200, deleted);
}

#[test]
fn listing_is_filtered_and_paged() {
    let talk = Talk::new();
    for number in 1..=11 {
        let named = with(
            &route(&format!("/{number}")),
            json!({"name": format!("n{number}"), "labels": {format!("l{number}"): "x"}}),
        );
        talk.rig.json("PUT", &format!("/apisix/admin/routes/{number}"), &named);
    }
    let check = |query: &str, expected: (usize, u64)| {
        let (status, body) = talk.rig.json("GET", &format!("/apisix/admin/routes?{query}"), &Value::Null);
        let list = body["list"].as_array().map_or(0, Vec::len);
        assert_eq!((status, (list, body["total"].as_u64().unwrap_or(0))), (200, expected), "{query}");
    };
    check("", (11, 11));
    check("page=1&page_size=10", (10, 11));
    check("page=2&page_size=10", (1, 11));
    check("name=n1", (3, 3));
    check("label=l1", (1, 1));
    check("uri=%2F1%24", (1, 1));
    check("filter=service_id%3D1", (0, 0));
    let (status, body) = talk.rig.ask("GET", "/apisix/admin/routes?page=1&page_size=2", "");
    assert_eq!((status, body.as_str()), (400, "page_size must be between 10 and 500"));
    let (_, page) = talk.rig.json("GET", "/apisix/admin/routes?page=1&page_size=10", &Value::Null);
    let first: Vec<&str> =
        page["list"].as_array().unwrap().iter().filter_map(|entry| entry["value"]["id"].as_str()).collect();
    assert_eq!(first, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
}

//! The Admin API through its real port: responses as users of APISIX's tools get them, byte for byte where
//! tools compare bytes. The rules of each kind have their own tests beside the code; here every kind goes
//! through its life once.

mod rules;

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Client, Origin, Response, Weir, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// Sends a request and compares status and body, without the times that the clock gives.
#[track_caller]
fn check(weir: &Weir, request: (&str, &str), body: Value, status: u16, expected: Value) {
    let (found_status, mut found) = weir.admin(request.0, request.1, body.clone());
    strip_times(&mut found);
    assert_eq!((found_status, &found), (status, &expected), "{request:?} {body}");
}

fn strip_times(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|name, _| name != "create_time" && name != "update_time");
            object.values_mut().for_each(strip_times);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_times),
        _ => {}
    }
}

fn error(message: &str) -> Value {
    json!({ "error_msg": message })
}

fn nodes() -> Value {
    json!({"127.0.0.1:8080": 1})
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.header(name).unwrap_or_default()
}

/// One object of each kind that the Admin API holds; each refers only to objects before it.
fn one_of_each() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("upstreams", "u1", json!({"type": "roundrobin", "nodes": nodes()})),
        ("services", "s1", json!({"upstream_id": "u1"})),
        ("plugin_configs", "p1", json!({"plugins": {"cors": {}}})),
        ("consumer_groups", "g1", json!({"plugins": {"request-id": {}}})),
        ("global_rules", "r1", json!({"plugins": {"prometheus": {}}})),
        ("protos", "d1", json!({"content": "syntax = \"proto3\";"})),
        ("secrets/vault", "v1", json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "t"})),
        ("routes", "a1", json!({"uri": "/a", "service_id": "s1", "plugin_config_id": "p1"})),
    ]
}

#[test]
fn every_kind_is_made_read_listed_and_deleted() {
    let weir = Weir::start(BINARY);
    let kinds = one_of_each();
    for (collection, id, object) in &kinds {
        let path = format!("{collection}/{id}");
        let mut value = object.clone();
        value["id"] = if *collection == "secrets/vault" { json!(format!("vault/{id}")) } else { json!(id) };
        let key = format!("/apisix/{path}");
        let written = json!({"key": key, "value": value});
        check(&weir, ("PUT", &path), object.clone(), 201, written.clone());
        check(&weir, ("PUT", &path), object.clone(), 200, written);
        let (status, read) = weir.admin("GET", &path, Value::Null);
        assert_eq!((status, &read["key"]), (200, &json!(key)));
        assert!(
            read["createdIndex"].as_u64() < read["modifiedIndex"].as_u64(),
            "the second write has a later revision: {read}"
        );
        let (status, list) = weir.admin("GET", collection, Value::Null);
        assert_eq!((status, &list["total"], &list["list"][0]), (200, &json!(1), &read), "{collection}");
    }
    for (collection, id, _) in kinds.iter().rev() {
        let path = format!("{collection}/{id}");
        let deleted = json!({"deleted": "1", "key": format!("/apisix/{path}")});
        check(&weir, ("DELETE", &path), Value::Null, 200, deleted);
        for method in ["GET", "DELETE"] {
            check(&weir, (method, &path), Value::Null, 404, json!({"message": "Key not found"}));
        }
        check(&weir, ("GET", collection), Value::Null, 200, json!({"list": [], "total": 0}));
    }
}

#[test]
fn consumers_credentials_and_metadata() {
    let weir = Weir::start(BINARY);
    let credential = json!({"plugins": {"key-auth": {"key": "the-key"}}});
    let at = "consumers/jack/credentials";
    check(&weir, ("PUT", &format!("{at}/c1")), credential.clone(), 404, error("consumer not found"));
    let jack = json!({"key": "/apisix/consumers/jack", "value": {"username": "jack", "desc": "new"}});
    check(&weir, ("PUT", "consumers"), json!({"username": "jack", "desc": "new"}), 201, jack);
    let value = json!({"plugins": {"key-auth": {"key": "the-key"}}, "id": "c1"});
    let stored = json!({"key": "/apisix/consumers/jack/credentials/c1", "value": value});
    check(&weir, ("PUT", &format!("{at}/c1")), credential.clone(), 201, stored);
    let mut named = credential.clone();
    named["id"] = json!("c2");
    named["plugins"]["key-auth"]["key"] = json!("another-key");
    let stored = json!({"key": "/apisix/consumers/jack/credentials/c2", "value": named});
    check(&weir, ("PUT", at), named.clone(), 201, stored);
    check(&weir, ("PUT", at), credential, 400, error("missing credential id"));
    let not_auth = json!({"plugins": {"cors": {}}});
    let only_auth = error("only supports auth type plugins in consumer credential");
    check(&weir, ("PUT", &format!("{at}/c3")), not_auth, 400, only_auth);
    let (_, consumers) = weir.admin("GET", "consumers", Value::Null);
    assert_eq!(consumers["total"], 1, "a listing of consumers hides credentials: {consumers}");
    let (_, credentials) = weir.admin("GET", at, Value::Null);
    assert_eq!(credentials["total"], 2);
    weir.delete("consumers/jack");
    check(&weir, ("GET", at), Value::Null, 404, json!({"message": "Key not found"}));

    let (status, _) = weir.admin("PUT", "plugin_metadata/nothing", json!({}));
    assert_eq!(status, 400);
    let off = error("not supported `POST` method for consumer");
    check(&weir, ("POST", "consumers"), json!({"username": "jack"}), 405, off);
}

#[test]
fn patches_and_their_sub_paths() {
    let weir = Weir::start(BINARY);
    weir.put("routes/1", json!({"uri": "/a", "methods": ["GET"], "upstream": {"nodes": nodes()}}));
    let patched = |target: &str, part: Value, pointer: &str, expected: Value| {
        let (status, answer) = weir.admin("PATCH", target, part);
        let found = answer.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!((status, found), (200, expected), "{target}: {answer}");
    };
    patched("routes/1", json!({"desc": "d"}), "/value/desc", json!("d"));
    patched("routes/1", json!({"desc": null}), "/value/desc", Value::Null);
    patched("routes/1", json!({"methods": ["PUT", "POST"]}), "/value/methods", json!(["PUT", "POST"]));
    patched("routes/1/methods", json!(["GET"]), "/value/methods", json!(["GET"]));
    let added = json!({"127.0.0.1:8081": 2});
    patched(
        "routes/1",
        json!({"upstream": {"nodes": added}}),
        "/value/upstream/nodes/127.0.0.1:8080",
        json!(1),
    );
    patched(
        "routes/1/upstream/nodes",
        json!({"127.0.0.2:1": 5}),
        "/value/upstream/nodes",
        json!({"127.0.0.2:1": 5}),
    );
    check(&weir, ("PATCH", "routes/2"), json!({"desc": "d"}), 404, json!({"message": "Key not found"}));
    check(&weir, ("PATCH", "routes/1/uri/x"), json!(1), 400, error("invalid sub-path: /uri"));
    let (status, answer) = weir.admin("PATCH", "routes/1", json!({"colour": "blue"}));
    assert_eq!(status, 400, "{answer}");
    let (_, read) = weir.admin("GET", "routes/1", Value::Null);
    assert_eq!(read["value"].get("colour"), None, "what was refused is not stored");
}

#[test]
fn patches_at_the_same_time_lose_nothing() {
    let weir = Weir::start(BINARY);
    weir.put("upstreams/1", json!({"nodes": nodes()}));
    let admin = weir.address("admin");
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            std::thread::spawn(move || {
                let mut client = Client::connect(admin);
                for number in 0..25 {
                    let part = json!({"labels": {format!("w{writer}n{number}"): "x"}}).to_string();
                    let path = "/apisix/admin/upstreams/1";
                    let response = client.request("PATCH", path, &[KEY], part.as_bytes());
                    assert_eq!(response.status, 200, "{}", response.text());
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let (_, read) = weir.admin("GET", "upstreams/1", Value::Null);
    assert_eq!(read["value"]["labels"].as_object().unwrap().len(), 200);
    assert_eq!(read["modifiedIndex"], 201, "one revision a write");
}

#[test]
fn pages_and_filters() {
    let weir = Weir::start(BINARY);
    for number in 1..=25 {
        let body = json!({"uri": format!("/{number}"), "name": format!("n{number}"), "upstream": {"nodes": nodes()}});
        weir.put(&format!("routes/{number}"), body);
    }
    let list = |query: &str, entries: usize, total: u64, first: &str| {
        let (status, answer) = weir.admin("GET", &format!("routes?{query}"), Value::Null);
        let found = answer["list"].as_array().map_or(0, Vec::len);
        assert_eq!((status, found, answer["total"].as_u64()), (200, entries, Some(total)), "{query}");
        assert!(first.is_empty() || answer["list"][0]["value"]["id"] == first, "{query}: {answer}");
    };
    list("page=1&page_size=10", 10, 25, "1");
    list("page=2&page_size=10", 10, 25, "11");
    list("page=3&page_size=10", 5, 25, "21");
    list("page=4&page_size=10", 0, 25, "");
    list("name=n2", 7, 7, "");
    list("name=n2&uri=25", 1, 1, "25");
    for size in ["9", "501"] {
        let response = weir.admin_raw("GET", &format!("routes?page=1&page_size={size}"), &[KEY], b"");
        assert_eq!(response.status, 400);
        assert_eq!(response.text(), "page_size must be between 10 and 500");
    }
}

#[test]
fn identifiers_are_given_or_counted() {
    let weir = Weir::start(BINARY);
    let route = json!({"uri": "/a", "upstream": {"nodes": nodes()}});
    let (status, made) = weir.admin("POST", "routes", route.clone());
    let id = made["value"]["id"].as_str().unwrap();
    assert!(status == 201 && id.len() == 20 && id.bytes().all(|byte| byte.is_ascii_digit()), "{made}");
    assert_eq!(made["key"], format!("/apisix/routes/{id}"));
    check(&weir, ("PUT", "routes"), route.clone(), 400, error("missing route id"));
    let mut other = route.clone();
    other["id"] = json!("7");
    check(&weir, ("PUT", "routes/8"), other.clone(), 400, error("wrong route id"));
    check(&weir, ("POST", "routes"), other.clone(), 400, error("wrong route id, do not need it"));
    let (status, _) = weir.admin("PUT", "routes", other);
    assert_eq!(status, 201);
}

#[test]
fn object_in_use_is_deleted_only_by_force() {
    let weir = Weir::start(BINARY);
    weir.put("upstreams/u", json!({"nodes": nodes()}));
    weir.put("plugin_configs/p", json!({"plugins": {"cors": {}}}));
    weir.put("consumer_groups/g", json!({"plugins": {"cors": {}}}));
    weir.put("services/s", json!({"upstream_id": "u"}));
    weir.put("routes/r", json!({"uri": "/", "service_id": "s", "plugin_config_id": "p"}));
    weir.put("consumers", json!({"username": "jack", "group_id": "g"}));
    let in_use =
        |target: &str, message: &str| check(&weir, ("DELETE", target), Value::Null, 400, error(message));
    in_use("upstreams/u", "can not delete this upstream, service [s] is still using it now");
    in_use("services/s", "can not delete this service directly, route [r] is still using it now");
    in_use("plugin_configs/p", "can not delete this plugin config, route [r] is still using it now");
    in_use("consumer_groups/g", "can not delete this consumer group, consumer [jack] is still using it now");
    for almost in ["force=1", "force=True", "force"] {
        let (status, _) = weir.admin("DELETE", &format!("upstreams/u?{almost}"), Value::Null);
        assert_eq!(status, 400, "{almost}");
    }
    let deleted = json!({"deleted": "1", "key": "/apisix/upstreams/u"});
    check(&weir, ("DELETE", "upstreams/u?force=true"), Value::Null, 200, deleted);
    let (_, status) = weir.admin("GET", "weir/status", Value::Null);
    let faulty: Vec<&str> =
        status["faults"].as_array().unwrap().iter().filter_map(|fault| fault["key"].as_str()).collect();
    assert!(faulty.contains(&"/services/s"), "{status}");
}

#[test]
fn an_object_with_a_time_to_live_ends() {
    let weir = Weir::start(BINARY);
    let route = json!({"uri": "/a", "upstream": {"nodes": {Origin::nowhere().to_string(): 1}}});
    let (status, _) = weir.admin("PUT", "routes/1?ttl=1", route.clone());
    assert_eq!(status, 201);
    assert_eq!(weir.get("/a").status, 502, "in force when it was answered");
    wait_until("the route has ended", || weir.admin("GET", "routes/1", Value::Null).0 == 404);
    wait_until("the gateway has no such route", || weir.get("/a").status == 404);
    let message = error("invalid argument ttl: should be a number");
    check(&weir, ("PUT", "routes/1?ttl=soon"), route, 400, message);
}

#[test]
fn key_is_checked_before_the_request() {
    let weir = Weir::start(BINARY);
    let refused = |method: &str, target: &str, headers: &[(&str, &str)], description: &str| {
        let response = weir.admin_raw(method, target, headers, b"");
        assert_eq!(response.status, 401, "{method} {target}");
        let expected = json!({"error_msg": "failed to check token", "description": description});
        assert!(method == "HEAD" || response.json() == expected, "{response:?}");
        assert_eq!(response.header("x-api-version"), None);
        assert!(header(&response, "server").starts_with("APISIX/"), "{response:?}");
    };
    refused("GET", "routes", &[], "missing apikey");
    refused("PUT", "routes/1", &[("X-API-KEY", "guess")], "wrong apikey");
    refused("GET", "nothing", &[], "missing apikey");
    refused("GET", "routes?api_key=guess", &[KEY], "wrong apikey");
    refused("HEAD", "routes", &[], "missing apikey");
    for (target, headers) in [
        (format!("routes?api_key={ADMIN_KEY}"), vec![]),
        ("routes".to_owned(), vec![KEY]),
        ("routes".to_owned(), vec![("Cookie", COOKIE)]),
    ] {
        assert_eq!(weir.admin_raw("GET", &target, &headers, b"").status, 200, "{target}");
    }
}

#[test]
fn heads_options_and_the_headers_of_every_answer() {
    let weir = Weir::start(BINARY);
    let mut client = Client::connect(weir.address("admin"));
    let mut seen = |method: &str, path: &str, status: u16| {
        let response = client.request(method, path, &[KEY], b"");
        assert_eq!(response.status, status, "{method} {path}");
        assert_eq!(header(&response, "x-api-version"), "v3", "{method} {path}");
        assert_eq!(header(&response, "access-control-allow-origin"), "*");
        assert!(response.header("x-weir-revision").is_some(), "{method} {path}");
        response
    };
    seen("HEAD", "/apisix/admin", 200);
    let options = seen("OPTIONS", "/apisix/admin/routes/1", 200);
    assert!(header(&options, "access-control-allow-methods").contains("PATCH"), "{options:?}");
    let listed = seen("GET", "/apisix/admin/routes", 200);
    assert_eq!(
        (header(&listed, "content-type"), listed.text().as_str()),
        ("application/json", "{\"list\":[],\"total\":0}\n")
    );
    assert_eq!(seen("GET", "/apisix/admin/teapots", 404).json(), error("Unsupported resource type: teapots"));
    assert_eq!(seen("GET", "/apisix/admin", 404).json(), error("not found"));
    // Answered without a key, because these responses hold no data.
    assert_eq!(weir.admin_raw("HEAD", "/apisix/admin", &[], b"").status, 200);
    assert_eq!(weir.admin_raw("OPTIONS", "/apisix/admin/routes", &[], b"").status, 200);
}

#[test]
fn revision_grows_and_is_in_every_answer() {
    let weir = Weir::start(BINARY);
    let revision = |response: &Response| header(response, "x-weir-revision").parse::<u64>().unwrap();
    let mut last = 0;
    for number in 0..5 {
        let body = json!({"nodes": {"127.0.0.1:1": number}}).to_string();
        let response = weir.admin_raw("PUT", "upstreams/1", &[KEY], body.as_bytes());
        assert!(revision(&response) > last, "{response:?}");
        last = revision(&response);
        let (_, read) = weir.admin("GET", "upstreams/1", Value::Null);
        assert_eq!(read["modifiedIndex"].as_u64(), Some(last));
    }
    let refused = weir.admin_raw("PUT", "upstreams/1", &[KEY], b"{\"nodes\": 1}");
    assert_eq!((refused.status, revision(&refused)), (400, last));
    let weir = weir.restart();
    let read = weir.admin_raw("GET", "upstreams/1", &[KEY], b"");
    assert_eq!(revision(&read), last, "a restart keeps the revision");
}

#[test]
fn invalid_bodies_are_refused() {
    let weir = Weir::start(BINARY);
    let refused = |body: &[u8], expected: &str| {
        let response = weir.admin_raw("PUT", "routes/1", &[KEY], body);
        assert_eq!(response.status, 400);
        let answer = response.json();
        assert!(answer["error_msg"].as_str().unwrap().contains(expected), "{answer}");
        answer
    };
    let broken = refused(b"{\"uri\":", "invalid request body: ");
    assert_eq!(broken["req_body"], "{\"uri\":");
    refused(b"", "missing configurations");
    refused(b"[]", "invalid configuration: wrong type: expected object");
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    refused(deep.as_bytes(), "invalid request body: ");
    let large = format!("{{\"desc\":\"{}\"}}", "x".repeat(3 * 512 * 1024));
    for _ in 0..5 {
        refused(large.as_bytes(), "greater than the maximum size 1572864 allowed");
        let keyless = weir.admin_raw("PUT", "routes/1", &[], large.as_bytes());
        assert_eq!(keyless.status, 401, "the answer is not lost behind the body");
    }
    let mut client = Client::connect(weir.address("admin"));
    client.send(
        format!("PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: x\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: 99999999999\r\n\r\n")
            .as_bytes(),
    );
    assert_eq!(client.read_response(false).unwrap().status, 400, "refused before a byte of the body");
}

#[test]
fn every_refusal_says_which_field_and_why() {
    let weir = Weir::start(BINARY);
    let refused = |collection: &str, body: Value, expected: &[&str]| {
        let (status, answer) = weir.admin("PUT", &format!("{collection}/1"), body.clone());
        let message = answer["error_msg"].as_str().unwrap_or_default();
        assert_eq!(status, 400, "{collection} {body}: {answer}");
        for part in expected {
            assert!(message.contains(part), "{collection} {body}: {message}");
        }
    };
    let route = |more: Value| {
        let mut route = json!({"uri": "/a", "upstream": {"nodes": nodes()}});
        route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        route
    };
    refused("routes", json!({"uri": "/a"}), &["invalid configuration: "]);
    refused("routes", route(json!({"uris": ["/b"]})), &["invalid configuration: "]);
    refused("routes", route(json!({"colour": 1})), &["additional properties forbidden, found colour"]);
    refused("routes", route(json!({"uri": 1})), &["property \"uri\" validation failed", "expected string"]);
    refused(
        "routes",
        route(json!({"methods": ["GIT"]})),
        &["property \"methods\" validation failed", "item 1"],
    );
    refused("routes", route(json!({"priority": "high"})), &["property \"priority\"", "expected integer"]);
    refused("routes", route(json!({"status": 2})), &["property \"status\""]);
    refused("routes", route(json!({"remote_addrs": ["10.0.0.0/99"]})), &["remote_addrs"]);
    refused("routes", route(json!({"host": "a", "hosts": ["b"]})), &["only one of host or hosts is allowed"]);
    refused(
        "routes",
        route(json!({"vars": [["a", "<>", 1]]})),
        &["failed to validate the 'vars' expression: "],
    );
    refused("routes", route(json!({"plugins": {"none": {}}})), &["unknown plugin [none]"]);
    let wrong = json!({"plugins": {"ip-restriction": {"whitelist": ["10.0.0.0/99"]}}});
    refused(
        "routes",
        route(wrong),
        &["failed to check the configuration of plugin ip-restriction err: ", "whitelist"],
    );
    refused("routes", route(json!({"upstream_id": "9"})), &["upstream"]);
    refused(
        "routes",
        json!({"uri": "/a", "upstream_id": "9"}),
        &["failed to fetch upstream info by upstream id [9], response code: 404"],
    );
    refused(
        "routes",
        json!({"uri": "/a", "service_id": "9"}),
        &["failed to fetch service info by service id [9], response code: 404"],
    );
    refused("routes", route(json!({"create_time": 1})), &["the property is forbidden:  create_time"]);
    refused("upstreams", json!({"nodes": {"127.0.0.1:80": -1}}), &["nodes"]);
    refused(
        "upstreams",
        json!({"nodes": nodes(), "type": "fastest"}),
        &["property \"type\" validation failed"],
    );
    refused("upstreams", json!({"nodes": nodes(), "pass_host": "rewrite"}), &["upstream_host"]);
    refused("upstreams", json!({"nodes": nodes(), "type": "chash", "hash_on": "header"}), &["key"]);
    refused(
        "upstreams",
        json!({"nodes": nodes(), "timeout": {"connect": 0, "send": 1, "read": 1}}),
        &["timeout"],
    );
    // Features that this version lacks are refused with the reason, never ignored.
    refused(
        "routes",
        route(json!({"filter_func": "function(vars return true end"})),
        &["failed to load", "filter_func"],
    );
    refused("routes", json!({"uri": "/a", "script": "return function() end"}), &["script", "Lua object"]);
    refused(
        "upstreams",
        json!({"nodes": nodes(), "scheme": "kafka"}),
        &["scheme kafka", "not supported yet"],
    );
    refused(
        "upstreams",
        json!({"nodes": nodes(), "checks": {"active": {"http_path": "up"}}}),
        &["http_path begins with /"],
    );
    refused(
        "stream_routes",
        json!({"server_port": 9100}),
        &["stream mode is disabled, can not add stream routes"],
    );
    let (_, listed) = weir.admin("GET", "routes", Value::Null);
    assert_eq!(listed["total"], 0);
}

#[test]
fn schemas_and_plugins_can_be_read_and_checked() {
    let weir = Weir::start(BINARY);
    let (status, plugins) = weir.admin("GET", "plugins/list", Value::Null);
    let plugins: Vec<&str> = plugins.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(status == 200 && plugins.contains(&"key-auth"), "{plugins:?}");
    for name in &plugins {
        let (status, schema) = weir.admin("GET", &format!("plugins/{name}"), Value::Null);
        assert!(status == 200 && schema["properties"].get("_meta").is_some(), "{name}: {schema}");
        let (status, _) = weir.admin("GET", &format!("schema/plugins/{name}"), Value::Null);
        assert_eq!(status, 200, "{name}");
    }
    let (_, consumer) = weir.admin("GET", "schema/plugins/key-auth?schema_type=consumer", Value::Null);
    assert_eq!(consumer["required"], json!(["key"]), "{consumer}");
    for kind in ["route", "service", "upstream", "consumer", "plugin_config", "global_rule", "ssl"] {
        let (status, schema) = weir.admin("GET", &format!("schema/{kind}"), Value::Null);
        assert!(status == 200 && schema["properties"].is_object(), "{kind}: {schema}");
    }
    let good = json!({"uri": "/a", "upstream": {"nodes": nodes()}});
    assert_eq!(weir.admin("POST", "schema/validate/routes", good.clone()), (200, Value::Null));
    let (status, answer) = weir.admin("POST", "schema/validate/routes", json!({"uri": 1}));
    assert!(status == 400 && answer["error_msg"].as_str().unwrap().contains("uri"), "{answer}");
    assert_eq!(weir.admin("POST", "configs/validate", json!({"routes": [good]})), (200, Value::Null));
    let (status, answer) = weir.admin("POST", "configs/validate", json!({"routes": [{"id": "x", "uri": 1}]}));
    assert_eq!((status, &answer["errors"][0]["resource_id"]), (400, &json!("x")), "{answer}");
    let reloaded = weir.admin_raw("PUT", "plugins/reload", &[KEY], b"");
    assert_eq!((reloaded.status, reloaded.text().as_str()), (200, "done"));
    let (status, listed) = weir.admin("GET", "routes", Value::Null);
    assert_eq!((status, &listed["total"]), (200, &json!(0)), "checking stores nothing");
}

const KEY: (&str, &str) = ("X-API-KEY", ADMIN_KEY);
const COOKIE: &str = "a=b; x_api_key=weir-test-admin-key-0123456789abcdef";

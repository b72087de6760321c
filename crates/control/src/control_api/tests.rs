//! Transcripts of control API requests and their answers (contract 2.6).

use serde_json::{Value, json};

use crate::testing::{Rig, ask, block_on};

fn talk() -> (tempfile::TempDir, Rig) {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    let put = |target: &str, body: Value| {
        let (status, answer) = rig.json("PUT", &format!("/apisix/admin/{target}"), &body);
        assert_eq!(status, 201, "{answer}");
    };
    put("upstreams/1", json!({"nodes": {"127.0.0.1:80": 1}, "type": "roundrobin"}));
    put(
        "upstreams/checked",
        json!({"nodes": [{"host": "example.org", "port": 80, "weight": 1}], "type": "roundrobin"}),
    );
    put("services/s", json!({"upstream_id": "1"}));
    put(
        "routes/r",
        json!({"uri": "/", "upstream": {"nodes": {"example.org:80": 1, "[::1]:80": 1}, "type": "roundrobin"}}),
    );
    put("plugin_metadata/count", json!({"size": 1}));
    (directory, rig)
}

#[test]
fn objects_in_force_are_dumped() {
    let (_directory, rig) = talk();
    let check = |target: &str, pointer: &str, status: u16, expected: Value| {
        let (found, _, body) = block_on(ask(&rig.control, "GET", target, &[], ""));
        let body: Value = serde_json::from_str(&body).unwrap();
        let value = if pointer == "#" {
            json!(body.as_array().map_or(0, Vec::len))
        } else {
            body.pointer(pointer).cloned().unwrap_or_default()
        };
        assert_eq!((found, value), (status, expected), "{target} {body}");
    };
    check("/v1/routes", "#", 200, json!(1));
    check("/v1/routes", "/0/key", 200, json!("/apisix/routes/r"));
    check("/v1/routes", "/0/has_domain", 200, json!(true));
    check("/v1/route/r", "/value/uri", 200, json!("/"));
    check("/v1/route/r", "/value/id", 200, json!("r"));
    let node = |host: &str| json!({"host": host, "port": 80, "weight": 1});
    let nodes = json!([node("example.org"), node("[::1]")]);
    check("/v1/route/r", "/value/upstream/nodes", 200, nodes);
    check("/v1/upstreams", "/0/value/nodes", 200, json!([node("127.0.0.1")]));
    check("/v1/upstream/1", "/value/hash_on", 200, json!("vars"));
    check("/v1/route/x", "/error_msg", 404, json!("route[x] not found"));
    check("/v1/services", "/0/value/upstream_id", 200, json!("1"));
    check("/v1/service/x", "/error_msg", 404, json!("service[x] not found"));
    check("/v1/upstreams", "#", 200, json!(2));
    check("/v1/upstream/1", "/has_domain", 200, json!(false));
    check("/v1/upstream/1", "/modifiedIndex", 200, json!(1));
    check("/v1/upstream/checked", "/has_domain", 200, json!(true));
    check("/v1/upstream/x", "/error_msg", 404, json!("upstream[x] not found"));
    check("/v1/plugin_metadatas", "", 200, json!([{"size": 1, "id": "count"}]));
    check("/v1/plugin_metadata/count", "/size", 200, json!(1));
    check("/v1/plugin_metadata/x", "/error_msg", 404, json!("plugin metadata[x] not found"));
    check("/v1/schema", "/main/route/type", 200, json!("object"));
    check("/v1/schema", "/plugins/auth/priority", 200, json!(2500));
    check("/v1/schema", "/stream_plugins/count/priority", 200, json!(1002));
    check("/v1/schema", "/stream_plugins/auth", 200, Value::Null);
    check(
        "/v1/weir/listeners",
        "",
        200,
        json!([{"name": "proxy", "address": "127.0.0.1:9080", "protocols": ["http1"]}]),
    );
    check("/v1/nothing", "/error_msg", 404, json!("not found"));
}

#[test]
fn dumps_hold_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    let plugins = json!({"count": {"count": 3, "password": "s3cr3t"}});
    let upstream = json!({"nodes": {"127.0.0.1:80": 1}, "type": "roundrobin"});
    for (target, body) in [
        ("routes/r", json!({"uri": "/", "plugins": plugins, "upstream": upstream})),
        ("services/s", json!({"plugins": plugins})),
    ] {
        assert_eq!(rig.json("PUT", &format!("/apisix/admin/{target}"), &body).0, 201);
    }
    for (target, pointer) in [
        ("/v1/routes", "/0/value"),
        ("/v1/route/r", "/value"),
        ("/v1/services", "/0/value"),
        ("/v1/service/s", "/value"),
    ] {
        let (status, _, body) = block_on(ask(&rig.control, "GET", target, &[], ""));
        assert!(status == 200 && !body.contains("s3cr3t"), "{target} {body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        let shown = body.pointer(&format!("{pointer}/plugins/count")).unwrap();
        assert_eq!(*shown, json!({"count": 3, "password": "***"}), "{target}");
    }
    // The Admin API shows secrets, as in APISIX, because its key allows to write them.
    let (_, route) = rig.json("GET", "/apisix/admin/routes/r", &Value::Null);
    assert_eq!(route["value"]["plugins"]["count"]["password"], "s3cr3t");
}

#[test]
fn health_is_answered_as_json_and_html() {
    let (_directory, rig) = talk();
    let expected = json!({
        "name": "/apisix/upstreams/checked",
        "type": "http",
        "nodes": [{
            "ip": "127.0.0.1", "port": 80, "hostname": "<a>", "status": "mostly_healthy",
            "counter": {"success": 1, "http_failure": 0, "tcp_failure": 0, "timeout_failure": 0},
        }],
    });
    let check = |target: &str, status: u16, expected: Value| {
        let (found, _, body) = block_on(ask(&rig.control, "GET", target, &[("Accept", "*/*")], ""));
        assert_eq!((found, serde_json::from_str::<Value>(&body).unwrap()), (status, expected), "{target}");
    };
    check("/v1/healthcheck", 200, json!([expected]));
    check("/v1/healthcheck/upstreams/checked", 200, expected);
    check("/v1/healthcheck/upstreams/1", 404, json!({"error_msg": "no checker for upstreams[1]"}));
    check("/v1/healthcheck/upstreams/x", 404, json!({"error_msg": "upstreams[x] not found"}));
    check("/v1/healthcheck/upstreams", 404, json!({"error_msg": "missing src id for src type upstreams"}));
    check("/v1/healthcheck/things/1", 400, json!({"error_msg": "invalid src type things"}));
    let (_, headers, page) =
        block_on(ask(&rig.control, "GET", "/v1/healthcheck", &[("Accept", "text/html")], ""));
    assert!(headers["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(page.contains("mostly_healthy") && page.contains("127.0.0.1:80"));
}

#[test]
fn only_known_verbs_are_answered() {
    let (_directory, rig) = talk();
    let check = |method: &str, target: &str, expected: (u16, &str)| {
        let (status, _, body) = block_on(ask(&rig.control, method, target, &[], ""));
        assert_eq!((status, body.as_str()), expected, "{method} {target}");
    };
    check("PUT", "/v1/plugins/reload", (200, "done"));
    check("POST", "/v1/gc", (200, ""));
    check("DELETE", "/v1/routes", (404, "{\"error_msg\":\"not found\"}\n"));
    check("POST", "/v1/routes", (404, "{\"error_msg\":\"not found\"}\n"));
}

#[test]
fn paths_of_missing_plugins_are_answered_404() {
    let (_directory, rig) = talk();
    for target in [
        "/v1/server_info",
        "/v1/discovery/dns/dump",
        "/v1/discovery/dns/show_dump_file",
        "/v1/discovery",
        "/v1/plugin/count/anything",
    ] {
        let (status, headers, body) = block_on(ask(&rig.control, "GET", target, &[], ""));
        assert_eq!((status, body.as_str()), (404, "{\"error_msg\":\"not found\"}\n"), "{target}");
        assert_eq!(headers["content-type"], "application/json");
    }
}

#[test]
fn endpoint_of_plugin_is_answered_to_get_alone() {
    let (_directory, rig) = talk();
    let target = "/v1/plugin/count/query?a=1";
    let (status, headers, body) = block_on(ask(&rig.control, "GET", target, &[], ""));
    assert_eq!((status, body.as_str()), (200, "a=1"));
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(block_on(ask(&rig.control, "PUT", target, &[], "")).0, 404);
}

#[test]
fn log_level_is_read_and_set() {
    let (_directory, rig) = talk();
    let check = |method: &str, body: &str, status: u16, expected: &str| {
        let (found, _, answer) = block_on(ask(&rig.control, method, "/v1/weir/log_level", &[], body));
        assert_eq!((found, answer.contains(expected)), (status, true), "{method} {body}: {answer}");
    };
    check("GET", "", 200, "{\"level\":\"info\"}");
    check("PUT", "{\"level\":\"loud\"}", 400, "`loud` is not a level");
    check("PUT", "debug", 400, "write {\\\"level\\\": \\\"debug\\\"}");
    check("PUT", "{\"level\":\"debug\",\"for\":60}", 400, "unknown field `for`");
    check("GET", "", 200, "{\"level\":\"info\"}");
    check("PUT", "{\"level\":\"debug\"}", 200, "{\"level\":\"debug\"}");
    check("GET", "", 200, "{\"level\":\"debug\"}");
}

#[test]
fn upstreams_are_answered_with_their_nodes() {
    let (_directory, rig) = talk();
    let health = json!({
        "status": "healthy", "success": 0, "http_failure": 0, "tcp_failure": 0, "timeout_failure": 0,
    });
    let expected = json!({
        "name": "/upstreams/checked", "type": "roundrobin", "scheme": "http", "checks": "tcp",
        "nodes": [
            {"address": "127.0.0.1:80", "host": "a", "weight": 1, "priority": 0, "state": "usable",
             "in_flight": 2, "ewma_ms": 1.5, "health": health, "idle": null, "last_failure": null, "rps": null,
             "p5xx": null, "p99_us": null},
            {
                "address": "127.0.0.1:81", "host": "a", "weight": 1, "priority": 0, "state": "unhealthy",
                "in_flight": 2, "ewma_ms": 1.5, "unhealthy": {"since": "2026-01-01T00:01:01Z", "why": "a test"}, "health": health,
                "idle": null, "last_failure": {"cause": "a test", "at_ms": 1_767_225_661_999_u64}, "rps": null, "p5xx": null,
                "p99_us": null,
            },
        ],
    });
    let check = |target: &str, status: u16, expected: Value| {
        let (found, _, body) = block_on(ask(&rig.control, "GET", target, &[], ""));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((found, body), (status, expected), "{target}");
    };
    check("/v1/weir/upstreams", 200, json!({"total": 1, "list": [expected.clone()]}));
    check("/v1/weir/upstreams/checked", 200, expected.clone());
    check("/v1/weir/upstreams/upstreams/checked", 200, expected);
    let reason = "no upstream is in force at /routes/x; write upstreams/ID, routes/ID or services/ID";
    check("/v1/weir/upstreams/routes/x", 404, json!({ "error_msg": reason }));
    let (status, body) = rig.json("GET", "/apisix/admin/weir/upstreams/checked", &Value::Null);
    assert_eq!((status, &body["nodes"][1]["state"]), (200, &json!("unhealthy")));
}

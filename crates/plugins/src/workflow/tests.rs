//! Configurations, and actions through the whole pipeline.

use exchange::testing::check_configuration;
use gateway::testing::Scene;

use super::*;
use crate::{limit_conn, limit_count};

const KINDS: &[&PluginKind] = &[&KIND, &limit_conn::KIND, &limit_count::KIND];

fn limit(count: u64) -> Value {
    json!({ "count": count, "time_window": 3_600, "rejected_code": 429 })
}

/// The refusal of these rules by the check of the Admin API; none if they are accepted.
fn refusal(rules: Value) -> Option<String> {
    let catalog = PluginCatalog::new(vec![KIND.info()]).unwrap();
    let checked = catalog.get("workflow").unwrap().check(
        SchemaType::Plugin,
        &json!({ "rules": rules }),
        UnknownFields::Refuse,
    );
    checked.faults.first().map(|fault| fault.plugin_message())
}

#[test]
fn configurations() {
    let action = |action: Value| json!([{ "actions": [action] }]);
    let check = |rules: Value, fault: Option<&str>| {
        let refusal = refusal(rules.clone());
        match (&refusal, fault) {
            (Some(reason), Some(fault)) => assert!(reason.contains(fault), "{rules}: {reason}"),
            (reason, fault) => assert_eq!(reason.is_none(), fault.is_none(), "{rules}: {reason:?}"),
        }
    };
    check(json!([]), None);
    check(action(json!(["return", { "code": 403 }])), None);
    check(action(json!(["limit-count", limit(1)])), None);
    check(
        json!([{ "case": ["OR", ["uri", "==", "/"], ["uri", "==", "/a"]], "actions": [["return", { "code": 200 }]] }]),
        None,
    );
    check(json!([{ "case": [["uri", "==", "/"]] }]), Some("property \"actions\" is required"));
    check(json!([{ "case": [], "actions": [] }]), Some("expect array to have at least 1 items"));
    check(json!([{ "actions": [] }]), Some("a rule needs an action"));
    check(json!([{ "actions": [[]] }]), Some("expect array to have at least 1 items"));
    check(
        json!([{ "case": [["uri", "=", "/"]], "actions": [["return", { "code": 403 }]] }]),
        Some("'case' expression: invalid operator '='"),
    );
    let said = |rules: Value| refusal(rules).unwrap();
    assert_eq!(said(action(json!(["fake", {}]))), "unsupported action: fake");
    assert_eq!(said(action(json!(["key-auth", {}]))), "unsupported action: key-auth");
    assert_eq!(
        said(action(json!(["return", {}]))),
        "failed to validate the 'return' action: property \"code\" is required"
    );
    assert_eq!(
        said(action(json!(["return", { "code": "403" }]))),
        "failed to validate the 'return' action: property \"code\" validation failed: wrong type: expected integer, got string"
    );
    check(action(json!(["return", { "code": 100 }])), Some("200 to 599"));
    check(action(json!(["return"])), Some("property \"code\" is required"));
    check(action(json!([1, {}])), Some("unsupported action: 1"));
    check(action(json!(["limit-count"])), Some("a configuration is needed"));
    check(
        action(json!(["limit-count", { "count": 1 }])),
        Some("failed to validate the 'limit-count' action: "),
    );
    check(action(json!(["limit-count", { "cuont": 1, "time_window": 60 }])), Some("did you mean `count`?"));
    let mut grouped = limit(1);
    grouped["group"] = json!("g");
    assert_eq!(
        said(action(json!(["limit-count", grouped]))),
        "failed to validate the 'limit-count' action: group is not supported"
    );
    check_configuration(&KIND, SchemaType::Plugin, &json!({}), Some("property \"rules\" is required"));
}

fn ask(scene: &Scene, path: &str) -> u16 {
    // 502: the upstream of the scene is never reachable.
    scene.run(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).status
}

#[test]
fn first_rule_that_holds_decides() {
    let scene = Scene::with_plugins(
        KINDS,
        &json!({ "workflow": { "rules": [
            { "case": [["uri", "==", "/a"], ["arg_b", "==", "1"]], "actions": [["return", { "code": 403 }]] },
            { "case": [["uri", "==", "/a"]], "actions": [["return", { "code": 404 }], ["return", { "code": 405 }]] },
        ]}}),
    );
    assert_eq!(["/a?b=1", "/a", "/b"].map(|path| ask(&scene, path)), [403, 404, 502]);
    let refused = scene.run("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(refused.body, "{\"error_msg\":\"rejected by workflow\"}\n");
    let all = json!({ "workflow": { "rules": [{ "actions": [["return", { "code": 403 }]] }] } });
    assert_eq!(ask(&Scene::with_plugins(KINDS, &all), "/"), 403);
    let none = json!({ "workflow": { "rules": [] } });
    assert_eq!(ask(&Scene::with_plugins(KINDS, &none), "/"), 502);
}

#[test]
fn limits_of_rules_count_apart() {
    let rule = |path: &str, count: u64| json!({ "case": [["uri", "==", path]], "actions": [["limit-count", limit(count)]] });
    let plugins = json!({ "workflow": { "rules": [rule("/a", 1), rule("/b", 1), rule("/c", 2)] } });
    let scene = Scene::with_plugins(KINDS, &plugins);
    let paths = ["/a", "/b", "/c", "/a", "/c", "/b", "/c", "/d"];
    assert_eq!(paths.map(|path| ask(&scene, path)), [502, 502, 502, 429, 502, 429, 429, 502]);
    let refused = scene.run("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(refused.field("x-ratelimit-limit"), Some("1"), "the response phase of the action runs");
}

#[test]
fn plugin_of_an_action_does_not_run_twice() {
    let rules = json!([{ "case": [["arg_plan", "==", "free"]], "actions": [["limit-count", limit(2)]] }]);
    let plugins = json!({ "workflow": { "rules": rules }, "limit-count": limit(3) });
    let scene = Scene::with_plugins(KINDS, &plugins);
    let limit = |path: &str| {
        let outcome = scene.run(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        (outcome.status, outcome.field("x-ratelimit-remaining").map(str::to_owned))
    };
    let left = |status: u16, remaining: &str| (status, Some(remaining.to_owned()));
    assert_eq!(limit("/?plan=free"), left(502, "1"));
    assert_eq!(limit("/?plan=free"), left(502, "0"));
    assert_eq!(limit("/?plan=free"), left(429, "0"));
    assert_eq!(limit("/"), left(502, "2"), "the route's own limit has counted none of them");
}

#[test]
fn plugins_of_two_workflows_do_not_run_twice() {
    let action = |name: &str, config: Value| json!({ "rules": [{ "actions": [[name, config]] }] });
    let conn = json!({ "conn": 9, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr", "rejected_code": 503 });
    let global = json!({ "id": "1", "plugins": { "workflow": action("limit-count", limit(9)) } });
    let route = json!({
        "uri": "/*",
        "upstream": { "nodes": { "127.0.0.1:1": 1 } },
        "plugins": { "workflow": action("limit-conn", conn), "limit-count": limit(1) },
    });
    let scene = Scene::new(KINDS, &[("routes/1", route), ("global_rules/1", global)]);
    assert_eq!(["/", "/", "/"].map(|path| ask(&scene, path)), [502; 3]);
}

#[test]
fn refusals_have_the_body_of_meta() {
    let plugins = json!({ "workflow": {
        "_meta": { "error_response": { "text": "no" } },
        "rules": [{ "actions": [["limit-count", limit(1)]] }],
    }});
    let scene = Scene::with_plugins(KINDS, &plugins);
    ask(&scene, "/");
    let refused = scene.run("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((refused.status, &*refused.body), (429, "{\"text\":\"no\"}\n"));
}

#[test]
fn place_of_limit_conn_is_given_back() {
    let conn = json!({ "conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr", "rejected_code": 429 });
    let plugins = json!({ "workflow": { "rules": [{ "actions": [["limit-conn", conn]] }] } });
    let scene = Scene::with_plugins(KINDS, &plugins);
    assert_eq!(["/", "/", "/"].map(|path| ask(&scene, path)), [502, 502, 502]);
}

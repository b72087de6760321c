//! Configurations, and the fields that requests are given.

use exchange::testing::{Scene, configuration_check, decide};

use super::*;

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    let rule = |rule: Value| json!({ "rules": [rule] });
    let actions = |actions: Value| rule(json!({ "actions": actions }));
    check(actions(json!([{ "set_headers": { "X-A": "$uri", "X-B": 1 } }])), None);
    check(actions(json!([{ "set_headers": { "X-A": "b" }, "weight": 3 }, { "weight": 7 }, {}])), None);
    check(
        rule(json!({ "match": ["OR", ["arg_a", "==", "1"], ["arg_a", "==", "2"]], "actions": [{}] })),
        None,
    );
    check(json!({}), Some("property \"rules\" is required"));
    check(json!({ "rules": [] }), Some("at least 1 items"));
    check(rule(json!({})), Some("property \"actions\" is required"));
    check(actions(json!([])), Some("at least 1 items"));
    check(actions(json!([{ "weight": 0 }])), Some("weight"));
    check(actions(json!([{ "set_headers": {} }])), Some("set_headers"));
    check(actions(json!([{ "add_headers": { "X-A": "b" } }])), Some("not supported action: add_headers"));
    check(
        actions(json!([{ "set_headers": { "X A": "b" } }])),
        Some("failed to validate the 'set_headers' action: invalid field character in header: X A"),
    );
    check(
        rule(json!({ "match": [["arg_a", "?", "1"]], "actions": [{}] })),
        Some("failed to validate the 'match' expression: invalid operator '?'"),
    );
    check(rule(json!({ "match": [], "actions": [{}] })), Some("at least 1 items"));
}

/// The values of `X-Label` that requests for these targets are sent with.
fn labels(config: Value, targets: &[&str]) -> Vec<String> {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &config);
    let label = |target: &&str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-Label: client\r\n\r\n");
        let mut exchange = scene.exchange(head.as_bytes());
        assert!(decide(plugin.access(&mut exchange)).is_none());
        let label = exchange.request.headers.get("x-label").unwrap_or(b"none");
        String::from_utf8(label.to_vec()).unwrap()
    };
    targets.iter().map(label).collect()
}

#[test]
fn first_action_with_fields_ends_the_rules() {
    let set = |label: &str| json!({ "set_headers": { "X-Label": label } });
    let config = json!({ "rules": [
        { "match": [["arg_a", "==", "1"], ["arg_b", "==", "1"]], "actions": [set("both $arg_a")] },
        { "match": [["arg_b", "==", "1"]], "actions": [{}] },
        { "match": [["arg_b", "==", "1"]], "actions": [set("b")] },
        { "match": [["arg_c", "==", "1"]], "actions": [set("")] },
    ]});
    let targets = ["/?a=1&b=1", "/?b=1", "/?a=1", "/?c=1"];
    assert_eq!(labels(config, &targets), ["both 1", "b", "client", "none"]);
}

#[test]
fn actions_take_turns_by_weight() {
    let set = |label: &str, weight: u64| json!({ "set_headers": { "X-Label": label }, "weight": weight });
    let config = json!({ "rules": [{ "actions": [set("a", 3), set("b", 2), { "weight": 5 }] }] });
    let labels = labels(config, &["/"; 20]);
    let count = |label: &str| labels.iter().filter(|own| *own == label).count();
    assert_eq!([count("a"), count("b"), count("client")], [6, 4, 10]);
}

#[test]
fn host_is_set_for_the_upstream() {
    let mut scene = Scene::new();
    let host = |host: &str| json!({ "rules": [{ "actions": [{ "set_headers": { "Host": host } }] }] });
    for (written, expected) in [("canary.example", Some(&b"canary.example"[..])), ("a b", None)] {
        let plugin = scene.build(&KIND, &host(written));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(decide(plugin.access(&mut exchange)).is_none());
        assert_eq!(exchange.target.forward_host.as_deref(), expected);
    }
}

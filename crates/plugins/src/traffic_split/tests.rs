//! Configurations, and the choice of upstreams without a server; tests of the binary use real ones.

use exchange::testing::{self, configuration_check};
use gateway::testing::Scene;

use super::*;

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    let rule = |rule: Value| json!({ "rules": [rule] });
    let own = |upstream: Value| rule(json!({ "weighted_upstreams": [{ "upstream": upstream }] }));
    check(json!({}), None);
    check(json!({ "rules": [] }), None);
    check(rule(json!({})), None);
    check(rule(json!({ "match": [] })), None);
    check(rule(json!({ "match": [{ "vars": [] }, { "vars": [["arg_a", "==", "1"]] }] })), None);
    check(rule(json!({ "match": [{}] })), Some("missing argument rule"));
    check(
        rule(json!({ "match": [{ "vars": [["arg_name", 123, "jack"]] }] })),
        Some("failed to validate the 'vars' expression: invalid operator '123'"),
    );
    check(rule(json!({ "weighted_upstreams": [] })), Some("at least 1 items"));
    check(rule(json!({ "weighted_upstreams": vec![json!({}); 21] })), Some("20"));
    check(rule(json!({ "weighted_upstreams": [{ "weight": -1 }] })), Some("weight"));
    check(rule(json!({ "weighted_upstreams": [{ "weight": 1.5 }] })), Some("weight"));
    check(rule(json!({ "weighted_upstreams": [{ "upstream_id": 1 }, { "upstream_id": "a-b" }] })), None);
    check(rule(json!({ "weighted_upstreams": [{ "upstream_id": "a b" }] })), Some("upstream_id"));
    check(own(json!({ "nodes": { "127.0.0.1:80": 1 }, "type": "roundrobin" })), None);
    check(own(json!({ "nodes": [{ "host": "foo.com", "port": 80, "weight": 0 }] })), None);
    check(own(json!({ "service_name": "a", "discovery_type": "consul" })), None);
    check(own(json!({ "nodes": { "127.0.0.1:80": "a" } })), Some("upstream"));
    check(own(json!({ "nodes": { "127.0.0.1:80": 1 }, "type": "chash", "hash_on": "vars" })), Some("key"));
    check(own(json!({ "nodes": { "127.0.0.1:80": 1 }, "scheme": "kafka" })), Some("kafka"));
    check(own(json!({})), Some("upstream"));
}

/// The identities of the upstreams that a number of requests for `target` select.
fn selected(plugin: &dyn Plugin, target: &str, requests: usize) -> Vec<String> {
    let mut scene = testing::Scene::new();
    (0..requests)
        .map(|_| {
            let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
            let mut exchange = scene.exchange(head.as_bytes());
            assert!(testing::decide(plugin.access(&mut exchange)).is_none());
            let upstream = exchange.decision.upstream.as_ref();
            upstream.map_or("route", UpstreamRef::identity).to_owned()
        })
        .collect()
}

#[test]
fn first_rule_that_matches_decides() {
    let upstream = || json!({ "nodes": { "127.0.0.1:1": 1 } });
    let config = json!({ "rules": [
        {
            "match": [{ "vars": [["arg_a", "==", "1"], ["arg_b", "==", "2"]] }, { "vars": [["arg_c", "==", "3"]] }],
            "weighted_upstreams": [{ "upstream": upstream() }],
        },
        { "match": [{ "vars": [["arg_d", "!", "==", "4"]] }] },
        { "weighted_upstreams": [{ "weight": 0 }, { "upstream": upstream() }] },
    ]});
    let plugin = testing::Scene::new().build(&KIND, &config);
    let check = |target: &str, expected: &str| {
        assert_eq!(selected(&*plugin, target, 1), [expected], "{target}");
    };
    check("/?a=1&b=2&d=4", "routes/1#rules/0/0");
    check("/?a=1&d=4", "routes/1#rules/2/1");
    check("/?c=3", "routes/1#rules/0/0");
    check("/?d=5", "route");
    check("/", "route");
    check("/?d=4", "routes/1#rules/2/1");
}

#[test]
fn upstreams_take_turns_by_weight() {
    let config = json!({ "rules": [{ "weighted_upstreams": [
        { "upstream": { "nodes": { "127.0.0.1:1": 1 } }, "weight": 3 },
        { "upstream": { "nodes": { "127.0.0.1:2": 1 } }, "weight": 2 },
        { "weight": 5 },
    ]}]});
    let scene = testing::Scene::new();
    let plugin = scene.build(&KIND, &config);
    let chosen = selected(&*plugin, "/", 20);
    let count = |identity: &str| chosen.iter().filter(|chosen| *chosen == identity).count();
    assert_eq!([count("routes/1#rules/0/0"), count("routes/1#rules/0/1"), count("route")], [6, 4, 10]);
    // An instance of a changed configuration goes on where the one before it stopped.
    let same = json!({ "rules": [{ "weighted_upstreams": [{}, { "upstream": { "nodes": { "127.0.0.1:1": 1 } } }] }] });
    let first = scene.build(&KIND, &same);
    let before = selected(&*first, "/", 3);
    let second = scene.build(&KIND, &same);
    drop(first);
    assert_ne!(selected(&*second, "/", 1).last(), before.last());
}

#[test]
fn upstream_of_route_replaces_an_earlier_choice() {
    let mut scene = testing::Scene::new();
    let plugin = scene.build(&KIND, &json!({ "rules": [{ "weighted_upstreams": [{}] }] }));
    let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    exchange.set_upstream(UpstreamRef::by_id("earlier"));
    assert!(testing::decide(plugin.access(&mut exchange)).is_none());
    assert!(exchange.decision.upstream.is_none());
}

#[test]
fn missing_upstream_is_answered_500() {
    const ASK: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let route = |id: &str| {
        json!({
            "uri": "/*",
            "upstream": { "nodes": { "127.0.0.1:1": 1 } },
            "plugins": { "traffic-split": { "rules": [{ "weighted_upstreams": [{ "upstream_id": id }] }] } },
        })
    };
    let upstream = json!({ "nodes": { "127.0.0.1:1": 1 } });
    let status = |id: &str| {
        let objects = [("upstreams/1", upstream.clone()), ("routes/1", route(id))];
        let outcome = Scene::new(&[&KIND], &objects).run(ASK);
        (outcome.status, outcome.body.contains(id))
    };
    assert_eq!(status("absent-upstream"), (500, false));
    assert_eq!(status("1").0, 502, "a node that refuses connections");
}

/// The upstreams of as many sessions over TLS to the name, in their order.
fn chosen(config: &Value, name: &str, sessions: usize) -> Vec<Option<String>> {
    let (states, services) = (exchange::plugin::state::StateRegistry::default(), testing::services());
    let build = testing::build("/stream_routes/1", None, &states, &services);
    let plugin = (KIND.stream.as_ref().unwrap().build)(&build, config).unwrap();
    let one = || {
        let local = "127.0.0.1:9100".parse().unwrap();
        let mut session = StreamSession::new("10.0.0.1:4000".parse().unwrap(), local, 1);
        session.sni = Some(name.into());
        assert!(matches!(plugin.preread(&mut session), StreamFlow::Continue));
        session.chosen_upstream.map(|upstream| upstream.identity().to_owned())
    };
    (0..sessions).map(|_| one()).collect()
}

#[test]
fn sessions_are_divided_by_weight_and_condition() {
    let config = json!({"rules": [
        {"match": [{"vars": [["ssl_server_name", "==", "new.example"]]}], "weighted_upstreams": [{"upstream_id": "new"}]},
        {"weighted_upstreams": [{"upstream_id": "a", "weight": 1}, {"weight": 2}]},
    ]});
    let new = Some("/upstreams/new".to_owned());
    assert_eq!(chosen(&config, "new.example", 2), [new.clone(), new]);
    let got = chosen(&config, "old.example", 6);
    assert_eq!(got.iter().filter(|one| one.as_deref() == Some("/upstreams/a")).count(), 2);
    assert_eq!(got.iter().filter(|one| one.is_none()).count(), 4, "the route's own upstream");
}

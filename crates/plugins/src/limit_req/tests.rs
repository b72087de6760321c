//! Configurations of `limit-req`, and its effect on requests.
use super::*;
use exchange::testing::{Scene, check_configuration, decide, with_fields};
use model::catalog::SchemaType;
use serde_json::json;

fn with(extra: Value) -> Value {
    with_fields(json!({ "rate": 1, "burst": 0, "key": "remote_addr" }), &extra)
}

#[test]
fn configurations() {
    let check = |config: Value, want: Result<(), &str>| {
        check_configuration(&KIND, SchemaType::Plugin, &config, want.err());
    };
    check(with(json!({})), Ok(()));
    check(with(json!({ "rate": 0.1, "burst": 0.5, "nodelay": true, "rejected_code": 429 })), Ok(()));
    check(with(json!({ "key_type": "var_combination", "key": "$remote_addr $http_x" })), Ok(()));
    check(with(json!({ "allow_degradation": true, "rejected_msg": "m", "policy": "local" })), Ok(()));
    check(json!({ "burst": 0, "key": "a" }), Err("property \"rate\" is required"));
    check(json!({ "rate": 1, "key": "a" }), Err("property \"burst\" is required"));
    check(json!({ "rate": 1, "burst": 1 }), Err("property \"key\" is required"));
    check(with(json!({ "rate": 0 })), Err("rate"));
    check(with(json!({ "rate": -1 })), Err("rate"));
    check(with(json!({ "burst": -0.1 })), Err("burst"));
    check(with(json!({ "key_type": "constant" })), Err("key_type"));
    check(with(json!({ "key": "" })), Err("key"));
    check(with(json!({ "key_type": "var_combination", "key": "${a" })), Err("the brace is not closed"));
    check(with(json!({ "rejected_msg": "" })), Err("rejected_msg"));
    check(with(json!({ "policy": "unknown" })), Err("policy"));
    check(with(json!({ "policy": "redis", "redis_host": "127.0.0.1", "redis_port": 6380 })), Ok(()));
    check(with(json!({ "policy": "redis" })), Err("then clause did not match"));
    check(with(json!({ "policy": "redis", "redis_host": "" })), Err("redis_host"));
    check(with(json!({ "policy": "redis", "redis_host": "h1", "redis_port": 0 })), Err("redis_port"));
    check(with(json!({ "policy": "redis", "redis_host": "h1", "redis_timeout": 0 })), Err("redis_timeout"));
    check(
        with(json!({ "policy": "redis-cluster", "redis_cluster_nodes": ["h:1"] })),
        Err("else clause did not match"),
    );
    let nodes = |nodes: Value| json!({ "policy": "redis-cluster", "redis_cluster_nodes": nodes, "redis_cluster_name": "c" });
    check(with(nodes(json!(["127.0.0.1:7001", "127.0.0.1:7002"]))), Ok(()));
    check(with(nodes(json!(["127.0.0.1"]))), Err("redis_cluster_nodes: 127.0.0.1 is not HOST:PORT"));
    check(with(nodes(json!([]))), Err("redis_cluster_nodes"));
}

/// The status that a request is answered with; 0 for one that passed.
fn send(scene: &mut Scene, plugin: &dyn Plugin, fields: &str) -> (u16, Vec<u8>) {
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let reply = decide(plugin.access(&mut scene.exchange(head.as_bytes())));
    reply.map_or((0, Vec::new()), |reply| (reply.status, reply.body.into_owned()))
}

#[test]
fn request_beyond_burst_is_refused() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &with(json!({ "rejected_code": 429, "rejected_msg": "slow down" })));
    assert_eq!(send(&mut scene, &*plugin, ""), (0, Vec::new()));
    assert_eq!(send(&mut scene, &*plugin, ""), (429, b"{\"error_msg\":\"slow down\"}\n".to_vec()));
    let plain = scene.build(&KIND, &with(json!({})));
    assert_eq!([send(&mut scene, &*plain, "").0, send(&mut scene, &*plain, "").0], [0, 503]);
}

#[test]
fn request_within_burst_waits_unless_nodelay() {
    let mut scene = Scene::new();
    for (is_nodelay, is_waiting) in [(false, true), (true, false)] {
        let plugin = scene.build(&KIND, &with(json!({ "burst": 5, "nodelay": is_nodelay })));
        assert_eq!(send(&mut scene, &*plugin, "").0, 0);
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(matches!(plugin.access(&mut exchange), Flow::Wait(_)), is_waiting);
    }
}

#[test]
fn burst_ends_where_a_wait_would_be_too_long() {
    let mut scene = Scene::new();
    let config = |nodelay: bool| with(json!({ "rate": 0.5, "burst": 100, "nodelay": nodelay }));
    let passed = |plugin: &dyn Plugin, scene: &mut Scene| {
        let passes = |_: &i32| {
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            !matches!(plugin.access(&mut exchange), Flow::Reply(_))
        };
        (0..200).filter(passes).count()
    };
    let delaying = scene.build(&KIND, &config(false));
    assert_eq!(passed(&*delaying, &mut scene), 30);
    let immediate = scene.build(&KIND, &config(true));
    assert_eq!(passed(&*immediate, &mut scene), 101);
}

#[test]
fn keys_are_counted_separately() {
    let mut scene = Scene::new();
    let mut check = |key_type: &str, key: &str, requests: &[(&str, u16)]| {
        let plugin = scene.build(&KIND, &with(json!({ "key_type": key_type, "key": key })));
        for (fields, status) in requests {
            assert_eq!(send(&mut scene, &*plugin, fields).0, *status, "{key_type} {key} {fields}");
        }
    };
    check("var", "http_a", &[("A: 1\r\n", 0), ("A: 2\r\n", 0), ("A: 1\r\n", 503), ("", 0), ("", 503)]);
    check("var_combination", "$http_a $http_b", &[("A: 1\r\n", 0), ("B: 1\r\n", 0), ("A: 1\r\n", 503)]);
    check("var", "remote_addr", &[("A: 1\r\n", 0), ("A: 2\r\n", 503)]);
}

#[test]
fn buckets_survive_unrelated_changes() {
    let mut scene = Scene::new();
    let first = scene.build(&KIND, &with(json!({})));
    assert_eq!(send(&mut scene, &*first, "").0, 0);
    let again = scene.build(&KIND, &with(json!({ "_meta": { "priority": 5 } })));
    drop(first);
    assert_eq!(send(&mut scene, &*again, "").0, 503);
    let changed = scene.build(&KIND, &with(json!({ "rejected_code": 429 })));
    assert_eq!(send(&mut scene, &*changed, "").0, 0);
}

//! Configurations that `limit-count` check_configuration, and its effect on requests and responses.
use super::*;
use exchange::testing::{Scene, check_configuration, decide, lines, respond, with_fields};
use model::catalog::{PluginCatalog, SchemaType};
use model::check::UnknownFields;
use model::validate::SchemaFault;

#[test]
fn configurations() {
    let check = |config: Value, want: Result<(), &str>| {
        check_configuration(&KIND, SchemaType::Plugin, &config, want.err());
    };
    let with = |extra: Value| with_fields(json!({ "count": 2, "time_window": 60 }), &extra);
    check(with(json!({})), Ok(()));
    check(
        with(json!({ "count": 2.0, "key": "http_x", "key_type": "var", "_meta": { "priority": 1 } })),
        Ok(()),
    );
    check(
        with(json!({ "count": "$http_count", "key_type": "var_combination", "key": "$host $uri" })),
        Ok(()),
    );
    check(with(json!({ "rejected_code": 429, "rejected_msg": "m", "policy": "local" })), Ok(()));
    check(with(json!({ "window_type": "sliding", "sync_interval": -1, "allow_degradation": true })), Ok(()));
    check(
        json!({ "rules": [{ "count": 1, "time_window": 1, "key": "$host", "header_prefix": "a" }] }),
        Ok(()),
    );
    check(json!({}), Err("should match only one schema, but matches none"));
    check(json!({ "count": 1 }), Err("should match only one schema"));
    check(with(json!({ "count": "many" })), Err("\"many\" is not a whole number or a text with variables"));
    check(with(json!({ "count": "0" })), Err("count must be a whole number from 1"));
    check(with(json!({ "count": "5" })), Ok(()));
    check(with(json!({ "count": 0 })), Err("count"));
    check(with(json!({ "time_window": -1 })), Err("time_window"));
    check(with(json!({ "rejected_code": 600 })), Err("rejected_code"));
    check(with(json!({ "rejected_msg": "" })), Err("rejected_msg"));
    check(with(json!({ "key_type": "other" })), Err("key_type"));
    check(with(json!({ "policy": "redis", "redis_host": "h" })), Err("redis_host"));
    check(with(json!({ "policy": "redis" })), Err("then clause did not match"));
    check(with(json!({ "policy": "redis", "redis_host": "h1", "redis_keepalive_pool": 5 })), Ok(()));
    for policy in ["redis-cluster", "redis-sentinel"] {
        check(with(json!({ "policy": policy })), Err("else clause did not match"));
    }
    let sentinel = |more: Value| {
        let mut config = json!({
            "policy": "redis-sentinel", "redis_sentinels": [{"host": "127.0.0.1", "port": 26_379}],
            "redis_master_name": "m", "redis_role": "master", "sentinel_password": "s", "redis_username": "u",
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        with(config)
    };
    check(sentinel(json!({ "redis_connect_timeout": 5, "redis_read_timeout": 5 })), Ok(()));
    check(sentinel(json!({ "redis_role": "other" })), Err("redis_role"));
    check(sentinel(json!({ "redis_sentinels": [] })), Err("redis_sentinels"));
    check(sentinel(json!({ "redis_sentinels": [{"host": "h1"}] })), Err("port"));
    let synchronised = |interval: f64, window: Value| {
        with(
            json!({ "policy": "redis", "redis_host": "h1", "sync_interval": interval, "time_window": window }),
        )
    };
    check(synchronised(0.1, json!(1)), Ok(()));
    check(synchronised(0.05, json!(1)), Err("sync_interval should not be smaller than 0.1"));
    check(synchronised(1.0, json!(1)), Err("sync_interval should be smaller than time_window"));
    check(synchronised(5.0, json!("${http_window}")), Ok(()));
    check(with(json!({ "sync_interval": 0.01 })), Ok(()));
    check(with(json!({ "policy": "unknown" })), Err("policy"));
    check(with(json!({ "count": "${" })), Err("count"));
    check(with(json!({ "key_type": "var", "key": "" })), Err("key"));
    check(with(json!({ "unknown": 1 })), Err("unknown"));
    let rule = json!({ "count": 1, "time_window": 1, "key": "$host" });
    check(json!({ "rules": [rule, rule] }), Err("duplicate key '$host' in rules"));
    check(json!({ "rules": [rule], "group": "g" }), Err("group and rules"));
    check(with(json!({ "rules": [rule] })), Err("only one schema"));
    check(
        json!({ "rules": [{ "count": 1, "time_window": 1, "key": "k", "header_prefix": "a b" }] }),
        Err("header_prefix"),
    );
}

/// Sends a request through `plugin`; returns the status (0 for one that passed) and the response's fields.
fn send(scene: &mut Scene, plugin: &dyn Plugin, head: &str) -> (u16, Vec<String>, Vec<u8>) {
    let mut exchange = scene.exchange(format!("{head}Host: h\r\n\r\n").as_bytes());
    let reply = decide(plugin.access(&mut exchange));
    let (status, body) = reply.map_or((0, Vec::new()), |reply| (reply.status, reply.body.into_owned()));
    respond(&mut exchange, 200, &[("X-RateLimit-Limit", "the node's own")]);
    exchange::testing::finish(plugin.response_head(&mut exchange));
    (status, lines(&exchange.response.headers), body)
}

const PLAIN: &str = "GET / HTTP/1.1\r\n";

#[test]
fn requests_pass_until_limit_with_quota_fields() {
    let mut scene = Scene::new();
    let config = json!({ "count": 2, "time_window": 60, "rejected_code": 429, "rejected_msg": "no more" });
    let plugin = scene.build(&KIND, &config);
    for (status, remaining, body) in [(0, 1, ""), (0, 0, ""), (429, 0, "{\"error_msg\":\"no more\"}\n")] {
        let got = send(&mut scene, &*plugin, PLAIN);
        assert_eq!((got.0, &*got.2), (status, body.as_bytes()));
        let remaining = format!("X-RateLimit-Remaining: {remaining}");
        assert_eq!(got.1, ["X-RateLimit-Limit: 2", &*remaining, "X-RateLimit-Reset: 60"]);
    }
}

#[test]
fn keys_are_counted_separately() {
    let mut scene = Scene::new();
    let mut check = |key_type: &str, key: &str, heads: &[(&str, u16)]| {
        let config = json!({
            "count": 1, "time_window": 60, "key_type": key_type, "key": key, "show_limit_quota_header": false,
        });
        let plugin = scene.build(&KIND, &config);
        for (fields, status) in heads {
            let got = send(&mut scene, &*plugin, &format!("{PLAIN}{fields}"));
            assert_eq!((got.0, got.1.len()), (*status, 1), "{key_type} {key} {fields}");
        }
    };
    check("var", "remote_addr", &[("", 0), ("A: 1\r\n", 503)]);
    // Without a value the address is the key.
    check(
        "var",
        "http_a",
        &[("A: 1\r\n", 0), ("A: 2\r\n", 0), ("A: 1\r\n", 503), ("", 0), ("B: 1\r\n", 503)],
    );
    check(
        "var_combination",
        "$http_a $http_b",
        &[("A: 1\r\n", 0), ("B: 1\r\n", 0), ("A: 1\r\n", 503), ("", 0), ("", 503)],
    );
    check("constant", "remote_addr", &[("A: 1\r\n", 0), ("A: 2\r\n", 503)]);
}

#[test]
fn limits_can_be_request_variables() {
    let mut scene = Scene::new();
    let mut check = |allow: bool, fields: &str, want: u16| {
        let config = json!({ "count": "${http_count}", "time_window": "60", "allow_degradation": allow });
        let plugin = scene.build(&KIND, &config);
        assert_eq!(send(&mut scene, &*plugin, &format!("{PLAIN}{fields}")).0, want, "{fields}");
    };
    check(false, "Count: 3\r\n", 0);
    for bad in ["", "Count: 0\r\n", "Count: -1\r\n", "Count: 1.5\r\n", "Count: x\r\n", "Count: 1e300\r\n"] {
        check(false, bad, 500);
        check(true, bad, 0);
    }
}

#[test]
fn rules_count_each_for_itself() {
    let mut scene = Scene::new();
    let config = json!({ "rules": [
        { "count": 1, "time_window": 60, "key": "${http_a}" },
        { "count": 2, "time_window": 10, "key": "${http_b}", "header_prefix": "B" },
    ] });
    let plugin = scene.build(&KIND, &config);
    let mut check = |fields: &str, status: u16, names: &[&str]| {
        let got = send(&mut scene, &*plugin, &format!("{PLAIN}{fields}"));
        let own: Vec<&str> =
            got.1.iter().skip(1).step_by(3).map(|line| line.split_once(':').unwrap().0).collect();
        assert_eq!((got.0, &*own), (status, names), "{fields}");
    };
    check("A: 1\r\n", 0, &["X-1-RateLimit-Limit"]);
    check("A: 2\r\nB: 1\r\n", 0, &["X-1-RateLimit-Limit", "X-B-RateLimit-Limit"]);
    check("A: 1\r\nB: 1\r\n", 503, &["X-1-RateLimit-Limit"]);
    check("B: 1\r\n", 0, &["X-B-RateLimit-Limit"]);
    check("B: 1\r\n", 503, &["X-B-RateLimit-Limit"]);
    check("", 500, &[]);
}

#[test]
fn counters_survive_unrelated_changes() {
    let mut scene = Scene::new();
    let config = json!({ "count": 1, "time_window": 60 });
    let first = scene.build(&KIND, &config);
    assert_eq!(send(&mut scene, &*first, PLAIN).0, 0);
    let again = scene.build(&KIND, &json!({ "time_window": 60, "count": 1, "_meta": { "priority": 5 } }));
    drop(first);
    assert_eq!(send(&mut scene, &*again, PLAIN).0, 503);
    let changed = scene.build(&KIND, &json!({ "count": 2, "time_window": 60 }));
    assert_eq!(send(&mut scene, &*changed, PLAIN).0, 0);
}

#[test]
fn group_shares_counters_and_configuration() {
    let mut scene = Scene::new();
    let (states, services) = (scene.states(), exchange::testing::services());
    let config = json!({ "count": 1, "time_window": 60, "group": "g" });
    let first = scene.build(&KIND, &config);
    let second = build(&exchange::testing::build("routes/2", None, &states, &services), &config).unwrap();
    assert_eq!(send(&mut scene, &*first, PLAIN).0, 0);
    assert_eq!(send(&mut scene, &*second, PLAIN).0, 503);
    let mut changed = config.clone();
    changed["count"] = 2.into();
    let catalog = PluginCatalog::new(vec![KIND.info_with(&states)]).unwrap();
    let faults = |config: &Value| {
        let plugin = catalog.get("limit-count").unwrap();
        let checked = plugin.check(SchemaType::Plugin, config, UnknownFields::Refuse);
        checked.faults.iter().map(SchemaFault::plugin_message).collect::<Vec<_>>()
    };
    assert_eq!(faults(&config), Vec::<String>::new());
    assert_eq!(faults(&changed), ["group conf mismatched"]);
    drop((first, second));
    assert_eq!(faults(&changed), Vec::<String>::new());
    // Where the counters are is a part of the configuration too.
    let at = |database: u64, host: &str| {
        json!({
            "count": 1, "time_window": 60, "group": "r", "policy": "redis", "redis_host": host,
            "redis_database": database,
        })
    };
    let _running = scene.build(&KIND, &at(1, "127.0.0.1"));
    assert_eq!(faults(&at(1, "127.0.0.1")), Vec::<String>::new());
    assert_eq!(faults(&at(2, "127.0.0.1")), ["group conf mismatched"]);
    assert_eq!(faults(&at(1, "127.0.0.2")), ["group conf mismatched"]);
}

#[test]
fn groups_of_two_gateways_are_apart() {
    let (mut one, mut other) = (Scene::new(), Scene::new());
    let config = |count: u32| json!({ "count": count, "time_window": 60, "group": "g" });
    let (first, second) = (one.build(&KIND, &config(1)), other.build(&KIND, &config(2)));
    assert_eq!(send(&mut one, &*first, PLAIN).0, 0);
    assert_eq!(send(&mut other, &*second, PLAIN).0, 0);
}

#[test]
fn metadata_renames_the_fields() {
    let mut scene = Scene::new();
    let metadata = json!({ "limit_header": "RateLimit-Limit", "remaining_header": "bad name" });
    let plugin = scene.build_with(&KIND, &json!({ "count": 5, "time_window": 1 }), Some(&metadata));
    let (_, fields, _) = send(&mut scene, &*plugin, PLAIN);
    let node = "X-RateLimit-Limit: the node's own";
    assert_eq!(fields, [node, "RateLimit-Limit: 5", "X-RateLimit-Remaining: 4", "X-RateLimit-Reset: 1"]);
}

#[test]
fn explaining_counts_nothing() {
    for window_type in ["fixed", "sliding"] {
        let mut scene = Scene::new();
        let config =
            json!({ "count": 2, "time_window": 600, "key": "remote_addr", "window_type": window_type });
        let plugin = scene.build(&KIND, &config);
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        for left in ["2 of 2 left in 600 s", "1 of 2 left in 600 s"] {
            for _ in 0..3 {
                let would = plugin.explain(&mut exchange, PluginPhase::Access).would.unwrap();
                assert_eq!((would.action.as_str(), &*would.text), ("count", left), "{window_type}");
            }
            assert!(decide(plugin.access(&mut exchange)).is_none());
        }
        assert!(plugin.explain(&mut exchange, PluginPhase::Access).ends());
    }
}

//! Configurations of `limit-conn`, and its effect on requests in progress.
use super::*;
use exchange::testing::{Scene, check_configuration, with_fields};
use model::catalog::SchemaType;
use serde_json::json;

fn with(extra: Value) -> Value {
    with_fields(json!({ "conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr" }), &extra)
}

#[test]
fn configurations() {
    let check = |config: Value, want: Result<(), &str>| {
        check_configuration(&KIND, SchemaType::Plugin, &config, want.err());
    };
    check(with(json!({})), Ok(()));
    check(
        with(json!({ "conn": "$http_a", "burst": "${http_b ?? 0}", "only_use_default_delay": true })),
        Ok(()),
    );
    check(with(json!({ "conn": "5", "burst": "0", "rejected_code": 429, "rejected_msg": "m" })), Ok(()));
    check(with(json!({ "key_type": "var_combination", "key": "$remote_addr $http_x" })), Ok(()));
    check(with(json!({ "allow_degradation": true, "policy": "local" })), Ok(()));
    let rule = json!({ "conn": 1, "burst": 1, "key": "${http_a}" });
    check(json!({ "default_conn_delay": 1, "rules": [rule] }), Ok(()));
    check(json!({ "rules": [rule] }), Err("property \"default_conn_delay\" is required"));
    check(with(json!({ "rules": [rule] })), Err("only one schema"));
    check(json!({ "default_conn_delay": 1 }), Err("should match only one schema"));
    check(json!({ "default_conn_delay": 1, "conn": 1, "key": "a" }), Err("should match only one schema"));
    check(with(json!({ "conn": 0 })), Err("conn"));
    check(with(json!({ "conn": "0" })), Err("conn must be a whole number from 1"));
    check(with(json!({ "conn": "x" })), Err("conn"));
    check(with(json!({ "burst": -1 })), Err("burst"));
    check(with(json!({ "default_conn_delay": 0 })), Err("default_conn_delay"));
    check(with(json!({ "key_type": "constant" })), Err("key_type"));
    check(with(json!({ "key": "" })), Err("key"));
    check(with(json!({ "policy": "redis-sentinel" })), Err("policy"));
    check(with(json!({ "policy": "redis", "redis_host": "127.0.0.1", "key_ttl": 60 })), Ok(()));
    check(with(json!({ "policy": "redis" })), Err("then clause did not match"));
    check(with(json!({ "key_ttl": 0 })), Err("key_ttl"));
}

/// How a request goes on: `Ok` with whether it waits, or the status of its refusal.
fn enter(plugin: &dyn Plugin, exchange: &mut Exchange) -> Result<bool, u16> {
    match plugin.access(exchange) {
        Flow::Continue => Ok(false),
        Flow::Wait(_) => Ok(true),
        Flow::Reply(reply) => Err(reply.status),
        Flow::Stream(_) | Flow::Stored(_) => panic!("the plugin has no body to send"),
    }
}

const PLAIN: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn requests_in_progress_wait_then_are_refused() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &with(json!({ "conn": 2, "burst": 1, "rejected_code": 429 })));
    let mut exchanges: Vec<_> = (0..4).map(|_| scene.exchange(PLAIN)).collect();
    let got: Vec<_> = exchanges.iter_mut().map(|exchange| enter(&*plugin, exchange)).collect();
    assert_eq!(got, [Ok(false), Ok(false), Ok(true), Err(429)]);
    // One ends in the log phase, another without one.
    plugin.log(&exchanges[0]);
    exchanges[1].reset();
    for want in [Ok(false), Ok(true), Err(429)] {
        exchanges.push(scene.exchange(PLAIN));
        assert_eq!(enter(&*plugin, exchanges.last_mut().unwrap()), want);
    }
}

#[test]
fn refused_request_gives_nothing_back_twice() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &with(json!({ "rejected_msg": "busy" })));
    let (mut first, mut second) = (scene.exchange(PLAIN), scene.exchange(PLAIN));
    assert_eq!(enter(&*plugin, &mut first), Ok(false));
    match plugin.access(&mut second) {
        Flow::Reply(reply) => assert_eq!(&*reply.body, b"{\"error_msg\":\"busy\"}\n"),
        _ => panic!("the second request is refused"),
    }
    plugin.log(&second);
    drop(second);
    assert_eq!(enter(&*plugin, &mut scene.exchange(PLAIN)), Err(503));
    plugin.log(&first);
    plugin.log(&first);
    let mut third = scene.exchange(PLAIN);
    assert_eq!(enter(&*plugin, &mut third), Ok(false));
    assert_eq!(enter(&*plugin, &mut scene.exchange(PLAIN)), Err(503));
}

#[test]
fn delay_grows_with_the_number_in_progress() {
    let (states, services) =
        (exchange::plugin::state::StateRegistry::default(), exchange::testing::services());
    let build = exchange::testing::build("/routes/1", None, &states, &services);
    let plugin = |conn_delay: f64| LimitConn {
        rules: Box::default(),
        skips_rules: false,
        unit_delay_ms: conn_delay * 1_000.0,
        store: LimitConnStore::Local(Arc::default()),
        rejected: BufferedReply::default(),
        failures: Arc::new(Failures::new(&build, "limit-conn", false, BufferedReply::status(500))),
    };
    for (number, conn, delay_ms) in
        [(1, 1, 0), (2, 1, 100), (3, 1, 200), (5, 5, 0), (6, 5, 100), (11, 5, 200)]
    {
        assert_eq!(plugin(0.1).delay_ms(number, conn), delay_ms, "{number} of {conn}");
    }
    assert_eq!(plugin(1e300).delay_ms(2, 1), u64::MAX);
}

#[test]
fn limits_can_be_request_variables() {
    let mut scene = Scene::new();
    let mut check = |allow: bool, fields: &str, want: Result<bool, u16>| {
        let config = json!({ "conn": "${http_conn}", "burst": "${http_burst}", "allow_degradation": allow });
        let plugin = scene.build(&KIND, &with(config));
        let mut exchange = scene.exchange(format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes());
        assert_eq!(enter(&*plugin, &mut exchange), want, "{fields}");
    };
    check(false, "Conn: 3\r\nBurst: 0\r\n", Ok(false));
    for bad in [
        "",
        "Conn: 1\r\n",
        "Conn: 0\r\nBurst: 1\r\n",
        "Conn: 1\r\nBurst: -1\r\n",
        "Conn: 1.5\r\nBurst: 1\r\n",
    ] {
        check(false, bad, Err(500));
        check(true, bad, Ok(false));
    }
}

#[test]
fn rules_count_each_for_itself() {
    let mut scene = Scene::new();
    let plugin = scene.build(
        &KIND,
        &json!({ "default_conn_delay": 0.1, "rules": [
            { "conn": 1, "burst": 0, "key": "${http_a}" },
            { "conn": "${http_conn ?? 2}", "burst": 0, "key": "${http_b}" },
        ] }),
    );
    let mut kept = Vec::new();
    let mut check = |fields: &str, want: Result<bool, u16>| {
        let mut exchange = scene.exchange(format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes());
        assert_eq!(enter(&*plugin, &mut exchange), want, "{fields}");
        if want.is_err() {
            plugin.log(&exchange);
        }
        kept.push(exchange);
    };
    check("A: 1\r\n", Ok(false));
    check("A: 1\r\n", Err(503));
    check("A: 2\r\nB: 1\r\n", Ok(false));
    check("B: 1\r\n", Ok(false));
    // The first rule's place is given back when the second one refuses.
    check("A: 3\r\nB: 1\r\n", Err(503));
    check("A: 3\r\n", Ok(false));
    // A rule without numbers is left out.
    check("B: 1\r\nConn: x\r\n", Err(500));
    check("", Err(500));
}

#[test]
fn counts_survive_unrelated_changes() {
    let mut scene = Scene::new();
    let first = scene.build(&KIND, &with(json!({})));
    let mut exchange = scene.exchange(PLAIN);
    assert_eq!(enter(&*first, &mut exchange), Ok(false));
    let again = scene.build(&KIND, &with(json!({ "_meta": { "priority": 5 } })));
    drop(first);
    assert_eq!(enter(&*again, &mut scene.exchange(PLAIN)), Err(503));
    drop(exchange);
    assert_eq!(enter(&*again, &mut scene.exchange(PLAIN)), Ok(false));
}

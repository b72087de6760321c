//! `limit-count`, `limit-req` and `limit-conn` with a real Redis: one limit for two gateways, a Redis that is
//! secured, gone, frozen, a cluster, or behind sentinels.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{
    Certificates, Client, Origin, Redis, RedisCluster, RedisSentinels, Reply, Response, Signal, Step, Weir,
    wait_until,
};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// The configuration `limit` of a plugin with a policy of these fields.
fn with(mut limit: Value, policy: &Value) -> Value {
    limit.as_object_mut().unwrap().extend(policy.as_object().unwrap().clone());
    limit
}

fn single(redis: &Redis) -> Value {
    json!({"policy": "redis", "redis_host": "127.0.0.1", "redis_port": redis.address().port()})
}

/// Puts a route for `/` and everything below to the origin, with one plugin.
fn route(weir: &Weir, origin: &Origin, plugin: &str, config: &Value) {
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {plugin: config}}));
}

fn get_as(weir: &Weir, id: &str) -> Response {
    weir.client().request("GET", "/", &[("X-Id", id)], b"")
}

fn remaining(response: &Response) -> Option<&str> {
    response.header("x-ratelimit-remaining")
}

fn wait_until_logged(weir: &Weir, words: &str) {
    wait_until(&format!("the error log says {words}"), || {
        weir.stderr().iter().any(|line| line.contains(words))
    });
}

/// Rules with equal values count apart, as they do in memory.
#[test]
fn rules_with_equal_values_count_apart() {
    let (redis, origin) = (Redis::start(), Origin::answering("passed"));
    let weir = Weir::start(BINARY);
    let send = |value: &str| {
        let fields = [("X-User", value), ("X-Org", value)];
        weir.client().request("GET", "/", &fields, b"").status
    };
    for (value, extra) in [
        ("fixed", json!({})),
        ("sliding", json!({"window_type": "sliding"})),
        ("delayed", json!({"sync_interval": 0.1})),
    ] {
        let rule = |key: &str| json!({"count": 2, "time_window": 3600, "key": key});
        let limit = json!({"rules": [rule("$http_x_user"), rule("$http_x_org")], "rejected_code": 429});
        route(&weir, &origin, "limit-count", &with(with(limit, &single(&redis)), &extra));
        assert_eq!([send(value), send(value), send(value)], [200, 200, 429], "{value}");
    }
    let rule = |key: &str| json!({"conn": 1, "burst": 0, "key": key});
    let limit = json!({"rules": [rule("$http_x_user"), rule("$http_x_org")], "default_conn_delay": 0.1});
    route(&weir, &origin, "limit-conn", &with(limit, &single(&redis)));
    assert_eq!(send("place"), 200);
}

#[test]
fn two_gateways_share_a_count() {
    let (redis, origin) = (Redis::start(), Origin::answering("passed"));
    let gateways = [Weir::start(BINARY), Weir::start(BINARY)];
    for (window_type, key) in [("fixed", "http_x_id"), ("sliding", "http_x_id")] {
        let limit = json!({
            "count": 3, "time_window": 3600, "window_type": window_type, "key": key, "rejected_code": 429,
        });
        for weir in &gateways {
            route(weir, &origin, "limit-count", &with(limit.clone(), &single(&redis)));
        }
        let got: Vec<_> = [0, 1, 0, 1, 0].map(|turn: usize| get_as(&gateways[turn], window_type)).into();
        let statuses: Vec<u16> = got.iter().map(|response| response.status).collect();
        assert_eq!(statuses, [200, 200, 200, 429, 429], "{window_type}");
        let left: Vec<_> = got.iter().map(|response| remaining(response).unwrap()).collect();
        assert_eq!(left, ["2", "1", "0", "0", "0"], "{window_type}");
        assert_eq!(get_as(&gateways[0], "another").status, 200);
    }
}

/// The key and the number are those of APISIX: what APISIX has counted counts here.
#[test]
fn group_counts_together_with_apisix() {
    let (redis, origin) = (Redis::start(), Origin::answering("passed"));
    redis.cli(&["SET", "plugin-limit-count:v1:shared:me", "2", "EX", "3600"]);
    let weir = Weir::start(BINARY);
    let limit = json!({"count": 3, "time_window": 3600, "key": "http_x_id", "group": "shared"});
    route(&weir, &origin, "limit-count", &with(limit, &single(&redis)));
    let first = get_as(&weir, "me");
    assert_eq!((first.status, remaining(&first)), (200, Some("0")));
    assert_eq!(get_as(&weir, "me").status, 503);
    assert_eq!(redis.cli(&["GET", "plugin-limit-count:v1:shared:me"]), "4");
    assert_eq!(redis.cli(&["GET", "plugin-limit-count:v1:shared:you"]), "");
}

#[test]
fn two_gateways_share_a_rate() {
    let (redis, origin) = (Redis::start(), Origin::answering("passed"));
    let gateways = [Weir::start(BINARY), Weir::start(BINARY)];
    let limit = json!({"rate": 0.01, "burst": 1, "nodelay": true, "key": "http_x_id", "rejected_code": 429});
    for weir in &gateways {
        route(weir, &origin, "limit-req", &with(limit.clone(), &single(&redis)));
    }
    let statuses = [0, 1, 0, 1].map(|turn: usize| get_as(&gateways[turn], "a").status);
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(get_as(&gateways[1], "b").status, 200);
}

#[test]
fn two_gateways_share_requests_in_progress() {
    let (redis, go) = (Redis::start(), Signal::new());
    let origin = Origin::start({
        let go = go.clone();
        move |request| match request.path() {
            "/held" => {
                Reply::new().then(Step::Wait(go.clone())).send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            }
            _ => Reply::ok("free"),
        }
    });
    let gateways = [Weir::start(BINARY), Weir::start(BINARY)];
    let limit =
        json!({"conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "http_x_id", "rejected_code": 429});
    for weir in &gateways {
        route(weir, &origin, "limit-conn", &with(limit.clone(), &single(&redis)));
    }
    let mut ends = gateways[0].client();
    ends.send(b"GET /held HTTP/1.1\r\nHost: h\r\nX-Id: ends\r\n\r\n");
    let mut leaves = gateways[0].client();
    leaves.send(b"GET /held HTTP/1.1\r\nHost: h\r\nX-Id: leaves\r\n\r\n");
    origin.wait_for_requests(2);
    for id in ["ends", "leaves"] {
        assert_eq!(get_as(&gateways[1], id).status, 429, "{id}");
    }
    assert_eq!(get_as(&gateways[1], "another").status, 200);
    drop(leaves);
    wait_until("the place of a client that left is free", || get_as(&gateways[1], "leaves").status == 200);
    go.set();
    assert_eq!(ends.read_response(false).unwrap().status, 200);
    wait_until("the place of a request that ended is free", || get_as(&gateways[1], "ends").status == 200);
    wait_until("no request is in progress", || redis.cli(&["KEYS", "limit_conn:*"]).is_empty());
}

#[test]
fn redis_that_is_gone_fails_closed_until_it_is_back() {
    let (mut redis, origin) = (Redis::start(), Origin::answering("passed"));
    let plugins = [
        ("limit-count", json!({"count": 1000, "time_window": 3600})),
        ("limit-req", json!({"rate": 1000, "burst": 1000, "nodelay": true, "key": "remote_addr"})),
        ("limit-conn", json!({"conn": 1000, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr"})),
    ];
    let (weir, degrading) = (Weir::start(BINARY), Weir::start(BINARY));
    for (plugin, limit) in plugins {
        let closed = with(limit, &single(&redis));
        let mut open = closed.clone();
        open["allow_degradation"] = json!(true);
        route(&weir, &origin, plugin, &closed);
        route(&degrading, &origin, plugin, &open);
        assert_eq!([weir.get("/").status, degrading.get("/").status], [200, 200], "{plugin}");
        redis.kill();
        let refused = weir.get("/");
        assert_eq!((refused.status, degrading.get("/").status), (500, 200), "{plugin}");
        let body = if plugin == "limit-count" { "{\"error_msg\":\"failed to limit count\"}\n" } else { "" };
        assert_eq!(refused.text(), body, "{plugin}");
        redis.restart();
        wait_until("requests are counted again", || weir.get("/").status == 200);
    }
    wait_until_logged(&weir, "requests cannot be counted in Redis");
    let metrics = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
    for plugin in ["limit-count", "limit-req", "limit-conn"] {
        let series = format!("weir_plugin_call_failures_total{{plugin=\"{plugin}\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
        assert!(value.is_some_and(|value| value != "0"), "{plugin}: {value:?}");
    }
}

#[test]
fn login_and_certificate_are_checked() {
    let certificates = Certificates::make();
    let (redis, origin) = (Redis::start_secured(&certificates), Origin::answering("passed"));
    let trusting = format!("trusted_certificates: {}\n", certificates.authority().display());
    let (trusting, other) = (Weir::builder(BINARY).settings(&trusting).start(), Weir::start(BINARY));
    let check = |weir: &Weir, more: Value, status: u16| {
        let policy = with(single(&redis), &more);
        route(weir, &origin, "limit-count", &with(json!({"count": 1000, "time_window": 3600}), &policy));
        let response = weir.get("/");
        assert_eq!(response.status, status, "{more}");
        assert!(!response.text().contains("secret"), "{}", response.text());
    };
    let tls = |verify: bool, user: &str, password: &str| {
        json!({
            "redis_port": redis.tls_address().port(), "redis_ssl": true, "redis_ssl_verify": verify,
            "redis_username": user, "redis_password": password, "redis_database": 1,
        })
    };
    check(&trusting, tls(true, "gw", "gw-secret"), 200);
    check(&other, tls(false, "gw", "gw-secret"), 200);
    check(&other, tls(true, "gw", "gw-secret"), 500);
    check(&trusting, tls(true, "gw", "wrong-secret"), 500);
    check(&trusting, json!({"redis_password": "top-secret"}), 200);
    check(&trusting, json!({}), 500);
    wait_until_logged(&trusting, "WRONGPASS");
    wait_until_logged(&trusting, "NOAUTH");
    let logged = trusting.stderr().join("\n");
    assert!(!logged.contains("-secret"), "{logged}");
    let keys = |arguments: &[&str]| {
        let login = ["--user", "default", "--pass", "top-secret", "--no-auth-warning"];
        redis.cli(&[&login, arguments, &["KEYS", "plugin-limit-count:*"]].concat())
    };
    assert!(keys(&["-n", "1"]).contains("plugin-limit-count:v1:/apisix/routes/1:"), "{}", keys(&["-n", "1"]));
}

#[test]
fn delayed_synchronisation_waits_for_nothing() {
    let (redis, origin) = (Redis::start(), Origin::answering("passed"));
    let gateways = [Weir::start(BINARY), Weir::start(BINARY)];
    let limit = json!({
        "count": 5, "time_window": 3600, "key": "http_x_id", "group": "delayed", "sync_interval": 0.1,
        "redis_timeout": 20_000,
    });
    for weir in &gateways {
        route(weir, &origin, "limit-count", &with(limit.clone(), &single(&redis)));
    }
    let count = |id: &str| redis.cli(&["GET", &format!("plugin-limit-count:v1:delayed:{id}")]);
    // Requests that one gateway has let through count at the other.
    let left: Vec<String> =
        (0..3).map(|_| remaining(&get_as(&gateways[0], "a")).unwrap().to_owned()).collect();
    assert_eq!(left, ["4", "3", "2"]);
    wait_until("Redis has the count", || count("a") == "3");
    assert_eq!(get_as(&gateways[1], "a").status, 200);
    wait_until("the other gateway knows the count", || {
        count("a") == "4" && get_as(&gateways[1], "a").status == 200
    });
    wait_until("the limit is reached", || get_as(&gateways[1], "a").status == 503);
    // The first gateway let nothing through since, and hears of it with its next synchronisation.
    wait_until("the limit holds at the first gateway", || get_as(&gateways[0], "a").status == 503);

    redis.freeze();
    let began = Instant::now();
    let statuses: Vec<u16> = (0..7).map(|_| get_as(&gateways[0], "b").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 503, 503]);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    redis.thaw();
    wait_until("Redis has the count after all", || {
        get_as(&gateways[0], "b").status == 503 && count("b") == "5"
    });
    assert_eq!(get_as(&gateways[0], "a").status, 503);
}

#[test]
fn requests_share_a_few_connections() {
    let (redis, origin) = (Redis::start(), Origin::answering("passed"));
    let weir = Weir::start(BINARY);
    let limit = json!({"count": 100, "time_window": 3600, "key_type": "constant"});
    route(&weir, &origin, "limit-count", &with(limit, &single(&redis)));
    let passed: usize = std::thread::scope(|scope| {
        let ask = || {
            let mut client = weir.client();
            (0..10).filter(|_| client.get("/").status == 200).count()
        };
        let threads: Vec<_> = (0..20).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 100);
    let own_and_cli = redis.cli(&["CLIENT", "LIST"]).lines().count();
    assert!(own_and_cli <= 4 + 1, "{own_and_cli} connections");
}

#[test]
fn closed_connection_and_lost_script_are_not_noticed() {
    let (redis, origin) = (Redis::start(), Origin::answering("passed"));
    let weir = Weir::start(BINARY);
    let limit = json!({"count": 1000, "time_window": 3600, "show_limit_quota_header": false});
    route(&weir, &origin, "limit-count", &with(limit, &single(&redis)));
    assert_eq!(weir.get("/").status, 200);
    redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert_eq!(weir.get("/").status, 200);
    redis.cli(&["SCRIPT", "FLUSH"]);
    let response = weir.get("/");
    assert_eq!((response.status, remaining(&response)), (200, None));
}

#[test]
fn server_that_is_no_redis_fails_closed() {
    let origin = Origin::answering("passed");
    let other = Origin::on_accept(|_| {
        Reply::new().then(Step::ReadBytes(20)).send("HTTP/1.1 400 Bad Request\r\n\r\n").then(Step::AwaitClose)
    });
    let weir = Weir::start(BINARY);
    let policy = json!({"policy": "redis", "redis_host": "127.0.0.1", "redis_port": other.port()});
    route(&weir, &origin, "limit-count", &with(json!({"count": 1, "time_window": 1}), &policy));
    let refused = weir.get("/");
    assert_eq!((refused.status, refused.json()), (500, json!({"error_msg": "failed to limit count"})));
    wait_until_logged(&weir, "does not speak the protocol of Redis");
}

#[test]
fn frozen_redis_costs_its_timeout() {
    let (redis, origin) = (Redis::start(), Origin::answering("passed"));
    let weir = Weir::start(BINARY);
    let limit = json!({"count": 5, "time_window": 3600, "redis_timeout": 100});
    route(&weir, &origin, "limit-count", &with(limit, &single(&redis)));
    assert_eq!(weir.get("/").status, 200);
    redis.freeze();
    let began = Instant::now();
    assert_eq!(weir.get("/").status, 500);
    assert!(began.elapsed() >= Duration::from_millis(95), "{:?}", began.elapsed());
    redis.thaw();
    wait_until("requests are counted again", || weir.get("/").status == 200);
}

#[test]
fn cluster_is_followed_when_slots_move() {
    let (cluster, origin) = (RedisCluster::start(), Origin::answering("passed"));
    let weir = Weir::start(BINARY);
    let policy = json!({
        "policy": "redis-cluster", "redis_cluster_name": "test",
        "redis_cluster_nodes": [cluster.nodes()[0].address().to_string()],
    });
    for (plugin, limit) in [
        ("limit-req", json!({"rate": 0.01, "burst": 0, "nodelay": true, "key": "http_x_id"})),
        (
            "limit-count",
            json!({"count": 1, "time_window": 3600, "window_type": "sliding", "key": "http_x_id"}),
        ),
        ("limit-count", json!({"count": 2, "time_window": 3600, "key": "http_x_id", "group": "moving"})),
    ] {
        route(&weir, &origin, plugin, &with(limit, &policy));
        for number in 0..20 {
            assert_eq!(get_as(&weir, &format!("{number}")).status, 200, "{plugin} {number}");
        }
        let served = |node: &Redis| node.cli(&["DBSIZE"]).parse::<usize>().unwrap_or_default() > 0;
        assert!(cluster.nodes().iter().all(served), "{plugin} uses all nodes");
    }
    let slot_of = |id: &str| {
        let key = format!("plugin-limit-count:v1:moving:{id}");
        let slot: u16 = cluster.nodes()[0].cli(&["CLUSTER", "KEYSLOT", &key]).parse().unwrap();
        let from = usize::from(slot / 5_461).min(2);
        (slot, from, (from + 1) % 3)
    };
    // A new key of a slot that is moving belongs to the next node already.
    let (slot, from, to) = slot_of("new");
    cluster.begin_move(slot, from, to);
    assert_eq!(remaining(&get_as(&weir, "new")), Some("1"));
    assert_eq!(cluster.nodes()[from].cli(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]), "0");
    cluster.finish_move(slot, from, to);
    assert_eq!(remaining(&get_as(&weir, "new")), Some("0"));
    let (slot, from, to) = slot_of("7");
    cluster.move_slot(slot, from, to);
    let second = get_as(&weir, "7");
    assert_eq!((second.status, remaining(&second)), (200, Some("0")));
    assert_eq!(get_as(&weir, "7").status, 503);
}

#[test]
fn sentinels_name_the_new_master_after_failover() {
    let (mut servers, origin) = (RedisSentinels::start(), Origin::answering("passed"));
    let weir = Weir::start(BINARY);
    let sentinels: Vec<Value> = servers
        .sentinels()
        .iter()
        .map(|address| json!({"host": "127.0.0.1", "port": address.port()}))
        .collect();
    let limit = json!({
        "count": 1000, "time_window": 3600, "group": "watched", "policy": "redis-sentinel",
        "redis_sentinels": sentinels, "redis_master_name": "mymaster",
    });
    route(&weir, &origin, "limit-count", &limit);
    let first = weir.get("/");
    assert_eq!((first.status, remaining(&first)), (200, Some("999")));
    let key = "plugin-limit-count:v1:watched:127.0.0.1";
    wait_until("the replica has the count", || servers.replica().cli(&["GET", key]) == "1");
    servers.fail_over();
    wait_until("the new master counts", || weir.get("/").status == 200);
    let counted = servers.replica().cli(&["GET", key]);
    assert!(counted.parse::<u32>().unwrap() >= 2, "{counted}");
}

#[test]
fn stopping_gateway_tells_redis_first() {
    let (redis, go) = (Redis::start(), Signal::new());
    let origin = Origin::start({
        let go = go.clone();
        move |_| {
            Reply::new().then(Step::Wait(go.clone())).send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        }
    });
    let mut weir = Weir::start(BINARY);
    let count = json!({"count": 9, "time_window": 3600, "group": "ending", "sync_interval": 600});
    let conn = json!({"conn": 9, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr"});
    let plugins =
        json!({"limit-count": with(count, &single(&redis)), "limit-conn": with(conn, &single(&redis))});
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": plugins}));
    let counted = || redis.cli(&["GET", "plugin-limit-count:v1:ending:127.0.0.1"]);
    let mut clients = Vec::new();
    for number in 1..=3 {
        let mut client = weir.client();
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        origin.wait_for_requests(number);
        clients.push(client);
        // The first request of a key is synchronised at once, the others after the interval.
        wait_until("Redis knows the key", || counted() == "1");
    }
    assert!(redis.cli(&["KEYS", "limit_conn:*"]).contains("routes/1"));
    weir.terminate();
    go.set();
    for mut client in clients {
        assert_eq!(client.read_response(false).unwrap().status, 200);
    }
    assert!(weir.wait_for_exit().success());
    assert_eq!(redis.cli(&["KEYS", "limit_conn:*"]), "");
    assert_eq!(counted(), "3");
}

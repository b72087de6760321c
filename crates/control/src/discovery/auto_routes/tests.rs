//! Lists of services become routes by the rules of a block.

use serde_json::{Value, json};

use super::*;

fn auto_routes(block: Value) -> Arc<AutoRoutes> {
    let block = json!({"servers": [], FIELD: block});
    AutoRoutes::new([("consul", block)].into_iter()).unwrap().unwrap()
}

/// Service, id and uri of each route that is made of these services.
fn made(block: Value, services: &[&str]) -> Vec<String> {
    let routes = auto_routes(block);
    routes.listed("consul", services.iter().map(|name| Box::from(*name)).collect());
    routes.make();
    let made = routes.made.lock();
    made.routes.iter().map(|route| format!("{} {}", route.service, route.uri)).collect()
}

#[test]
fn path_follows_prefix_case_and_pattern() {
    let mapper = json!({"pattern": "(?<name>.+)-(?<version>v[0-9]+)", "replacement": "${version}/${name}"});
    let with = |more: Value| {
        let mut block = mapper.as_object().unwrap().clone();
        block.extend(more.as_object().unwrap().clone());
        Value::Object(block)
    };
    for (block, service, expected) in [
        (json!({}), "Orders", "Orders /orders/*"),
        (json!({"lower_case": false}), "Orders", "Orders /Orders/*"),
        (json!({"prefix": "/api/"}), "orders", "orders /api/orders/*"),
        (json!({"path": "/svc/{service}/rest"}), "orders", "orders /svc/orders/rest/*"),
        (with(json!({})), "orders-v2", "orders-v2 /v2/orders/*"),
        (with(json!({"prefix": "api"})), "orders-v2", "orders-v2 /api/v2/orders/*"),
        (with(json!({})), "orders", "orders /orders/*"),
    ] {
        assert_eq!(made(block.clone(), &[service]), [expected], "{block}");
    }
}

#[test]
fn globs_choose_services() {
    let all = ["admin", "orders", "orders-test", "Users"];
    for (block, expected) in [
        (json!({"include": ["orders*", "users"]}), vec!["/orders/*", "/orders-test/*", "/users/*"]),
        (json!({"exclude": ["*-test", "a????"]}), vec!["/orders/*", "/users/*"]),
        (json!({"include": ["orders*"], "exclude": ["*-test"]}), vec!["/orders/*"]),
        (json!({"include": ["order"]}), vec![]),
    ] {
        let mut uris: Vec<String> =
            made(block.clone(), &all).iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
        uris.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(uris, expected, "{block}");
    }
}

#[test]
fn route_has_the_shared_parts() {
    let block = json!({
        "prefix": "/api",
        "discovery_args": {"datacenter": "dc1"},
        "route": {"hosts": ["a.example"], "plugins": {"key-auth": {}}, "upstream": {"timeout": {"read": 3}}}
    });
    let routes = auto_routes(block);
    assert_eq!(&*routes.list_of("consul").unwrap().args["datacenter"], "dc1");
    routes.listed("consul", Names::from(["orders".into()]));
    let (key, text) = routes.make().remove(0);
    assert_eq!(key.own_id(), "auto.consul.orders");
    let route: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({
        "id": "auto.consul.orders", "uri": "/api/orders/*", "priority": -1_000_000_000, "hosts": ["a.example"],
        "plugins": {"key-auth": {}, "proxy-rewrite": {"regex_uri": ["^/api/orders/(.*)", "/$1"]}},
        "upstream": {"timeout": {"read": 3}, "discovery_type": "consul", "service_name": "orders", "discovery_args": {"datacenter": "dc1"}}
    });
    assert_eq!(route, expected);
}

#[test]
fn services_without_a_route_have_a_reason() {
    let routes = auto_routes(json!({}));
    let long = "x".repeat(100);
    let names = ["a b", "..", "Orders", "orders", long.as_str()];
    routes.listed("consul", names.iter().map(|name| Box::from(*name)).collect());
    let ids: Vec<String> = routes.make().iter().map(|(key, _)| key.own_id().to_owned()).collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert!(ids[0] == "auto.consul.Orders" && ids[1].len() < 64, "{ids:?}");
    let left_out = routes.shown()["registries"]["consul"]["left_out"].clone();
    assert!(left_out["a b"].as_str().unwrap().contains("letters, digits"), "{left_out}");
    assert!(left_out[".."].as_str().unwrap().contains("segment"), "{left_out}");
    assert_eq!(left_out["orders"], "the service Orders has the path /orders/*");
}

#[test]
fn more_services_than_the_limit_get_no_route() {
    let routes = auto_routes(json!({}));
    routes.listed("consul", (0..ROUTES_MAX + 3).map(|number| format!("s{number:05}").into()).collect());
    assert_eq!(routes.make().len(), ROUTES_MAX);
    assert_eq!(routes.made.lock().left_out.len(), 3);
}

#[test]
fn version_grows_with_changes_only() {
    let routes = auto_routes(json!({}));
    assert!(routes.listed("consul", Names::from(["a".into()])));
    let version = routes.version();
    assert!(!routes.listed("consul", Names::from(["a".into()])));
    routes.failed("consul", "it is down");
    assert_eq!(routes.version(), version, "a failure keeps the list");
    assert_eq!(routes.make().len(), 1);
    assert!(routes.listed("consul", Names::new()));
    assert!(routes.version() > version && routes.make().is_empty());
}

#[test]
fn faulty_blocks_say_what_to_write() {
    for (block, expected) in [
        (json!({"path": "/all"}), "write {service} in it"),
        (json!({"pattern": "(", "replacement": "x"}), "`pattern` is no regular expression"),
        (json!({"prefix": "/a b"}), "has the segment `a b`"),
        (json!({"route": {"uri": "/x"}}), "`route.uri` is made by the gateway"),
        (json!({"route": {"upstream": {"nodes": {}}}}), "`route.upstream.nodes` is made by the gateway"),
        (json!({"route": {"plugins": {"proxy-rewrite": {"uri": "/x"}}}}), "needs `strip_prefix: false`"),
    ] {
        let reason = Template::read("consul", &block).unwrap_err();
        assert!(reason.contains(expected), "{block}: {reason}");
    }
}

//! Lists of services become routes by the rules of a block.

use serde_json::{Value, json};
use testkit::{Origin, Reply, wait_until};

use super::*;
use crate::{DiscoveryConfig, ServiceDiscovery};

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
fn versions_have_routes_with_their_arguments() {
    let block = json!({
        "prefix": "/api", "discovery_args": {"datacenter": "dc1"},
        "versions": {"v1": {"tag": "v1"}, "v2": {"tag": "v2", "datacenter": "dc2"}}
    });
    let routes = auto_routes(block);
    routes.listed("consul", Names::from(["Orders".into()]));
    let made: Vec<(String, Value)> = routes
        .make()
        .iter()
        .map(|(_, text)| serde_json::from_str::<Value>(text).unwrap())
        .map(|route| (route["uri"].as_str().unwrap().to_owned(), route["upstream"]["discovery_args"].clone()))
        .collect();
    let expected = [
        ("/api/orders/*", json!({"datacenter": "dc1"})),
        ("/api/v1/orders/*", json!({"datacenter": "dc1", "tag": "v1"})),
        ("/api/v2/orders/*", json!({"datacenter": "dc2", "tag": "v2"})),
    ];
    assert_eq!(made, expected.map(|(uri, args)| (uri.to_owned(), args)));
    let reason = RouteTemplate::read("file", &json!({"versions": {"v1": {"a": "b"}}})).unwrap_err();
    assert!(reason.contains("files of targets have none"), "{reason}");
    let reason = RouteTemplate::read("consul", &json!({"version_path": "/x/{service}"})).unwrap_err();
    assert!(reason.contains("{service} and {version}"), "{reason}");
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
        let reason = RouteTemplate::read("consul", &block).unwrap_err();
        assert!(reason.contains(expected), "{block}: {reason}");
    }
}

/// Runs a registry that is asked at `server`, until it lists these services.
fn lists(registry: &str, server: &Origin, more: &Value, expected: &[&str]) -> ServiceDiscovery {
    let mut block = json!({"host": [format!("http://{}", server.address())], FIELD: more});
    block["fetch_interval"] = json!(1);
    let config = DiscoveryConfig {
        blocks: Map::from_iter([(registry.to_owned(), block)]),
        settle: Duration::from_secs(1),
        ..DiscoveryConfig::default()
    };
    let discovery = ServiceDiscovery::start(config).unwrap();
    let routes = discovery.auto_routes().unwrap();
    let expected: Names = expected.iter().map(|name| Box::from(*name)).collect();
    wait_until("the services are listed", || routes.names(registry).as_deref() == Some(&expected));
    discovery
}

#[test]
fn applications_of_eureka_are_listed() {
    let instance = json!({"instanceId": "1", "ipAddr": "10.0.0.1", "status": "UP", "port": {"$": 80, "@enabled": "true"}});
    let answer = json!({"applications": {"apps__hashcode": "UP_2_", "application": [
        {"name": "ORDERS", "instance": [instance]}, {"name": "USERS", "instance": [instance]}]}});
    let server = Origin::start(move |_| Reply::ok(&answer.to_string()));
    let discovery = lists("eureka", &server, &json!({"exclude": ["users"]}), &["ORDERS", "USERS"]);
    let routes = discovery.auto_routes().unwrap();
    routes.make();
    let shown = routes.shown()["registries"]["eureka"]["routes"].clone();
    assert_eq!(shown, json!([{"id": "auto.eureka.ORDERS", "service": "ORDERS", "uri": "/orders/*"}]));
}

#[test]
fn services_of_nacos_are_listed_page_by_page() {
    let server = Origin::start(|request| match request.path() {
        "/nacos/v1/ns/service/list" => {
            let first = (0..500).map(|number| format!("s{number}")).collect::<Vec<_>>();
            let names = if request.target.contains("pageNo=1&") { first } else { vec!["last".to_owned()] };
            Reply::ok(&json!({"count": 501, "doms": names}).to_string())
        }
        _ => Reply::status(404, ""),
    });
    let all: Vec<String> = (0..500).map(|number| format!("s{number}")).chain(["last".to_owned()]).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let args = json!({"discovery_args": {"namespace_id": "prod", "group_name": "shop"}});
    drop(lists("nacos", &server, &args, &all));
    let target = &server.requests()[0].target;
    assert!(target.contains("namespaceId=prod&groupName=shop"), "{target}");
}

#[test]
fn microservices_of_one_application_are_listed() {
    let server = Origin::start(|request| match request.target.as_str() {
        "/v4/default/microservices" | "/v4/default/registry/microservices" => {
            let service = |app: &str, name: &str, version: &str| json!({"serviceId": name, "appId": app, "serviceName": name, "version": version});
            let all = [
                service("shop", "orders", "1.0.0"),
                service("shop", "orders", "2.0.0"),
                service("other", "x", "1"),
            ];
            Reply::ok(&json!({"services": all}).to_string())
        }
        _ => Reply::status(404, ""),
    });
    let args = json!({"discovery_args": {"app_id": "shop"}, "versions": {"v2": {"version": "2.0.0+"}}});
    let discovery = lists("servicecomb", &server, &args, &["orders"]);
    let routes = discovery.auto_routes().unwrap();
    let made = routes.make();
    let text: Value = serde_json::from_str(&made[1].1).unwrap();
    assert_eq!(text["uri"], "/v2/orders/*");
    assert_eq!(text["upstream"]["discovery_args"], json!({"app_id": "shop", "version": "2.0.0+"}));
    assert!(server.requests()[0].header("x-domain-name").is_some());
}

#[test]
fn services_of_etcd_come_and_go() {
    let mut etcd = testkit::Etcd::start(1);
    etcd.put("/services/orders/1", "10.0.0.1:80");
    let block = json!({"host": [etcd.endpoints()], FIELD: {}});
    let config = DiscoveryConfig {
        blocks: Map::from_iter([("etcd".to_owned(), block)]),
        ..DiscoveryConfig::default()
    };
    let discovery = ServiceDiscovery::start(config).unwrap();
    let routes = discovery.auto_routes().unwrap();
    let has = |names: &[&str]| {
        let names: Names = names.iter().map(|name| Box::from(*name)).collect();
        wait_until("the services are listed", || routes.names("etcd").as_deref() == Some(&names));
    };
    has(&["orders"]);
    etcd.put("/services/users/1", "10.0.0.2:80");
    has(&["orders", "users"]);
    etcd.kill_all();
    wait_until("the failure is shown", || routes.shown()["registries"]["etcd"]["failure"].is_string());
    has(&["orders", "users"]);
}

//! The lists of the Admin API for pages and scripts, through the real binary: objects, search, usage,
//! topology, plugins and certificates.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Authority, Client, Origin, Weir};

use crate::support::BINARY;

#[track_caller]
fn get(weir: &Weir, target: &str) -> Value {
    let (status, answer) = weir.admin("GET", &format!("weir/{target}"), Value::Null);
    assert_eq!(status, 200, "{target}: {answer}");
    answer
}

fn ids(answer: &Value) -> Vec<&str> {
    answer["list"].as_array().unwrap().iter().map(|object| object["id"].as_str().unwrap()).collect()
}

fn shop(origin: &Origin) -> Weir {
    let weir = Weir::start(BINARY);
    weir.put("upstreams/books", json!({"nodes": {origin.address().to_string(): 1}}));
    weir.put("services/catalog", json!({"upstream_id": "books", "hosts": ["shop.example"]}));
    weir.put(
        "routes/shop",
        json!({
            "name": "shop-read", "uri": "/shop/*", "methods": ["GET"], "service_id": "catalog", "labels": {"team": "a"},
            "plugins": {"key-auth": {}, "limit-count": {"count": 100, "time_window": 60}},
        }),
    );
    weir.put("routes/open", json!({"uri": "/open", "upstream_id": "books", "plugins": {"cors": {}}}));
    weir.put("consumers/jack", json!({"username": "jack"}));
    weir.put("consumers/jack/credentials/c", json!({"plugins": {"key-auth": {"key": "the-key-of-jack"}}}));
    weir
}

#[test]
fn objects_are_found_and_related() {
    let origin = Origin::answering("served");
    let weir = shop(&origin);
    assert_eq!(Client::connect(weir.proxy()).get("/open").status, 200);
    let routes = get(&weir, "objects/routes?q=plugin:limit-*+label:team:a&sort=-updated_ms");
    assert_eq!((&routes["total"], ids(&routes)), (&json!(2), vec!["shop"]));
    assert_eq!(routes["list"][0]["plugins"], json!(["key-auth", "limit-count"]));
    assert_eq!(routes["list"][0]["state"], "in_force");
    let upstream = get(&weir, "objects/upstreams")["list"][0].clone();
    assert_eq!(
        (&upstream["nodes"], &upstream["down"], &upstream["used_by"]),
        (&json!(1), &json!(0), &json!(2))
    );
    let consumers = get(&weir, "objects/consumers");
    assert_eq!(consumers["list"][0]["credentials"], 1);
    assert!(!get(&weir, "objects/consumers/jack/credentials").to_string().contains("the-key-of-jack"));
    let (status, refused) = weir.admin("GET", "weir/objects/routes?q=plugin:a+plugn:b", Value::Null);
    assert_eq!((status, &refused["at"]), (400, &json!(9)), "{refused}");
    let found = get(&weir, "search?q=shop");
    assert_eq!((&found["list"][0]["id"], &found["more"]), (&json!("shop"), &json!(false)));
    let usage = get(&weir, "usage/services/catalog");
    let route = json!({"kind": "routes", "id": "shop", "pointer": "/service_id"});
    assert_eq!((&usage["used_by"], &usage["uses"][0]["id"]), (&json!([route]), &json!("books")));
    let topology = get(&weir, "topology?focus=upstreams/books");
    let kinds: Vec<&str> =
        topology["nodes"].as_array().unwrap().iter().map(|node| node["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["routes", "routes", "services", "upstreams", "endpoints"]);
    assert_eq!(topology["edges"].as_array().unwrap().len(), 4, "{topology}");
    let address = origin.address().to_string();
    assert_eq!(topology["nodes"][4]["id"], json!(address));
    let upstreams = get(&weir, &format!("upstreams?q=host:{address}"));
    assert_eq!(upstreams["list"][0]["nodes"][0]["last_failure"], Value::Null);
}

#[test]
fn plugins_have_pages_costs_and_uses() {
    let origin = Origin::answering("served");
    let weir = shop(&origin);
    let list = get(&weir, "plugins");
    let list = list["list"].as_array().unwrap();
    for plugin in list {
        assert!(plugin["summary"].as_str().unwrap().ends_with('.'), "{plugin}");
        // Plugins that call a runner, functions of users, plugins of layer 4 alone and that of contracts have
        // no figure.
        let is_measured = !["ext-plugin-", "serverless-", "mqtt-proxy", "contract"]
            .iter()
            .any(|start| plugin["name"].as_str().unwrap().starts_with(start));
        assert_eq!(plugin["cost_ns"].is_u64(), is_measured, "{plugin}");
    }
    let find = |name: &str| list.iter().find(|plugin| plugin["name"] == name).unwrap();
    let count = find("limit-count");
    assert_eq!((&count["group"], &count["used_by"]), (&json!("traffic"), &json!(1)), "{count}");
    assert_eq!((&find("key-auth")["used_by"], &find("zstd")["group"]), (&json!(2), &json!("extension")));
    assert!(find("ip-restriction")["scopes"].as_array().unwrap().contains(&json!("stream_route")));
    let page = get(&weir, "plugins/key-auth");
    assert!(page["docs"].as_str().unwrap().contains("\n## Configuration\n"), "{page}");
    let used = json!([{"kind": "routes", "id": "shop"}, {"kind": "consumers", "id": "jack/credentials/c"}]);
    assert_eq!(page["used"], used);
}

#[test]
fn certificates_have_dates_keys_and_routes() {
    let origin = Origin::answering("served");
    let weir = shop(&origin);
    let authority = Authority::new("known");
    let put = |id: &str, pair: testkit::Pair, names: Value| {
        weir.put(&format!("ssls/{id}"), json!({"snis": names, "cert": pair.certificate, "key": pair.key}));
    };
    put("new", authority.pair(&["shop.example"]), json!(["shop.example"]));
    put("old", authority.expired_pair(&["a.example"]), json!(["a.example"]));
    let all = get(&weir, "certificates");
    assert_eq!(ids(&all), ["old", "new"], "{all}");
    let (old, new) = (&all["list"][0], &all["list"][1]);
    assert_eq!((&old["state"], &old["routes"]), (&json!("expired"), &json!(0)), "{old}");
    assert_eq!(old["not_after_ms"], 978_307_200_000_u64);
    assert_eq!((&new["kind"], &new["routes"]), (&json!("ssls"), &json!(1)), "{new}");
    assert_eq!((&new["key_type"], &new["subject"]), (&json!("ECDSA P-256"), &json!("CN=shop.example")));
    assert_eq!(ids(&get(&weir, "certificates?q=ends:%3C0")), ["old"]);
    let ssls = get(&weir, "objects/ssls?sort=not_after_ms");
    assert_eq!(ids(&ssls), ["old", "new"]);
}

#[test]
fn ten_thousand_routes_are_filtered_fast() {
    let weir = Weir::start(BINARY);
    let routes: Vec<Value> = (0..10_000)
        .map(|number| {
            json!({
                "id": format!("r{number:05}"), "uri": format!("/p/{number}/*"), "host": format!("h{}.example", number % 50),
                "upstream_id": "all",
            })
        })
        .collect();
    let set = json!({"routes": routes, "upstreams": [{"id": "all", "nodes": {"127.0.0.1:1": 1}}]});
    let (status, answer) = weir.admin("POST", "weir/apply", set);
    assert_eq!(status, 200, "{answer}");
    for target in
        ["objects/routes?q=host:h7.example+-99&sort=-name", "search?q=r09857", "topology?focus=upstreams/all"]
    {
        get(&weir, target);
        let begin = Instant::now();
        let answer = get(&weir, target);
        // Programs without optimization on a busy machine take ten times what a release does.
        assert!(begin.elapsed() < Duration::from_secs(3), "{target}: {:?}", begin.elapsed());
        assert!(answer.to_string().contains("r09857") || target.starts_with("topology"), "{target}");
    }
    let topology = get(&weir, "topology?focus=upstreams/all");
    assert_eq!(
        (topology["nodes"].as_array().unwrap().len(), &topology["folded"]["routes"]),
        (40, &json!(9_962))
    );
    assert_eq!(get(&weir, "usage/upstreams/all")["total"], 10_000);
}

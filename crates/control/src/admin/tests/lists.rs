//! Lists of objects in short form: filters, orders, facets, windows, traffic, states, and the search over all
//! kinds.

use std::sync::Arc;

use model::report::{Breakdown, TrafficRate};
use serde_json::{Value, json};

use super::Talk;

/// A rate with these requests a second, share of 5xx and percentile.
pub(super) fn rate(id: &str, requests: f64, server_errors: f64, p99_us: Option<u64>) -> TrafficRate {
    TrafficRate { id: Arc::from(id), requests, client_errors: 0.0, server_errors, p99_us, bytes: 0.0 }
}

impl Talk {
    /// Writes an object.
    #[track_caller]
    pub(super) fn put(&self, target: &str, body: Value) {
        let (status, answer) = self.rig.json("PUT", &format!("/apisix/admin/{target}"), &body);
        assert!(status < 300, "{target}: {answer}");
    }

    /// The answer to a GET below `weir`.
    #[track_caller]
    pub(super) fn get(&self, target: &str) -> Value {
        let path = format!("/apisix/admin/weir/{}", target.replace('<', "%3C").replace('>', "%3E"));
        let (status, answer) = self.rig.json("GET", &path, &Value::Null);
        assert_eq!(status, 200, "{target}: {answer}");
        answer
    }

    #[track_caller]
    fn ids(&self, target: &str) -> Vec<String> {
        let answer = self.get(target);
        let list = answer["list"].as_array().unwrap();
        list.iter().map(|object| object["id"].as_str().unwrap().to_owned()).collect()
    }
}

fn some_objects() -> Talk {
    let mut talk = Talk::new();
    talk.put("upstreams/books", json!({"nodes": {"127.0.0.1:80": 1, "127.0.0.1:81": 1}, "type": "random"}));
    talk.put("services/catalog", json!({"upstream_id": "books", "hosts": ["shop.example"]}));
    talk.put(
        "routes/shop",
        json!({
            "name": "Shop read", "methods": ["GET"], "host": "shop.example", "uri": "/shop/*", "service_id": "catalog",
            "plugins": {"count": {"count": 1, "password": "hush"}}, "labels": {"team": "a"}, "priority": 3,
        }),
    );
    talk.put("routes/pay", json!({"uris": ["/pay", "/pay/*"], "upstream_id": "books", "desc": "money"}));
    talk.put("routes/old", json!({"uri": "/old", "status": 0, "upstream": {"nodes": {"127.0.0.1:82": 1}}}));
    talk.put("consumers/jack", json!({"username": "jack", "desc": "a tester"}));
    talk.put("consumers/jack/credentials/c1", json!({"plugins": {"auth": {"key": "s3cr3t"}}}));
    talk.rig.measure(vec![
        (Breakdown::Routes, rate("shop", 30.0, 10.0, Some(5_000))),
        (Breakdown::Routes, rate("pay", 10.0, 50.0, None)),
        (Breakdown::Routes, rate("gone", 5.0, 0.0, None)),
        (Breakdown::Consumers, rate("jack", 2.0, 0.0, None)),
    ]);
    talk
}

#[test]
fn list_shows_match_target_and_traffic() {
    let talk = some_objects();
    let answer = talk.get("objects/routes?q=id:shop");
    assert_eq!((&answer["total"], &answer["matched"], &answer["offset"]), (&json!(3), &json!(1), &json!(0)));
    let mut shop = answer["list"][0].clone();
    for time in ["created_ms", "updated_ms"] {
        assert_eq!(shop[time].take(), 1_767_225_600_000_u64);
    }
    let expected = json!({
        "id": "shop", "name": "Shop read", "desc": null, "state": "in_force", "reason": null, "methods": ["GET"],
        "hosts": ["shop.example"], "paths": ["/shop/*"], "service": "catalog", "upstream": null, "plugins": ["count"],
        "labels": {"team": "a"}, "priority": 3, "created_ms": null, "updated_ms": null, "rps": 30.0, "p5xx": 10.0,
        "p99_us": 5_000,
    });
    assert_eq!(shop, expected);
    let all = talk.get("objects/routes");
    assert_eq!(all["facets"]["state"], json!({"in_force": 2, "last_good": 0, "out": 0, "off": 1}));
    assert_eq!(all["facets"]["label"], json!({"team:a": 1}));
    assert_eq!(all["facets"]["service"], json!({"catalog": 1}));
    assert!(!all.to_string().contains("hush"), "no secret");
    let old = talk.get("objects/routes?q=state:off");
    assert_eq!((&old["list"][0]["upstream"], &old["list"][0]["rps"]), (&json!("(here)"), &json!(0.0)));
    assert_eq!(old["list"][0]["p5xx"], Value::Null);
}

#[test]
fn filters_and_orders_choose_the_window() {
    let talk = some_objects();
    for (target, expected) in [
        ("objects/routes", &["old", "pay", "shop"][..]),
        ("objects/routes?q=MONEY", &["pay"]),
        ("objects/routes?q=pay/", &["pay"]),
        ("objects/routes?q=upstream:books", &["pay"]),
        ("objects/routes?q=-plugin:*", &["old", "pay"]),
        ("objects/routes?q=label:team:a", &["shop"]),
        ("objects/routes?q=label:team", &["shop"]),
        ("objects/routes?q=method:POST", &["old", "pay"]),
        ("objects/routes?q=rps:>=10+p99:>1ms", &["shop"]),
        // The clock of the rig stands at the begin of 2026; ages count from the system's.
        ("objects/routes?q=changed:>1d", &["old", "pay", "shop"]),
        ("objects/routes?q=changed:<1h", &[]),
        ("objects/routes?sort=-rps", &["shop", "pay", "old"]),
        ("objects/routes?sort=-p5xx", &["pay", "shop", "old"]),
        ("objects/routes?sort=p99_us", &["shop", "old", "pay"]),
        ("objects/routes?sort=-name", &["shop", "pay", "old"]),
        ("objects/routes?sort=state", &["old", "pay", "shop"]),
        ("objects/routes?sort=-priority&offset=1&limit=1", &["old"]),
        ("objects/routes?offset=9", &[]),
        ("objects/consumers/jack/credentials", &["c1"]),
        ("objects/consumers/jane/credentials", &[]),
        ("objects/upstreams?sort=-used_by", &["books"]),
    ] {
        assert_eq!(talk.ids(target), expected, "{target}");
    }
}

#[test]
fn columns_belong_to_the_kind() {
    let talk = some_objects();
    let upstream = talk.get("objects/upstreams")["list"][0].clone();
    for (column, expected) in [
        ("type", json!("random")),
        ("scheme", json!("http")),
        ("nodes", json!(2)),
        ("down", json!(0)),
        ("used_by", json!(2)),
        // The routes of the service and those with the upstream itself.
        ("rps", json!(40.0)),
        ("p5xx", json!(20.0)),
    ] {
        assert_eq!(upstream[column], expected, "{column}");
    }
    let consumer = talk.get("objects/consumers")["list"][0].clone();
    assert_eq!((&consumer["credentials"], &consumer["rps"]), (&json!(1), &json!(2.0)));
    let service = talk.get("objects/services")["list"][0].clone();
    assert_eq!((&service["routes"], &service["rps"]), (&json!(1), &json!(30.0)));
    let (status, _) = talk.rig.json("GET", "/apisix/admin/weir/objects/secrets", &Value::Null);
    assert_eq!(status, 200);
}

#[test]
fn wrong_questions_are_refused_with_the_place() {
    let talk = Talk::new();
    let check = |target: &str, status: u16, part: &str| {
        let (found, answer) = talk.rig.json("GET", &format!("/apisix/admin/weir/{target}"), &Value::Null);
        assert_eq!(found, status, "{target}: {answer}");
        assert!(answer["error_msg"].as_str().unwrap().contains(part), "{target}: {answer}");
        answer
    };
    let answer = check("objects/routes?q=shop+stats:500", 400, "did you mean `state`?");
    assert_eq!(answer["at"], 5);
    assert!(answer["expected"].as_array().unwrap().contains(&json!("plugin")));
    check("objects/routes?sort=size", 400, "updated_ms");
    check("objects/routes?limit=501", 400, "1 to 500");
    check("objects/routes?offset=-1", 400, "offset");
    check("objects/route", 404, "routes");
    check("objects", 404, "routes");
    check("objects/routes/1", 404, "routes");
    check("search?q=%22", 400, "not closed");
    check("topology?focus=consumers/jack", 400, "upstreams/ID");
    check("usage/routes", 404, "KIND/ID");
    check("upstreams?q=nothing:1", 400, "no field");
}

#[test]
fn states_and_reasons_follow_the_faults() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weir.yaml");
    let good = "routes:\n  - {id: r, uri: /a, upstream: {nodes: {\"127.0.0.1:80\": 1}}}\n#END\n";
    std::fs::write(&path, good).unwrap();
    let rig = crate::testing::Rig::file(&path, false).unwrap();
    let list = || rig.json("GET", "/apisix/admin/weir/objects/routes", &Value::Null).1;
    assert_eq!(list()["list"][0]["state"], "in_force");
    let bad = "routes:\n  - {id: r, uri: /b, upstream_id: nope}\n  - {id: s, uri: 7}\n#END\n";
    std::fs::write(&path, bad).unwrap();
    crate::testing::block_on(rig.reconcile.reload());
    let answer = list();
    assert_eq!(answer["facets"]["state"], json!({"in_force": 0, "last_good": 1, "out": 1, "off": 0}));
    let (kept, out) = (&answer["list"][0], &answer["list"][1]);
    assert_eq!((&kept["state"], &kept["paths"]), (&json!("last_good"), &json!(["/b"])));
    assert_eq!(kept["reason"], "/upstream_id: upstream \"nope\" does not exist");
    assert_eq!((&out["state"], &out["paths"]), (&json!("out"), &json!([])));
    let used =
        rig.json("GET", "/apisix/admin/weir/objects/routes?q=state:out,last_good&sort=state", &Value::Null).1;
    assert_eq!((&used["matched"], &used["list"][0]["id"]), (&json!(2), &json!("s")));
}

#[test]
fn search_ranks_names_before_texts() {
    let talk = some_objects();
    talk.put("routes/catalog-old", json!({"uri": "/x", "upstream_id": "books", "desc": "the shop of old"}));
    let answer = talk.get("search?q=catalog");
    let kinds: Vec<String> = answer["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| format!("{}/{}", found["kind"].as_str().unwrap(), found["id"].as_str().unwrap()))
        .collect();
    assert_eq!(kinds, ["services/catalog", "routes/catalog-old"]);
    let shop = talk.get("search?q=shop&limit=1");
    let expected = json!({
        "list": [{"kind": "routes", "id": "shop", "name": "Shop read", "hint": "GET shop.example/shop/*"}],
        "more": true,
    });
    assert_eq!(shop, expected);
    assert_eq!(talk.get("search?q=c1")["list"][0]["id"], "jack/credentials/c1");
    assert_eq!(talk.get("search"), json!({"list": [], "more": false}));
    assert_eq!(talk.get("search?q=books")["list"][0]["hint"], "random, 2 nodes");
}

#[test]
fn summaries_are_made_once_and_reuse_their_facts() {
    let talk = some_objects();
    let summaries = |id: usize| talk.rig.newest_summaries(model::ObjectKind::Route).1[id].facts.clone();
    let before = talk.rig.newest_summaries(model::ObjectKind::Route).1;
    assert!(Arc::ptr_eq(&before, &talk.rig.newest_summaries(model::ObjectKind::Route).1));
    let (old, pay) = (summaries(0), summaries(1));
    talk.put("routes/pay", json!({"uri": "/paid", "upstream_id": "books"}));
    assert!(Arc::ptr_eq(&old, &summaries(0)) && !Arc::ptr_eq(&pay, &summaries(1)));
    assert_eq!(&*summaries(1).paths[0], "/paid");
}

#[test]
fn list_of_10_000_routes_is_windowed() {
    let talk = Talk::new();
    let routes: Vec<Value> = (0..10_000)
        .map(|number| {
            json!({
                "id": format!("r{number:05}"), "uri": format!("/p/{number}/*"), "host": format!("h{}.example", number % 50),
                "upstream": {"nodes": {"127.0.0.1:80": 1}},
            })
        })
        .collect();
    let (status, answer) = talk.rig.json("POST", "/apisix/admin/weir/apply", &json!({ "routes": routes }));
    assert_eq!(status, 200, "{answer}");
    talk.get("objects/routes?limit=1");
    let answer = talk.get("objects/routes?q=host:h7.example+-99&sort=-name&limit=200");
    assert_eq!((&answer["total"], &answer["matched"]), (&json!(10_000), &json!(198)));
    assert_eq!(answer["list"][0]["id"], "r09857");
}

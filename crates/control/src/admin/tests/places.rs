//! Where objects are used, what surrounds them, the catalogue of plugins, and the list of certificates.

use model::report::Breakdown;
use serde_json::{Value, json};

use super::Talk;
use super::lists::rate;

fn shop() -> Talk {
    let talk = Talk::new();
    talk.put("upstreams/checked", json!({"nodes": {"127.0.0.1:80": 1, "127.0.0.1:81": 1}}));
    talk.put("services/catalog", json!({"upstream_id": "checked", "hosts": ["a.example"]}));
    talk.put("routes/shop", json!({"uri": "/shop", "service_id": "catalog"}));
    talk.put(
        "routes/pay",
        json!({"uri": "/pay", "upstream_id": "checked", "plugins": {"count": {"count": 1}}, "host": "b.a.example"}),
    );
    talk.put("routes/own", json!({"uri": "/own", "upstream": {"nodes": {"127.0.0.1:82": 1}}}));
    talk
}

#[test]
fn usage_names_both_directions_with_places() {
    let talk = shop();
    talk.put("plugin_metadata/count", json!({"size": 1}));
    talk.put("secrets/vault/1", json!({"uri": "http://127.0.0.1:1", "prefix": "kv", "token": "t"}));
    talk.put("consumers/jack", json!({"username": "jack"}));
    talk.put(
        "consumers/jack/credentials/c",
        json!({"plugins": {"auth": {"key": "$secret://vault/1/jack/key"}}}),
    );
    let expected = json!({
        "uses": [],
        "used_by": [
            {"kind": "services", "id": "catalog", "pointer": "/upstream_id"},
            {"kind": "routes", "id": "pay", "pointer": "/upstream_id"},
        ],
        "total": 2,
    });
    assert_eq!(talk.get("usage/upstreams/checked"), expected);
    let expected = json!({
        "uses": [
            {"kind": "upstreams", "id": "checked", "pointer": "/upstream_id"},
            {"kind": "plugin_metadata", "id": "count", "pointer": "/plugins/count"},
        ],
        "used_by": [],
        "total": 0,
    });
    assert_eq!(talk.get("usage/routes/pay"), expected);
    assert_eq!(
        talk.get("usage/plugin_metadata/count")["used_by"],
        json!([{"kind": "routes", "id": "pay", "pointer": "/plugins/count"}])
    );
    let credential = json!({"kind": "consumers", "id": "jack/credentials/c", "pointer": "/plugins/auth/key"});
    assert_eq!(talk.get("usage/secrets/vault/1")["used_by"], json!([credential]));
    let consumer = talk.get("usage/consumers/jack");
    assert_eq!(consumer["used_by"][0]["pointer"], "");
    assert_eq!(talk.get("usage/consumers/jack/credentials/c")["uses"].as_array().unwrap().len(), 2);
    let (status, _) = talk.rig.json("GET", "/apisix/admin/weir/usage/routes/none", &Value::Null);
    assert_eq!(status, 404);
}

#[test]
fn topology_has_four_columns_around_the_focus() {
    let mut talk = shop();
    talk.rig.measure(vec![
        (Breakdown::Routes, rate("shop", 8.0, 0.0, None)),
        (Breakdown::Routes, rate("pay", 2.0, 0.0, None)),
        (Breakdown::Endpoints, rate("127.0.0.1:80", 10.0, 5.0, Some(900))),
    ]);
    let answer = talk.get("topology?focus=upstreams/checked");
    let nodes: Vec<String> = answer["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            let text = |field: &str| node[field].as_str().unwrap().to_owned();
            format!("{}/{} {} {}", text("kind"), text("id"), text("state"), node["rps"])
        })
        .collect();
    let expected = [
        "routes/shop up 8.0",
        "routes/pay up 2.0",
        "services/catalog up 8.0",
        "upstreams/checked up 10.0",
        "endpoints/127.0.0.1:81 down 0.0",
        "endpoints/127.0.0.1:80 up 10.0",
    ];
    assert_eq!(nodes, expected);
    let edges: Vec<String> = answer["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|edge| format!("{}-{} {}", edge["from"], edge["to"], edge["rps"]))
        .collect();
    assert_eq!(edges, ["0-2 8.0", "1-3 2.0", "2-3 8.0", "3-4 0.0", "3-5 10.0"]);
    assert_eq!(answer["folded"], json!({}));
    let folded = talk.get("topology?focus=upstreams/checked&limit=4");
    assert_eq!(folded["nodes"].as_array().unwrap().len(), 4);
    let own = talk.get("topology?focus=routes/own");
    assert_eq!(
        own["nodes"][1],
        json!({
            "kind": "upstreams", "id": "routes/own", "name": "(here)", "state": "unknown", "rps": null, "p5xx": null, "p99_us": null,
        })
    );
    let (status, _) = talk.rig.json("GET", "/apisix/admin/weir/topology?focus=routes/none", &Value::Null);
    assert_eq!(status, 404);
}

#[test]
fn upstreams_show_rates_and_last_failure() {
    let mut talk = shop();
    talk.rig.measure(vec![(Breakdown::Endpoints, rate("127.0.0.1:81", 10.0, 5.0, Some(900)))]);
    let answer = talk.get("upstreams?q=checked&limit=1");
    let node = &answer["list"][0]["nodes"][1];
    assert_eq!((&node["rps"], &node["p5xx"], &node["p99_us"]), (&json!(10.0), &json!(5.0), &json!(900)));
    assert_eq!(node["last_failure"], json!({"cause": "origin_closed", "at_ms": 1_767_225_662_000_u64}));
    assert_eq!(answer["list"][0]["nodes"][0]["last_failure"], Value::Null);
    assert_eq!(talk.get("upstreams?q=type:random"), json!({"total": 0, "list": []}));
    assert_eq!(talk.get("upstreams?q=host:127.0.0.1:8*")["total"], 1);
}

#[test]
fn catalogue_has_places_and_uses_of_plugins() {
    let talk = shop();
    let answer = talk.get("plugins");
    let count = answer["list"].as_array().unwrap().iter().find(|plugin| plugin["name"] == "count").unwrap();
    let expected = json!({
        "name": "count", "summary": "", "group": "extension", "phases": [], "priority": 1002,
        "scopes": ["route", "service", "plugin_config", "global_rule", "consumer_group", "consumer", "stream_route"],
        "cost_ns": null, "live": null, "used_by": 1,
    });
    assert_eq!(*count, expected);
    let one = talk.get("plugins/count");
    assert_eq!((&one["used"], &one["docs"]), (&json!([{"kind": "routes", "id": "pay"}]), &json!("")));
    assert!(talk.get("plugins/auth")["scopes"].as_array().unwrap().contains(&json!("credential")));
    let (status, _) = talk.rig.json("GET", "/apisix/admin/weir/plugins/nothing", &Value::Null);
    assert_eq!(status, 404);
}

#[test]
fn certificates_of_objects_count_their_routes() {
    let talk = shop();
    let (cert, key) = crate::testing::certificate();
    talk.put("ssls/1", json!({"snis": ["a.example", "*.a.example"], "cert": cert, "key": key}));
    let answer = talk.get("certificates");
    // The gateway of this test reports the object as faulty.
    let expected = json!({
        "id": "1", "kind": "ssls", "names": ["a.example", "*.a.example"], "issuer": null, "subject": null,
        "not_before_ms": null, "not_after_ms": null, "key_type": null, "state": "out", "routes": 2,
    });
    assert_eq!(answer, json!({"list": [expected], "total": 1}));
    assert_eq!(talk.get("certificates?q=state:soon,expired")["total"], 0);
    assert_eq!(talk.get("certificates?q=a.exam")["total"], 1);
}

//! A cluster on a real etcd: every instance serves the writes of another instance or of another program, and
//! unusable objects harm no other object. Failures of etcd are in `etcd/faults.rs`.

mod access;
mod conditions;
mod disk;
mod faults;
mod replacing;
mod sealed;
mod versions;

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Etcd, Origin, Weir, WeirBuilder, wait_for, wait_until};

use crate::support::BINARY;

/// An instance of the cluster at those endpoints.
fn node_at(endpoints: &str) -> WeirBuilder {
    Weir::builder(BINARY).arguments(&[
        "--source",
        "etcd",
        "--etcd-endpoints",
        endpoints,
        "--etcd-timeout-ms",
        "2000",
    ])
}

fn node(etcd: &Etcd) -> Weir {
    node_at(&etcd.endpoints()).start()
}

/// A route for `/ID` to `origin`.
fn route(id: &str, origin: &Origin) -> Value {
    json!({"uri": format!("/{id}"), "upstream": {"nodes": {origin.address().to_string(): 1}}})
}

/// Waits until an instance answers `GET path` with `status`.
fn serves(node: &Weir, path: &str, status: u16) {
    wait_until(&format!("{path} is answered {status}"), || node.get(path).status == status);
}

/// The state of etcd in the status of an instance.
fn etcd_status(node: &Weir) -> Value {
    node.admin("GET", "weir/status", Value::Null).1["etcd"].clone()
}

fn wait_for_state(node: &Weir, state: &str) -> Value {
    wait_for(&format!("etcd is {state}"), || {
        let status = etcd_status(node);
        (status["state"] == state).then_some(status)
    })
}

/// Keys and values of a collection, as the instance has them.
fn listed(node: &Weir, collection: &str) -> Vec<(Value, Value)> {
    let (_, answer) = node.admin("GET", collection, Value::Null);
    let entries = answer["list"].as_array().unwrap_or_else(|| panic!("{answer}"));
    entries.iter().map(|entry| (entry["key"].clone(), entry["value"].clone())).collect()
}

#[test]
fn write_of_one_instance_is_served_by_another() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let (one, other) = (node(&etcd), node(&etcd));
    one.put("routes/a", route("a", &origin));
    // The write is in force on the instance that took it when it answers.
    assert_eq!(one.get("/a").text(), "served");
    serves(&other, "/a", 200);
    assert_eq!(etcd.keys("/apisix/routes"), ["/apisix/routes/a"]);

    let (status, made) = other.admin("POST", "routes", route("b", &origin));
    assert_eq!(status, 201, "{made}");
    let key = made["key"].as_str().unwrap();
    assert_eq!(key.rsplit('/').next().unwrap().len(), 20, "{key}");
    serves(&one, "/b", 200);

    let (status, patched) = one.admin("PATCH", "routes/a", json!({"desc": "patched"}));
    assert_eq!((status, &patched["value"]["desc"]), (200, &json!("patched")));
    wait_until("the patch is everywhere", || {
        other.admin("GET", "routes/a", Value::Null).1["value"]["desc"] == "patched"
    });
    let (_, seen_by_one) = one.admin("GET", "routes/a", Value::Null);
    let (_, seen_by_other) = other.admin("GET", "routes/a", Value::Null);
    assert_eq!(seen_by_one, seen_by_other, "indexes too");

    let (status, refusal) = other.admin("DELETE", "routes/none", Value::Null);
    assert_eq!((status, refusal), (404, json!({"message": "Key not found"})));
    other.delete("routes/a");
    serves(&one, "/a", 404);
    assert_eq!(etcd.keys("/apisix/routes").len(), 1);
}

#[test]
fn an_apisix_prefix_is_read_as_it_is() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let nodes = json!({origin.address().to_string(): 1});
    for kind in ["routes", "upstreams", "services", "plugin_configs", "consumers", "ssls", "secrets"] {
        etcd.put(&format!("/apisix/{kind}/"), "init_dir");
    }
    etcd.put("/apisix/plugins", r#"[{"name":"cors"}]"#);
    etcd.put("/apisix/data_plane/server_info/x", "{}");
    etcd.put("/apisix/upstreams/1", &json!({"id": "1", "nodes": nodes, "type": "roundrobin"}).to_string());
    etcd.put(
        "/apisix/routes/1",
        &json!({"id": "1", "uri": "/a", "upstream_id": "1", "priority": 0, "status": 1, "create_time": 1,
                "update_time": 2, "plugins": {"key-auth": {}}})
        .to_string(),
    );
    etcd.put("/apisix/consumers/jack", &json!({"username": "jack"}).to_string());
    etcd.put(
        "/apisix/consumers/jack/credentials/c1",
        &json!({"id": "c1", "plugins": {"key-auth": {"key": "jacks-key"}}}).to_string(),
    );
    let node = node(&etcd);
    assert_eq!(node.get("/a").status, 401);
    assert_eq!(node.client().request("GET", "/a", &[("apikey", "jacks-key")], b"").status, 200);
    let (_, status) = node.admin("GET", "weir/status", Value::Null);
    assert_eq!(status["faults"], json!([]));
    // Another program goes on writing there.
    let metrics = testkit::Client::connect(node.address("metrics")).get("/apisix/prometheus/metrics").text();
    assert!(metrics.contains("apisix_etcd_reachable 1\n"), "{metrics}");
    assert!(metrics.contains(&format!("{{key=\"x_etcd_index\"}} {}\n", etcd.revision())), "{metrics}");
    etcd.put("/apisix/routes/2", &json!({"id": "2", "uri": "/b", "upstream_id": "1"}).to_string());
    serves(&node, "/b", 200);
    etcd.ctl(&["del", "/apisix/routes/2"]);
    serves(&node, "/b", 404);
}

#[test]
fn unusable_keys_are_reported_and_harm_none() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let node = node(&etcd);
    node.put("routes/good", route("good", &origin));
    etcd.put("/apisix/routes/good", "no JSON at all");
    etcd.put("/apisix/routes/bad", r#"{"uri": "/bad", "colour": 1}"#);
    etcd.put("/apisix/colours/1", "{}");
    etcd.put("/apisix/routes/next", &route("next", &origin).to_string());
    serves(&node, "/next", 200);
    assert_eq!(node.get("/good").status, 200, "in its last good form");
    assert_eq!(node.get("/bad").status, 503, "it has no good form, and keeps its place");
    let faults = node.admin("GET", "weir/status", Value::Null).1["faults"].to_string();
    for part in ["/routes/good", "not JSON", "/routes/bad", "colour", "colours/1 is skipped"] {
        assert!(faults.contains(part), "{part} in {faults}");
    }
    // One object is corrected, and one unusable key deleted.
    etcd.put("/apisix/routes/good", &route("better", &origin).to_string());
    etcd.put("/apisix/routes/bad", &route("bad", &origin).to_string());
    etcd.ctl(&["del", "/apisix/colours/1"]);
    serves(&node, "/better", 200);
    serves(&node, "/bad", 200);
    wait_until("no fault is left", || node.admin("GET", "weir/status", Value::Null).1["faults"] == json!([]));
}

#[test]
fn no_change_of_two_writers_at_once_is_lost() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let nodes = [node(&etcd), node(&etcd)];
    nodes[0].put("routes/shared", route("shared", &origin));
    wait_until("both know it", || nodes[1].admin("GET", "routes/shared", Value::Null).0 == 200);
    std::thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            scope.spawn(move || {
                for count in 0..CHANGES {
                    let label = format!("w{number}c{count}");
                    // A conflict that the instance cannot resolve is answered 503, and the client repeats the
                    // write.
                    wait_until("the change is taken", || {
                        let (status, answer) =
                            node.admin("PATCH", "routes/shared", json!({"labels": {&label: "x"}}));
                        assert!(matches!(status, 200 | 503), "{status} {answer}");
                        status == 200
                    });
                }
            });
        }
    });
    let stored: Value = serde_json::from_str(&etcd.get("/apisix/routes/shared")).unwrap();
    assert_eq!(stored["labels"].as_object().unwrap().len(), 2 * CHANGES);
    wait_until("both have the same", || listed(&nodes[0], "routes") == listed(&nodes[1], "routes"));
}

#[test]
fn many_writes_at_once_are_all_there() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let (one, other) = (node(&etcd), node(&etcd));
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (one, origin) = (&one, &origin);
            scope.spawn(move || {
                for number in 0..20 {
                    one.put(
                        &format!("routes/w{writer}n{number}"),
                        route(&format!("w{writer}n{number}"), origin),
                    );
                }
            });
        }
    });
    assert_eq!(etcd.keys("/apisix/routes/").len(), 160);
    wait_until("the other node has them", || listed(&other, "routes").len() == 160);
    assert_eq!(listed(&one, "routes"), listed(&other, "routes"));
}

#[test]
fn concurrent_writes_of_one_object_keep_each_other() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let (one, other) = (node(&etcd), node(&etcd));
    one.put("routes/shared", route("shared", &origin));
    std::thread::scope(|scope| {
        for writer in 0..6 {
            // Writes of one instance queue up; the other instance writes between them.
            let node = if writer % 3 == 0 { &other } else { &one };
            scope.spawn(move || {
                for count in 0..CHANGES / 3 {
                    let label = format!("w{writer}c{count}");
                    wait_until("the change is taken", || {
                        node.admin("PATCH", "routes/shared", json!({"labels": {&label: "x"}})).0 == 200
                    });
                }
            });
        }
    });
    let stored: Value = serde_json::from_str(&etcd.get("/apisix/routes/shared")).unwrap();
    assert_eq!(stored["labels"].as_object().unwrap().len(), 6 * (CHANGES / 3));
}

#[test]
fn objects_with_a_time_to_live_end_everywhere() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let (one, other) = (node(&etcd), node(&etcd));
    one.put("routes/brief?ttl=60", route("brief", &origin));
    assert_eq!(one.get("/brief").status, 200);
    serves(&other, "/brief", 200);
    let leases = etcd.ctl(&["lease", "list"]);
    let lease = leases.lines().last().unwrap();
    let output = etcd.ctl(&["lease", "timetolive", lease, "--keys"]);
    assert!(output.contains("granted with TTL(60s)") && output.contains("/apisix/routes/brief"), "{output}");
    // As etcd does at the end of the lease, without the wait.
    etcd.ctl(&["lease", "revoke", lease]);
    serves(&one, "/brief", 404);
    serves(&other, "/brief", 404);
}

#[test]
fn the_rules_of_the_admin_api_hold() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let node = node(&etcd);
    node.put("upstreams/u", json!({"nodes": {origin.address().to_string(): 1}}));
    node.put("routes/r", json!({"uri": "/r", "upstream_id": "u"}));
    let (status, refusal) = node.admin("DELETE", "upstreams/u", Value::Null);
    assert_eq!(status, 400);
    assert_eq!(refusal["error_msg"], "can not delete this upstream, route [r] is still using it now");
    node.put("consumers", json!({"username": "jack"}));
    node.put("consumers/jack/credentials/c", json!({"plugins": {"key-auth": {"key": "a-key-of-jacks"}}}));
    node.delete("consumers/jack");
    assert_eq!(etcd.keys("/apisix/consumers"), [""; 0]);
    // Each response has the revision that etcd gave the write.
    let response = node.admin_raw(
        "PUT",
        "routes/r",
        &[("X-API-KEY", ADMIN_KEY)],
        json!({"uri": "/r", "upstream_id": "u"}).to_string().as_bytes(),
    );
    assert_eq!(response.status, 200);
    assert_eq!(response.header("x-weir-revision"), Some(etcd.revision().to_string().as_str()));
}

/// Changes by each of two writers to the same object.
const CHANGES: usize = 30;

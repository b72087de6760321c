//! Changes of the configuration: what they keep of the verdicts, and where checks begin and end.

use serde_json::json;
use testkit::{Origin, Weir, wait_until};

use super::{Checked, answers, extend, gateway, nodes, quick, set, upstream, wait_for_states};
use crate::support::BINARY;

#[test]
fn unrelated_change_keeps_the_verdict() {
    let (a, b) = (Checked::start("a"), Checked::start("b"));
    let weir = gateway(&[]);
    // Down nodes are asked once a day, so that only a kept verdict explains what is seen behind the change.
    let rarely = json!({"unhealthy": {"interval": 86_400, "http_failures": 1}});
    let mut written = upstream(&[a.address(), b.address()], quick(rarely));
    weir.put("upstreams/1", written.clone());
    a.set(500);
    wait_for_states(&weir, "1", &["unhealthy", "usable"]);
    a.set(200);
    let before = nodes(&weir, "1")[0].clone();
    for more in [json!({"timeout": {"connect": 1, "send": 1, "read": 1}}), json!({"type": "least_conn"})] {
        extend(&mut written, more);
        weir.put("upstreams/1", written.clone());
        assert_eq!(nodes(&weir, "1")[0], before);
    }
    extend(&mut written, json!({"checks": quick(json!({"http_path": "/up?again"}))}));
    weir.put("upstreams/1", written.clone());
    wait_for_states(&weir, "1", &["usable", "usable"]);
}

#[test]
fn checks_end_when_they_are_removed() {
    let (a, b) = (Checked::start("a"), Checked::start("b"));
    let weir = gateway(&[]);
    let mut written = upstream(&[a.address(), b.address()], quick(json!({})));
    weir.put("upstreams/1", written.clone());
    a.set(500);
    wait_for_states(&weir, "1", &["unhealthy", "usable"]);
    written.as_object_mut().unwrap().remove("checks");
    weir.put("upstreams/1", written);
    wait_for_states(&weir, "1", &["usable", "usable"]);
    assert_eq!(nodes(&weir, "1")[0].get("health"), None);
}

#[test]
fn node_that_comes_or_leaves_is_followed() {
    let (a, b) = (Checked::start("a"), Checked::start("b"));
    let weir = gateway(&[]);
    a.set(500);
    weir.put("upstreams/1", upstream(&[a.address()], quick(json!({}))));
    wait_for_states(&weir, "1", &["unhealthy"]);
    weir.put("upstreams/1", upstream(&[b.address()], quick(json!({}))));
    b.origin.wait_for_requests(1);
    let asked = a.origin.requests().len();
    b.origin.wait_for_requests(3);
    assert!(a.origin.requests().len() <= asked + 1, "a node that left is asked no more");
}

#[test]
fn node_that_left_is_forgotten_by_all_workers() {
    let (a, b) = (Checked::start("a"), Checked::start("b"));
    let weir = gateway(&[]);
    // Down nodes are asked once a day, so that no check brings the node up again.
    let checks = quick(json!({"unhealthy": {"interval": 86_400, "http_failures": 1}}));
    set(&weir, upstream(&[a.address(), b.address()], checks.clone()));
    // Workers that served requests hold the set with the node for as long as they are idle.
    assert_eq!(answers(&weir), ["a", "b"]);
    a.set(500);
    wait_for_states(&weir, "1", &["unhealthy", "usable"]);
    weir.put("upstreams/1", upstream(&[b.address()], checks));
    let mut unchecked = upstream(&[b.address()], json!({}));
    unchecked.as_object_mut().unwrap().remove("checks");
    weir.put("upstreams/1", unchecked.clone());
    let both = upstream(&[a.address(), b.address()], json!({}));
    extend(&mut unchecked, json!({"nodes": both["nodes"]}));
    weir.put("upstreams/1", unchecked);
    wait_for_states(&weir, "1", &["usable", "usable"]);
    assert_eq!(answers(&weir), ["a", "b"]);
}

#[test]
fn upstreams_are_checked_wherever_they_are_written() {
    let origins: [Origin; 2] = std::array::from_fn(|_| Origin::answering("ok"));
    let weir = gateway(&[]);
    let of = |index: usize| upstream(&[origins[index].address()], quick(json!({})));
    weir.put("services/s", json!({"upstream": of(0)}));
    weir.put("routes/r", json!({"uri": "/r", "upstream": of(1)}));
    for origin in &origins {
        wait_until("the node was asked", || !origin.requests().is_empty());
    }
    weir.delete("routes/r");
    weir.delete("services/s");
    let asked = origins[0].requests().len();
    weir.put("upstreams/1", of(1));
    origins[1].wait_for_requests(origins[1].requests().len() + 3);
    assert!(origins[0].requests().len() <= asked + 1, "an upstream that is gone is checked no more");
}

#[test]
fn nodes_of_a_registry_are_checked() {
    let (bad, good) = (Checked::start("bad"), Checked::start("good"));
    bad.set(500);
    let folder = tempfile::tempdir().unwrap();
    let write = |targets: &str| {
        std::fs::write(folder.path().join("shop.yaml"), format!("- targets: [{targets}]\n")).unwrap();
    };
    write(&format!("'{}'", good.address()));
    let settings =
        format!("discovery: {{file: {{files: ['{}'], interval_ms: 20}}}}\n", folder.path().display());
    let weir = Weir::builder(BINARY).settings(&settings).start();
    let written = json!({"discovery_type": "file", "service_name": "shop", "checks": quick(json!({}))});
    weir.put("upstreams/1", written);
    good.origin.wait_for_requests(1);
    wait_for_states(&weir, "1", &["usable"]);
    write(&format!("'{}', '{}'", good.address(), bad.address()));
    wait_until("the new node is found down", || {
        let states: Vec<_> = nodes(&weir, "1").iter().map(|node| node["state"].clone()).collect();
        states.len() == 2 && states.contains(&json!("unhealthy")) && states.contains(&json!("usable"))
    });
}

#[test]
fn setting_switches_all_checks_off() {
    let origin = Checked::start("a");
    let weir = gateway(&["--upstream-health-checks=false"]);
    weir.put("upstreams/1", upstream(&[origin.address(), Origin::nowhere()], quick(json!({}))));
    let seen = nodes(&weir, "1");
    assert_eq!(
        seen.iter().map(|node| node["state"].as_str().unwrap()).collect::<Vec<_>>(),
        ["usable", "usable"]
    );
    assert!(seen.iter().all(|node| node.get("health").is_none()), "nothing checks them: {seen:?}");
}

//! Plans, revisions and rollbacks with etcd: a file is applied in one step everywhere, any instance reports
//! the changes, and rollbacks use the history of etcd.

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Etcd, Origin, Weir};

use super::{listed, node, node_at, route, serves};
use crate::command::{Outcome, weir as run_in};

fn run(node: &Weir, arguments: &[&str]) -> Outcome {
    let admin = node.address("admin").to_string();
    let arguments = [arguments, &["--admin", &admin]].concat();
    run_in(node.directory(), &arguments, &[("WEIR_ADMIN_KEY", ADMIN_KEY), ("USER", "ann")])
}

fn write_file(node: &Weir, objects: &Value) {
    std::fs::write(node.directory().join("set.json"), objects.to_string()).unwrap();
}

fn with_id(id: &str, origin: &Origin) -> Value {
    let mut route = route(id, origin);
    route["id"] = id.into();
    route
}

#[test]
fn applied_file_can_be_rolled_back_by_any_instance() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let (one, other) = (node(&etcd), node(&etcd));
    one.put("routes/kept", route("kept", &origin));
    one.put("routes/gone", route("gone", &origin));
    let before = etcd.revision();
    write_file(
        &one,
        &json!({"routes": [with_id("kept", &origin), with_id("a", &origin), with_id("b", &origin)]}),
    );
    let planned = run(&one, &["plan", "set.json"]);
    assert!(planned.stdout.contains("+ routes/a") && planned.stdout.contains("- routes/gone"), "{planned:?}");
    assert_eq!(etcd.revision(), before, "a plan changes nothing");

    let applied = run(&one, &["apply", "set.json"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(etcd.revision(), before + 1, "one step");
    assert_eq!(one.get("/a").status, 200);
    serves(&other, "/b", 200);
    serves(&other, "/gone", 404);

    // Another program writes without an author's note.
    etcd.ctl(&["del", "/apisix/routes/b"]);
    serves(&other, "/b", 404);
    let (status, history) = other.admin("GET", "weir/versions", Value::Null);
    assert_eq!(status, 200, "{history}");
    let versions = history["versions"].as_array().unwrap();
    let entries: Vec<(u64, &str, u64)> = versions
        .iter()
        .map(|version| {
            let number = |name: &str| version[name].as_u64().unwrap();
            (number("version"), version["source"].as_str().unwrap(), number("objects"))
        })
        .collect();
    assert_eq!(entries, [(before + 1, "apply", 3), (before, "admin", 1), (before - 1, "admin", 1)]);
    assert!(versions[0]["by"].as_str().unwrap().starts_with("ann ("), "{history}");
    assert_eq!(history["oldest"].as_u64(), Some(before - 1));
    let (_, version) = other.admin("GET", &format!("weir/versions/{}", before + 1), Value::Null);
    assert_eq!(version["changes"].as_array().unwrap().len(), 3, "{version}");

    let back = run(&other, &["rollback", &before.to_string()]);
    assert_eq!(back.code, 0, "{back:?}");
    assert_eq!(other.get("/gone").status, 200);
    serves(&one, "/gone", 200);
    serves(&one, "/a", 404);
    assert_eq!(listed(&one, "routes").len(), 2);
    // A rollback is a revision, so that it can be rolled back too.
    let forth = run(&one, &["rollback", &(before + 1).to_string()]);
    assert_eq!(forth.code, 0, "{forth:?}");
    assert_eq!((one.get("/a").status, one.get("/b").status, one.get("/gone").status), (200, 200, 404));
}

#[test]
fn rollback_to_a_compacted_revision_is_refused() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let node = node(&etcd);
    node.put("routes/a", route("a", &origin));
    let first = etcd.revision();
    node.put("routes/b", route("b", &origin));
    etcd.ctl(&["compact", &etcd.revision().to_string()]);
    let (status, refusal) = node.admin("POST", &format!("weir/rollback?to={first}"), Value::Null);
    assert_eq!((status, &refusal["oldest"]), (404, &json!(first + 1)), "{refusal}");
    assert_eq!(node.get("/b").status, 200);
}

#[test]
fn overtaken_or_large_apply_changes_nothing() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("served"));
    let node = node_at(&etcd.endpoints()).arguments(&["--etcd-max-operations", "3"]).start();
    node.put("routes/a", route("a", &origin));
    let before = etcd.revision();
    let set = |ids: &[&str]| json!({"routes": ids.iter().map(|id| with_id(id, &origin)).collect::<Vec<_>>()});
    let (status, refusal) = node.admin("POST", "weir/apply", set(&["a", "b", "c", "d"]));
    assert_eq!(status, 400, "{refusal}");
    let said = refusal["error_msg"].as_str().unwrap();
    assert!(said.contains("3 objects differ, and etcd takes 2 in one step"), "{said}");
    let (status, refusal) =
        node.admin("POST", &format!("weir/apply?expect={}", before - 1), set(&["a", "b"]));
    assert_eq!(status, 409, "{refusal}");
    let mut faulty = set(&["a", "b"]);
    faulty["routes"][1]["colour"] = 1.into();
    let (status, refusal) = node.admin("POST", "weir/apply", faulty);
    assert_eq!(status, 400, "{refusal}");
    assert_eq!(etcd.revision(), before);
    let (status, done) = node.admin("POST", &format!("weir/apply?expect={before}"), set(&["a", "b"]));
    assert_eq!((status, &done["revision"]), (200, &json!(before + 1)), "{done}");
    let (status, refusal) = node.admin("PUT", "configs", json!({}));
    assert!(matches!(status, 400 | 405), "{refusal}");
}

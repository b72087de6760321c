//! Revisions: those of one object, pages of one revision, objects as they were, the difference of two, and
//! deletions in sets.

use serde_json::{Value, json};

use super::Talk;
use crate::testing::{ask, block_on};

fn route(uri: &str) -> Value {
    json!({"uri": uri, "upstream": {"nodes": {"127.0.0.1:1": 1}}})
}

fn put(talk: &Talk, author: &str, target: &str, body: &Value) {
    let fields = [("X-API-KEY", "boss"), ("X-Weir-Author", author)];
    let target = format!("/apisix/admin/{target}");
    let (status, _, answer) = block_on(ask(&talk.rig.admin, "PUT", &target, &fields, &body.to_string()));
    assert!(status < 300, "{target}: {answer}");
    talk.rig.clock.advance(1000);
}

fn get(talk: &Talk, target: &str) -> Value {
    let (status, answer) = talk.rig.json("GET", &format!("/apisix/admin/weir/{target}"), &Value::Null);
    assert_eq!(status, 200, "{target}: {answer}");
    answer
}

/// Four revisions: `routes/a` by ana, `routes/b` by ben, `routes/a` by ben, and a consumer with a secret by
/// ana.
fn filled() -> Talk {
    let talk = Talk::new();
    put(&talk, "ana", "routes/a", &route("/a"));
    put(&talk, "ben", "routes/b", &route("/b"));
    put(&talk, "ben", "routes/a", &route("/c"));
    put(&talk, "Ana", "consumers", &json!({"username": "jack", "plugins": {"auth": {"key": "s3cr3t"}}}));
    talk
}

#[test]
fn revisions_are_filtered() {
    let talk = filled();
    let check = |arguments: &str, expected: &[u64]| {
        let found = get(&talk, &format!("versions?{arguments}"));
        let found: Vec<u64> = found["versions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["version"].as_u64().unwrap())
            .collect();
        assert_eq!(found, expected, "{arguments}");
    };
    check("", &[4, 3, 2, 1]);
    check("key=routes/a", &[3, 1]);
    check("key=/routes/a", &[3, 1]);
    check("key=consumers/jack", &[4]);
    check("key=routes/none", &[]);
    check("by=ana", &[4, 1]);
    check("by=BEN&key=routes/a", &[3]);
    check("since=1767225602000", &[4, 3]);
    check("by=ana&limit=1", &[4]);
    check("by=ana&before=4", &[1]);
    for arguments in ["key=x", "key=routes", "since=today", "limit=0"] {
        let target = format!("/apisix/admin/weir/versions?{arguments}");
        assert_eq!(talk.rig.json("GET", &target, &Value::Null).0, 400, "{arguments}");
    }
}

#[test]
fn changes_of_a_revision_are_paged() {
    let talk = Talk::new();
    let routes: Vec<Value> = (0..5)
        .map(|number| {
            let mut route = route("/x");
            route["id"] = json!(format!("r{number}"));
            route
        })
        .collect();
    talk.rig.json("POST", "/apisix/admin/weir/apply", &json!({"routes": routes}));
    let keys = |target: &str| -> Vec<String> {
        let found = get(&talk, target);
        assert_eq!(found["total"], 5, "{found}");
        let changes = found["changes"].as_array().unwrap();
        changes.iter().map(|change| change["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys("versions/1").len(), 5);
    assert_eq!(keys("versions/1?offset=1&limit=2"), ["routes/r1", "routes/r2"]);
    assert_eq!(keys("versions/1?offset=4&limit=2"), ["routes/r4"]);
    assert!(keys("versions/1?offset=9").is_empty());
    assert_eq!(talk.rig.json("GET", "/apisix/admin/weir/versions/1?limit=1001", &Value::Null).0, 400);
}

#[test]
fn object_is_shown_as_it_was() {
    let talk = filled();
    let check = |version: u64, key: &str, pointer: &str, expected: Value| {
        let found = get(&talk, &format!("versions/{version}/objects/{key}"));
        assert_eq!((&found["version"], &found["key"]), (&json!(version), &json!(key)));
        assert_eq!(found["value"].pointer(pointer).cloned().unwrap_or_default(), expected, "{version} {key}");
    };
    check(1, "routes/a", "/uri", json!("/a"));
    check(2, "routes/a", "/uri", json!("/a"));
    check(3, "routes/a", "/uri", json!("/c"));
    check(1, "routes/b", "", Value::Null);
    check(4, "consumers/jack", "/plugins/auth/key", json!("(hidden)"));
    check(3, "consumers/jack/credentials/c", "", Value::Null);
    for (target, status) in [
        ("versions/9/objects/routes/a", 404),
        ("versions/x/objects/routes/a", 400),
        ("versions/1/objects/routes", 404),
        ("versions/1/objects/nothing/a", 404),
        ("versions/1/objects/routes/a/uri", 404),
        ("versions/1/routes/a", 404),
    ] {
        let (found, answer) = talk.rig.json("GET", &format!("/apisix/admin/weir/{target}"), &Value::Null);
        assert_eq!(found, status, "{target}: {answer}");
    }
}

#[test]
fn two_revisions_are_compared() {
    let talk = filled();
    let plan = |arguments: &str| {
        talk.rig.json("POST", &format!("/apisix/admin/weir/plan?{arguments}"), &Value::Null)
    };
    let (status, found) = plan("from=1&to=4");
    assert_eq!((status, &found["revision"]), (200, &json!(1)));
    assert_eq!((&found["create"], &found["change"], &found["delete"]), (&json!(2), &json!(1), &json!(0)));
    assert!(!found.to_string().contains("s3cr3t"), "{found}");
    let (_, back) = plan("from=4&to=1");
    assert_eq!((&back["create"], &back["change"], &back["delete"]), (&json!(0), &json!(1), &json!(2)));
    assert_eq!(plan("from=4&to=4").1["objects"], json!([]));
    let (status, answer) = plan("from=1&to=9");
    assert_eq!((status, &answer["oldest"]), (404, &json!(0)));
    assert_eq!(plan("from=1").0, 400);
}

#[test]
fn set_deletes_objects_by_name() {
    let talk = filled();
    let post = |command: &str, body: &Value| {
        talk.rig.json("POST", &format!("/apisix/admin/weir/{command}?keep_others=true"), body)
    };
    let set = json!({"routes": [{"id": "c", "uri": "/c", "upstream": {"nodes": {"127.0.0.1:1": 1}}}],
        "delete": ["routes/a", "/consumers/jack", "routes/none"]});
    let (status, plan) = post("plan", &set);
    assert_eq!((status, &plan["create"], &plan["delete"]), (200, &json!(1), &json!(2)), "{plan}");
    talk.rig.json(
        "PUT",
        "/apisix/admin/consumers/jack/credentials/c",
        &json!({"plugins": {"auth": {"key": "k"}}}),
    );
    let (status, applied) = post("apply", &set);
    let keys: Vec<&str> =
        applied["objects"].as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
    let expected = ["consumers/jack", "consumers/jack/credentials/c", "routes/a", "routes/c"];
    assert_eq!((status, keys.as_slice()), (200, expected.as_slice()));
    assert_eq!(talk.rig.json("GET", "/apisix/admin/routes", &Value::Null).1["total"], 2);
}

#[test]
fn deletion_that_breaks_another_object_is_refused() {
    let talk = Talk::new();
    put(&talk, "ana", "upstreams/u", &json!({"nodes": {"127.0.0.1:1": 1}}));
    put(&talk, "ana", "routes/a", &json!({"uri": "/a", "upstream_id": "u"}));
    let post =
        |target: &str, body: Value| talk.rig.json("POST", &format!("/apisix/admin/weir/{target}"), &body);
    let (status, answer) = post("apply?keep_others=true", json!({"delete": ["upstreams/u"]}));
    assert_eq!((status, &answer["faults"][0]["key"]), (400, &json!("/routes/a")), "{answer}");
    let check = |target: &str, body: Value, place: &str| {
        let (status, answer) = post(target, body);
        assert_eq!((status, &answer["faults"][0]["place"]), (400, &json!(place)), "{answer}");
    };
    check("apply", json!({"delete": ["upstreams/u"]}), "delete");
    check("plan?keep_others=true", json!({"delete": "upstreams/u"}), "delete");
    check("plan?keep_others=true", json!({"delete": ["upstreams/u", "nothing/x"]}), "delete[1]");
    let both = json!({"delete": ["upstreams/u"], "upstreams": [{"id": "u", "nodes": {"127.0.0.1:2": 1}}]});
    check("plan?keep_others=true", both, "delete[0]");
    assert_eq!(post("apply?keep_others=true", json!({"delete": ["upstreams/u", "routes/a"]})).0, 200);
}

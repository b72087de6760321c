//! Plan, apply, history and rollback.

use serde_json::{Value, json};

use crate::testing::{Rig, block_on};

struct Talk {
    rig: Rig,
    directory: tempfile::TempDir,
}

impl Talk {
    fn new() -> Talk {
        let directory = tempfile::tempdir().unwrap();
        Talk { rig: Rig::store(directory.path()), directory }
    }

    fn ask(&self, method: &str, target: &str, body: &str) -> (u16, Value) {
        let (status, answer) = self.rig.ask(method, &format!("/apisix/admin/weir/{target}"), body);
        (status, serde_json::from_str(&answer).unwrap_or_default())
    }

    /// Compares the planned changes: `+routes/a` creates, `~` changes, `-` deletes.
    #[track_caller]
    fn check(&self, target: &str, body: &str, expected: &[&str]) -> Value {
        let (status, answer) = self.ask("POST", target, body);
        assert_eq!(status, 200, "{target}: {answer}");
        assert_eq!(marks(&answer["objects"]), expected, "{target}: {answer}");
        answer
    }

    #[track_caller]
    fn refused(&self, target: &str, body: &str, status: u16, part: &str) {
        let before = self.rig.view.load().revision();
        let (found, answer) = self.ask("POST", target, body);
        assert!(found == status && answer.to_string().contains(part), "{target}: {found} {answer}");
        assert_eq!(self.rig.view.load().revision(), before, "nothing was changed");
    }

    fn put(&self, target: &str, body: &Value) {
        let (status, answer) = self.rig.json("PUT", &format!("/apisix/admin/{target}"), body);
        assert!(status < 300, "{target}: {status} {answer}");
    }

    fn uri(&self, id: &str) -> Value {
        self.rig.json("GET", &format!("/apisix/admin/routes/{id}"), &Value::Null).1["value"]["uri"].clone()
    }
}

fn marks(objects: &Value) -> Vec<String> {
    let mark = |object: &Value| {
        let sign = match object["action"].as_str().unwrap() {
            "create" => '+',
            "change" => '~',
            "delete" => '-',
            other => panic!("{other}"),
        };
        format!("{sign}{}", object["key"].as_str().unwrap())
    };
    objects.as_array().unwrap().iter().map(mark).collect()
}

fn route(uri: &str) -> Value {
    json!({"uri": uri, "upstream": {"nodes": {"h:1": 1}, "type": "roundrobin"}})
}

const FILE: &str = "routes:\n- {id: a, uri: /a, upstream: {nodes: {\"h:1\": 1}, type: roundrobin}}\n\
                    - {id: b, uri: /b, upstream: {nodes: {\"h:1\": 1}, type: roundrobin}}\n";

#[test]
fn apply_makes_the_planned_changes() {
    let talk = Talk::new();
    talk.put("routes/a", &route("/a"));
    talk.put("routes/gone", &route("/gone"));
    let changed = FILE.replace("uri: /b", "uri: /bb");
    let plan = talk.check("plan", &changed, &["+routes/b", "-routes/gone"]);
    assert_eq!((&plan["revision"], &plan["create"], &plan["delete"]), (&json!(2), &json!(1), &json!(1)));
    assert_eq!(talk.rig.view.load().revision(), 2);
    talk.check("plan?keep_others=true", &changed, &["+routes/b"]);
    let done = talk.check("apply?expect=2", &changed, &["+routes/b", "-routes/gone"]);
    assert_eq!((&done["revision"], &done["before"]), (&json!(3), &json!(2)));
    let published = talk.rig.published.0.lock().last().unwrap().clone();
    assert_eq!(published, (3, vec!["/routes/b".to_owned(), "/routes/gone".to_owned()]), "all in one");
    talk.check("plan", &changed, &[]);
    let again = talk.check("apply", &changed, &[]);
    assert_eq!(
        (&again["revision"], &again["before"]),
        (&json!(3), &json!(3)),
        "nothing to do makes no version"
    );
    let (_, stored) = talk.rig.json("GET", "/apisix/admin/routes/b", &Value::Null);
    assert_eq!(stored["value"]["create_time"], 1_767_225_600, "written as any other write");
    let plan = talk.check("plan", FILE, &["~routes/b"]);
    assert_eq!(plan["objects"][0]["fields"], json!([{"pointer": "/uri", "before": "/bb", "after": "/b"}]));
    talk.check("apply?keep_others=true", "upstreams: [{id: u, nodes: {\"h:1\": 1}}]", &["+upstreams/u"]);
}

#[test]
fn outdated_plan_is_refused() {
    let talk = Talk::new();
    talk.put("routes/a", &route("/a"));
    talk.refused("apply?expect=0", FILE, 409, "the configuration is at revision 1, not at 0");
    talk.check("apply?expect=1", FILE, &["+routes/b"]);
    talk.refused("rollback?to=1&expect=1", "", 409, "at revision 2");
}

#[test]
fn set_with_a_fault_changes_nothing() {
    let talk = Talk::new();
    talk.put("upstreams/u", &json!({"nodes": {"h:1": 1}}));
    talk.put("routes/uses", &json!({"uri": "/u", "upstream_id": "u"}));
    for target in ["plan", "apply"] {
        let dangling = format!("{FILE}- {{id: c, uri: /c, upstream_id: none}}\n");
        talk.refused(target, &dangling, 400, r#""line":4"#);
        talk.refused(target, &dangling, 400, r#""place":"routes[2].upstream_id""#);
        talk.refused(target, &FILE.replace("uri: /a", "uri: 5"), 400, r#""place":"routes[0].uri""#);
        talk.refused(target, &format!("{FILE}things: []\n"), 400, "no kind of object");
        talk.refused(target, "routes: [", 400, r#""line":1"#);
        talk.refused(target, "  \n", 400, "is empty; for no objects, write {}");
        talk.refused(&format!("{target}?keep_others=perhaps"), FILE, 400, "true or false");
        talk.refused(&format!("{target}?expect=x&to=x"), FILE, 400, "whole number from 0");
        // The set would delete the upstream, which the route refers to.
        talk.refused(
            target,
            "routes: [{id: uses, uri: /u, upstream_id: u}]\n",
            400,
            r#"upstream \"u\" does not exist"#,
        );
    }
    talk.check("apply", "{}", &["-routes/uses", "-upstreams/u"]);
}

#[test]
fn stored_faulty_object_is_refused_in_a_set() {
    let talk = Talk::new();
    talk.put("upstreams/u", &json!({"nodes": {"h:1": 1}}));
    talk.put("routes/uses", &json!({"uri": "/u", "upstream_id": "u"}));
    assert_eq!(talk.rig.json("DELETE", "/apisix/admin/upstreams/u?force=true", &Value::Null).0, 200);
    let uses = "routes: [{id: uses, uri: /u, upstream_id: u}]\n";
    talk.refused("apply", uses, 400, r#"upstream \"u\" does not exist"#);
    talk.check("apply", &format!("{uses}upstreams: [{{id: u, nodes: {{\"h:1\": 1}}}}]\n"), &["+upstreams/u"]);
    assert!(talk.rig.view.load().snapshot.faults().is_empty());
}

#[test]
fn history_lists_changes_and_rollback_undoes_them() {
    let mut talk = Talk::new();
    talk.put("routes/a", &route("/a"));
    talk.put("routes/a", &route("/changed"));
    talk.check("apply", FILE, &["~routes/a", "+routes/b"]);
    let (status, listed) = talk.ask("GET", "versions", "");
    assert_eq!((status, &listed["revision"], &listed["oldest"]), (200, &json!(3), &json!(0)));
    let of = |index: usize| {
        let version = &listed["versions"][index];
        (version["version"].clone(), version["source"].clone(), version["objects"].clone())
    };
    assert_eq!((of(0), of(1)), ((json!(3), json!("apply"), json!(2)), (json!(2), json!("admin"), json!(1))));
    assert_eq!(
        (&listed["versions"][0]["by"], &listed["versions"][0]["at_ms"]),
        (&json!("127.0.0.1"), &json!(1_767_225_600_000_u64))
    );
    assert_eq!(talk.ask("GET", "versions?limit=1&before=3", "").1["versions"][0]["version"], 2);
    let (_, second) = talk.ask("GET", "versions/2", "");
    assert_eq!(marks(&second["changes"]), ["~routes/a"]);
    assert_eq!(second["changes"][0]["fields"][0]["after"], "/changed");
    talk.check("plan?to=2", "", &["~routes/a", "-routes/b"]);
    let back = talk.check("rollback?to=2&expect=3", "", &["~routes/a", "-routes/b"]);
    assert_eq!((&back["revision"], &back["before"]), (&json!(4), &json!(3)), "going back is a version too");
    assert_eq!(talk.uri("a"), "/changed");
    drop(talk.rig);
    talk.rig = Rig::store(talk.directory.path());
    assert_eq!(talk.uri("a"), "/changed");
    talk.check("rollback?to=3", "", &["~routes/a", "+routes/b"]);
    talk.check("rollback?to=0", "", &["-routes/a", "-routes/b"]);
    assert_eq!(talk.ask("GET", "versions", "").1["versions"][0]["source"], "rollback");
    talk.refused("rollback?to=99", "", 404, "revision 99 is not kept; the oldest one is 0");
    talk.refused("rollback", "", 400, "the argument to is missing");
    for (target, status) in
        [("versions/99", 404), ("versions/x", 400), ("versions?limit=0", 400), ("versions/1/2", 404)]
    {
        assert_eq!(talk.ask("GET", target, "").0, status, "{target}");
    }
}

#[test]
fn rollback_restores_objects_as_written() {
    let talk = Talk::new();
    let text = r#"{"uri":"/ä","upstream":{"nodes":{"b:1":1,"a:1":1},"type":"roundrobin"}}"#;
    assert_eq!(talk.rig.ask("PUT", "/apisix/admin/routes/a", text).0, 201);
    let (_, before) = talk.rig.json("GET", "/apisix/admin/routes/a", &Value::Null);
    talk.rig.clock.advance(9_000);
    assert_eq!(talk.rig.json("DELETE", "/apisix/admin/routes/a", &Value::Null).0, 200);
    talk.check("rollback?to=1", "", &["+routes/a"]);
    let (_, after) = talk.rig.json("GET", "/apisix/admin/routes/a", &Value::Null);
    assert_eq!(after["value"].to_string(), before["value"].to_string());
}

#[test]
fn unusable_revision_is_restored_by_force_only() {
    let talk = Talk::new();
    talk.put("upstreams/u", &json!({"nodes": {"h:1": 1}}));
    talk.put("routes/uses", &json!({"uri": "/u", "upstream_id": "u"}));
    assert_eq!(talk.rig.json("DELETE", "/apisix/admin/upstreams/u?force=true", &Value::Null).0, 200);
    assert_eq!(talk.rig.json("DELETE", "/apisix/admin/routes/uses", &Value::Null).0, 200);
    talk.refused("rollback?to=3", "", 400, r#"upstream \"u\" does not exist"#);
    talk.check("rollback?to=3&force=true", "", &["+routes/uses"]);
    assert_eq!(talk.rig.view.load().snapshot.faults().len(), 1);
}

#[test]
fn file_source_can_be_planned_but_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weir.yaml");
    std::fs::write(&path, FILE).unwrap();
    let talk = Talk { rig: Rig::file(&path, false).unwrap(), directory };
    talk.check("plan", &FILE.replace("uri: /a", "uri: /aa"), &["~routes/a"]);
    talk.refused("apply", "{}", 405, "weir.yaml; change it there");
    talk.refused("rollback?to=0", "", 405, "weir.yaml; change it there");
    assert_eq!(talk.ask("GET", "versions", "").0, 405);
}

#[test]
fn viewer_can_plan_but_not_apply() {
    let talk = Talk::new();
    let headers = [("X-API-KEY", "guest")];
    for (target, expected) in [("plan", 200), ("plan?to=0", 200), ("apply", 401), ("rollback?to=0", 401)] {
        let path = format!("/apisix/admin/weir/{target}");
        let (status, ..) = block_on(crate::testing::ask(&talk.rig.admin, "POST", &path, &headers, FILE));
        assert_eq!(status, expected, "{target}");
    }
    let target = "/apisix/admin/weir/versions";
    assert_eq!(block_on(crate::testing::ask(&talk.rig.admin, "GET", target, &headers, "")).0, 200);
}

#[test]
fn stated_author_is_in_the_history() {
    let talk = Talk::new();
    let headers = [("X-API-KEY", "boss"), ("X-Weir-Author", "ann\u{e9}")];
    let target = "/apisix/admin/routes/a";
    let body = route("/a").to_string();
    block_on(crate::testing::ask(&talk.rig.admin, "PUT", target, &headers, &body));
    let headers = [("X-API-KEY", "boss"), ("X-Weir-Author", "ann of the shop")];
    block_on(crate::testing::ask(&talk.rig.admin, "PUT", target, &headers, &body));
    let (_, listed) = talk.ask("GET", "versions", "");
    assert_eq!(
        (&listed["versions"][0]["by"], &listed["versions"][1]["by"]),
        (&json!("ann of the shop (127.0.0.1)"), &json!("127.0.0.1"))
    );
}

#[test]
fn history_keeps_secrets_encrypted() {
    let keyring = ["edd1c9f0985e76a2"];
    let directory = tempfile::tempdir().unwrap();
    let mut talk = Talk { rig: Rig::sealed_store(directory.path(), &keyring), directory };
    let consumer = |key: &str| json!({"username": "jack", "plugins": {"auth": {"key": key}}});
    talk.put("consumers", &consumer("first-s3cr3t"));
    talk.put("consumers", &consumer("other-s3cr3t"));
    let file = json!({"consumers": [consumer("third-s3cr3t")]}).to_string();
    let plan = talk.check("plan", &file, &["~consumers/jack"]);
    let field = json!({"pointer": "/plugins/auth/key", "before": "(hidden)", "after": "(hidden)"});
    assert_eq!(plan["objects"][0]["fields"], json!([field]));
    talk.check("apply", &file, &["~consumers/jack"]);
    assert!(!talk.ask("GET", "versions/2", "").1.to_string().contains("s3cr3t"));
    talk.check("rollback?to=1", "", &["~consumers/jack"]);
    let key = |talk: &Talk| {
        let (_, found) = talk.rig.json("GET", "/apisix/admin/consumers/jack", &Value::Null);
        found["value"]["plugins"]["auth"]["key"].clone()
    };
    assert_eq!(key(&talk), "first-s3cr3t");
    drop(talk.rig);
    let stored = std::fs::read(talk.directory.path().join("store.redb")).unwrap();
    assert!(!stored.windows(6).any(|bytes| bytes == b"s3cr3t"), "neither now nor in what is kept of before");
    // A secret that cannot be decrypted is not written back masked, even with `force`.
    talk.rig = Rig::store(talk.directory.path());
    talk.refused("rollback?to=2", "", 400, "encryption_keyring");
    talk.refused("rollback?to=2&force=true", "", 400, "encryption_keyring");
    drop(talk.rig);
    talk.rig = Rig::sealed_store(talk.directory.path(), &keyring);
    talk.check("rollback?to=2", "", &["~consumers/jack"]);
    assert_eq!(key(&talk), "other-s3cr3t");
}

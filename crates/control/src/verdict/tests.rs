//! One bad object never blocks another: every kind, from the store and from a file, and the reported
//! verdicts.

use model::{ConfigFault, ObjectKey, ObjectKind};
use serde_json::{Value, json};

use crate::source::store::{ConfigStore, Expect};
use crate::testing::{Rig, ask, block_on, certificate};

/// The path of an object of each kind in the store, and a good object: `{}` stands for its id.
fn good(kind: ObjectKind) -> (&'static str, Value) {
    let upstream = json!({"nodes": {"127.0.0.1:8080": 1}, "type": "roundrobin"});
    let plugins = json!({"plugins": {"count": {"count": 1}}});
    let (cert, key) = certificate();
    match kind {
        ObjectKind::Upstream => ("upstreams/{}", upstream),
        ObjectKind::PluginConfig => ("plugin_configs/{}", plugins),
        ObjectKind::ConsumerGroup => ("consumer_groups/{}", plugins),
        ObjectKind::GlobalRule => ("global_rules/{}", json!({"plugins": {}})),
        ObjectKind::PluginMetadata => ("plugin_metadata/{}", json!({"size": 1})),
        ObjectKind::Ssl => ("ssls/{}", json!({"sni": "a.example", "cert": cert, "key": key})),
        ObjectKind::Extension => ("extensions/{}", json!({"language": "tiny", "content": "c"})),
        ObjectKind::Proto => ("protos/{}", json!({"content": "syntax = \"proto3\";"})),
        ObjectKind::Secret => {
            ("secrets/vault/{}", json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "t"}))
        }
        ObjectKind::Service => ("services/{}", json!({ "upstream": upstream })),
        ObjectKind::Consumer => ("consumers/{}", json!({"desc": "d"})),
        ObjectKind::Credential => {
            ("consumers/good/credentials/{}", json!({"plugins": {"auth": {"key": "k"}}}))
        }
        ObjectKind::Contract => {
            let content = "openapi: 3.0.3\npaths: {/a: {get: {operationId: a}}}";
            ("contracts/{}", json!({"content": content, "upstream": upstream}))
        }
        ObjectKind::Route => ("routes/{}", json!({"uri": "/a", "upstream": upstream})),
        ObjectKind::StreamRoute => ("stream_routes/{}", json!({"server_port": 9100, "upstream": upstream})),
    }
}

/// The good object of a kind under `id`: path and value.
fn named(kind: ObjectKind, id: &str) -> (String, Value) {
    let (path, mut value) = good(kind);
    // The catalog of tests has these two plugins; metadata belongs to one.
    let id = match (kind, id) {
        (ObjectKind::PluginMetadata, "good") => "count",
        (ObjectKind::PluginMetadata, _) => "auth",
        (_, id) => id,
    };
    match kind {
        ObjectKind::Consumer => value["username"] = json!(id),
        ObjectKind::PluginMetadata => {}
        ObjectKind::Secret => value["id"] = json!(format!("vault/{id}")),
        _ => value["id"] = json!(id),
    }
    (path.replace("{}", id), value)
}

fn verdict(rig: &Rig, path: &str) -> Value {
    let (status, body) = rig.json("GET", &format!("/apisix/admin/weir/verdicts/{path}"), &Value::Null);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

fn state(rig: &Rig, path: &str) -> String {
    verdict(rig, path)["state"].as_str().unwrap_or_default().to_owned()
}

fn write_texts(directory: &std::path::Path, texts: &[(String, String)]) {
    let mut store = ConfigStore::open(directory).unwrap();
    store.load().unwrap();
    let mut transaction = store.begin().unwrap();
    for (path, text) in texts {
        transaction.advance();
        transaction.put(path, text, Expect::Any, None).unwrap();
    }
    transaction.commit().unwrap();
}

/// The `total` of a listing of verdicts, and the paths that are faulty.
fn faulty(rig: &Rig, query: &str) -> (u64, Vec<String>) {
    let (status, body) = rig.json("GET", &format!("/apisix/admin/weir/verdicts{query}"), &Value::Null);
    assert_eq!(status, 200, "{body}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = body["list"].as_array().unwrap();
    let paths = list.iter().map(|verdict| format!("{}/{}", text(&verdict["kind"]), text(&verdict["id"])));
    (body["total"].as_u64().unwrap(), paths.collect())
}

#[test]
fn bad_store_object_blocks_no_other() {
    let bad_texts: [fn(&Value) -> String; 3] = [
        |_| "{ this is not JSON".to_owned(),
        |_| "[1, 2]".to_owned(),
        // No kind has such a field; metadata and secrets accept it with a warning, so they get no object.
        |good| {
            let mut bad = good.clone();
            bad["no_such_field"] = json!(1);
            bad.to_string()
        },
    ];
    for bad_text in bad_texts {
        let directory = tempfile::tempdir().unwrap();
        let mut texts = Vec::new();
        let free = |kind: ObjectKind, text: &str| {
            matches!(kind, ObjectKind::PluginMetadata | ObjectKind::Secret)
                && serde_json::from_str::<Value>(text).is_ok_and(|v| v.is_object())
        };
        for kind in ObjectKind::ALL {
            let (path, value) = named(kind, "bad");
            let text = bad_text(&value);
            texts.push((path, if free(kind, &text) { "5".to_owned() } else { text }));
            let (path, value) = named(kind, "good");
            texts.push((path, value.to_string()));
        }
        write_texts(directory.path(), &texts);
        let rig = Rig::store(directory.path());
        for kind in ObjectKind::ALL {
            assert_eq!(state(&rig, &named(kind, "good").0), "in_force", "{kind}");
            let bad = verdict(&rig, &named(kind, "bad").0);
            // A text that is no object does not show the match of a route; an object with one unknown field
            // does.
            let is_match_readable = bad["faults"].to_string().contains("no_such_field");
            let expected = if kind == ObjectKind::Route && !is_match_readable { "unplaced" } else { "out" };
            assert_eq!((&bad["state"], &bad["revision_in_force"]), (&json!(expected), &Value::Null), "{bad}");
            assert!(bad["revision_written"].as_u64().unwrap() > 0, "{bad}");
            assert!(!bad["faults"][0]["reason"].as_str().unwrap().is_empty(), "{bad}");
        }
        assert_eq!(faulty(&rig, "").0, ObjectKind::ALL.len() as u64);
        // The bad object is still readable and can be repaired or deleted; the others can be written.
        for kind in ObjectKind::ALL {
            let (path, value) = named(kind, "bad");
            let (status, body) = rig.json("GET", &format!("/apisix/admin/{path}"), &Value::Null);
            assert_eq!(status, 200, "{path} {body}");
            let (status, answer) =
                rig.json("PUT", &format!("/apisix/admin/{path}"), &without_clash(kind, value));
            assert_eq!(status, 200, "{path} {answer}");
            assert_eq!(state(&rig, &path), "in_force");
        }
        assert_eq!(faulty(&rig, ""), (0, vec![]));
    }
}

/// Changes the key of a credential, because two credentials may not have the same key.
fn without_clash(kind: ObjectKind, mut value: Value) -> Value {
    if kind == ObjectKind::Credential {
        value["plugins"]["auth"]["key"] = json!("another");
    }
    value
}

/// A file with one object of each kind; `change` is applied to each.
fn file_of(ids: &[&str], change: impl Fn(ObjectKind, &str, Value) -> Value) -> String {
    let mut set = serde_json::Map::new();
    for kind in ObjectKind::ALL {
        for id in ids {
            let (path, value) = named(kind, id);
            let mut value = change(kind, id, without_clash_of(kind, id, value));
            let (collection, id) = path.split_once('/').unwrap();
            if kind != ObjectKind::Consumer {
                value["id"] = json!(id);
            }
            let list = set.entry(collection.to_owned()).or_insert_with(|| json!([]));
            list.as_array_mut().unwrap().push(value);
        }
    }
    Value::Object(set).to_string()
}

fn without_clash_of(kind: ObjectKind, id: &str, value: Value) -> Value {
    if id == "good" { value } else { without_clash(kind, value) }
}

#[test]
fn bad_file_object_keeps_form_and_blocks_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("resources.json");
    std::fs::write(&path, file_of(&["good"], |_, _, value| value)).unwrap();
    let rig = Rig::file(&path, false).unwrap();
    assert_eq!(faulty(&rig, ""), (0, vec![]));
    // A good object becomes faulty, and a new good one comes.
    let break_it = |kind: ObjectKind, id: &str, mut value: Value| {
        match (id, kind) {
            ("good", ObjectKind::PluginMetadata) => value["size"] = json!("x"),
            ("good", ObjectKind::Secret) => value["prefix"] = json!(1),
            ("good", _) => value["no_such_field"] = json!(1),
            _ => {}
        }
        value
    };
    std::fs::write(&path, file_of(&["good", "new"], break_it)).unwrap();
    let faults = block_on(rig.reconcile.reload());
    assert_eq!(faults.len(), ObjectKind::ALL.len(), "{faults:#?}");
    for kind in ObjectKind::ALL {
        let broken = verdict(&rig, &named(kind, "good").0);
        assert_eq!(
            (&broken["state"], &broken["revision_in_force"]),
            (&json!("last_good"), &json!(1)),
            "{broken}"
        );
        assert_eq!(broken["revision_written"], 2, "{broken}");
        assert!(!broken["faults"][0]["pointer"].as_str().unwrap().is_empty(), "{broken}");
        assert_eq!(state(&rig, &named(kind, "new").0), "in_force", "{kind}");
    }
    let mut text = String::new();
    super::write_verdict_metrics(&rig.view.load(), &mut text);
    for kind in ObjectKind::ALL {
        let line = |state: &str, count: u32| {
            format!(
                "weir_config_faulty_objects{{kind=\"{}\",state=\"{state}\"}} {count}\n",
                kind.collection()
            )
        };
        assert!(text.contains(&line("last_good", 1)) && text.contains(&line("out", 0)), "{text}");
    }
    std::fs::write(&path, file_of(&["good", "new"], |_, _, value| value)).unwrap();
    assert_eq!(block_on(rig.reconcile.reload()), [""; 0]);
    assert_eq!(faulty(&rig, ""), (0, vec![]));
}

#[test]
fn object_status_is_served_by_kind_and_by_object() {
    let directory = tempfile::tempdir().unwrap();
    let texts = [
        ("routes/r", "{}"),
        ("services/s", "5"),
        ("things/t", "{}"),
        ("routes/ok", r#"{"uri":"/","plugins":{}}"#),
    ];
    write_texts(directory.path(), &texts.map(|(path, text)| (path.to_owned(), text.to_owned())));
    let rig = Rig::store(directory.path());
    assert_eq!(faulty(&rig, ""), (2, vec!["services/s".to_owned(), "routes/r".to_owned()]));
    assert_eq!(faulty(&rig, "?kind=routes"), (1, vec!["routes/r".to_owned()]));
    assert_eq!(faulty(&rig, "?kind=upstreams"), (0, vec![]));
    let check = |target: &str, status: u16, pointer: &str, expected: Value| {
        let (found, body) = rig.json("GET", &format!("/apisix/admin/weir/verdicts{target}"), &Value::Null);
        assert_eq!(
            (found, body.pointer(pointer).cloned().unwrap_or_default()),
            (status, expected),
            "{target} {body}"
        );
        let target = format!("/v1/weir/verdicts{target}");
        let (control_status, _, control_body) = block_on(ask(&rig.control, "GET", &target, &[], ""));
        let control_body: Value = serde_json::from_str(&control_body).unwrap();
        assert_eq!((control_status, control_body), (found, body), "{target} is the same on the control API");
    };
    check(
        "",
        200,
        "/source_faults",
        json!(["the store holds things/t, which is no object this version knows"]),
    );
    check("/routes/r", 200, "/state", json!("unplaced"));
    check("/services/s", 200, "/state", json!("out"));
    check("/routes/ok", 200, "/revision_in_force", json!(4));
    check("/routes/none", 404, "/message", json!("Key not found"));
    check("/routes/a%20b", 404, "/message", json!("Key not found"));
    check("?kind=route", 400, "/error_msg", json!("unknown kind: route; did you mean `routes`?"));
    check("/things/t", 404, "/error_msg", json!("write verdicts, or verdicts/KIND/ID (verdicts/routes/1)"));
    check("/routes", 404, "/error_msg", json!("write verdicts, or verdicts/KIND/ID (verdicts/routes/1)"));
}

#[test]
fn dangling_reference_is_reported_form_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    assert_eq!(rig.json("PUT", "/apisix/admin/upstreams/u", &good(ObjectKind::Upstream).1).0, 201);
    let mut view = crate::view::View::clone(&rig.view.load());
    let key = ObjectKey::new(ObjectKind::Upstream, "u").unwrap();
    let (pointer, reason) = ("/labels/a".to_owned(), "$env://A leads nowhere".to_owned());
    view.reference_faults = vec![ConfigFault { key: Some(key.clone()), pointer, reason, kept: false }];
    let verdict = view.verdict(&key).unwrap();
    assert_eq!((verdict.state, verdict.faults.len()), (super::VerdictState::InForce, 1));
    assert_eq!(view.verdicts(Some(ObjectKind::Upstream)), [verdict]);
    assert_eq!(view.verdicts(Some(ObjectKind::Route)), []);
}

#[test]
fn compile_fault_is_a_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    for id in ["kept", "out"] {
        let (_, value) = named(ObjectKind::Upstream, id);
        assert_eq!(rig.json("PUT", &format!("/apisix/admin/upstreams/{id}"), &value).0, 201);
    }
    let fault = |id: &str, kept: bool| ConfigFault {
        key: Some(ObjectKey::new(ObjectKind::Upstream, id).unwrap()),
        pointer: String::new(),
        reason: "the compiler says no".to_owned(),
        kept,
    };
    *rig.published.1.lock() = vec![fault("kept", true), fault("out", false)];
    assert_eq!(rig.json("PUT", "/apisix/admin/upstreams/other", &good(ObjectKind::Upstream).1).0, 201);
    assert_eq!(
        (state(&rig, "upstreams/kept").as_str(), state(&rig, "upstreams/out").as_str()),
        ("last_good", "out")
    );
    assert_eq!(state(&rig, "upstreams/other"), "in_force");
    assert_eq!(verdict(&rig, "upstreams/out")["faults"][0]["reason"], "the compiler says no");
    rig.published.1.lock().clear();
    assert_eq!(rig.json("PUT", "/apisix/admin/upstreams/other", &good(ObjectKind::Upstream).1).0, 200);
    assert_eq!(faulty(&rig, ""), (0, vec![]));
}

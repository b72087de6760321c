//! Secrets that are sent back as `(hidden)`.

use serde_json::{Value, json};

use super::Talk;

fn jack(key: &str, desc: &str) -> Value {
    json!({"username": "jack", "desc": desc, "plugins": {"auth": {"key": key}}})
}

/// The stored key of the consumer.
fn key(talk: &Talk) -> String {
    let (_, read) = talk.rig.json("GET", "/apisix/admin/consumers/jack", &Value::Null);
    format!(
        "{} {}",
        read["value"]["plugins"]["auth"]["key"].as_str().unwrap(),
        read["value"]["desc"].as_str().unwrap()
    )
}

#[test]
fn hidden_secret_keeps_the_stored_one() {
    let talk = Talk::new();
    assert_eq!(talk.rig.json("PUT", "/apisix/admin/consumers", &jack("s3cr3t", "a")).0, 201);
    assert_eq!(talk.rig.json("PUT", "/apisix/admin/consumers", &jack("(hidden)", "b")).0, 200);
    assert_eq!(key(&talk), "s3cr3t b");
    let config = json!({"plugins": {"count": {"count": 1, "password": "s3cr3t"}}});
    talk.rig.json("PUT", "/apisix/admin/plugin_configs/1", &config);
    let part = json!({"plugins": {"count": {"count": 2, "password": "(hidden)"}}});
    let (status, answer) = talk.rig.json("PATCH", "/apisix/admin/plugin_configs/1", &part);
    let stored = &answer["value"]["plugins"]["count"];
    assert_eq!((status, &stored["count"], &stored["password"]), (200, &json!(2), &json!("s3cr3t")));
}

#[test]
fn hidden_secret_of_nothing_is_refused() {
    let talk = Talk::new();
    let (status, answer) = talk.rig.json("PUT", "/apisix/admin/consumers", &jack("(hidden)", "a"));
    assert_eq!(status, 400);
    assert!(answer["error_msg"].as_str().unwrap().starts_with("/plugins/auth/key: "), "{answer}");
    let set = json!({"consumers": [jack("(hidden)", "a")]});
    for command in ["plan", "apply"] {
        let target = format!("/apisix/admin/weir/{command}?keep_others=true");
        let (status, answer) = talk.rig.json("POST", &target, &set);
        let fault = &answer["faults"][0];
        assert_eq!((status, &fault["key"]), (400, &json!("/consumers/jack")), "{answer}");
        assert_eq!((&fault["pointer"], &fault["line"]), (&json!("/plugins/auth/key"), &json!(1)));
    }
}

#[test]
fn set_with_hidden_secrets_is_planned_and_applied() {
    let talk = Talk::new();
    talk.rig.json("PUT", "/apisix/admin/consumers", &jack("s3cr3t", "a"));
    let same = json!({"consumers": [jack("(hidden)", "a")]});
    let (status, plan) = talk.rig.json("POST", "/apisix/admin/weir/plan", &same);
    assert_eq!((status, &plan["objects"]), (200, &json!([])), "nothing differs");
    let changed = json!({"consumers": [jack("(hidden)", "b")]});
    let (status, plan) = talk.rig.json("POST", "/apisix/admin/weir/apply", &changed);
    let fields = &plan["objects"][0]["fields"];
    assert_eq!((status, fields), (200, &json!([{"pointer": "/desc", "before": "a", "after": "b"}])));
    assert_eq!(key(&talk), "s3cr3t b");
}

#[test]
fn client_key_is_hidden_and_kept() {
    let talk = Talk::new();
    let (cert, client_key) = crate::testing::certificate();
    let upstream = json!({"scheme": "https", "nodes": {"127.0.0.1:1": 1},
        "tls": {"client_cert": cert, "client_key": client_key}});
    let within = json!({"upstream": upstream});
    let mut route = within.clone();
    route["uri"] = "/a".into();
    for (target, object, place) in [
        ("upstreams/1", &upstream, "/tls"),
        ("services/1", &within, "/upstream/tls"),
        ("routes/1", &route, "/upstream/tls"),
    ] {
        let path = format!("/apisix/admin/{target}");
        let key = crate::stored_key::parse_stored_key(target).unwrap();
        // The stored key is there, and the answer does not have it.
        let check = |method: &str, status: u16, body: &Value| {
            let (found, answer) = talk.rig.json(method, &path, body);
            assert_eq!(found, status, "{method} {target}: {answer}");
            assert!(!answer.to_string().contains("PRIVATE KEY"), "{method} {target}: {answer}");
            let view = talk.rig.view.load();
            let stored: Value = serde_json::from_str(&view.written(&key).unwrap().text).unwrap();
            assert_eq!(stored.pointer(&format!("{place}/client_key")), Some(&json!(client_key)), "{method}");
            answer["value"].clone()
        };
        check("PUT", 201, object);
        let mut shown = check("GET", 200, &Value::Null);
        assert_eq!(shown.pointer(&format!("{place}/client_key")), Some(&json!("(hidden)")));
        shown["desc"] = "changed".into();
        for name in ["create_time", "update_time"] {
            shown.as_object_mut().unwrap().shift_remove(name);
        }
        check("PUT", 200, &shown);
        check("PATCH", 200, &json!({"desc": "again"}));
        let mut part = json!({"upstream": {"tls": {"client_key": "(hidden)", "client_cert": cert}}});
        check("PATCH", 200, &if place == "/tls" { part["upstream"].take() } else { part });
        let collection = target.split_once('/').unwrap().0;
        let (_, listed) = talk.rig.ask("GET", &format!("/apisix/admin/{collection}"), "");
        assert!(listed.contains("(hidden)") && !listed.contains("PRIVATE KEY"), "{listed}");
        shown["id"] = "another".into();
        let (status, answer) = talk.rig.json("PUT", &format!("/apisix/admin/{collection}/another"), &shown);
        assert!(status == 400 && answer.to_string().contains("none is stored in this place"), "{answer}");
    }
}

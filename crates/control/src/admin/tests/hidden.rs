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

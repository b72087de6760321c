//! Roles, writes with the key in a cookie, and secrets in answers.

use serde_json::{Value, json};

use super::Talk;
use crate::admin::auth::{Access, Denied, Gate};
use crate::serve::role::Role;
use crate::testing::{Rig, ask, block_on};

/// Writes objects of every kind that can hold a secret, with the secret `s3cr3t`.
fn fill(rig: &Rig) {
    let node = json!({"nodes": {"127.0.0.1:1": 1}});
    let put = |target: &str, body: Value| {
        let (status, answer) = rig.json("PUT", &format!("/apisix/admin/{target}"), &body);
        assert!(matches!(status, 200 | 201), "{target}: {status} {answer}");
    };
    put("consumers", json!({"username": "jack", "plugins": {"auth": {"key": "s3cr3t"}}}));
    put("consumers/jack/credentials/c", json!({"plugins": {"auth": {"key": "s3cr3t-2"}}}));
    let counted = json!({"plugins": {"count": {"count": 1, "password": "s3cr3t"}}});
    put("routes/1", json!({"uri": "/a", "upstream": node, "plugins": counted["plugins"]}));
    put("services/1", json!({"upstream": node, "plugins": counted["plugins"]}));
    put("plugin_configs/1", counted.clone());
    put("global_rules/1", counted);
    put("secrets/vault/1", json!({"uri": "http://127.0.0.1:1", "prefix": "kv", "token": "s3cr3t"}));
}

fn as_guest(rig: &Rig, method: &str, target: &str, body: &str) -> (u16, String) {
    let (status, _, body) = block_on(ask(
        &rig.admin,
        method,
        &format!("/apisix/admin/{target}"),
        &[("X-API-KEY", "guest")],
        body,
    ));
    (status, body)
}

#[test]
fn viewer_sees_secrets_masked() {
    let talk = Talk::new();
    fill(&talk.rig);
    for target in [
        "consumers/jack",
        "consumers",
        "consumers/jack/credentials/c",
        "consumers/jack/credentials",
        "routes/1",
        "routes?uri=/a",
        "services/1",
        "plugin_configs/1",
        "global_rules",
        "secrets/vault/1",
        "secrets",
        "configs",
    ] {
        let (status, shown) = as_guest(&talk.rig, "GET", target, "");
        assert!(status == 200 && shown.contains("(hidden)"), "{target}: {status} {shown}");
        assert!(!shown.contains("s3cr3t"), "{target}: {shown}");
        let (_, clear) = talk.rig.ask("GET", &format!("/apisix/admin/{target}"), "");
        assert!(clear.contains("s3cr3t") && !clear.contains("(hidden)"), "{target}: {clear}");
    }
}

#[test]
fn viewer_may_send_requests_without_effect() {
    let talk = Talk::new();
    let check = |method: &str, target: &str, body: &str, expected: u16| {
        let (status, answer) = as_guest(&talk.rig, method, target, body);
        assert_eq!(status, expected, "{method} {target}: {answer}");
    };
    let route = r#"{"uri": "/a", "plugins": {"count": {"count": 1}}}"#;
    // This rig has no gateway, so `explain` is answered 404.
    check("POST", "weir/explain", r#"{"method": "GET", "url": "/"}"#, 404);
    check("POST", "weir/plan", r#"{"routes": []}"#, 200);
    check("POST", "schema/validate/routes", route, 200);
    check("POST", "configs/validate", r#"{"routes": []}"#, 200);
    check("HEAD", "configs", "", 200);
    for (method, target) in [
        ("POST", "weir/apply"),
        ("POST", "weir/rollback?to=1"),
        ("POST", "weir/adopt"),
        ("PUT", "configs"),
        ("PUT", "plugins/reload"),
        ("POST", "routes"),
        ("PUT", "routes/1"),
        ("PATCH", "routes/1"),
        ("DELETE", "routes/1"),
        ("POST", "weir/plans"),
        ("PUT", "weir/plan"),
    ] {
        check(method, target, route, 401);
    }
}

#[test]
fn cookie_from_another_site_cannot_write() {
    let talk = Talk::new();
    let route = r#"{"uri": "/a", "plugins": {"count": {"count": 1}}}"#;
    let check = |method: &str, target: &str, more: &[(&str, &str)], expected: u16| {
        let fields = [&[("Cookie", "x_api_key=boss"), ("Host", "admin.example:9180")], more].concat();
        let target = format!("/apisix/admin/{target}");
        let (status, _, answer) = block_on(ask(&talk.rig.admin, method, &target, &fields, route));
        assert_eq!(status, expected, "{method} {target} {more:?}: {answer}");
        assert_eq!(status == 403, answer.contains("send the key in the header X-API-KEY"), "{answer}");
    };
    let foreign = [("Origin", "http://evil.example"), ("Content-Type", "text/plain")];
    check("PUT", "routes/1", &foreign, 403);
    check("PUT", "routes/1", &[], 403);
    check("POST", "routes", &foreign, 403);
    check("POST", "weir/apply", &[("Sec-Fetch-Site", "cross-site")], 403);
    check("GET", "routes/1", &foreign, 403);
    check("GET", "routes/1", &[("Sec-Fetch-Site", "cross-site")], 403);
    check("GET", "routes/1", &[], 404);
    check("POST", "schema/validate/routes", &foreign, 403);
    check("POST", "schema/validate/routes", &[], 200);
    check("PUT", "routes/1", &[("Origin", "http://admin.example:9180")], 201);
    check("PUT", "routes/1", &[("Sec-Fetch-Site", "same-origin")], 200);
}

#[test]
fn cookie_under_an_unknown_name_is_refused() {
    let talk = Talk::new();
    let check = |host: &str, more: &[(&str, &str)], expected: u16| {
        let fields = [&[("Host", host)], more].concat();
        let (status, _, answer) =
            block_on(ask(&talk.rig.admin, "GET", "/apisix/admin/routes/1", &fields, ""));
        assert_eq!(status, expected, "{host} {more:?}: {answer}");
        assert_eq!(status == 403, answer.contains("admin_hosts"), "{answer}");
    };
    let cookie = [("Cookie", "x_api_key=boss")];
    check("evil.example:9180", &cookie, 403);
    check("admin.example:9180", &cookie, 404);
    check("127.0.0.1:9180", &cookie, 404);
    check("evil.example:9180", &[("X-API-KEY", "boss")], 404);
}

#[test]
fn api_without_a_key_refuses_other_sites() {
    let gate = Gate::new(Vec::new(), false, Vec::new());
    let check = |fields: &[(&str, &str)], expected: Result<Role, Denied>| {
        let mut request = http::Request::builder().method("PUT").uri("/apisix/admin/routes/1");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(gate.check(&head, Access::Write), expected, "{fields:?}");
    };
    check(&[], Ok(Role::Admin));
    check(&[("host", "localhost:9180")], Ok(Role::Admin));
    check(&[("host", "localhost:9180"), ("origin", "http://localhost:9180")], Ok(Role::Admin));
    check(&[("host", "localhost:9180"), ("origin", "http://evil.example")], Err(Denied::CrossSite));
    let keyed = [("host", "127.0.0.1"), ("x-api-key", "any"), ("sec-fetch-site", "cross-site")];
    check(&keyed, Err(Denied::CrossSite));
    check(&[("host", "evil.example")], Err(Denied::ForeignHost));
}

#[test]
fn path_in_another_notation_needs_the_key_too() {
    let talk = Talk::new();
    for target in ["//apisix/admin/routes/1", "/%61pisix/admin/routes/1", "/apisix//admin/routes/1"] {
        for method in ["GET", "PUT", "DELETE"] {
            let (status, _, answer) = block_on(ask(&talk.rig.admin, method, target, &[], r#"{"uri": "/a"}"#));
            assert_eq!(status, 401, "{method} {target}: {answer}");
        }
        let (status, _, _) = block_on(ask(&talk.rig.admin, "GET", target, &[("X-API-KEY", "boss")], ""));
        assert_eq!(status, 404, "{target}");
    }
}

#[test]
fn write_answers_with_the_encrypted_secret() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::sealed_store(directory.path(), &["qeddd145sfvddff3"]);
    let sealed = crate::testing::sealer(&["qeddd145sfvddff3"]);
    let body = json!({"username": "jack", "plugins": {"auth": {"key": "s3cr3t"}}});
    let key = model::ObjectKey::new(model::ObjectKind::Consumer, "jack").unwrap();
    let stored: Value = serde_json::from_str(&sealed.seal(&key, &body.to_string())).unwrap();
    assert_ne!(stored, body);
    let encrypted = &stored["plugins"]["auth"]["key"];
    let found = |method: &str, target: &str, body: &Value, pointer: &str| {
        let (status, answer) = rig.json(method, &format!("/apisix/admin/{target}"), body);
        assert!(status < 300, "{method} {target}: {status} {answer}");
        answer.pointer(pointer).cloned().unwrap_or_default()
    };
    let at = "/value/plugins/auth/key";
    assert_eq!(found("PUT", "consumers", &body, at), *encrypted);
    assert_eq!(found("GET", "consumers/jack", &Value::Null, at), json!("s3cr3t"));
    let config = json!({"plugins": {"count": {"count": 1, "password": "s3cr3t"}}});
    let at = "/value/plugins/count/password";
    assert_eq!(found("PUT", "plugin_configs/1", &config, at), *encrypted);
    assert_eq!(found("PATCH", "plugin_configs/1", &json!({"desc": "d"}), at), *encrypted);
    assert_eq!(found("GET", "plugin_configs/1", &Value::Null, at), json!("s3cr3t"));
    let plain = Rig::store(tempfile::tempdir().unwrap().path());
    let (_, answer) = plain.json("PUT", "/apisix/admin/consumers", &body);
    assert_eq!(answer["value"]["plugins"]["auth"]["key"], "s3cr3t", "without a keyring nothing is encrypted");
}

#[test]
fn wrong_keys_pause_all_keys_of_an_address() {
    let talk = Talk::new();
    let ask_with = |key: &str, target: &str| {
        block_on(ask(&talk.rig.admin, "GET", &format!("/apisix/admin/{target}"), &[("X-API-KEY", key)], ""))
    };
    for number in 0..20 {
        // A request without a key, a right key, and a wrong one that came before are no guesses.
        assert_eq!(block_on(ask(&talk.rig.admin, "GET", "/apisix/admin/routes", &[], "")).0, 401);
        assert_eq!(ask_with("guest", "weir/session").0, 200);
        let target = if number % 2 == 0 { "weir/session" } else { "routes" };
        assert_eq!(ask_with(&format!("guess {}", number.max(1)), target).0, 401);
    }
    assert_eq!(ask_with("boss", "routes").0, 200);
    assert_eq!(ask_with("guess 0", "routes").0, 401);
    for (key, target) in [("boss", "routes"), ("guest", "weir/session"), ("guess", "routes"), ("", "routes")]
    {
        let (status, headers, body) = ask_with(key, target);
        assert_eq!((status, headers["retry-after"].as_bytes()), (429, b"1".as_slice()), "{key}: {body}");
        assert!(body.contains("too many wrong keys from this address"), "{body}");
    }
    let by_argument = block_on(ask(&talk.rig.admin, "GET", "/apisix/admin/routes?api_key=boss", &[], ""));
    let by_cookie = [("Cookie", "x_api_key=boss"), ("Host", "127.0.0.1")];
    let by_cookie = block_on(ask(&talk.rig.admin, "GET", "/apisix/admin/routes", &by_cookie, ""));
    assert_eq!((by_argument.0, by_cookie.0), (429, 429));
    assert_eq!(ask_with("", "").0, 429);
    assert_eq!(block_on(ask(&talk.rig.admin, "GET", "/apisix/admin/routes", &[], "")).0, 401);
    assert_eq!(
        block_on(ask(&talk.rig.admin, "HEAD", "/apisix/admin", &[], "")).0,
        200,
        "the probe needs no key"
    );
    talk.rig.clock.advance(1_000);
    assert_eq!(ask_with("boss", "routes").0, 200);
    assert_eq!(ask_with("guess", "routes").0, 401);
    assert_eq!(ask_with("boss", "routes").1["retry-after"], "2", "the pause grows");
}

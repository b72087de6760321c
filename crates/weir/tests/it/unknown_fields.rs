//! Unknown fields of plugins, metadata, consumers and secrets: typing errors are refused; others are accepted
//! with a warning that every reader of the object can see, and do not change the object's effect.

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Client, Weir};

use crate::command::{FREE_PORTS, weir_with};
use crate::support::BINARY;

/// The response to a PUT: status, error message, warnings.
fn put(weir: &Weir, path: &str, body: &Value) -> (u16, String, Vec<String>) {
    let headers = [("X-API-KEY", ADMIN_KEY), ("Content-Type", "application/json")];
    let reply = weir.admin_raw("PUT", path, &headers, body.to_string().as_bytes());
    let body: Value = serde_json::from_str(&reply.text()).unwrap_or_default();
    let warnings = reply.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("x-weir-warning"));
    let warnings = warnings.map(|(_, value)| value.to_string()).collect();
    (reply.status, body["error_msg"].as_str().unwrap_or_default().to_owned(), warnings)
}

fn mocked(mocking: Value) -> Value {
    json!({"uri": "/a", "plugins": {"mocking": mocking}})
}

#[test]
fn an_unknown_field_is_accepted_with_a_warning() {
    let weir = Weir::start(BINARY);
    let route = mocked(json!({"response_example": "served", "$comment": "c", "colour": {"deep": 1}}));
    let (status, message, warnings) = put(&weir, "routes/r", &route);
    assert_eq!((status, message.as_str()), (201, ""));
    assert_eq!(
        warnings,
        [
            "/plugins/mocking/$comment: unknown field `$comment` is not read and has no effect",
            "/plugins/mocking/colour: unknown field `colour` is not read and has no effect",
        ]
    );
    assert_eq!(Client::connect(weir.address("proxy")).get("/a").text(), "served");
    let (_, stored) = weir.admin("GET", "routes/r", Value::Null);
    assert_eq!(stored["value"]["plugins"], route["plugins"], "the stored object is as it was written");
    let (_, verdict) = weir.admin("GET", "weir/verdicts/routes/r", Value::Null);
    assert_eq!(verdict["state"], "in_force");
    assert_eq!(verdict["faults"], json!([]));
    let reason = "unknown field `$comment` is not read and has no effect";
    assert_eq!(verdict["warnings"][0], json!({"pointer": "/plugins/mocking/$comment", "reason": reason}));

    let (status, _, warnings) = put(&weir, "routes/r", &mocked(json!({"response_example": "again"})));
    assert_eq!((status, warnings.len()), (200, 0));
    let (_, verdict) = weir.admin("GET", "weir/verdicts/routes/r", Value::Null);
    assert_eq!(verdict["warnings"], json!([]));
}

#[test]
fn every_place_where_apisix_accepts_them() {
    let weir = Weir::start(BINARY);
    let accepted = |path: &str, body: Value, place: &str| {
        let (status, message, warnings) = put(&weir, path, &body);
        assert_eq!((status, message.as_str()), (201, ""), "{path}");
        assert!(warnings.len() == 1 && warnings[0].starts_with(&format!("{place}: ")), "{path} {warnings:?}");
    };
    let key = json!({"key": "k", "ttl": 5});
    accepted(
        "consumers/ann",
        json!({"username": "ann", "plugins": {"key-auth": key}}),
        "/plugins/key-auth/ttl",
    );
    let key = json!({"key": "l", "ttl": 5});
    accepted("consumers/ann/credentials/c", json!({"plugins": {"key-auth": key}}), "/plugins/key-auth/ttl");
    accepted("plugin_metadata/http-logger", json!({"colour": 1}), "/colour");
    let vault = json!({"uri": "http://127.0.0.1:1", "prefix": "kv", "token": "t", "colour": 1});
    accepted("secrets/vault/v", vault, "/colour");
    let rule = json!({"count": 1, "time_window": 1, "key": "$uri", "colour": 1});
    let rules = json!({"plugins": {"limit-count": {"rules": [rule]}}});
    accepted("plugin_configs/p", rules, "/plugins/limit-count/rules/0/colour");
    let refused = |path: &str, body: Value, expected: &str| {
        let (status, message, _) = put(&weir, path, &body);
        assert_eq!((status, message.as_str()), (400, expected), "{path}");
    };
    let prefix = "failed to check the configuration of plugin limit-count err: ";
    refused(
        "services/s",
        json!({"plugins": {"limit-count": {"cuont": 1, "time_window": 1}}}),
        &format!("{prefix}unknown field `cuont`; did you mean `count`?"),
    );
    refused(
        "secrets/vault/w",
        json!({"uri": "http://127.0.0.1:1", "prefix": "kv", "tokne": "t"}),
        "invalid configuration: unknown field `tokne`; did you mean `token`?",
    );
    // Weir refuses unknown fields where APISIX refuses them.
    refused(
        "upstreams/u",
        json!({"nodes": {"127.0.0.1:1": 1}, "colour": 1}),
        "invalid configuration: additional properties forbidden, found colour",
    );
    let meta = json!({"prefer_name": true, "_meta": {"colour": 1}});
    refused(
        "services/s",
        json!({"plugins": {"prometheus": meta}}),
        "failed to check the configuration of plugin prometheus err: property \"_meta\" validation failed: additional \
         properties forbidden, found colour",
    );
}

#[test]
fn the_setting_refuses_or_accepts_all() {
    let unknown = mocked(json!({"response_example": "x", "colour": 1}));
    let misspelt = mocked(json!({"response_example": "x", "delya": 1}));
    let check = |arguments: &[&str], expected: [(u16, usize); 2]| {
        let weir = Weir::builder(BINARY).arguments(arguments).start();
        let found = [&unknown, &misspelt].map(|body| {
            let (status, _, warnings) = put(&weir, "routes/r", body);
            (status, warnings.len())
        });
        assert_eq!(found, expected, "{arguments:?}");
    };
    check(&["--unknown-fields=warn"], [(201, 1), (400, 0)]);
    check(&["--unknown-fields=accept"], [(201, 0), (200, 0)]);
    check(&["--unknown-fields=refuse"], [(400, 0), (400, 0)]);
    check(&["--unknown-fields=accept", "--strict"], [(400, 0), (400, 0)]);
}

#[test]
fn a_strict_start_refuses_an_unknown_field() {
    let text = "routes:\n- id: r\n  uri: /a\n  plugins: {mocking: {response_example: x, colour: 1}}\n";
    let arguments: Vec<&str> =
        ["run", "--resources", "f.yaml", "--strict"].into_iter().chain(FREE_PORTS).collect();
    let outcome = weir_with(&[("f.yaml", text)], &arguments, &[]);
    let expected = "f.yaml:4: routes[0].plugins.mocking.colour: unknown field `colour`";
    assert!(outcome.code == 1 && outcome.stderr.contains(expected), "{outcome:?}");
}

#[test]
fn whole_sets_answer_with_warnings() {
    let weir = Weir::start(BINARY);
    let mut route = mocked(json!({"response_example": "x", "colour": 1}));
    route["id"] = json!("r");
    let set = json!({ "routes": [route] }).to_string();
    let warning = "/routes/r/plugins/mocking/colour: unknown field `colour` is not read and has no effect";
    let check = |method: &str, path: &str, status: u16| {
        let headers = [("X-API-KEY", ADMIN_KEY), ("X-Digest", "one"), ("Content-Type", "application/json")];
        let reply = weir.admin_raw(method, path, &headers, set.as_bytes());
        let found: Vec<&str> = reply
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("x-weir-warning"))
            .map(|(_, value)| value.as_str())
            .collect();
        assert_eq!((reply.status, found), (status, vec![warning]), "{path}");
    };
    check("POST", "weir/apply", 200);
    check("PUT", "configs", 202);
}

#[test]
fn warnings_of_one_write_are_bounded() {
    let weir = Weir::start(BINARY);
    let mut mocking = json!({"response_example": "x"});
    for number in 0..10_000 {
        mocking[format!("field-{number}-{}", "ü".repeat(50))] = json!(1);
    }
    let (status, message, warnings) = put(&weir, "routes/r", &mocked(mocking));
    assert_eq!((status, message.as_str(), warnings.len()), (201, "", 10));
    assert!(warnings.iter().all(|warning| warning.len() <= 400 && warning.is_ascii()), "{warnings:?}");
    let (_, verdict) = weir.admin("GET", "weir/verdicts/routes/r", Value::Null);
    let warnings = verdict["warnings"].as_array().unwrap();
    assert_eq!((warnings.len(), &warnings[20]["reason"]), (21, &json!("and 9980 more warnings")));
}

#[test]
fn warnings_of_a_file_are_logged_with_their_lines() {
    let text =
        "routes:\n- id: r\n  uri: /a\n  plugins:\n    mocking:\n      response_example: x\n      colour: 1\n";
    let weir = Weir::builder(BINARY).resources(text).start();
    assert_eq!(weir.get("/a").text(), "x");
    let expected =
        ":7: routes[0].plugins.mocking.colour: warning: unknown field `colour` is not read and has no effect";
    let logged = weir.stderr();
    assert_eq!(logged.iter().filter(|line| line.contains(expected)).count(), 1, "{logged:#?}");
}

//! Secrets do not leak: no log, error or dump of an instance holds one.

use serde_json::json;
use testkit::{ADMIN_KEY, Client, Origin, Response, Weir, wait_until};

use crate::support::BINARY;

/// A consumer's key, and a key that no consumer has.
const CONSUMER_KEY: &str = "consumer-key-5up3r53cr3t";
const WRONG_KEY: &str = "wrong-key-5up3r53cr3t";

fn text_of(weir: &Weir, listener: &str, path: &str) -> String {
    let response = Client::connect(weir.address(listener)).request("GET", path, &[], b"");
    format!("{path}: {:?} {}", response.headers, response.text())
}

/// Checks that `text` holds no secret.
fn check(what: &str, text: &str) {
    for secret in [ADMIN_KEY, CONSUMER_KEY, WRONG_KEY] {
        assert!(!text.contains(secret), "{what} holds {secret}: {text}");
    }
}

fn all_of(response: &Response) -> String {
    format!("{} {:?} {}", response.status, response.headers, response.text())
}

// Checks 35 and 36; CVE-2022-29266.
#[test]
fn no_log_error_or_dump_holds_a_secret() {
    let origin = Origin::answering("ok");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let weir = Weir::builder(BINARY)
        .arguments(&["--log-level", "trace", "--access-log", log.to_str().unwrap()])
        .start();
    weir.put("consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": CONSUMER_KEY}}}));
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/*", "plugins": {"key-auth": {}}, "upstream": {"nodes": nodes}}));

    // Faults in objects with a secret: the message does not show the secret.
    for (method, path, body) in [
        ("PUT", "consumers", json!({"username": "john", "plugins": {"key-auth": {"key": CONSUMER_KEY}}})),
        ("PUT", "consumers", json!({"username": "john", "plugins": {"key-auth": {"key": [CONSUMER_KEY]}}})),
        ("PUT", "consumers", json!({"username": "john", "plugins": {"key-auth": {"keys": CONSUMER_KEY}}})),
        ("PUT", "consumers", json!({"username": "john", "plugins": {"no-such": {"key": CONSUMER_KEY}}})),
        ("PUT", "consumers/jack/credentials/c", json!({"plugins": {"key-auth": {"key": CONSUMER_KEY}}})),
        (
            "PUT",
            "consumers/jack/credentials/c",
            json!({"plugins": {"key-auth": {"key": {"a": CONSUMER_KEY}}}}),
        ),
    ] {
        let response = weir.admin_raw(method, path, &[("X-API-KEY", ADMIN_KEY)], body.to_string().as_bytes());
        if response.status >= 300 {
            check("an error of the Admin API", &all_of(&response));
        }
    }
    // Wrong keys, in every place where a key is read.
    check("a refusal", &all_of(&weir.admin_raw("GET", "routes", &[("X-API-KEY", WRONG_KEY)], b"")));
    check(
        "a refusal",
        &all_of(&weir.admin_raw("GET", "routes", &[("Cookie", &format!("x_api_key={WRONG_KEY}"))], b"")),
    );
    check("a refusal", &all_of(&weir.admin_raw("GET", &format!("routes?api_key={WRONG_KEY}"), &[], b"")));
    assert_eq!(weir.admin_raw("GET", &format!("routes?api_key={ADMIN_KEY}"), &[], b"").status, 200);
    let ask = |headers: &[(&str, &str)]| weir.client().request("GET", "/a", headers, b"");
    check("a refusal", &all_of(&ask(&[("apikey", WRONG_KEY)])));
    check("a refusal", &all_of(&ask(&[("apikey", CONSUMER_KEY), ("apikey", CONSUMER_KEY)])));
    check("an answer", &all_of(&ask(&[("apikey", CONSUMER_KEY)])));
    check("a refusal", &all_of(&weir.client().request("GET", "/a b", &[("apikey", CONSUMER_KEY)], b"")));

    for path in [
        "/v1/schema",
        "/v1/routes",
        "/v1/services",
        "/v1/upstreams",
        "/v1/route/1",
        "/v1/plugin_metadatas",
        "/v1/healthcheck",
        "/v1/weir/log_level",
        "/v1/consumers",
    ] {
        check("the control API", &text_of(&weir, "control", path));
    }
    check("status", &text_of(&weir, "status", "/status"));
    check("metrics", &text_of(&weir, "metrics", "/apisix/prometheus/metrics"));
    wait_until("the requests are logged", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() >= 4)
    });
    check("the access log", &std::fs::read_to_string(&log).unwrap());
    check("standard output", &weir.stdout().join("\n"));
    check("the error log", &weir.stderr().join("\n"));
    assert!(!weir.stderr().is_empty(), "a log at level trace says something");
}

/// The values of references, the token of the vault, and the key of the encryption.
const RESOLVED: [&str; 4] =
    ["env-5up3r53cr3t", "vault-5up3r53cr3t", "vault-token-5up3r53cr3t", "0123456789abcdeF0123456789abcdeF"];

#[test]
fn no_log_or_dump_holds_a_resolved_secret() {
    let vault = Origin::answering(&json!({"data": {"key": RESOLVED[1]}}).to_string());
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let weir = Weir::builder(BINARY)
        .arguments(&[
            "--log-level",
            "trace",
            "--access-log",
            log.to_str().unwrap(),
            "--secret-refresh-ms",
            "100",
        ])
        .environment("JACKS_KEY", RESOLVED[0])
        .environment("VAULT_TOKEN", RESOLVED[2])
        .environment("WEIR_ENCRYPTION_KEYRING", RESOLVED[3])
        .start();
    let uri = format!("http://{}", vault.address());
    weir.put("secrets/vault/1", json!({"uri": uri, "prefix": "kv", "token": "$env://VAULT_TOKEN"}));
    let (jack, jill) = ("$env://JACKS_KEY", "$secret://vault/1/jill/key");
    for (name, key) in [("jack", jack), ("jill", jill), ("jo", "$secret://vault/1/jill/other")] {
        weir.put("consumers", json!({"username": name, "plugins": {"key-auth": {"key": key}}}));
    }
    let logger = json!({"uri": "http://127.0.0.1:1/", "auth_header": jack});
    let plugins = json!({"key-auth": {}, "http-logger": logger, "mocking": {"response_example": "ok"}});
    weir.put("routes/1", json!({"uri": "/*", "plugins": plugins}));
    let ask = |key: &str| weir.client().request("GET", "/a", &[("apikey", key)], b"");
    for key in &RESOLVED[..2] {
        wait_until("the key opens", || ask(key).status == 200);
    }
    vault.wait_for_requests(3);

    let check = |what: &str, text: &str| {
        for secret in RESOLVED {
            assert!(!text.contains(secret), "{what} holds {secret}: {text}");
        }
    };
    for path in ["routes", "consumers", "consumers/jack", "consumers/jill", "secrets", "secrets/vault/1"] {
        let response = weir.admin_raw("GET", path, &[("X-API-KEY", ADMIN_KEY)], b"");
        check("the Admin API", &all_of(&response));
    }
    for path in ["/v1/routes", "/v1/route/1", "/v1/schema", "/v1/plugin_metadatas"] {
        check("the control API", &text_of(&weir, "control", path));
    }
    let question = json!({"method": "GET", "url": "/a", "headers": [["apikey", "x"]]}).to_string();
    let explained = Client::connect(weir.address("control")).request(
        "POST",
        "/v1/weir/explain",
        &[],
        question.as_bytes(),
    );
    assert_eq!(explained.status, 200);
    check("explain", &all_of(&explained));
    check("metrics", &text_of(&weir, "metrics", "/apisix/prometheus/metrics"));
    wait_until("the requests are logged", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() >= 2)
    });
    check("the access log", &std::fs::read_to_string(&log).unwrap());
    check("the error log", &weir.stderr().join("\n"));
    let logged = weir.stderr().join("\n");
    assert!(logged.contains("jill/other leads nowhere"), "what is missing is told: {logged}");
}

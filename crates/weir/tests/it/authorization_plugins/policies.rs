//! `opa` with the real Open Policy Agent.

use serde_json::{Value, json};
use testkit::{Certificates, Opa, Origin, Reply, Signal, Step, wait_until};

use super::Stage;

/// Lets jack read, and says why it refuses others.
const GATEWAY: &str = r#"package gateway

default allow := false

allow if {
    input.request.method == "GET"
    input.request.headers["x-user"] == "jack"
    input.request.query.open == "1"
}

headers := {"X-Role": "reader", "X-Other": "no"} if allow

headers := {"Location": "/login", "X-Sizes": [1, "two"]} if not allow

reason := "log in first" if not allow

status_code := 302 if not allow
"#;

/// Refuses everything, and answers with what it was asked.
const ECHO: &str = "package echo\n\nallow := false\n\nreason := input\n";

fn ask(stage: &Stage, host: &str, policy: &str, more: Value) {
    let mut config = json!({"host": host, "policy": policy});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    stage
        .route(json!({"opa": config, "key-auth": {"anonymous_consumer": "anyone"}}), json!({"name": "shop"}));
}

#[test]
#[ignore = "make test-peers: Open Policy Agent"]
fn policy_admits_or_refuses() {
    let (stage, opa) = (Stage::new(), Opa::start(&[GATEWAY]));
    stage.consumer("anyone", json!({}));
    let host = format!("http://{}", opa.address());
    ask(&stage, &host, "gateway", json!({"send_headers_upstream": ["X-Role", "X-None"]}));
    let forged = [("X-Role", "root"), ("X-None", "forged"), ("X-User", "jack")];
    let passed = stage.get("/a?open=1", &forged);
    let seen = passed.text();
    assert!(passed.status == 200 && seen.contains("X-Role: reader\r\n"), "{seen}");
    assert!(!seen.contains("root") && !seen.contains("forged") && !seen.contains("X-Other"), "{seen}");
    let refused = stage.get("/a?open=1", &[("X-User", "jill")]);
    assert_eq!((refused.status, refused.text().as_str()), (302, "log in first"));
    assert_eq!((refused.header("location"), refused.header("x-sizes")), (Some("/login"), Some("1")));
    assert_eq!(refused.header("x-role"), None);
}

#[test]
#[ignore = "make test-peers: Open Policy Agent"]
fn policy_sees_request_and_objects() {
    let (stage, opa) = (Stage::new(), Opa::start(&[ECHO]));
    stage.consumer("anyone", json!({}));
    stage.consumer("jack", json!({"labels": {"team": "infra"}}));
    stage.weir.put("services/s", json!({"name": "billing"}));
    let host = format!("http://{}/", opa.address());
    let plugins = |more: Value| {
        let mut config = json!({"host": host, "policy": "echo"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"opa": config, "key-auth": {}})
    };
    let all = json!({"with_route": true, "with_service": true, "with_consumer": true});
    stage.route(plugins(all), json!({"name": "shop", "service_id": "s"}));
    let asked = |headers: &[(&str, &str)]| -> Value {
        let response = stage.get("/a//b?x=1&x=2", headers);
        assert_eq!(response.status, 403);
        response.json()
    };
    let input = asked(&[("apikey", "jack-key")]);
    assert_eq!((&input["type"], &input["request"]["method"]), (&json!("http"), &json!("GET")));
    assert_eq!(input["request"]["path"], "/a/b");
    assert_eq!(input["request"]["query"], json!({"x": ["1", "2"]}));
    assert_eq!(input["var"]["remote_addr"], "127.0.0.1");
    assert!(input["var"]["timestamp"].as_u64().is_some_and(|seconds| seconds > 1_700_000_000), "{input}");
    assert_eq!((&input["route"]["name"], &input["route"]["upstream"]), (&json!("shop"), &Value::Null));
    assert_eq!(input["service"]["name"], "billing");
    assert_eq!(input["consumer"]["username"], "jack");
    assert_eq!(input["consumer"]["labels"], json!({"team": "infra"}));
    assert_eq!(input["consumer"]["plugins"]["key-auth"]["key"], "jack-key");
    stage.route(plugins(json!({})), json!({"service_id": "s"}));
    let input = asked(&[("apikey", "jack-key")]);
    for name in ["route", "service", "consumer"] {
        assert_eq!(input.get(name), None);
    }
    // A change of an object is in the next question.
    stage.route(plugins(json!({"with_route": true})), json!({"name": "shop"}));
    assert_eq!(asked(&[("apikey", "jack-key")])["route"]["name"], "shop");
    stage.route(plugins(json!({"with_route": true})), json!({"name": "office"}));
    assert_eq!(asked(&[("apikey", "jack-key")])["route"]["name"], "office");
}

#[test]
#[ignore = "make test-peers: Open Policy Agent"]
fn policy_server_is_verified_over_tls() {
    let (certificates, other) = (Certificates::make(), Certificates::make());
    let authority = certificates.authority();
    let stage = Stage::with(&["--trusted-certificates", authority.to_str().unwrap()]);
    stage.consumer("anyone", json!({}));
    let (good, bad) = (Opa::start_with_tls(&[ECHO], &certificates), Opa::start_with_tls(&[ECHO], &other));
    let answer = |opa: &Opa, more: Value| {
        ask(&stage, &format!("https://localhost:{}", opa.address().port()), "echo", more);
        stage.get("/", &[]).text().contains("remote_addr")
    };
    assert!(answer(&good, json!({})));
    assert!(!answer(&bad, json!({})));
    assert!(answer(&bad, json!({"ssl_verify": false})));
}

#[test]
#[ignore = "make test-peers: Open Policy Agent"]
fn request_without_decision_is_refused() {
    let (stage, opa) = (Stage::new(), Opa::start(&[GATEWAY]));
    stage.consumer("anyone", json!({}));
    let check = |host: &str, policy: &str, timeout: u64, status: u16| {
        ask(&stage, host, policy, json!({"timeout": timeout}));
        let refused = stage.get("/?open=1", &[("X-User", "jack")]);
        assert_eq!((refused.status, refused.text().as_str()), (status, ""), "{host} {policy}");
    };
    let never = Signal::new();
    let waiting = never.clone();
    let slow = Origin::start(move |_| Reply::new().wait(&waiting).then(Step::Close));
    let garbage = Origin::start(|_| Reply::ok("{\"result\":"));
    let host = |origin: &Origin| format!("http://{}", origin.address());
    check(&format!("http://{}", opa.address()), "none", 60_000, 503);
    // A document of a policy that is no object.
    check(&format!("http://{}", opa.address()), "gateway/allow", 60_000, 503);
    check(&host(&garbage), "gateway", 60_000, 503);
    check(&host(&slow), "gateway", 100, 403);
    check(&format!("http://{}", Origin::nowhere()), "gateway", 60_000, 403);
    check("http://169.254.169.254", "gateway", 60_000, 403);
    never.set();
    assert_eq!(stage.origin.requests().len(), 0);
    let metrics = testkit::Client::connect(stage.weir.address("metrics")).get("/metrics").text();
    assert!(metrics.contains("weir_plugin_call_failures_total{plugin=\"opa\"} 6"), "{metrics}");
    wait_until("the error log says what failed", || {
        let log = stage.weir.stderr().join("\n");
        ["there is no `result`", "is no object", "is no JSON", "outbound_timeout", "outbound_forbidden"]
            .iter()
            .all(|word| log.contains(word))
    });
}

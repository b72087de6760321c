//! Providers that are down, slow, or answer what they should not.

use std::thread;

use serde_json::json;
use testkit::{Reply, Signal, wait_until};

use super::*;

/// A provider with a discovery document that `script` answers for, and its URL.
fn faulty(script: impl Fn(&testkit::Request) -> Reply + Send + Sync + 'static) -> (Origin, String) {
    let origin = Origin::start(script);
    let url = format!("http://{}/.well-known/openid-configuration", origin.address());
    (origin, url)
}

#[test]
fn provider_that_is_down_gives_the_contracts_status() {
    let stage = Stage::new();
    let nowhere = format!("http://{}/.well-known/openid-configuration", Origin::nowhere());
    stage.route(&nowhere, json!({}));
    let status = |path: &str| stage.browser().step(&format!("{APP}{path}")).response.status;
    assert_eq!(
        [status("/app"), status("/logout"), status("/app/.apisix/redirect?code=a&state=b")],
        [500, 503, 500]
    );
    stage.route(&nowhere, json!({"bearer_only": true, "use_jwks": true}));
    let (status, challenge) = stage.bearer("a.b.c");
    assert_eq!(status, 401);
    assert!(challenge.contains("error_description=\"issuer validation unavailable\""), "{challenge}");
    stage.route(&nowhere, json!({"bearer_only": true}));
    assert_eq!(stage.bearer("t").0, 401);
    wait_until("the fault is logged with the server", || {
        stage.weir.stderr().iter().any(|line| line.contains("accessing discovery url failed"))
    });
    let metrics = testkit::Client::connect(stage.weir.address("metrics")).get("/metrics").text();
    let counted = metrics
        .lines()
        .find_map(|line| line.strip_prefix("weir_plugin_call_failures_total{plugin=\"openid-connect\"} "));
    assert!(counted.is_some_and(|count| count.parse::<u64>().unwrap() > 0), "{metrics}");
    // The provider is not asked again by every request at once, but it is asked again.
    let provider = provider();
    stage.route(&provider.discovery(), json!({}));
    assert_eq!(stage.browser().step(&format!("{APP}/app")).response.status, 302);
}

#[test]
fn garbage_of_the_provider_is_refused() {
    let stage = Stage::new();
    for body in [
        "<html>",
        "[]",
        "{}",
        r#"{"issuer":"x"}"#,
        r#"{"issuer":"x","authorization_endpoint":"javascript:alert(1)"}"#,
    ] {
        let (_origin, url) = faulty(move |_| Reply::ok(body));
        stage.route(&url, json!({}));
        assert_eq!(stage.browser().step(&format!("{APP}/app")).response.status, 500, "{body}");
    }
    let (_origin, url) = faulty(|_| Reply::status(302, ""));
    stage.route(&url, json!({}));
    assert_eq!(stage.browser().step(&format!("{APP}/app")).response.status, 500);
}

#[test]
fn slow_provider_delays_only_its_own_requests() {
    let (stage, go) = (Stage::new(), Signal::new());
    let gate = go.clone();
    let (slow, url) =
        faulty(move |_| Reply::new().wait(&gate).send("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"));
    stage.route(&url, json!({}));
    let nodes = json!({stage.origin.address().to_string(): 1});
    stage.weir.put("routes/2", json!({"uri": "/free", "upstream": {"nodes": nodes}}));
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let mut browser = stage.browser();
            thread::spawn(move || browser.step(&format!("{APP}/app")).response.status)
        })
        .collect();
    slow.wait_for_requests(1);
    assert_eq!(stage.weir.client().get("/free").status, 200);
    go.set();
    for waiting in waiting {
        assert_eq!(waiting.join().unwrap(), 500);
    }
    // One request has asked for all.
    assert_eq!(slow.requests().len(), 1);
}

#[test]
fn late_provider_is_given_up_after_the_timeout() {
    let (stage, go) = (Stage::new(), Signal::new());
    let gate = go.clone();
    let (_slow, url) = faulty(move |_| Reply::new().wait(&gate).close());
    stage.route(&url, json!({"timeout": 1}));
    assert_eq!(stage.browser().step(&format!("{APP}/app")).response.status, 500);
    go.set();
}

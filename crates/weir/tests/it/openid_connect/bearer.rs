//! Bearer tokens: verified with the keys of the provider, and introspected.

use serde_json::json;
use testkit::{Client, Reply};

use super::*;

/// A signed access token of the provider's client `api`.
fn api_token(provider: &OpenidProvider) -> String {
    let address = provider.issuer().strip_prefix("http://").unwrap().parse().unwrap();
    let basic = format!("Basic {}", BASE64.encode(format!("api:{SECRET}").as_bytes()));
    let fields = [("Authorization", &*basic), ("Content-Type", "application/x-www-form-urlencoded")];
    let form = b"grant_type=client_credentials&scope=read";
    let answer = Client::connect(address).request("POST", "/token", &fields, form);
    answer.json()["access_token"].as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
}

#[test]
fn bearer_token_is_verified_with_the_providers_keys() {
    let (stage, provider) = (Stage::new(), provider());
    let rules = |more: Value| {
        let mut all = json!({"bearer_only": true, "use_jwks": true, "client_secret": null, "session": null});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        stage.route(&provider.discovery(), all);
    };
    rules(json!({}));
    let token = api_token(&provider);
    let value = format!("bearer {token}");
    let answer = stage.weir.client().request(
        "GET",
        "/api",
        &[("Authorization", &value), ("X-Userinfo", "forged")],
        b"",
    );
    let page = Page { url: String::new(), response: answer };
    assert_eq!(page.response.status, 200, "{}", page.response.text());
    assert_eq!(received_json(&page, "X-Userinfo")["aud"], "gw");
    assert_eq!(received(&page, "X-Access-Token").as_deref(), Some(&*token));
    let other_field = stage.weir.client().request("GET", "/api", &[("X-Access-Token", &token)], b"");
    assert_eq!(other_field.status, 200);

    let refused = |token: &str, description: &str| {
        let (status, challenge) = stage.bearer(token);
        let expected =
            format!("Bearer realm=\"apisix\", error=\"invalid_token\", error_description=\"{description}");
        assert!(status == 401 && challenge.starts_with(&expected), "{status} {challenge}");
    };
    refused(&with_claim(&token, "sub", json!("root")), "jwt signature verification failed\"");
    refused("a.b.c", "invalid jwt: ");
    refused("opaque", "invalid jwt: ");
    let [none, hmac] = ["none", "HS256"].map(|algorithm| {
        let header = BASE64URL_NOPAD.encode(format!("{{\"alg\":\"{algorithm}\"}}").as_bytes());
        format!("{header}.{}.", token.split('.').nth(1).unwrap())
    });
    refused(&none, "token uses 'none' alg");
    refused(&hmac, "jwt signature verification failed: the token is not signed by a public key");
    for authorization in [&["Bearer"][..], &["Bearer a", "Bearer b"]] {
        let fields: Vec<(&str, &str)> = authorization.iter().map(|value| ("Authorization", *value)).collect();
        assert_eq!(stage.weir.client().request("GET", "/api", &fields, b"").status, 400, "{authorization:?}");
    }
    let missing = stage.weir.client().get("/api");
    assert_eq!((missing.status, missing.header("www-authenticate")), (401, Some("Bearer realm=\"apisix\"")));

    rules(json!({"claim_validator": {"issuer": {"valid_issuers": ["https://other.example"]}}}));
    refused(&token, "jwt verification failed: claim iss");
    rules(json!({"token_signing_alg_values_expected": "ES256"}));
    refused(&token, "token is signed by unexpected algorithm");
    rules(json!({"claim_schema": {"type": "object", "required": ["department"]}}));
    refused(&token, "");
}

#[test]
fn scope_and_audience_of_a_bearer_token_are_required() {
    let (stage, provider) = (Stage::new(), provider());
    let token = api_token(&provider);
    let value = format!("Bearer {token}");
    let check = |more: Value, expected: u16, error: Option<&str>| {
        let mut all = json!({"bearer_only": true, "use_jwks": true});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        stage.route(&provider.discovery(), all);
        let answer = stage.weir.client().request("GET", "/api", &[("Authorization", &value)], b"");
        assert_eq!(answer.status, expected, "{more} {}", answer.text());
        assert!(error.is_none_or(|error| answer.json() == json!({"error": error})), "{}", answer.text());
    };
    check(json!({"required_scopes": ["read"]}), 200, None);
    check(
        json!({"required_scopes": ["read", "admin"]}),
        403,
        Some("required scopes read, admin not present"),
    );
    check(json!({"claim_validator": {"audience": {"match_with_client_id": true}}}), 200, None);
    let wrong = json!({"client_id": "gw2", "claim_validator": {"audience": {"match_with_client_id": true}}});
    check(wrong, 403, Some("mismatched audience"));
    let missing = json!({"claim_validator": {"audience": {"claim": "audiences", "required": true}}});
    check(missing, 403, Some("required audience claim not present"));
}

#[test]
fn introspected_token_is_kept_until_it_expires() {
    let stage = Stage::new();
    let endpoint = Origin::start(|request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        match &*body {
            "token=good" => Reply::ok(r#"{"active":true,"exp":4102444800,"scope":"read","sub":"alice"}"#),
            "token=short" => Reply::ok(r#"{"active":true,"scope":"read"}"#),
            "token=gone" => Reply::ok(r#"{"active":false}"#),
            "token=garbage" => Reply::ok("<html>"),
            _ => Reply::status(500, ""),
        }
    });
    let rules = |more: Value| {
        let mut all = json!({
            "bearer_only": true, "introspection_endpoint": format!("http://{}/i", endpoint.address()),
            "required_scopes": ["read"], "introspection_addon_headers": ["X-Tenant"],
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        stage.route("http://127.0.0.1:9/", all);
    };
    rules(json!({}));
    let status = |token: &str| stage.bearer(token).0;
    assert_eq!([status("good"), status("good"), endpoint.requests().len() as u16], [200, 200, 1]);
    let basic = format!("Basic {}", BASE64.encode(format!("gw:{SECRET}").as_bytes()));
    assert_eq!(endpoint.last_request().header("authorization"), Some(&*basic));
    // Without a time of expiry nothing is kept.
    assert_eq!([status("short"), status("short"), endpoint.requests().len() as u16], [200, 200, 3]);
    let refused = |token: &str, description: &str| {
        let (status, challenge) = stage.bearer(token);
        assert!(status == 401 && challenge.contains(description), "{status} {challenge}");
        assert!(!challenge.contains("127.0.0.1"), "{challenge}");
    };
    refused("gone", "error_description=\"invalid token\"");
    refused("garbage", "error_description=\"token introspection unavailable\"");
    refused("failing", "error_description=\"token introspection unavailable\"");
    // A change of the route that does not concern it keeps the table; another segment has entries of its own.
    let asked = endpoint.requests().len();
    rules(json!({"set_userinfo_header": false}));
    assert_eq!((status("good"), endpoint.requests().len()), (200, asked));
    rules(json!({"cache_segment": "other"}));
    assert_eq!((status("good"), endpoint.requests().len()), (200, asked + 1));
    let fields = [("Authorization", "Bearer good"), ("X-Tenant", "t1")];
    assert_eq!(stage.weir.client().request("GET", "/api", &fields, b"").status, 200);
    assert_eq!(endpoint.last_request().header("x-tenant"), Some("t1"));
}

#[test]
fn session_counts_where_a_bearer_token_is_missing() {
    let (stage, provider) = (Stage::new(), provider());
    stage.route(&provider.discovery(), json!({"use_jwks": true}));
    let mut browser = stage.browser();
    assert_eq!(log_in(&mut browser, &format!("{APP}/app"), "alice").response.status, 200);
    assert_eq!(stage.bearer(&api_token(&provider)).0, 200);
    assert_eq!(stage.bearer("wrong").0, 401);
    let basic = stage.weir.client().request("GET", "/api", &[("Authorization", "Basic eDp5")], b"");
    assert_eq!(basic.status, 302);
}

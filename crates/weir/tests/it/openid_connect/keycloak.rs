//! The same with Keycloak, which most installations have.

use serde_json::json;
use testkit::Keycloak;

use super::*;

/// A realm of this name with the client `gw`, the client `cli` with tokens for `gw`, and the user alice.
fn realm(name: &str) -> (&'static Keycloak, String) {
    let keycloak = Keycloak::shared();
    let mut cli = Keycloak::client("cli", SECRET);
    cli["protocolMappers"] = json!([{
        "name": "for the gateway", "protocol": "openid-connect", "protocolMapper": "oidc-audience-mapper",
        "config": {"included.client.audience": "gw", "access.token.claim": "true"},
    }]);
    keycloak.add_realm(&json!({
        "realm": name, "enabled": true, "sslRequired": "none",
        "clients": [Keycloak::client("gw", SECRET), cli, Keycloak::client("other", SECRET)],
        "users": [Keycloak::user("alice", "pw", &[])],
    }));
    (keycloak, format!("{}/.well-known/openid-configuration", keycloak.realm(name)))
}

/// An access token of alice for this client.
fn token(keycloak: &Keycloak, realm: &str, client: &str) -> String {
    let form = format!(
        "grant_type=password&client_id={client}&client_secret={SECRET}&username=alice&password=pw&scope=openid"
    );
    keycloak.token(realm, &form)
}

#[test]
#[ignore = "make test-peers: Keycloak"]
fn keycloak_login_renewal_and_logout() {
    let (keycloak, discovery) = realm("login");
    let stage = Stage::new();
    let more = json!({
        "use_pkce": true, "use_nonce": true, "post_logout_redirect_uri": format!("{APP}/bye"),
        "revoke_tokens_on_logout": true, "set_raw_id_token_header": true, "required_scopes": ["email"],
    });
    stage.route(&discovery, more.clone());
    let mut browser = stage.browser();
    let url = format!("{APP}/app?x=1");
    let page = log_in(&mut browser, &url, "alice");
    assert_eq!((page.response.status, &*page.url), (200, &*url));
    assert_eq!(received_json(&page, "X-Userinfo")["preferred_username"], "alice");
    assert_eq!(received_json(&page, "X-ID-Token")["email"], "alice@example.test");
    let first = received(&page, "X-Access-Token").unwrap();
    assert_eq!(received(&browser.step(&url), "X-Access-Token"), Some(first.clone()));

    let mut always = more;
    always["access_token_expires_leeway"] = json!(100_000);
    stage.route(&discovery, always.clone());
    // The session says when its token expires; the first login with this setting has one that is renewed at
    // once.
    let mut fresh = stage.browser();
    let callback = callback(&mut fresh, &url, "alice");
    fresh.step(&callback);
    let [before, after] = [(); 2].map(|()| received(&fresh.step(&url), "X-Access-Token").unwrap());
    assert!(before != after && before.split('.').count() == 3);

    let out = browser.step(&format!("{APP}/logout"));
    let end = out.location().unwrap();
    assert!(
        end.starts_with(&format!(
            "{}/protocol/openid-connect/logout?id_token_hint=",
            keycloak.realm("login")
        ))
    );
    // Keycloak knows the session by the hint and sends the browser back without a question.
    assert_eq!(browser.step(&end).location().as_deref(), Some(&*format!("{APP}/bye")));
    let form = browser.visit(&url);
    assert!(form.response.text().contains("name=\"password\""), "alice is still logged in at Keycloak");
    stage.route(&discovery, json!({"required_scopes": ["admin"]}));
    assert_eq!(fresh.step(&url).response.status, 403);
}

#[test]
#[ignore = "make test-peers: Keycloak"]
fn keycloak_bearer_tokens_by_keys_and_introspection() {
    let (keycloak, discovery) = realm("bearer");
    let stage = Stage::new();
    let [for_gateway, own, other] = ["cli", "gw", "other"].map(|client| token(keycloak, "bearer", client));
    let audience = json!({"audience": {"required": true, "match_with_client_id": true}});
    for verifies in [true, false] {
        let more = json!({"bearer_only": true, "use_jwks": verifies, "claim_validator": audience, "required_scopes": ["email"]});
        stage.route(&discovery, more);
        let statuses = [&for_gateway, &other].map(|token| stage.bearer(token).0);
        assert_eq!(statuses, [200, 403], "verifies: {verifies}");
        assert_eq!(stage.bearer(&with_claim(&for_gateway, "sub", json!("x"))).0, 401);
    }
    // A public key in place of those of the provider.
    let certs = format!("{}/protocol/openid-connect/certs", keycloak.realm("bearer"));
    let keys = Browser::new().step(&certs).response.json();
    let signing = keys["keys"].as_array().unwrap().iter().find(|key| key["use"] == "sig").unwrap().clone();
    let certificate = format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        signing["x5c"][0].as_str().unwrap()
    );
    stage.route(&discovery, json!({"bearer_only": true, "public_key": certificate}));
    assert_eq!([&own, &with_claim(&own, "sub", json!("x"))].map(|token| stage.bearer(token).0), [200, 401]);
    // The tokens of another realm have another issuer and other keys.
    let (_, foreign) = realm("foreign");
    stage.route(&foreign, json!({"bearer_only": true, "use_jwks": true}));
    assert_eq!(stage.bearer(&own).0, 401);
}

//! The ways in which the gateway authenticates at the provider.

use serde_json::json;

use super::*;

#[test]
fn every_client_authentication_method_works() {
    let (stage, provider) = (Stage::new(), provider());
    let check = |more: Value| {
        stage.route(&provider.discovery(), more.clone());
        let page = log_in(&mut stage.browser(), &format!("{APP}/app"), "alice");
        assert_eq!(page.response.status, 200, "{more} {}", provider.log());
        assert_eq!(received_json(&page, "X-Userinfo")["sub"], "alice");
    };
    check(json!({"client_id": "post", "token_endpoint_auth_method": "client_secret_post"}));
    check(json!({"client_id": "jwt", "token_endpoint_auth_method": "client_secret_jwt"}));
    check(json!({
        "client_id": "key", "token_endpoint_auth_method": "private_key_jwt", "client_secret": null,
        "client_rsa_private_key": provider.client_key(), "client_rsa_private_key_id": "client-key",
        "client_jwt_assertion_audience": provider.issuer(),
    }));
    check(json!({"client_id": "public", "client_secret": null, "use_pkce": true}));
}

#[test]
fn pushed_request_leaves_no_parameters_in_the_url() {
    let (stage, provider) = (Stage::new(), provider());
    stage.route(&provider.discovery(), json!({"par": {"enabled": true}, "use_pkce": true}));
    let mut browser = stage.browser();
    let url = browser.step(&format!("{APP}/app")).location().unwrap();
    assert!(parameter(&url, "request_uri").is_some() && parameter(&url, "client_id") == Some("gw"), "{url}");
    assert!(parameter(&url, "state").is_none() && parameter(&url, "redirect_uri").is_none(), "{url}");
    for (client, method) in
        [("gw", "client_secret_basic"), ("post", "client_secret_post"), ("jwt", "client_secret_jwt")]
    {
        let client =
            json!({"client_id": client, "token_endpoint_auth_method": method, "par": {"enabled": true}});
        stage.route(&provider.discovery(), client);
        let page = log_in(&mut stage.browser(), &format!("{APP}/app"), "alice");
        assert_eq!(page.response.status, 200, "{method} {}", provider.log());
    }
}

#[test]
fn configured_redirect_uri_and_parameters_are_used() {
    let (stage, provider) = (Stage::new(), provider());
    let more = json!({
        "redirect_uri": "/cb", "authorization_params": {"ui_locales": "de", "max_age": 600},
        "session": {"secret": "0123456789abcdef", "cookie_name": "sid", "cookie_same_site": "Strict"},
        "session_contents": {"access_token": true, "user": true}, "access_token_in_authorization_header": true,
    });
    stage.route(&provider.discovery(), more);
    let mut browser = stage.browser();
    let start = browser.step(&format!("{APP}/elsewhere/x"));
    let cookie = start.response.header("set-cookie").unwrap().to_owned();
    assert!(
        cookie.starts_with("sid=1.") && cookie.ends_with("; Path=/; SameSite=Strict; HttpOnly"),
        "{cookie}"
    );
    let url = start.location().unwrap();
    assert_eq!(parameter(&url, "redirect_uri"), Some("http%3A%2F%2Fapp.example%2Fcb"));
    assert_eq!((parameter(&url, "ui_locales"), parameter(&url, "max_age")), (Some("de"), Some("600")));
    let page = log_in(&mut browser, &format!("{APP}/elsewhere/x"), "alice");
    assert_eq!(page.url, format!("{APP}/elsewhere/x"));
    assert!(received(&page, "Authorization").unwrap().starts_with("Bearer "));
    // Parts that the session does not hold are not sent.
    assert_eq!((received(&page, "X-Access-Token"), received(&page, "X-ID-Token")), (None, None));
    assert_eq!(received_json(&page, "X-Userinfo")["sub"], "alice");
}

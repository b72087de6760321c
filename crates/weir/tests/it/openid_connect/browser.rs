//! The authorization code flow, sessions and the logout.

use serde_json::json;

use super::*;

#[test]
fn browser_logs_in_and_node_sees_the_user() {
    let (stage, provider) = (Stage::new(), provider());
    let more = json!({"use_pkce": true, "use_nonce": true, "set_raw_id_token_header": true, "set_refresh_token_header": true});
    stage.route(&provider.discovery(), more);
    let mut browser = stage.browser();
    let start = browser.step(&format!("{APP}/app?x=1&y=%2F"));
    assert_eq!(start.response.header("cache-control"), Some("no-cache, no-store, max-age=0"));
    let url = start.location().unwrap();
    assert!(url.starts_with(&format!("{}/auth?", provider.issuer())), "{url}");
    assert_eq!(parameter(&url, "redirect_uri"), Some("http%3A%2F%2Fapp.example%2Fapp%2F.apisix%2Fredirect"));
    assert_eq!(parameter(&url, "code_challenge_method"), Some("S256"));
    assert!(parameter(&url, "nonce").is_some() && parameter(&url, "state").is_some(), "{url}");

    let form = browser.follow(start);
    let callback = browser.log_in(form, "alice", "pw", APP);
    let back = browser.step(&callback);
    assert_eq!(back.response.header("location"), Some("/app?x=1&y=%2F"), "{}", provider.log());
    let page = browser
        .step_with(&format!("{APP}/app?x=1"), &[("X-Userinfo", "forged"), ("X-Raw-ID-Token", "forged")]);
    assert_eq!(page.response.status, 200);
    assert_eq!(received_json(&page, "X-ID-Token")["sub"], "alice");
    assert_eq!(received_json(&page, "X-Userinfo")["email"], "alice@example.test");
    assert!(!page.response.text().contains("forged"), "{}", page.response.text());
    // No new cookie for every request.
    assert_eq!(page.response.header("set-cookie"), None);

    let secrets =
        ["X-Access-Token", "X-Raw-ID-Token", "X-Refresh-Token"].map(|name| received(&page, name).unwrap());
    for cookie in browser.cookies().iter().filter(|cookie| cookie.name.starts_with("session")) {
        assert!(!secrets.iter().any(|secret| cookie.value.contains(secret)), "a token is legible");
        assert!(cookie.value.len() < 4_096 && cookie.host == "app.example");
    }
}

#[test]
fn callback_is_bound_to_browser_and_used_once() {
    let (stage, provider) = (Stage::new(), provider());
    stage.route(&provider.discovery(), json!({}));
    let mut victim = stage.browser();
    let url = callback(&mut victim, &format!("{APP}/app?victim"), "alice");
    // A browser without a session, such as one that was sent a link.
    assert_eq!(stage.browser().step(&url).response.status, 500);
    // A browser with a login of its own under way begins that one anew, a few times.
    let mut other = stage.browser();
    other.step(&format!("{APP}/app?other"));
    for _ in 0..3 {
        let back = other.step(&url);
        assert_eq!((back.response.status, back.response.header("location")), (302, Some("/app?other")));
    }
    assert_eq!(other.step(&url).response.status, 500);
    // The browser that it is for; afterwards its state is used up.
    let mut before = victim.clone();
    assert_eq!(victim.visit(&url).response.status, 200);
    let replayed = victim.step(&url);
    assert_eq!((replayed.response.status, replayed.response.header("location")), (302, Some("/app?victim")));
    // With the cookie of that time the state fits, and the provider refuses the used code.
    assert_eq!(before.step(&url).response.status, 500);
    assert_eq!(before.step(&url).response.header("location"), Some("/app?victim"), "the state is used up");
    let error = format!("{APP}/app/.apisix/redirect?error=access_denied&state=x");
    assert_eq!(victim.step(&error).response.status, 500);
}

#[test]
fn changed_or_foreign_cookie_means_a_new_login() {
    let (stage, provider) = (Stage::new(), provider());
    stage.route(&provider.discovery(), json!({}));
    let mut browser = stage.browser();
    assert_eq!(log_in(&mut browser, &format!("{APP}/app"), "alice").response.status, 200);
    for index in [10, 400, 900] {
        let mut tampered = browser.clone();
        let cookie = tampered.cookies().iter_mut().find(|cookie| cookie.name == "session").unwrap();
        let other = if cookie.value.as_bytes()[index] == b'A' { "B" } else { "A" };
        cookie.value.replace_range(index..=index, other);
        assert_eq!(tampered.step(&format!("{APP}/app")).response.status, 302, "{index}");
    }
    // The session belongs to the client and to the secret.
    let page = |browser: &Browser| browser.clone().step(&format!("{APP}/app")).response.status;
    assert_eq!(page(&browser), 200);
    stage.route(
        &provider.discovery(),
        json!({"client_id": "post", "token_endpoint_auth_method": "client_secret_post"}),
    );
    assert_eq!(page(&browser), 302);
    stage.route(&provider.discovery(), json!({"session": {"secret": "fedcba9876543210"}}));
    assert_eq!(page(&browser), 302);
}

#[test]
fn expired_token_is_renewed_once_for_all_requests() {
    let (stage, provider) = (Stage::new(), provider());
    // Each access token counts as expired at once.
    let always = json!({"access_token_expires_leeway": 100_000, "set_refresh_token_header": true});
    stage.route(&provider.discovery(), always.clone());
    let mut browser = stage.browser();
    let url = format!("{APP}/app");
    let callback = callback(&mut browser, &url, "alice");
    browser.step(&callback);
    let mut second = browser.clone();
    let first = browser.step(&url);
    assert_eq!((first.response.status, first.response.header_all("set-cookie").is_empty()), (200, false));
    // The provider takes a refresh token once; the second request with the old one has the same answer.
    let at_once = second.step(&url);
    assert_eq!(at_once.response.status, 200);
    assert_eq!(received(&at_once, "X-Access-Token"), received(&first, "X-Access-Token"));
    let next = browser.step(&url);
    assert_ne!(received(&next, "X-Access-Token"), received(&first, "X-Access-Token"));
    assert_ne!(received(&next, "X-Refresh-Token"), received(&first, "X-Refresh-Token"));

    let mut never = always;
    never["renew_access_token_on_expiry"] = json!(false);
    stage.route(&provider.discovery(), never);
    let page = browser.step(&url);
    assert_eq!((page.response.status, received(&page, "X-Access-Token")), (200, None));
}

#[test]
fn logout_ends_the_session_here_and_there() {
    let (stage, provider) = (Stage::new(), provider());
    let more = json!({
        "revoke_tokens_on_logout": true, "post_logout_redirect_uri": format!("{APP}/bye"),
        "access_token_expires_leeway": 100_000, "logout_path": "/leave",
    });
    stage.route(&provider.discovery(), more.clone());
    let mut browser = stage.browser();
    assert_eq!(log_in(&mut browser, &format!("{APP}/app"), "alice").response.status, 200);
    let (mut copy, mut denied) = (browser.clone(), browser.clone());
    let out = browser.step(&format!("{APP}/leave"));
    let url = out.location().unwrap();
    assert!(url.starts_with(&format!("{}/session/end?id_token_hint=", provider.issuer())), "{url}");
    assert_eq!(parameter(&url, "post_logout_redirect_uri"), Some("http%3A%2F%2Fapp.example%2Fbye"));
    assert!(!browser.cookies().iter().any(|cookie| cookie.name.starts_with("session")));
    let confirm = browser.step(&url);
    assert_eq!(confirm.response.status, 200, "{}", confirm.response.text());
    // Its tokens are revoked: a copy of the cookie cannot renew them.
    assert_eq!(copy.step(&format!("{APP}/app")).response.status, 302);
    assert_eq!(browser.step(&format!("{APP}/app")).response.status, 302);
    // The refused refresh token leaves the session, so that it is not sent with every request.
    let mut deny = more;
    deny["unauth_action"] = json!("deny");
    stage.route(&provider.discovery(), deny);
    for is_written in [true, false] {
        let page = denied.step(&format!("{APP}/app"));
        let written = page.response.header("set-cookie").is_some();
        assert_eq!((page.response.status, written), (401, is_written));
    }
}

#[test]
fn unauth_action_decides_without_a_session() {
    let (stage, provider) = (Stage::new(), provider());
    stage.route(&provider.discovery(), json!({"unauth_action": "deny"}));
    let forged = [("X-Userinfo", "forged"), ("X-Access-Token", "forged")];
    assert_eq!(stage.browser().step_with(&format!("{APP}/app"), &forged).response.status, 401);
    stage.route(&provider.discovery(), json!({"unauth_action": "pass"}));
    let page = stage.browser().step_with(&format!("{APP}/app"), &forged);
    assert_eq!(page.response.status, 200);
    assert!(!page.response.text().contains("forged"), "{}", page.response.text());
}

#[test]
fn cookie_of_the_node_stays_beside_the_session() {
    let (stage, provider) = (Stage::new(), provider());
    let origin = Origin::start(|_| testkit::Reply::with(200, &[("Set-Cookie", "own=1")], b"served"));
    stage.route(&provider.discovery(), json!({"access_token_expires_leeway": 100_000}));
    let nodes = json!({origin.address().to_string(): 1, stage.origin.address().to_string(): null});
    let (status, _) = stage.weir.admin("PATCH", "routes/1", json!({"upstream": {"nodes": nodes}}));
    assert_eq!(status, 200);
    let mut browser = stage.browser();
    let page = log_in(&mut browser, &format!("{APP}/app"), "alice");
    let cookies = page.response.header_all("set-cookie");
    let begins = |start: &str| cookies.iter().any(|cookie| cookie.starts_with(start));
    assert!(begins("own=1") && begins("session=") && cookies.len() >= 2, "{cookies:?}");
}

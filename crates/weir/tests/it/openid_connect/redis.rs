//! Sessions in a real Redis.

use serde_json::json;
use testkit::Redis;

use super::*;

#[test]
fn session_in_redis_ends_everywhere_at_logout() {
    let (stage, provider, mut redis) = (Stage::new(), provider(), Redis::start());
    let server = json!({"host": "127.0.0.1", "port": redis.address().port(), "prefix": "weir-sessions"});
    let more = json!({
        "session": {"secret": "0123456789abcdef", "storage": "redis", "redis": server, "idling_timeout": 600},
        "set_refresh_token_header": true,
    });
    stage.route(&provider.discovery(), more);
    let mut browser = stage.browser();
    let url = format!("{APP}/app");
    let callback = callback(&mut browser, &url, "alice");
    let mut before = browser.clone();
    assert_eq!(browser.visit(&callback).response.status, 200);
    // The login has an identifier of its own, and the session before it is gone.
    let cookie = |browser: &mut Browser| {
        browser.cookies().iter().find(|cookie| cookie.name == "session").unwrap().value.clone()
    };
    assert_ne!(cookie(&mut before), cookie(&mut browser));
    assert!(cookie(&mut browser).len() < 60, "{}", cookie(&mut browser));
    assert_eq!(before.step(&callback).response.status, 500);

    let page = browser.step(&url);
    assert_eq!((page.response.status, page.response.header("set-cookie")), (200, None));
    let token = received(&page, "X-Refresh-Token").unwrap();
    let keys = redis.cli(&["KEYS", "*"]);
    assert!(keys.starts_with("weir-sessions:") && keys.lines().count() == 1, "{keys}");
    let key = keys.lines().next().unwrap();
    let kept = redis.cli(&["GET", key]);
    assert!(!kept.contains(&token) && !key.contains(&cookie(&mut browser)[2..]), "{kept}");
    let left: u64 = redis.cli(&["TTL", key]).trim().parse().unwrap();
    assert!((1..=600).contains(&left), "{left}");

    let mut copy = browser.clone();
    assert_eq!(copy.step(&url).response.status, 200);
    assert_eq!(browser.step(&format!("{APP}/logout")).response.status, 302);
    assert_eq!(redis.cli(&["KEYS", "*"]).trim(), "");
    assert_eq!(copy.step(&url).response.status, 302);

    redis.kill();
    assert_eq!(copy.step(&url).response.status, 500);
    redis.restart();
    assert_eq!(log_in(&mut stage.browser(), &url, "alice").response.status, 200);
}

//! Cookies of a session: what a browser receives, and what is accepted from it.

use exchange::testing::Scene;
use serde_json::json;

use super::*;
use crate::openid_connect::session::SessionLogin;
use crate::shared::attributes::Attribute;

fn settings(fields: serde_json::Value) -> SessionSettings {
    let mut all = json!({"secret": "0123456789abcdef"});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    SessionSettings::read(all).unwrap()
}

fn jar(fields: serde_json::Value) -> Jar {
    Jar::new(&settings(fields), "gw", "https://op")
}

fn session(token_bytes: usize) -> OpenidSession {
    let user = jsonx::Exact::parse(br#"{"id":18446744073709551616}"#, jsonx::Bounds::SMALL).ok();
    let login = SessionLogin { access_token: Some("t".repeat(token_bytes)), user, ..SessionLogin::default() };
    OpenidSession { login: Some(login), ..OpenidSession::new(1_000) }
}

/// The request of a browser with these cookies.
fn request(cookies: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: other=1; {cookies}\r\n\r\n")
}

/// The cookies that a browser sends after these lines.
fn sent_back(lines: &[String]) -> String {
    let pairs: Vec<&str> = lines.iter().filter_map(|line| line.split(';').next()).collect();
    pairs.join("; ")
}

fn written(jar: &Jar, session: &OpenidSession, cookies: &str) -> Vec<String> {
    let mut scene = Scene::new();
    jar.write(&scene.exchange(request(cookies).as_bytes()), session).unwrap()
}

fn opened(jar: &Jar, cookies: &str) -> Option<OpenidSession> {
    let mut scene = Scene::new();
    jar.open(&scene.exchange(request(cookies).as_bytes()).request.headers, 1_010)
}

#[test]
fn session_survives_the_way_through_a_browser() {
    let jar = jar(json!({}));
    for token_bytes in [10, 4_000, 20_000] {
        let session = session(token_bytes);
        let lines = written(&jar, &session, "");
        assert!(lines.iter().all(|line| line.len() <= 4_096), "{token_bytes}");
        assert!(!lines.iter().any(|line| line.contains("tttt")), "a token is legible");
        assert_eq!(opened(&jar, &sent_back(&lines)), Some(session));
    }
    assert_eq!(written(&jar, &session(20_000), "").len(), 8);
    let mut scene = Scene::new();
    assert!(jar.write(&scene.exchange(request("").as_bytes()), &session(40_000)).is_err());
}

#[test]
fn shorter_session_removes_cookies_of_the_longer() {
    let jar = jar(json!({}));
    let before = sent_back(&written(&jar, &session(8_000), ""));
    let lines = written(&jar, &session(10), &before);
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("session=1."));
    for (line, name) in lines[1..].iter().zip(["session2=;", "session3=;"]) {
        assert!(line.starts_with(name) && line.contains("Max-Age=0"), "{line}");
    }
    let mut scene = Scene::new();
    assert_eq!(jar.remove(&scene.exchange(request(&before).as_bytes())).len(), 3);
}

#[test]
fn changed_cookie_counts_as_none() {
    let jar = jar(json!({}));
    let good = sent_back(&written(&jar, &session(8_000), ""));
    assert!(opened(&jar, &good).is_some());
    let mut bytes = good.clone().into_bytes();
    for index in ["session=3.".len() + 5, good.len() / 2, good.len() - 2] {
        let before = bytes[index];
        bytes[index] = if before == b'A' { b'B' } else { b'A' };
        assert_eq!(opened(&jar, std::str::from_utf8(&bytes).unwrap()), None, "{index}");
        bytes[index] = before;
    }
    let without_last = good.rsplit_once("; ").unwrap().0;
    for cookies in [
        without_last,
        "session=",
        "session=1.",
        "session=0.AAAA",
        "session=10.AAAA",
        "session=x.AAAA",
        "session=1.%",
    ] {
        assert_eq!(opened(&jar, cookies), None, "{cookies}");
    }
}

#[test]
fn session_belongs_to_secret_client_and_name() {
    let good = sent_back(&written(&jar(json!({})), &session(10), ""));
    let other_secret = jar(json!({"secret": "fedcba9876543210"}));
    let other_client = Jar::new(&settings(json!({})), "gw2", "https://op");
    let other_provider = Jar::new(&settings(json!({})), "gw", "https://op2");
    for other in [other_secret, other_client, other_provider] {
        assert_eq!(opened(&other, &good), None);
    }
    let renamed = jar(json!({"cookie_name": "sid"}));
    assert_eq!(opened(&renamed, &good.replace("session=", "sid=")), None);
}

#[test]
fn expired_session_counts_as_none() {
    let jar = jar(json!({"idling_timeout": 10}));
    let cookies = sent_back(&written(&jar, &session(10), ""));
    assert_eq!(opened(&jar, &cookies), None);
}

#[test]
fn attributes_follow_the_settings() {
    let check = |fields: serde_json::Value, expected: &str| {
        let lines = written(&jar(fields), &session(10), "");
        let (_, attributes) = lines[0].split_once("; ").unwrap();
        assert_eq!(attributes, expected);
    };
    check(json!({}), "Path=/; SameSite=Lax; HttpOnly");
    check(
        json!({"cookie_path": "/a", "cookie_domain": "x.example", "cookie_secure": true, "cookie_same_site": "None"}),
        "Path=/a; Domain=x.example; SameSite=None; HttpOnly; Secure",
    );
    check(json!({"cookie_http_only": false, "cookie_same_site": "Default"}), "Path=/");
}

#[test]
fn cookie_is_secure_behind_a_tls_proxy() {
    let jar = jar(json!({}));
    let mut scene = Scene::new();
    let mut check = |proto: Option<&str>, expected: bool| {
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        if let Some(proto) = proto {
            // After the fields of peers that are not trusted are removed.
            exchange.request.headers.set("X-Forwarded-Proto", proto.as_bytes()).unwrap();
        }
        let lines = jar.write(&exchange, &session(10)).unwrap();
        assert_eq!(lines[0].contains("; Secure"), expected, "{proto:?}");
    };
    check(None, false);
    check(Some("https"), true);
    check(Some("HTTPS, http"), true);
    check(Some("http"), false);
}

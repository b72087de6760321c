//! Configurations of `csrf`, the requests it refuses, and the tokens it makes.

use exchange::testing::{Scene, configuration_check, decide, finish, respond};

use super::*;

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    check(json!({"key": "k"}), None);
    check(json!({"key": "k", "expires": -1, "name": "X-CSRF"}), None);
    check(json!({}), Some("property \"key\" is required"));
    check(json!({"key": 1}), Some("key"));
    check(json!({"key": ""}), Some("key"));
    check(json!({"key": "k", "expires": 1.5}), Some("expires"));
    check(json!({"key": "k", "name": "a b"}), Some("name: `a b`"));
    check(json!({"key": "k", "name": ""}), Some("name"));
}

const CONFIG: &str = r#"{"key": "userkey", "name": "t"}"#;
/// Made by Python with the key `userkey`, at 1,900,000,000 seconds.
const LATE: &str = "eyJyYW5kb20iOjAuNDI5NDk2NzI5NiwiZXhwaXJlcyI6MTkwMDAwMDAwMCwic2lnbiI6IjljYzgwMzM1MmQ2NTlkZTE2MzU3MWY1ODFmYmFmZTJmNThjNzNkMTdjNGIyNWU1MThhNzUxZmUyNjQzODAyMTcifQ==";
/// The same at 1,000,000,000 seconds, with an exponent as APISIX writes small numbers.
const EARLY: &str = "eyJyYW5kb20iOjUuMmUtMDUsImV4cGlyZXMiOjEwMDAwMDAwMDAsInNpZ24iOiJmNmRiMWE3ODU3ZTM3MGMxZjFlNGRjNmUyMGQyZTI5OWZkOTQyODU2ZTg5MDA0YjdkN2IzNTBlMjU4ODQwNTliIn0=";

fn check(config: &str, method: &str, fields: &str, refusal: Option<&str>) {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &serde_json::from_str(config).unwrap());
    let mut exchange = scene.exchange(format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    let reply = decide(plugin.access(&mut exchange));
    let got = reply.map(|reply| (reply.status, String::from_utf8(reply.body.to_vec()).unwrap()));
    assert_eq!(
        got,
        refusal.map(|text| (401, format!("{{\"error_msg\":\"{text}\"}}\n"))),
        "{method} {fields}"
    );
}

/// A token that was made `ahead_s` seconds from now.
fn made(ahead_s: i64) -> String {
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let csrf = compile(&serde_json::from_str(CONFIG).unwrap()).unwrap();
    csrf.token(now_s.checked_add_signed(ahead_s).unwrap())
}

fn both(token: &str) -> String {
    format!("T: {token}\r\nCookie: a=b; t={token}\r\n")
}

#[test]
fn changing_requests_need_field_and_cookie() {
    for method in ["GET", "HEAD", "OPTIONS"] {
        check(CONFIG, method, "", None);
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "PROPFIND"] {
        check(CONFIG, method, "", Some("no csrf token in headers"));
        check(CONFIG, method, &both(&made(0)), None);
    }
    let check = |fields: &str, refusal: Option<&str>| check(CONFIG, "POST", fields, refusal);
    check("T:\r\n", Some("no csrf token in headers"));
    check(&format!("T: {LATE}\r\n"), Some("no csrf cookie"));
    check(&format!("T: {LATE}\r\nCookie: t=x\r\n"), Some("csrf token mismatch"));
    check(&format!("{}T: {LATE}\r\n", both(LATE)), Some("csrf token mismatch"));
    check(&format!("{}Cookie: t=x\r\n", both(LATE)), Some("csrf token mismatch"));
}

#[test]
fn token_from_the_future_is_refused() {
    let unsigned = Some("Failed to verify the csrf token signature");
    for expires in ["7200", "0"] {
        let config = format!(r#"{{"key": "userkey", "name": "t", "expires": {expires}}}"#);
        check(&config, "POST", &both(&made(30)), None);
        check(&config, "POST", &both(&made(300)), unsigned);
        check(&config, "POST", &both(LATE), unsigned);
        let csrf = compile(&serde_json::from_str(&config).unwrap()).unwrap();
        for made in ["1e308", "1e999", "32503680000"] {
            let sign = csrf.sign("0.1", made);
            let json = format!("{{\"random\":0.1,\"expires\":{made},\"sign\":\"{sign}\"}}");
            check(&config, "POST", &both(&BASE64.encode(json.as_bytes())), unsigned);
        }
    }
}

#[test]
fn token_must_be_signed_and_not_expired() {
    let unsigned = Some("Failed to verify the csrf token signature");
    check(CONFIG, "POST", &both(EARLY), unsigned);
    check(r#"{"key": "userkey", "name": "t", "expires": 0}"#, "POST", &both(EARLY), None);
    check(r#"{"key": "userkez", "name": "t"}"#, "POST", &both(&made(0)), unsigned);
    let csrf = compile(&serde_json::from_str(CONFIG).unwrap()).unwrap();
    for (now_s, is_good) in [(1_900_000_000, true), (1_900_007_200, true), (1_900_007_201, false)] {
        assert_eq!(csrf.is_good(LATE.as_bytes(), now_s), is_good, "{now_s}");
    }
    let forge = |json: &str| both(&BASE64.encode(json.as_bytes()));
    for json in [
        "[]",
        "{}",
        r#"{"random":1,"expires":"x","sign":"x"}"#,
        r#"{"random":"1","expires":1900000000,"sign":"x"}"#,
    ] {
        check(CONFIG, "POST", &forge(json), unsigned);
    }
    check(CONFIG, "POST", &both("%%%"), unsigned);
    let later = String::from_utf8(BASE64.decode(EARLY.as_bytes()).unwrap())
        .unwrap()
        .replace("1000000000", "1900000000");
    check(CONFIG, "POST", &forge(&later), unsigned);
}

#[test]
fn cookie_without_end_has_no_date() {
    let check = |expires: i64, is_dated: bool| {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &json!({"key": "k", "expires": expires}));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        respond(&mut exchange, 200, &[]);
        finish(plugin.response_head(&mut exchange));
        let cookie =
            String::from_utf8(exchange.response.headers.get("Set-Cookie").unwrap().to_vec()).unwrap();
        assert_eq!(cookie.contains("Expires="), is_dated, "{expires}: {cookie}");
    };
    for (expires, is_dated) in [(1, true), (i64::MAX, true), (0, false), (-1, false), (i64::MIN, false)] {
        check(expires, is_dated);
    }
}

#[test]
fn response_sets_a_token_that_is_accepted() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &serde_json::from_str(CONFIG).unwrap());
    let mut token = || {
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        respond(&mut exchange, 200, &[("Set-Cookie", "other=1")]);
        finish(plugin.response_head(&mut exchange));
        let cookies: Vec<&[u8]> = exchange.response.headers.get_all("Set-Cookie").collect();
        assert_eq!((cookies.len(), cookies[0]), (2, &b"other=1"[..]));
        let cookie = std::str::from_utf8(cookies[1]).unwrap().to_owned();
        let (token, rest) = cookie.strip_prefix("t=").unwrap().split_once(';').unwrap();
        assert!(rest.starts_with("path=/;SameSite=Lax;Expires=") && rest.ends_with(" GMT"), "{rest}");
        token.to_owned()
    };
    let (first, second) = (token(), token());
    assert_ne!(first, second);
    check(CONFIG, "POST", &both(&first), None);
    check(CONFIG, "POST", &both(&second), None);
    check(
        r#"{"key": "other", "name": "t"}"#,
        "POST",
        &both(&first),
        Some("Failed to verify the csrf token signature"),
    );
}

//! Configurations that `data-mask` accepts, and requests as loggers see them.

use exchange::exchange::SharedCopy;
use exchange::testing::{Scene, configuration_check, lines};
use router::vars::Template;

use super::*;

/// A rule: its part, perhaps with a format, its name and its action.
fn rule(part: &str, name: &str, action: &str, regex: &str, value: &str) -> Value {
    let (part, format) = part.split_once(' ').unwrap_or((part, ""));
    let mut rule = json!({"type": part, "name": name, "action": action});
    for (field, text) in [("body_format", format), ("regex", regex), ("value", value)] {
        if !text.is_empty() {
            rule[field] = text.into();
        }
    }
    rule
}

const CARD: &str = r"(\d+)\-\d+\-\d+\-(\d+)";
const MASKED_CARD: &str = "$1-****-****-$2";

fn rules(part: &str, names: [&str; 3]) -> Value {
    let [removed, replaced, substituted] = names;
    json!([
        rule(part, removed, "remove", "", ""),
        rule(part, replaced, "replace", "", "*****"),
        rule(part, substituted, "regex", CARD, MASKED_CARD),
    ])
}

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    let check_rule = |rule: Value, want: Option<&str>| check(json!({ "request": [rule] }), want);
    check(json!({}), None);
    check(json!({"request": [], "max_body_size": 1, "max_req_post_args": 0}), None);
    check(json!({"request": rules("query", ["a", "b", "c"])}), None);
    check(json!({"request": rules("body urlencoded", ["a", "b", "c"])}), None);
    check(json!({"request": rules("body json", ["$.a", "users[*].b", "$..c"])}), None);
    check(json!({"max_body_size": 0}), Some("max_body_size"));
    check(json!({"max_req_post_args": -1}), Some("max_req_post_args"));
    check_rule(json!({"type": "query", "name": "a"}), Some("action"));
    check_rule(json!({"type": "query", "action": "remove"}), Some("name"));
    check_rule(json!({"name": "a", "action": "remove"}), Some("type"));
    check_rule(rule("cookie", "a", "remove", "", ""), Some("type"));
    check_rule(rule("query", "a", "hide", "", ""), Some("action"));
    check_rule(rule("query", "a", "replace", "", ""), Some("allOf 3 failed"));
    check_rule(rule("query", "a", "regex", "a", ""), Some("allOf 2 failed"));
    check_rule(rule("query", "a", "regex", "", "a"), Some("allOf 2 failed"));
    check_rule(rule("query", "a", "regex", "(", "a"), Some("request[0]: regex \"(\""));
    check_rule(rule("query", "a", "regex", "a", "$x"), Some("request[0]: regex \"a\""));
    check_rule(rule("query", "a", "regex", "$env://P", "$secret://vault/1/a/b"), None);
    check_rule(rule("body", "$.a", "remove", "", ""), Some("allOf 1 failed"));
    check_rule(rule("body xml", "$.a", "remove", "", ""), Some("body_format"));
    check_rule(rule("body json", "$.a[", "remove", "", ""), Some("request[0]: name: no JSONPath"));
}

/// The text of `template` after a request with this head and body was masked.
fn masked(config: &Value, request: &str, template: &str) -> String {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, config);
    let mut exchange = scene.exchange(request.as_bytes());
    plugin.before_log(&mut exchange);
    let mut text = Vec::new();
    Template::compile(template).unwrap().render(&*exchange, &mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn query_is_masked_in_every_variable() {
    let config = json!({"request": rules("query", ["password", "token", "card"])});
    let check = |query: &str, expected: &str| {
        let request = format!("GET /a{query} HTTP/1.1\r\nHost: a\r\n\r\n");
        let uri = format!("/a{expected}");
        let got = masked(&config, &request, "$request_uri|$request|$real_request_uri|$args");
        let args = expected.trim_start_matches('?');
        assert_eq!(got, format!("{uri}|GET {uri} HTTP/1.1|{uri}|{args}"), "{query}");
    };
    check("?password=abc&token=xyz&card=1234-1234-1234-1234", "?token=*****&card=1234-****-****-1234");
    check("?a=1&password=abc&b=%2F", "?a=1&b=%2F");
    check("?password=abc", "");
    check("?a=1&b", "?a=1&b");
    check("", "");
    check("?passw%6Frd=abc&password=b", "");
    check("?token=a&b=c&token=d&token", "?token=*****&b=c");
    check("?card=1-2-3-4&card=x&card&card=5-6-7-8", "?card=1-****-****-4&card=x&card&card=5-****-****-8");
    check("?token", "?token=*****");
    let config = json!({"request": [rule("query", "a b", "replace", "", "x&y=z?")]});
    let request = "GET /?a+b=1 HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(masked(&config, request, "$request_uri"), "/?a%20b=x%26y%3Dz%3F");
}

#[test]
fn query_for_the_upstream_is_masked_too() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({"request": rules("query", ["password", "token", "card"])}));
    let mut exchange = scene.exchange(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    exchange.set_forward_query(b"password=1&b=2").unwrap();
    plugin.before_log(&mut exchange);
    assert_eq!(exchange.forward_query(), Some(&b"b=2"[..]));
}

#[test]
fn fields_are_masked() {
    let config = json!({"request": rules("header", ["Password", "x-token", "card"])});
    let check = |fields: &str, expected: &[&str]| {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &config);
        let mut exchange = scene.exchange(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        plugin.before_log(&mut exchange);
        let lines = lines(&exchange.request.headers);
        assert_eq!(lines, [&["Host: a"], expected].concat(), "{fields}");
    };
    check("password: a\r\nA: b\r\nPASSWORD: c\r\n", &["A: b"]);
    check("X-Token: a\r\nA: b\r\n", &["A: b", "x-token: *****"]);
    check("x-token: a\r\nx-token: b\r\n", &["x-token: *****"]);
    check("Card: 1-2-3-4\r\ncard: x\r\n", &["card: 1-****-****-4", "card: x"]);
    check("A: b\r\n", &["A: b"]);
}

#[test]
fn value_that_cannot_be_a_field_is_removed() {
    let config = json!({"request": [rule("header", "A", "replace", "", "b\nC: d")]});
    let request = "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n";
    assert_eq!(masked(&config, request, "[$http_a]"), "[]");
}

#[test]
fn pattern_that_gives_up_removes_the_value() {
    let config = json!({"request": [rule("query", "a", "regex", "(?<!q)[a-z]+Z$", "x")]});
    let request = format!("GET /?a={}&b=c HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(4_000));
    assert_eq!(masked(&config, &request, "$request_uri"), "/?b=c");
}

fn post(config: &Value, body: &str) -> String {
    post_with(config, "Content-Type: application/x-www-form-urlencoded\r\n", body)
}

fn post_with(config: &Value, fields: &str, body: &str) -> String {
    masked(config, &format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}"), "$request_body")
}

#[test]
fn form_is_masked() {
    let config = json!({"request": rules("body urlencoded", ["password", "token", "card"])});
    assert_eq!(
        post(&config, "password=abc&token=xyz&card=1-2-3-4&b=%20"),
        "token=*****&card=1-****-****-4&b=%20"
    );
    assert_eq!(post(&config, "a=b"), "a=b");
    let numbered = |count: usize| {
        (1..=count).map(|number| format!("arg{number}={number}")).collect::<Vec<_>>().join("&")
    };
    for (most, sent, kept) in [(10, 110, 10), (100, 100, 100), (100, 101, 100), (0, 110, 110)] {
        let config = json!({
            "request": [rule("body urlencoded", "arg10", "regex", "(\\d+)$", "$1")], "max_req_post_args": most,
        });
        assert_eq!(post(&config, &numbered(sent)), numbered(kept), "{most} {sent}");
    }
}

#[test]
fn json_is_masked() {
    let config =
        json!({"request": rules("body json", ["$.password", "users[*].token", "$.users[*].credit.card"])});
    let users = r#"[{"token":"t","credit":{"card":"1-2-3-4"}},{"token":7,"credit":{"card":5}},{"a":1}]"#;
    assert_eq!(
        post(&config, &format!(r#"{{"password":"secret","users":{users}}}"#)),
        r#"{"users":[{"token":"*****","credit":{"card":"1-****-****-4"}},{"token":"*****","credit":{"card":5}},{"a":1}]}"#
    );
    assert_eq!(post(&config, r#"{"b": [1, 2]}"#), r#"{"b": [1, 2]}"#, "nothing to mask");
    let check = |path: &str, body: &str, expected: &str| {
        let config = json!({"request": [rule("body json", path, "remove", "", "")]});
        assert_eq!(post(&config, body), expected, "{path}");
    };
    check("$.items[1]", r#"{"items":[1,2,3]}"#, r#"{"items":[1,3]}"#);
    check("$.items[*]", r#"{"items":[1,2,3]}"#, r#"{"items":[]}"#);
    check("$.items[0,2]", r#"{"items":[1,2,3]}"#, r#"{"items":[2]}"#);
    check("$.items[2,0,2]", r#"{"items":[1,2,3,4]}"#, r#"{"items":[2,4]}"#);
    check("$.items[*]", &format!("{{\"items\":{:?}}}", (0..12).collect::<Vec<_>>()), r#"{"items":[]}"#);
    check("$..a", r#"{"a":{"a":1},"b":[{"a":2},{"c":{"a":3}}]}"#, r#"{"b":[{},{"c":{}}]}"#);
    check(
        "$.pin",
        r#"{"pin":1,"id":18446744073709551616,"x":[1.50]}"#,
        r#"{"id":18446744073709551616,"x":[1.50]}"#,
    );
    check("$.pin", r#"{"pin":1,"pin":2,"a":1e2}"#, r#"{"a":1e2}"#);
    check("$['a/b~c']", r#"{"a/b~c":1,"d":2}"#, r#"{"d":2}"#);
    check("[0]", "[1,2]", "[2]");
    check("$", r#"{"a":1}"#, "null");
}

#[test]
fn body_that_cannot_be_masked_is_not_logged() {
    let json_only = json!({"request": [rule("body json", "$.a", "remove", "", "")], "max_body_size": 20});
    assert_eq!(post(&json_only, r#"{"a":1,"b":2}"#), r#"{"b":2}"#);
    assert_eq!(post(&json_only, "password=secret"), "");
    assert_eq!(post(&json_only, r#"{"a":"long","b":"longer"}"#), "");
    let both = json!({"request": [
        rule("body json", "$.a", "remove", "", ""), rule("body urlencoded", "a", "remove", "", ""),
    ]});
    assert_eq!(post(&both, r#"{"a":1,"b":2}"#), r#"{"b":2}"#);
    assert_eq!(post(&both, "a=1&b=2"), "b=2");
    let malformed = r#"{"a":1,"b":2"#;
    let multipart = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n";
    let deep = format!(r#"{{"a":1,"b":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let form = "Content-Type: Application/x-www-form-urlencoded; charset=utf-8\r\n";
    for (fields, body, expected) in [
        ("Content-Type: application/json\r\n", malformed, ""),
        ("Content-Type: application/json\r\n", &*deep, ""),
        ("Content-Type: multipart/form-data; boundary=x\r\n", multipart, ""),
        ("", "a=1&b=2", ""),
        (&*format!("{form}Content-Encoding: gzip\r\n"), "a=1&b=2", ""),
        (&*format!("{form}Content-Encoding: identity\r\n"), "a=1&b=2", "b=2"),
        (form, "a=1&b=2", "b=2"),
    ] {
        assert_eq!(post_with(&both, fields, body), expected, "{fields}{body}");
    }
    let with_type = json!({"request": [
        rule("header", "Content-Type", "remove", "", ""), rule("body urlencoded", "a", "remove", "", ""),
    ]});
    assert_eq!(post(&with_type, "a=1&b=2"), "b=2");
    let no_bodies = json!({"request": rules("query", ["a", "b", "c"])});
    assert_eq!(post(&no_bodies, "password=secret"), "password=secret");
}

#[test]
fn copied_body_is_masked_only_if_it_is_whole() {
    let config = json!({"request": [rule("body json", "$.a", "remove", "", "")], "max_body_size": 100});
    for (ends, expected) in [(true, Some(br#"{"b":2}"#.to_vec())), (false, None)] {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &config);
        let mut exchange = scene.exchange(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(plugin.wants_request_body(&exchange), BodyNeed::Copy { limit_bytes: 100 });
        let copy = SharedCopy::new(100, exchange.local().shared.clone());
        copy.add(br#"{"a":1,"b":2}"#);
        if ends {
            copy.end();
        }
        exchange.copies.request = Some(copy);
        plugin.before_log(&mut exchange);
        assert_eq!(exchange.read_request_body(<[u8]>::to_vec), expected);
    }
}

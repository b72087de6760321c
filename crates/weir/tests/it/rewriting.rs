//! Plugins that rewrite, redirect, limit and mock, tested through the gateway.

use testkit::{Origin, Reply};

use crate::support::{gateway, route, upstream};

/// A gateway with one route with these plugins, as YAML flow, in front of `origin`.
fn with_plugins(origin: &Origin, plugins: &str) -> testkit::Weir {
    gateway(&route(&format!("uri: /*, plugins: {{{plugins}}}"), &upstream(&[origin.address()], "")))
}

#[test]
fn a_changed_status_keeps_the_connection_in_step() {
    let origin = Origin::start(|request| match request.path() {
        "/empty" => Reply::raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
        _ => Reply::ok("body"),
    });
    let check = |plugin: &str, path: &str, status: u16, body: &str| {
        let weir = with_plugins(&origin, &format!("response-rewrite: {{{plugin}}}"));
        let mut client = weir.client();
        for _ in 0..3 {
            let response = client.get(path);
            assert_eq!((response.status, &*response.text()), (status, body), "{plugin} {path}");
        }
        assert!(client.surplus().is_empty());
    };
    check("status_code: 204", "/full", 204, "");
    check("status_code: 304", "/full", 304, "");
    check("status_code: 200", "/empty", 200, "");
    check("status_code: 200, body: new", "/empty", 200, "new");
    check("body: new", "/full", 200, "new");
    check("filters: [{regex: o, replace: '00'}]", "/full", 200, "b00dy");
    let in_order = "filters: [{regex: o, replace: '00'}, {regex: '0', replace: x, scope: global}, {regex: x, replace: y}]";
    check(&format!("{in_order}, max_resp_body_size: 4"), "/full", 200, "byxdy");
}

#[test]
fn response_longer_than_filters_take_fails() {
    let origin = Origin::answering("body");
    let filters = "filters: [{regex: o, replace: x}], max_resp_body_size: 3";
    let weir = with_plugins(&origin, &format!("response-rewrite: {{{filters}}}"));
    assert_eq!(weir.get("/").status, 502);
}

#[test]
fn rewritten_request_reaches_the_node() {
    let origin = Origin::answering("ok");
    let plugins = "proxy-rewrite: {regex_uri: ['^/a/(.*)', '/b/$1'], method: POST, host: node.test, \
                   headers: {set: {X-A: '$1'}, remove: [X-B]}}";
    let weir = with_plugins(&origin, plugins);
    let response = weir.client().request("GET", "/a/c%20d?e=f", &[("X-B", "1")], b"");
    assert_eq!(response.status, 200);
    let request = origin.last_request();
    assert_eq!((&*request.method, &*request.target), ("POST", "/b/c%20d?e=f"));
    assert_eq!(request.header("Host"), Some("node.test"));
    assert_eq!((request.header("X-A"), request.header("X-B")), (Some("c d"), None));
}

#[test]
fn fields_that_the_gateway_writes_itself_can_be_set() {
    let origin = Origin::answering("ok");
    let sent = [
        ("X-Real-IP", "6.6.6.6"),
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-Proto", "gopher"),
        ("X-Forwarded-Host", "evil"),
    ];
    let check_all = |headers: &str, expected: &[(&str, &[&str])]| {
        let weir = with_plugins(&origin, &format!("proxy-rewrite: {{headers: {{{headers}}}}}"));
        assert_eq!(weir.client().request("GET", "/", &sent, b"").status, 200);
        let request = origin.last_request();
        for (name, values) in expected {
            assert_eq!(all_of(&request, name), *values, "{name} after {headers}");
        }
    };
    let check = |headers: &str, expected: &[(&str, &str)]| {
        let lists: Vec<[&str; 1]> = expected.iter().map(|(_, value)| [*value]).collect();
        let expected: Vec<(&str, &[&str])> =
            expected.iter().zip(&lists).map(|((name, _), list)| (*name, &list[..])).collect();
        check_all(headers, &expected);
    };
    let host = "set: {Host: inner.test:81}";
    check(host, &[("Host", "inner.test:81"), ("X-Real-IP", "127.0.0.1")]);
    check(
        "set: {X-Real-IP: $http_x_real_ip-seen, X-Forwarded-For: 1.1.1.1, X-Forwarded-Proto: https, \
         X-Forwarded-Host: outer.test, X-Forwarded-Port: 443}",
        &[
            ("X-Real-IP", "6.6.6.6-seen"),
            ("X-Forwarded-For", "1.1.1.1, 127.0.0.1"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Host", "outer.test"),
            ("X-Forwarded-Port", "443"),
        ],
    );
    check(
        "add: {X-Real-IP: 2.2.2.2, X-Forwarded-Proto: https}",
        &[("X-Real-IP", "2.2.2.2"), ("X-Forwarded-Proto", "https")],
    );
    check_all(
        "remove: [Host, X-Real-IP, X-Forwarded-For, X-Forwarded-Proto, x-forwarded-host, X-Forwarded-Port]",
        &[
            ("X-Real-IP", &["127.0.0.1"]),
            ("X-Forwarded-For", &["127.0.0.1"]),
            ("X-Forwarded-Proto", &[]),
            ("X-Forwarded-Host", &[]),
            ("X-Forwarded-Port", &[]),
        ],
    );
    check_all("set: {X-Forwarded-Host: '', X-Seen: '$http_x_forwarded_host!'}", &[("X-Forwarded-Host", &[])]);
    check_all(
        "set: {X-Forwarded-Host: ['$arg_none'], X-Forwarded-Proto: ['$arg_none', '$arg_none']}",
        &[("X-Forwarded-Host", &[]), ("X-Forwarded-Proto", &[])],
    );
    check_all(
        "add: {X-A: [one, '$request_method']}, set: {X-B: ['$remote_addr', 2, '$arg_none'], X-Forwarded-Host: [a, b]}",
        &[
            ("X-A", &["one", "GET"]),
            ("X-B", &["127.0.0.1", "2"]),
            ("X-Forwarded-Host", &["a", "b"]),
            ("X-Forwarded-Proto", &["http"]),
        ],
    );
}

/// The values of all fields with a name, in order.
fn all_of<'a>(request: &'a testkit::Request, name: &str) -> Vec<&'a str> {
    let fields = request.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    fields.map(|(_, value)| value.as_str()).collect()
}

#[test]
fn query_of_the_new_uri_is_joined_with_the_clients() {
    let origin = Origin::answering("ok");
    let check = |plugin: &str, asked: &str, expected: &str| {
        let weir = with_plugins(&origin, &format!("proxy-rewrite: {{{plugin}}}"));
        assert_eq!(weir.get(asked).status, 200, "{plugin} {asked}");
        assert_eq!(origin.last_request().target, expected, "{plugin} {asked}");
    };
    check("uri: '/new?b=2'", "/old?a=1", "/new?b=2&a=1");
    check("uri: '/new?b=2', use_real_request_uri_unsafe: true", "/old?a=1", "/new?b=2&a=1");
    check("uri: /new, use_real_request_uri_unsafe: true", "/old?a=1", "/new?a=1");
}

#[test]
fn request_variables_keep_the_original() {
    let origin = Origin::answering("ok");
    let shown = "response-rewrite: {headers: {set: {X-Seen: '$uri|$request_uri|$args|$upstream_uri|$real_request_uri'}}}";
    let check = |plugin: &str, asked: &str, expected: &str| {
        let weir = with_plugins(&origin, &format!("{plugin}{shown}"));
        assert_eq!(weir.get(asked).header("x-seen"), Some(expected), "{plugin} {asked}");
    };
    check("", "/a//%62?x=%20", "/a/b|/a/b?x=%20|x=%20||/a//%62?x=%20");
    check("", "/a%20b", "/a b|/a%20b|||/a%20b");
    check("proxy-rewrite: {uri: /new}, ", "/a?x=1", "/a|/a?x=1|x=1|/new?x=1|/a?x=1");
    check("proxy-rewrite: {regex_uri: ['^/a(.*)', '/b$1']}, ", "/a%20c", "/a c|/a%20c||/b%20c|/a%20c");
}

#[test]
fn answers_without_a_node() {
    let origin = Origin::answering("ok");
    let weir = with_plugins(
        &origin,
        "limit-count: {count: 1, time_window: 600, rejected_code: 429, rejected_msg: no}",
    );
    let first = weir.get("/");
    assert_eq!((first.status, first.header("X-RateLimit-Remaining")), (200, Some("0")));
    let second = weir.get("/");
    assert_eq!((second.status, &*second.text()), (429, "{\"error_msg\":\"no\"}\n"));
    assert_eq!(second.header("X-RateLimit-Limit"), Some("1"));

    let weir = with_plugins(&origin, "redirect: {uri: '/b$uri', ret_code: 301}");
    let response = weir.get("/a");
    assert_eq!((response.status, response.header("Location")), (301, Some("/b/a")));

    let weir = with_plugins(
        &origin,
        "mocking: {response_example: 'hello $arg_name', content_type: text/plain, delay: 1}",
    );
    let response = weir.get("/?name=you");
    assert_eq!((response.status, &*response.text()), (200, "hello you"));
    assert_eq!(origin.requests().len(), 1);
}

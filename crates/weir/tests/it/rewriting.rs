//! Plugins that rewrite, redirect, limit and mock, seen from outside.

use testkit::{Origin, Reply};

use crate::support::{gateway, route, upstream};

/// A gateway of one route with these plugins, as YAML flow, in front of `origin`.
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
}

#[test]
fn what_the_node_is_asked_for() {
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

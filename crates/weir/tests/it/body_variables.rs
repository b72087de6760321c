//! Variables that are read from the request body, in routes, filters and templates, and the body that the
//! node then gets.

use std::fmt::Write;

use serde_json::json;
use testkit::{Client, Origin, Reply, Weir};

use crate::support::{BINARY, builder};

/// Routes of every path, or of the path after ` with ` in their fields, tried in this order; each sends its
/// name to the node as the Host. A route for all other requests follows.
fn gateway(origin: &Origin, routes: &[(&str, &str)], arguments: &[&str]) -> Weir {
    let mut text = "routes:\n".to_owned();
    let all = routes.iter().chain([&("rest", "status: 1")]);
    for (priority, (id, fields)) in all.enumerate() {
        let (path, fields) = fields.split_once(" with ").unwrap_or(("/*", fields));
        let upstream =
            format!("{{nodes: {{'{}': 1}}, pass_host: rewrite, upstream_host: {id}}}", origin.address());
        writeln!(
            text,
            "  - {{id: {id}, uri: {path}, priority: -{priority}, {fields}, upstream: {upstream}}}"
        )
        .unwrap();
    }
    builder(&text).arguments(arguments).start()
}

/// The route that `body` with this type takes; checks that the node got the body as it was sent.
fn ask(weir: &Weir, origin: &Origin, content_type: &str, body: &str) -> String {
    let response = weir.client().request("POST", "/x", &[("Content-Type", content_type)], body.as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
    let received = origin.last_request();
    assert_eq!(received.text(), body, "the body reaches the node as it was sent");
    received.header("host").unwrap_or_default().to_owned()
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn graphql_decides_the_route() {
    let origin = Origin::answering("ok");
    let weir = gateway(
        &origin,
        &[
            ("mutations", "vars: [[graphql_operation, '==', mutation]]"),
            ("named", "vars: [[graphql_name, '==', Repo]]"),
            ("owner", "vars: [[graphql_root_fields, has, owner]]"),
            ("anonymous", "vars: [[graphql_operation, '==', query], [graphql_name, '==', '']]"),
        ],
        &[],
    );
    for (content_type, body, expected) in [
        (JSON, r#"{"query": "mutation M { add(x: 1) }"}"#, "mutations"),
        (JSON, r#"{"query": "query Repo { a }", "variables": {"a": [1]}}"#, "named"),
        (JSON, r#"{"query": "query A { a } mutation B { b }", "operationName": "B"}"#, "mutations"),
        (JSON, r#"{"query": "query A { ...F } fragment F on Query { owner }"}"#, "owner"),
        (JSON, r#"{"query": "query A { a }"}"#, "rest"),
        (JSON, r#"{"query": "mutation {"}"#, "rest"),
        (JSON, r#"{"nothing": "mutation { a }"}"#, "rest"),
        ("application/graphql", "{ a }", "anonymous"),
        (FORM, "query Q { owner { id } }", "owner"),
        ("text/plain", "hello", "rest"),
    ] {
        assert_eq!(ask(&weir, &origin, content_type, body), expected, "{content_type} {body}");
    }
    for (target, expected) in [
        ("/?query=mutation%7Ba%7D", "mutations"),
        ("/?query=query+Repo%7Ba%7D", "named"),
        ("/?query=x", "rest"),
        ("/", "rest"),
    ] {
        weir.get(target);
        assert_eq!(origin.last_request().header("host"), Some(expected), "{target}");
    }
}

#[test]
fn explain_reports_undecided_routes() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, &[("body", "vars: [[graphql_operation, '==', mutation]]")], &[]);
    let question = r#"{"method": "POST", "url": "/x", "headers": [], "remote_addr": "127.0.0.1"}"#;
    let mut control = Client::connect(weir.address("control"));
    let record = control.request("POST", "/v1/weir/explain", &[], question.as_bytes()).json();
    let detail = |index: usize| record["considered"][index]["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail(0).contains("look into the body"), "{record}");
    assert_eq!((detail(1).as_str(), &record["matched"]["id"]), ("", &"rest".into()), "{record}");
}

#[test]
fn forms_and_json_decide_the_route() {
    let origin = Origin::answering("ok");
    let weir = gateway(
        &origin,
        &[
            ("form", "vars: [[post_arg_user, '==', ann]]"),
            ("path", "vars: [['post_arg.messages[*].role', has, system]]"),
            ("model", "vars: [[post_arg.model.name, '==', big]]"),
            ("field", "vars: [[post_arg.field, '==', 'x y']]"),
        ],
        &[],
    );
    let multipart = "--B\r\nContent-Disposition: form-data; name=\"field\"\r\n\r\nx y\r\n--B--\r\n";
    for (content_type, body, expected) in [
        (FORM, "a=b&user=ann", "form"),
        (FORM, "field=x+y", "field"),
        (FORM, "user=bob", "rest"),
        (JSON, r#"{"messages": [{"role": "user"}, {"role": "system"}]}"#, "path"),
        (JSON, r#"{"model": {"name": "big"}}"#, "model"),
        (JSON, r#"{"user": "ann"}"#, "rest"),
        ("multipart/form-data; boundary=B", multipart, "field"),
        ("text/plain", "user=ann", "rest"),
    ] {
        assert_eq!(ask(&weir, &origin, content_type, body), expected, "{content_type} {body}");
    }
}

#[test]
fn body_too_long_for_variables_is_streamed() {
    let origin = Origin::answering("ok");
    let routes = [("long", "vars: [[post_arg.a, '==', '1']]")];
    let weir = gateway(&origin, &routes, &["--max-matched-body-bytes", "64"]);
    let short = r#"{"a": "1"}"#;
    let long = format!(r#"{{"a": "1", "b": "{}"}}"#, "x".repeat(100_000));
    assert_eq!(ask(&weir, &origin, JSON, short), "long");
    assert_eq!(ask(&weir, &origin, JSON, &long), "rest");
    for (pieces, expected) in [(vec![short], "long"), (vec![&long[..40], &long[40..]], "rest")] {
        let mut client = weir.client();
        client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in &pieces {
            client.send(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes());
        }
        client.send(b"0\r\nX-Sum: 7\r\n\r\n");
        assert_eq!(client.read_response(false).unwrap().status, 200);
        let received = origin.last_request();
        assert_eq!(received.header("host"), Some(expected));
        assert_eq!(received.text(), pieces.concat());
        assert_eq!(received.trailers, [("X-Sum".to_owned(), "7".to_owned())], "{expected}");
        assert_eq!(client.get("/again").status, 200, "the connection goes on behind the body");
    }
}

#[test]
fn body_is_not_read_without_body_variables() {
    let origin = Origin::on_head(|_| Reply::ok("early"));
    let weir = gateway(
        &origin,
        &[("form", "/form with vars: [[post_arg_user, '==', ann]]")],
        &["--wait-for-body-bytes", "0"],
    );
    for (path, content_type) in [("/upload", FORM), ("/form", "text/plain")] {
        let mut client = weir.client();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {content_type}\r\nContent-Length: 9\r\n\r\n"
        );
        client.send(head.as_bytes());
        // The response comes before any byte of the body was sent.
        assert_eq!(client.read_response(false).unwrap().text(), "early", "{path}");
    }
}

#[test]
fn deeply_nested_bodies_harm_no_request() {
    let origin = Origin::answering("ok");
    let routes =
        [("graphql", "vars: [[graphql_operation, '~=', null]]"), ("json", "vars: [[post_arg.a, '==', '1']]")];
    let weir = gateway(&origin, &routes, &[]);
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    for (content_type, body) in [
        ("application/graphql", deep("{a", "}")),
        ("application/graphql", format!("{{ a(x: {}) }}", deep("[", "]"))),
        (JSON, deep("[", "]")),
        (JSON, format!(r#"{{"query": "{}"}}"#, deep("{a", "}"))),
        ("application/graphql", "{a} ".repeat(200_000)),
    ] {
        assert_eq!(ask(&weir, &origin, content_type, &body), "rest", "{}…", &body[..24]);
    }
    assert_eq!(ask(&weir, &origin, "application/graphql", "{ a }"), "graphql");
}

#[test]
fn plugins_and_balancers_see_the_named_body() {
    let origin = Origin::answering("ok");
    let other = Origin::answering("ok");
    let text = format!(
        "routes:
  - id: template
    uri: /template
    plugins: {{proxy-rewrite: {{headers: {{set: {{X-Op: '$graphql_operation', X-User: '${{post_arg.user}}'}}}}}}}}
    upstream: {{nodes: {{'{a}': 1}}}}
  - id: filter
    uri: /filter
    plugins: {{mocking: {{response_status: 418, response_example: no, _meta: {{filter: [[post_arg_user, '==', ann]]}}}}}}
    upstream: {{nodes: {{'{a}': 1}}}}
  - id: hash
    uri: /hash
    upstream: {{type: chash, hash_on: vars_combinations, key: '$post_arg_user', nodes: {{'{a}': 1, '{b}': 1}}}}
",
        a = origin.address(),
        b = other.address()
    );
    let weir = builder(&text).start();
    let post = |path: &str, content_type: &str, body: &str| {
        weir.client().request("POST", path, &[("Content-Type", content_type)], body.as_bytes()).status
    };
    assert_eq!(post("/template", JSON, r#"{"query": "subscription { a }", "user": "ann"}"#), 200);
    let received = origin.last_request();
    assert_eq!((received.header("x-op"), received.header("x-user")), (Some("subscription"), Some("ann")));
    assert_eq!((post("/filter", FORM, "user=ann"), post("/filter", FORM, "user=bob")), (418, 200));
    let before = (origin.requests().len(), other.requests().len());
    for user in 0..20 {
        let body = format!("user={user}");
        let (first, second) = (origin.requests().len(), other.requests().len());
        assert_eq!((post("/hash", FORM, &body), post("/hash", FORM, &body)), (200, 200));
        let (ours, theirs) = (origin.requests().len() - first, other.requests().len() - second);
        assert!(matches!((ours, theirs), (2, 0) | (0, 2)), "the same user goes to the same node");
    }
    assert!(origin.requests().len() > before.0 && other.requests().len() > before.1, "users are spread");
}

#[test]
fn long_body_that_was_read_is_not_forwarded() {
    let origin = Origin::answering("served");
    let weir = Weir::start(BINARY);
    let limit = json!({"max_body_size": 5});
    let checked = |bytes: u64| json!({"body_schema": {"type": "object"}, "max_req_body_size": bytes});
    let rows = [
        ("/awaited", json!({"client-control": limit, "proxy-control": {}}), 413),
        ("/matched", json!({"client-control": limit}), 413),
        ("/checked", json!({"request-validation": checked(5)}), 400),
        ("/both", json!({"client-control": limit, "request-validation": checked(64)}), 413),
    ];
    for (path, plugins, expected) in rows {
        let mut fields = json!({"uri": path, "plugins": plugins});
        fields["upstream"] = json!({"nodes": {origin.address().to_string(): 1}});
        if path != "/awaited" {
            // The body is read to find the route.
            fields["vars"] = json!([["post_arg.a", "==", "1"]]);
        }
        weir.put(&format!("routes{path}"), fields);
        let body = "11\r\n{\"a\": \"1\", \"b\":1}\r\n0\r\n\r\n";
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let mut client = weir.client();
        client.send(format!("{head}{body}").as_bytes());
        assert_eq!(client.read_response(false).unwrap().status, expected, "{path}");
    }
    assert_eq!(origin.requests().len(), 0);
}

//! Tests of `degraphql`.

use exchange::testing::{Scene, check_configuration, decide};
use model::catalog::SchemaType;
use serde_json::json;

use super::*;

const TWO: &str = "query one { a } query two { b }";

#[test]
fn configurations() {
    let several = "operation_name is required if multiple operations are present in the query";
    let rows = [
        (json!({"query": "{ a }"}), None),
        (json!({"query": "{ ...F } fragment F on T { a }"}), None),
        (json!({"query": TWO, "operation_name": "two"}), None),
        (json!({"query": "$env://QUERY"}), None),
        (json!({}), Some("property \"query\" is required")),
        (json!({"query": "uery {}"}), Some("failed to parse query: Syntax error near line 1")),
        (json!({"query": "fragment F on T { a }"}), Some("it has no operation")),
        (
            json!({"query": "{ a }", "variables": []}),
            Some("property \"variables\" validation failed: expect array to have at least 1 items"),
        ),
        (json!({"query": TWO}), Some(several)),
        (
            json!({"query": TWO, "operation_name": "three"}),
            Some("operation_name: the query has no operation three"),
        ),
        (json!({"query": "a".repeat(1_025)}), Some("query")),
        (json!({"query": "{ a }", "max_req_body_size": 0}), Some("max_req_body_size")),
    ];
    for (config, fault) in rows {
        check_configuration(&KIND, SchemaType::Plugin, &config, fault);
    }
}

/// The status of a refusal; otherwise the body and the query that the upstream gets.
fn run(config: &Value, request: &str) -> Result<(String, String), u16> {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, config);
    let mut exchange = scene.exchange(request.as_bytes());
    if let Some(reply) = decide(plugin.access(&mut exchange)) {
        return Err(reply.status);
    }
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap();
    Ok((text(exchange.request_body()), text(exchange.forward_query())))
}

fn post(fields: &str, body: &str) -> String {
    format!("POST /graphql HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn body_has_query_and_chosen_variables() {
    let config = json!({"query": "{ a }", "variables": ["x", "y", "z"]});
    let check = |config: &Value, body: &str, expected: Result<&str, u16>| {
        let got = run(config, &post("", body)).map(|(body, _)| body);
        assert_eq!(got, expected.map(str::to_owned), "{body}");
    };
    let both = r#"{"query":"{ a }","variables":{"x":{"k":[1]},"z":null}}"#;
    check(&config, r#"{"z":null,"x":{"k":[1]},"other":2}"#, Ok(both));
    let numbers = r#"{"x":1000000000000000000001,"z":[1.50,1E400,-0]}"#;
    check(&config, numbers, Ok(&format!(r#"{{"query":"{{ a }}","variables":{numbers}}}"#)));
    check(&config, r#"{"x":1,"x":2}"#, Ok(r#"{"query":"{ a }","variables":{"x":2}}"#));
    check(&config, "[1]", Ok(r#"{"query":"{ a }","variables":{}}"#));
    check(&config, "\"AA\"", Err(400));
    check(&config, "{", Err(400));
    check(&config, "", Err(400));
    let named = json!({"query": TWO, "operation_name": "two"});
    check(&named, "ignored", Ok(&format!(r#"{{"query":"{TWO}","operationName":"two"}}"#)));
}

#[test]
fn values_in_a_body_are_bounded() {
    let body = |count: usize| format!(r#"{{"x":[{}0]}}"#, "0,".repeat(count - 1));
    let read = |body: &str| variables(&["x".to_owned()], body.as_bytes());
    // The object and the list count too.
    let longest = body(VALUES_MAX - 2);
    assert!(read(&longest) == Ok(longest));
    assert!(read(&body(VALUES_MAX - 1)) == Err(400));
}

#[test]
fn client_cannot_choose_the_query() {
    let config = json!({"query": "{ a }"});
    let check = |query: &str, kept: &str| {
        let request = format!("POST /graphql?{query} HTTP/1.1\r\nHost: a\r\n\r\nx");
        assert_eq!(
            run(&config, &request),
            Ok((r#"{"query":"{ a }"}"#.to_owned(), kept.to_owned())),
            "{query}"
        );
    };
    check("query=%7Bevil%7D&apikey=k&operationName=x&variables=%7B%7D&extensions=x", "apikey=k");
    check("a=1&Qu%65ry=x&b", "a=1&b");
    check("a=1;query=x&variables[n]=1&+query=x&c=%3Bquery%3D1", "c=%3Bquery%3D1");
    check("query=x", "");
    let request =
        "GET /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n{\"query\":\"{evil}\"}";
    assert_eq!(run(&config, request), Ok((String::new(), "query=%7B%20a%20%7D".to_owned())));
}

#[test]
fn content_type_becomes_json() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({"query": "{ a }"}));
    let mut exchange = scene.exchange(post("Content-Type: text/plain\r\n", "x").as_bytes());
    assert!(decide(plugin.access(&mut exchange)).is_none());
    assert_eq!(exchange.request.headers.get("content-type"), Some(&b"application/json"[..]));
}

#[test]
fn arguments_of_the_client_become_variables() {
    let config = json!({"query": "{ a }", "variables": ["name", "flag", "many"]});
    let decoded = |target: &str| {
        let (_, query) = run(&config, &get(target)).unwrap();
        arguments(query.as_bytes())
            .map(|(_, name, value)| {
                let text = |bytes: &[u8]| String::from_utf8(decode(bytes).into_owned()).unwrap();
                format!("{}={}", text(name), text(value))
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        decoded("/graphql?many=1&name=a%20%26b&flag&many=2&query=evil"),
        ["query={ a }", r#"variables={"name":"a &b","flag":true,"many":["1","2"]}"#]
    );
    assert_eq!(decoded("/graphql"), ["query={ a }", "variables={}"]);
    let plain = run(&json!({"query": "{ a }"}), &get("/graphql?x=1")).unwrap();
    assert_eq!(plain.1, "query=%7B%20a%20%7D");
}

#[test]
fn other_methods_are_refused() {
    let request = "PUT /graphql HTTP/1.1\r\nHost: a\r\n\r\n{}";
    assert_eq!(run(&json!({"query": "{ a }"}), request), Err(405));
}

#[test]
fn long_bodies_are_refused_with_503() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({"query": "{ a }", "max_req_body_size": 3}));
    let exchange = scene.exchange(post("", "long").as_bytes());
    assert_eq!(plugin.wants_request_body(&exchange), BodyNeed::Buffer { limit_bytes: 3 });
    assert_eq!(plugin.refuse_long_body(&exchange).map(|reply| reply.status), Some(503));
    let exchange = scene.exchange(get("/").as_bytes());
    assert_eq!(plugin.wants_request_body(&exchange), BodyNeed::Buffer { limit_bytes: 3 });
    let exchange = scene.exchange(b"PUT / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(plugin.wants_request_body(&exchange), BodyNeed::None);
}

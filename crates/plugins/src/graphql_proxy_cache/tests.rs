//! Tests of `graphql-proxy-cache`.

use exchange::plugin::StoredBody;
use exchange::testing::{Scene, check_configuration, consumer, decide, finish, respond, route};
use model::catalog::SchemaType;
use serde_json::json;

use super::*;

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn configurations() {
    let strategy = "property \"cache_strategy\" validation failed: matches none of the enum values";
    let rows = [
        (json!({}), None),
        (json!({"cache_zone": "memory_cache", "cache_strategy": "memory", "cache_ttl": 5}), None),
        (json!({"consumer_isolation": false, "cache_set_cookie": true}), None),
        (json!({"cache_strategy": "test"}), Some(strategy)),
        (json!({"cache_zone": ""}), Some("cache_zone")),
        (json!({"cache_ttl": 0}), Some("cache_ttl")),
    ];
    for (config, fault) in rows {
        check_configuration(&KIND, SchemaType::Plugin, &config, fault);
    }
}

fn plugin(scene: &Scene) -> Arc<dyn Plugin> {
    scene.build(&KIND, &json!({"cache_strategy": "memory", "cache_zone": "memory_cache"}))
}

fn post(fields: &str, body: &str) -> String {
    format!("POST /graphql HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")
}

/// The body of a hit; none if the request goes to the upstream.
fn hit(plugin: &Arc<dyn Plugin>, exchange: &mut Exchange) -> Option<Vec<u8>> {
    match plugin.access(exchange) {
        Flow::Continue => None,
        Flow::Stored(stored) => match stored.body {
            StoredBody::Whole(body) => Some(body.to_vec()),
            StoredBody::Stream(_) => panic!("it is in memory"),
        },
        _ => panic!("neither a hit nor a miss"),
    }
}

/// Sends a request and answers it with `body` if it is no hit; the cache status and the key.
fn ask(scene: &mut Scene, plugin: &Arc<dyn Plugin>, request: &str, user: Option<&str>) -> (String, String) {
    let mut exchange = scene.exchange(request.as_bytes());
    if let Some(user) = user {
        exchange.authenticate(Arc::new(consumer(user)));
    }
    if hit(plugin, &mut exchange).is_none() {
        respond(&mut exchange, 200, &[("Content-Length", "4")]);
        assert!(plugin.upstream_response(&mut exchange, None).is_none());
        exchange.note_upstream_body(b"body");
        exchange.note_upstream_end();
    }
    finish(plugin.response_head(&mut exchange));
    let field =
        |name| String::from_utf8(exchange.response.headers.get(name).unwrap_or_default().to_vec()).unwrap();
    (field("Apisix-Cache-Status"), field(KEY_FIELD))
}

#[test]
fn same_query_hits_and_another_misses() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene);
    let mut check = |request: &str, expected: &str| {
        assert_eq!(ask(&mut scene, &plugin, request, None).0, expected, "{request}");
    };
    for expected in ["MISS", "HIT"] {
        check(&post(JSON, r#"{"query":"{a}"}"#), expected);
        check(&post(JSON, r#"{"query":"{a}","variables":{"n":1}}"#), expected);
        check(&post(JSON, r#"{"query":"{a}","variables":{"n":2}}"#), expected);
        check(&post("Content-Type: application/graphql\r\n", "{a}"), expected);
        check("GET /graphql?query=%7Ba%7D HTTP/1.1\r\nHost: a\r\n\r\n", expected);
        check("GET /graphql?query=%7Ba%7D HTTP/1.1\r\nHost: b\r\n\r\n", expected);
        check("GET /other?query=%7Ba%7D HTTP/1.1\r\nHost: a\r\n\r\n", expected);
    }
}

#[test]
fn mutations_and_subscriptions_pass_by() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene);
    for document in ["query A {a} mutation B {b}", "subscription {a}"] {
        for _ in 0..2 {
            let request = post(JSON, &json!({"query": document}).to_string());
            let bypassed = ("BYPASS".to_owned(), String::new());
            assert_eq!(ask(&mut scene, &plugin, &request, None), bypassed, "{document}");
        }
    }
}

#[test]
fn consumers_share_entries_only_if_allowed() {
    let mut scene = Scene::new();
    let request = post(JSON, r#"{"query":"{a}"}"#);
    let isolating = plugin(&scene);
    let sharing = scene.build(
        &KIND,
        &json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "consumer_isolation": false}),
    );
    let mut of = |plugin: &Arc<dyn Plugin>, user: &str| ask(&mut scene, plugin, &request, Some(user));
    assert_eq!(of(&isolating, "anne").0, "MISS");
    assert_eq!(of(&isolating, "bob").0, "MISS");
    assert_eq!(of(&isolating, "anne").0, "HIT");
    assert_eq!(of(&sharing, "anne").0, "MISS", "another configuration has other keys");
    assert_eq!(of(&sharing, "bob").0, "HIT");
}

#[test]
fn requests_without_a_document_are_refused() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene);
    let mut check = |request: &str, status: u16, text: &str| {
        let reply = decide(plugin.access(&mut scene.exchange(request.as_bytes()))).unwrap();
        let body = String::from_utf8(reply.body.to_vec()).unwrap();
        assert_eq!(reply.status, status, "{request}");
        assert!(body.contains(text), "{request}: {body}");
    };
    check("HEAD /graphql HTTP/1.1\r\nHost: a\r\n\r\n", 405, "");
    check("GET /graphql HTTP/1.1\r\nHost: a\r\n\r\n", 400, NO_BODY);
    check(&post("", r#"{"query":"{a}"}"#), 400, "error content-type");
    check(&post(JSON, r#"{"query":"{a"}"#), 400, "failed to parse graphql query");
}

#[test]
fn purge_removes_the_entry_of_the_route() {
    let mut scene = Scene::new().with_route(route("1"));
    let plugin = plugin(&scene);
    let request = post(JSON, r#"{"query":"{a}"}"#);
    let (_, key) = ask(&mut scene, &plugin, &request, None);
    assert_eq!(key.len(), 64);
    let states = scene.states();
    let services = exchange::testing::services();
    let owner = format!("/routes/9#{NAME}");
    let purge =
        (KIND.build)(&exchange::testing::build(&owner, None, &states, &services), &json!({})).unwrap();
    let mut check = |path: &str, expected: u16| {
        let head = format!("PURGE /apisix/plugin/graphql-proxy-cache/{path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let reply = decide(purge.api(&mut scene.exchange(head.as_bytes())));
        assert_eq!(reply.map(|reply| reply.status), Some(expected), "{path}");
    };
    check("invalid/1/abc", 400);
    check("memory/1/", 400);
    check("memory", 400);
    check("memory/xxx/abc", 404);
    check(&format!("disk/1/{key}"), 400);
    check(&format!("memory/1/{key}"), 200);
    assert_eq!(ask(&mut scene, &plugin, &request, None).0, "MISS");
    assert_eq!(ask(&mut scene, &plugin, &request, None).0, "HIT");
}

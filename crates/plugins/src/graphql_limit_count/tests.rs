//! Tests of `graphql-limit-count`.

use exchange::testing::{Scene, check_configuration, decide, finish, lines, respond, with_fields};
use model::catalog::SchemaType;
use serde_json::json;

use super::*;

#[test]
fn configurations() {
    let quota = |more: Value| with_fields(json!({"count": 5, "time_window": 60}), &more);
    let path = |path: &str| json!({"field_path": path});
    let rows = [
        (quota(json!({})), None),
        (quota(json!({"cost_strategy": "complexity", "max_cost": 5.5, "score_factor": 0.1})), None),
        (quota(json!({"cost_decorations": [path("Query.a"), path("Query")]})), None),
        (json!({"rules": [{"count": 1, "time_window": 1, "key": "$uri"}]}), None),
        (json!({"cost_strategy": "depth"}), Some("value should match only one schema")),
        (quota(json!({"cost_strategy": "wide"})), Some("cost_strategy")),
        (quota(json!({"score_factor": 0})), Some("score_factor")),
        (quota(json!({"max_cost": -1})), Some("max_cost")),
        (quota(json!({"introspection_endpoint": "ftp://a"})), Some("introspection_endpoint")),
        (quota(json!({"introspection_headers": {"A": 1}})), Some("introspection_headers")),
        (quota(json!({"cost_decorations": [{}]})), Some("field_path")),
        (quota(json!({"cost_decorations": [path("A.b"), path("A.b")]})), Some("more than once")),
        (quota(json!({"policy": "redis"})), Some("then clause did not match")),
        (quota(json!({"rules": []})), Some("")),
    ];
    for (config, fault) in rows {
        check_configuration(&KIND, SchemaType::Plugin, &config, fault);
    }
    assert_eq!(
        schema()["encrypt_fields"],
        json!(["redis_password", "sentinel_password", "introspection_headers"])
    );
}

/// A scene with an instance, and what its requests are answered.
struct Stage {
    scene: Scene,
    plugin: Arc<dyn Plugin>,
}

impl Stage {
    fn new(more: Value) -> Stage {
        let scene = Scene::new();
        let mut config = json!({"count": 10, "time_window": 60, "rejected_code": 429});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let plugin = scene.build(&KIND, &config);
        Stage { scene, plugin }
    }

    /// The status (200 for a request that passes), the body, and the fields of the response.
    fn ask(&mut self, body: &Value) -> (u16, String, Vec<String>) {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n";
        let mut exchange = self.scene.exchange(format!("{head}{body}").as_bytes());
        let reply = decide(self.plugin.access(&mut exchange));
        let (status, text) = reply.map_or((200, String::new()), |reply| {
            (reply.status, String::from_utf8(reply.body.to_vec()).unwrap())
        });
        respond(&mut exchange, status, &[]);
        finish(self.plugin.response_head(&mut exchange));
        (status, text, lines(&exchange.response.headers))
    }

    /// The status and the cost of a document.
    fn cost(&mut self, query: &str) -> (u16, String) {
        let (status, _, fields) = self.ask(&json!({"query": query}));
        let cost = fields.iter().find_map(|field| field.strip_prefix("X-Graphql-Query-Cost: "));
        (status, cost.unwrap_or_default().to_owned())
    }
}

#[test]
fn depth_is_taken_of_the_quota() {
    let mut stage = Stage::new(json!({}));
    let deep = json!({"query": "query q { foo { bar, baz { boo, bee, baa { bar_id, lol } } } }"});
    let (status, _, fields) = stage.ask(&deep);
    assert_eq!(status, 200);
    for field in ["X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 6", "X-Graphql-Query-Cost: 4"] {
        assert!(fields.iter().any(|shown| shown == field), "{field}: {fields:?}");
    }
    assert_eq!(stage.ask(&deep).0, 200);
    assert_eq!(stage.ask(&deep).0, 429);
    assert_eq!(stage.cost("{ a }"), (429, "1".to_owned()), "the refused request took the rest");
}

#[test]
fn undecorated_queries_cost_their_nodes() {
    let mut stage = Stage::new(json!({"cost_strategy": "complexity", "count": 1_000}));
    assert_eq!(stage.cost("{ a { b c } }"), (200, "5".to_owned()));
    assert_eq!(stage.cost("query A { a } query B { b { c } }"), (200, "4".to_owned()));
    let named = json!({"query": "query A { a } query B { b { c } }", "operationName": "A"});
    assert!(stage.ask(&named).2.contains(&"X-Graphql-Query-Cost: 3".to_owned()));
    let mut scaled = Stage::new(json!({"cost_strategy": "complexity", "count": 1_000, "score_factor": 0.1}));
    assert_eq!(scaled.cost("{ a { b c } }"), (200, "1".to_owned()));
    let mut quantifier = Stage::new(json!({"cost_strategy": "node_quantifier"}));
    assert_eq!(quantifier.cost("{ a(first: 100) { b } }"), (200, "1".to_owned()));
}

#[test]
fn maximum_outweighs_the_limit_and_charges() {
    let mut stage = Stage::new(json!({"max_cost": 3}));
    let (status, text, fields) = stage.ask(&json!({"query": "{ a { b { c { d } } } }"}));
    assert_eq!(status, 403);
    assert!(text.contains("Invalid graphql request: query cost 4 exceeds max_cost 3"), "{text}");
    assert!(fields.contains(&"X-RateLimit-Remaining: 6".to_owned()), "{fields:?}");
    assert_eq!(stage.cost("{ a { b { c } } }").0, 200);
    assert_eq!(stage.cost("{ a { b { c { d } } } }").0, 403, "beyond the quota as well");
    assert_eq!(stage.cost("{ a }").0, 429);
}

#[test]
fn requests_that_cannot_be_counted_are_refused() {
    let mut stage = Stage::new(json!({}));
    let check = |stage: &mut Stage, query: &str, expected: &str| {
        let (status, text, _) = stage.ask(&json!({"query": query}));
        assert_eq!(status, 400, "{query}");
        assert!(text.contains(expected), "{text}");
    };
    check(&mut stage, "{ ...F } fragment F on T { ...F }", "fragment spreads must not form cycles");
    check(&mut stage, "{", "failed to parse graphql query");
    check(&mut stage, "", "empty graphql query");
    let spread = |level: usize| format!("fragment f{} on T {{ ...f{level} ...f{level} }} ", level + 1);
    let dag: String = (0..24).map(spread).collect();
    let mut complex = Stage::new(json!({"cost_strategy": "complexity"}));
    check(
        &mut complex,
        &format!("fragment f0 on T {{ a }} {dag} {{ ...f24 }}"),
        "expands too many selections",
    );
    let mut weighed =
        Stage::new(json!({"cost_strategy": "complexity", "cost_decorations": [{"field_path": "A"}]}));
    check(&mut weighed, "{ a }", "failed to introspect the upstream graphql schema");
    let mut exchange = stage.scene.exchange(b"GET /?query=%7Ba%7D HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(decide(stage.plugin.access(&mut exchange)).map(|reply| reply.status), Some(405));
}

#[test]
fn counters_are_apart_from_those_of_limit_count() {
    let scene = Scene::new();
    let config = json!({"count": 1, "time_window": 60});
    let limit_count = scene.build(&crate::limit_count::KIND, &config);
    let plugin = scene.build(&KIND, &config);
    let mut stage = Stage { scene, plugin };
    assert_eq!(stage.cost("{ a }").0, 200);
    let mut exchange = stage.scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(decide(limit_count.access(&mut exchange)).is_none());
}

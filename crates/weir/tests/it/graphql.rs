//! The plugins for GraphQL through the real gateway, with a real GraphQL server: graphql-yoga of npm.

use serde_json::{Value, json};
use testkit::{GraphqlServer, Redis, Response, Weir, wait_for, wait_until};

use crate::support::BINARY;

/// A gateway in front of the server.
struct Stage {
    weir: Weir,
}

impl Stage {
    fn new() -> Stage {
        Stage { weir: Weir::start(BINARY) }
    }

    /// Puts a route for `uri`; `more` has further fields of it.
    fn route(&self, id: &str, uri: &str, plugins: Value, more: Value) {
        let mut route = json!({"uri": uri, "plugins": plugins});
        if more.get("service_id").is_none() {
            route["upstream"] = upstream();
        }
        route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.weir.put(&format!("routes/{id}"), route);
    }

    /// Sends a POST with this body of JSON.
    fn post(&self, path: &str, body: &Value) -> Response {
        let fields = [("Content-Type", "application/json")];
        self.weir.client().request("POST", path, &fields, body.to_string().as_bytes())
    }

    fn query(&self, path: &str, query: &str) -> Response {
        self.post(path, &json!({"query": query}))
    }
}

fn upstream() -> Value {
    json!({"nodes": {GraphqlServer::shared().address().to_string(): 1}})
}

#[test]
fn stored_query_answers_plain_requests() {
    let stage = Stage::new();
    let query = "query one($name: String!) { persons(filter: { name: $name }) { id githubAccount } } query two { persons { id } }";
    let plugin = json!({"query": query, "variables": ["name"], "operation_name": "one"});
    stage.route("1", "/graphql", json!({"degraphql": plugin}), json!({}));
    let expected = json!({"data": {"persons": [{"id": "8", "githubAccount": "joshlong"}]}});
    let posted = stage.weir.client().request("POST", "/graphql", &[], br#"{"name":"Josh","other":1}"#);
    assert_eq!((posted.status, posted.json()), (200, expected.clone()));
    let got = stage.weir.get("/graphql?name=Josh&query=%7Bpersons%7Bid%7D%7D");
    assert_eq!((got.status, got.json()), (200, expected.clone()));
    // The client's own query is run neither from the arguments of a POST nor from the body of a GET.
    let evil = "/graphql?query=%7Bpersons%7Bid%7D%7D";
    let posted = stage.weir.client().request("POST", evil, &[], br#"{"name":"Josh"}"#);
    assert_eq!((posted.status, posted.json()), (200, expected.clone()));
    let json = [("Content-Type", "application/json")];
    let body = br#"{"query":"{persons{id}}"}"#;
    let got = stage.weir.client().request("GET", "/graphql?name=Josh", &json, body);
    assert_eq!((got.status, got.json()), (200, expected));
    let status =
        |method: &str, body: &[u8]| stage.weir.client().request(method, "/graphql", &[], body).status;
    assert_eq!([status("POST", b""), status("POST", b"\"AA\""), status("PUT", b"{}")], [400, 400, 405]);
    let faulty = json!({"uri": "/x", "upstream": upstream(), "plugins": {"degraphql": {"query": "uery {}"}}});
    let (status, answer) = stage.weir.admin("PUT", "routes/2", faulty);
    assert_eq!(status, 400);
    assert!(answer.to_string().contains("failed to parse query: Syntax error near line 1"), "{answer}");
}

#[test]
fn cached_query_is_executed_once_until_purged() {
    let stage = Stage::new();
    stage.route("purge", "/apisix/plugin/graphql-proxy-cache/*", json!({"public-api": {}}), json!({}));
    for (strategy, zone) in [("memory", "memory_cache"), ("disk", "disk_cache_one")] {
        let plugin = json!({"cache_strategy": strategy, "cache_zone": zone});
        stage.route("1", "/graphql", json!({"graphql-proxy-cache": plugin}), json!({}));
        let query = format!("{{ tick(key: \"{strategy}\") }}");
        let ask = || {
            let response = stage.query("/graphql", &query);
            let field = |name: &str| response.header(name).unwrap_or_default().to_owned();
            (
                field("apisix-cache-status"),
                response.json()["data"]["tick"].as_u64().unwrap(),
                field("apisix-cache-key"),
            )
        };
        assert_eq!(ask().0, "MISS");
        // One on disk is found once its file has its name.
        let (_, first, key) =
            wait_for("the response is stored", || Some(ask()).filter(|asked| asked.0 == "HIT"));
        assert_eq!((ask().0, ask().1), ("HIT".to_owned(), first));
        let purge = |strategy: &str, id: &str, key: &str| {
            let path = format!("/apisix/plugin/graphql-proxy-cache/{strategy}/{id}/{key}");
            stage.weir.client().request("PURGE", &path, &[], b"").status
        };
        let other = if strategy == "disk" { "memory" } else { "disk" };
        assert_eq!(
            [purge(other, "1", &key), purge(strategy, "9", &key), purge("tape", "1", &key)],
            [400, 404, 400]
        );
        assert_eq!(purge(strategy, "1", &key), 200);
        let (status, second, _) = ask();
        assert!(status == "MISS" && second > first, "{status} {second}");
        let got = stage.weir.get(&format!("/graphql?query=%7Btick(key:%22{strategy}%22)%7D"));
        assert_eq!((got.status, got.header("apisix-cache-status")), (200, Some("MISS")));
        let mutation = stage.query("/graphql", &format!("mutation {query}"));
        assert_eq!(mutation.header("apisix-cache-status"), Some("BYPASS"), "{}", mutation.text());
        assert_eq!(mutation.header("apisix-cache-key"), None);
        assert_eq!(stage.query("/graphql", "{").status, 400);
    }
}

#[test]
fn purge_finds_the_cache_of_a_service() {
    let stage = Stage::new();
    stage.route("purge", "/apisix/plugin/graphql-proxy-cache/*", json!({"public-api": {}}), json!({}));
    let plugin = json!({"cache_strategy": "memory", "cache_zone": "memory_cache"});
    let service = json!({"upstream": upstream(), "plugins": {"graphql-proxy-cache": plugin}});
    stage.weir.put("services/s", service);
    stage.route("1", "/graphql", json!({}), json!({"service_id": "s"}));
    let response = stage.query("/graphql", "{ tick(key: \"service\") }");
    let key = response.header("apisix-cache-key").unwrap().to_owned();
    let path = format!("/apisix/plugin/graphql-proxy-cache/memory/1/{key}");
    assert_eq!(stage.weir.client().request("PURGE", &path, &[], b"").status, 200);
    let again = stage.query("/graphql", "{ tick(key: \"service\") }");
    assert_eq!(again.header("apisix-cache-status"), Some("MISS"));
}

#[test]
fn depth_of_a_query_is_taken_of_the_quota() {
    let stage = Stage::new();
    let plugin = json!({"count": 5, "time_window": 60, "rejected_code": 429});
    stage.route("1", "/graphql", json!({"graphql-limit-count": plugin}), json!({}));
    let deep = "{ persons { friends { id } } }";
    let first = stage.query("/graphql", deep);
    let shown = |response: &Response, name: &str| response.header(name).unwrap_or_default().to_owned();
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(shown(&first, "x-graphql-query-cost"), "3");
    assert_eq!(shown(&first, "x-ratelimit-remaining"), "2");
    assert_eq!(stage.query("/graphql", deep).status, 429);
    assert_eq!(stage.weir.get("/graphql?query=%7Bpersons%7Bid%7D%7D").status, 405);
    let plain = stage.weir.client().request("POST", "/graphql", &[("Content-Type", "text/plain")], b"{a}");
    assert_eq!(plain.status, 400);
    assert!(plain.text().contains("invalid graphql request, error content-type"), "{}", plain.text());
}

#[test]
fn costs_are_counted_in_redis_together() {
    let redis = Redis::start();
    let plugin = json!({
        "count": 5, "time_window": 60, "rejected_code": 429, "group": "shared", "policy": "redis",
        "redis_host": redis.address().ip().to_string(), "redis_port": redis.address().port(),
    });
    let stages = [Stage::new(), Stage::new()];
    for stage in &stages {
        stage.route("1", "/graphql", json!({"graphql-limit-count": plugin}), json!({}));
    }
    let deep = "{ persons { friends { id } } }";
    assert_eq!(stages[0].query("/graphql", deep).header("x-ratelimit-remaining"), Some("2"));
    assert_eq!(stages[1].query("/graphql", deep).status, 429);
}

/// The cost that the gateway tells for a query.
fn cost(stage: &Stage, path: &str, body: &Value) -> (u16, String) {
    let response = stage.post(path, body);
    (response.status, response.header("x-graphql-query-cost").unwrap_or_default().to_owned())
}

#[test]
fn weights_apply_by_the_schema_of_the_upstream() {
    let stage = Stage::new();
    let plugin = json!({
        "count": 100_000, "time_window": 60, "cost_strategy": "node_quantifier", "max_cost": 1_000,
        "cost_decorations": [
            {"field_path": "Query.products", "mul_arguments": ["first"]},
            {"field_path": "Product.reviews", "mul_arguments": ["first"]},
        ],
    });
    stage
        .weir
        .put("services/gql", json!({"upstream": upstream(), "plugins": {"graphql-limit-count": plugin}}));
    stage.route("1", "/*", json!({}), json!({"service_id": "gql"}));
    // A client that asks for a path without a schema does not disturb others.
    let elsewhere = stage.query("/elsewhere", "{ products { nodes { id } } }");
    assert_eq!(elsewhere.status, 400, "{}", elsewhere.text());
    let query = "query q($n: Int) { products(first: $n) { nodes { reviews(first: 20) { body } } } }";
    let of = |variables: Value| json!({"query": query, "variables": variables});
    assert_eq!(cost(&stage, "/graphql", &of(json!({"n": 50}))), (200, "52".to_owned()));
    // The default of the schema counts where the argument is left out.
    let omitted = json!({"query": "{ products { nodes { reviews(first: 20) { body } } } }"});
    assert_eq!(cost(&stage, "/graphql", &omitted), (200, "5".to_owned()));
    let dear = stage.post("/graphql", &of(json!({"n": 2_000})));
    assert_eq!(dear.status, 403);
    assert!(dear.text().contains("query cost 2002 exceeds max_cost 1000"), "{}", dear.text());
}

#[test]
fn refused_schema_is_reported_and_refuses() {
    let stage = Stage::new();
    let plugin = |headers: Value| {
        json!({"graphql-limit-count": {
            "count": 100_000, "time_window": 60, "cost_strategy": "complexity",
            "introspection_headers": headers,
            "cost_decorations": [{"field_path": "Query.persons", "add_value": 10}],
        }})
    };
    stage.route("1", "/guarded", plugin(json!({})), json!({}));
    let body = json!({"query": "{ persons { id } }"});
    let refused = stage.post("/guarded", &body);
    assert_eq!(refused.status, 400);
    let text = refused.text();
    assert!(text.contains("failed to introspect the upstream graphql schema"), "{text}");
    assert!(!text.contains("403"), "{text}");
    wait_until("the error log tells the status", || {
        stage.weir.stderr().iter().any(|line| line.contains("unexpected status 403"))
    });
    stage.route("1", "/guarded", plugin(json!({"Authorization": "Bearer operator"})), json!({}));
    wait_until("the credentials of the operator open the schema", || {
        cost(&stage, "/guarded", &body) == (200, "13".to_owned())
    });
}

//! The plugins together, through the real gateway: the plain case of each one, the precedence of places that
//! configure one, and the effect of `_meta` and metadata. The rules of each plugin have their own tests
//! beside its code.

use serde_json::{Value, json};
use testkit::{Origin, Reply, Response, Weir, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// A gateway in front of an origin that echoes the request head.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        let origin =
            Origin::start(|request| Reply::with(200, &[("X-Powered-By", "origin")], &request.raw_head));
        Stage { weir: Weir::start(BINARY), origin }
    }

    /// Puts a route for `uri` to the origin with these plugins.
    fn route(&self, id: &str, uri: &str, plugins: Value) {
        let nodes = json!({self.origin.address().to_string(): 1});
        self.weir.put(
            &format!("routes/{id}"),
            json!({"uri": uri, "upstream": {"nodes": nodes}, "plugins": plugins}),
        );
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.weir.client().request("GET", path, headers, b"")
    }
}

/// A response-rewrite that marks the response.
fn mark(text: &str) -> Value {
    json!({"headers": {"set": {"X-Mark": text}}})
}

/// A consumer with the key `NAME-key`, and with these fields besides.
fn consumer(weir: &Weir, name: &str, mut more: Value) {
    more["username"] = json!(name);
    weir.put("consumers", more);
    let key = json!({"plugins": {"key-auth": {"key": format!("{name}-key")}}});
    weir.put(&format!("consumers/{name}/credentials/k"), key);
}

#[test]
fn each_plugin_in_its_plain_case() {
    let stage = Stage::new();
    stage.route("1", "/id", json!({"request-id": {}}));
    let response = stage.get("/id", &[]);
    let id = response.header("x-request-id").unwrap().to_owned();
    assert!(
        id.len() == 36 && response.text().contains(&format!("X-Request-Id: {id}\r\n")),
        "{}",
        response.text()
    );
    assert_eq!(stage.get("/id", &[("X-Request-Id", "mine")]).header("x-request-id"), Some("mine"));

    stage.route("2", "/mock", json!({"mocking": {"response_example": "{\"a\":1}", "response_status": 201}}));
    let response = stage.get("/mock", &[]);
    assert_eq!((response.status, response.text().trim_end()), (201, "{\"a\":1}"));
    assert!(response.header("x-mock-by").is_some(), "{response:?}");

    stage.route("3", "/cors", json!({"cors": {"allow_origins": "https://a.example"}}));
    let allowed = stage.get("/cors", &[("Origin", "https://a.example")]);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://a.example"));
    let refused = stage.get("/cors", &[("Origin", "https://b.example")]);
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (200, None));
    let preflight = stage.weir.client().request("OPTIONS", "/cors", &[("Origin", "https://a.example")], b"");
    assert_eq!((preflight.status, preflight.text().as_str()), (200, ""));

    stage.route("4", "/ip", json!({"ip-restriction": {"blacklist": ["127.0.0.0/8"]}}));
    let refused = stage.get("/ip", &[]);
    assert_eq!((refused.status, refused.json()), (403, json!({"message": "Your IP address is not allowed"})));

    stage.route("4", "/page", json!({"referer-restriction": {"whitelist": ["*.a.example"]}}));
    assert_eq!(stage.get("/page", &[("Referer", "https://www.a.example/")]).status, 200);
    let refused = stage.get("/page", &[("Referer", "https://b.example/")]);
    assert_eq!(
        (refused.status, refused.json()),
        (403, json!({"message": "Your referer host is not allowed"}))
    );

    stage.route("5", "/rewrite", json!({"proxy-rewrite": {
        "uri": "/new/place?a=1", "host": "inside.example", "method": "POST", "headers": {"set": {"X-Set": "$remote_addr"}},
    }}));
    let seen = stage.get("/rewrite?b=2", &[]).text();
    assert!(seen.starts_with("POST /new/place?a=1&b=2 HTTP/1.1\r\n"), "{seen}");
    for field in ["Host: inside.example\r\n", "X-Set: 127.0.0.1\r\n"] {
        assert!(seen.contains(field), "{seen}");
    }

    stage.route("6", "/answer", json!({"response-rewrite": {
        "status_code": 202, "body": "another", "headers": {"set": {"X-A": "b"}, "remove": ["X-Powered-By"]},
    }}));
    let response = stage.get("/answer", &[]);
    assert_eq!((response.status, response.text().as_str()), (202, "another"));
    assert_eq!((response.header("x-a"), response.header("x-powered-by")), (Some("b"), None));

    stage.route(
        "7",
        "/old/*",
        json!({"redirect": {"regex_uri": ["^/old/(.*)", "/new/$1"], "ret_code": 301}}),
    );
    let response = stage.get("/old/thing", &[]);
    assert_eq!((response.status, response.header("location")), (301, Some("/new/thing")));

    let limit = json!({"limit-count": {"count": 2, "time_window": 3600, "rejected_code": 429, "rejected_msg": "slow"}});
    stage.route("8", "/limit", limit);
    let answers: Vec<Response> = (0..3).map(|_| stage.get("/limit", &[])).collect();
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 429]);
    let remaining: Vec<_> =
        answers.iter().map(|answer| answer.header("x-ratelimit-remaining").unwrap()).collect();
    assert_eq!(remaining, ["1", "0", "0"]);
    assert_eq!(answers[2].json(), json!({"error_msg": "slow"}));

    stage.route("9", "/key", json!({"key-auth": {"hide_credentials": true}}));
    consumer(&stage.weir, "jack", json!({}));
    let refused = stage.get("/key", &[]);
    assert_eq!(
        (refused.status, refused.json()["message"].as_str()),
        (401, Some("Missing API key in request"))
    );
    assert_eq!(stage.get("/key", &[("apikey", "guess")]).status, 401);
    for (path, headers) in [("/key", &[("apikey", "jack-key")][..]), ("/key?apikey=jack-key", &[])] {
        let response = stage.get(path, headers);
        let seen = response.text();
        assert!(response.status == 200 && seen.contains("X-Consumer-Username: jack\r\n"), "{seen}");
        assert!(seen.contains("X-Credential-Identifier: k\r\n") && !seen.contains("jack-key"), "{seen}");
    }
}

#[test]
fn the_nearest_place_wins_with_its_whole_object() {
    let stage = Stage::new();
    let nodes = json!({stage.origin.address().to_string(): 1});
    let both = json!({"headers": {"set": {"X-Mark": "service", "X-Service": "1"}}});
    stage.weir.put(
        "services/s",
        json!({"upstream": {"nodes": nodes}, "plugins": {"response-rewrite": both, "key-auth": {}}}),
    );
    stage.weir.put("plugin_configs/p", json!({"plugins": {"response-rewrite": mark("plugin_config")}}));
    stage.weir.put("consumer_groups/g", json!({"plugins": {"response-rewrite": mark("consumer_group")}}));
    let route = |more: Value| {
        let mut route = json!({"uri": "/merge", "service_id": "s"});
        route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        stage.weir.put("routes/1", route);
    };
    let marks = |key: &str, expected: &str, service: Option<&str>| {
        let response = stage.get("/merge", &[("apikey", key)]);
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!((response.header("x-mark"), response.header("x-service")), (Some(expected), service));
    };
    consumer(&stage.weir, "plain", json!({}));
    consumer(&stage.weir, "member", json!({"group_id": "g"}));
    consumer(&stage.weir, "own", json!({"group_id": "g", "plugins": {"response-rewrite": mark("consumer")}}));
    route(json!({}));
    marks("plain-key", "service", Some("1"));
    route(json!({"plugin_config_id": "p"}));
    marks("plain-key", "plugin_config", None);
    route(json!({"plugin_config_id": "p", "plugins": {"response-rewrite": mark("route")}}));
    marks("plain-key", "route", None);
    marks("member-key", "consumer_group", None);
    marks("own-key", "consumer", None);
    stage.weir.put("consumer_groups/g", json!({"plugins": {"response-rewrite": mark("changed group")}}));
    marks("member-key", "changed group", None);
    stage.weir.delete("consumers/own");
    assert_eq!(stage.get("/merge", &[("apikey", "own-key")]).status, 401, "its credential went with it");
}

#[test]
fn plugin_disabled_closer_does_not_run() {
    let stage = Stage::new();
    let off = json!({"headers": {"set": {"X-Mark": "off"}}, "_meta": {"disable": true}});
    let nodes = json!({stage.origin.address().to_string(): 1});
    stage.weir.put(
        "services/s",
        json!({"upstream": {"nodes": nodes}, "plugins": {"response-rewrite": mark("service")}}),
    );
    stage
        .weir
        .put("routes/1", json!({"uri": "/off", "service_id": "s", "plugins": {"response-rewrite": off}}));
    assert_eq!(stage.get("/off", &[]).header("x-mark"), None);
    stage.route("2", "/consumer", json!({"key-auth": {}, "response-rewrite": mark("route")}));
    consumer(&stage.weir, "free", json!({"plugins": {"response-rewrite": off}}));
    let response = stage.get("/consumer", &[("apikey", "free-key")]);
    assert_eq!(
        (response.status, response.header("x-mark")),
        (200, None),
        "the consumer's copy counts, and it is off"
    );
}

#[test]
fn consumers_bring_plugins_that_the_route_has_not() {
    let stage = Stage::new();
    stage.route("1", "/a", json!({"key-auth": {}}));
    consumer(
        &stage.weir,
        "limited",
        json!({"plugins": {
            "limit-count": {"count": 1, "time_window": 3600, "rejected_code": 429},
            "proxy-rewrite": {"headers": {"set": {"X-Plan": "small"}}},
        }}),
    );
    consumer(&stage.weir, "free", json!({}));
    let asks = |name: &str| stage.get("/a", &[("apikey", &format!("{name}-key"))]);
    let first = asks("limited");
    assert!(first.status == 200 && first.text().contains("X-Plan: small\r\n"), "{}", first.text());
    assert_eq!((asks("limited").status, asks("free").status, asks("free").status), (429, 200, 200));
    assert!(!asks("free").text().contains("X-Plan"));
}

#[test]
fn global_rules_run_first_and_everywhere() {
    let stage = Stage::new();
    stage.weir.put(
        "global_rules/1",
        json!({"plugins": {
            "request-id": {"header_name": "X-Global-Id"},
            "proxy-rewrite": {"headers": {"set": {"X-Order": "global"}}},
        }}),
    );
    stage.route("1", "/a", json!({"proxy-rewrite": {"headers": {"add": {"X-Order": "route"}}}}));
    let response = stage.get("/a", &[]);
    let seen = response.text();
    let order: Vec<&str> = seen.lines().filter_map(|line| line.strip_prefix("X-Order: ")).collect();
    assert_eq!(order, ["global", "route"], "{seen}");
    assert!(response.header("x-global-id").is_some());
    let missing = stage.get("/nothing", &[]);
    assert_eq!((missing.status, missing.json()), (404, json!({"error_msg": "404 Route Not Found"})));
    assert!(missing.header("x-global-id").is_some(), "also where no route matches: {missing:?}");
    let (status, answer) = stage.weir.admin("PUT", "global_rules/2", json!({"plugins": {"request-id": {}}}));
    assert_eq!(status, 400, "a plugin is in one global rule only: {answer}");
    stage.weir.delete("global_rules/1");
    assert_eq!(stage.get("/a", &[]).header("x-global-id"), None);
}

#[test]
fn meta_filters_orders_and_words_refusals() {
    let stage = Stage::new();
    let filtered = json!({"response-rewrite": {
        "headers": {"set": {"X-Mark": "on"}}, "_meta": {"filter": [["arg_on", "==", "1"]]},
    }});
    stage.route("1", "/filter", filtered);
    assert_eq!(stage.get("/filter?on=1", &[]).header("x-mark"), Some("on"));
    assert_eq!(stage.get("/filter?on=2", &[]).header("x-mark"), None);

    // By their own priorities the address is checked before the limit; in the reverse order the limit counts
    // first.
    let refusing = |meta: Value| {
        json!({
            "ip-restriction": {"blacklist": ["127.0.0.1"]},
            "limit-count": {"count": 1, "time_window": 3600, "rejected_code": 429, "_meta": meta},
        })
    };
    stage.route("2", "/order", refusing(json!({})));
    let statuses = || [stage.get("/order", &[]).status, stage.get("/order", &[]).status];
    assert_eq!(statuses(), [403, 403]);
    stage.route("2", "/order", refusing(json!({"priority": 9000})));
    let turned = statuses();
    assert!(turned[1] == 429, "{turned:?}");

    let words = json!({"ip-restriction": {
        "blacklist": ["127.0.0.1"], "_meta": {"error_response": {"code": 1, "text": "no"}},
    }});
    stage.route("3", "/words", words);
    let refused = stage.get("/words", &[]);
    assert_eq!((refused.status, refused.json()), (403, json!({"code": 1, "text": "no"})));
    let (status, answer) = stage.weir.admin(
        "PUT",
        "routes/4",
        json!({
            "uri": "/x", "plugins": {"cors": {"_meta": {"filter": [["a", "<>", 1]]}}},
        }),
    );
    assert!(
        status == 400
            && answer["error_msg"]
                == "failed to validate the 'vars' expression: invalid operator '<>' (_meta.filter of plugin cors)",
        "{answer}"
    );
}

#[test]
fn metadata_reaches_plugins_that_are_already_in_use() {
    let stage = Stage::new();
    let limit = json!({"limit-count": {"count": 100, "time_window": 3600}});
    stage.route("1", "/limit", limit);
    assert!(stage.get("/limit", &[]).header("x-ratelimit-limit").is_some());
    stage.weir.put("plugin_metadata/limit-count", json!({"limit_header": "X-Most"}));
    let response = stage.get("/limit", &[]);
    assert_eq!((response.header("x-most"), response.header("x-ratelimit-limit")), (Some("100"), None));
    stage.weir.delete("plugin_metadata/limit-count");
    wait_until("the usual name is back", || stage.get("/limit", &[]).header("x-ratelimit-limit").is_some());
}

#[test]
fn local_replies_pass_through_the_response_phases() {
    let stage = Stage::new();
    stage.route("1", "/both", json!({"key-auth": {}, "cors": {}, "response-rewrite": mark("dressed")}));
    let refused = stage.get("/both", &[("Origin", "https://a.example")]);
    assert_eq!((refused.status, refused.header("x-mark")), (401, Some("dressed")));
    assert_eq!(refused.header("access-control-allow-origin"), Some("*"), "a browser may read the refusal");
    assert_eq!(stage.origin.requests().len(), 0);
}

#[test]
fn secrets_may_stand_in_the_environment() {
    let origin = Origin::echoing();
    let weir = Weir::builder(BINARY)
        .environment("JACKS_KEY", "from-the-environment")
        .environment("MORE", r#"{"joe": "from-json"}"#)
        .start();
    let nodes = json!({origin.address().to_string(): 1});
    let rewrite = json!({"headers": {"set": {"X-Token": "$ENV://JACKS_KEY"}}});
    let plugins = json!({"key-auth": {"hide_credentials": true}, "proxy-rewrite": rewrite});
    weir.put("routes/1", json!({"uri": "/a", "upstream": {"nodes": nodes}, "plugins": plugins}));
    for (name, key) in
        [("jack", "$ENV://JACKS_KEY"), ("joe", "$env://MORE/joe"), ("jim", "$ENV://NOBODY_SETS_THIS")]
    {
        weir.put("consumers", json!({"username": name}));
        let credential = json!({"plugins": {"key-auth": {"key": key}}});
        weir.put(&format!("consumers/{name}/credentials/c"), credential);
    }
    let (_, read) = weir.admin("GET", "consumers/jack/credentials/c", Value::Null);
    assert_eq!(read["value"]["plugins"]["key-auth"]["key"], "$ENV://JACKS_KEY", "what was written is kept");
    let asks = |key: &str| weir.client().request("GET", "/a", &[("apikey", key)], b"");
    let served = asks("from-the-environment").text();
    assert!(
        served.contains("X-Consumer-Username: jack\r\n")
            && served.contains("X-Token: from-the-environment\r\n"),
        "{served}"
    );
    assert!(asks("from-json").text().contains("X-Consumer-Username: joe\r\n"));
    for literal in ["$ENV://JACKS_KEY", "$env://MORE/joe", "$ENV://NOBODY_SETS_THIS"] {
        assert_eq!(asks(literal).status, 401, "{literal} opens nothing");
    }
    wait_until("it is told", || weir.stderr().iter().any(|line| line.contains("NOBODY_SETS_THIS")));
}

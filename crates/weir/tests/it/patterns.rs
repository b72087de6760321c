//! Patterns with look-around over long texts: the search is given up without opening a route, and refused for
//! whole bodies.

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Weir, wait_for};

use crate::support::{BINARY, builder};

/// The patterns of a finding; each blocked a worker for seconds.
const COSTLY: [&str; 2] = ["(?<!q)[a-z]+Z$", "(?i)(?<!x)[a-z0-9]+bot"];

fn failures(weir: &Weir, code: &str) -> u64 {
    let text = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
    let series = format!("weir_failures_total{{cause=\"{code}\",");
    let line = text.lines().find(|line| line.starts_with(&series));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}

#[test]
fn costly_pattern_refuses_the_request() {
    let origin = Origin::start(|_| Reply::ok("open"));
    let upstream = format!("{{nodes: {{'{}': 1}}}}", origin.address());
    let mut routes = String::from("routes:\n");
    for (number, pattern) in COSTLY.iter().enumerate() {
        // The first route denies, the second admits texts in which the pattern is not found.
        routes += &format!(
            "  - {{id: deny{number}, uri: /{number}, priority: 9, vars: [[http_x, '~~', '{pattern}']], \
             plugins: {{mocking: {{response_status: 403, response_example: denied}}}}}}\n  \
             - {{id: open{number}, uri: /{number}, vars: [[http_x, '!', '~~', '{pattern}']], upstream: {upstream}}}\n"
        );
    }
    routes += &format!(
        "  - {{id: rewrite, uri: /rewrite/*, upstream: {upstream}, \
         plugins: {{proxy-rewrite: {{regex_uri: ['(?<!q)[a-z]+Z$', '/there']}}}}}}\n  \
         - {{id: redirect, uri: /redirect/*, upstream: {upstream}, \
         plugins: {{redirect: {{regex_uri: ['(?<!q)[a-z]+Z$', '/there']}}}}}}\n"
    );
    let weir = builder(&routes).start();
    let ask = |target: &str, value: &str| weir.client().request("GET", target, &[("X", value)], b"").status;

    for number in 0..COSTLY.len() {
        assert_eq!(ask(&format!("/{number}"), "plain"), 200);
        assert_eq!(ask(&format!("/{number}"), "robot aZ"), 403);
        for length in [4_000, 60_000] {
            assert_eq!(ask(&format!("/{number}"), &"a".repeat(length)), 400, "{number} {length}");
        }
    }
    for plugin in ["rewrite", "redirect"] {
        assert_eq!(ask(&format!("/{plugin}/short"), "a"), 200);
        assert_eq!(ask(&format!("/{plugin}/{}", "a".repeat(8_000)), "a"), 400, "{plugin}");
    }
    let counted = wait_for("the faults are counted", || {
        Some(failures(&weir, "pattern_limit")).filter(|count| *count > 5)
    });
    assert_eq!(counted, 6);
}

#[test]
fn undecided_body_reader_asks_no_node() {
    let origin = Origin::answering("open");
    let filter = "_meta: {filter: [[http_x, '~~', '(?<!q)[a-z]+Z$']]}";
    let logger = format!("http-logger: {{uri: 'http://127.0.0.1:1', include_req_body: true, {filter}}}");
    let routes = format!(
        "routes:\n  - {{id: r, uri: /*, plugins: {{{logger}}}, upstream: {{nodes: {{'{}': 1}}}}}}\n",
        origin.address()
    );
    let weir = builder(&routes).start();
    let ask = |value: &str| weir.client().request("POST", "/", &[("X", value)], b"body").status;
    assert_eq!(ask(&"a".repeat(60_000)), 400);
    assert_eq!(origin.requests().len(), 0, "the node is not asked");
    assert_eq!(ask("plain"), 200);
}

#[test]
fn undecided_edit_sends_no_local_reply() {
    let mock = "mocking: {response_example: hidden}";
    let rewrite = "body: edited, vars: [[http_x, '~~', '(?<!q)[a-z]+Z$']]";
    let routes = format!(
        "routes:\n  - {{id: r, uri: /r, plugins: {{{mock}, response-rewrite: {{{rewrite}}}}}}}\n\
         global_rules:\n  - {{id: g, plugins: {{response-rewrite: {{headers: {{set: {{X-G: g}}}}}}}}}}\n"
    );
    let weir = builder(&routes).start();
    let ask = |path: &str, value: &str| {
        let answer = weir.client().request("GET", path, &[("X", value)], b"");
        (answer.status, answer.header("x-g").map(str::to_owned), answer.text())
    };
    assert_eq!(ask("/r", "aZ"), (200, Some("g".to_owned()), "edited".to_owned()));
    let (status, field, text) = ask("/r", &"a".repeat(60_000));
    assert_eq!((status, field), (400, None), "{text}");
    assert!(text.contains("400 Bad Request") && !text.contains("hidden"), "{text}");
    assert_eq!(ask("/none", "a").0, 404);
    wait_for("the fault is counted", || (failures(&weir, "pattern_limit") == 1).then_some(()));
}

#[test]
fn body_is_not_searched_by_costly_patterns() {
    let weir = Weir::builder(BINARY).start();
    let refused = |route: Value, reason: &str| {
        let (status, answer) = weir.admin("PUT", "routes/1", route);
        let message = answer["error_msg"].as_str().unwrap_or_default();
        assert_eq!(status, 400, "{answer}");
        assert!(message.contains(reason), "{message}");
    };
    let upstream = json!({"nodes": {"127.0.0.1:1": 1}});
    for pattern in COSTLY {
        let vars = json!([["request_body", "~~", pattern]]);
        refused(
            json!({"uri": "/m", "vars": vars, "upstream": upstream}),
            "uses look-around or back-references",
        );
        let filters = json!([{"regex": pattern, "scope": "global", "replace": ""}]);
        let plugins = json!({"response-rewrite": {"filters": filters}});
        refused(
            json!({"uri": "/m", "plugins": plugins, "upstream": upstream}),
            "not searched for in a whole body",
        );
    }
}

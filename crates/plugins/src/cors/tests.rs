//! Configurations that `cors` check_configuration, and the fields of responses by origin.

use exchange::testing::{Scene, check_configuration, decide, lines, respond};
use model::catalog::SchemaType;

use super::*;

#[test]
fn configurations() {
    let check = |schema_type, config: Value, fault: Option<&str>| {
        check_configuration(&KIND, schema_type, &config, fault);
    };
    let route = SchemaType::Plugin;
    check(route, json!({}), None);
    for good in ["*", "**", "null", "https://x.com", "https://x.com,http://y.com.uk:12000,http://c.tv"] {
        check(route, json!({"allow_origins": good, "timing_allow_origins": good}), None);
        check(SchemaType::Metadata, json!({"allow_origins": {"a": good}}), None);
    }
    for bad in ["", "*a", "*,http://y.com", "nulll", "http//y.com.uk", "x.com", "https://x.com,*"] {
        check(route, json!({"allow_origins": bad}), Some("allow_origins"));
        check(route, json!({"timing_allow_origins": bad}), Some("timing_allow_origins"));
        check(SchemaType::Metadata, json!({"allow_origins": {"a": bad}}), Some("allow_origins"));
    }
    check(
        route,
        json!({"allow_origins_by_regex": [r".*\.x\.com$", "(?=a)a"], "_meta": {"priority": 1}}),
        None,
    );
    check(route, json!({"allow_origins_by_regex": []}), Some("allow_origins_by_regex"));
    check(route, json!({"allow_origins_by_regex": ["["]}), Some("the pattern `[` is not valid"));
    check(route, json!({"allow_origins_by_metadata": [""]}), Some("allow_origins_by_metadata"));
    check(route, json!({"max_age": "bad"}), Some("max_age"));
    check(route, json!({"expose_headers": "a\r\nb"}), Some("control character"));
    check(route, json!({"allow_origin": "*"}), Some("allow_origin"));
    let forced = json!({
        "allow_credential": true, "allow_origins": "**", "allow_methods": "**", "allow_headers": "**"
    });
    check(route, forced.clone(), None);
    for list in ["allow_origins", "allow_methods", "allow_headers", "expose_headers", "timing_allow_origins"]
    {
        let mut config = forced.clone();
        config[list] = json!("*");
        check(route, config, Some("you can not set '*' for other option when 'allow_credential' is true"));
    }
}

/// The fields of a response to a request with these fields, for a node that sent `X: 1`.
fn answer(config: &Value, method: &str, request: &str, node: &[(&str, &str)]) -> Vec<String> {
    let mut scene = Scene::new();
    let metadata = json!({"allow_origins": {"partners": "http://p.com,http://q.com", "all": "*"}});
    let plugin = scene.build_with(&KIND, config, Some(&metadata));
    let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n{request}\r\n");
    let mut exchange = scene.exchange(head.as_bytes());
    let reply = decide(plugin.rewrite(&mut exchange));
    assert_eq!(
        reply.map(|reply| (reply.status, reply.body)),
        (method == "OPTIONS").then(|| (200, b"".into()))
    );
    // Changes that plugins after this one make to the request change nothing.
    exchange.request.headers.set("Origin", b"http://changed").unwrap();
    respond(&mut exchange, 200, node);
    exchange::testing::finish(plugin.response_head(&mut exchange));
    lines(&exchange.response.headers)
}

#[test]
fn all_fields_of_a_plain_configuration() {
    let expected = [
        "Access-Control-Allow-Origin: *",
        "Access-Control-Allow-Methods: *",
        "Access-Control-Max-Age: 5",
        "Access-Control-Allow-Headers: *",
    ];
    for (method, origin) in [("GET", "Origin: http://x.com\r\n"), ("OPTIONS", ""), ("POST", "")] {
        assert_eq!(answer(&json!({}), method, origin, &[]), expected);
    }
}

#[test]
fn all_fields_of_a_forced_configuration() {
    let config = json!({
        "allow_origins": "**", "allow_methods": "**", "allow_headers": "**", "allow_credential": true,
        "expose_headers": "ex-a,ex-b", "max_age": -1
    });
    let request = "Origin: http://x.com\r\nAccess-Control-Request-Headers: a,b\r\n";
    assert_eq!(
        answer(&config, "OPTIONS", request, &[("Vary", "Accept"), ("access-control-allow-origin", "*")]),
        [
            "Vary: Accept",
            "Access-Control-Allow-Origin: http://x.com",
            "Vary: Origin",
            "Access-Control-Allow-Methods: GET,POST,PUT,DELETE,PATCH,HEAD,OPTIONS,CONNECT,TRACE",
            "Access-Control-Max-Age: -1",
            "Access-Control-Expose-Headers: ex-a,ex-b",
            "Access-Control-Allow-Credentials: true",
            "Access-Control-Allow-Headers: a,b",
        ]
    );
    let without = answer(&config, "GET", "", &[("Access-Control-Allow-Headers", "node")]);
    assert!(!without.iter().any(|line| line.contains("Allow-Headers") || line.starts_with("Vary")));
    let exposed = [("Access-Control-Expose-Headers", "node")];
    assert!(
        answer(&json!({}), "GET", "", &exposed).contains(&"Access-Control-Expose-Headers: node".to_owned())
    );
}

#[test]
fn origins_are_allowed() {
    let check = |config: Value, origin: &str, allowed: Option<&str>, vary: bool| {
        let request = if origin.is_empty() { String::new() } else { format!("Origin: {origin}\r\n") };
        let lines = answer(&config, "GET", &request, &[]);
        let value = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let got = value("Access-Control-Allow-Origin: ");
        assert_eq!(got.as_deref(), allowed, "{config} {origin}");
        assert_eq!(value("Vary: ").as_deref(), vary.then_some("Origin"), "{config} {origin}");
        assert_eq!(value("Access-Control-Max-Age: ").is_some(), allowed.is_some(), "all or nothing");
    };
    let list = json!({"allow_origins": "http://a.com,http://b.com"});
    check(list.clone(), "http://a.com", Some("http://a.com"), true);
    check(list.clone(), "http://b.com", Some("http://b.com"), true);
    check(list.clone(), "http://c.com", None, true);
    check(list.clone(), "http://A.com", None, true);
    check(list, "", None, true);
    check(json!({"allow_origins": "http://a.com"}), "http://c.com", None, true);
    check(json!({"allow_origins": "null"}), "null", Some("null"), true);
    check(json!({"allow_origins": "**"}), "http://c.com", Some("http://c.com"), true);
    check(json!({"allow_origins": "**"}), "", Some("*"), false);
    let pattern =
        json!({"allow_origins": "http://a.com", "allow_origins_by_regex": [r"\.b\.com$", "^null$"]});
    check(pattern.clone(), "http://x.b.com", Some("http://x.b.com"), true);
    check(pattern.clone(), "null", Some("null"), true);
    check(pattern.clone(), "http://a.com", None, true);
    check(pattern, "http://x.b.com.evil", None, true);
    let metadata = json!({"allow_origins_by_metadata": ["unknown", "partners"]});
    check(metadata.clone(), "http://q.com", Some("http://q.com"), true);
    check(metadata.clone(), "http://a.com", None, true);
    check(metadata, "", None, true);
    let both = json!({"allow_origins": "http://a.com", "allow_origins_by_metadata": ["partners"]});
    check(both.clone(), "http://a.com", Some("http://a.com"), true);
    check(both, "http://p.com", Some("http://p.com"), true);
    check(json!({"allow_origins_by_metadata": ["all"]}), "http://z.com", Some("http://z.com"), true);
}

#[test]
fn timings_are_allowed_apart_from_the_rest() {
    let check = |config: Value, origin: &str, allowed: Option<&str>, timing: Option<&str>| {
        let lines = answer(&config, "GET", &format!("Origin: {origin}\r\n"), &[]);
        let value = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name));
        let got = (value("Access-Control-Allow-Origin: "), value("Timing-Allow-Origin: "));
        assert_eq!(got, (allowed, timing), "{config} {origin}");
    };
    let one = json!({"timing_allow_origins": "http://a.com"});
    check(one.clone(), "http://a.com", Some("*"), Some("http://a.com"));
    check(one, "http://b.com", Some("*"), None);
    let apart = json!({"allow_origins": "http://a.com", "timing_allow_origins": "http://b.com"});
    check(apart.clone(), "http://a.com", Some("http://a.com"), None);
    check(apart.clone(), "http://b.com", None, Some("http://b.com"));
    check(apart, "http://c.com", None, None);
    check(json!({"timing_allow_origins": "*"}), "http://c.com", Some("*"), Some("*"));
    let pattern = json!({"timing_allow_origins": "*", "timing_allow_origins_by_regex": ["^http://a"]});
    check(pattern.clone(), "http://a.com", Some("*"), Some("http://a.com"));
    check(pattern, "http://c.com", Some("*"), None);
}

#[test]
fn upstream_fields_pass_for_allowed_origins() {
    let node = [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Allow-Credentials", "true"),
        ("access-control-allow-methods", "DELETE"),
        ("Access-Control-Allow-Headers", "X-A"),
        ("Access-Control-Allow-Private-Network", "true"),
        ("Access-Control-Expose-Headers", "X-B"),
        ("Access-Control-Max-Age", "600"),
        ("Timing-Allow-Origin", "*"),
        ("X-Own", "1"),
    ];
    let config =
        json!({"allow_origins": "https://good.example", "timing_allow_origins": "https://t.example"});
    for origin in ["Origin: https://evil.example\r\n", ""] {
        assert_eq!(answer(&config, "GET", origin, &node), ["X-Own: 1", "Vary: Origin"], "{origin}");
    }
    let lines = answer(&config, "GET", "Origin: https://good.example\r\n", &node);
    assert!(lines.contains(&"Access-Control-Allow-Origin: https://good.example".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("Credentials")), "{lines:?}");
    let mut forced = config;
    forced["allow_credential"] = json!(true);
    (forced["allow_methods"], forced["allow_headers"]) = (json!("GET"), json!("X-C"));
    let lines = answer(&forced, "GET", "Origin: https://good.example\r\n", &node);
    assert!(lines.contains(&"Access-Control-Allow-Credentials: true".to_owned()), "{lines:?}");
}

/// The kinds of the tests that run whole requests.
static KINDS: [&exchange::plugin::PluginKind; 5] = [
    &crate::fault_injection::KIND,
    &KIND,
    &crate::client_control::KIND,
    &crate::key_auth::KIND,
    &crate::grpc_web::KIND,
];

/// The status of a request and its `Access-Control-Allow-Origin`, with these plugins of a global rule and of
/// the route.
fn served(global: &Value, route: &Value, request: &str) -> (u16, Option<String>) {
    let upstream = json!({"nodes": {"127.0.0.1:1": 1}});
    let scene = gateway::testing::Scene::new(
        &KINDS,
        &[
            ("global_rules/1", json!({"id": "1", "plugins": global})),
            ("routes/1", json!({"uri": "/*", "upstream": upstream, "plugins": route})),
        ],
    );
    let outcome = scene.run(request);
    (outcome.status, outcome.field("Access-Control-Allow-Origin").map(str::to_owned))
}

#[test]
fn refusals_before_cors_carry_its_fields() {
    let request = |origin: &str| {
        format!("POST / HTTP/1.1\r\nHost: h\r\nOrigin: {origin}\r\nContent-Length: 3\r\n\r\nabc")
    };
    let none = json!({});
    let abort = json!({"abort": {"http_status": 503}});
    let long = json!({"max_body_size": 1});
    let rows = [
        (&none, json!({"fault-injection": abort}), 503),
        (&none, json!({"client-control": long}), 413),
        (&json!({"key-auth": {}}), json!({}), 401),
        (&json!({"fault-injection": abort}), json!({}), 503),
        (&json!({"client-control": long}), json!({}), 413),
        (&none, json!({"key-auth": {}}), 401),
        (&none, json!({}), 502),
    ];
    for (global, mut route, status) in rows {
        route["cors"] = json!({"allow_origins": "https://good.example"});
        let good = served(global, &route, &request("https://good.example"));
        assert_eq!(good, (status, Some("https://good.example".to_owned())), "{global} {route}");
        assert_eq!(
            served(global, &route, &request("https://evil.example")),
            (status, None),
            "{global} {route}"
        );
    }
}

#[test]
fn preflight_is_answered_before_authentication() {
    let preflight = "OPTIONS / HTTP/1.1\r\nHost: h\r\nOrigin: https://good.example\r\n\
                     Access-Control-Request-Method: POST\r\n\r\n";
    let options = "OPTIONS / HTTP/1.1\r\nHost: h\r\nOrigin: https://good.example\r\n\r\n";
    let cors = json!({"cors": {"allow_origins": "https://good.example"}});
    let check = |global: Value, route: &Value, request: &str, status: u16, allowed: Option<&str>| {
        let expected = (status, allowed.map(str::to_owned));
        assert_eq!(served(&global, route, request), expected, "{global} {route} {request}");
    };
    let good = Some("https://good.example");
    check(json!({"key-auth": {}}), &cors, preflight, 200, good);
    // Other requests of this method show nothing that needs no credentials.
    check(json!({"key-auth": {}}), &cors, options, 401, good);
    check(json!({}), &cors, options, 200, good);
    let abort = json!({"fault-injection": {"abort": {"http_status": 503}}});
    check(abort, &cors, preflight, 503, good);
    for global in [json!({}), json!({"key-auth": {}})] {
        check(global.clone(), &json!({"grpc-web": {}, "key-auth": {}}), preflight, 204, Some("*"));
        check(global, &json!({"grpc-web": {}, "key-auth": {}}), options, 401, Some("*"));
        let both = json!({"grpc-web": {}, "key-auth": {}, "cors": cors["cors"]});
        check(json!({"key-auth": {}}), &both, preflight, 200, good);
    }
}

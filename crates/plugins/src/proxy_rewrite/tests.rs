//! Configurations that `proxy-rewrite` check_configuration, and its effect on requests and responses.
use super::*;
use exchange::testing::{Scene, check_configuration, decide, lines, with_fields};
use model::catalog::SchemaType;
use router::path::PathOptions;

#[test]
fn configurations() {
    let check = |config: Value, want: Result<(), &str>| {
        check_configuration(&KIND, SchemaType::Plugin, &config, want.err());
    };
    check(json!({ "uri": "/a/$arg_x" }), Ok(()));
    check(json!({ "uri": "/a", "_meta": { "disable": false } }), Ok(()));
    check(json!({ "uri": "/a", "scheme": "http" }), Err("unknown field `scheme`"));
    check(json!({ "method": "PROPFIND", "host": "a-b.example:8080" }), Ok(()));
    check(json!({ "regex_uri": ["^/a/(.*)", "/$1", "^/b", "/$0$$"] }), Ok(()));
    check(json!({ "headers": { "X-A": 1, "X-B": "$host" } }), Ok(()));
    check(json!({ "headers": { "add": { "A": "1" }, "set": { "B": 2 }, "remove": ["C"] } }), Ok(()));
    check(json!({ "headers": { "add": { "A": ["1", 2] }, "set": { "B": ["$1", "$host"] } } }), Ok(()));
    check(json!({ "use_real_request_uri_unsafe": true }), Ok(()));
    check(json!({}), Err("expect object to have at least 1 properties"));
    check(json!({ "uri": "a" }), Err("uri"));
    check(json!({ "uri": "/${" }), Err("uri"));
    check(json!({ "host": "a b" }), Err("host"));
    check(json!({ "method": "BREW" }), Err("method"));
    check(json!({ "method": "HEAD" }), Err("method HEAD"));
    check(json!({ "method": "TRACE" }), Err("method TRACE"));
    check(json!({ "regex_uri": ["^/a"] }), Err("regex_uri"));
    check(json!({ "regex_uri": ["a", "b", "c"] }), Err("The length of regex_uri should be an even number"));
    check(json!({ "regex_uri": ["(", "/"] }), Err("invalid regex_uri((, /)"));
    check(json!({ "regex_uri": ["a", "$x"] }), Err("invalid regex_uri(a, $x)"));
    check(json!({ "headers": {} }), Err("headers"));
    check(json!({ "headers": { "a b": "1" } }), Err("invalid field character in header"));
    check(json!({ "headers": { "a": "1\r\nb: 2" } }), Err("invalid value character in header"));
    check(json!({ "headers": { "set": { "a": true } } }), Err("headers"));
    check(json!({ "headers": { "set": { "a": [] } } }), Err("headers"));
    check(json!({ "headers": { "add": { "a": [["1"]] } } }), Err("headers"));
    check(
        json!({ "headers": { "add": { "a": ["1", "b\r\nc: 2"] } } }),
        Err("invalid value character in header"),
    );
    check(json!({ "headers": { "a": ["1"] } }), Err("headers"));
    check(json!({ "uri": "/a", "unknown": 1 }), Err("unknown"));
}

#[test]
fn references_in_regex_uri_pass_the_check() {
    for pair in [["$env://PATTERN", "/$1"], ["^/a/(.*)", "$secret://vault/1/rewrite/to"]] {
        let config = json!({ "regex_uri": pair });
        assert_eq!((KIND.check)(&config), Ok(()), "{config}");
    }
}

/// The request that an upstream gets, or the status of the refusal.
fn target(config: Value, asked: &str) -> String {
    target_with(PathOptions::default(), config, asked)
}

fn target_with(options: PathOptions, config: Value, asked: &str) -> String {
    let mut scene = Scene::new().with_path_options(options);
    let plugin = scene.build(&KIND, &config);
    let mut exchange = scene.exchange(format!("GET {asked} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    if let Some(reply) = decide(plugin.rewrite(&mut exchange)) {
        return reply.status.to_string();
    }
    let path = String::from_utf8(exchange.forward_path().to_vec()).unwrap();
    match exchange.forward_query() {
        Some(query) => format!("{path}?{}", String::from_utf8_lossy(query)),
        None => path,
    }
}

#[test]
fn targets() {
    let check = |config: Value, asked: &str, want: &str| {
        assert_eq!(target(config.clone(), asked), want, "{config} {asked}");
    };
    check(json!({ "uri": "/new" }), "/old?a=1", "/new?a=1");
    check(json!({ "uri": "/new?b=2" }), "/old?a=1", "/new?b=2&a=1");
    check(json!({ "uri": "/new?b=2" }), "/old", "/new?b=2");
    check(json!({ "uri": "/$arg_x$uri" }), "/old?x=1", "/1/old?x=1");
    check(json!({ "uri": "/new", "regex_uri": ["old", "other"] }), "/old", "/new");
    check(json!({ "host": "h2" }), "/a%2Fb?x", "/a%2Fb?x");
    let pairs = json!({ "regex_uri": ["^/a/(.*)/(.*)", "/$2/${1}", "^/b", "/c?d=1"] });
    check(pairs.clone(), "/a/x/y?q", "/y/x?q");
    check(pairs.clone(), "/b/z?q", "/c?d=1/z&q");
    check(pairs.clone(), "/z/b", "/z/b");
    check(pairs, "/a/x%20y/%C3%A4", "/%C3%A4/x%20y");
    // An encoded question mark stays one. An encoded slash is matched as a slash, unless it is set to stay
    // one.
    check(json!({ "regex_uri": ["^/a/(.*)", "/$1"] }), "/a/x%3Fy?z", "/x%3Fy?z");
    check(json!({ "regex_uri": ["^/a/(.*)", "/$1"] }), "/a/x%2Fy", "/x/y");
    check(json!({ "regex_uri": ["^/a/(.*)", "/$1"] }), "/a/x%252Fy", "/x%252Fy");
    let keeping = PathOptions { match_uri_encoded_slash: true, ..PathOptions::default() };
    assert_eq!(target_with(keeping, json!({ "regex_uri": ["^/a/(.*)", "/$1"] }), "/a/x%2Fy"), "/x%2Fy");
    // The template's question mark begins a query whatever the client has encoded, and a text behind the
    // match belongs to it.
    check(json!({ "regex_uri": ["^/b", "/c?d=1"] }), "/b/x%3Fy%26z", "/c?d=1/x?y%26z");
    check(json!({ "uri": "/s?" }), "/old?a=1", "/s?a=1");
    check(json!({ "uri": "/${arg_x ?? none}/y" }), "/old", "/none/y");
    // A pattern that removes the leading slash.
    check(json!({ "regex_uri": ["^/a(.*)", "$1"] }), "/a", "/");
    check(json!({ "regex_uri": ["^/a/(.*)", "$1"] }), "/a/b", "/b");
}

#[test]
fn client_text_cannot_leave_path_or_split_line() {
    let check = |config: Value, asked: &str, want: &str| {
        assert_eq!(target(config.clone(), asked), want, "{config} {asked}");
    };
    check(json!({ "uri": "/in/$arg_x" }), "/?x=..%2Fadmin", "/admin?x=..%2Fadmin");
    check(json!({ "uri": "/in/$arg_x" }), "/?x=..%2F..%2Fadmin", "400");
    check(json!({ "uri": "/in/$arg_x" }), "/?x=a%20HTTP%2F1.1%0D%0AX:", "400");
    check(json!({ "uri": "/in/$arg_x" }), "/?x=a%20b%3Fc%23", "/in/a%20b%3Fc%23?x=a%20b%3Fc%23");
    check(json!({ "uri": "/in/$arg_x" }), "/?x=a%5Cb", "400");
    check(json!({ "uri": "/in?y=$arg_x" }), "/?x=a%0D%0Ab", "/in?y=a%0D%0Ab&x=a%0D%0Ab");
    check(json!({ "regex_uri": ["^/x(.*)", "/$1"] }), "/x../admin", "400");
}

#[test]
fn raw_target_is_as_client_sent_it() {
    let raw = |extra: Value| with_fields(json!({ "use_real_request_uri_unsafe": true }), &extra);
    assert_eq!(target(raw(json!({})), "/a//b%41/../c?x=1"), "/a//b%41/../c?x=1");
    assert_eq!(target(raw(json!({ "regex_uri": ["^/a(.*)", "$1"] })), "/a/b%2fc?x=1"), "/b%2fc?x=1");
    assert_eq!(target(raw(json!({ "regex_uri": ["^/z", "/y"] })), "/a/%62?x"), "/a/%62?x");
    assert_eq!(target(raw(json!({ "uri": "/new" })), "/old?a=1&b"), "/new?a=1&b");
    assert_eq!(target(raw(json!({ "uri": "/new?c=%20" })), "/old?a=1"), "/new?c=%20&a=1");
    assert_eq!(target(raw(json!({ "uri": "/new%2Fx?c" })), "/old"), "/new%2Fx?c");
    assert_eq!(
        target(raw(json!({ "uri": "/$arg_x" })), "/old?x=a%3Fb%20c%0D"),
        "/a%3Fb%20c%0D?x=a%3Fb%20c%0D"
    );
}

#[test]
fn fields_host_and_method() {
    let mut scene = Scene::new();
    let mut check = |config: Value, request: &str, method: &str, want: &[&str]| {
        let plugin = scene.build(&KIND, &config);
        let mut exchange = scene.exchange(request.as_bytes());
        assert!(decide(plugin.rewrite(&mut exchange)).is_none());
        assert_eq!(lines(&exchange.request.headers), want, "{config}");
        assert_eq!(String::from_utf8_lossy(exchange.request.method_text()), method, "{config}");
    };
    let request = "GET /a/b?x=%0D%0Ay HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\n\r\n";
    check(
        json!({ "headers": { "B": "$host", "C": 3 } }),
        request,
        "GET",
        &["Host: h", "A: 1", "B: h", "C: 3"],
    );
    check(json!({ "headers": { "A": "" } }), request, "GET", &["Host: h", "B: 2"]);
    check(
        json!({ "headers": { "add": { "A": "2" }, "set": { "B": "$1" }, "remove": ["A"] }, "regex_uri": ["/a/(.*)", "/$1"] }),
        request,
        "GET",
        &["Host: h", "B: b"],
    );
    check(
        json!({ "headers": { "add": { "A": "2" } } }),
        request,
        "GET",
        &["Host: h", "A: 1", "B: 2", "A: 2"],
    );
    check(
        json!({ "headers": { "add": { "A": ["2", "$1"] }, "set": { "B": ["$1", "$host", "", 4] } }, "regex_uri": ["/a/(.*)", "/$1"] }),
        request,
        "GET",
        &["Host: h", "A: 1", "A: 2", "A: b", "B: b", "B: h", "B: 4"],
    );
    check(
        json!({ "headers": { "set": { "B": ["$arg_none", "$arg_x"] } } }),
        request,
        "GET",
        &["Host: h", "A: 1"],
    );
    check(
        json!({ "headers": { "set": { "Host": ["x", "y"], "C": ["1"] } } }),
        request,
        "GET",
        &["Host: h", "A: 1", "B: 2", "C: 1"],
    );
    // A value that no field may hold removes the client's own.
    check(json!({ "headers": { "A": "$arg_x" } }), request, "GET", &["Host: h", "B: 2"]);
    check(json!({ "method": "POST" }), request, "POST", &["Host: h", "A: 1", "B: 2"]);
    check(json!({ "method": "POST" }), "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", "HEAD", &["Host: h"]);
}

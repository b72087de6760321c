//! Configurations that `redirect` check_configuration, and its effect on requests and responses.
use super::*;
use exchange::testing::{Scene, check_configuration, decide};
use model::catalog::SchemaType;

#[test]
fn configurations() {
    let check = |config: Value, want: Result<(), &str>| {
        check_configuration(&KIND, SchemaType::Plugin, &config, want.err());
    };
    check(json!({ "uri": "/foo" }), Ok(()));
    check(
        json!({ "uri": "/foo$$uri", "ret_code": 301, "encode_uri": true, "append_query_string": true }),
        Ok(()),
    );
    check(json!({ "regex_uri": ["^/a/(.*)", "/$1"] }), Ok(()));
    check(json!({ "http_to_https": true, "ret_code": 302 }), Ok(()));
    check(json!({ "http_to_https": false }), Ok(()));
    check(json!({}), Err("should match only one schema"));
    check(json!({ "uri": "/" }), Err("uri"));
    check(json!({ "uri": "/a", "http_to_https": true }), Err("matches both schemas 1 and 3"));
    check(json!({ "uri": "/a", "ret_code": 199 }), Err("ret_code"));
    check(json!({ "uri": "/a", "ret_code": 1000 }), Err("ret_code"));
    check(json!({ "regex_uri": ["a"] }), Err("regex_uri"));
    check(json!({ "regex_uri": ["(", "b"] }), Err("invalid regex_uri ((, b)"));
    check(json!({ "http_to_https": true, "append_query_string": true }), Err("only one of `http_to_https`"));
    check(json!({ "uri": "/a", "unknown": 1 }), Err("unknown"));
}

/// The status and the `Location` of the reply; `None` if the request is forwarded.
fn ask(config: &Value, metadata: Option<&Value>, line: &str) -> Option<(u16, String)> {
    let mut scene = Scene::new();
    let plugin = scene.build_with(&KIND, config, metadata);
    let mut exchange = scene.exchange(format!("{line} HTTP/1.1\r\nHost: Foo.com:80\r\n\r\n").as_bytes());
    let reply = decide(plugin.rewrite(&mut exchange))?;
    assert_eq!(reply.headers.len(), 1);
    Some((reply.status, reply.headers[0].1.clone()))
}

#[test]
fn redirections() {
    let check = |config: Value, line: &str, want: Option<(u16, &str)>| {
        let got = ask(&config, None, line);
        assert_eq!(got.as_ref().map(|(status, to)| (*status, &**to)), want, "{config} {line}");
    };
    check(json!({ "uri": "/test/add", "ret_code": 301 }), "GET /hello", Some((301, "/test/add")));
    check(
        json!({ "uri": "$uri/test/a${arg_name}c" }),
        "GET /hello?name=json",
        Some((302, "/hello/test/ajsonc")),
    );
    check(json!({ "uri": "/foo$$uri" }), "GET /hello", Some((302, "/foo$/hello")));
    check(
        json!({ "uri": "\\$uri/foo$uri\\$uri/bar" }),
        "GET /hello",
        Some((302, "\\$uri/foo/hello\\$uri/bar")),
    );
    check(json!({ "uri": "$uri/$bad_var/bar" }), "GET /hello", Some((302, "/hello//bar")));
    check(json!({ "uri": "https://$host$request_uri" }), "GET /a?b", Some((302, "https://foo.com/a?b")));
    check(json!({ "uri": "/a$arg_x" }), "GET /?x=%0D%0AX:%20y", Some((302, "/a%0D%0AX:%20y")));
    let regex = json!({ "regex_uri": ["^/test/(.*)/(.*)", "http://a.com/$1-$2"] });
    check(regex.clone(), "GET /test/x/y", Some((302, "http://a.com/x-y")));
    check(regex, "GET /other", None);
    check(json!({ "uri": "/a", "append_query_string": true }), "GET /?b=1", Some((302, "/a?b=1")));
    check(json!({ "uri": "/a?c", "append_query_string": true }), "GET /?b=1", Some((302, "/a?c&b=1")));
    check(json!({ "uri": "/a", "append_query_string": true }), "GET /", Some((302, "/a")));
    check(
        json!({ "uri": "$uri?x=%20", "encode_uri": true }),
        "GET /a%20b%23",
        Some((302, "/a%20b%23?x=%20")),
    );
    check(json!({ "http_to_https": false }), "GET /", None);
}

#[test]
fn https_has_its_port_and_keeps_the_method() {
    let config = json!({ "http_to_https": true, "ret_code": 302 });
    let check = |metadata: Option<Value>, line: &str, want: (u16, &str)| {
        let got = ask(&config, metadata.as_ref(), line).unwrap();
        assert_eq!((got.0, &*got.1), want, "{metadata:?} {line}");
    };
    check(None, "GET /hello?a=1", (301, "https://foo.com:9443/hello?a=1"));
    check(None, "HEAD /hello", (301, "https://foo.com:9443/hello"));
    check(None, "POST /hello", (308, "https://foo.com:9443/hello"));
    check(Some(json!({ "https_port": 443 })), "GET /hello", (301, "https://foo.com/hello"));
    check(Some(json!({ "https_port": 8443 })), "GET /a%2Fb", (301, "https://foo.com:8443/a%2Fb"));
}

#[test]
fn https_without_a_host_is_refused() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({ "http_to_https": true }));
    for head in ["GET /rs HTTP/1.1\r\nHost:\r\n\r\n", "GET /rs HTTP/1.0\r\n\r\n"] {
        let mut exchange = scene.exchange(head.as_bytes());
        let reply = decide(plugin.rewrite(&mut exchange)).unwrap();
        assert_eq!((reply.status, reply.headers.iter().any(|(name, _)| name == "Location")), (400, false));
    }
}

#[test]
fn https_request_is_not_redirected() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({ "http_to_https": true }));
    let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: https\r\n\r\n");
    assert!(decide(plugin.rewrite(&mut exchange)).is_some(), "a client is not trusted to say so");
    exchange.connection.scheme = RequestScheme::Https;
    assert!(decide(plugin.rewrite(&mut exchange)).is_none());
}

#[test]
fn trusted_proxy_names_the_scheme() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({ "http_to_https": true }));
    let mut check = |named: &str, scheme: RequestScheme, is_redirected: bool| {
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        // Only the field of a trusted peer is still there.
        exchange.request.headers.set("X-Forwarded-Proto", named.as_bytes()).unwrap();
        exchange.connection.scheme = scheme;
        assert_eq!(decide(plugin.rewrite(&mut exchange)).is_some(), is_redirected, "{named}");
    };
    check("https", RequestScheme::Http, false);
    check("HTTP", RequestScheme::Https, true);
    check("any", RequestScheme::Http, true);
    check("any", RequestScheme::Https, false);
}

#[test]
fn query_of_the_client_precedes_a_fragment() {
    let check = |config: Value, line: &str, want: &str| {
        assert_eq!(ask(&config, None, line).unwrap().1, want, "{config} {line}");
    };
    check(json!({ "uri": "/a#top", "append_query_string": true }), "GET /?b=1", "/a?b=1#top");
    check(json!({ "regex_uri": ["^/m/(.*)", "/n/$1"] }), "GET /m/a%3Fb%23c", "/n/a%3Fb%23c");
    check(json!({ "uri": "/n$is_args$args" }), "GET /m?a=1&b=%26", "/n?a=1&b=%26");
    check(json!({ "uri": "/n$is_args$args" }), "GET /m", "/n");
}

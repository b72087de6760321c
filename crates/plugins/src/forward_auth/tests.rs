//! Configurations, and requests and decisions that need no server; tests of the binary use real servers.

use exchange::testing::{Scene, configuration_check, consumer, lines, with_fields};
use serde_json::json;

use super::*;

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    let with = |fields: Value| with_fields(json!({"uri": "http://127.0.0.1:8199/auth"}), &fields);
    check(with(json!({})), None);
    check(with(json!({"request_headers": ["test"], "keepalive": false, "timeout": 60_000})), None);
    check(with(json!({"request_method": "POST", "max_req_body_size": 1024})), None);
    check(with(json!({"max_req_body_size": 0})), Some("max_req_body_size"));
    check(with(json!({"request_method": "POST", "extra_headers": {"X-A": "$post_arg.a"}})), None);
    check(with(json!({"consumer_header": "X-User", "ssl_verify": false, "allow_degradation": true})), None);
    check(json!({"request_headers": ["test"]}), Some("property \"uri\" is required"));
    check(json!({"uri": 3233}), Some("wrong type: expected string"));
    check(with(json!({"request_headers": "test"})), Some("wrong type: expected array"));
    check(with(json!({"uri": "https://auth.example/"})), None);
    check(with(json!({"uri": "ftp://auth.example/"})), Some("ftp is not supported"));
    check(with(json!({"uri": "http://127.0.0.1:99999/"})), Some("99999 is not a number from 1 to 65535"));
    check(with(json!({"uri": "auth.example"})), Some("absolute"));
    check(with(json!({"request_method": "PUT"})), Some("request_method"));
    check(with(json!({"status_on_error": 600})), Some("status_on_error"));
    check(with(json!({"timeout": 0})), Some("timeout"));
    check(with(json!({"keepalive_timeout": 999})), Some("keepalive_timeout"));
    check(with(json!({"extra_headers": {}})), Some("extra_headers"));
    check(with(json!({"extra_headers": {"X-A": "${"}})), Some("extra_headers.X-A"));
    check(with(json!({"upstream_headers": ["a b"]})), Some("no field name"));
    check(with(json!({"consumer_header": "X-A", "request_method": "POST"})), Some("excludes"));
    check(with(json!({"host": "a"})), Some("host"));
}

#[test]
fn secret_reference_is_read_when_resolved() {
    assert_eq!(check(&json!({"uri": "$env://AUTH_SERVER"})), Ok(()));
}

/// The compiled plugin, for tests that need no server.
fn compiled(config: &Value) -> ForwardAuth {
    let services = exchange::testing::services();
    let config: ForwardAuthConfig = config::parse_config(config).unwrap();
    ForwardAuth {
        destination: services
            .destination(&config.uri, KeepAlive::default(), &OutboundTls::default())
            .unwrap(),
        limits: OutboundLimits { connect_timeout_ms: 1, total_timeout_ms: 1, max_body_bytes: 1 },
        method: config.request_method,
        max_body_bytes: config.max_req_body_size,
        request_headers: config.request_headers,
        extra_headers: extra_headers(config.extra_headers.as_ref()).unwrap(),
        upstream_headers: config.upstream_headers,
        client_headers: config.client_headers,
        consumer_header: config.consumer_header,
        on_error: (!config.allow_degradation).then(|| BufferedReply::status(403)),
        outages: Outages::uncounted(),
    }
}

#[test]
fn auth_request_holds_no_forged_fields() {
    let check = |config: Value, head: &str, expected: &[&str], body: &str| {
        let mut scene = Scene::new();
        let mut config = config;
        config["uri"] = json!("http://127.0.0.1:1/auth");
        let exchange = scene.exchange(head.as_bytes());
        let question = compiled(&config).question(&exchange).unwrap();
        assert_eq!(lines(&question.headers), expected, "{config}");
        assert_eq!(&*question.body, body.as_bytes());
    };
    let get = "GET /a//b/%7ec/d%2fe?x=1 HTTP/1.1\r\nHost: Shop.example:9080\r\nX-Forwarded-Uri: /public\r\n\
               Authorization: one\r\nAuthorization: two\r\nCookie: c\r\n\r\n";
    let about_get = [
        "X-Forwarded-Proto: http",
        "X-Forwarded-Method: GET",
        "X-Forwarded-Host: shop.example",
        "X-Forwarded-Uri: /a/b/~c/d/e?x=1",
        "X-Forwarded-For: 127.0.0.1",
    ];
    check(json!({}), get, &about_get, "");
    let mut with_fields = about_get.to_vec();
    with_fields.extend(["authorization: one", "authorization: two"]);
    check(json!({"request_headers": ["authorization", "X-Forwarded-Uri", "X-None"]}), get, &with_fields, "");
    let extra =
        json!({"extra_headers": {"X-Path": "$uri", "X-Forwarded-Proto": "other", "X-None": "$arg_none"}});
    let mut expected = about_get.to_vec();
    expected[0] = "X-Forwarded-Proto: other";
    expected.extend(["X-Path: /a/b/~c/d/e", "X-None: "]);
    check(extra, get, &expected, "");
    let post = "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Encoding: gzip\r\nExpect: 100-continue\r\n\r\nhello";
    let about_post = [
        "X-Forwarded-Proto: http",
        "X-Forwarded-Method: POST",
        "X-Forwarded-Host: a",
        "X-Forwarded-Uri: /f",
        "X-Forwarded-For: 127.0.0.1",
        "Content-Encoding: gzip",
    ];
    check(json!({"request_method": "POST"}), post, &about_post, "hello");
    check(json!({}), post, &about_post[..5], "");
}

#[test]
fn question_without_a_field_is_not_asked() {
    let extra = json!({"uri": "http://127.0.0.1:1/", "extra_headers": {"X-User": "$arg_user"}});
    let check = |query: &str, is_asked: bool| {
        let mut scene = Scene::new();
        let exchange = scene.exchange(format!("GET /?{query} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!(compiled(&extra).question(&exchange).is_ok(), is_asked, "{query}");
    };
    check("user=a", true);
    check("", true);
    check("user=a%09b", true);
    check("user=a%0d%0ax:b", false);
    check("user=a%0a", false);
    check("user=%00", false);
    check("user=a%7f", false);
}

fn answer(status: u16, fields: &[(&str, &str)], body: &str) -> OutboundResponse {
    let mut headers = Headers::new();
    fields.iter().for_each(|(name, value)| headers.append(name, value.as_bytes()).unwrap());
    OutboundResponse { status, headers, body: body.as_bytes().to_vec() }
}

#[test]
fn refusal_is_the_servers_with_listed_fields() {
    let plugin = compiled(
        &json!({"uri": "http://127.0.0.1:1/", "client_headers": ["location", "Set-Cookie", "Connection", "Content-Length"]}),
    );
    let fields = [
        ("Location", "/login"),
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("X-Internal", "no"),
        ("Content-Type", "text/html"),
        ("Connection", "close"),
        ("Content-Length", "3"),
    ];
    let PhaseDecision::Reply(reply) = plugin.refuse(answer(302, &fields, "<a>")) else {
        panic!("it is refused")
    };
    let got: Vec<String> = reply.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(got, ["Location: /login", "Set-Cookie: a=1", "Set-Cookie: b=2", "Content-Type: text/html"]);
    assert_eq!((reply.status, &*reply.body), (302, &b"<a>"[..]));
}

#[test]
fn passed_request_carries_servers_fields() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nX-User-ID: forged\r\nX-Role: forged\r\nX-Own: mine\r\n\r\n";
    let plugin =
        compiled(&json!({"uri": "http://127.0.0.1:1/", "upstream_headers": ["X-User-ID", "X-Role"]}));
    let mut scene = Scene::new();
    let mut exchange = scene.exchange(head);
    let fields = [("X-User-Id", "jack"), ("X-Other", "no")];
    assert!(matches!(plugin.let_pass(&mut exchange, &answer(204, &fields, "")), PhaseDecision::Continue));
    assert_eq!(lines(&exchange.request.headers), ["Host: a", "X-Own: mine", "X-User-ID: jack"]);
}

#[test]
fn the_server_may_name_the_consumer() {
    let config = json!({"uri": "http://127.0.0.1:1/", "consumer_header": "X-Consumer"});
    let check = |fields: &[(&str, &str)], refused: Option<&str>| {
        let mut scene = Scene::new().with_named_consumer(consumer("jack"));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        match (compiled(&config).let_pass(&mut exchange, &answer(200, fields, "")), refused) {
            (PhaseDecision::Continue, None) => {
                assert_eq!(exchange.consumer().map(|consumer| &*consumer.username), Some("jack"));
                assert_eq!(exchange.request.headers.get("X-Consumer-Username"), Some(&b"jack"[..]));
            }
            (PhaseDecision::Reply(reply), Some(text)) => {
                assert_eq!((reply.status, &*reply.body), (403, text.as_bytes()));
                assert!(exchange.consumer().is_none());
            }
            _ => panic!("{fields:?}"),
        }
    };
    check(&[("x-consumer", "jack")], None);
    check(&[("x-consumer", "jill")], Some("consumer not found"));
    check(&[("x-consumer", "")], Some("consumer header missing in auth response"));
    check(&[], Some("consumer header missing in auth response"));
}

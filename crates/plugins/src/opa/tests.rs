//! Tests of `opa`: configurations, and the document that describes a request.

use exchange::exchange::{RouteInfo, ServiceName};
use exchange::testing::{Scene, configuration_check, consumer, lines, route, with_fields};
use serde_json::json;

use super::*;

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    check(json!({"host": "https://opa.example:8181/", "policy": "a/b", "ssl_verify": false}), None);
    check(json!({"host": "http://127.0.0.1:8181"}), Some("policy"));
    check(json!({"policy": "a"}), Some("host"));
    check(json!({"host": "127.0.0.1:8181", "policy": "a"}), Some("host: "));
    check(json!({"host": 3233, "policy": "a"}), Some("host"));
    let with = |more: Value| with_fields(json!({"host": "http://127.0.0.1:1", "policy": "a"}), &more);
    check(with(json!({"timeout": 0})), Some("timeout"));
    check(with(json!({"timeout": 60_001})), Some("timeout"));
    check(with(json!({"keepalive_timeout": 999})), Some("keepalive_timeout"));
    check(with(json!({"send_headers_upstream": []})), Some("send_headers_upstream"));
    check(with(json!({"send_headers_upstream": ["a b"]})), Some("send_headers_upstream: invalid field"));
    check(with(json!({"with_route": true, "with_service": true, "with_consumer": true})), None);
}

#[test]
fn question_describes_the_request() {
    let service = ServiceName {
        id: "s".into(),
        name: None,
        written: r#"{"id":"s","hosts":["a"],"upstream":{"nodes":{}}}"#.into(),
    };
    let written = r#"{"id":"r","name":"shop","plugins":{"opa":{}},"upstream":{"nodes":{}}}"#;
    let matched = RouteInfo { service: Some(Arc::new(service)), written: written.into(), ..route("r") };
    let mut scene = Scene::new().with_route(matched);
    let head =
        b"PUT /a//b/%7ec?x=1&y&x=%20&z= HTTP/1.1\r\nHost: Shop.example:9080\r\nX-A: 1\r\nx-a: 2\r\n\r\n";
    let mut exchange = scene.exchange(head);
    let mut jack = consumer("jack");
    jack.credential_id = Some("c".into());
    exchange.authenticate(Arc::new(jack));
    let render = |input: &OpaInput, exchange: &Exchange| -> Value {
        serde_json::from_slice(&input.render(exchange)).unwrap()
    };
    let mut bare = render(&OpaInput::new(false, false, false), &exchange);
    assert!(bare["input"]["var"]["timestamp"].take().is_u64());
    let request = json!({
        "scheme": "http", "method": "PUT", "host": "shop.example", "port": exchange.connection.local.port(),
        "path": "/a/b/~c", "headers": {"host": "Shop.example:9080", "x-a": ["1", "2"]},
        "query": {"x": ["1", " "], "y": true, "z": ""},
    });
    let local = exchange.connection.local;
    let var = json!({
        "server_addr": local.ip().to_string(), "server_port": local.port().to_string(), "remote_addr": "127.0.0.1",
        "remote_port": exchange.client.port.map(|port| port.to_string()), "timestamp": null,
    });
    assert_eq!(bare, json!({"input": {"type": "http", "request": request, "var": var}}));

    let input = OpaInput::new(true, true, true);
    for _ in 0..2 {
        let whole = &render(&input, &exchange)["input"];
        assert_eq!(whole["route"], json!({"id": "r", "name": "shop", "plugins": {"opa": {}}}));
        assert_eq!(whole["service"], json!({"id": "s", "hosts": ["a"]}));
        let consumer = json!({"consumer_name": "jack", "credential_id": "c", "username": "jack"});
        assert_eq!(whole["consumer"], consumer);
    }
    let mut scene = Scene::new();
    let exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let bare = render(&input, &exchange);
    for name in ["route", "service", "consumer"] {
        assert_eq!(bare["input"].get(name), None);
    }
}

#[test]
fn answers_are_read_as_decisions() {
    let refused = |answer: Value, status: u16, fields: &[&str], body: &str| {
        let Ok(OpaDecision::Refuse(reply)) = decision::read_opa_decision(200, answer.to_string().as_bytes())
        else {
            panic!("{answer}")
        };
        let got: Vec<String> = reply.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!((reply.status, &*reply.body), (status, body.as_bytes()), "{answer}");
        assert_eq!(got, fields, "{answer}");
    };
    refused(json!({"result": {"allow": false}}), 403, &[], "");
    refused(json!({"result": {}}), 403, &[], "");
    for odd in [json!("true"), json!(1), Value::Null, json!([true])] {
        refused(json!({"result": {"allow": odd}}), 403, &[], "");
    }
    let plain = "Content-Type: text/plain; charset=utf-8";
    refused(json!({"result": {"allow": false, "reason": "no"}}), 403, &[plain], "no");
    refused(json!({"result": {"reason": {"info": []}}}), 403, &[plain], "{\"info\":[]}");
    let redirect = json!({"allow": false, "status_code": 302, "reason": "x", "headers": {
        "Location": "/login", "X-N": 7, "X-L": ["a", "b"], "content-type": "text/html", "Content-Length": "3",
        "X-Bad": "a\r\nX-Split: 1", "X Bad": "a", "X-Odd": {},
    }});
    let fields = ["Location: /login", "X-N: 7", "X-L: a", "X-L: b", "content-type: text/html"];
    refused(json!({"result": redirect}), 302, &fields, "x");
    for code in [json!(99), json!(600), json!("302"), json!(70_000)] {
        refused(json!({"result": {"allow": false, "status_code": code}}), 403, &[], "");
    }
    for no_decision in ["", "{", "{}", "[]", "{\"result\":true}", "{\"result\":null}"] {
        assert!(decision::read_opa_decision(200, no_decision.as_bytes()).is_err(), "{no_decision}");
    }
    let numbers = decision::read_opa_decision(
        200,
        br#"{"result":{"allow":true,"headers":{"A":[18446744073709551616,1.50,true]}}}"#,
    );
    let Ok(OpaDecision::Pass(fields)) = numbers else { panic!() };
    let values: Vec<&str> = fields.iter().map(|(_, value)| &**value).collect();
    assert_eq!(values, ["18446744073709551616", "1.50", "true"]);
    for status in [201, 204, 206, 304, 403, 500, 503] {
        let answer = br#"{"result":{"allow":true}}"#;
        assert!(
            decision::read_opa_decision(status, answer)
                .is_err_and(|fault| fault.contains(&status.to_string()))
        );
    }
    let passed = decision::read_opa_decision(200, br#"{"result":{"allow":true,"headers":{"A":"b"}}}"#);
    assert!(matches!(passed, Ok(OpaDecision::Pass(fields)) if fields == [("A".to_owned(), "b".to_owned())]));
}

#[test]
fn upstream_gets_only_the_policys_fields() {
    let mut scene = Scene::new();
    let config =
        json!({"host": "http://127.0.0.1:1", "policy": "a", "send_headers_upstream": ["X-User", "X-Role"]});
    let plugin = Opa {
        destination: exchange::testing::services()
            .destination("http://127.0.0.1:1/", KeepAlive::default(), &OutboundTls::default())
            .unwrap(),
        limits: OutboundLimits { connect_timeout_ms: 1, total_timeout_ms: 1, max_body_bytes: 1 },
        input: OpaInput::new(false, false, false),
        upstream_fields: config::parse_config::<OpaConfig>(&config).unwrap().send_headers_upstream.unwrap(),
        outages: Outages::uncounted(),
    };
    let mut exchange =
        scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nX-Role: root\r\nX-User: forged\r\nX-Own: 1\r\n\r\n");
    let fields = [("x-user", "jack"), ("X-Other", "no")];
    plugin
        .let_pass(&mut exchange, &fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
        .unwrap();
    assert_eq!(lines(&exchange.request.headers), ["Host: a", "X-Own: 1", "X-User: jack"]);
}

//! Configurations of `basic-auth`, the consumers it finds, and the fields that the upstream receives.

use exchange::testing::{Scene, check_configuration, consumer, decide};
use model::catalog::SchemaType;

use super::*;

#[test]
fn configurations() {
    let check = |schema_type, config: Value, fault: Option<&str>| {
        check_configuration(&KIND, schema_type, &config, fault);
    };
    let route = SchemaType::Plugin;
    check(route, json!({}), None);
    check(route, json!({"hide_credentials": true, "realm": "a [b]", "anonymous_consumer": "guest"}), None);
    check(route, json!({"hide_credentials": "yes"}), Some("hide_credentials"));
    check(route, json!({"anonymous_consumer": ""}), Some("anonymous_consumer"));
    for realm in ["", "a\r\nb", "a \"b\"", &"r".repeat(129)] {
        check(route, json!({"realm": realm}), Some("realm"));
    }
    check(SchemaType::Consumer, json!({"username": "foo", "password": "bar"}), None);
    check(SchemaType::Consumer, json!({"username": "foo"}), Some("property \"password\" is required"));
    check(SchemaType::Consumer, json!({"password": "foo"}), Some("property \"username\" is required"));
    check(
        SchemaType::Consumer,
        json!({"username": 123, "password": "bar"}),
        Some("property \"username\" validation failed: wrong type: expected string, got number"),
    );
}

fn with_password(name: &str, username: &str, password: &str) -> Consumer {
    let mut consumer = consumer(name);
    consumer.auth_conf = json!({"username": username, "password": password});
    consumer
}

fn scene() -> Scene {
    Scene::new()
        .with_consumer(NAME, "foo", with_password("jack", "foo", "bar"))
        .with_consumer(NAME, "colon", with_password("jill", "colon", "a:b c"))
        .with_consumer(NAME, "none", consumer("joan"))
        .with_named_consumer(consumer("guest"))
}

/// Checks the consumer of the request, or the message of its refusal.
fn check(config: Value, fields: &str, expected: Result<&str, &str>) -> Box<Exchange> {
    let mut scene = scene();
    let plugin = scene.build(&KIND, &config);
    let mut exchange = scene.exchange(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    let reply = decide(plugin.rewrite(&mut exchange));
    let got = match &reply {
        None => Ok(&*exchange.consumer().unwrap().username),
        Some(reply) => Err(String::from_utf8(reply.body.to_vec()).unwrap()),
    };
    let expected = expected.map_err(|message| format!("{{\"message\":\"{message}\"}}\n"));
    assert_eq!(got, expected, "{config} {fields:?}");
    if let Some(reply) = reply {
        assert_eq!(reply.status, 401);
        assert!(reply.headers.contains(&("WWW-Authenticate".into(), "Basic realm=\"basic\"".to_owned())));
        assert!(exchange.consumer().is_none());
    }
    exchange
}

fn basic(credentials: &str) -> String {
    format!("Authorization: Basic {}\r\n", BASE64.encode(credentials.as_bytes()))
}

#[test]
fn name_and_password_find_the_consumer() {
    let (malformed, unknown) = (Err("Invalid authorization in request"), Err("Invalid user authorization"));
    check(json!({}), "", Err("Missing authorization in request"));
    check(json!({}), "Authorization: Basic Zm9vOmJhcg==\r\n", Ok("jack"));
    for scheme in ["basic", "BASIC", "bASiC"] {
        check(json!({}), &format!("Authorization: {scheme} Zm9vOmJhcg\r\n"), Ok("jack"));
    }
    for field in
        ["Bad_header YmFyOmJhcgo=", "Basic aca_a", "Basic YmFy", "Basic", "Basic ", "", "Basic Zm9vOg=="]
    {
        check(json!({}), &format!("Authorization: {field}\r\n"), malformed);
    }
    check(json!({}), &basic("foo:foo"), unknown);
    check(json!({}), &basic("bar:bar"), unknown);
    check(json!({}), &basic("foo:bar:baz"), unknown);
    check(json!({}), &basic("Foo:bar"), unknown);
    check(json!({}), &basic("none:null"), unknown);
    check(json!({}), &basic("colon:a:b c"), Ok("jill"));
    check(json!({}), &basic("colon:a:b c\n"), unknown);
    // Tools that encode the output of `echo` add a line break.
    check(json!({}), &basic("foo:bar\n"), Ok("jack"));
    check(json!({}), "Authorization: Basic /////w==\r\n", malformed);
    check(json!({}), "Authorization: Basic //86YmFy\r\n", unknown);
}

#[test]
fn two_fields_are_refused() {
    let doubled = Err("More than one authorization in request");
    for config in [json!({}), json!({"anonymous_consumer": "guest"})] {
        check(config, &format!("{}{}", basic("foo:bar"), basic("foo:bar")), doubled);
    }
}

#[test]
fn anonymous_requests_count_as_their_consumer() {
    let anonymous = json!({"anonymous_consumer": "guest"});
    check(anonymous.clone(), "", Ok("guest"));
    check(anonymous.clone(), &basic("foo:wrong"), Ok("guest"));
    check(anonymous, &basic("foo:bar"), Ok("jack"));
    check(json!({"anonymous_consumer": "missing"}), "", Err("Invalid user authorization"));
}

#[test]
fn upstream_receives_consumer_and_not_the_password() {
    let upstream = |config: Value, credentials: &str, expected: &str| {
        let fields = format!("X-Consumer-Username: root\r\n{}", basic(credentials));
        let exchange = check(config, &fields, Ok(expected));
        let field = |name: &str| exchange.request.headers.get(name).map(<[u8]>::to_vec);
        assert_eq!(field("X-Consumer-Username").as_deref(), Some(expected.as_bytes()));
        field("Authorization").is_some()
    };
    assert!(upstream(json!({}), "foo:bar", "jack"));
    assert!(!upstream(json!({"hide_credentials": true}), "foo:bar", "jack"));
    let anonymous = json!({"hide_credentials": true, "anonymous_consumer": "guest"});
    assert!(!upstream(anonymous, "foo:wrong", "guest"));
}

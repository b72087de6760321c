//! Configurations that `key-auth` check_configuration, the consumers it finds, and the fields that the
//! upstream receives.

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
    check(route, json!({"header": "X-Key", "query": "k", "realm": "a [b]", "hide_credentials": true}), None);
    check(
        route,
        json!({"bearer_token": true, "anonymous_consumer": "guest", "_meta": {"priority": 1}}),
        None,
    );
    check(route, json!({"header": 1}), Some("header"));
    check(route, json!({"hide_credentials": "yes"}), Some("hide_credentials"));
    check(route, json!({"anonymous_consumer": ""}), Some("anonymous_consumer"));
    for realm in ["", "a\r\nb", "a \"b\"", "a\\b", "ä", &"r".repeat(129)] {
        check(route, json!({"realm": realm}), Some("realm"));
    }
    check(route, json!({"key": "on the wrong object"}), Some("key"));
    check(SchemaType::Consumer, json!({"key": "k"}), None);
    check(SchemaType::Consumer, json!({}), Some("property \"key\" is required"));
    check(SchemaType::Consumer, json!({"key": ""}), Some("key"));
    check(SchemaType::Consumer, json!({"key": 123}), Some("wrong type: expected string, got number"));
}

fn scene() -> Scene {
    let mut labelled = consumer("jill");
    labelled.labels = vec![("custom_id".into(), "4711".into())];
    labelled.credential_id = Some("c1".into());
    Scene::new()
        .with_consumer(NAME, "k-jack", consumer("jack"))
        .with_consumer(NAME, "k jill", labelled)
        .with_consumer(NAME, "", consumer("joe"))
        .with_consumer(NAME, "$env://KEY", consumer("joan"))
        .with_consumer(NAME, "$Secret://vault/1/joan/key", consumer("joan"))
        .with_named_consumer(consumer("guest"))
}

/// Checks the consumer of the request, or the message of its refusal.
fn check(config: Value, target: &str, fields: &str, expected: Result<&str, &str>) -> Box<Exchange> {
    let mut scene = scene();
    let plugin = scene.build(&KIND, &config);
    let mut exchange = scene.exchange(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    let reply = decide(plugin.rewrite(&mut exchange));
    let got = match &reply {
        None => Ok(&*exchange.consumer().unwrap().username),
        Some(reply) => Err(reply.body.to_vec()),
    };
    let expected = expected.map_err(|message| format!("{{\"message\":\"{message}\"}}\n").into_bytes());
    assert_eq!(got, expected, "{config} {target} {fields:?}");
    if let Some(reply) = reply {
        let scheme = if config["bearer_token"] == true { "Bearer" } else { "apikey" };
        assert_eq!(reply.status, 401);
        assert!(reply.headers.contains(&("WWW-Authenticate".into(), format!("{scheme} realm=\"key\""))));
        assert!(exchange.consumer().is_none());
    }
    exchange
}

#[test]
fn keys_are_found_in_field_or_query() {
    let missing = Err("Missing API key in request");
    let unknown = Err("Invalid API key in request");
    check(json!({}), "/", "apikey: k-jack\r\n", Ok("jack"));
    check(json!({}), "/?apikey=k-jack", "", Ok("jack"));
    check(json!({}), "/?a=1&apike%79=k+jill", "", Ok("jill"));
    check(json!({"header": "X-Key", "query": "key"}), "/?apikey=k-jack", "apikey: k-jack\r\n", missing);
    check(json!({"header": "X-Key"}), "/", "x-key: k jill\r\n", Ok("jill"));
    check(json!({"query": "key"}), "/?key=k-jack", "", Ok("jack"));
    check(json!({}), "/", "", missing);
    check(json!({}), "/?", "", missing);
    check(json!({}), "/", "apikey: k-joe\r\n", unknown);
    check(json!({}), "/", "apikey: K-JACK\r\n", unknown);
    check(json!({}), "/", "apikey:\r\n", unknown);
    check(json!({}), "/?apikey", "", unknown);
    check(json!({}), "/?apikey=", "", unknown);
    check(json!({}), "/?apikey=%ff", "", unknown);
    check(json!({}), "/", "apikey: $env://KEY\r\n", unknown);
    check(json!({}), "/?apikey=$Secret://vault/1/joan/key", "", unknown);
    // The field takes precedence over the query.
    check(json!({}), "/?apikey=k-jack", "apikey: wrong\r\n", unknown);
    check(json!({}), "/?apikey=k-jack", "apikey:\r\n", unknown);
    check(
        json!({"bearer_token": true}),
        "/",
        "Authorization: Bearer \r\n",
        Err("Invalid Bearer token format"),
    );
}

#[test]
fn bearer_tokens() {
    let bearer = json!({"bearer_token": true});
    check(bearer.clone(), "/", "Authorization: Bearer k-jack\r\n", Ok("jack"));
    check(bearer.clone(), "/?apikey=k-jack", "", Ok("jack"));
    check(bearer.clone(), "/", "apikey: k-jack\r\n", Err("Missing API key in request"));
    check(bearer.clone(), "/", "Authorization: k-jack\r\n", Err("Invalid Bearer token format"));
    check(bearer, "/", "Authorization: Bearer k-joe\r\n", Err("Invalid API key in request"));
}

#[test]
fn two_keys_are_refused() {
    let doubled = Err("More than one API key in request");
    for config in [json!({}), json!({"anonymous_consumer": "guest"})] {
        check(config.clone(), "/", "apikey: k-jack\r\nApiKey: k-jack\r\n", doubled);
        check(config, "/?apikey=k-jack&apikey=wrong", "", doubled);
    }
}

#[test]
fn anonymous_requests_count_as_their_consumer() {
    let anonymous = json!({"anonymous_consumer": "guest"});
    check(anonymous.clone(), "/", "", Ok("guest"));
    check(anonymous.clone(), "/", "apikey: wrong\r\n", Ok("guest"));
    check(anonymous, "/", "apikey: k-jack\r\n", Ok("jack"));
    check(json!({"anonymous_consumer": "missing"}), "/", "", Err("Invalid user authorization"));
}

#[test]
fn node_receives_consumer_and_not_the_key() {
    let forged = "X-Consumer-Username: root\r\nX-Credential-Identifier: x\r\nX-Consumer-Custom-ID: 1\r\n";
    let node = |config: Value, target: &str, fields: &str, expected: Result<&str, &str>| {
        let exchange = check(config, target, &format!("{forged}{fields}"), expected);
        let headers = &exchange.request.headers;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let field = |name: &str| headers.get(name).map(text);
        let names = ["X-Consumer-Username", "X-Credential-Identifier", "X-Consumer-Custom-ID", "apikey"];
        (names.map(field), exchange.forward_query().map(text))
    };
    let some = |text: &str| Some(text.to_owned());
    let hide = json!({"hide_credentials": true});
    assert_eq!(
        node(json!({}), "/?a=1&apikey=k+jill", "", Ok("jill")),
        ([some("jill"), some("c1"), some("4711"), None], some("a=1&apikey=k+jill"))
    );
    assert_eq!(
        node(hide.clone(), "/?a=%31&apikey=k+jill&b", "", Ok("jill")),
        ([some("jill"), some("c1"), some("4711"), None], some("a=%31&b"))
    );
    assert_eq!(
        node(hide.clone(), "/?apikey=k-jack", "", Ok("jack")),
        ([some("jack"), None, None, None], None)
    );
    assert_eq!(
        node(hide, "/?a=1", "apikey: k-jack\r\n", Ok("jack")),
        ([some("jack"), None, None, None], some("a=1"))
    );
    let anonymous = json!({"hide_credentials": true, "anonymous_consumer": "guest"});
    assert_eq!(
        node(anonymous.clone(), "/?a=1&apikey=wrong", "apikey: wrong\r\n", Ok("guest")),
        ([some("guest"), None, None, None], some("a=1"))
    );
    assert_eq!(node(anonymous, "/?&a", "", Ok("guest")), ([some("guest"), None, None, None], some("&a")));
    assert_eq!(
        node(json!({}), "/", "apikey: k-jack\r\n", Ok("jack")),
        ([some("jack"), None, None, some("k-jack")], None)
    );
}

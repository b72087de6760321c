//! Configurations of `multi-auth`, the order of methods, and requests that failed methods leave unchanged.

use exchange::testing::{Scene, configuration_check, consumer, decide, know, lines};
use serde_json::json;

use super::*;

#[test]
fn configurations() {
    know(crate::ALL);
    let check = configuration_check(&KIND);
    let two = |first: Value| json!({"auth_plugins": [first, {"key-auth": {}}]});
    check(two(json!({"basic-auth": {}})), None);
    check(two(json!({"basic-auth": {"_meta": {"disable": true}}, "jwt-auth": {}})), None);
    check(json!({}), Some("property \"auth_plugins\" is required"));
    check(json!({"auth_plugins": [{"key-auth": {}}]}), Some("auth_plugins"));
    check(json!({"auth_plugins": "key-auth"}), Some("auth_plugins"));
    check(two(json!("basic-auth")), Some("auth_plugins"));
    check(two(json!({"basic-oauth": {}})), Some("basic-oauth plugin did not found"));
    check(two(json!({"limit-count": {}})), Some("limit-count plugin is not supported"));
    check(two(json!({"multi-auth": {}})), Some("multi-auth plugin is not supported"));
    check(
        two(json!({"basic-auth": {"hide_credentials": "false"}})),
        Some(
            "plugin basic-auth check schema failed: property \"hide_credentials\" validation failed: wrong type: \
             expected boolean, got string",
        ),
    );
    check(
        two(json!({"basic-auth": "blah"})),
        Some("plugin basic-auth check schema failed: wrong type: expected object, got string"),
    );
    check(two(json!({"jwt-auth": {"headr": "x"}})), Some("headr"));
    check(two(json!({"openid-connect": {}})), Some("openid-connect plugin is not supported"));
}

fn scene() -> Scene {
    know(crate::ALL);
    let mut jill = consumer("jill");
    jill.auth_conf = json!({"username": "foo", "password": "bar"});
    Scene::new()
        .with_consumer("key-auth", "k-jack", consumer("jack"))
        .with_consumer("basic-auth", "foo", jill)
        .with_named_consumer(consumer("guest"))
}

/// The consumer of a request, or the challenges of its refusal.
fn ask(config: Value, fields: &str) -> Result<String, Vec<String>> {
    let mut scene = scene();
    let plugin = scene.build(&KIND, &config);
    let mut exchange =
        scene.exchange(format!("GET /?apikey=other HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    let before = (lines(&exchange.request.headers), exchange.forward_query().map(<[u8]>::to_vec));
    let reply = decide(plugin.rewrite(&mut exchange));
    let Some(reply) = reply else { return Ok(exchange.consumer().unwrap().username.to_string()) };
    assert_eq!((reply.status, &*reply.body), (401, &b"{\"message\":\"Authorization Failed\"}\n"[..]));
    let after = (lines(&exchange.request.headers), exchange.forward_query().map(<[u8]>::to_vec));
    assert_eq!(after, before, "failed methods change nothing");
    assert!(exchange.consumer().is_none());
    Err(reply
        .headers
        .into_iter()
        .filter(|(name, _)| name == "WWW-Authenticate")
        .map(|(_, value)| value)
        .collect())
}

#[test]
fn first_method_that_accepts_decides() {
    let hide = json!({"hide_credentials": true});
    let methods = json!({"auth_plugins": [{"basic-auth": hide}, {"key-auth": hide}, {"jwt-auth": hide}]});
    let basic = "Authorization: Basic Zm9vOmJhcg==\r\n";
    assert_eq!(ask(methods.clone(), basic), Ok("jill".to_owned()));
    assert_eq!(ask(methods.clone(), "apikey: k-jack\r\n"), Ok("jack".to_owned()));
    assert_eq!(ask(methods.clone(), &format!("{basic}apikey: k-jack\r\n")), Ok("jill".to_owned()));
    let challenges = ["Basic realm=\"basic\"", "apikey realm=\"key\"", "Bearer realm=\"jwt\""];
    assert_eq!(ask(methods.clone(), ""), Err(challenges.map(str::to_owned).into()));
    assert!(ask(methods, "Authorization: Basic Zm9vOmJheg==\r\napikey: k-joe\r\nCookie: jwt=x\r\n").is_err());
    let anonymous =
        json!({"auth_plugins": [{"basic-auth": {}}, {"key-auth": {"anonymous_consumer": "guest"}}]});
    assert_eq!(ask(anonymous.clone(), ""), Ok("guest".to_owned()));
    assert_eq!(ask(anonymous, basic), Ok("jill".to_owned()));
}

/// Two credentials in one place end the request, whichever methods stand behind.
#[test]
fn doubled_credential_is_final() {
    let (basic, key) = ("Authorization: Basic Zm9vOmJhcg==\r\n", "apikey: k-jack\r\n");
    let two = |name: &str, value: &str| format!("{name}: {value}\r\n{name}: {value}\r\n");
    let ldap = json!({"base_dn": "ou=u", "ldap_uri": "127.0.0.1:1"});
    let guest = json!({"anonymous_consumer": "guest"});
    let check = |first: Value, fields: &str, other: &str| {
        for last in [json!({"key-auth": guest}), json!({"basic-auth": guest})] {
            let mut scene = scene();
            let plugin = scene.build(&KIND, &json!({"auth_plugins": [first, last]}));
            let text = format!("GET /?jwt=a&jwt=b HTTP/1.1\r\nHost: a\r\n{fields}{other}\r\n");
            let mut exchange = scene.exchange(text.as_bytes());
            let reply = decide(plugin.rewrite(&mut exchange)).expect("a refusal");
            assert!(reply.is_final && matches!(reply.status, 400 | 401), "{first} {last} {fields:?}");
            assert!(exchange.consumer().is_none());
        }
    };
    check(json!({"key-auth": {}}), &two("apikey", "k-jack"), basic);
    check(json!({"key-auth": guest}), &two("apikey", "k-jack"), basic);
    check(json!({"basic-auth": {}}), &two("Authorization", "Basic Zm9vOmJhcg=="), key);
    check(json!({"hmac-auth": {}}), &two("Authorization", "Signature keyId=\"a\""), key);
    check(json!({"jwt-auth": {}}), &two("Authorization", "Bearer a.b.c"), key);
    check(json!({"jwt-auth": {"query": "jwt"}}), "", key);
    check(json!({"jwt-auth": {}}), "Cookie: jwt=a; jwt=b\r\n", key);
    check(json!({"jwe-decrypt": {}}), &two("Authorization", "a.b.c.d.e"), key);
    check(json!({"ldap-auth": ldap}), &two("Authorization", "Basic Zm9vOmJhcg=="), key);
}

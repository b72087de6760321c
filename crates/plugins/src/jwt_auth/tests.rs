//! Configurations of `jwt-auth`, the tokens it accepts, and the fields that the upstream receives.

use exchange::testing::{Scene, check_configuration, configuration_check, consumer, decide, lines};
use model::catalog::SchemaType;
use router::vars::{Variable, VariableSource};
use serde_json::json;

use super::*;
use crate::shared::jwt::testing::{hs256, sign, token_of, vectors};

#[test]
fn configurations_of_routes() {
    let check = configuration_check(&KIND);
    check(json!({}), None);
    check(json!({"claims_to_verify": []}), None);
    check(
        json!({"header": "X", "query": "q", "cookie": "c", "store_in_ctx": true, "claims_to_verify": ["nbf", "exp"]}),
        None,
    );
    check(json!({"claims_to_verify": ["iss"]}), Some("claims_to_verify"));
    check(json!({"claims_to_verify": ["exp", "exp"]}), Some("claims_to_verify"));
    check(json!({"key_claim_name": ""}), Some("key_claim_name"));
    check(json!({"realm": "a\"b"}), Some("realm"));
    check(json!({"anonymous_consumer": ""}), Some("anonymous_consumer"));
}

#[test]
fn configurations_of_consumers() {
    let check = |config: Value, fault: Option<&str>| {
        check_configuration(&KIND, SchemaType::Consumer, &config, fault);
    };
    let pem = |name: &str| vectors()["keys"][name]["pem"].clone();
    let dependent = "failed to validate dependent schema for \"algorithm\": value should match only one schema, but matches none";
    check(json!({"key": "k", "secret": "s"}), None);
    check(
        json!({"key": "k", "secret": "s", "algorithm": "HS512", "exp": 100, "lifetime_grace_period": 5}),
        None,
    );
    check(json!({"key": "k", "secret": "c2VjcmV0", "base64_secret": true}), None);
    check(json!({"key": "k", "algorithm": "RS256", "public_key": pem("rsa")}), None);
    check(json!({"key": "k", "algorithm": "RS256", "public_key": "$secret://vault/1/jack/key"}), None);
    check(json!({"key": "k", "secret": "$env://SECRET", "base64_secret": true}), None);
    check(json!({}), Some("property \"key\" is required"));
    check(json!({"key": "", "secret": "s"}), Some("key"));
    check(json!({"key": "k", "secret": ""}), Some("secret"));
    check(json!({"key": "k"}), Some("property \"secret\" is required when using HS based algorithms"));
    check(
        json!({"key": "k", "algorithm": "HS384"}),
        Some("property \"secret\" is required when using HS based"),
    );
    check(
        json!({"key": "k", "secret": "a+b-c", "base64_secret": true}),
        Some("base64_secret required but the secret is not in base64 format"),
    );
    check(json!({"key": "k", "secret": "s", "algorithm": "RS256"}), Some(dependent));
    check(json!({"key": "k", "algorithm": "ES256"}), Some(dependent));
    check(json!({"key": "k", "secret": "s", "algorithm": "none"}), Some("algorithm"));
    check(
        json!({"key": "k", "algorithm": "RS256", "public_key": "x"}),
        Some("public_key: the public key is neither"),
    );
    check(
        json!({"key": "k", "algorithm": "ES256", "public_key": pem("rsa")}),
        Some("an RSA key is not for ES256"),
    );
    check(json!({"key": "k", "algorithm": "EdDSA", "public_key": pem("ed448")}), Some("Ed448"));
}

fn with_key(name: &str, config: Value) -> Consumer {
    let mut consumer = consumer(name);
    consumer.compiled = Some(credential::compile_jwt_credential(&config).unwrap());
    consumer
}

const SECRET: &str = "a-secret-that-is-long-enough-1234";

fn scene() -> Scene {
    let elliptic = json!({"algorithm": "ES256", "public_key": vectors()["keys"]["p256"]["pem"]});
    Scene::new()
        .with_consumer(NAME, "k-jack", with_key("jack", json!({"secret": SECRET})))
        .with_consumer(
            NAME,
            "k-late",
            with_key("late", json!({"secret": SECRET, "lifetime_grace_period": 100})),
        )
        .with_consumer(NAME, "k-plain", consumer("plain"))
        .with_consumer(NAME, "user-key", with_key("vector", elliptic))
        .with_named_consumer(consumer("guest"))
}

/// Checks the consumer of the request, or the message of its refusal.
fn check(config: Value, target: &str, fields: &str, expected: Result<&str, &str>) -> Box<Exchange> {
    let mut scene = scene();
    let plugin = scene.build(&KIND, &config);
    let mut exchange = scene.exchange(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    let before = lines(&exchange.request.headers);
    let reply = decide(plugin.rewrite(&mut exchange));
    let got = match &reply {
        None => Ok(&*exchange.consumer().unwrap().username),
        Some(reply) => Err(String::from_utf8(reply.body.to_vec()).unwrap()),
    };
    let expected = expected.map_err(|message| format!("{{\"message\":\"{message}\"}}\n"));
    assert_eq!(got, expected, "{config} {target} {fields:?}");
    if let Some(reply) = reply {
        assert_eq!(reply.status, 401);
        assert!(reply.headers.contains(&("WWW-Authenticate".into(), "Bearer realm=\"jwt\"".to_owned())));
        assert!(exchange.consumer().is_none());
        assert_eq!(lines(&exchange.request.headers), before, "a refusal changes nothing");
    }
    exchange
}

fn jack(claims: Value) -> String {
    let mut all = json!({"key": "k-jack"});
    all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
    hs256(&all, SECRET)
}

#[test]
fn tokens_are_found_in_field_query_or_cookie() {
    let token = jack(json!({}));
    let check = |config: Value, target: &str, fields: &str| {
        check(config, target, fields, Ok("jack"));
    };
    for scheme in ["", "Bearer ", "bearer ", "BEARER "] {
        check(json!({}), "/", &format!("Authorization: {scheme}{token}\r\n"));
    }
    check(json!({}), &format!("/?a=1&jwt={token}"), "");
    check(json!({}), "/", &format!("Cookie: a=b; jwt={token}; c=d\r\n"));
    check(json!({"header": "X-Token"}), "/", &format!("x-token: {token}\r\nAuthorization: other\r\n"));
    check(json!({"query": "t"}), &format!("/?jwt=x&t={token}"), "");
    check(json!({"cookie": "t"}), "/", &format!("Cookie: jwt=x; t={token}\r\n"));
}

#[test]
fn bad_tokens_are_refused_with_their_message() {
    check(json!({}), "/", "", Err("Missing JWT token in request"));
    let check = |token: &str, message: &str| {
        check(json!({}), "/", &format!("Authorization: Bearer {token}\r\n"), Err(message));
    };
    check("invalid-eyJhbGciOiJIUzI1NiJ9.e30.AA", "JWT token invalid");
    check("", "JWT token invalid");
    check(&jack(json!({"key": null})), "Invalid user key in JWT token");
    check(&hs256(&json!({"sub": "k-jack"}), SECRET), "missing user key in JWT token");
    check(&jack(json!({"key": "k-joe"})), "Invalid user key in JWT token");
    check(&jack(json!({"key": 7})), "Invalid user key in JWT token");
    let unverified = "failed to verify jwt";
    check(&hs256(&json!({"key": "k-jack"}), "another secret"), unverified);
    check(&hs256(&json!({"key": "k-plain"}), SECRET), unverified);
    check(&sign(r#"{"alg":"HS512"}"#, r#"{"key":"k-jack"}"#, SECRET), unverified);
    check(&sign(r#"{"alg":"none"}"#, r#"{"key":"k-jack"}"#, SECRET), unverified);
    check(vectors()["attacks"]["none"].as_str().unwrap(), unverified);
    check(vectors()["attacks"]["hs256_with_public_key"].as_str().unwrap(), unverified);
    check(&jack(json!({"exp": 1_500_000_000})), unverified);
    check(&jack(json!({"nbf": 4_000_000_000_u64})), unverified);
    check(&jack(json!({"exp": "never"})), unverified);
    check(&token_of("RS256"), unverified);
}

#[test]
fn claims_follow_route_and_consumer() {
    let field = |token: String| format!("Authorization: {token}\r\n");
    let (now, _) =
        Scene::new().exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").local().wall_at(net::env::monotonic_ns());
    let strict = json!({"claims_to_verify": ["exp", "nbf"]});
    let good = json!({"exp": now + 1_000, "nbf": now - 1_000});
    check(strict.clone(), "/", &field(jack(good)), Ok("jack"));
    check(strict.clone(), "/", &field(jack(json!({"exp": now + 1_000}))), Err("failed to verify jwt"));
    check(strict, "/", &field(jack(json!({"nbf": 1}))), Err("failed to verify jwt"));
    let late = |claims: Value| field(hs256(&claims, SECRET));
    check(json!({}), "/", &late(json!({"key": "k-late", "exp": now - 50, "nbf": now + 50})), Ok("late"));
    check(json!({}), "/", &late(json!({"key": "k-late", "exp": now - 200})), Err("failed to verify jwt"));
    check(json!({"key_claim_name": "iss"}), "/", &late(json!({"iss": "k-jack"})), Ok("jack"));
    check(json!({}), "/", &field(token_of("ES256")), Ok("vector"));
}

#[test]
fn two_tokens_in_one_place_are_refused() {
    let token = jack(json!({}));
    let doubled = Err("More than one JWT token in request");
    for config in [json!({}), json!({"anonymous_consumer": "guest"})] {
        check(config.clone(), "/", &format!("Authorization: {token}\r\nAuthorization: x\r\n"), doubled);
        check(config.clone(), &format!("/?jwt={token}&jwt=x"), "", doubled);
        check(config, "/", &format!("Cookie: jwt={token}\r\nCookie: jwt=x\r\n"), doubled);
    }
}

#[test]
fn token_is_hidden_from_the_upstream() {
    let token = jack(json!({}));
    let hide = json!({"hide_credentials": true});
    let upstream = |config: &Value, target: &str, fields: &str, expected: &str| {
        let exchange = check(config.clone(), target, fields, Ok(expected));
        let query = exchange.forward_query().map(|query| String::from_utf8(query.to_vec()).unwrap());
        (
            exchange.request.headers.contains("Authorization"),
            query,
            exchange.request.headers.get("Cookie").map(<[u8]>::to_vec),
        )
    };
    let field = format!("Authorization: {token}\r\nCookie: a=b; jwt=x\r\n");
    assert!(upstream(&json!({}), "/", &field, "jack").0);
    assert_eq!(upstream(&hide, "/", &field, "jack"), (false, None, Some(b"a=b; jwt=x".to_vec())));
    let (_, query, _) = upstream(&hide, &format!("/?a=1&jwt={token}&b"), "", "jack");
    assert_eq!(query.as_deref(), Some("a=1&b"));
    let cookies = format!("Cookie: a=b; jwt={token}; c=d\r\n");
    assert_eq!(upstream(&hide, "/", &cookies, "jack").2, Some(b"a=b; c=d".to_vec()));
    let anonymous = json!({"hide_credentials": true, "anonymous_consumer": "guest"});
    assert_eq!(
        upstream(&anonymous, "/?jwt=x&a", "Authorization: x\r\nCookie: jwt=y\r\n", "guest"),
        (false, Some("a".into()), None)
    );
}

#[test]
fn stored_claims_are_variables() {
    let field = format!("Authorization: {}\r\n", jack(json!({"sub": "7", "level": 3})));
    let read_from = |field: &str, config: Value, name: &str| {
        let exchange = check(config, "/", field, Ok("jack"));
        let variable = Variable::parse(name).unwrap();
        exchange.variable(&variable).map(|value| String::from_utf8(value.text().to_vec()).unwrap())
    };
    let read = |config: Value, name: &str| read_from(&field, config, name);
    let store = json!({"store_in_ctx": true});
    assert_eq!(read(store.clone(), "jwt_claim_sub").as_deref(), Some("7"));
    assert_eq!(read(store.clone(), "jwt_claim_level").as_deref(), Some("3"));
    assert_eq!(read(store.clone(), "jwt_claim_none"), None);
    let claims = r#"{"key":"k-jack","uid":9007199254740993,"big":18446744073709551616,"d":1.50,"l":[1,"a",9007199254740993]}"#;
    let numbers = format!("Authorization: {}\r\n", sign(r#"{"alg":"HS256"}"#, claims, SECRET));
    for (name, expected) in [
        ("jwt_claim_uid", "9007199254740993"),
        ("jwt_claim_big", "18446744073709551616"),
        ("jwt_claim_d", "1.50"),
        ("jwt_claim_l", "1,a,9007199254740993"),
    ] {
        assert_eq!(read_from(&numbers, store.clone(), name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(read(json!({}), "jwt_claim_sub"), None);
}

//! Configurations; the flows are tested with real providers in the tests of the binary.

use exchange::testing::check_configuration;
use model::catalog::SchemaType;
use serde_json::json;

use super::*;

fn with(fields: Value) -> Value {
    let mut config = json!({
        "client_id": "gw", "client_secret": "s", "discovery": "https://op.example/.well-known/openid-configuration",
        "session": {"secret": "0123456789abcdef"},
    });
    let all = config.as_object_mut().unwrap();
    for (name, value) in fields.as_object().unwrap() {
        if value.is_null() {
            all.shift_remove(name);
        } else {
            all.insert(name.clone(), value.clone());
        }
    }
    config
}

/// Names of lua-resty-openidc that APISIX refuses, because they would be stored in clear and have no effect.
#[test]
fn flat_names_of_par_and_dpop_are_refused() {
    for (name, value, owner) in [
        ("use_par", json!(true), "par.enabled"),
        ("pushed_authorization_request_endpoint", json!("https://op.example/par"), "par.endpoint"),
        (
            "pushed_authorization_request_endpoint_auth_method",
            json!("private_key_jwt"),
            "par.endpoint_auth_method",
        ),
        ("use_dpop", json!(true), "dpop.enabled"),
        ("dpop_signing_alg", json!("RS256"), "dpop.signing_alg"),
        ("dpop_private_key", json!("k"), "dpop.private_key"),
        ("dpop_public_jwk", json!({"kty": "RSA"}), "dpop.public_jwk"),
    ] {
        let expected = format!("property \"{name}\" is not allowed, use \"{owner}\" instead");
        check_configuration(&KIND, SchemaType::Plugin, &with(json!({name: value})), Some(&expected));
    }
}

#[test]
fn configurations() {
    let check = |fields: Value, fault: Option<&str>| {
        check_configuration(&KIND, SchemaType::Plugin, &with(fields), fault);
    };
    check(json!({}), None);
    check(json!({"client_id": null}), Some("client_id"));
    check(json!({"discovery": null}), Some("discovery"));
    check(json!({"discovery": "op.example"}), Some("discovery: op.example"));
    check(
        json!({"session": null}),
        Some("property \"session.secret\" is required when \"bearer_only\" is false"),
    );
    check(json!({"session": {"secret": "abcd"}}), Some("secret"));
    check(
        json!({"session": {"secret": "0123456789abcdef", "cookie_same_site": "lax"}}),
        Some("cookie_same_site"),
    );
    check(json!({"session": {"secret": "0123456789abcdef", "storage": "redis"}}), Some("session.redis"));
    let redis = |fields: Value| json!({"session": {"secret": "0123456789abcdef", "storage": "redis", "redis": fields}});
    check(redis(json!({})), None);
    check(redis(json!({"host": "redis.example", "ssl": true, "database": 3, "password": ""})), None);
    check(redis(json!({"port": 0})), Some("port"));
    check(redis(json!({"server_name": "r.example"})), Some("session.redis.server_name"));
    check(json!({"session": {"secret": "0123456789abcdef", "cookie": {"lifetime": 10}}}), None);
    check(json!({"client_secret": null}), Some("property \"client_secret\" is required"));
    check(json!({"client_secret": null, "use_pkce": true}), None);
    check(json!({"client_secret": null, "bearer_only": true, "use_jwks": true, "session": null}), None);
    check(json!({"client_secret": null, "bearer_only": true, "session": null}), Some("client_secret"));
    check(json!({"timeout": 0}), Some("timeout"));
    check(json!({"unauth_action": "allow"}), Some("unauth_action"));
    check(json!({"claim_schema": {"type": "object"}}), None);
    check(json!({"claim_schema": {"type": "invalid_type"}}), Some("check claim_schema failed: "));
    check(json!({"claim_validator": {"issuer": {"valid_issuers": "x"}}}), Some("valid_issuers"));
    check(json!({"introspection_addon_headers": []}), Some("introspection_addon_headers"));
    check(json!({"introspection_addon_headers": ["a:b"]}), Some("introspection_addon_headers"));
    check(json!({"proxy_opts": {"http_proxy": "http://p:1"}}), Some("proxy_opts"));
    check(json!({"proxy_opts": {"no_proxy": "a"}}), None);
    check(json!({"dpop": {"enabled": true, "private_key": "k", "public_jwk": {}}}), Some("dpop.enabled"));
    check(json!({"dpop": {"enabled": true}}), Some("dpop.enabled"));
    check(json!({"dpop": {"public_jwk": {"d": "x"}}}), Some("public_jwk"));
    check(json!({"token_endpoint_auth_method": "tls_client_auth"}), Some("none of client_secret_basic"));
    check(json!({"realm": "a\"b"}), Some("realm"));
    check(json!({"redirect_uri": "callback"}), Some("redirect_uri"));
    check(json!({"redirect_uri": "/cb", "logout_path": "logout"}), Some("logout_path"));
}

#[test]
fn methods_need_their_keys() {
    let check = |fields: Value, fault: Option<&str>| {
        check_configuration(&KIND, SchemaType::Plugin, &with(fields), fault);
    };
    let rsa = testkit_key("rsa");
    let private = |algorithm: Option<&str>, key: &str| {
        let mut fields =
            json!({"token_endpoint_auth_method": "private_key_jwt", "client_rsa_private_key": key});
        if let Some(algorithm) = algorithm {
            fields["client_jwt_assertion_alg"] = json!(algorithm);
        }
        fields
    };
    check(private(None, &rsa), None);
    check(private(Some("RS512"), &rsa), None);
    check(private(Some("ES256"), &rsa), Some("on curve \"P-256\""));
    check(private(Some("ES256"), &testkit_key("ec")), None);
    check(private(None, &testkit_key("ec")), Some("requires an RSA"));
    check(private(Some("HS256"), &rsa), Some("is symmetric and cannot be used with the private_key_jwt"));
    check(private(None, "no key"), Some("is not a valid key"));
    assert_eq!(settings::check::check(&with(private(None, "$env://KEY"))), Ok(()));
    let missing =
        "property \"token_endpoint_auth_method\" \"private_key_jwt\" requires \"client_rsa_private_key\"";
    check(json!({"token_endpoint_auth_method": "private_key_jwt"}), Some(missing));
    let secret =
        json!({"token_endpoint_auth_method": "client_secret_jwt", "client_jwt_assertion_alg": "RS256"});
    check(secret, Some("is asymmetric and cannot be used with the client_secret_jwt"));
    let both = json!({
        "token_endpoint_auth_method": "client_secret_jwt", "client_jwt_assertion_alg": "RS256",
        "introspection_endpoint": "https://op.example/i", "introspection_endpoint_auth_method": "private_key_jwt",
        "client_rsa_private_key": rsa,
    });
    check(both, Some("is a single algorithm"));
    let par = json!({"par": {"enabled": true, "endpoint_auth_method": "private_key_jwt"}});
    check(par, Some("property \"par.endpoint_auth_method\" \"private_key_jwt\" requires"));
}

/// A private key in PEM, made for this test.
fn testkit_key(kind: &str) -> String {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let der = match kind {
        "rsa" => {
            let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
            AsDer::<Pkcs8V1Der<'_>>::as_der(&key).unwrap().as_ref().to_vec()
        }
        _ => {
            let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
            key.to_pkcs8v1().unwrap().as_ref().to_vec()
        }
    };
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", BASE64.encode(&der))
}

#[test]
fn redirect_path_is_that_of_the_url() {
    assert_eq!(path_of("/cb?x"), "/cb");
    assert_eq!(path_of("https://a.example/x/cb#f"), "/x/cb");
    assert_eq!(path_of("https://a.example"), "/");
    assert_eq!(path_of("/a%20b"), "/a b");
}

#[test]
fn small_timeouts_are_seconds() {
    let timeout_ms = |timeout: u64| {
        let config: OpenidConnectConfig = config::parse_config(&with(json!({ "timeout": timeout }))).unwrap();
        config.timeout_ms()
    };
    assert_eq!([3, 999, 1_000, 3_000].map(timeout_ms), [3_000, 50_000, 1_000, 3_000]);
    assert_eq!(timeout_ms(1_001), 50_000);
}

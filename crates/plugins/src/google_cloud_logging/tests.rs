//! Configurations, entries and signatures; tests of the binary send to a stand-in.

use std::io::Write as _;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{self, KeyPair, RsaKeyPair, UnparsedPublicKey};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use exchange::testing::{check_configuration, configuration_check};
use model::catalog::SchemaType;

use super::*;
use token::Signer;

/// A new private key in PEM, and its public key.
fn key() -> (String, Vec<u8>) {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let body = BASE64.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
    (pem, pair.public_key().as_ref().to_vec())
}

fn account(pem: &str) -> Value {
    json!({"client_email": "a@b", "private_key": pem, "project_id": "p", "token_uri": "http://127.0.0.1:1/token"})
}

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    let (pem, _) = key();
    check(json!({"auth_config": account(&pem)}), None);
    let mut whole = account(&pem);
    whole["scope"] = json!(["https://a"]);
    whole["scopes"] = json!(["https://b"]);
    whole["entries_uri"] = json!("http://127.0.0.1:1/entries");
    check(
        json!({
            "auth_config": whole, "resource": {"type": "k8s", "labels": {"a": "b"}}, "log_id": "l", "ssl_verify": false,
            "max_retry_count": 0, "log_format": {"a": "$host"},
        }),
        None,
    );
    check(json!({"auth_config": account("$env://KEY")}), None);
    check(json!({}), Some("value should match only one schema, but matches none"));
    check(json!({"auth_config": account(&pem), "auth_file": "/a"}), Some("matches both"));
    for name in ["client_email", "private_key", "project_id"] {
        let mut config = account(&pem);
        config.as_object_mut().unwrap().shift_remove(name);
        check(json!({"auth_config": config}), Some(&format!("property \"{name}\" is required")));
    }
    check(
        json!({"auth_config": account("none")}),
        Some("auth_config.private_key: it is no private key in PEM"),
    );
    let mut uri = account(&pem);
    uri["token_uri"] = json!("ftp://a");
    check(json!({"auth_config": uri}), Some("auth_config.token_uri"));
    let mut scope = account(&pem);
    scope["scope"] = json!([]);
    check(json!({"auth_config": scope}), Some("scope"));
    check(json!({"auth_config": account(&pem), "resource": {}}), Some("property \"type\" is required"));
    check(json!({"auth_file": "/none.json"}), Some("auth_file: /none.json: "));
}

#[test]
fn account_files_are_read_with_their_other_fields() {
    let (pem, _) = key();
    let folder = std::env::temp_dir().join(format!("weir-google-account-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("account.json");
    let check = |text: &str, fault: Option<&str>| {
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        check_configuration(&KIND, SchemaType::Plugin, &json!({"auth_file": path.to_str().unwrap()}), fault);
    };
    let mut file = account(&pem);
    file["type"] = json!("service_account");
    file["scope"] = json!("https://a");
    check(&file.to_string(), None);
    check("{", Some("line 1: it is not JSON"));
    check("{}", Some("missing field `client_email`"));
    file["private_key"] = json!("secret text");
    check(&file.to_string(), Some("auth_file.private_key: it is no private key in PEM"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn entries_hold_the_request_or_chosen_fields() {
    let (pem, _) = key();
    let entry = |more: Value| -> Value {
        let mut config = json!({"auth_config": account(&pem), "log_id": "l"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_slice(&logger::testing::entry::<GoogleLogging>(&config, None)).unwrap()
    };
    let whole = entry(json!({"log_format_extra": {"tenant": "$arg_n", "route_id": "other"}}));
    let expected = json!({
        "requestMethod": "GET", "requestUrl": "http://shop.example:9080/a?n=1",
        "requestSize": whole["httpRequest"]["requestSize"], "status": 200, "responseSize": 0, "userAgent": "ua",
        "remoteIp": "127.0.0.1", "latency": "0.003s",
    });
    assert_eq!(whole["httpRequest"], expected);
    assert_eq!(whole["jsonPayload"], json!({"route_id": "r1", "service_id": "", "tenant": "1"}));
    assert_eq!(
        (&whole["logName"], &whole["resource"]),
        (&json!("projects/p/logs/l"), &json!({"type": "global"}))
    );
    let time = whole["timestamp"].as_str().unwrap();
    assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    let chosen =
        entry(json!({"log_format": {"n": "$arg_n"}, "resource": {"type": "a", "labels": {"b": "c"}}}));
    assert_eq!(chosen["jsonPayload"], json!({"n": "1", "route_id": "r1"}));
    assert!(chosen.get("httpRequest").is_none());
    assert_eq!(chosen["resource"], json!({"type": "a", "labels": {"b": "c"}}));
}

#[test]
fn assertions_are_signed_with_the_key() {
    let (pem, public) = key();
    let token =
        Signer::from_pem(&pem).unwrap().sign(&token::claims("a@b", "http://t", "s1 s2", 100)).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let decoded = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).unwrap();
    let json = |part: &str| -> Value { serde_json::from_slice(&decoded(part)).unwrap() };
    assert_eq!(json(parts[0]), json!({"alg": "RS256", "typ": "JWT"}));
    let claims = json!({"iss": "a@b", "aud": "http://t", "scope": "s1 s2", "iat": 100, "exp": 3_700});
    assert_eq!(json(parts[1]), claims);
    let public = UnparsedPublicKey::new(&signature::RSA_PKCS1_2048_8192_SHA256, &public);
    let signed = format!("{}.{}", parts[0], parts[1]);
    assert!(public.verify(signed.as_bytes(), &decoded(parts[2])).is_ok());
}

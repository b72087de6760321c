//! Configurations, forms and decisions; a real Keycloak is asked in the tests of the binary.

use exchange::testing::{Scene, check_configuration};
use model::catalog::SchemaType;
use serde_json::json;

use super::*;

#[test]
fn configurations() {
    let check = |more: Value, fault: Option<&str>| {
        let mut config = json!({"client_id": "gw", "token_endpoint": "http://127.0.0.1:1/token"});
        for (name, value) in more.as_object().unwrap() {
            match value.is_null() {
                true => drop(config.as_object_mut().unwrap().shift_remove(name)),
                false => config[name] = value.clone(),
            }
        }
        check_configuration(&KIND, SchemaType::Plugin, &config, fault);
    };
    check(json!({}), None);
    check(json!({"client_id": null}), Some("client_id"));
    check(json!({"token_endpoint": null}), Some("allOf 1 failed: object matches none of the required"));
    check(json!({"token_endpoint": null, "discovery": "https://kc.example/uma2"}), None);
    check(json!({"discovery": "kc.example"}), Some("discovery: kc.example"));
    check(json!({"lazy_load_paths": true}), Some("allOf 2 failed: object matches none of the required"));
    let registration = "http://127.0.0.1:1/resources";
    check(json!({"lazy_load_paths": true, "resource_registration_endpoint": registration}), None);
    check(json!({"permissions": ["a", "a"]}), Some("permissions"));
    check(json!({"permissions": [""]}), Some("permissions"));
    check(json!({"policy_enforcement_mode": "LOOSE"}), Some("policy_enforcement_mode"));
    check(json!({"grant_type": "password"}), Some("grant_type"));
    check(json!({"timeout": 999}), Some("timeout"));
    check(json!({"access_denied_redirect_uri": "/denied"}), None);
}

fn settings(more: Value) -> AuthzKeycloakConfig {
    let mut config = json!({"client_id": "gw", "token_endpoint": "http://127.0.0.1:1/token"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    AuthzKeycloakConfig::read(config).unwrap()
}

#[test]
fn method_joins_the_scopes_of_each_permission() {
    let permissions = ["res 1".to_owned(), "res2#view".to_owned()];
    let form = |scope| decision_form(&settings(json!({})), &permissions, scope);
    let start =
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Auma-ticket&audience=gw&response_mode=decision";
    assert_eq!(form(None), format!("{start}&permission=res%201&permission=res2%23view"));
    let scoped = format!("{start}&permission=res%201%23GET&permission=res2%23view%2C%20GET");
    assert_eq!(form(Some("GET")), scoped);
}

#[test]
fn authorization_gets_the_bearer_scheme() {
    let check = |fields: &str, expected: Option<&str>| {
        let mut scene = Scene::new();
        let exchange = scene.exchange(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        assert_eq!(authorization(&exchange).as_deref(), expected, "{fields}");
    };
    check("", None);
    check("Authorization: Bearer a\r\n", Some("Bearer a"));
    check("Authorization: bearer a\r\n", Some("bearer a"));
    check("Authorization: a\r\n", Some("Bearer a"));
    check("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n", None);
}

#[test]
fn only_a_json_object_is_consent() {
    let check = |body: &str, expected: bool| assert_eq!(is_consent(body.as_bytes()), expected, "{body}");
    check(r#"{"result":true}"#, true);
    check(r#"{"access_token":"t"}"#, true);
    check(r#"{"result":false}"#, false);
    check("[]", false);
    check("<html>", false);
    check("", false);
}

#[test]
fn form_type_is_read_without_case_and_parameters() {
    let check = |kind: &str, expected: bool| assert_eq!(is_form(kind.as_bytes()), expected, "{kind}");
    check("application/x-www-form-urlencoded", true);
    check("application/x-www-form-urlencoded; charset=utf-8", true);
    check("Application/X-WWW-Form-Urlencoded ;charset=utf-8", true);
    check("application/x-www-form-urlencodedx", false);
    check("application/json", false);
    check("", false);
}

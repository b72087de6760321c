//! Tests of `ldap-auth`: configurations, credentials, and the fields that reach the upstream.

use exchange::testing::{Scene, check_configuration, configuration_check, decide};
use model::catalog::SchemaType;

use super::*;

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    let base = "ou=users,dc=example,dc=org";
    check(json!({"base_dn": base, "ldap_uri": "127.0.0.1:1389", "uid": "cn"}), None);
    check(
        json!({"base_dn": base, "ldap_uri": "a", "use_tls": true, "tls_verify": true, "realm": "staff"}),
        None,
    );
    check(json!({"ldap_uri": "127.0.0.1:1389"}), Some("base_dn"));
    check(json!({"base_dn": base}), Some("ldap_uri"));
    check(json!({"base_dn": 123, "ldap_uri": "127.0.0.1:1389"}), Some("base_dn"));
    check(json!({"base_dn": base, "ldap_uri": "a:b"}), Some("ldap_uri: `a:b` is not HOST or HOST:PORT"));
    check(json!({"base_dn": base, "ldap_uri": "a", "realm": "a\"b"}), Some("realm"));
    let on_consumer = |config, fault| check_configuration(&KIND, SchemaType::Consumer, &config, fault);
    on_consumer(json!({"user_dn": "cn=user01,ou=users,dc=example,dc=org"}), None);
    on_consumer(json!({}), Some("user_dn"));
    on_consumer(json!({"user_dn": ""}), Some("user_dn"));
    on_consumer(json!({"user_dn": 1}), Some("user_dn"));
}

#[test]
fn request_without_credentials_reaches_no_server() {
    let check = |fields: &str, message: &str| {
        let mut scene = Scene::new();
        let plugin =
            scene.build(&KIND, &json!({"base_dn": "ou=u", "ldap_uri": "127.0.0.1:1", "realm": "staff"}));
        let mut exchange = scene.exchange(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        let reply = decide(plugin.rewrite(&mut exchange)).expect("a refusal");
        assert_eq!(
            (reply.status, &*reply.body),
            (401, format!("{{\"message\":\"{message}\"}}\n").as_bytes())
        );
        assert!(reply.headers.contains(&("WWW-Authenticate".into(), "Basic realm=\"staff\"".to_owned())));
    };
    check("", "Missing authorization in request");
    let invalid = "Invalid authorization in request";
    check("Authorization: bad_header\r\n", invalid);
    check("Authorization: Basic aca_a\r\n", invalid);
    // foo without password, and foo with an empty one.
    check("Authorization: Basic Zm9v\r\n", invalid);
    check("Authorization: Basic Zm9vOg==\r\n", invalid);
    check("Authorization: Basic Zm9vOmJhcg==\r\nAuthorization: Basic Zm9vOmJhcg==\r\n", invalid);
}

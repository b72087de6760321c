//! `ldap-auth` with a real OpenLDAP server.

use std::io::{Read, Write};
use std::net::TcpListener;

use data_encoding::BASE64;
use serde_json::{Value, json};
use testkit::{Certificates, Origin, Slapd, wait_until};

use super::Stage;

const USERS: [(&str, &str); 3] =
    [("user01", "password1"), (r"comma\,user", "pass:word"), ("other", "password1")];

fn protect(stage: &Stage, server: &str, more: Value) {
    let mut config = json!({"base_dn": "ou=users,dc=example,dc=org", "ldap_uri": server});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    stage.route(json!({"ldap-auth": config}), json!({}));
}

fn user(stage: &Stage, name: &str, user_dn: &str) {
    stage.weir.put("consumers", json!({"username": name, "plugins": {"ldap-auth": {"user_dn": user_dn}}}));
}

/// The status and the message of the answer to these credentials.
fn answer(stage: &Stage, user: &str, password: &str) -> (u16, String) {
    let credentials = format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()));
    stage.answer("GET", "/", &[("Authorization", &credentials)])
}

fn refused() -> (u16, String) {
    (401, "Invalid user authorization".to_owned())
}

#[test]
fn ldap_server_decides_on_credentials() {
    let (stage, slapd) = (Stage::new(), Slapd::start(&Certificates::make(), &USERS));
    user(&stage, "foo", "cn=user01,ou=users,dc=example,dc=org");
    user(&stage, "comma", r"cn=comma\,user,ou=users,dc=example,dc=org");
    protect(&stage, &slapd.address().to_string(), json!({}));
    let credentials = format!("Basic {}", BASE64.encode(b"user01:password1"));
    let seen = stage.get("/", &[("Authorization", &credentials), ("X-Consumer-Username", "root")]).text();
    assert!(seen.contains("X-Consumer-Username: foo\r\n") && seen.contains(&credentials), "{seen}");
    assert_eq!(answer(&stage, "comma,user", "pass:word").0, 200);
    assert_eq!(answer(&stage, "user01", "password2"), refused());
    assert_eq!(answer(&stage, "unknown", "password1"), refused());
    // The server knows this user, and there is no consumer for it.
    assert_eq!(answer(&stage, "other", "password1"), refused());
    // A name that would be another one without escapes.
    assert_eq!(answer(&stage, "user01,ou=users,dc=example,dc=org", "password1"), refused());
    let invalid = (401, "Invalid authorization in request".to_owned());
    assert_eq!(answer(&stage, "user01", ""), invalid);
    assert_eq!(stage.answer("GET", "/", &[]), (401, "Missing authorization in request".to_owned()));
    assert_eq!(stage.get("/", &[]).header("www-authenticate"), Some("Basic realm=\"ldap\""));
    protect(&stage, &slapd.address().to_string(), json!({"hide_credentials": true, "uid": "cn"}));
    let seen = stage.get("/", &[("Authorization", &credentials)]).text();
    assert!(seen.contains("X-Consumer-Username: foo\r\n") && !seen.contains("Authorization"), "{seen}");
    protect(&stage, &slapd.address().to_string(), json!({"uid": "sn"}));
    assert_eq!(answer(&stage, "user01", "password1"), refused());
}

#[test]
fn ldap_server_is_verified_over_tls() {
    let (certificates, other) = (Certificates::make(), Certificates::make());
    let authority = certificates.authority();
    let stage = Stage::with(&["--trusted-certificates", authority.to_str().unwrap()]);
    let (good, bad) = (Slapd::start(&certificates, &USERS), Slapd::start(&other, &USERS));
    user(&stage, "foo", "cn=user01,ou=users,dc=example,dc=org");
    let check = |slapd: &Slapd, more: Value, expected: u16| {
        protect(&stage, &format!("localhost:{}", slapd.tls_address().port()), more);
        // The first bind is on a new connection, the second one on the kept one.
        for _ in 0..2 {
            assert_eq!(answer(&stage, "user01", "password1").0, expected);
            assert_eq!(answer(&stage, "user01", "wrong"), refused());
        }
    };
    check(&good, json!({"use_tls": true, "tls_verify": true}), 200);
    check(&bad, json!({"use_tls": true, "tls_verify": true}), 401);
    check(&bad, json!({"use_tls": true}), 200);
    check(&bad, json!({}), 401);
    protect(&stage, &format!("ldaps://localhost:{}", good.tls_address().port()), json!({"tls_verify": true}));
    assert_eq!(answer(&stage, "user01", "password1").0, 200);
}

#[test]
fn restarted_ldap_server_is_used_again() {
    let (stage, mut slapd) = (Stage::new(), Slapd::start(&Certificates::make(), &USERS));
    user(&stage, "foo", "cn=user01,ou=users,dc=example,dc=org");
    protect(&stage, &slapd.address().to_string(), json!({}));
    assert_eq!(answer(&stage, "user01", "password1").0, 200);
    slapd.stop();
    assert_eq!(answer(&stage, "user01", "password1"), refused());
    slapd.go_on();
    assert_eq!(answer(&stage, "user01", "password1").0, 200);
    slapd.stop();
    slapd.go_on();
    // The kept connection is closed by now, and the bind goes over a new one.
    assert_eq!(answer(&stage, "user01", "password1").0, 200);
}

#[test]
fn garbage_from_ldap_server_admits_no_user() {
    let stage = Stage::new();
    user(&stage, "foo", "cn=user01,ou=users,dc=example,dc=org");
    let check = |server: String| {
        protect(&stage, &server, json!({}));
        assert_eq!(answer(&stage, "user01", "password1"), refused(), "{server}");
    };
    check(answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    check(answering(b""));
    // The result of another request, one with the code "busy", and a success that is cut.
    check(answering(b"\x30\x0c\x02\x01\x02\x61\x07\x0a\x01\x00\x04\x00\x04\x00"));
    check(answering(b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x33\x04\x00\x04\x00"));
    check(answering(b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04"));
    check(Origin::nowhere().to_string());
    check("169.254.169.254:389".to_owned());
    let good = answering(b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00");
    protect(&stage, &good, json!({}));
    assert_eq!(answer(&stage, "user01", "password1").0, 200);
    wait_until("the error log says what failed", || {
        let log = stage.weir.stderr().join("\n");
        [
            "no LDAP message",
            "belongs to another",
            "result code 51",
            "outbound_connect_failed",
            "outbound_forbidden",
        ]
        .iter()
        .all(|word| log.contains(word))
    });
}

/// A server that answers the first bytes of each connection with these and closes it.
fn answering(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            // The test sees what comes of a failure here.
            let _ = connection.read(&mut [0; 1_024]).and_then(|_| connection.write_all(answer));
        }
    });
    address.to_string()
}

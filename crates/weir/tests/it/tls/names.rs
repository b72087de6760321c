//! Which certificate is shown: by server name, by what the client verifies, and the settings of versions and
//! suites.

use serde_json::json;
use testkit::{Authority, KeyKind, Origin, TlsClient};

use super::{gateway, put_ssl};

#[test]
fn certificate_is_chosen_by_server_name() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    let pairs: Vec<_> = ["a.example", "*.a.example", "b.example"].map(|name| authority.pair(&[name])).into();
    put_ssl(&weir, "exact", &pairs[0], json!({"snis": ["a.example", "x.a.example"]}));
    put_ssl(&weir, "wild", &pairs[1], json!({"sni": "*.A.example"}));
    put_ssl(&weir, "off", &pairs[2], json!({"sni": "b.example", "status": 0}));
    let address = weir.address("proxy-tls");
    for (name, expected) in [
        ("a.example", Some(0)),
        ("A.EXAMPLE", Some(0)),
        ("y.a.example", Some(1)),
        ("z.y.a.example", None),
        ("b.example", None),
        ("c.example", None),
    ] {
        let client = TlsClient::new(authority.pem(), name);
        match (client.get(address, name, "/"), expected) {
            (Ok(answer), Some(index)) => {
                assert!(answer.was_shown(&pairs[index]) && answer.status() == 200, "{name}");
            }
            (Err(error), None) => assert!(error.to_string().contains("UnrecognisedName"), "{name}: {error}"),
            (answer, _) => panic!("{name}: {answer:?}"),
        }
    }
}

#[test]
fn fallback_serves_unknown_and_missing_names() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &["--fallback-sni", "a.example"]);
    let authority = Authority::new("known");
    let pair = authority.pair(&["a.example", "unknown.example", "127.0.0.1"]);
    put_ssl(&weir, "1", &pair, json!({"sni": "a.example"}));
    // A client that connects by address sends no server name.
    for name in ["unknown.example", "127.0.0.1"] {
        let answer = TlsClient::new(authority.pem(), name).get(weir.address("proxy-tls"), name, "/").unwrap();
        assert!(answer.was_shown(&pair) && answer.status() == 200, "{name}");
    }
}

#[test]
fn ecdsa_is_preferred_and_rsa_is_the_fallback() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    let rsa = authority.pair_of(&["a.example"], KeyKind::Rsa);
    let ecdsa = authority.pair(&["a.example"]);
    let more = json!({"sni": "a.example", "certs": [ecdsa.certificate], "keys": [ecdsa.key]});
    put_ssl(&weir, "1", &rsa, more);
    let address = weir.address("proxy-tls");
    for is_13 in [false, true] {
        let client = TlsClient::of_version(authority.pem(), "a.example", is_13);
        assert!(client.get(address, "a.example", "/").unwrap().was_shown(&ecdsa));
    }
    let shown = super::openssl::s_client(
        address,
        &["-servername", "a.example", "-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
    );
    assert!(shown.contains("ECDHE-RSA-AES128-GCM-SHA256"), "{shown}");
}

#[test]
fn versions_and_suites_are_those_of_the_settings() {
    let origin = Origin::answering("served");
    let arguments = ["--ssl-protocols", "TLSv1.2", "--ssl-ciphers", "ECDHE-ECDSA-CHACHA20-POLY1305"];
    let weir = gateway(&origin, &arguments);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let of_object = json!({"sni": "b.example", "ssl_protocols": ["TLSv1.2"]});
    put_ssl(&weir, "2", &authority.pair(&["b.example"]), of_object);
    let address = weir.address("proxy-tls");
    for name in ["a.example", "b.example"] {
        let old = TlsClient::of_version(authority.pem(), name, false).get(address, name, "/").unwrap();
        assert_eq!(old.cipher, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
        let new = TlsClient::of_version(authority.pem(), name, true).get(address, name, "/");
        assert!(new.unwrap_err().to_string().contains("ProtocolVersion"), "{name}");
    }
}

#[test]
fn faulty_objects_are_refused_with_the_reason() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    let (pair, other) = (authority.pair(&["a.example"]), authority.pair(&["a.example"]));
    for (body, reason) in [
        (
            json!({"cert": pair.certificate, "key": other.key, "sni": "a"}),
            "does not belong to the certificate",
        ),
        (
            json!({"cert": pair.certificate, "key": pair.key, "sni": "a", "ssl_protocols": ["TLSv1.1"]}),
            "TLSv1.1 is not supported because its protection is broken",
        ),
        (
            json!({"cert": pair.certificate, "key": pair.key, "sni": "a",
                   "client": {"ca": authority.pem(), "skip_mtls_uri_regex": ["("]}}),
            "it is no regular expression",
        ),
        (
            json!({"cert": pair.certificate, "key": pair.key, "sni": "a",
                   "client": {"ca": authority.pem(), "crl": pair.certificate}}),
            "failed to parse crl: it has no PEM block",
        ),
    ] {
        let (status, answer) = weir.admin("PUT", "ssls/1", body);
        assert!(status == 400 && answer.to_string().contains(reason), "{status} {answer}");
    }
}

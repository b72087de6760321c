//! The certificate that nodes are shown: written in the upstream, as an object, by reference; and its live
//! change.

use serde_json::{Value, json};
use testkit::{Authority, Origin, Pair, TlsBehaviour, TlsFront, Weir, wait_until};

use super::{ask, gateway, https, node, set};

/// A TLS server that asks for a certificate of `authority`.
fn asking(authority: &Authority, tls12_only: bool) -> (Origin, TlsFront) {
    let origin = Origin::answering("ok");
    let behaviour = TlsBehaviour {
        client_authority: Some(authority.pem().to_owned()),
        tls12_only,
        ..TlsBehaviour::default()
    };
    let front = TlsFront::with(origin.address(), &authority.pair(&["a.example"]), behaviour);
    (origin, front)
}

fn inline(identity: &Pair) -> Value {
    json!({"tls": {"client_cert": identity.certificate, "client_key": identity.key}})
}

fn client_ssl(identity: &Pair) -> Value {
    json!({"type": "client", "cert": identity.certificate, "key": identity.key})
}

/// The common names of the clients that the server has accepted.
fn clients(front: &TlsFront, known: &[(&str, &Pair)]) -> Vec<String> {
    let der_of = |identity: &Pair| {
        let body: String =
            identity.certificate.lines().skip(1).take_while(|line| !line.starts_with('-')).collect();
        body
    };
    let shown = front.handshakes().into_iter().map(|one| base64(&one.client_certificate.unwrap_or_default()));
    let name = |shown: String| {
        let found = known.iter().find(|(_, identity)| der_of(identity) == shown);
        found.map_or("none", |(name, _)| name).to_owned()
    };
    shown.map(name).collect()
}

/// As PEM has it, without line breaks.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[test]
fn nodes_get_the_certificate_or_refuse() {
    let (authority, stranger) = (Authority::new("trusted"), Authority::new("stranger"));
    let (jack, mallory) = (authority.pair(&["jack"]), stranger.pair(&["mallory"]));
    for tls12_only in [false, true] {
        let (origin, front) = asking(&authority, tls12_only);
        let weir = gateway(&authority, &[]);
        let check = |fields: Value, is_good: bool| {
            set(&weir, "r", https(&node(&front), fields));
            let response = ask(&weir, "r", "a.example");
            assert_eq!(response.status, if is_good { 200 } else { 502 }, "TLS 1.2 {tls12_only}");
        };
        check(inline(&jack), true);
        check(json!({}), false);
        check(inline(&mallory), false);
        weir.put("ssls/9", client_ssl(&jack));
        check(json!({"tls": {"client_cert_id": "9"}}), true);
        // The object holds the same certificate, so that the connection is used again.
        assert_eq!(
            (origin.requests().len(), clients(&front, &[("jack", &jack)])),
            (2, vec!["jack".to_owned()])
        );
    }
}

#[test]
fn refused_client_certificate_is_in_the_log() {
    let authority = Authority::new("trusted");
    let (_origin, front) = asking(&authority, true);
    let weir = gateway(&authority, &[]);
    set(&weir, "r", https(&node(&front), json!({})));
    let response = ask(&weir, "r", "a.example");
    assert!(response.status == 502 && response.text().contains("tls_"), "{}", response.text());
    wait_until("the log says it", || {
        weir.stderr().iter().any(|line| line.contains("cause=tls_failed") && line.contains("certificate"))
    });
}

#[test]
fn changed_certificate_object_is_shown_at_once() {
    let authority = Authority::new("trusted");
    let (jack, jill) = (authority.pair(&["jack"]), authority.pair(&["jill"]));
    let (_origin, front) = asking(&authority, false);
    let weir = gateway(&authority, &[]);
    weir.put("ssls/9", client_ssl(&jack));
    let tls = json!({"tls": {"client_cert_id": "9"}});
    set(&weir, "embedded", https(&node(&front), tls.clone()));
    weir.put("upstreams/u", https(&node(&front), tls));
    weir.put("routes/own", json!({"uri": "/own", "upstream_id": "u"}));
    let routes = ["embedded", "own"];
    for route in &routes {
        assert_eq!(ask(&weir, route, "a.example").status, 200, "{route}");
    }
    let known = [("jack", &jack), ("jill", &jill)];
    assert_eq!(clients(&front, &known), ["jack"], "upstreams with one identity share connections");
    weir.put("ssls/9", client_ssl(&jill));
    for route in &routes {
        assert_eq!(ask(&weir, route, "a.example").status, 200, "{route}");
    }
    assert_eq!(clients(&front, &known), ["jack", "jill"], "no request goes over a connection of before");
    let (status, answer) = weir.admin("DELETE", "ssls/9", json!({}));
    assert!(status == 400 && answer.to_string().contains("still using it now"), "{answer}");
}

#[test]
fn certificate_object_of_servers_is_not_shown() {
    let authority = Authority::new("trusted");
    let jack = authority.pair(&["jack"]);
    let (origin, front) = asking(&authority, false);
    let weir = gateway(&authority, &[]);
    let disabled = json!({"type": "client", "status": 0, "cert": jack.certificate, "key": jack.key});
    weir.put("ssls/9", disabled);
    set(&weir, "r", https(&node(&front), json!({"tls": {"client_cert_id": "9"}})));
    assert_eq!(ask(&weir, "r", "a.example").status, 503);
    // A write that names it is refused; here it has become one of servers afterwards.
    let server = json!({"type": "server", "sni": "a.example", "cert": jack.certificate, "key": jack.key});
    weir.put("ssls/9", server);
    assert_eq!(ask(&weir, "r", "a.example").status, 503);
    weir.put("ssls/9", client_ssl(&jack));
    assert_eq!(ask(&weir, "r", "a.example").status, 200, "the object was mended");
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn key_comes_from_the_environment() {
    let authority = Authority::new("trusted");
    let jack = authority.pair(&["jack"]);
    let (_origin, front) = asking(&authority, false);
    let weir = Weir::builder(crate::support::BINARY)
        .environment("CLIENT_CERT", &jack.certificate)
        .environment("CLIENT_KEY", &jack.key)
        .start();
    let tls = json!({"client_cert": "$ENV://CLIENT_CERT", "client_key": "$ENV://CLIENT_KEY"});
    set(&weir, "r", https(&node(&front), json!({"tls": tls})));
    assert_eq!(ask(&weir, "r", "a.example").status, 200, "{:?}", weir.stderr());
}

#[test]
fn client_key_is_encrypted_at_rest() {
    let authority = Authority::new("trusted");
    let jack = authority.pair(&["jack"]);
    let (_origin, front) = asking(&authority, false);
    let weir = Weir::builder(crate::support::BINARY)
        .environment("WEIR_ENCRYPTION_KEYRING", "qeddd145sfvddff3")
        .start();
    set(&weir, "r", https(&node(&front), inline(&jack)));
    assert_eq!(ask(&weir, "r", "a.example").status, 200);
    let secret = jack.key.lines().nth(1).unwrap();
    let mut files = vec![weir.data()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains(secret), "{}", path.display());
        }
    }
    let weir = weir.restart();
    assert_eq!(ask(&weir, "r", "a.example").status, 200, "the key is decrypted at the start");
}

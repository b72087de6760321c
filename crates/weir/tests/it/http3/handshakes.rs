//! Handshakes of QUIC: certificates by name, client certificates, Retry, limits, and that TLS over TCP goes
//! on beside it.

use serde_json::json;
use testkit::{Authority, Origin, Pair, TlsClient, wait_until};

use super::client::{H3Client, request};
use super::{put_ssl, scene};

#[test]
fn certificate_is_chosen_by_name_and_changed_live() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &["--fallback-sni", "a.example"]);
    let other = Authority::new("other");
    let connect = |authority: &Authority, name: &str| {
        H3Client::connect(scene.address(), &TlsClient::new(authority.pem(), name))
            .map(|mut client| client.get("/").status)
    };
    assert_eq!(connect(&scene.authority, "a.example"), Ok(200));
    assert!(connect(&other, "b.example").is_err(), "there is no certificate of that name");
    put_ssl(
        &scene.weir,
        "2",
        &other.pair(&["*.b.example", "b.example"]),
        json!({"snis": ["b.example", "*.b.example"]}),
    );
    assert_eq!(connect(&other, "b.example"), Ok(200));
    assert_eq!(connect(&other, "www.b.example"), Ok(200));
    let mut kept = scene.client();
    put_ssl(&scene.weir, "1", &other.pair(&["a.example"]), json!({"sni": "a.example"}));
    assert_eq!(connect(&other, "a.example"), Ok(200));
    assert!(connect(&scene.authority, "a.example").is_err(), "the certificate is another one");
    assert_eq!(kept.get("/").status, 200, "a connection lives on");
    // The same port answers over TCP.
    let tls = TlsClient::new(other.pem(), "a.example");
    assert_eq!(tls.get(scene.address(), "a.example", "/").unwrap().status(), 200);
}

#[test]
fn name_that_demands_tls_1_2_is_refused() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &[]);
    let pair = scene.authority.pair(&["old.example"]);
    put_ssl(&scene.weir, "old", &pair, json!({"sni": "old.example", "ssl_protocols": ["TLSv1.2"]}));
    let refused = H3Client::connect(scene.address(), &TlsClient::new(scene.authority.pem(), "old.example"));
    assert!(refused.err().unwrap().contains("70"), "the alert protocol_version");
}

#[test]
fn client_without_valid_certificate_is_refused() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &[]);
    let clients = Authority::new("clients");
    let pair = scene.authority.pair(&["must.example"]);
    put_ssl(&scene.weir, "must", &pair, json!({"sni": "must.example", "client": {"ca": clients.pem()}}));
    let pair = scene.authority.pair(&["may.example"]);
    let client = json!({"ca": clients.pem(), "skip_mtls_uri_regex": ["^/open"]});
    put_ssl(&scene.weir, "may", &pair, json!({"sni": "may.example", "client": client}));
    let ask = |name: &str, pair: Option<&Pair>, path: &str| {
        let tls = match pair {
            Some(pair) => TlsClient::with_certificate(scene.authority.pem(), name, pair),
            None => TlsClient::new(scene.authority.pem(), name),
        };
        let mut client = H3Client::connect(scene.address(), &tls)?;
        let mut asked = request("GET", path, &[]);
        *asked.uri_mut() = format!("https://{name}{path}").parse().unwrap();
        // A client of TLS 1.3 learns of the refusal after its own end of the handshake.
        let answer = client.ask(asked, b"", None).map_err(|error| error.to_string())?;
        Ok::<_, String>(answer.status)
    };
    let right = clients.pair(&["me"]);
    let wrong = Authority::new("strangers").pair(&["me"]);
    assert_eq!(ask("must.example", Some(&right), "/"), Ok(200));
    for pair in [None, Some(&wrong)] {
        assert!(ask("must.example", pair, "/").is_err());
        assert_eq!(ask("may.example", pair, "/"), Ok(400));
        assert_eq!(ask("may.example", pair, "/open"), Ok(200));
    }
    assert_eq!(ask("may.example", Some(&right), "/"), Ok(200));
    assert_eq!(origin.requests().len(), 4, "no refused request has reached the node");
}

#[test]
fn session_is_resumed_by_ticket() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &["--access-log", "stdout", "--access-log-format", "log $ssl_session_reused"]);
    let tls = TlsClient::new(scene.authority.pem(), "a.example");
    for round in 0..2 {
        let mut client = H3Client::connect(scene.address(), &tls).unwrap();
        assert_eq!(client.get("/").status, 200);
        // The tickets follow the handshake.
        let expected = ["log .", "log r"][round];
        wait_until("the request is logged", || scene.weir.stdout().iter().any(|line| line == expected));
    }
}

#[test]
fn clients_prove_their_address_by_retry() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &["--http3-retry-handshakes", "0"]);
    for _ in 0..3 {
        assert_eq!(scene.client().get("/").status, 200);
    }
    assert_eq!(scene.metric("weir_http3_retries_total"), 3);
}

#[test]
fn connections_of_one_address_are_limited() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &["--max-connections-per-address", "2"]);
    let mut two = [scene.client(), scene.client()];
    let tls = TlsClient::new(scene.authority.pem(), "a.example");
    assert!(H3Client::connect(scene.address(), &tls).is_err(), "the third one is refused");
    assert!(two.iter_mut().all(|client| client.get("/").status == 200));
    assert!(scene.metric("weir_http3_retries_total") >= 3, "an address is counted only if it was proven");
    drop(two);
    wait_until("places are free again", || H3Client::connect(scene.address(), &tls).is_ok());
}

//! Listeners without HTTP/2 beside others that serve it, with TLS and without.

use std::net::SocketAddr;

use serde_json::{Value, json};
use testkit::{Authority, Client as Http1, Origin, TlsClient, Weir, raw_exchange};

use super::client::Client;
use super::raw::PREFACE;
use crate::support::BINARY;

const SETTINGS: &str = "\
    proxy: [127.0.0.1:0, 127.0.0.2:0]\n\
    proxy_tls: [127.0.0.1:0, 127.0.0.2:0]\n\
    http1_only: 127.0.0.2:0\n";

/// The listeners that the control API reports under `name`: address and protocols, those with HTTP/2 first.
fn reported(weir: &Weir, name: &str) -> Vec<(SocketAddr, Vec<String>)> {
    let answer = Http1::connect(weir.address("control")).get("/v1/weir/listeners").json();
    let listeners = answer.as_array().unwrap().clone();
    let named = listeners.into_iter().filter(|listener| listener["name"] == name);
    let protocols = |listener: &Value| serde_json::from_value(listener["protocols"].clone()).unwrap();
    named
        .map(|listener| (listener["address"].as_str().unwrap().parse().unwrap(), protocols(&listener)))
        .collect()
}

/// The protocol that the listener at `address` chooses from `h2` and `http/1.1`.
fn agreed(address: SocketAddr, authority: &Authority) -> String {
    let client = TlsClient::offering(authority.pem(), "a.example", &["h2", "http/1.1"]);
    client.agreed_protocol(address).unwrap().unwrap()
}

#[test]
fn listeners_without_http2_serve_http1_only() {
    let origin = Origin::answering("served");
    let weir = Weir::builder(BINARY).settings(SETTINGS).start();
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
    let authority = Authority::new("known");
    let pair = authority.pair(&["a.example"]);
    weir.put("ssls/1", json!({"cert": pair.certificate, "key": pair.key, "snis": ["a.example"]}));

    let [(with, both), (without, one)] = &reported(&weir, "proxy")[..] else { panic!("two listeners") };
    assert_eq!(
        (&both[..], &one[..]),
        (&["http1".to_owned(), "http2".to_owned()][..], &["http1".to_owned()][..])
    );
    assert_eq!(Client::connect(*with).get("/").text(), "served");
    let refusal = String::from_utf8(raw_exchange(*without, PREFACE)).unwrap();
    assert!(refusal.starts_with("HTTP/1.1 505 "), "{refusal}");
    for address in [*with, *without] {
        assert_eq!(Http1::connect(address).get("/").text(), "served");
    }

    let [(with, both), (without, one)] = &reported(&weir, "proxy-tls")[..] else { panic!("two listeners") };
    assert_eq!((both.last().unwrap().as_str(), one.last().unwrap().as_str()), ("http2", "http1"));
    assert_eq!(agreed(*with, &authority), "h2");
    assert_eq!(agreed(*without, &authority), "http/1.1");
    let client = TlsClient::new(authority.pem(), "a.example");
    for address in [*with, *without] {
        assert_eq!(client.get(address, "a.example", "/").unwrap().status(), 200);
    }
}

//! A faulty `ssl` object without a good form: its names are refused, and no wildcard serves them.

use serde_json::json;
use testkit::{Authority, Client, Origin, TlsClient, Weir};

use crate::support::BINARY;

#[test]
fn wildcard_does_not_serve_a_faulty_objects_name() {
    let origin = Origin::answering("served");
    let authority = Authority::new("known");
    let wild = authority.pair(&["*.a.example"]);
    let node = origin.address().to_string();
    // JSON is YAML. The field `colour` does not exist.
    let resources = json!({
        "routes": [{"id": "1", "uri": "/*", "upstream": {"nodes": {node: 1}}}],
        "ssls": [
            {"id": "wild", "sni": "*.a.example", "cert": wild.certificate, "key": wild.key},
            {"id": "secret", "snis": ["secret.a.example"], "cert": wild.certificate, "key": wild.key, "colour": 1},
        ],
    });
    let weir = Weir::builder(BINARY)
        .arguments(&["--proxy-tls", "127.0.0.1:0"])
        .resources(&format!("{resources}\n"))
        .start();
    let address = weir.address("proxy-tls");
    let ask = |name: &str, host: &str| TlsClient::new(authority.pem(), name).get(address, host, "/");
    assert_eq!(ask("shop.a.example", "shop.a.example").unwrap().status(), 200);
    let error = ask("secret.a.example", "secret.a.example").unwrap_err().to_string();
    assert!(error.contains("InternalError"), "{error}");
    assert_eq!(ask("shop.a.example", "secret.a.example").unwrap().status(), 421, "nor another connection");
    let list = Client::connect(weir.address("control")).get("/v1/weir/certificates").json();
    assert_eq!(
        list["list"][0],
        json!({"id": "secret", "type": "server", "names": ["secret.a.example"], "state": "faulty"})
    );
}

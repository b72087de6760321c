//! TLS that ends at a listener of layer 4: nodes get the bytes inside, by the server name, and HTTP inside goes to the routes of
//! HTTP without losing the bytes that were looked at.

use serde_json::json;
use testkit::{Authority, Origin, TlsClient, Weir};

use crate::support::BINARY;

#[test]
fn tls_ends_here_and_goes_on_by_server_name() {
    let (one, other) = (Origin::answering("one"), Origin::answering("other"));
    let authority = Authority::new("known");
    let weir = Weir::builder(BINARY).arguments(&["--stream-tls", "127.0.0.1:0"]).start();
    let pair = authority.pair(&["one.test", "other.test", "web.test"]);
    let names = json!(["one.test", "other.test", "web.test"]);
    weir.put("ssls/1", json!({"snis": names, "cert": pair.certificate, "key": pair.key}));
    for (id, origin) in [("one", &one), ("other", &other)] {
        let nodes = json!({origin.address().to_string(): 1});
        let route = json!({"sni": format!("{id}.test"), "upstream": {"scheme": "tcp", "nodes": nodes}});
        weir.put(&format!("stream_routes/{id}"), route);
    }
    weir.put("stream_routes/web", json!({"sni": "web.test", "sniff": "http1", "protocol": {"name": "http"}}));
    weir.put("routes/web", json!({"uri": "/*", "plugins": {"mocking": {"response_example": "by a route"}}}));
    let address = weir.address("stream-tls");
    for (name, expected) in [("one.test", "one"), ("other.test", "other"), ("web.test", "by a route")] {
        let answer = TlsClient::new(authority.pem(), name).connect(address).get("/");
        assert_eq!((answer.status, answer.text().as_str()), (200, expected), "{name}");
    }
}

//! TLS that ends at a listener of layer 4: nodes get the bytes inside, by the server name, and HTTP inside
//! goes to the routes of HTTP without losing the bytes that were looked at.

use serde_json::json;
use testkit::{Authority, Origin, Reply, TlsClient, Weir};

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

#[test]
fn no_server_name_leads_around_a_wildcards_policy() {
    let origin = Origin::start(|_| Reply::ok("inside").close());
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let weir = Weir::builder(BINARY)
        .arguments(&["--stream-tls", "127.0.0.1:0", "--fallback-sni", "pub.test"])
        .start();
    let put_ssl = |id: &str, names: &[&str], more: serde_json::Value| {
        let pair = authority.pair(names);
        let mut object = json!({"snis": names, "cert": pair.certificate, "key": pair.key});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        weir.put(&format!("ssls/{id}"), object);
    };
    put_ssl("open", &["pub.test", "*.b.sec.test"], json!({}));
    put_ssl("rules", &["*.sec.test"], json!({"client": {"ca": clients.pem()}}));
    let upstream = json!({"scheme": "tcp", "nodes": {origin.address().to_string(): 1}});
    for (id, sni) in [("sec", "*.sec.test"), ("pub", "pub.test")] {
        weir.put(&format!("stream_routes/{id}"), json!({"sni": sni, "upstream": upstream}));
    }
    let address = weir.address("stream-tls");
    let right = clients.pair(&["me"]);
    for (name, certificate, is_served) in [
        ("pub.test", None, true),
        ("a.sec.test", Some(&right), true),
        ("a.sec.test", None, false),
        ("x.b.sec.test", None, false),
        ("x.b.sec.test", Some(&right), false),
    ] {
        let client = match certificate {
            Some(pair) => TlsClient::with_certificate(authority.pem(), name, pair),
            None => TlsClient::new(authority.pem(), name),
        };
        let answer = client.exchange(address, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let found = answer.as_ref().is_ok_and(|answer| answer.status() == 200);
        assert_eq!(found, is_served, "{name}: {answer:?}");
    }
}

//! TLS while things change: certificates, listeners, the process. No request is lost, and a change is in
//! force at once.

use serde_json::{Value, json};
use testkit::{Authority, Client, Origin, Signal, TlsClient, Weir, wait_for, wait_until};

use super::{gateway, put_ssl, settled};
use crate::load::Load;
use crate::support::{BINARY, lasting_origin};

#[test]
fn new_certificate_is_shown_to_the_next_handshake() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    let address = weir.address("proxy-tls");
    let client = TlsClient::new(authority.pem(), "a.example");
    let mut kept: Option<Client> = None;
    for _ in 0..3 {
        let pair = authority.pair(&["a.example"]);
        put_ssl(&weir, "1", &pair, json!({"sni": "a.example"}));
        let fresh = TlsClient::new(authority.pem(), "a.example").get(address, "a.example", "/").unwrap();
        assert!(fresh.was_shown(&pair));
        let kept = kept.get_or_insert_with(|| client.connect(address));
        assert_eq!(kept.request("GET", "/", &[("Host", "a.example")], b"").status, 200, "it lives on");
    }
    weir.delete("ssls/1");
    settled(&weir);
    assert!(TlsClient::new(authority.pem(), "a.example").get(address, "a.example", "/").is_err());
}

#[test]
fn certificate_by_reference_follows_its_secret() {
    let origin = Origin::answering("served");
    let authority = Authority::new("known");
    let pair = authority.pair(&["a.example"]);
    let weir = Weir::builder(BINARY)
        .arguments(&["--proxy-tls", "127.0.0.1:0"])
        .environment("SITE_CERT", &pair.certificate)
        .environment("SITE_KEY", &pair.key)
        .start();
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
    weir.put("ssls/1", json!({"sni": "a.example", "cert": "$env://SITE_CERT", "key": "$env://SITE_KEY"}));
    settled(&weir);
    let client = TlsClient::new(authority.pem(), "a.example");
    assert!(client.get(weir.address("proxy-tls"), "a.example", "/").unwrap().was_shown(&pair));
    // A reference that leads nowhere leaves the last good form in force.
    weir.put("ssls/1", json!({"sni": "a.example", "cert": "$env://SITE_CERT", "key": "$env://NO_SUCH_KEY"}));
    settled(&weir);
    assert!(client.get(weir.address("proxy-tls"), "a.example", "/").unwrap().was_shown(&pair));
}

#[test]
fn expiry_is_in_the_metrics() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "old", &authority.expired_pair(&["a.example"]), json!({"sni": "a.example"}));
    let metrics = Client::connect(weir.address("metrics")).get("/metrics").text();
    let line = "weir_ssl_certificate_expiry_seconds{ssl=\"old\",sni=\"a.example\",index=\"0\"} 978307200\n";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn drain_lets_requests_over_tls_finish() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = lasting_origin(&asked, &go);
    let mut weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let client = TlsClient::new(authority.pem(), "a.example");
    let address = weir.address("proxy-tls");
    let request = std::thread::spawn(move || client.get(address, "a.example", "/slow").unwrap());
    asked.wait();
    weir.terminate();
    wait_until("it accepts no more", || std::net::TcpStream::connect(address).is_err());
    go.set();
    let answer = request.join().unwrap();
    assert!(answer.status() == 200 && answer.text.ends_with("done"), "{}", answer.text);
    assert!(weir.wait_for_exit().success());
}

#[test]
fn reload_adds_and_removes_tls_listeners() {
    let origin = Origin::answering("served");
    let weir = Weir::builder(BINARY).settings("proxy_tls: 127.0.0.1:0\n").start();
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let client = TlsClient::new(authority.pem(), "a.example");
    let first = weir.address("proxy-tls");
    let load = Load::start(client.door(first), "/");
    weir.rewrite_settings("proxy_tls: [127.0.0.1:0, 127.0.0.1:0]\n");
    weir.reload();
    let announced = || {
        let lines = weir.stdout();
        let tls = lines.iter().filter_map(|line| line.strip_prefix("listening proxy-tls "));
        tls.map(|address| address.parse().unwrap()).collect::<Vec<std::net::SocketAddr>>()
    };
    let second = wait_for("another listener is announced", || announced().get(1).copied());
    assert_eq!(client.get(second, "a.example", "/").unwrap().status(), 200);
    weir.rewrite_settings(&format!("proxy_tls: {first}\n"));
    weir.reload();
    let line = format!("closed proxy-tls {second}");
    wait_until("the listener is closed", || weir.stdout().contains(&line));
    wait_until("it refuses connections", || std::net::TcpStream::connect(second).is_err());
    assert!(load.stop() > 0);
}

#[test]
fn binary_upgrade_loses_no_request_and_no_session() {
    let origin = Origin::answering("served");
    let weir = Weir::builder(BINARY)
        .settings("proxy_tls: 127.0.0.1:0\n")
        .arguments(&["--upgrade-grace", "10"])
        .start();
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "upstream": upstream}));
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let address = weir.address("proxy-tls");
    let client = TlsClient::new(authority.pem(), "a.example");
    assert_eq!(client.get(address, "a.example", "/").unwrap().status(), 200);
    let load = Load::start(TlsClient::new(authority.pem(), "a.example").door(address), "/");
    weir.upgrade();
    let heir = weir.wait_for_successor(weir.pid());
    load.goes_on();
    assert!(load.stop() > 0);
    wait_until("the old process takes no more connections", || {
        client.get(address, "a.example", "/").unwrap().status() == 200
    });
    assert!(client.get(address, "a.example", "/").unwrap().is_resumed, "with a ticket of the old process");
    let status = Client::connect(weir.address("control")).get("/v1/weir/listeners").json();
    let names: Vec<&Value> = status.as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(names.contains(&&json!("proxy-tls")), "{status}");
    heir.terminate();
    heir.wait_until_gone();
}

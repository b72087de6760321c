//! TLS for clients: the agreed versions, the chosen certificate, and HTTP/1 over it.

mod change;
mod client_certificates;
mod expiry;
mod faulty;
mod files;
mod names;
mod openssl;
mod stapling;
mod tickets;
mod wire;

use serde_json::{Value, json};
use testkit::{Authority, Origin, Pair, Reply, Step, TlsClient, Weir};

use crate::support::BINARY;

/// A gateway with a TLS listener that passes every request on to `origin`, on its store.
fn gateway(origin: &Origin, arguments: &[&str]) -> Weir {
    let arguments = [&["--proxy-tls", "127.0.0.1:0"], arguments].concat();
    let weir = Weir::builder(BINARY).arguments(&arguments).start();
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "enable_websocket": true, "upstream": upstream}));
    weir
}

/// Puts an `ssl` object with these fields besides the pair, and waits until the worker runs by it.
fn put_ssl(weir: &Weir, id: &str, pair: &Pair, fields: Value) {
    let mut body = json!({"cert": pair.certificate, "key": pair.key});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    weir.put(&format!("ssls/{id}"), body);
    settled(weir);
}

/// Waits until every worker runs by the newest configuration.
fn settled(weir: &Weir) {
    let (_, answer) = weir.admin("GET", "/apisix/admin/routes/1", Value::Null);
    let _ = answer;
    let revision = testkit::Client::connect(weir.address("admin"))
        .request("GET", "/apisix/admin/ssls", &[("X-API-KEY", testkit::ADMIN_KEY)], b"")
        .header("x-weir-revision")
        .and_then(|text| text.parse::<u64>().ok());
    testkit::wait_until("the worker has taken the change up", || {
        let text = testkit::Client::connect(weir.address("metrics")).get("/metrics").text();
        let running = text.lines().filter(|line| line.starts_with("weir_config_revision{"));
        let mut running = running.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        revision.is_none_or(|revision| running.all(|one| one >= revision))
    });
}

#[test]
fn both_versions_are_spoken_and_named_in_variables() {
    let origin = Origin::echoing();
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let variables = "$scheme $https $ssl_protocol $ssl_cipher $ssl_curve $ssl_server_name $ssl_session_reused \
                     $ssl_client_verify $ssl_alpn_protocol";
    let plugins = json!({"proxy-rewrite": {"headers": {"set": {"X-Tls": variables}}}});
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": upstream}));
    settled(&weir);
    for (is_13, version, shown) in [
        (false, "TLSv1_2", "https on TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384 "),
        (true, "TLSv1_3", "https on TLSv1.3 TLS_AES_256_GCM_SHA384 "),
    ] {
        let client = TlsClient::of_version(authority.pem(), "a.example", is_13);
        let answer = client.get(weir.address("proxy-tls"), "a.example", "/").unwrap();
        assert_eq!((answer.version.as_str(), answer.status()), (version, 200), "{answer:?}");
        assert!(answer.text.contains(&format!("X-Tls: {shown}")), "{}", answer.text);
        assert!(answer.text.contains(" a.example . NONE"), "{}", answer.text);
        assert!(answer.text.contains("X-Forwarded-Proto: https"), "{}", answer.text);
        let port = weir.address("proxy-tls").port();
        assert!(answer.text.contains(&format!("X-Forwarded-Port: {port}")), "{}", answer.text);
    }
}

#[test]
fn bodies_of_one_megabyte_pass_unchanged() {
    let origin = Origin::start(|request| Reply::ok(&String::from_utf8_lossy(&request.body)));
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let body: String = (0..1_000_000_u32).map(|index| char::from(b'a' + (index / 7 % 26) as u8)).collect();
    let mut client = TlsClient::new(authority.pem(), "a.example").connect(weir.address("proxy-tls"));
    for _ in 0..2 {
        let answer = client.request("POST", "/", &[("Host", "a.example")], body.as_bytes());
        assert!(answer.status == 200 && answer.text() == body, "{} bytes came back", answer.body.len());
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::start(|request| Reply::ok(request.path()));
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let mut client = TlsClient::new(authority.pem(), "a.example").connect(weir.address("proxy-tls"));
    let requests: String =
        (0..20).map(|number| format!("GET /{number} HTTP/1.1\r\nHost: a.example\r\n\r\n")).collect();
    client.send(requests.as_bytes());
    for number in 0..20 {
        assert_eq!(client.read_response(false).unwrap().text(), format!("/{number}"));
    }
}

#[test]
fn websocket_passes_both_ways() {
    let consent = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let origin = Origin::start(move |_| Reply::raw(consent.as_bytes()).then(Step::Echo).close());
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let mut client = TlsClient::new(authority.pem(), "a.example").connect(weir.address("proxy-tls"));
    client.send(
        b"GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(client.read_response(false).unwrap().status, 101);
    for length in [1, 1_000, 300_000] {
        let frame: Vec<u8> = (0..length).map(|number| (number % 251) as u8).collect();
        client.send(&frame);
        assert!(client.read_bytes(length) == frame, "{length} bytes came back changed");
    }
    client.finish_sending();
    assert!(client.closes_cleanly());
}

#[test]
fn cut_response_is_no_clean_end() {
    let origin = Origin::start(|_| Reply::raw(b"HTTP/1.0 200 OK\r\n\r\npart").reset());
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let client = TlsClient::new(authority.pem(), "a.example");
    let request = "GET / HTTP/1.0\r\nHost: a.example\r\n\r\n";
    match client.exchange(weir.address("proxy-tls"), request) {
        // It broke before any of it was sent on.
        Ok(answer) => assert_eq!(answer.status(), 502),
        Err(error) => assert!(
            matches!(error.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset),
            "{error:?}"
        ),
    }
}

#[test]
fn session_is_resumed_with_a_ticket_unless_off() {
    let origin = Origin::answering("served");
    let authority = Authority::new("known");
    for (tickets, expected) in [("true", true), ("false", false)] {
        let weir = gateway(&origin, &[&format!("--ssl-session-tickets={tickets}")]);
        put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
        for is_13 in [false, true] {
            let client = TlsClient::of_version(authority.pem(), "a.example", is_13);
            let address = weir.address("proxy-tls");
            assert!(!client.get(address, "a.example", "/").unwrap().is_resumed);
            let again = client.get(address, "a.example", "/").unwrap();
            assert_eq!((again.is_resumed, again.status()), (expected, 200), "1.3: {is_13}");
        }
        let metrics = testkit::Client::connect(weir.address("metrics")).get("/metrics").text();
        let resumed = if expected { 2 } else { 0 };
        let line = format!("weir_tls_handshakes_total{{result=\"resumed\"}} {resumed}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn redirect_leads_to_the_port_of_the_settings() {
    let origin = Origin::answering("served");
    for (port, authority) in [("8443", "a.example:8443"), ("443", "a.example")] {
        let weir = gateway(&origin, &["--redirect-https-port-number", port]);
        let upstream = json!({"nodes": {origin.address().to_string(): 1}});
        let plugins = json!({"redirect": {"http_to_https": true}});
        weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": upstream}));
        let answer = weir.client().request("GET", "/a?b=c", &[("Host", "a.example")], b"");
        let expected = format!("https://{authority}/a?b=c");
        assert_eq!((answer.status, answer.header("location")), (301, Some(expected.as_str())));
    }
}

#[test]
fn redirect_leads_to_the_tls_listener() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    let plugins = json!({"redirect": {"http_to_https": true}});
    weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": upstream}));
    settled(&weir);
    let answer = weir.client().request("GET", "/a?b=c", &[("Host", "a.example")], b"");
    let expected = format!("https://a.example:{}/a?b=c", weir.address("proxy-tls").port());
    assert_eq!((answer.status, answer.header("location")), (301, Some(expected.as_str())));
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let client = TlsClient::new(authority.pem(), "a.example");
    assert_eq!(client.get(weir.address("proxy-tls"), "a.example", "/a").unwrap().status(), 200);
}

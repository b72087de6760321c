//! Listeners with PROXY protocol: TLS behind the header, changes by reload, hand-over at a binary upgrade,
//! and settings.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use serde_json::json;
use testkit::{Authority, Client, Origin, TlsClient, Weir, raw_exchange, wait_for, wait_until};

use super::{connect, gateway, line};
use crate::support::{BINARY, TUNNEL, builder, everything_to, lasting_origin};

/// Starts a balancer, which passes each connection on to `address` behind `header`, and returns the
/// balancer's address.
pub(super) fn balancer(address: SocketAddr, header: &[u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap();
    let header = header.to_vec();
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let mut gateway = TcpStream::connect(address).unwrap();
            gateway.write_all(&header).unwrap();
            let (client_too, gateway_too) = (client.try_clone().unwrap(), gateway.try_clone().unwrap());
            thread::spawn(move || pass(client_too, gateway_too));
            thread::spawn(move || pass(gateway, client));
        }
    });
    own
}

/// Passes bytes in one direction until its end.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut room = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut room) {
        if to.write_all(&room[..count]).is_err() {
            break;
        }
    }
    // The other side may be gone by now.
    let _ = to.shutdown(Shutdown::Write);
}

fn announced(weir: &Weir, name: &str) -> Vec<SocketAddr> {
    let prefix = format!("listening {name} ");
    weir.stdout().iter().filter_map(|line| line.strip_prefix(&prefix)?.parse().ok()).collect()
}

#[test]
fn tls_behind_the_header_is_served() {
    let origin = Origin::answering("ok");
    let arguments = [
        "--proxy-protocol-tls",
        "127.0.0.1:0",
        "--proxy-protocol-from",
        "127.0.0.1",
        "--proxy-tls",
        "127.0.0.1:0",
    ];
    let weir = Weir::builder(BINARY).arguments(&arguments).start();
    let authority = Authority::new("known");
    let pair = authority.pair(&["a.example"]);
    weir.put("ssls/1", json!({"cert": pair.certificate, "key": pair.key, "sni": "a.example"}));
    let seen = "$scheme $remote_addr ($proxy_protocol_tlv_alpn) $ssl_server_name";
    let plugins = json!({"proxy-rewrite": {"headers": {"set": {"X-Seen": seen}}}});
    weir.put(
        "routes/1",
        json!({"uri": "/*", "plugins": plugins, "upstream": {"nodes": {origin.address().to_string(): 1}}}),
    );
    let client = TlsClient::new(authority.pem(), "a.example");
    let address = weir.address("proxy-protocol-tls");
    wait_until("the certificate is in force", || {
        client
            .get(balancer(address, &line("192.0.2.7")), "a.example", "/")
            .is_ok_and(|answer| answer.status() == 200)
    });
    assert_eq!(origin.last_request().header("x-seen"), Some("https 192.0.2.7 () a.example"));
    let header = super::binary(0x21, 0x11, &[super::IPV4, &super::tlv(1, b"h2")].concat());
    assert_eq!(client.get(balancer(address, &header), "a.example", "/").unwrap().status(), 200);
    assert_eq!(origin.last_request().header("x-seen"), Some("https 192.0.2.7 (h2) a.example"));
    // TLS without a header, a header inside of TLS, and one in front of plain HTTP.
    assert!(client.get(address, "a.example", "/").is_err());
    let inside =
        format!("{}GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", String::from_utf8(line("192.0.2.7")).unwrap());
    let answer = client.exchange(weir.address("proxy-tls"), &inside).unwrap();
    assert_eq!(answer.status(), 400, "{answer:?}");
    let plain = [&line("192.0.2.7")[..], b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"].concat();
    let answer = String::from_utf8(raw_exchange(address, &plain)).unwrap();
    assert!(answer.contains("plain HTTP request was sent to HTTPS port"), "{answer}");
    assert_eq!(client.get(weir.address("proxy-tls"), "a.example", "/").unwrap().status(), 200);
}

#[test]
fn tunnel_behind_the_header_passes_both_ways() {
    let origin = lasting_origin(&testkit::Signal::new(), &testkit::Signal::new());
    let weir = gateway(&origin, "", &[]);
    let mut client = connect(&weir, &line("192.0.2.7"));
    assert_eq!(client.request("GET", "/chat", &TUNNEL, b"").status, 101);
    client.send(b"PROXY TCP4 still here");
    assert_eq!(client.read_bytes(21), b"PROXY TCP4 still here");
}

#[test]
fn reload_adds_and_removes_listeners() {
    let origin = Origin::answering("ok");
    let from = "proxy_protocol_from: 127.0.0.1\n";
    let weir = builder(&everything_to(origin.address(), ""))
        .settings(&format!("{from}proxy_protocol: 127.0.0.1:0\n"))
        .arguments(&["--workers", "2"])
        .start();
    let first = weir.address("proxy-protocol");
    let mut kept = connect(&weir, &line("192.0.2.7"));
    assert_eq!(kept.get("/").status, 200);
    weir.rewrite_settings(&format!("{from}proxy_protocol: [127.0.0.1:0, 127.0.0.1:0]\n"));
    weir.reload();
    let second = wait_for("another listener", || announced(&weir, "proxy-protocol").get(1).copied());
    for address in [first, second] {
        let mut client = Client::connect(address);
        client.send(&line("192.0.2.7"));
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(kept.get("/").status, 200, "the first listener was not touched");
    weir.rewrite_settings(&format!("{from}proxy_protocol: '{second}'\n"));
    weir.reload();
    wait_until("the first listener is closed", || {
        weir.stdout().contains(&format!("closed proxy-protocol {first}"))
            && TcpStream::connect(first).is_err()
    });
    let listed = Client::connect(weir.address("control")).get("/v1/weir/listeners").json();
    let expected = json!({
        "name": "proxy-protocol",
        "address": second.to_string(),
        "protocols": ["proxy-protocol", "http1", "http2"],
    });
    assert!(listed.as_array().unwrap().contains(&expected), "{listed}");
}

#[test]
fn binary_upgrade_keeps_the_listener() {
    let origin = Origin::answering("ok");
    let settings = "proxy_protocol: 127.0.0.1:0\nproxy_protocol_from: 127.0.0.1\n";
    let weir = Weir::builder(BINARY).settings(settings).arguments(&["--upgrade-grace", "1"]).start();
    let plugins = json!({"proxy-rewrite": {"headers": {"set": {"X-Seen": "$remote_addr"}}}});
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "plugins": plugins, "upstream": upstream}));
    wait_until("the route is in force", || connect(&weir, &line("192.0.2.7")).get("/").status == 200);
    weir.upgrade();
    let successor = weir.wait_for_successor(weir.pid());
    for number in 1..=4 {
        let client = format!("192.0.2.{number}");
        assert_eq!(connect(&weir, &line(&client)).get("/").status, 200);
        assert_eq!(origin.last_request().header("x-seen"), Some(client.as_str()));
        assert!(connect(&weir, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").closes_cleanly());
    }
    drop(successor);
}

#[test]
fn open_header_does_not_delay_a_graceful_stop() {
    let origin = Origin::answering("ok");
    let mut weir = gateway(&origin, "", &["--head-timeout-ms", "600000", "--grace", "600"]);
    let mut open = connect(&weir, b"PROXY TCP4 ");
    assert_eq!(connect(&weir, &line("192.0.2.7")).get("/").status, 200);
    weir.terminate();
    assert!(weir.wait_for_exit().success());
    assert!(open.closes_cleanly());
}

#[test]
fn listener_without_trusted_peers_is_refused() {
    let refused = |arguments: &[&str]| {
        let exited = builder("routes: []").arguments(arguments).try_start().expect_err("a faulty setting");
        assert!(!exited.status.success());
        exited.stderr
    };
    let text = refused(&["--proxy-protocol", "127.0.0.1:0"]);
    assert!(text.contains("`proxy_protocol` needs `proxy_protocol_from`"), "{text}");
    let text = refused(&["--proxy-protocol-tls", "127.0.0.1:0"]);
    assert!(text.contains("`proxy_protocol_tls` needs `proxy_protocol_from`"), "{text}");
}

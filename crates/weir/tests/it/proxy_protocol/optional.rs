//! Listeners where the header may be missing: HTTP and TLS behind it, several protocols at one port, and
//! peers that may send none.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::json;
use testkit::{Authority, Client, Origin, TlsClient, Weir, raw_exchange, wait_until};

use super::listeners::balancer;
use super::refusals::refused;
use super::{IPV4, binary, connect, gateway, line, tlv};
use crate::support::{BINARY, builder, everything_to};

const OPTIONAL: [&str; 2] = ["--proxy-protocol-optional", "127.0.0.1:0"];

#[test]
fn request_with_or_without_header_is_served() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, "$remote_addr", &OPTIONAL);
    let header = binary(0x21, 0x11, &[IPV4, &tlv(2, b"api.test")].concat());
    for (sent, expected) in
        [(&line("192.0.2.7")[..], "192.0.2.7"), (&header, "192.0.2.7"), (b"", "127.0.0.1")]
    {
        assert_eq!(connect(&weir, sent).get("/x").status, 200);
        assert_eq!(origin.last_request().header("x-seen"), Some(expected));
        let mut client = Client::connect(weir.address("proxy-protocol"));
        for byte in sent.iter().chain(b"PROPFIND /x HTTP/1.1\r\nHost: h\r\n\r\n") {
            client.send(&[*byte]);
        }
        assert_eq!(client.read_response(false).unwrap().status, 200);
        assert_eq!(origin.last_request().header("x-seen"), Some(expected));
    }
    assert_eq!(refused(&weir, "proxy_protocol"), 0);
    let cut = raw_exchange(weir.address("proxy-protocol"), b"PROXY TCP4 192.0.2.7 x\r\n");
    assert_eq!(cut, b"");
    wait_until("a malformed one is counted", || refused(&weir, "proxy_protocol") == 1);
}

#[test]
fn untrusted_peer_is_served_without_a_header() {
    let origin = Origin::answering("ok");
    let listen = ["--proxy-protocol", "127.0.0.1:0", "--proxy-protocol-from", "192.0.2.0/24"];
    let limit = ["--max-connections-per-address", "2"];
    let arguments = [&listen[..], &OPTIONAL, &limit].concat();
    let weir = builder(&everything_to(origin.address(), "")).arguments(&arguments).start();
    for (number, header) in (1..).zip([line("192.0.2.7"), binary(0x21, 0x11, IPV4)]) {
        let request = [&header[..], b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
        assert_eq!(raw_exchange(weir.address("proxy-protocol"), &request), b"");
        wait_until("it is counted", || refused(&weir, "proxy_protocol") == number);
    }
    assert_eq!(origin.requests().len(), 0);
    // Refused ones have given their places back, and those of others are limited.
    let mut clients = [connect(&weir, b""), connect(&weir, b"")];
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    // It is closed as soon as it is accepted, which the client may learn while it still connects.
    let third = TcpStream::connect(weir.address("proxy-protocol"));
    assert!(!third.is_ok_and(|mut third| third.read(&mut [0]).is_ok_and(|count| count > 0)));
    wait_until("it is counted", || refused(&weir, "max_connections_per_address") == 1);
    assert_eq!(clients[0].get("/").status, 200);
}

#[test]
fn one_port_takes_headers_tls_http_ssh_and_raw() {
    let (web, rest) = (Origin::answering("web"), crate::stream_listeners::echo_server());
    let authority = Authority::new("known");
    let pair = authority.pair(&["a.example"]);
    let settings = "stream_proxy_protocol: 127.0.0.1:0\nproxy_protocol_optional: 127.0.0.1:0\nproxy_protocol_from: 127.0.0.1\n\
                    proxy_tls: 127.0.0.1:0\n";
    let weir = Weir::builder(BINARY).settings(settings).start();
    weir.put("ssls/1", json!({"cert": pair.certificate, "key": pair.key, "sni": "a.example"}));
    let seen = json!({"proxy-rewrite": {"headers": {"set": {"X-Seen": "$remote_addr"}}}});
    let nodes = json!({web.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/*", "plugins": seen, "upstream": {"nodes": nodes}}));
    let to = |address: SocketAddr| json!({"scheme": "tcp", "nodes": {address.to_string(): 1}});
    weir.put("stream_routes/web", json!({"sniff": "http1", "protocol": {"name": "http"}}));
    weir.put(
        "stream_routes/tls",
        json!({"sni": "a.example", "sniff": "tls", "upstream": to(weir.address("proxy-tls"))}),
    );
    weir.put("stream_routes/shell", json!({"sniff": "ssh", "upstream": to(rest)}));
    weir.put("stream_routes/rest", json!({"upstream": to(rest)}));
    let address = weir.address("stream-proxy-protocol");
    let version_2 = binary(0x21, 0x11, IPV4);
    for (header, client) in
        [(&line("192.0.2.7")[..], "192.0.2.7"), (&version_2, "192.0.2.7"), (b"", "127.0.0.1")]
    {
        let mut http = Client::connect(address);
        http.send(header);
        assert_eq!(http.get("/").status, 200, "{}", header.escape_ascii());
        assert_eq!(web.last_request().header("x-seen"), Some(client));
        let tls = TlsClient::new(authority.pem(), "a.example");
        let answer = tls.get(balancer(address, header), "a.example", "/").unwrap();
        assert_eq!(answer.status(), 200, "{}", header.escape_ascii());
        for text in [&b"SSH-2.0-client\r\n"[..], b"\0\x01raw"] {
            let mut raw = std::net::TcpStream::connect(address).unwrap();
            raw.write_all(&[header, text].concat()).unwrap();
            let mut echoed = vec![0; text.len()];
            raw.read_exact(&mut echoed).unwrap();
            assert_eq!(echoed, text);
        }
    }
    let listed = Client::connect(weir.address("control")).get("/v1/weir/listeners").json();
    let expected = json!(["optional-proxy-protocol", "tcp"]);
    let is_it =
        |one: &serde_json::Value| one["address"] == address.to_string() && one["protocols"] == expected;
    assert!(listed.as_array().unwrap().iter().any(is_it), "{listed}");
}

#[test]
fn hup_and_upgrade_keep_the_choice() {
    let origin = Origin::answering("ok");
    let required = "proxy_protocol: 127.0.0.1:0\nproxy_protocol_from: 127.0.0.1\n";
    let optional = format!("{required}proxy_protocol_optional: 127.0.0.1:0\n");
    let weir = Weir::builder(BINARY).settings(required).arguments(&["--upgrade-grace", "1"]).start();
    weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": {origin.address().to_string(): 1}}}));
    wait_until("the route is in force", || connect(&weir, &line("192.0.2.7")).get("/").status == 200);
    let request = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let is_served = || raw_exchange(weir.address("proxy-protocol"), request).starts_with(b"HTTP/1.1 200");
    assert!(!is_served());
    weir.rewrite_settings(&optional);
    weir.reload();
    wait_until("the header may be missing", is_served);
    weir.upgrade();
    let successor = weir.wait_for_successor(weir.pid());
    assert!(is_served(), "the successor has the same settings");
    weir.rewrite_settings(required);
    successor.reload();
    wait_until("the header is asked for", || !is_served());
    successor.terminate();
    successor.wait_until_gone();
}

#[test]
fn unknown_optional_address_is_refused() {
    let arguments = ["--proxy-protocol", "127.0.0.1:0", "--proxy-protocol-from", "127.0.0.1"];
    let wrong = ["--proxy-protocol-optional", "127.0.0.1:4711"];
    let refusal =
        builder("routes: []").arguments(&[arguments, [wrong[0], wrong[1], "--workers", "1"]].concat());
    let stderr = refusal.try_start().err().unwrap().stderr;
    assert!(stderr.contains("127.0.0.1:4711 is in none of `proxy_protocol`"), "{stderr}");
}

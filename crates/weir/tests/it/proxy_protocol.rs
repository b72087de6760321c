//! Connections that begin with a PROXY protocol header: the client that it names, and headers that are
//! refused.

mod listeners;
mod optional;
mod refusals;

use std::fs;

use testkit::{Client, Origin, Weir, wait_for};

use crate::support::builder;

/// The header of version 1 for a client at this address, port 40000, that connected to 198.51.100.1:443.
fn line(client: &str) -> Vec<u8> {
    let (family, server) =
        if client.contains(':') { ("TCP6", "2001:db8::1") } else { ("TCP4", "198.51.100.1") };
    format!("PROXY {family} {client} {server} 40000 443\r\n").into_bytes()
}

/// A header of version 2.
fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, content].concat()
}

/// 192.0.2.7:40000 to 198.51.100.1:443, and the same ends over IPv6.
const IPV4: &[u8] = &[192, 0, 2, 7, 198, 51, 100, 1, 0x9c, 0x40, 1, 0xbb];
const IPV6: &[u8] = &[
    0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 1, 0x9c, 0x40, 1, 0xbb,
];

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind], &u16::try_from(value.len()).unwrap().to_be_bytes()[..], value].concat()
}

/// A gateway that takes headers from this machine, and sends the values of these variables to the origin.
fn gateway(origin: &Origin, variables: &str, arguments: &[&str]) -> Weir {
    let resources = format!(
        "routes:\n  - id: '1'\n    uri: /*\n    enable_websocket: true\n    plugins: {{proxy-rewrite: {{headers: \
         {{set: {{X-Seen: '{variables}'}}}}}}}}\n    upstream: {{nodes: {{'{}': 1}}}}\n",
        origin.address()
    );
    let listen = ["--proxy-protocol", "127.0.0.1:0", "--proxy-protocol-from", "127.0.0.1"];
    builder(&resources).arguments(&[&listen[..], arguments].concat()).start()
}

/// A connection that begins with these bytes.
fn connect(weir: &Weir, header: &[u8]) -> Client {
    let mut client = Client::connect(weir.address("proxy-protocol"));
    client.send(header);
    client
}

/// The field with the variables as the origin gets it for a connection with this header.
fn seen(weir: &Weir, origin: &Origin, header: &[u8]) -> String {
    assert_eq!(connect(weir, header).get("/x").status, 200, "{}", header.escape_ascii());
    origin.last_request().header("x-seen").unwrap_or_default().to_owned()
}

const ADDRESSES: &str = "$remote_addr $remote_port $realip_remote_addr|$proxy_protocol_addr $proxy_protocol_port \
                         $proxy_protocol_server_addr $proxy_protocol_server_port";

#[test]
fn header_of_each_version_names_the_client() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, ADDRESSES, &[]);
    let ipv4 = "192.0.2.7 40000 127.0.0.1|192.0.2.7 40000 198.51.100.1 443";
    let ipv6 = "2001:db8::7 40000 127.0.0.1|2001:db8::7 40000 2001:db8::1 443";
    for (header, expected) in [
        (line("192.0.2.7"), ipv4),
        (line("2001:db8::7"), ipv6),
        (binary(0x21, 0x11, IPV4), ipv4),
        (binary(0x21, 0x12, IPV4), ipv4),
        (binary(0x21, 0x21, IPV6), ipv6),
        (binary(0x21, 0x11, &[IPV4, &tlv(0x04, &[0; 3_000])].concat()), ipv4),
    ] {
        assert_eq!(seen(&weir, &origin, &header), expected);
        // The address is that of each request of the connection, also with the header in the same segment.
        let requests = b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
        let mut client = connect(&weir, &[&header[..], requests].concat());
        for _ in 0..2 {
            assert_eq!(client.read_response(false).unwrap().status, 200);
            assert_eq!(origin.last_request().header("x-seen"), Some(expected));
        }
    }
}

#[test]
fn header_sent_by_the_byte_names_the_client() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, "$remote_addr", &[]);
    for header in [line("192.0.2.7"), binary(0x21, 0x11, &[IPV4, &tlv(0x02, b"api.test")].concat())] {
        let mut client = Client::connect(weir.address("proxy-protocol"));
        for byte in header.iter().chain(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n") {
            client.send(&[*byte]);
        }
        assert_eq!(client.read_response(false).unwrap().status, 200);
        assert_eq!(origin.last_request().header("x-seen"), Some("192.0.2.7"));
    }
}

#[test]
fn header_without_ip_addresses_keeps_the_peer() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, "$remote_addr|$proxy_protocol_addr|$proxy_protocol_tlv_authority", &[]);
    for (header, expected) in [
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1||"),
        (b"PROXY UNKNOWN 192.0.2.7 198.51.100.1 1 2\r\n".to_vec(), "127.0.0.1||"),
        (binary(0x20, 0x00, b""), "127.0.0.1||"),
        (binary(0x20, 0x11, IPV4), "127.0.0.1||"),
        (binary(0x21, 0x00, b""), "127.0.0.1||"),
        (binary(0x21, 0x00, &tlv(2, b"a.test")), "127.0.0.1||a.test"),
        (binary(0x21, 0x31, &[b'/'; 216]), "127.0.0.1||"),
    ] {
        assert_eq!(seen(&weir, &origin, &header), expected, "{}", header.escape_ascii());
    }
}

#[test]
fn tlvs_are_variables() {
    let origin = Origin::answering("ok");
    let name = |name: &&str| format!("$proxy_protocol_tlv_{name}");
    let names =
        ["alpn", "authority", "unique_id", "0xea", "ssl_verify", "ssl_cn", "ssl_0x21", "ssl_cipher", "mine"];
    let variables = names.iter().map(name).collect::<Vec<_>>().join("|");
    let weir = gateway(&origin, &variables, &[]);
    let inside = [tlv(0x21, b"TLSv1.3"), tlv(0x22, b"client.test")].concat();
    let ssl = tlv(0x20, &[&[0x07, 0, 0, 0, 20][..], &inside].concat());
    let tlvs = [tlv(1, b"h2"), tlv(2, b"api.test"), tlv(5, b"id-1"), ssl, tlv(0xea, b"vpce")].concat();
    let header = binary(0x21, 0x11, &[IPV4, &tlvs].concat());
    assert_eq!(seen(&weir, &origin, &header), "h2|api.test|id-1|vpce|20|client.test|TLSv1.3||");
    assert_eq!(seen(&weir, &origin, &line("192.0.2.7")), "||||||||");
}

#[test]
fn client_of_header_counts_in_plugins_fields_and_log() {
    let origin = Origin::answering("ok");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let format = "$remote_addr $realip_remote_addr $uri $status";
    let log_path = log.to_str().unwrap();
    let weir = gateway(
        &origin,
        "$remote_addr",
        // The field is for peers that name clients in requests; a client of the header is none of them.
        &["--access-log", log_path, "--access-log-format", format, "--real-ip-from", "127.0.0.1"],
    );
    let restricted = format!(
        "routes:\n  - {{id: a, uri: /a, upstream: {{nodes: {{'{0}': 1}}}}}}\n  - {{id: b, uri: /b, plugins: \
         {{ip-restriction: {{blacklist: [192.0.2.0/24]}}}}, upstream: {{nodes: {{'{0}': 1}}}}}}\n  - {{id: c, uri: /c, \
         remote_addrs: [192.0.2.7], upstream: {{nodes: {{'{0}': 1}}}}}}\n",
        origin.address()
    );
    weir.rewrite_resources(&restricted);
    weir.reload();
    wait_for("the new routes are in force", || {
        (connect(&weir, &line("192.0.2.7")).get("/b").status == 403).then_some(())
    });
    let fields = [("X-Real-IP", "10.1.1.1"), ("X-Forwarded-For", "10.2.2.2")];
    let mut client = connect(&weir, &line("192.0.2.7"));
    assert_eq!(client.request("GET", "/a", &fields, b"").status, 200);
    let request = origin.last_request();
    assert_eq!(request.header("x-real-ip"), Some("192.0.2.7"));
    assert_eq!(request.header("x-forwarded-for"), Some("10.2.2.2, 192.0.2.7"));
    for (address, path, status) in [
        ("192.0.2.7", "/b", 403),
        ("198.51.100.9", "/b", 200),
        ("192.0.2.7", "/c", 200),
        ("192.0.2.8", "/c", 404),
    ] {
        assert_eq!(connect(&weir, &line(address)).get(path).status, status, "{address} {path}");
    }
    let last = "192.0.2.8 127.0.0.1 /c 404";
    let text = wait_for("the last line", || fs::read_to_string(&log).ok().filter(|text| text.contains(last)));
    assert!(text.contains("192.0.2.7 127.0.0.1 /a 200\n"), "{text}");
    assert!(text.contains("198.51.100.9 127.0.0.1 /b 200\n"), "{text}");
}

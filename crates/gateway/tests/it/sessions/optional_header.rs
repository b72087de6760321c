//! Sessions at a listener where a PROXY protocol header may be missing: of trusted peers with and without
//! one, and of peers that may send none.

use super::*;

const SSH: &[u8] = b"SSH-2.0-client\r\n";
const LINE: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4000 443\r\n";
/// Of version 2, for the same ends.
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\x0f\xa0\x01\xbb";

fn optional(routes: &[Value], trusted: &str) -> Gateway {
    gateway_with(Protocols::TCP.behind_optional_proxy_protocol(), routes, trusted)
}

fn with(mut route: Value, field: &str, value: Value) -> Value {
    route[field] = value;
    route
}

/// Sends the bytes whole, then one at a time; both connections.
fn send_both_ways(gateway: &Gateway, bytes: &[u8]) -> [TcpStream; 2] {
    [bytes.len(), 1].map(|piece| {
        let mut client = gateway.connect();
        client.set_nodelay(true).unwrap();
        for part in bytes.chunks(piece) {
            // A refused client is reset while it sends the rest.
            if client.write_all(part).is_err() {
                break;
            }
        }
        client
    })
}

fn wait_for_refusals(gateway: &Gateway, count: u64) {
    wait_until("the refusals are counted", || gateway.refused("proxy_protocol") == count);
}

#[test]
fn trusted_peer_may_leave_the_header_out() {
    let ((shell, at_shell), (named, at_named), (rest, at_rest)) = (origin(), origin(), origin());
    let routes = [
        with(to(shell), "sniff", json!("ssh")),
        with(to(named), "remote_addr", json!("192.0.2.0/24")),
        to(rest),
    ];
    let gateway = optional(&routes, "127.0.0.0/8");
    let ssh_behind = |header: &[u8]| [header, SSH].concat();
    for (sent, node, expected) in [
        (&ssh_behind(LINE)[..], &at_shell, SSH),
        (&ssh_behind(BINARY), &at_shell, SSH),
        (SSH, &at_shell, SSH),
        (&[LINE, b"hello\n"].concat(), &at_named, b"hello\n"),
        (&[BINARY, b"hello\n"].concat(), &at_named, b"hello\n"),
        (b"PROXYX no header", &at_rest, b"PROXYX no header"),
        (b"PROXY X", &at_rest, b"PROXY X"),
        (b"\r\n\r\n\0\r\nQUIT\r", &at_rest, b"\r\n\r\n\0\r\nQUIT\r"),
        (b"\x00\x01", &at_rest, b"\x00\x01"),
    ] {
        let clients = send_both_ways(&gateway, sent);
        for _ in &clients {
            let mut node = node.recv_timeout(PATIENCE).unwrap();
            assert_eq!(read_exact(&mut node, expected.len()), expected, "{}", sent.escape_ascii());
        }
    }
    let mut short = gateway.connect();
    short.write_all(b"PROX").unwrap();
    short.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    at_rest.recv_timeout(PATIENCE).unwrap().read_to_end(&mut all).unwrap();
    assert_eq!(all, b"PROX", "bytes that end before they are a header are none");
}

#[test]
fn malformed_header_of_a_trusted_peer_is_refused() {
    let gateway = optional(&[to(echo())], "127.0.0.0/8");
    for (number, bytes) in (1..).zip([
        &b"PROXY TCP4 192.0.2.7 198.51.100.1 4000\r\nhello"[..],
        b"PROXY TCP9 192.0.2.7 198.51.100.1 4000 443\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c",
    ]) {
        let clients = send_both_ways(&gateway, bytes);
        clients.into_iter().for_each(|mut client| assert!(is_gone(&mut client), "{}", bytes.escape_ascii()));
        wait_for_refusals(&gateway, 2 * number);
    }
}

#[test]
fn untrusted_header_is_refused_where_bytes_are_read() {
    let ((shell, _at_shell), (rest, at_rest)) = (origin(), origin());
    let gateway = optional(&[with(to(shell), "sniff", json!("ssh")), to(rest)], "192.0.2.0/24");
    for (number, header) in (1..).zip([LINE, BINARY]) {
        let sent = [header, SSH].concat();
        for mut client in send_both_ways(&gateway, &sent) {
            assert!(is_gone(&mut client), "{}", header.escape_ascii());
        }
        wait_for_refusals(&gateway, 2 * number);
    }
    assert_eq!(gateway.ended("preread_fault"), 4);
    let clients = send_both_ways(&gateway, b"PROXYX hello");
    for _ in &clients {
        let mut node = at_rest.recv_timeout(PATIENCE).unwrap();
        assert_eq!(read_exact(&mut node, 12), b"PROXYX hello");
    }
}

#[test]
fn server_speaks_first_to_an_untrusted_peer() {
    let (address, accepted) = origin();
    let gateway = optional(&[to(address)], "192.0.2.0/24");
    let mut client = gateway.connect();
    let mut node = accepted.recv_timeout(PATIENCE).unwrap();
    node.write_all(b"220 ready").unwrap();
    assert_eq!(read_exact(&mut client, 9), b"220 ready");
    // Where nothing is read ahead, a header is bytes as any others, and names no client.
    client.write_all(LINE).unwrap();
    assert_eq!(read_exact(&mut node, LINE.len()), LINE);
    assert_eq!(gateway.refused("proxy_protocol"), 0);
}

#[test]
fn listener_takes_a_header_up_while_it_is_open() {
    let (address, accepted) = origin();
    let required = Protocols::TCP.behind_proxy_protocol();
    let gateway = gateway_with(required, &[to(address)], "127.0.0.0/8");
    let plain = |expected_to_pass: bool| {
        let mut client = gateway.connect();
        client.write_all(b"hello").unwrap();
        if expected_to_pass {
            let mut node = accepted.recv_timeout(PATIENCE).unwrap();
            assert_eq!(read_exact(&mut node, 5), b"hello");
        } else {
            assert!(is_gone(&mut client));
        }
    };
    plain(false);
    for protocols in [Protocols::TCP.behind_optional_proxy_protocol(), required] {
        let wanted = WantedListener { address: gateway.address, protocols };
        let change = gateway.engine.listen(&[wanted]).unwrap();
        assert_eq!(change.changed, [gateway.address]);
        assert!(change.added.is_empty() && change.removed.is_empty(), "{change:?}");
        plain(protocols.proxy_protocol_optional);
    }
}

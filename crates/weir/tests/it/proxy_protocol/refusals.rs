//! Connections that are refused: without a header, with a bad or late one, from a peer that may send none, or
//! of a client with too many connections.

use std::time::{Duration, Instant};

use testkit::{Client, Origin, Weir, raw_exchange, wait_until};

use super::{IPV4, binary, connect, gateway, line, seen, tlv};
use crate::support::{builder, everything_to, in_front_of};

/// How many connections were refused by this limit or setting.
pub(super) fn refused(weir: &Weir, limit: &str) -> u64 {
    let text = Client::connect(weir.address("metrics")).get("/metrics").text();
    let name = format!("weir_connections_refused_total{{limit=\"{limit}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

fn wait_for_line(weir: &Weir, parts: &[&str]) {
    let said = || weir.stderr().iter().any(|line| parts.iter().all(|part| line.contains(part)));
    wait_until(&format!("the log says {parts:?}"), said);
}

#[test]
fn connection_without_good_header_is_closed() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, "", &[]);
    let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut wrong_checksum = binary(0x21, 0x11, &[IPV4, &tlv(3, &[1, 2, 3, 4])].concat());
    wrong_checksum.extend_from_slice(request);
    let too_long = binary(0x21, 0x11, &[IPV4, &tlv(0x04, &[0; 4_100])].concat());
    let refusals = [
        &request[..],
        b"POST / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 40000\r\nGET / HTTP/1.1\r\n\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 040 443\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 40 443\n",
        &[&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat(),
        &binary(0x22, 0x11, IPV4),
        &binary(0x21, 0x41, IPV4),
        &binary(0x21, 0x21, IPV4),
        &binary(0x21, 0x11, &[IPV4, &[2, 0, 9, b'a']].concat()),
        &too_long,
        &wrong_checksum,
    ];
    for (number, bytes) in (1..).zip(refusals) {
        assert_eq!(raw_exchange(weir.address("proxy-protocol"), bytes), b"", "{}", bytes.escape_ascii());
        wait_until("it is counted", || refused(&weir, "proxy_protocol") == number);
    }
    assert_eq!(origin.requests().len(), 0);
    wait_for_line(&weir, &["WARN", "the connection begins with no PROXY protocol header", "127.0.0.1"]);
    assert_eq!(seen(&weir, &origin, &line("192.0.2.7")), "");
}

#[test]
fn header_that_is_cut_is_refused() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, "", &[]);
    let header = binary(0x21, 0x11, IPV4);
    for (number, length) in [1, 12, 13, 16, 27].into_iter().enumerate() {
        let mut client = connect(&weir, &header[..length]);
        client.finish_sending();
        assert!(client.closes_cleanly(), "after {length} bytes");
        wait_until("it is counted", || refused(&weir, "proxy_protocol") == number as u64 + 1);
    }
    // A balancer that looks whether the port is open.
    let mut check = connect(&weir, b"");
    check.finish_sending();
    assert!(check.closes_cleanly());
    assert_eq!((refused(&weir, "proxy_protocol"), origin.requests().len()), (5, 0));
}

#[test]
fn late_header_is_cut_by_the_head_timeout() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, "", &["--head-timeout-ms", "500"]);
    let began = Instant::now();
    let header = binary(0x21, 0x11, IPV4);
    let mut waiting = [connect(&weir, b""), connect(&weir, b"PROXY TCP4 "), connect(&weir, &header[..20])];
    // Further bytes do not extend the time: these would take a minute.
    let mut dripping = connect(&weir, b"PROXY UNKNOWN ");
    dripping.set_read_timeout(Duration::from_millis(50));
    while dripping.try_send(b"x").is_ok() {
        let mut byte = [0];
        if !matches!(std::io::Read::read(dripping.stream(), &mut byte), Err(error) if is_timeout(&error)) {
            break;
        }
    }
    for client in &mut waiting {
        assert!(client.closes_cleanly());
    }
    assert!(began.elapsed() >= Duration::from_millis(400), "none was cut before its time");
    wait_until("they are counted", || refused(&weir, "proxy_protocol") == 4);
    wait_for_line(&weir, &["WARN", "head_timeout_ms"]);
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

#[test]
fn peer_that_is_not_trusted_is_refused() {
    let origin = Origin::answering("ok");
    // The other settings of trust do not count.
    let arguments = ["--real-ip-from", "127.0.0.1", "--trusted-addresses", "127.0.0.1"];
    let resources = everything_to(origin.address(), "");
    let listen = ["--proxy-protocol", "127.0.0.1:0", "--proxy-protocol-from", "192.0.2.0/24,::1"];
    let weir = builder(&resources).arguments(&[&listen[..], &arguments].concat()).start();
    for _ in 0..3 {
        let request = [&line("192.0.2.7")[..], b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
        // The reset may come before the client has made its socket ready.
        if let Ok(mut client) = Client::try_connect(weir.address("proxy-protocol")) {
            let _ = client.try_send(&request);
            assert!(client.closes_cleanly());
        }
    }
    wait_until("they are counted", || refused(&weir, "proxy_protocol_from") == 3);
    wait_for_line(&weir, &["WARN", "proxy_protocol_from does not name their peer", "127.0.0.1"]);
    assert_eq!(origin.requests().len(), 0);
    assert_eq!(weir.get("/").status, 200, "the other listener serves everyone");
}

#[test]
fn header_at_a_plain_listener_is_no_request() {
    let origin = Origin::answering("ok");
    let weir = in_front_of(&origin);
    for header in [line("192.0.2.7"), binary(0x21, 0x11, IPV4)] {
        let request = [&header[..], b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"].concat();
        let answer = String::from_utf8_lossy(&raw_exchange(weir.proxy(), &request)).into_owned();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn connections_are_counted_for_the_client() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, "", &["--max-connections-per-address", "2"]);
    let limit = "max_connections_per_address";
    let serves = |client: &mut Client| client.try_request("GET", "/", &[], b"").is_ok();
    for round in 1..=3 {
        let mut one = [connect(&weir, &line("192.0.2.7")), connect(&weir, &line("192.0.2.7"))];
        // Of one /64, and the same client in another spelling.
        let mut other = [connect(&weir, &line("2001:db8::7")), connect(&weir, &line("2001:db8::8"))];
        assert!(one.iter_mut().chain(&mut other).all(serves), "round {round}");
        for address in ["192.0.2.7", "::ffff:192.0.2.7", "2001:db8::9"] {
            assert!(!serves(&mut connect(&weir, &line(address))), "{address}");
        }
        assert!(serves(&mut connect(&weir, &line("192.0.2.8"))), "another client");
        wait_until("they are counted", || refused(&weir, limit) == 3 * round);
        // Headers that were refused hold no place either.
        for _ in 0..3 {
            assert!(connect(&weir, b"PROXY TCP4 192.0.2.7 x\r\n").closes_cleanly());
        }
        drop((one, other));
        wait_until("no connection is left", || {
            let text = Client::connect(weir.address("metrics")).get("/metrics").text();
            text.contains("apisix_nginx_http_current_connections{state=\"active\"} 0\n")
        });
    }
}

//! Clients that break TLS or do not speak it: what they are told, when they are cut, and that others are
//! served meanwhile.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::{Authority, Client, Origin, TlsClient, WAIT_LIMIT, raw_exchange, wait_until};

use super::{gateway, put_ssl};
use crate::support::memory_of;

/// Alerts, as records: fatal ones of that description.
fn alert(description: u8) -> Vec<u8> {
    vec![21, 3, 3, 0, 2, 2, description]
}

fn record(body: &[u8]) -> Vec<u8> {
    [&[22, 3, 1][..], &u16::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

#[test]
fn plain_http_on_the_tls_port_is_answered_400() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let text = raw_exchange(weir.address("proxy-tls"), b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
    assert!(text.contains("The plain HTTP request was sent to HTTPS port"), "{text}");
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn broken_hellos_get_an_alert_or_a_close() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let endless: Vec<u8> = {
        let mut hello = vec![1, 0, 0xea, 0x60];
        hello.resize(10_000, 0);
        (0..6).flat_map(|_| record(&hello)).collect()
    };
    for (bytes, expected) in [
        (record(&[0xff; 100]), None),
        (record(&[1, 0, 0, 2, 3, 3]), None),
        (vec![22, 3, 1, 0xff, 0xff], None),
        (endless, Some(alert(50))),
        (vec![0x80, 0x2e, 1, 0, 2], Some(Vec::new())),
        (vec![0; 1_000], Some(Vec::new())),
    ] {
        let answer = raw_exchange(weir.address("proxy-tls"), &bytes);
        match expected {
            Some(expected) => assert_eq!(answer, expected),
            // One fatal alert, of whatever description fits.
            None => assert!(answer.len() == 7 && answer[..6] == alert(0)[..6], "{answer:?} to {bytes:?}"),
        }
    }
    let client = TlsClient::new(authority.pem(), "a.example");
    assert_eq!(client.get(weir.address("proxy-tls"), "a.example", "/").unwrap().status(), 200);
    wait_until("the failures are counted", || {
        let metrics = Client::connect(weir.address("metrics")).get("/metrics").text();
        metrics.contains("weir_tls_handshakes_total{result=\"failed\"} 6\n")
    });
}

#[test]
fn slow_handshakes_are_cut_by_the_deadline() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &["--tls-handshake-timeout-ms", "500"]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let address = weir.address("proxy-tls");
    let began = Instant::now();
    let mut sockets: Vec<TcpStream> = (0..20)
        .map(|number| {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
            // Nothing, a part of a record, or a whole one that is a part of a ClientHello.
            let part = [&[][..], &[22, 3, 1], &[22, 3, 1, 0, 6, 1, 0, 1, 0, 3, 3]][number % 3];
            socket.write_all(part).unwrap();
            socket
        })
        .collect();
    let client = TlsClient::new(authority.pem(), "a.example");
    assert_eq!(client.get(address, "a.example", "/").unwrap().status(), 200, "others are served");
    for socket in &mut sockets {
        let mut rest = Vec::new();
        // A close or a reset.
        let _ = socket.read_to_end(&mut rest);
        assert_eq!(rest, b"", "it was told nothing");
    }
    assert!(began.elapsed() >= Duration::from_millis(400), "none was cut before its time");
}

#[test]
fn records_of_one_byte_do_not_extend_the_deadline() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &["--head-timeout-ms", "700"]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let mut client = TlsClient::new(authority.pem(), "a.example").connect(weir.address("proxy-tls"));
    // Each byte is a record of its own, and the head never ends.
    let began = Instant::now();
    let mut is_cut = false;
    for _ in 0..200 {
        if client.try_send(b"G").is_err() {
            is_cut = true;
            break;
        }
        client.stream().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut one = [0];
        // A close, or the answer to the late head.
        let read = client.stream().read(&mut one);
        if read.is_ok_and(|count| count <= 1) {
            is_cut = true;
            break;
        }
    }
    assert!(is_cut, "after {:?}", began.elapsed());
}

#[test]
fn close_without_close_notify_ends_an_idle_connection() {
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let mut client = TlsClient::new(authority.pem(), "a.example").connect(weir.address("proxy-tls"));
    assert_eq!(client.request("GET", "/", &[("Host", "a.example")], b"").status, 200);
    client.stream().shutdown(Shutdown::Both).unwrap();
    wait_until("no connection is left", || {
        let text = Client::connect(weir.address("metrics")).get("/metrics").text();
        text.contains("apisix_nginx_http_current_connections{state=\"active\"} 0\n")
    });
}

/// The design's figure. A process that is built for tests holds no more, because the allocator is the same.
#[test]
fn idle_connection_holds_at_most_20_kib() {
    const CONNECTIONS: u64 = 400;
    let origin = Origin::answering("served");
    let weir = gateway(&origin, &[]);
    let authority = Authority::new("known");
    put_ssl(&weir, "1", &authority.pair(&["a.example"]), json!({"sni": "a.example"}));
    let door = TlsClient::new(authority.pem(), "a.example").door(weir.address("proxy-tls"));
    let open = |count: u64| -> Vec<Client> {
        let one = |_| {
            let mut client = Client::connect(door);
            assert_eq!(client.request("GET", "/", &[("Host", "a.example")], b"").status, 200);
            client
        };
        (0..count).map(one).collect()
    };
    let _warm = open(40);
    let before = memory_of(weir.pid());
    let _idle = open(CONNECTIONS);
    let held = memory_of(weir.pid()).saturating_sub(before) / CONNECTIONS;
    assert!(held <= 20 * 1024, "{held} bytes for a connection");
}

//! Hostile peers of QUIC and HTTP/3: they cost their own connection at most, and other clients are served on.

use std::net::UdpSocket;

use http3::{FieldSink, writer};
use multiplex::RequestTarget;
use testkit::{Origin, TlsClient, wait_until};

use super::client::{H3Client, any_port, quic_config};
use super::{Scene, scene};

/// The first packets of so many clients, taken from the wire: each begins a handshake that nothing follows.
fn first_packets(scene: &Scene, count: usize) -> Vec<Vec<u8>> {
    let relay = any_port();
    let tls = TlsClient::new(scene.authority.pem(), "a.example");
    let address = relay.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut packets: Vec<Vec<u8>> = Vec::new();
    while packets.len() < count {
        runtime.block_on(async {
            let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
            let connecting = endpoint.connect_with(quic_config(&tls), address, "a.example").unwrap();
            // The packet is in the relay's socket once the client's tasks have had their turns.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            drop(connecting);
        });
        let mut room = [0; 2048];
        let length = relay.recv(&mut room).unwrap();
        // Long headers with the type Initial, and of another client than the last one.
        let identifier = |packet: &[u8]| packet[5..14].to_vec();
        let is_new = packets.last().is_none_or(|last| identifier(last) != identifier(&room));
        if room[0] & 0xf0 == 0xc0 && length >= 1200 && is_new {
            packets.push(room[..length].to_vec());
        }
    }
    packets
}

fn is_served(scene: &Scene) {
    assert_eq!(scene.client().get("/").status, 200);
}

#[test]
fn garbage_and_cut_datagrams_are_dropped() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &["--workers", "2"]);
    let packet = first_packets(&scene, 1).remove(0);
    let socket = any_port();
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u8
    };
    for length in (0..1_400).step_by(13) {
        let garbage: Vec<u8> = (0..length).map(|_| random()).collect();
        socket.send_to(&garbage, scene.address()).unwrap();
        socket.send_to(&packet[..packet.len().min(length)], scene.address()).unwrap();
    }
    for place in 0..packet.len().min(200) {
        let mut changed = packet.clone();
        changed[place] ^= random() | 1;
        socket.send_to(&changed, scene.address()).unwrap();
    }
    is_served(&scene);
    assert_eq!(scene.metric("weir_http3_restarts_total"), 0);
}

#[test]
fn handshakes_that_never_finish_are_bounded() {
    let origin = Origin::answering("served");
    let arguments = [
        "--http3-retry-handshakes",
        "20",
        "--http3-max-handshakes",
        "30",
        "--tls-handshake-timeout-ms",
        "2000",
    ];
    let scene = scene(&origin, &arguments);
    let packets = first_packets(&scene, 60);
    let sockets: Vec<UdpSocket> = packets.iter().map(|_| any_port()).collect();
    for (socket, packet) in sockets.iter().zip(&packets) {
        socket.send_to(packet, scene.address()).unwrap();
    }
    wait_until("some of them are told to prove their address", || {
        scene.metric("weir_http3_retries_total") > 0
    });
    assert!(scene.metric("weir_http3_handshakes") <= 30);
    is_served(&scene);
    wait_until("unfinished handshakes time out", || scene.metric("weir_http3_handshakes") == 0);
}

/// The code with which the gateway closes a connection after a client has sent these bytes on a stream of
/// that kind.
fn closed_with(scene: &Scene, is_unidirectional: bool, bytes: &[u8]) -> u64 {
    let tls = TlsClient::new(scene.authority.pem(), "a.example");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let quic =
            endpoint.connect_with(quic_config(&tls), scene.address(), "a.example").unwrap().await.unwrap();
        let mut kept = None;
        if is_unidirectional {
            let mut send = quic.open_uni().await.unwrap();
            let _ = send.write_all(bytes).await;
            kept.replace((Some(send), None));
        } else {
            let (mut send, receive) = quic.open_bi().await.unwrap();
            let _ = send.write_all(bytes).await;
            kept.replace((Some(send), Some(receive)));
        }
        let reason = tokio::time::timeout(std::time::Duration::from_secs(20), quic.closed()).await;
        match reason.expect("the connection is closed") {
            quinn::ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
            other => panic!("{other}"),
        }
    })
}

#[test]
fn broken_rules_close_the_connection_with_their_code() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &[]);
    for (is_unidirectional, bytes, code) in [
        // A control stream that begins with GOAWAY.
        (true, &[0_u8, 7, 1, 0][..], 0x10a),
        // HTTP/2's SETTINGS_MAX_CONCURRENT_STREAMS in SETTINGS.
        (true, &[0, 4, 3, 3, 0x40, 100], 0x109),
        // A push stream of a client.
        (true, &[1, 0], 0x103),
        // An insertion into a table without capacity.
        (true, &[2, 0xc0, 0x00], 0x201),
        // DATA in front of a head.
        (false, &[0, 1, 65], 0x105),
        // A section that refers to the dynamic table.
        (false, &[1, 3, 0x02, 0x00, 0x80], 0x200),
    ] {
        assert_eq!(closed_with(&scene, is_unidirectional, bytes), code, "{bytes:?}");
    }
    is_served(&scene);
}

#[test]
fn malformed_requests_reset_their_stream_only() {
    let origin = Origin::answering("served");
    let format = "logged $request $host $status $weir_cause";
    let scene = scene(&origin, &["--access-log", "stdout", "--access-log-format", format]);
    let tls = TlsClient::new(scene.authority.pem(), "a.example");
    let client = H3Client::connect(scene.address(), &tls).unwrap();
    let target = |authority: &'static [u8]| RequestTarget {
        method: b"POST",
        scheme: "https",
        authority,
        path: b"/",
        query: None,
        protocol: None,
    };
    let head = |fields: &[(&str, &str)]| {
        let mut out = Vec::new();
        let mut writer = writer::request(&mut out, &target(b"a.example"));
        fields.iter().for_each(|(name, value)| writer.field(name, value.as_bytes()));
        writer.finish();
        out
    };
    let mut too_long = head(&[("content-length", "3")]);
    writer::data(&mut too_long, b"more");
    let mut too_short = head(&[("content-length", "30")]);
    writer::data(&mut too_short, b"less");
    for bytes in [
        head(&[("x", "a\r\nInjected: b")]),
        head(&[("x", "a\0b")]),
        head(&[("x y", "a")]),
        head(&[("connection", "close")]),
        head(&[("transfer-encoding", "chunked")]),
        too_long,
        too_short,
    ] {
        let code = client.run(async {
            let (mut send, mut receive) = client.quic.open_bi().await.unwrap();
            send.write_all(&bytes).await.unwrap();
            send.finish().unwrap();
            match receive.read_to_end(10_000).await {
                Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => code.into_inner(),
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(code, 0x10e, "H3_MESSAGE_ERROR");
    }
    assert!(origin.requests().is_empty(), "nothing was forwarded");
    let line = "logged POST / HTTP/3.0 a.example 400 client_bad_request";
    wait_until("each is logged", || scene.weir.stdout().iter().filter(|one| *one == line).count() >= 5);
    let mut client = client;
    assert_eq!(client.get("/").status, 200);
}

#[test]
fn rapid_resets_end_their_connection() {
    let origin = Origin::answering("served");
    let scene = scene(&origin, &[]);
    let client = scene.client();
    let ended = client.run(async {
        for _ in 0..2_000 {
            let Ok((mut send, mut receive)) = client.quic.open_bi().await else { break };
            let _ = send.write_all(&[1]).await;
            let _ = (send.reset(0x10c_u32.into()), receive.stop(0x10c_u32.into()));
        }
        client.quic.closed().await
    });
    match ended {
        quinn::ConnectionError::ApplicationClosed(close) => assert_eq!(close.error_code.into_inner(), 0x107),
        other => panic!("{other}"),
    }
    is_served(&scene);
}

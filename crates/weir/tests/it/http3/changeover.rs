//! HTTP/3 while things change: migration of clients, drain, reload, and upgrades of the binary.

use testkit::{Origin, Signal, TlsClient, Weir, wait_for, wait_until};

use super::client::{H3Client, request};
use super::{of, scene};
use crate::support::{BINARY, lasting_origin};

#[test]
fn migrated_connection_finds_its_worker() {
    let origin = Origin::answering("served");
    let scene = scene(
        &origin,
        &["--workers", "4", "--access-log", "stdout", "--access-log-format", "log $remote_port"],
    );
    let mut client = scene.client();
    assert_eq!(client.get("/").status, 200);
    let first = client.quic.stable_id();
    // The kernel gives datagrams from another port to another worker in three of four cases.
    for _ in 0..8 {
        client.migrate();
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(client.quic.stable_id(), first, "it is one connection");
    assert!(scene.metric("weir_http3_datagrams_passed_total") > 0);
    let lines =
        || scene.weir.stdout().into_iter().filter(|line| line.starts_with("log ")).collect::<Vec<_>>();
    let lines = wait_for("all requests are logged", || Some(lines()).filter(|lines| lines.len() == 9));
    assert!(lines.iter().all(|line| *line == lines[0]), "the address is that of the handshake: {lines:?}");
}

#[test]
fn drain_lets_requests_finish_and_closes_in_order() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = lasting_origin(&asked, &go);
    let mut scene = scene(&origin, &[]);
    let mut client = scene.client();
    let stream = client.start(request("GET", "/slow", &[]));
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            asked.wait();
            scene.weir.terminate();
            let address = scene.weir.proxy();
            wait_until("it accepts no more", || std::net::TcpStream::connect(address).is_err());
            go.set();
        });
        client.finish(stream).unwrap()
    });
    assert!(answer.status == 200 && answer.text().ends_with("done"), "{answer:?}");
    let closed = client.run(async { client.quic.closed().await });
    match closed {
        quinn::ConnectionError::ApplicationClosed(close) => assert_eq!(close.error_code.into_inner(), 0x100),
        other => panic!("{other}"),
    }
    assert!(scene.weir.wait_for_exit().success());
}

#[test]
fn reload_keeps_connections_and_adds_listeners() {
    let origin = Origin::answering("served");
    let weir = Weir::builder(BINARY).settings("proxy_tls_http3: 127.0.0.1:0\n").start();
    let scene = of(weir, &origin);
    let first = scene.address();
    let mut kept = scene.client();
    assert_eq!(kept.get("/").status, 200);
    scene.weir.rewrite_settings("proxy_tls_http3: [127.0.0.1:0, 127.0.0.1:0]\n");
    scene.weir.reload();
    let announced = || {
        let lines = scene.weir.stdout();
        let tls = lines.iter().filter_map(|line| line.strip_prefix("listening proxy-tls-http3 "));
        tls.map(|address| address.parse().unwrap()).collect::<Vec<std::net::SocketAddr>>()
    };
    let second = wait_for("another listener is announced", || announced().get(1).copied());
    let tls = TlsClient::new(scene.authority.pem(), "a.example");
    assert_eq!(H3Client::connect(second, &tls).unwrap().get("/").status, 200);
    assert_eq!(kept.get("/").status, 200);
    scene.weir.rewrite_settings(&format!("proxy_tls_http3: {first}\n"));
    scene.weir.reload();
    let line = format!("closed proxy-tls-http3 {second}");
    wait_until("the listener is closed", || scene.weir.stdout().contains(&line));
    wait_until("its port is free", || std::net::UdpSocket::bind(second).is_ok());
    assert_eq!(kept.get("/").status, 200);
}

#[test]
fn binary_upgrade_keeps_live_connections() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = lasting_origin(&asked, &go);
    let weir = Weir::builder(BINARY)
        .settings("proxy_tls_http3: 127.0.0.1:0\nworkers: 2\n")
        .arguments(&["--upgrade-grace", "30"])
        .start();
    let scene = of(weir, &origin);
    let mut client = scene.client();
    let stream = client.start(request("GET", "/slow", &[]));
    // The request is answered by the old process, to which the new one passes its datagrams.
    let (answer, heir) = std::thread::scope(|scope| {
        let upgrading = scope.spawn(|| {
            asked.wait();
            scene.weir.upgrade();
            let heir = scene.weir.wait_for_successor(scene.weir.pid());
            go.set();
            heir
        });
        (client.finish(stream).unwrap(), upgrading.join().unwrap())
    });
    assert!(answer.status == 200 && answer.text().ends_with("done"), "{answer:?}");
    // The new one serves new clients, with a ticket of the old one if they have one.
    let mut fresh = scene.client();
    assert_eq!(fresh.get("/").status, 200);
    heir.terminate();
    heir.wait_until_gone();
}

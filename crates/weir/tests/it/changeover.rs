//! The time after an upgrade in which the old process still serves its connections: which connections go on
//! and for how long, and which configuration answers its last requests.

use serde_json::json;
use testkit::{Client, Origin, Reply, Signal, Step, Weir, wait_until};

use crate::support::TUNNEL;

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

fn gateway(arguments: &[&str]) -> Weir {
    Weir::builder(BINARY).arguments(arguments).start()
}

fn route_to(weir: &Weir, origin: &Origin) {
    let upstream = json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", json!({"uri": "/*", "enable_websocket": true, "upstream": upstream}));
}

/// An origin with an echoing tunnel, and with a response that sends its second half after `go`.
fn origin(go: &Signal) -> Origin {
    let go = go.clone();
    Origin::start(move |request| {
        if request.header("upgrade").is_some() {
            let consent =
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
            return Reply::raw(consent.as_bytes()).then(Step::Echo).close();
        }
        let first = Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
        first.wait(&go).send("done")
    })
}

fn echoes(tunnel: &mut Client) {
    tunnel.send(b"still here");
    assert_eq!(tunnel.read_bytes(10), b"still here");
}

#[test]
fn tunnel_and_download_outlive_an_upgrade() {
    let go = Signal::new();
    let origin = origin(&go);
    // A grace of 0 would end connections at TERM at once; an upgrade must not use it.
    let mut weir = gateway(&["--grace", "0"]);
    route_to(&weir, &origin);
    let (mut tunnel, mut download) = (weir.client(), weir.client());
    assert_eq!(tunnel.request("GET", "/chat", &TUNNEL, b"").status, 101);
    download.send(b"GET /download HTTP/1.1\r\nHost: h\r\n\r\n");
    origin.wait_for_requests(2);
    weir.upgrade();
    let heir = weir.wait_for_successor(weir.pid());
    // The Admin API answers a write only when the old process begins no further request, so kept connections
    // are closed by now.
    route_to(&weir, &origin);
    assert!(weir.is_running(), "the old process serves what is open");
    echoes(&mut tunnel);
    go.set();
    assert_eq!(download.read_response(false).unwrap().text(), "halfdone");
    echoes(&mut tunnel);
    tunnel.finish_sending();
    assert!(tunnel.closes_cleanly());
    drop((tunnel, download));
    assert!(weir.wait_until_gone().success(), "it ends with its last connection");
    heir.terminate();
    heir.wait_until_gone();
}

#[test]
fn old_process_ends_by_term() {
    let check = |grace: &str, terms: usize| {
        let origin = origin(&Signal::new());
        let mut weir = gateway(&["--grace", grace]);
        route_to(&weir, &origin);
        let mut tunnel = weir.client();
        assert_eq!(tunnel.request("GET", "/chat", &TUNNEL, b"").status, 101);
        weir.upgrade();
        let _heir = weir.wait_for_successor(weir.pid());
        let said = |weir: &Weir, text: &str| weir.stderr().iter().any(|line| line.contains(text));
        wait_until("the old process has handed over", || said(&weir, "another process serves"));
        for term in 1..=terms {
            weir.terminate();
            if term < terms {
                wait_until("the signal is obeyed", || said(&weir, "told to end"));
                echoes(&mut tunnel);
            }
        }
        assert!(weir.wait_until_gone().success());
        assert!(tunnel.read_to_end().is_empty());
    };
    check("0", 1);
    check("300", 2);
}

#[test]
fn acknowledged_write_holds_for_kept_connections() {
    let (before, after) = (Origin::answering("before"), Origin::answering("after"));
    let weir = gateway(&["--workers", "2"]);
    route_to(&weir, &before);
    let mut kept: Vec<Client> = (0..40).map(|_| weir.client()).collect();
    assert!(kept.iter_mut().all(|client| client.get("/").text() == "before"));
    weir.upgrade();
    let _heir = weir.wait_for_successor(weir.pid());
    route_to(&weir, &after);
    for client in &mut kept {
        // The old process has closed most connections by now; a response must come from the new
        // configuration.
        if let Ok(response) = client.try_request("GET", "/", &[], b"") {
            assert_eq!(response.text(), "after");
        }
    }
    assert_eq!(weir.get("/").text(), "after");
}

#[test]
fn writes_wait_for_every_old_process() {
    let (before, after) = (Origin::answering("before"), Origin::answering("after"));
    let weir = gateway(&[]);
    route_to(&weir, &before);
    let mut kept: Vec<Client> = vec![weir.client()];
    assert_eq!(kept[0].get("/").text(), "before");
    weir.upgrade();
    let first = weir.wait_for_successor(weir.pid());
    wait_until("the first successor obeys signals", || {
        weir.stdout().iter().filter(|line| *line == "ready").count() == 2
    });
    kept.push(weir.client());
    assert_eq!(kept[1].get("/").text(), "before");
    first.upgrade();
    let _second = weir.wait_for_successor(first.pid());
    route_to(&weir, &after);
    for client in &mut kept {
        if let Ok(response) = client.try_request("GET", "/", &[], b"") {
            assert_eq!(response.text(), "after");
        }
    }
}

#[test]
fn old_process_follows_the_resources_file() {
    let (before, after) = (Origin::answering("before"), Origin::answering("after"));
    let to = |origin: &Origin| crate::support::everything_to(origin.address(), "");
    let weir = Weir::builder(BINARY).resources(&to(&before)).start();
    let mut kept: Vec<Client> = (0..40).map(|_| weir.client()).collect();
    assert!(kept.iter_mut().all(|client| client.get("/").text() == "before"));
    weir.upgrade();
    wait_until("the old process has handed over", || {
        weir.stderr().iter().any(|line| line.contains("another process serves"))
    });
    weir.rewrite_resources(&to(&after));
    // The file is checked each second, and the last of these connections is told to close after ten seconds.
    wait_until("a kept connection is answered by the new file", || {
        kept.iter_mut().any(|client| {
            client.try_request("GET", "/", &[], b"").is_ok_and(|response| response.text() == "after")
        })
    });
}

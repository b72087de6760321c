//! Shutdown: the effect of TERM, a second TERM and INT on idle and busy connections, and on the exit code.

use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::{Client, Origin, Reply, Signal, Step, Weir, wait_until};

use crate::support::{builder, in_front_of, in_front_of_with, route, upstream};

/// An origin that answers after `go`, and the signal that it sets when it gets a request.
fn waiting_origin(go: &Signal) -> (Origin, Signal) {
    let (asked, go) = (Signal::new(), go.clone());
    let origin = Origin::start({
        let asked = asked.clone();
        move |_| {
            let reply = Reply::new().then(Step::Set(asked.clone())).wait(&go);
            reply.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
        }
    });
    (origin, asked)
}

fn refuses_connections(weir: &Weir) {
    let address = weir.proxy();
    wait_until("new connections are refused", || TcpStream::connect(address).is_err());
}

#[test]
fn term_lets_open_requests_finish() {
    let go = Signal::new();
    let (origin, asked) = waiting_origin(&go);
    let mut weir = in_front_of(&origin);
    let mut idle = weir.client();
    let mut busy = weir.client();
    busy.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(asked.wait());
    weir.terminate();
    assert!(idle.closes_cleanly(), "an idle connection ends");
    refuses_connections(&weir);
    assert!(weir.is_running(), "one request is under way");
    go.set();
    let response = busy.read_response(false).unwrap();
    assert_eq!((response.text(), response.header("connection")), ("done".to_owned(), Some("close")));
    assert!(busy.closes_cleanly());
    drop(busy);
    assert_eq!(weir.wait_for_exit().code(), Some(0));
}

#[test]
fn an_idle_node_ends_at_once() {
    let origin = Origin::answering("");
    let mut weir = in_front_of(&origin);
    let mut client = weir.client();
    assert_eq!(client.get("/").status, 200);
    weir.terminate();
    assert!(client.closes_cleanly());
    assert_eq!(weir.wait_for_exit().code(), Some(0));
    origin.wait_for_closed(1);
}

#[test]
fn term_answers_connections_that_sent_nothing_yet() {
    const CLIENTS: usize = 50;
    let origin = Origin::answering("served");
    let mut weir = builder(&route("uri: /*", &upstream(&[origin.address()], "")))
        .arguments(&["--workers", "2", "--grace", "300"])
        .start();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| weir.client()).collect();
    weir.terminate();
    refuses_connections(&weir);
    for client in &mut clients {
        let response = client.get("/");
        assert_eq!((&*response.text(), response.header("connection")), ("served", Some("close")));
        assert!(client.closes_cleanly());
    }
    drop(clients);
    assert_eq!(weir.wait_for_exit().code(), Some(0));
}

#[test]
fn term_loses_no_connection_the_kernel_accepted() {
    const THREADS: usize = 6;
    let origin = Origin::answering("served");
    let resources = route("uri: /*", &upstream(&[origin.address()], ""));
    for _ in 0..3 {
        let mut weir = builder(&resources).arguments(&["--workers", "2", "--grace", "300"]).start();
        let address = weir.proxy();
        let served = Arc::new(AtomicUsize::new(0));
        let callers: Vec<_> = (0..THREADS)
            .map(|_| {
                let served = served.clone();
                std::thread::spawn(move || {
                    let mut lost = 0;
                    // Until the address refuses connections.
                    while let Ok(mut client) = Client::try_connect(address) {
                        match client.try_request("GET", "/", &[], b"") {
                            Ok(response) if response.status == 200 => served.fetch_add(1, Ordering::Relaxed),
                            _ => {
                                lost += 1;
                                0
                            }
                        };
                    }
                    lost
                })
            })
            .collect();
        wait_until("requests are served", || served.load(Ordering::Relaxed) > 100);
        weir.terminate();
        let lost: usize = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        assert_eq!(lost, 0, "of {} connections", served.load(Ordering::Relaxed) + lost);
        assert_eq!(weir.wait_for_exit().code(), Some(0));
    }
}

#[test]
fn an_answer_that_ends_by_closing_is_cut_visibly() {
    let origin = Origin::start(|_| {
        Reply::raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            .then(Step::AwaitClose)
    });
    let mut weir = in_front_of(&origin);
    let mut client = weir.client();
    client.send(b"GET / HTTP/1.0\r\n\r\n");
    let mut seen = Vec::new();
    while !seen.ends_with(b"abc") {
        seen.extend(client.read_bytes(1));
    }
    weir.interrupt();
    let end = client.stream().read(&mut [0; 1]).unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(weir.wait_for_exit().code(), Some(130));
}

#[test]
fn a_second_term_or_the_end_of_the_grace_cuts() {
    let check = |grace: &str, signals: &[fn(&Weir)], code: i32| {
        let go = Signal::new();
        let (origin, asked) = waiting_origin(&go);
        let mut weir = in_front_of_with(&origin, &["--grace", grace]);
        let mut busy = weir.client();
        busy.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(asked.wait());
        for (number, signal) in signals.iter().enumerate() {
            if number > 0 {
                refuses_connections(&weir);
            }
            signal(&weir);
        }
        assert_eq!(weir.wait_for_exit().code(), Some(code), "--grace {grace}");
        assert!(busy.read_response(false).is_err());
        go.set();
    };
    check("300", &[Weir::terminate, Weir::terminate], 0);
    check("300", &[Weir::terminate, Weir::interrupt], 0);
    check("0", &[Weir::terminate], 0);
    check("300", &[Weir::interrupt], 130);
}

/// An origin's 101 for a WebSocket (RFC 6455 section 1.3).
const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";

#[test]
fn several_workers_drain_together() {
    const EACH: usize = 8;
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |request| match request.path() {
            "/tunnel" => Reply::raw(SWITCHING.as_bytes()).then(Step::Echo).close(),
            "/busy" => Reply::new().wait(&go).send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"),
            _ => Reply::ok("idle"),
        }
    });
    let resources = route("uri: /*, enable_websocket: true", &upstream(&[origin.address()], ""));
    let mut weir = builder(&resources).arguments(&["--workers", "3", "--grace", "300"]).start();
    let connect = |path: &str, fields: &str| {
        let mut client = weir.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes());
        client
    };
    let mut tunnels: Vec<Client> =
        (0..EACH).map(|_| connect("/tunnel", "Connection: Upgrade\r\nUpgrade: websocket\r\n")).collect();
    let mut idle: Vec<Client> = (0..EACH).map(|_| connect("/idle", "")).collect();
    let mut busy: Vec<Client> = (0..EACH).map(|_| connect("/busy", "")).collect();
    assert!(tunnels.iter_mut().all(|tunnel| tunnel.read_response(false).unwrap().status == 101));
    assert!(idle.iter_mut().all(|client| client.read_response(false).unwrap().text() == "idle"));
    origin.wait_for_requests(3 * EACH);

    let ready = || Client::connect(weir.address("status")).get("/status/ready").status;
    assert_eq!(ready(), 200);
    weir.terminate();
    assert!(idle.iter_mut().all(Client::closes_cleanly), "idle connections of every worker end");
    refuses_connections(&weir);
    assert_eq!(ready(), 503, "whoever asks is told to go elsewhere");
    for tunnel in &mut tunnels {
        tunnel.send(b"still here");
        assert_eq!(tunnel.read_bytes(10), b"still here");
    }
    go.set();
    for client in &mut busy {
        let response = client.read_response(false).unwrap();
        assert_eq!((&*response.text(), response.header("connection")), ("done", Some("close")));
        assert!(client.closes_cleanly());
    }
    assert!(weir.is_running(), "tunnels are open");
    for tunnel in &mut tunnels {
        tunnel.finish_sending();
        assert!(tunnel.closes_cleanly(), "both sides have said that they are done");
    }
    drop((tunnels, idle, busy));
    assert_eq!(weir.wait_for_exit().code(), Some(0));
}

//! Connections to origins: pools, stale connections, retries, timeouts, origins that break the protocol, and
//! the shutdown.

mod draining;
mod early_answers;
mod leaving_clients;
mod lenient_responses;
mod lies;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use testkit::{Origin, Reply, Signal, Step};

use crate::support::{everything_to, gateway, in_front_of, route, upstream};

/// An origin that closes a connection without a response at its second request, as if request and close had
/// crossed.
fn serving_once_a_connection() -> Origin {
    let served = std::sync::Mutex::new(std::collections::HashSet::new());
    Origin::start(move |request| {
        let fresh = served.lock().unwrap().insert(request.connection);
        if fresh { Reply::ok("") } else { Reply::new().close() }
    })
}

fn asked_again(origin: &Origin) -> usize {
    origin.requests().iter().filter(|request| request.path() == "/again").count()
}

#[test]
fn a_stale_connection_is_replaced_where_that_is_safe() {
    let check = |method: &str, body: &[u8], status: u16, tries: usize| {
        let origin = serving_once_a_connection();
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        assert_eq!(client.get("/").status, 200);
        assert_eq!(client.request(method, "/again", &[], body).status, status, "{method}");
        assert_eq!(asked_again(&origin), tries, "{method}");
    };
    check("GET", b"", 200, 2);
    check("HEAD", b"", 200, 2);
    check("PUT", b"again", 200, 2);
    check("DELETE", b"", 200, 2);
    check("POST", b"once", 502, 1);
    check("POST", b"", 502, 1);
    check("PATCH", b"once", 502, 1);
}

#[test]
fn a_small_body_behind_its_head_can_be_sent_again() {
    let origin = serving_once_a_connection();
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    assert_eq!(client.get("/").status, 200);
    client.send(b"PUT /again HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
    assert_eq!(client.read_bytes(interim.len()), interim);
    client.send(b"again");
    assert_eq!(client.read_response(false).unwrap().status, 200);
    assert_eq!(asked_again(&origin), 2);
    assert_eq!(origin.last_request().text(), "again");
}

#[test]
fn connections_closed_meanwhile_are_not_used() {
    let origin = Origin::start(|request| Reply::ok(&request.text()));
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    for number in 1..4 {
        assert_eq!(client.request("POST", "/", &[], b"once").text(), "once");
        assert_eq!(origin.connections(), number);
        origin.drop_connections();
        origin.wait_for_closed(number);
    }
}

#[test]
fn stray_bytes_after_a_response_are_dropped() {
    let stray = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray";
    for first in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        let origin = Origin::start(move |request| {
            if request.path() == "/first" {
                Reply::raw(format!("{first}{stray}").as_bytes())
            } else {
                Reply::ok("mine")
            }
        });
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        assert!(client.get("/first").status < 300, "{first:?}");
        assert_eq!(client.get("/second").text(), "mine", "{first:?}");
        assert_eq!(weir.get("/third").text(), "mine", "{first:?}");
        assert_eq!(origin.connections(), 2, "{first:?}");
    }
}

#[test]
fn late_stray_bytes_are_dropped() {
    let go = Signal::new();
    let sent = Signal::new();
    let origin = Origin::start({
        let (go, sent) = (go.clone(), sent.clone());
        move |request| {
            if request.path() == "/first" {
                Reply::ok("ok")
                    .wait(&go)
                    .send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray")
                    .then(Step::Set(sent.clone()))
            } else {
                Reply::ok("mine")
            }
        }
    });
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    assert_eq!(client.get("/first").text(), "ok");
    go.set();
    assert!(sent.wait());
    assert_eq!(client.get("/second").text(), "mine");
}

#[test]
fn bytes_after_edited_response_are_dropped() {
    // The body comes with its head, and a plugin makes more of it than the sockets to the client hold.
    const BYTES: usize = 4_000;
    const TIMES: usize = 4_000;
    let (go, sent) = (Signal::new(), Signal::new());
    let origin = Origin::start({
        let (go, sent) = (go.clone(), sent.clone());
        move |request| match request.path() {
            "/long" => Reply::ok(&"x".repeat(100_000)),
            "/first" => Reply::ok(&"a".repeat(BYTES))
                .wait(&go)
                .send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray")
                .then(Step::Set(sent.clone())),
            _ => Reply::ok("mine"),
        }
    });
    let filter = format!("{{regex: a, replace: {}, scope: global}}", "b".repeat(TIMES));
    let plugins = format!("plugins: {{response-rewrite: {{filters: [{filter}]}}}}");
    let weir = gateway(&route(&format!("uri: /*, {plugins}"), &upstream(&[origin.address()], "")));
    let mut client = weir.client();
    // After a long response, the gateway peeks at the bytes of the next one.
    assert_eq!(client.get("/long").body.len(), 100_000);
    client.send(b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n");
    // Some of the response has arrived, so that the gateway has all that the origin sent.
    client.stream().peek(&mut [0]).unwrap();
    go.set();
    assert!(sent.wait());
    assert_eq!(client.read_response(false).unwrap().body.len(), BYTES * TIMES);
    assert_eq!(client.get("/second").text(), "mine");
    assert_eq!(origin.connections(), 2);
}

#[test]
fn bytes_after_the_last_request_lose_no_response() {
    // Closing a socket with unread bytes sends a reset, which would destroy the response before the client
    // reads it.
    for last in ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"] {
        for more in ["\r\n", last] {
            let go = Signal::new();
            let origin = Origin::start({
                let go = go.clone();
                move |_| Reply::new().wait(&go).send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            });
            let weir = in_front_of(&origin);
            let mut client = weir.client();
            client.send(last.as_bytes());
            origin.wait_for_requests(1);
            client.send(more.as_bytes());
            go.set();
            assert_eq!(client.read_response(false).unwrap().text(), "ok", "{last:?}, then {more:?}");
            assert!(client.surplus().is_empty());
            assert_eq!(client.stream().read(&mut [0]).ok(), Some(0), "{last:?}, then {more:?}: a reset");
            assert_eq!(origin.requests().len(), 1);
        }
    }
}

#[test]
fn pool_keeps_at_most_its_size() {
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |_| Reply::new().wait(&go).send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    });
    let more = "keepalive_pool: {size: 2, idle_timeout: 60, requests: 100}";
    let weir = gateway(&everything_to(origin.address(), more));
    let mut clients: Vec<_> = (0..5).map(|_| weir.client()).collect();
    for client in &mut clients {
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    origin.wait_for_requests(5);
    go.set();
    for client in &mut clients {
        assert_eq!(client.read_response(false).unwrap().status, 200);
    }
    origin.wait_for_closed(3);
    assert_eq!(weir.get("/").status, 200);
    assert_eq!((origin.connections(), origin.closed_connections()), (5, 3));
}

#[test]
fn a_pooled_connection_serves_so_many_requests() {
    let origin = Origin::answering("");
    let weir =
        gateway(&everything_to(origin.address(), "keepalive_pool: {size: 5, idle_timeout: 60, requests: 3}"));
    let mut client = weir.client();
    for _ in 0..7 {
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(origin.connections(), 3);
    let served: Vec<usize> = origin.requests().iter().map(|request| request.connection).collect();
    assert_eq!(served, [0, 0, 0, 1, 1, 1, 2]);
}

#[test]
fn an_idle_pooled_connection_is_closed() {
    let origin = Origin::answering("");
    let weir = gateway(&everything_to(
        origin.address(),
        "keepalive_pool: {size: 5, idle_timeout: 0.1, requests: 100}",
    ));
    assert_eq!(weir.get("/").status, 200);
    origin.wait_for_closed(1);
    assert_eq!(weir.get("/").status, 200);
    assert_eq!(origin.connections(), 2);
}

#[test]
fn another_node_is_tried_when_one_refuses() {
    let origin = Origin::start(|request| Reply::ok(&request.text()));
    let nodes = [Origin::nowhere(), origin.address(), Origin::nowhere()];
    let check = |more: &str, method: &str, bodies: &[&[u8]], want: &[u16]| {
        let weir = gateway(&route("uri: /*", &upstream(&nodes, more)));
        for body in bodies {
            let mut statuses: Vec<u16> =
                (0..3).map(|_| weir.client().request(method, "/", &[], body).status).collect();
            statuses.sort_unstable();
            assert_eq!(statuses, want, "{more:?} {method} {} bytes", body.len());
        }
    };
    let large = vec![b'x'; 1024 * 1024];
    check("", "GET", &[b""], &[200, 200, 200]);
    // Nothing was sent to the node that refused, so that any method is retried, and a body that was not read
    // yet as well.
    check("", "POST", &[b"small", &large], &[200, 200, 200]);
    check("retries: 2", "GET", &[b""], &[200, 200, 200]);
    check("retries: 0", "GET", &[b""], &[200, 502, 502]);
}

#[test]
fn retries_end_at_their_deadline() {
    let stuck = || Origin::start(|_| Reply::new().then(Step::AwaitClose));
    let (one, two, three) = (stuck(), stuck(), stuck());
    let nodes = [one.address(), two.address(), three.address()];
    let more = "timeout: {connect: 1, send: 1, read: 0.15}, retries: 2";
    let tries = || one.requests().len() + two.requests().len() + three.requests().len();
    let weir = gateway(&route("uri: /*", &upstream(&nodes, more)));
    assert_eq!((weir.get("/").status, tries()), (504, 3));
    let weir = gateway(&route("uri: /*", &upstream(&nodes, &format!("{more}, retry_timeout: 0.1"))));
    assert_eq!((weir.get("/").status, tries()), (502, 4));
}

#[test]
fn work_that_may_have_been_done_is_not_done_again() {
    let closing = || Origin::start(|_| Reply::new().close());
    let check = |method: &str, tries: usize| {
        let (one, two) = (closing(), closing());
        let weir = gateway(&route("uri: /*", &upstream(&[one.address(), two.address()], "")));
        assert_eq!(weir.client().request(method, "/", &[], b"work").status, 502, "{method}");
        assert_eq!(one.requests().len() + two.requests().len(), tries, "{method}");
    };
    check("GET", 2);
    check("PUT", 2);
    check("POST", 1);
    check("PATCH", 1);
}

#[test]
fn failures_have_their_statuses() {
    let silent = Origin::start(|_| Reply::new().then(Step::AwaitClose));
    let closing = Origin::start(|_| Reply::new().close());
    let check = |upstream: &str, status: u16, code: &str| {
        let weir = gateway(&route("uri: /*", upstream));
        let mut client = weir.client();
        for _ in 0..2 {
            let response = client.get("/");
            assert_eq!(response.status, status, "{upstream}: {}", response.text());
            assert!(response.text().contains(code), "{upstream}: {}", response.text());
            assert_eq!(response.header("connection"), None, "{upstream}: the client's connection goes on");
        }
    };
    let slow = "timeout: {connect: 0.1, send: 0.1, read: 0.1}";
    check(&upstream(&[Origin::nowhere()], ""), 502, "connect_failed");
    check(&upstream(&[closing.address()], ""), 502, "origin_closed");
    check(&upstream(&[silent.address()], slow), 504, "read_timeout");
    check("{nodes: {'127.0.0.1:1': 0}}", 503, "no_usable_node");
    check("{nodes: {}}", 503, "no_usable_node");
}

/// A node with a full accept queue, so that the kernel answers no further handshake.
struct FullQueue {
    address: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl FullQueue {
    fn new() -> FullQueue {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            waiting.push(stream);
        }
        FullQueue { address, _listener: listener, _waiting: waiting }
    }
}

#[test]
fn a_connection_that_is_not_accepted_times_out() {
    let full = FullQueue::new();
    let address = full.address;
    let weir = gateway(&everything_to(address, "timeout: {connect: 0.1, send: 1, read: 1}"));
    let response = weir.get("/");
    assert_eq!(
        (response.status, response.text().contains("connect_timeout")),
        (504, true),
        "{}",
        response.text()
    );
}

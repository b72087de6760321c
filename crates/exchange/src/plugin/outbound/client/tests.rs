//! The client against scripted peers over real sockets.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use message::{Headers, Method};
use testkit::{Origin, Reply, Signal, Step};

use super::*;
use crate::plugin::outbound::{OutboundPolicy, OutboundTls};
use net::endpoint::KeepAlive;
use net::resolver::{Lookup, LookupAnswer, LookupFuture, Resolver, TtlBounds};
use net::tls::identity::ClientIdentities;

/// Knows one name, `peer.test`, with these addresses.
struct Names(Vec<IpAddr>);

impl Lookup for Names {
    fn lookup(&self, name: &str) -> LookupFuture {
        let addresses = if name == "peer.test" { self.0.clone() } else { Vec::new() };
        Box::pin(async move { Ok(LookupAnswer { addresses, ttl: Duration::from_secs(60), failure: None }) })
    }
}

struct Bench {
    client: HttpClient,
    resolver: Resolver,
    keep_alive: KeepAlive,
    limits: OutboundLimits,
}

impl Bench {
    fn new(addresses: &[&str]) -> Bench {
        let names = Names(addresses.iter().map(|address| address.parse().unwrap()).collect());
        Bench {
            client: HttpClient::default(),
            resolver: Resolver::start(Arc::new(names), TtlBounds::default()).unwrap(),
            keep_alive: KeepAlive::default(),
            limits: OutboundLimits {
                connect_timeout_ms: 10_000,
                total_timeout_ms: 30_000,
                max_body_bytes: 1_000,
            },
        }
    }

    fn destination(&self, uri: &str) -> OutboundDestination {
        let policy = Arc::new(OutboundPolicy::default());
        let destination = OutboundDestination::new(
            uri,
            self.keep_alive,
            &OutboundTls::default(),
            &ClientIdentities::default(),
            &self.resolver,
            policy,
        )
        .unwrap();
        self.resolver.settle();
        destination
    }

    async fn call(&self, method: Method, uri: &str) -> Result<OutboundResponse, OutboundError> {
        let mut headers = Headers::new();
        headers.append("X-Asked", b"yes").unwrap();
        headers.append("Connection", b"close, x-asked").unwrap();
        headers.append("Content-Length", b"7").unwrap();
        let body = if method == Method::Post { "hello" } else { "" };
        let request = OutboundRequest { method, headers, body: body.into() };
        self.client.send(&self.destination(uri), &request, &self.limits).await
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .unwrap();
    runtime.block_on(future)
}

fn uri(address: SocketAddr) -> String {
    format!("http://{address}/in?a=b")
}

#[test]
fn call_sends_request_and_returns_whole_response() {
    let origin = Origin::start(|_| Reply::with(403, &[("X-A", "1"), ("X-A", "2")], b"no"));
    let answer = run(Bench::new(&[]).call(Method::Post, &uri(origin.address()))).unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (403, &b"no"[..]), "a refusal is an answer");
    assert_eq!(answer.headers.get_all("x-a").collect::<Vec<_>>(), [b"1", b"2"]);
    let seen = origin.last_request();
    let line = (seen.method.as_str(), seen.target.as_str(), seen.text());
    assert_eq!(line, ("POST", "/in?a=b", "hello".to_owned()));
    assert_eq!(seen.header("host"), Some(&*origin.address().to_string()));
    assert_eq!(seen.header("content-length"), Some("5"));
    assert_eq!((seen.header("x-asked"), seen.header("connection")), (Some("yes"), None));
    assert!(seen.header("user-agent").unwrap().starts_with("weir/"));

    // An empty body has a length where the method may have a body.
    for (method, length) in [(Method::Put, Some("0")), (Method::Get, None)] {
        run(Bench::new(&[]).call(method, &uri(origin.address()))).unwrap();
        assert_eq!(origin.last_request().header("content-length"), length, "{method:?}");
    }

    let chunked = Origin::start(|_| Reply::chunked(&["he", "llo"], &[("X-Sum", "1")]));
    let answer = run(Bench::new(&[]).call(Method::Get, &uri(chunked.address()))).unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"hello"[..]));
}

#[test]
fn connections_are_kept_within_their_pool() {
    let origin = Origin::answering("ok");
    let mut bench = Bench::new(&[]);
    bench.keep_alive.size = 1;
    let uri = uri(origin.address());
    run(async {
        for _ in 0..3 {
            bench.call(Method::Post, &uri).await.unwrap();
        }
        assert_eq!((origin.connections(), bench.client.idle()), (1, 1), "one after the other share one");
        let (one, other) = tokio::join!(bench.call(Method::Get, &uri), bench.call(Method::Get, &uri));
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(
            (origin.connections(), bench.client.idle()),
            (2, 1),
            "the pool holds no more than its size"
        );
        origin.drop_connections();
        origin.wait_for_closed(2);
        bench.call(Method::Get, &uri).await.unwrap();
        assert_eq!(origin.connections(), 3, "what the peer has closed is not used");
        bench.client.clear();
        assert_eq!(bench.client.idle(), 0);
        origin.wait_for_closed(3);
    });
}

#[test]
fn dead_kept_connection_repeats_only_safe_requests() {
    // Every connection dies at its second request, before a byte of an answer.
    let served = std::sync::Mutex::new(std::collections::HashSet::new());
    let origin = Origin::start(move |request| match served.lock().unwrap().insert(request.connection) {
        true => Reply::ok("first"),
        false => Reply::new().close(),
    });
    let bench = Bench::new(&[]);
    let uri = uri(origin.address());
    run(async {
        bench.call(Method::Get, &uri).await.unwrap();
        bench.call(Method::Get, &uri).await.unwrap();
        assert_eq!(origin.requests().len(), 3, "the second was asked again on a fresh connection");
        let error = bench.call(Method::Post, &uri).await.unwrap_err();
        assert_eq!(error.cause, OutboundCause::Broken);
        assert_eq!(origin.requests().len(), 4, "a POST may have been worked on: it is not repeated");
    });
}

#[test]
fn failures_say_what_where_and_on_whose_side() {
    let check = |origin: &Origin, cause: OutboundCause, word: &str| {
        let uri = uri(origin.address());
        let error = run(Bench::new(&[]).call(Method::Get, &uri)).unwrap_err();
        assert_eq!(error.cause, cause, "{error}");
        let text = error.to_string();
        assert!(text.starts_with(&uri) && text.contains(word) && text.contains("the peer"), "{text}");
    };
    check(
        &Origin::start(|_| Reply::with(200, &[("X-Long", &"x".repeat(100_000))], b"")),
        OutboundCause::BadResponse,
        "head too large",
    );
    check(&Origin::answering(&"x".repeat(1_001)), OutboundCause::BodyTooLarge, "more than 1000 bytes");
    check(
        &Origin::start(|_| Reply::raw(b"SSH-2.0-x\r\n\r\n").close()),
        OutboundCause::BadResponse,
        "no good HTTP",
    );
    check(
        &Origin::start(|_| Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut").close()),
        OutboundCause::Broken,
        "",
    );
    let nowhere = Origin::nowhere();
    let error = run(Bench::new(&[]).call(Method::Get, &uri(nowhere))).unwrap_err();
    assert_eq!(error.cause, OutboundCause::Connect);
    assert!(error.to_string().contains(&format!("cannot connect to {nowhere}")), "{error}");
    let error = run(Bench::new(&[]).call(Method::Get, "http://gone.test/")).unwrap_err();
    assert_eq!((error.cause, error.cause.blame().as_str()), (OutboundCause::NoAddress, "gateway"));
    assert!(error.to_string().contains("gone.test has no address"), "{error}");
    let error = run(Bench::new(&[]).call(Method::Get, "http://169.254.169.254/latest/")).unwrap_err();
    assert_eq!(error.cause, OutboundCause::Forbidden);
    assert!(error.to_string().contains("outbound_allow"), "{error}");
}

#[test]
fn timed_out_or_dropped_call_closes_connection() {
    let never = Signal::new();
    let waiting = never.clone();
    let origin = Origin::start(move |_| Reply::new().wait(&waiting).then(Step::Close));
    let mut bench = Bench::new(&[]);
    bench.limits.total_timeout_ms = 50;
    let uri = uri(origin.address());
    run(async {
        let error = bench.call(Method::Get, &uri).await.unwrap_err();
        assert_eq!(error.cause, OutboundCause::Timeout);
        assert!(error.to_string().contains("within 50 ms"), "{error}");
        assert_eq!(bench.client.idle(), 0);
        bench.limits.total_timeout_ms = 60_000;
        let dropped = within(50, bench.call(Method::Get, &uri)).await;
        assert!(dropped.is_none());
        assert!(bench.client.places.borrow().values().all(|place| place.in_flight == 0));
    });
    never.set();
    origin.wait_for_closed(2);
}

#[test]
fn every_address_of_a_name_is_tried() {
    // Something listens at one address of the name and nothing at the other.
    let origin = Origin::answering("here");
    let bench = Bench::new(&["127.0.0.1", "127.0.0.9"]);
    let uri = format!("http://peer.test:{}/", origin.port());
    run(async {
        for _ in 0..4 {
            assert_eq!(bench.call(Method::Get, &uri).await.unwrap().body, b"here");
        }
    });
    assert_eq!(origin.last_request().header("host"), Some(&*format!("peer.test:{}", origin.port())));
}

#[test]
fn calls_under_way_have_a_limit() {
    let client = HttpClient::default();
    let under_way: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| UnderWay::begin(&client, 1).ok().unwrap()).collect();
    assert!(matches!(UnderWay::begin(&client, 1), Err((OutboundCause::Busy, _))));
    assert!(UnderWay::begin(&client, 2).is_ok(), "another place has its own");
    drop(under_way);
    assert!(UnderWay::begin(&client, 1).is_ok());
}

#[test]
fn odd_answers_of_peers_are_read() {
    let chunks = "2  \r\nok\r\n0\r\n\r\n";
    let table = [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunks, true),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunks, false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n", "ok", false),
        ("HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\n", "ok", false),
        ("HTTP/1.2 200 OK\r\nConnection: close;\r\nContent-Length: 2\r\n\r\n", "ok", false),
        ("HTTP/1.1 200 OK\nA : b\nno colon\nContent-Length: 2\n\n", "ok", false),
        ("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok", true),
    ];
    for (head, body, reused) in table {
        let origin = Origin::start(move |_| Reply::raw(format!("{head}{body}").as_bytes()));
        let bench = Bench::new(&[]);
        run(async {
            for _ in 0..2 {
                let answer = bench.call(Method::Get, &uri(origin.address())).await.unwrap();
                assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]), "{head:?}");
            }
        });
        assert_eq!(origin.connections(), if reused { 1 } else { 2 }, "{head:?}");
    }
    let origin = Origin::start(|_| Reply::raw(b"HTTP/1.1 200 OK\r\n\r\nuntil the close").close());
    let answer = run(Bench::new(&[]).call(Method::Post, &uri(origin.address()))).unwrap();
    assert_eq!(answer.body, b"until the close");
    let origin = Origin::start(|_| Reply::with(204, &[], b""));
    run(Bench::new(&[]).call(Method::Put, &uri(origin.address()))).unwrap();
    assert_eq!(origin.last_request().header("content-length"), Some("0"));
}

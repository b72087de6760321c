//! Counts the cost of requests and clients at the allocator: a plain proxied request allocates nothing once
//! the worker is warm, from the client's socket to the endpoint's and back, and a client that sends its head
//! or its body slowly, or reads its response slowly, holds little memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use exchange::client_address::RealIpOptions;
use exchange::options::AttemptTimeouts;
use exchange::options::ForwardOptions;
use exchange::options::{EngineLimits, Options};
use exchange::plugin::outbound::OutboundPolicy;
use exchange::plugin::services::Services;
use gateway::compile::SnapshotCompiler;
use gateway::engine::{Engine, EngineConfig};
use model::catalog::PluginCatalog;
use model::snapshot::{FaultPolicy, Snapshot, SnapshotChange};
use model::{ObjectKey, ObjectKind, WrittenObject};
use net::listener::{Protocols, WantedListener};
use net::resolver::{Resolver, SystemLookup, TtlBounds};
use serde_json::{Value, json};
use stdx::noting_allocator::NotingAllocator;
use testkit::wait_until;

#[path = "allocations/http2.rs"]
mod http2;
#[path = "allocations/http2_origin.rs"]
mod http2_origin;

/// Allocations of the gateway's threads.
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// Bytes that those threads hold. Memory that passes from one thread to another is counted at neither, so the
/// number may be slightly off.
static HELD_BYTES: AtomicIsize = AtomicIsize::new(0);

/// Whether a thread that begins now belongs to the gateway: set by the test, so that the harness, which began
/// before, is not counted. The threads of clients and endpoints exclude themselves.
static IS_GATEWAY_RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether the next allocation is a violation; its place is then recorded.
static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);
static WITNESS: Mutex<Option<Backtrace>> = Mutex::new(None);

thread_local! {
    /// Whether this thread is counted, decided at its first allocation.
    static IS_COUNTED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Neither allocates nor unwinds, except to record the place of a violation.
fn count(allocations: usize, taken_bytes: usize, given_bytes: usize) {
    let is_counted = IS_COUNTED.get().unwrap_or_else(|| IS_GATEWAY_RUNNING.load(Ordering::SeqCst));
    IS_COUNTED.set(Some(is_counted));
    if is_counted {
        ALLOCATIONS.fetch_add(allocations, Ordering::SeqCst);
        HELD_BYTES.fetch_add(taken_bytes.cast_signed() - given_bytes.cast_signed(), Ordering::SeqCst);
        if allocations > 0 && IS_FORBIDDEN.swap(false, Ordering::SeqCst) {
            IS_COUNTED.set(Some(false));
            *WITNESS.lock().expect("nobody panics with it") = Some(Backtrace::force_capture());
            IS_COUNTED.set(Some(true));
        }
    }
}

/// The allocations that `work` causes in the gateway, and the place of the first.
fn allocations_in(work: impl FnOnce()) -> (usize, String) {
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    IS_FORBIDDEN.store(true, Ordering::SeqCst);
    work();
    IS_FORBIDDEN.store(false, Ordering::SeqCst);
    let witness = WITNESS.lock().unwrap().take();
    (ALLOCATIONS.load(Ordering::SeqCst) - before, witness.map(|place| place.to_string()).unwrap_or_default())
}

/// Asks in windows of [`MEASURED`] requests until one causes no allocation. Pooled buffers and tables of
/// fields grow for a while, because the order of streams decides how many responses a buffer holds and each
/// second brings another `Date`; an allocation that belongs to requests is in every window.
fn assert_allocations_end(request: &str, mut ask: impl FnMut(usize)) {
    for window in 1.. {
        let (allocations, place) = allocations_in(|| ask(MEASURED));
        if allocations == 0 {
            return;
        }
        assert!(
            window < WINDOWS_MAX,
            "{allocations} in window {window} of {MEASURED} requests: {request}\n{place}"
        );
    }
}

#[global_allocator]
static ALLOCATOR: NotingAllocator = NotingAllocator(count);

// One test, so that no other test allocates meanwhile.
#[test]
fn warm_request_allocates_nothing() {
    IS_COUNTED.set(Some(false));
    IS_GATEWAY_RUNNING.store(true, Ordering::SeqCst);
    check_warm_requests();
    http2::check_warm_requests();
    http2_origin::check_warm_requests();
    http2::check_idle_connections();
    check_slow_heads();
    check_slow_bodies();
    check_slow_readers();
}

fn check_warm_requests() {
    let (engine, proxy) = engine_in_front_of(origin());
    let mut client = TcpStream::connect(proxy).unwrap();
    client.set_nodelay(true).unwrap();
    let mut answer = vec![0; 64 * 1024];
    for request in REQUESTS {
        let mut ask = |times: usize| {
            for _ in 0..times {
                exchange(&mut client, request, &mut answer);
            }
        };
        ask(WARM_UP);
        assert!(ALLOCATIONS.load(Ordering::SeqCst) > 0, "the counter counts");
        assert_allocations_end(&String::from_utf8_lossy(request), ask);
    }
    drop(client);
    engine.stop();
}

fn check_slow_heads() {
    // No request reaches the endpoint.
    let (engine, proxy) = engine_in_front_of(([127, 0, 0, 1], 1).into());
    let beginning = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    check_slow_head(proxy, beginning, 4 * KIB, 8 * KIB);
    // The bytes sent are held, and less than as many again beside them.
    check_slow_head(proxy, &[beginning, &[b'a'; 6 * KIB][..]].concat(), 6 * KIB, 12 * KIB);
    engine.stop();
}

/// Opens connections that send `beginning` and then byte after byte. Each must hold at least `least` bytes,
/// because otherwise it was not read at all, and at most `most`.
fn check_slow_head(proxy: SocketAddr, beginning: &[u8], least: usize, most: usize) {
    let mut ready = TcpStream::connect(proxy).unwrap();
    not_found(&mut ready, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let before = HELD_BYTES.load(Ordering::SeqCst);
    let held = || usize::try_from(HELD_BYTES.load(Ordering::SeqCst) - before).unwrap_or(0) / SLOW_CLIENTS;
    let mut slow: Vec<TcpStream> = (0..SLOW_CLIENTS).map(|_| TcpStream::connect(proxy).unwrap()).collect();
    for piece in [beginning, b"a", b"b", b"c"] {
        slow.iter_mut().for_each(|client| client.write_all(piece).unwrap());
        wait_until("all of them were read", || held() >= least);
        assert!(held() <= most, "{} bytes each", held());
    }
    // Once their requests are complete, they are served like any other.
    slow.iter_mut().for_each(|client| not_found(client, b"\r\n\r\n"));
}

fn check_slow_bodies() {
    let (node, arrived) = swallowing_node();
    let (engine, proxy) = engine_in_front_of(node);
    let before = HELD_BYTES.load(Ordering::SeqCst);
    let held = || usize::try_from(HELD_BYTES.load(Ordering::SeqCst) - before).unwrap_or(0) / SLOW_CLIENTS;
    let mut slow: Vec<TcpStream> = (0..SLOW_CLIENTS).map(|_| TcpStream::connect(proxy).unwrap()).collect();
    let head = b"POST /a/in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n\r\n";
    let send = |slow: &mut [TcpStream], piece: &[u8]| {
        slow.iter_mut().for_each(|client| client.write_all(piece).unwrap());
    };
    send(&mut slow, head);
    // Less than the prefix, which waits in the gateway: each client holds an exchange and its bytes, but no
    // buffer; a buffer alone is 32 KiB.
    for _ in 0..2_047 / 23 {
        send(&mut slow, &[b'1'; 23]);
        assert!(held() <= 8 * KIB, "{} bytes each", held());
    }
    // More than an exchange alone, so that the bytes were read.
    wait_until("all of them were read", || held() >= 6 * KIB);
    assert!(held() <= 8 * KIB, "{} bytes each", held());
    assert_eq!(arrived.load(Ordering::SeqCst), 0, "no node is asked yet");
    send(&mut slow, b"2");
    for number in 0..3 {
        wait_until("all bytes arrived", || arrived.load(Ordering::SeqCst) == SLOW_CLIENTS * (2_048 + number));
        // An exchange, an upstream connection, and a small buffer that is kept for reuse, because all clients
        // reached the endpoint at once.
        assert!((KIB..=12 * KIB).contains(&held()), "{} bytes each", held());
        send(&mut slow, b"3");
    }
    drop(slow);
    engine.stop();
}

/// Clients that read their responses a few bytes at a time. Unread bytes stay with the endpoint; the gateway
/// holds no buffer for them.
fn check_slow_readers() {
    let get = "GET /a/large HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let upgrade =
        "GET /tunnel HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let body = [b'x'; 100 * CHUNK_BYTES];
    let whole = [&b"HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n"[..], &body].concat();
    let chunk = [&b"fa0\r\n"[..], &body[..CHUNK_BYTES], b"\r\n"].concat();
    let in_chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let in_chunks = [&in_chunks[..], &chunk.repeat(100), b"0\r\n\r\n"].concat();
    let page = [&b"HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n"[..], &body[..30_000]].concat();
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let stream = [&switch[..], &body].concat();
    let (most, segments) = (8 * KIB, NETWORK_SEGMENT_BYTES);
    check_slow_reader("a length", get, 1, &whole, segments, most);
    check_slow_reader("chunks", get, 1, &in_chunks, segments, most);
    // With these segments the kernel needs far more memory than it sends.
    check_slow_reader("tiny segments", get, 1, &whole, TINY_SEGMENT_BYTES, most);
    check_slow_reader("chunks in tiny segments", get, 1, &in_chunks, TINY_SEGMENT_BYTES, most);
    // Each response fits into one read, and one of the last is not taken. The pipelined requests are held
    // too.
    check_slow_reader("many answers", get, 20, &page, segments, most + 5 * KIB);
    // A message without a declared length.
    check_slow_reader("a tunnel", upgrade, 1, &stream, segments, most + 4 * KIB);
}

/// Clients that send `request` `times` times at once, each answered with `answer`; each client may hold
/// `most` bytes.
fn check_slow_reader(
    name: &str,
    request: &str,
    times: usize,
    answer: &[u8],
    segment_bytes: u32,
    most: usize,
) {
    let (engine, proxy) = engine_in_front_of(answering(answer.to_vec()));
    let before = HELD_BYTES.load(Ordering::SeqCst);
    let held = || usize::try_from(HELD_BYTES.load(Ordering::SeqCst) - before).unwrap_or(0) / SLOW_CLIENTS;
    let mut slow: Vec<TcpStream> = (0..SLOW_CLIENTS).map(|_| slow_reader(proxy, segment_bytes)).collect();
    slow.iter_mut().for_each(|client| client.write_all(request.repeat(times).as_bytes()).unwrap());
    for _ in 0..3 {
        slow.iter_mut().for_each(|client| client.read_exact(&mut [0; 8]).unwrap());
        wait_until(&format!("nobody holds a buffer: {name}"), || (KIB..=most).contains(&held()));
    }
    // Once they read quickly, they are served like any other client.
    let mut piece = vec![0; 64 * KIB];
    for client in &mut slow {
        socket2::SockRef::from(&*client).set_recv_buffer_size(256 * KIB).unwrap();
        let mut missing = times * body_bytes(answer);
        while missing > 0 {
            let count = client.read(&mut piece).unwrap();
            assert!(count > 0, "{name}: closed with {missing} bytes missing");
            missing -= body_bytes(&piece[..count]);
        }
    }
    drop(slow);
    engine.stop();
}

/// Number of body bytes in `answer`.
fn body_bytes(answer: &[u8]) -> usize {
    answer.iter().filter(|byte| **byte == b'x').count()
}

/// A connection with segments of `segment_bytes` and a small receive buffer, so that the kernels hold little
/// of a response.
fn slow_reader(proxy: SocketAddr, segment_bytes: u32) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4 * KIB).unwrap();
    socket.set_tcp_mss(segment_bytes).unwrap();
    socket.connect(&proxy.into()).unwrap();
    socket.into()
}

/// An endpoint that sends `answer` to each request.
fn answering(answer: Vec<u8>) -> SocketAddr {
    let answer = Arc::new(answer);
    node(move |mut stream| {
        let mut request = [0; 4 * KIB];
        while let Ok(count @ 1..) = stream.read(&mut request) {
            assert!(request[..count].ends_with(b"\r\n\r\n"), "a head in one piece");
            stream.write_all(&answer).unwrap();
        }
    })
}

/// An endpoint that never answers, and how many bytes of bodies it has received.
fn swallowing_node() -> (SocketAddr, Arc<AtomicUsize>) {
    let arrived = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&arrived);
    let address = node(move |mut stream| {
        let mut last = [0; 4];
        let mut byte = [0];
        while matches!(stream.read(&mut byte), Ok(1)) {
            if last == *b"\r\n\r\n" {
                count.fetch_add(1, Ordering::SeqCst);
            } else {
                last.rotate_left(1);
                last[3] = byte[0];
            }
        }
    });
    (address, arrived)
}

/// An endpoint that serves each connection in a thread of its own; these threads are not counted.
fn node(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        IS_COUNTED.set(Some(false));
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || {
                IS_COUNTED.set(Some(false));
                serve(stream);
            });
        }
    });
    address
}

fn not_found(client: &mut TcpStream, request: &[u8]) {
    client.write_all(request).unwrap();
    let mut answer = [0; KIB];
    let count = client.read(&mut answer).unwrap();
    assert!(answer[..count].starts_with(b"HTTP/1.1 404 "), "{}", String::from_utf8_lossy(&answer[..count]));
}

/// Sends one request and reads its response, which ends with the body that every response has.
fn exchange(client: &mut TcpStream, request: &[u8], answer: &mut [u8]) {
    client.write_all(request).unwrap();
    let mut length = 0;
    while !answer[..length].ends_with(BODY) {
        let count = client.read(&mut answer[length..]).unwrap();
        assert!(count > 0, "closed after {}", String::from_utf8_lossy(&answer[..length]));
        length += count;
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer[..length]));
}

/// An endpoint that answers every request with the same bytes.
fn origin() -> SocketAddr {
    node(|mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut request = vec![0; 64 * 1024];
        let mut length = 0;
        while let Ok(count @ 1..) = stream.read(&mut request[length..]) {
            length += count;
            // The one request with a body ends in `BODY`, the others end with their head.
            if request[..length].ends_with(b"\r\n\r\n") || request[..length].ends_with(BODY) {
                stream.write_all(RESPONSE).unwrap();
                length = 0;
            }
        }
    })
}

/// One worker with a route to `node` among others.
fn engine_in_front_of(node: SocketAddr) -> (Engine, SocketAddr) {
    engine_with_version(node, "1.1")
}

/// The same, with this version of HTTP to the node.
fn engine_with_version(node: SocketAddr, version: &str) -> (Engine, SocketAddr) {
    // A new upstream connection allocates, so the pool's limit of requests per connection is out of reach.
    let pool = json!({"size": 10, "idle_timeout": 60, "requests": 1_000_000});
    let nodes = json!({node.to_string(): 1});
    let upstream = json!({"nodes": nodes, "keepalive_pool": pool, "http_version": version});
    let mut changes = vec![put(ObjectKind::Upstream, "1", &upstream)];
    changes.push(put(ObjectKind::Route, "all", &json!({"uri": "/a/*", "upstream_id": "1"})));
    let tunnel = json!({"uri": "/tunnel", "upstream_id": "1", "enable_websocket": true});
    changes.push(put(ObjectKind::Route, "tunnel", &tunnel));
    for number in 0..100 {
        let uri = format!("/route/{number}/*");
        changes.push(put(ObjectKind::Route, &number.to_string(), &json!({"uri": uri, "upstream_id": "1"})));
    }
    let catalog = PluginCatalog::new(Vec::new()).unwrap();
    let applied = Snapshot::empty().apply(&catalog, &changes, 1, FaultPolicy::Strict);
    let resolver = Resolver::start(Arc::<SystemLookup>::default(), TtlBounds::default()).unwrap();
    let services = Arc::new(Services::new(resolver, OutboundPolicy::default()));
    let mut compiler =
        SnapshotCompiler::new(&[], router::Mode::default(), AttemptTimeouts::default(), services.clone());
    let (runtime, faults) = compiler.apply(&applied);
    assert_eq!((runtime.revision, faults), (1, Vec::new()));
    let config = EngineConfig {
        options: Arc::new(Options {
            path: router::path::PathOptions::default(),
            real_ip: RealIpOptions::default(),
            forward: ForwardOptions {
                trusted_addresses: Vec::new(),
                via: Some("weir".into()),
                server: Some("weir".into()),
                show_upstream_status: false,
                error_header: false,
                accel_fields: false,
                html_errors: true,
                alt_svc: exchange::options::AltSvc::default(),
            },
            limits: EngineLimits::default(),
            upstream_timeouts: AttemptTimeouts::default(),
            pin: false,
            https_port: 9443,
            mutual_tls_over_http: false,
            http1_only: Vec::new(),
            challenges: None,
        }),
        workers: 1,
        runtime,
        access_log: None,
        session_log: None,
        services,
        quic: net::quic::QuicProcess::first().unwrap(),
    };
    let engine = Engine::start(config).unwrap();
    let proxy = WantedListener { address: ([127, 0, 0, 1], 0).into(), protocols: Protocols::HTTP1 };
    let listening = engine.listen(&[proxy]).unwrap();
    (engine, listening.added[0])
}

fn put(kind: ObjectKind, id: &str, object: &Value) -> SnapshotChange {
    let key = ObjectKey::new(kind, id).unwrap();
    let text = object.to_string().into();
    SnapshotChange {
        key: key.clone(),
        written: Some(WrittenObject { key, text, created_index: 1, modified_index: 1 }),
    }
}

/// A plain request, one with a path and fields that must be rewritten, one with a body.
const REQUESTS: [&[u8]; 3] = [
    b"GET /a/checked-out HTTP/1.1\r\nHost: localhost:9080\r\n\r\n",
    b"GET //a/%63hecked/../out?b=c HTTP/1.1\r\nHost: localhost:9080\r\nUser-Agent: test\r\nAccept: */*\r\n\
      Connection: keep-alive, X-Drop\r\nX-Drop: 1\r\nX-Forwarded-For: 10.0.0.1\r\nCookie: a=b\r\n\r\n",
    b"POST /a/in HTTP/1.1\r\nHost: localhost:9080\r\nContent-Length: 21\r\n\r\nthis is 21 bytes long",
];
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 21\r\nConnection: keep-alive\r\n\r\nthis is 21 bytes long";
const KIB: usize = 1024;
/// Segment size of a network.
const NETWORK_SEGMENT_BYTES: u32 = 1_460;
/// The smallest segment size that Linux accepts.
const TINY_SEGMENT_BYTES: u32 = 88;
/// A piece that is copied behind waiting bytes and is not sent by itself.
const CHUNK_BYTES: usize = 4_000;
/// Enough clients that memory which is held once for all of them does not count.
const SLOW_CLIENTS: usize = 200;
const BODY: &[u8] = b"this is 21 bytes long";
/// Requests until buffers, pools and tables have grown to their size.
const WARM_UP: usize = 200;
/// Requests counted; enough that a growth by doubling would show.
const MEASURED: usize = 2_000;
/// Windows until one has to be without an allocation.
const WINDOWS_MAX: usize = 20;

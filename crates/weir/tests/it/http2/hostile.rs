//! Floods and bombs in raw frames (checks 17 to 26 of the hardening list): the connection that sends them
//! ends, the memory stays flat, and a client beside it is served.

use std::time::{Duration, Instant};

use testkit::{Origin, Reply, Weir, wait_until};

use super::client::Client;
use super::raw::*;
use crate::support::{in_front_of, in_front_of_with, memory_of};

/// The growth of memory that an attack may cause.
const GROWTH_BYTES: u64 = 32 << 20;
/// Makes the frames with a number.
type Frames = dyn Fn(u32) -> Vec<u8>;
/// ENHANCE_YOUR_CALM.
const CALM: u32 = 11;

/// Sends `bytes` of `make` for each number until the connection ends or `most` were sent, and returns the
/// code of its GOAWAY.
fn flood(weir: &Weir, most: u32, make: impl Fn(u32) -> Vec<u8>) -> Option<u32> {
    let before = memory_of(weir.pid());
    let mut neighbour = Client::connect(weir.proxy());
    neighbour.get("/");
    let mut peer = Raw::connect(weir.proxy(), &[]);
    for number in 0..most {
        if peer.try_send(&make(number)).is_err() {
            break;
        }
        if number % 1_000 == 0 {
            let began = Instant::now();
            assert_eq!(neighbour.get("/").status, 200);
            assert!(began.elapsed() < Duration::from_secs(2), "the neighbour waits {:?}", began.elapsed());
        }
    }
    let code = peer.failure();
    assert_eq!(neighbour.get("/").status, 200);
    let after = memory_of(weir.pid());
    assert!(after < before + GROWTH_BYTES, "{before} became {after}");
    code
}

fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &get_block())
}

/// The number of the stream with this place.
fn stream(number: u32) -> u32 {
    2 * number + 1
}

#[test]
fn check_21_rapid_reset_ends_the_connection() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let cancel =
        |number| [get(stream(number)), frame(RST_STREAM, 0, stream(number), &8_u32.to_be_bytes())].concat();
    assert_eq!(flood(&weir, 20_000, cancel), Some(CALM));
    assert!(origin.requests().len() < 1_000, "{} requests reached the node", origin.requests().len());
}

#[test]
fn check_21_faults_that_cause_resets_end_it_too() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let open = |number| frame(HEADERS, END_HEADERS, stream(number), &get_block());
    for (name, fault) in
        [("window update of zero", (WINDOW_UPDATE, 0_u32)), ("window overflow", (WINDOW_UPDATE, 0x7fff_ffff))]
    {
        let make = |number| {
            let (kind, value) = fault;
            [open(number), frame(kind, 0, stream(number), &value.to_be_bytes())].concat()
        };
        assert_eq!(flood(&weir, 20_000, make), Some(CALM), "{name}");
    }
    let malformed = |number| frame(HEADERS, END_HEADERS | END_STREAM, stream(number), &[0x82]);
    assert_eq!(flood(&weir, 20_000, malformed), Some(CALM), "malformed requests");
}

#[test]
fn malformed_requests_are_logged_as_asked() {
    let origin = Origin::answering("served");
    let format = "logged $request|$host|$http_user_agent|$status|$weir_cause";
    let weir = in_front_of_with(&origin, &["--access-log", "stdout", "--access-log-format", format]);
    let mut peer = Raw::connect(weir.proxy(), &[]);
    let agent = literal("user-agent", "curl/8");
    let many: Vec<u8> = (0..101).flat_map(|_| literal("x", "y")).collect();
    let start = |path: &str| {
        [vec![0x82, 0x86], literal(":path", path), literal(":authority", "H"), agent.clone()].concat()
    };
    let cases = [
        (start("/a b"), "GET /a b HTTP/2.0|h|curl/8|400|client_bad_request"),
        (start("/caf\u{e9}"), "GET /caf\\xC3\\xA9 HTTP/2.0|h|curl/8|400|client_bad_request"),
        (
            [start("/c"), literal("connection", "close")].concat(),
            "GET /c HTTP/2.0|h|curl/8|400|client_bad_request",
        ),
        ([start("/many"), many].concat(), "GET /many HTTP/2.0|h|curl/8|431|client_head_too_large"),
        (agent.clone(), "||curl/8|400|client_bad_request"),
    ];
    for (number, (block, expected)) in (0..).zip(cases) {
        peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream(number), &block));
        let line = format!("logged {expected}");
        testkit::wait_until(&line, || weir.stdout().contains(&line));
    }
}

#[test]
fn check_22_continuation_flood_ends_the_connection() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    for payload in [vec![], vec![0], literal("x-a", &"a".repeat(100))] {
        let code = flood(&weir, 50_000, |number| match number {
            0 => frame(HEADERS, END_STREAM, 1, &get_block()),
            _ => frame(CONTINUATION, 0, 1, &payload),
        });
        assert_eq!(code, Some(CALM), "{} bytes each", payload.len());
    }
    assert_eq!(
        flood(&weir, 5, |number| match number {
            0 => frame(HEADERS, END_STREAM, 1, &get_block()),
            _ => frame(CONTINUATION, 0, 1, &vec![0; 16_384]),
        }),
        Some(CALM)
    );
}

#[test]
fn check_23_hpack_bomb_is_refused() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let before = memory_of(weir.pid());
    let mut peer = Raw::connect(weir.proxy(), &[]);
    // One large field in the table, then thousands of references of one byte each, on many streams.
    let large = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'a'; 4_000]].concat();
    peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &[get_block(), large].concat()));
    let bomb = [get_block(), vec![0xbe; 10_000]].concat();
    for number in 1..100 {
        peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream(number), &bomb));
        let head = peer.find(|frame| frame.kind == HEADERS && frame.stream == stream(number)).unwrap();
        assert_ne!(head.payload[0], 0x88, "it is not served");
    }
    let after = memory_of(weir.pid());
    assert!(after < before + GROWTH_BYTES, "{before} became {after}");
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn check_24_floods_of_cheap_frames_end_the_connection() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let ping = |_| frame(PING, 0, 0, &[0; 8]);
    let settings = |_| frame(SETTINGS, 0, 0, &[]);
    let priority = |number| frame(PRIORITY, 0, stream(number), &[0, 0, 0, 0, 1]);
    let window = |_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes());
    let unknown = |_| frame(0x77, 0, 0, &[0; 100]);
    let empty = |number| match number {
        0 => frame(HEADERS, END_HEADERS, 1, &get_block()),
        _ => frame(DATA, 0, 1, &[]),
    };
    let padded = |number| match number {
        0 => frame(HEADERS, END_HEADERS, 1, &get_block()),
        _ => frame(DATA, 8, 1, &[10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    };
    let floods: [(&str, &Frames); 7] = [
        ("PING", &ping),
        ("SETTINGS", &settings),
        ("PRIORITY", &priority),
        ("WINDOW_UPDATE", &window),
        ("unknown frames", &unknown),
        ("empty DATA", &empty),
        ("padding", &padded),
    ];
    for (name, make) in floods {
        assert_eq!(flood(&weir, 50_000, make), Some(CALM), "{name}");
    }
}

#[test]
fn check_25_zero_windows_hold_little_and_end() {
    const STREAMS: u32 = 100;
    let body = "x".repeat(1 << 20);
    let origin = Origin::start(move |_| Reply::ok(&body));
    let weir = in_front_of_with(&origin, &["--client-send-timeout-ms", "2000"]);
    let mut neighbour = Client::connect(weir.proxy());
    assert_eq!(neighbour.get("/").body.len(), 1 << 20);
    let before = memory_of(weir.pid());
    let mut peer = Raw::connect(weir.proxy(), &[(4, 0)]);
    (0..STREAMS).for_each(|number| peer.send(&get(stream(number))));
    origin.wait_for_requests(STREAMS as usize + 1);
    let (mut heads, mut resets, mut held) = (0, 0, 0);
    while resets < STREAMS {
        match peer.next() {
            // A head needs no window. From the last one to the first reset all responses wait.
            Some(frame) if frame.kind == HEADERS => heads += 1,
            Some(frame) if frame.kind == RST_STREAM => resets += 1,
            Some(_) => {}
            None => panic!("the connection ended after {resets} resets"),
        }
        if heads == STREAMS {
            held = memory_of(weir.pid()).saturating_sub(before).max(held);
        }
    }
    assert_eq!(heads, STREAMS);
    assert!(held < u64::from(STREAMS) * (64 << 10), "{held} bytes for {STREAMS} streams");
    assert_eq!(neighbour.get("/").body.len(), 1 << 20);
    wait_until("the connections to the node were closed", || {
        origin.connections() - origin.closed_connections() <= 2
    });
}

#[test]
fn check_24_client_that_reads_nothing_is_cut_off() {
    let origin = Origin::answering("served");
    let weir = in_front_of_with(&origin, &["--client-send-timeout-ms", "1000"]);
    let before = memory_of(weir.pid());
    let mut peer = Raw::connect(weir.proxy(), &[]);
    // Responses to HEAD need no window, so that only the output bounds them.
    let head = [vec![0x86, 0x84], literal(":method", "HEAD"), literal(":authority", "h")].concat();
    let mut sent = 0;
    for number in 0..2_000_000 {
        if peer.try_send(&frame(HEADERS, END_HEADERS | END_STREAM, stream(number), &head)).is_err() {
            break;
        }
        sent = number;
    }
    assert!(sent < 1_999_999, "all requests were taken");
    let after = memory_of(weir.pid());
    assert!(after < before + GROWTH_BYTES, "{before} became {after}");
    assert_eq!(weir.get("/").status, 200);
}

/// The kind and code of the first frame that refuses what `bytes` began; HEADERS where it is answered.
fn verdict(weir: &Weir, bytes: &[u8]) -> (u8, Option<u32>) {
    let mut peer = Raw::connect(weir.proxy(), &[]);
    peer.send(bytes);
    let found = peer.find(|frame| matches!(frame.kind, HEADERS | RST_STREAM | GOAWAY)).expect("a verdict");
    (found.kind, found.code())
}

#[test]
fn check_17_to_20_malformed_requests_are_refused() {
    const PROTOCOL: (u8, Option<u32>) = (RST_STREAM, Some(1));
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let request = |block: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, 1, block);
    let with = |name: &str, value: &str| request(&[get_block(), literal(name, value)].concat());
    for (name, value) in [
        ("x-a", "a\rb"),
        ("x-a", "a\nb"),
        ("x-a", "a\0b"),
        ("x-a", " a"),
        ("x-a", "a "),
        ("x a", "1"),
        ("x:a", "1"),
        ("x\ra", "1"),
        ("", "1"),
        ("X-Upper", "1"),
        ("connection", "close"),
        ("keep-alive", "1"),
        ("proxy-connection", "1"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        (":path", "/again"),
        (":unknown", "1"),
        (":status", "200"),
        ("host", "other"),
        ("content-length", "1"),
        ("content-length", "x"),
    ] {
        assert_eq!(verdict(&weir, &with(name, value)), PROTOCOL, "{name:?}: {value:?}");
    }
    for (name, value) in
        [(":path", "/a b"), (":path", "/a\r\n"), (":path", ""), (":path", "a"), (":path", "/\u{1}")]
    {
        let block = [vec![0x82, 0x86], literal(name, value), literal(":authority", "h")].concat();
        assert_eq!(verdict(&weir, &request(&block)), PROTOCOL, "{name} {value:?}");
    }
    for (name, value) in
        [(":authority", "h\0"), (":authority", "user@h"), (":method", "G T"), (":scheme", "ht tp")]
    {
        let mut parts = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")];
        parts.iter_mut().filter(|part| part.0 == name).for_each(|part| part.1 = value);
        let block: Vec<u8> = parts.iter().flat_map(|(name, value)| literal(name, value)).collect();
        assert_eq!(verdict(&weir, &request(&block)), PROTOCOL, "{name} {value:?}");
    }
    let open = |more: &[u8]| frame(HEADERS, END_HEADERS, 1, &[get_block(), more.to_vec()].concat());
    let short = [open(&literal("content-length", "5")), frame(DATA, END_STREAM, 1, b"1234")].concat();
    assert_eq!(verdict(&weir, &short), PROTOCOL, "less than its length");
    let long = [open(&literal("content-length", "3")), frame(DATA, 0, 1, b"1234")].concat();
    assert_eq!(verdict(&weir, &long), PROTOCOL, "more than its length");
    let trailers = [open(&[]), frame(HEADERS, END_HEADERS, 1, &literal("x-a", "1"))].concat();
    assert_eq!(verdict(&weir, &trailers), PROTOCOL, "check 26: trailers without END_STREAM");
    let whole = origin.requests().iter().filter(|request| request.body_error.is_none()).count();
    assert_eq!(whole, 0, "none of them became a request");
    assert_eq!(verdict(&weir, &with("host", "h")).0, HEADERS);
}

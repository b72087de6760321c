//! Every fault of a peer has the right code at the right level: the connection or one stream. The cases
//! follow the sections of RFC 9113, and cover those that h2spec tries.

use super::wire::*;
use http2::{Config, Connection, ErrorCode};

/// The reaction of the server to an input.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// RST_STREAM on these streams, and the connection lives.
    Stream(Vec<(u32, ErrorCode)>),
    Connection(ErrorCode),
}

use Verdict::Fine;

fn stream(id: u32, code: ErrorCode) -> Verdict {
    Verdict::Stream(vec![(id, code)])
}

fn connection(code: ErrorCode) -> Verdict {
    Verdict::Connection(code)
}

fn verdict(peer: &mut Connection, input: &[u8]) -> Verdict {
    let result = peer.receive(input, 0);
    let frames = sent(peer);
    match result {
        Err(error) => {
            assert_eq!(goaway_code(&frames), Some(error.code));
            assert_eq!(peer.receive(b"more", 0), Err(error), "the connection stays failed");
            Verdict::Connection(error.code)
        }
        Ok(_) if resets(&frames).is_empty() => Fine,
        Ok(_) => Verdict::Stream(resets(&frames)),
    }
}

/// Cases of one section: a server behind its handshake receives the frames.
fn check(cases: &[(&str, &[Vec<u8>], Verdict)]) {
    for (name, input, expected) in cases {
        assert_eq!(&verdict(&mut server(Config::default()), &input.concat()), expected, "{name}");
    }
}

const NO_ERROR: ErrorCode = ErrorCode::NO_ERROR;
const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
const SIZE: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;
const FLOW: ErrorCode = ErrorCode::FLOW_CONTROL_ERROR;
const CLOSED: ErrorCode = ErrorCode::STREAM_CLOSED;
const COMPRESSION: ErrorCode = ErrorCode::COMPRESSION_ERROR;

#[test]
fn preface_and_first_frame() {
    for (input, expected) in [
        (b"GET / HTTP/1.1\r\n".to_vec(), connection(PROTOCOL)),
        ([PREFACE, &frame(PING, 0, 0, &[0; 8])].concat(), connection(PROTOCOL)),
        ([PREFACE, &frame(SETTINGS, ACK, 0, &[])].concat(), connection(PROTOCOL)),
        ([PREFACE, &settings(&[])].concat(), Fine),
    ] {
        assert_eq!(verdict(&mut Connection::server(Config::default()), &input), expected);
    }
    let mut client = Connection::client(Config::default());
    assert_eq!(verdict(&mut client, &frame(PING, 0, 0, &[0; 8])), connection(PROTOCOL));
}

#[test]
fn frames_and_sizes_of_section_4() {
    check(&[
        ("unknown type", &[frame(0x77, 0xFF, 0, b"x")], Fine),
        ("undefined flags", &[frame(PING, 0xFE, 0, &[0; 8])], Fine),
        ("reserved bit", &[frame(PING, 0, 1 << 31, &[0; 8])], Fine),
        ("largest frame", &[post(1), frame(DATA, 0, 1, &[0; 16_384])], Fine),
        ("too large DATA", &[post(1), frame(DATA, 0, 1, &[0; 16_385])], connection(SIZE)),
        ("too large HEADERS", &[frame(HEADERS, 4, 1, &[0; 16_385])], connection(SIZE)),
        ("invalid block", &[frame(HEADERS, END_HEADERS, 1, &[0x80])], connection(COMPRESSION)),
        (
            "PRIORITY inside a block",
            &[frame(HEADERS, 0, 1, &[]), frame(PRIORITY, 0, 1, &[0; 5])],
            connection(PROTOCOL),
        ),
        ("other stream inside a block", &[frame(HEADERS, 0, 1, &[]), get(3)], connection(PROTOCOL)),
        (
            "unknown inside a block",
            &[frame(HEADERS, 0, 1, &[]), frame(0x77, 0, 0, b"")],
            connection(PROTOCOL),
        ),
    ]);
}

#[test]
fn states_of_streams_of_section_5() {
    let data = |stream: u32| frame(DATA, END_STREAM, stream, b"x");
    check(&[
        ("idle: DATA", &[data(1)], connection(PROTOCOL)),
        ("idle: RST_STREAM", &[reset(1, NO_ERROR)], connection(PROTOCOL)),
        ("idle: WINDOW_UPDATE", &[window_update(1, 1)], connection(PROTOCOL)),
        ("idle: CONTINUATION", &[frame(CONTINUATION, END_HEADERS, 1, &block(&GET))], connection(PROTOCOL)),
        ("idle: PRIORITY", &[frame(PRIORITY, 0, 1, &[0; 5])], Fine),
        ("half-closed: DATA", &[get(1), data(1)], stream(1, CLOSED)),
        ("half-closed: HEADERS", &[get(1), get(1)], stream(1, CLOSED)),
        ("half-closed: CONTINUATION", &[get(1), frame(CONTINUATION, 4, 1, &[])], connection(PROTOCOL)),
        ("half-closed: WINDOW_UPDATE", &[get(1), window_update(1, 1)], Fine),
        ("half-closed: PRIORITY", &[get(1), frame(PRIORITY, 0, 1, &[0; 5])], Fine),
        ("half-closed: RST_STREAM", &[get(1), reset(1, NO_ERROR)], Fine),
        ("reset: DATA", &[post(1), reset(1, NO_ERROR), data(1)], stream(1, CLOSED)),
        ("reset: HEADERS", &[post(1), reset(1, NO_ERROR), get(1)], stream(1, CLOSED)),
        (
            "reset: CONTINUATION",
            &[post(1), reset(1, NO_ERROR), frame(CONTINUATION, 4, 1, &[])],
            connection(PROTOCOL),
        ),
        ("reset: RST_STREAM", &[post(1), reset(1, NO_ERROR), reset(1, NO_ERROR)], Fine),
        ("reset: WINDOW_UPDATE", &[post(1), reset(1, NO_ERROR), window_update(1, 1)], Fine),
        ("even identifier", &[get(2)], connection(PROTOCOL)),
        ("identifier below the last", &[get(5), get(3)], connection(PROTOCOL)),
        ("skipped: DATA", &[get(5), data(3)], connection(CLOSED)),
        ("skipped: RST_STREAM", &[get(5), reset(3, NO_ERROR)], connection(PROTOCOL)),
        (
            "self-dependent HEADERS",
            &[frame(HEADERS, 0x25, 1, &[&[0, 0, 0, 1, 0][..], &block(&GET)].concat())],
            stream(1, PROTOCOL),
        ),
        ("self-dependent PRIORITY", &[get(1), frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0])], stream(1, PROTOCOL)),
        ("self-dependent idle PRIORITY", &[frame(PRIORITY, 0, 3, &[0, 0, 0, 3, 0])], connection(PROTOCOL)),
    ]);
}

#[test]
fn closed_streams_are_told_from_reset_ones() {
    let completed = || {
        let mut peer = server(Config::default());
        let key = accepted(&mut peer, &get(1));
        peer.start_response(key, 200).unwrap().finish(true);
        peer.release(key);
        sent(&mut peer);
        peer
    };
    assert_eq!(verdict(&mut completed(), &frame(DATA, 1, 1, b"x")), connection(CLOSED));
    assert_eq!(verdict(&mut completed(), &get(1)), connection(CLOSED));
    assert_eq!(verdict(&mut completed(), &frame(CONTINUATION, 4, 1, &[])), connection(PROTOCOL));
    assert_eq!(verdict(&mut completed(), &reset(1, NO_ERROR)), Fine);
    assert_eq!(verdict(&mut completed(), &window_update(1, 1)), Fine);
    // Frames that were on their way when this side reset the stream are ignored.
    let mut peer = server(Config::default());
    let key = accepted(&mut peer, &post(1));
    peer.reset(key, ErrorCode::CANCEL);
    peer.release(key);
    sent(&mut peer);
    let late = [frame(DATA, 0, 1, b"x"), headers(1, END_STREAM, &[("a", "b")]), reset(1, NO_ERROR)].concat();
    assert_eq!(verdict(&mut peer, &late), Fine);
}

#[test]
fn data_and_headers_of_section_6() {
    let padded = |length: u8, rest: usize| [&[length][..], &vec![0; rest]].concat();
    check(&[
        ("DATA on 0", &[frame(DATA, 0, 0, b"x")], connection(PROTOCOL)),
        ("padded DATA", &[post(1), frame(DATA, PADDED, 1, &padded(3, 3))], Fine),
        ("padding too long", &[post(1), frame(DATA, PADDED, 1, &padded(4, 3))], connection(PROTOCOL)),
        ("padding without length", &[post(1), frame(DATA, PADDED, 1, &[])], connection(SIZE)),
        ("HEADERS on 0", &[get(0)], connection(PROTOCOL)),
        ("HEADERS padding too long", &[frame(HEADERS, PADDED | 4, 1, &padded(9, 3))], connection(PROTOCOL)),
        ("HEADERS without padding length", &[frame(HEADERS, PADDED | 4, 1, &[])], connection(SIZE)),
        ("HEADERS priority cut", &[frame(HEADERS, WITH_PRIORITY | 4, 1, &[0; 4])], connection(SIZE)),
        (
            "HEADERS padded with priority",
            &[frame(HEADERS, 0x2D, 1, &[&[2, 0, 0, 0, 0, 7][..], &block(&GET), &[0, 0]].concat())],
            Fine,
        ),
        ("CONTINUATION alone", &[frame(CONTINUATION, 4, 1, &[])], connection(PROTOCOL)),
        (
            "CONTINUATION on 0",
            &[frame(HEADERS, 0, 1, &[]), frame(CONTINUATION, 4, 0, &[])],
            connection(PROTOCOL),
        ),
        (
            "block in parts",
            &[
                frame(HEADERS, END_STREAM, 1, &block(&GET[..1])),
                frame(CONTINUATION, 0, 1, &block(&GET[1..2])),
                frame(CONTINUATION, 0, 1, &[]),
                frame(CONTINUATION, END_HEADERS, 1, &block(&GET[2..])),
            ],
            Fine,
        ),
        ("PUSH_PROMISE", &[get(1), frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2])], connection(PROTOCOL)),
    ]);
}

#[test]
fn control_frames_of_section_6() {
    check(&[
        ("PRIORITY on 0", &[frame(PRIORITY, 0, 0, &[0; 5])], connection(PROTOCOL)),
        ("PRIORITY size", &[get(1), frame(PRIORITY, 0, 1, &[0; 4])], stream(1, SIZE)),
        ("RST_STREAM on 0", &[reset(0, NO_ERROR)], connection(PROTOCOL)),
        ("RST_STREAM size", &[get(1), frame(RST_STREAM, 0, 1, &[0; 3])], connection(SIZE)),
        ("SETTINGS on a stream", &[frame(SETTINGS, 0, 1, &[])], connection(PROTOCOL)),
        ("SETTINGS size", &[frame(SETTINGS, 0, 0, &[0; 5])], connection(SIZE)),
        ("SETTINGS acknowledgement size", &[frame(SETTINGS, ACK, 0, &[0; 6])], connection(SIZE)),
        ("SETTINGS acknowledgement unasked", &[frame(SETTINGS, ACK, 0, &[])], connection(PROTOCOL)),
        ("ENABLE_PUSH", &[settings(&[(2, 2)])], connection(PROTOCOL)),
        ("INITIAL_WINDOW_SIZE", &[settings(&[(4, 1 << 31)])], connection(FLOW)),
        ("MAX_FRAME_SIZE", &[settings(&[(5, 16_383)])], connection(PROTOCOL)),
        ("MAX_FRAME_SIZE", &[settings(&[(5, 1 << 24)])], connection(PROTOCOL)),
        ("unknown setting", &[settings(&[(0xFF, 1)])], Fine),
        ("PING on a stream", &[frame(PING, 0, 1, &[0; 8])], connection(PROTOCOL)),
        ("PING size", &[frame(PING, 0, 0, &[0; 6])], connection(SIZE)),
        ("PING acknowledgement unasked", &[frame(PING, ACK, 0, &[0; 8])], Fine),
        ("GOAWAY on a stream", &[frame(GOAWAY, 0, 1, &[0; 8])], connection(PROTOCOL)),
        ("GOAWAY size", &[frame(GOAWAY, 0, 0, &[0; 7])], connection(SIZE)),
        ("WINDOW_UPDATE size", &[frame(WINDOW_UPDATE, 0, 0, &[0; 3])], connection(SIZE)),
        ("WINDOW_UPDATE of 0", &[window_update(0, 0)], connection(PROTOCOL)),
        ("WINDOW_UPDATE overflow", &[window_update(0, 0x7FFF_FFFF)], connection(FLOW)),
        ("stream WINDOW_UPDATE of 0", &[get(1), window_update(1, 0)], stream(1, PROTOCOL)),
        ("stream WINDOW_UPDATE overflow", &[get(1), window_update(1, 0x7FFF_FFFF)], stream(1, FLOW)),
        (
            "window overflow by SETTINGS",
            &[get(1), window_update(1, 0x7FFF_0000), settings(&[(4, 0x10_0000)])],
            connection(FLOW),
        ),
        ("PRIORITY_UPDATE on a stream", &[frame(PRIORITY_UPDATE, 0, 1, &[0; 4])], connection(PROTOCOL)),
        ("PRIORITY_UPDATE size", &[frame(PRIORITY_UPDATE, 0, 0, &[0; 3])], connection(SIZE)),
        ("PRIORITY_UPDATE for 0", &[frame(PRIORITY_UPDATE, 0, 0, &[0; 4])], connection(PROTOCOL)),
        ("PRIORITY_UPDATE", &[frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1")], Fine),
    ]);
}

#[test]
fn malformed_requests_of_section_8() {
    let with = |fields: &[(&str, &str)]| headers(1, END_STREAM, &[&GET[..], fields].concat());
    let only = |fields: &[(&str, &str)]| headers(1, END_STREAM, fields);
    let bad = || stream(1, PROTOCOL);
    check(&[
        ("upper case", &[with(&[("A", "b")])], bad()),
        ("unknown pseudo-field", &[only(&[GET[0], GET[1], GET[2], (":test", "x")])], bad()),
        ("pseudo-field of responses", &[only(&[GET[0], GET[1], GET[2], (":status", "200")])], bad()),
        ("pseudo-field behind others", &[only(&[GET[0], GET[1], ("a", "b"), GET[2]])], bad()),
        ("connection", &[with(&[("connection", "keep-alive")])], bad()),
        ("te", &[with(&[("te", "trailers, deflate")])], bad()),
        ("te trailers", &[with(&[("te", "trailers")])], Fine),
        ("empty path", &[only(&[GET[0], GET[1], (":path", "")])], bad()),
        ("no method", &[only(&GET[1..])], bad()),
        ("no scheme", &[only(&[GET[0], GET[2]])], bad()),
        ("no path", &[only(&GET[..2])], bad()),
        ("two methods", &[only(&[GET[0], GET[0], GET[1], GET[2]])], bad()),
        ("two schemes", &[only(&[GET[0], GET[1], GET[1], GET[2]])], bad()),
        ("two paths", &[only(&[GET[0], GET[1], GET[2], GET[2]])], bad()),
        ("line break in a value", &[with(&[("a", "b\r\nc: d")])], bad()),
        ("NUL in a value", &[with(&[("a", "\0")])], bad()),
        ("colon in a name", &[with(&[("a:b", "c")])], bad()),
        ("space around a value", &[with(&[("a", " b")])], bad()),
        ("line break in a path", &[only(&[GET[0], GET[1], (":path", "/\r\n")])], bad()),
        ("Host differs", &[with(&[("host", "x")])], bad()),
        ("length without content", &[with(&[("content-length", "1")])], bad()),
        ("length of zero", &[with(&[("content-length", "0")])], Fine),
    ]);
}

#[test]
fn content_and_trailers_of_section_8() {
    let post = |length: &str| headers(1, 0, &[&POST[..], &[("content-length", length)]].concat());
    let data = |flags: u8, bytes: &[u8]| frame(DATA, flags, 1, bytes);
    let trailers = |flags: u8, fields: &[(&str, &str)]| headers(1, flags, fields);
    let bad = || stream(1, PROTOCOL);
    check(&[
        ("content of the length", &[post("3"), data(0, b"ab"), data(1, b"c")], Fine),
        ("too much", &[post("3"), data(0, b"abcd")], bad()),
        ("too little", &[post("3"), data(1, b"ab")], bad()),
        ("too little before trailers", &[post("3"), data(0, b"ab"), trailers(1, &[("a", "b")])], bad()),
        ("padding does not count", &[post("2"), frame(DATA, PADDED | 1, 1, &[1, b'a', b'b', 0])], Fine),
        ("trailers", &[post("1"), data(0, b"a"), trailers(1, &[("a", "b")])], Fine),
        ("trailers without END_STREAM", &[post("1"), data(0, b"a"), trailers(0, &[("a", "b")])], bad()),
        ("pseudo-field in trailers", &[post("0"), trailers(1, &[(":path", "/")])], bad()),
        ("upper case in trailers", &[post("0"), trailers(1, &[("A", "b")])], bad()),
        ("DATA behind trailers", &[post("0"), trailers(1, &[("a", "b")]), data(0, b"a")], stream(1, CLOSED)),
    ]);
}

#[test]
fn extended_connect_needs_its_setting() {
    let request = headers(
        1,
        0,
        &[
            (":method", "CONNECT"),
            (":scheme", "https"),
            (":path", "/"),
            (":authority", "h"),
            (":protocol", "websocket"),
        ],
    );
    assert_eq!(verdict(&mut server(Config::default()), &request), Fine);
    let without = Config { extended_connect: false, ..Config::default() };
    assert_eq!(verdict(&mut server(without), &request), stream(1, PROTOCOL));
}

#[test]
fn malformed_request_is_no_event() {
    let mut peer = server(Config::default());
    feed(&mut peer, &headers(1, END_STREAM, &[("A", "b")]));
    assert_eq!((events(&mut peer), peer.stream_count()), (vec![], 0));
    // The table of the decoder has followed.
    feed(&mut peer, &[frame(HEADERS, 5, 3, &[0x40, 1, b'x', 1, b'y', 0x82]), get(5)].concat());
    head(&mut peer);
    assert_eq!(resets(&sent(&mut peer)), [(1, PROTOCOL), (3, PROTOCOL)]);
}

//! Tables of response heads: what an origin may not say, and what the accepted ones mean.
#![allow(clippy::unwrap_used)]

use http1::{HeadError, HeadStatus, ResponseFraming, ResponseWire, parse_response};
use message::{HeadLimits, ResponseHead};

/// A head with what it says of its connection.
#[derive(Debug, Clone, Default)]
struct ParsedResponse {
    head: ResponseHead,
    wire: ResponseWire,
}

impl ParsedResponse {
    fn parse(&mut self, input: &[u8], limits: &HeadLimits, to_head: bool) -> Result<HeadStatus, HeadError> {
        parse_response(input, &mut self.head, &mut self.wire, limits, to_head)
    }
}

impl std::ops::Deref for ParsedResponse {
    type Target = ResponseHead;

    fn deref(&self) -> &ResponseHead {
        &self.head
    }
}

fn parse(input: &[u8], request_was_head: bool) -> Result<ParsedResponse, HeadError> {
    let mut head = ParsedResponse::default();
    match head.parse(input, &HeadLimits::default(), request_was_head)? {
        HeadStatus::Complete { head_bytes } => assert_eq!(head_bytes, input.len()),
        HeadStatus::Partial => panic!("incomplete: {}", input.escape_ascii()),
    }
    Ok(head)
}

fn check(start: &str, lines: &str, framing: ResponseFraming, keep_alive: bool) {
    let head = parse(format!("{start}\r\n{lines}\r\n").as_bytes(), false).unwrap();
    assert_eq!((head.wire.framing, head.wire.keep_alive), (framing, keep_alive), "{start} {lines}");
}

#[test]
fn framing_and_persistence() {
    check("HTTP/1.1 200 OK", "Content-Length: 5\r\n", ResponseFraming::Length(5), true);
    check("HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\n", ResponseFraming::Chunked, true);
    check("HTTP/1.1 200 OK", "", ResponseFraming::UntilClose, false);
    check("HTTP/1.1 200", "Content-Length: 0\r\nConnection: close\r\n", ResponseFraming::Length(0), false);
    check("HTTP/1.0 200 OK", "Content-Length: 0\r\n", ResponseFraming::Length(0), false);
    check(
        "HTTP/1.0 200 OK",
        "Content-Length: 0\r\nConnection: keep-alive\r\n",
        ResponseFraming::Length(0),
        true,
    );
    let longest = ResponseFraming::Length(i64::MAX as u64);
    check("HTTP/1.1 200 OK", "Content-Length: 9223372036854775807\r\n", longest, true);
    check("HTTP/1.1 204 No Content", "Content-Length: 5\r\n", ResponseFraming::None, true);
    check("HTTP/1.1 304 Not Modified", "Content-Length: 5\r\n", ResponseFraming::None, true);
    check("HTTP/1.1 304 Not Modified", "Transfer-Encoding: chunked\r\n", ResponseFraming::None, true);
    check("HTTP/1.1 100 Continue", "", ResponseFraming::None, true);
    check("HTTP/1.1 101 Switching", "Connection: upgrade\r\nUpgrade: x\r\n", ResponseFraming::None, false);
    check("HTTP/1.1 999 Odd", "Content-Length: 1\r\n", ResponseFraming::Length(1), true);
    let head = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true).unwrap();
    assert_eq!((head.wire.framing, head.wire.keep_alive), (ResponseFraming::None, true));
}

#[test]
fn parts() {
    let head = parse(b"HTTP/1.1 404 Not  Found\r\nContent-Length: 0\r\n\r\n", false).unwrap();
    assert_eq!((head.status, head.reason_text(), head.is_interim()), (404, &b"Not  Found"[..], false));
    for start in ["HTTP/1.1 200", "HTTP/1.1 200 "] {
        assert_eq!(parse(format!("{start}\r\n\r\n").as_bytes(), false).unwrap().reason_text(), b"");
    }
    let head = parse(b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", false).unwrap();
    assert_eq!((head.upgrade_text(), head.is_interim()), (Some(&b"websocket"[..]), false));
    assert!(parse(b"HTTP/1.1 103 Early Hints\r\n\r\n", false).unwrap().is_interim());
}

#[test]
fn lies_are_refused() {
    for start in [
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 x",
        "HTTP/1.1 000 x",
        "HTTP/1.1 abc OK",
        "HTTP/1.1  200 OK",
        "HTTP/2.0 200 OK",
        "HTTP/1.2 200 OK",
        "http/1.1 200 OK",
        "HTTP/1.1200 OK",
        "200 OK",
        "\r\nHTTP/1.1 200 OK",
        "hello",
        "ICY 200 OK",
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1 200 O\rK",
        "HTTP/1.1 200OK",
        "HTTP/0.9 200 OK",
    ] {
        assert!(
            parse(format!("{start}\r\nContent-Length: 0\r\n\r\n").as_bytes(), false).is_err(),
            "{start:?}"
        );
    }
    let table = [
        ("Content-Length: 1\r\nContent-Length: 1\r\n", HeadError::ContentLengthRepeated),
        ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", HeadError::LengthAndCoding),
        ("Content-Length: 1, 1\r\n", HeadError::ContentLength),
        ("Content-Length: -1\r\n", HeadError::ContentLength),
        ("Transfer-Encoding: gzip\r\n", HeadError::TransferCodingUnknown),
        ("Transfer-Encoding: chunked, chunked\r\n", HeadError::TransferEncoding),
        ("A: b\0\r\n", HeadError::FieldValue),
        ("A: b\r\n c\r\n", HeadError::FieldName),
        ("A : b\r\n", HeadError::FieldName),
        ("A: b\nC: d\r\n", HeadError::LineEnd),
    ];
    for (lines, expected) in table {
        for start in ["HTTP/1.1 200 OK", "HTTP/1.1 304 x"] {
            assert_eq!(
                parse(format!("{start}\r\n{lines}\r\n").as_bytes(), false).err(),
                Some(expected),
                "{lines}"
            );
        }
    }
    let old = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(parse(old, false).err(), Some(HeadError::TransferEncodingVersion));
    let huge = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "a".repeat(2 << 20));
    assert_eq!(parse(huge.as_bytes(), false).err(), Some(HeadError::HeadTooLarge));
}

#[test]
fn what_is_sent_on() {
    let forwarded = |start: &str, lines: &str| {
        let mut out = Vec::new();
        http1::encode::fields(
            &mut out,
            &parse(format!("{start}\r\n{lines}\r\n").as_bytes(), false).unwrap().headers,
        );
        String::from_utf8(out).unwrap()
    };
    let lines = "A: 1\r\nConnection: x, close\r\nX: 2\r\nKeep-Alive: 3\r\nContent-Length: 4\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n";
    let kept = "A: 1\r\nContent-Length: 4\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n";
    assert_eq!(forwarded("HTTP/1.1 200 OK", lines), kept);
    assert_eq!(forwarded("HTTP/1.1 304 x", lines), kept);
    assert_eq!(forwarded("HTTP/1.1 204 x", lines), kept.replace("Content-Length: 4\r\n", ""));
    assert_eq!(forwarded("HTTP/1.1 103 x", lines), kept.replace("Content-Length: 4\r\n", ""));
}

//! A request that is refused is refused for the same reason wherever the network cuts it, and for what comes
//! first of all that is wrong with it.
#![allow(clippy::unwrap_used)]

use http1::{HeadError, HeadStatus, RequestWire, is_still_partial, parse_request};
use message::{HeadLimits, RequestHead};
use proptest::prelude::*;

type Verdict = Result<HeadStatus, HeadError>;

/// Reads growing prefixes with one head; at the end of what comes, with a fresh one.
fn by_one_head(input: &[u8], limits: &HeadLimits, cuts: &[usize]) -> Verdict {
    let (mut head, mut wire) = (RequestHead::new(), RequestWire::default());
    for &cut in cuts.iter().chain([&input.len()]) {
        let verdict = parse_request(&input[..cut], &mut head, &mut wire, limits);
        if verdict != Ok(HeadStatus::Partial) {
            return verdict;
        }
    }
    parse_request(input, &mut RequestHead::new(), &mut RequestWire::default(), limits)
}

/// Reads growing prefixes and keeps no head from one to the next.
fn by_fresh_heads(input: &[u8], limits: &HeadLimits, cuts: &[usize]) -> Verdict {
    let mut scanned_bytes = 0;
    for &cut in cuts.iter().filter(|&&cut| cut > 0) {
        if scanned_bytes == 0 || !is_still_partial(&input[..cut], &mut scanned_bytes, limits) {
            let verdict =
                parse_request(&input[..cut], &mut RequestHead::new(), &mut RequestWire::default(), limits);
            if verdict != Ok(HeadStatus::Partial) {
                return verdict;
            }
            scanned_bytes = cut;
        }
    }
    parse_request(input, &mut RequestHead::new(), &mut RequestWire::default(), limits)
}

/// At once, in two parts of every size, in three of many, and byte by byte, by both readers.
fn assert_refused(input: &[u8], limits: &HeadLimits, expected: HeadError) {
    let mut cuts: Vec<Vec<usize>> = vec![vec![], (0..input.len()).collect()];
    cuts.extend((0..input.len()).map(|cut| vec![cut]));
    cuts.extend(
        (0..input.len()).flat_map(|one| (one..input.len()).step_by(7).map(move |two| vec![one, two])),
    );
    for cuts in cuts {
        for verdict in [by_one_head(input, limits, &cuts), by_fresh_heads(input, limits, &cuts)] {
            assert_eq!(verdict, Err(expected), "{} cut at {cuts:?}", input.escape_ascii());
        }
    }
}

#[test]
fn cut_request_line_has_the_same_fault() {
    use HeadError::{EmptyLines, FieldName, LineEnd, RequestLine, TargetBytes, Version};
    let table: [(&[u8], HeadError); 37] = [
        // A version that exists elsewhere, or could, in a line that is good otherwise.
        (b"GET /a HTTP/2.0\r\n", Version),
        (b"GET /a HTTP/1.2\r\n", Version),
        (b"GET /a HTTP/9.9\r\n", Version),
        (b"PRI * HTTP/2.0\r\n", Version),
        (b"\r\nGET /a HTTP/3.0\r\n", Version),
        (b"GET /a HTTP/2.0\r\nA : \0\r\n", Version),
        // The same version in a line that is malformed: nobody's.
        (b"GET /a\0\0b HTTP/2.1\r\n", RequestLine),
        (b"GET /\0 HTTP/2.0\r\n", RequestLine),
        (b"GET /a\x7f HTTP/2.0\r\n", RequestLine),
        (b"GET /a\xff HTTP/2.0\r\n", RequestLine),
        (b"GET /\xc3\xa9 HTTP/2.0\r\n", TargetBytes),
        (b"GET /a#b HTTP/2.0\r\n", TargetBytes),
        (b"G(T /a HTTP/2.0\r\n", RequestLine),
        (b"G\0T /a HTTP/2.0\r\n", RequestLine),
        (b" GET /a HTTP/2.0\r\n", RequestLine),
        (b"GET  /a HTTP/2.0\r\n", RequestLine),
        (b"GET /a  HTTP/2.0\r\n", RequestLine),
        (b"GET /a b HTTP/2.0\r\n", RequestLine),
        (b"GET /a HTTP/2.0 \r\n", RequestLine),
        (b"GET /a HTTP/2.0 HTTP/1.1\r\n", RequestLine),
        (b"GET /a HTTP/2.00\r\n", RequestLine),
        (b"GET /a HTTP/2.0\n", RequestLine),
        (b"GET /a HTTP/2.0\r\r\n", RequestLine),
        (b"\r\n\r\nGET /a HTTP/2.0\r\n", EmptyLines),
        (b"\nGET /a HTTP/2.0\r\n", EmptyLines),
        // No version at all.
        (b"GET /a HTTP/2\r\n", RequestLine),
        (b"GET /a HTTP/2.\r\n", RequestLine),
        (b"GET /a HTTP/20.0\r\n", RequestLine),
        (b"GET /a HTTP/0.9\r\n", RequestLine),
        (b"GET /a HTTP/1.\r\n", RequestLine),
        (b"GET /a http/2.0\r\n", RequestLine),
        (b"GET /a FTP/2.0\r\n", RequestLine),
        (b"GET /a\r\n", RequestLine),
        (b"GET\r\n", RequestLine),
        // A version that is spoken.
        (b"GET /a HTTP/1.1 \r\n", LineEnd),
        (b"GET /a HTTP/1.10\r\n", LineEnd),
        (b"GET /a HTTP/1.1\r\nA : b\r\n", FieldName),
    ];
    for (line, expected) in table {
        let input = [line, b"Host: h\r\n\r\nGET /"].concat();
        assert_refused(&input, &HeadLimits::default(), expected);
    }
}

#[test]
fn first_of_size_and_syntax_fault_is_reported() {
    use HeadError::{FieldName, HeadTooLarge, LineTooLong, RequestLine, TooManyFields, Version};
    let small = HeadLimits { max_head_bytes: 100, max_line_bytes: 30, max_fields: 2 };
    // A limit on lines that no head can reach.
    let short = HeadLimits { max_head_bytes: 40, max_line_bytes: 60, max_fields: 2 };
    // "GET / HTTP/1.1" has 14 bytes.
    let a = |count: usize| "a".repeat(count);
    let table = [
        (small, format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", a(17)), LineTooLong),
        (small, format!("GET /{} HTTP/1.1\nHost: h\r\n\r\n", a(17)), LineTooLong),
        (small, format!("\r\nGET /{} HTTP/1.1\r\nHost: h\r\n\r\n", a(17)), LineTooLong),
        (small, format!("GET /{} HTTP/2.0\r\nHost: h\r\n\r\n", a(17)), LineTooLong),
        (small, format!("GET /{} HTTP/2.0\r\nHost: h\r\n\r\n", a(16)), Version),
        (small, format!("GET /\0{} HTTP/1.1\r\nHost: h\r\n\r\n", a(60)), RequestLine),
        (small, format!("GET /{}\0 HTTP/1.1\r\nHost: h\r\n\r\n", a(60)), LineTooLong),
        (small, format!("GET /{} HTTP/1.1\r\nA : b\r\n\r\n", a(60)), LineTooLong),
        (small, format!("GET /{} HTTP/1.1\r\nA : {}\r\n\r\n", a(17), a(100)), LineTooLong),
        (small, format!("GET /{} HTTP/1.1\r\nA: {}\r\n\r\n", a(17), a(100)), LineTooLong),
        (small, format!("GET / HTTP/1.1\r\nA : b\r\nB: {}\r\n\r\n", a(100)), FieldName),
        (small, format!("GET / HTTP/1.1\r\nA: {}\r\nB : b\r\n\r\n", a(100)), HeadTooLarge),
        (small, format!("GET / HTTP/1.1\r\nA: {}\r\nB: b\r\n\r\n", a(100)), HeadTooLarge),
        (small, format!("GET / HTTP/1.1\r\nA:\r\nB:\r\nC: c\r\nD:\r\nE: {}\r\n\r\n", a(100)), TooManyFields),
        (small, format!("GET / HTTP/1.1\r\nA: {}", a(100)), HeadTooLarge),
        (small, format!("GET / HTTP/1.1\r\nA : {}", a(100)), FieldName),
        (small, format!("GET / HTTP/2.0\r\nA: {}\r\n\r\n", a(100)), Version),
        (short, format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", a(70)), HeadTooLarge),
        (short, format!("GET /{}\0 HTTP/1.1\r\nHost: h\r\n\r\n", a(70)), HeadTooLarge),
        (short, format!("GET /\0{} HTTP/1.1\r\nHost: h\r\n\r\n", a(70)), RequestLine),
    ];
    for (limits, input, expected) in table {
        assert_refused(input.as_bytes(), &limits, expected);
    }
}

const SOUND: &[u8] =
    b"\r\nPOST /a?b HTTP/1.1\r\nHost: h\r\nConnection: x\r\nX: \r\nContent-Length: 3\r\n\r\nabc";

proptest! {
    #[test]
    fn cut_twice_damaged_request_has_the_same_verdict(
        damage in prop::collection::vec((0..SOUND.len(), any::<u8>()), 1..3),
        cuts in prop::collection::vec(0..SOUND.len(), 0..4),
        max_head_bytes in 20usize..120,
        max_line_bytes in 10usize..40,
        max_fields in 2usize..6,
    ) {
        let limits = HeadLimits { max_head_bytes, max_line_bytes, max_fields };
        let mut input = SOUND.to_vec();
        for (at, byte) in damage {
            input[at] = byte;
        }
        let mut cuts = cuts;
        cuts.sort_unstable();
        let whole = parse_request(&input, &mut RequestHead::new(), &mut RequestWire::default(), &limits);
        prop_assert_eq!(by_one_head(&input, &limits, &cuts), whole);
        prop_assert_eq!(by_fresh_heads(&input, &limits, &cuts), whole);
    }
}

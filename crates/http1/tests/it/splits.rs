//! A head means the same wherever the network cuts it, and survives being encoded and parsed again.
#![allow(clippy::unwrap_used)]

use http1::{
    HeadError, HeadStatus, RequestWire, ResponseWire, encode, is_still_partial, parse_request, parse_response,
};
use message::{HeadLimits, RequestHead, ResponseHead};
use proptest::prelude::*;

/// A head with what it says of its connection.
#[derive(Debug, Clone, Default)]
struct Parsed {
    head: RequestHead,
    wire: RequestWire,
}

impl Parsed {
    fn parse(&mut self, input: &[u8], limits: &HeadLimits) -> Result<HeadStatus, HeadError> {
        parse_request(input, &mut self.head, &mut self.wire, limits)
    }
}

impl std::ops::Deref for Parsed {
    type Target = RequestHead;

    fn deref(&self) -> &RequestHead {
        &self.head
    }
}

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

/// Parses prefixes of growing length, as a reader would; the outcome and the head's readable form.
fn request(input: &[u8], cuts: &[usize]) -> (Result<HeadStatus, HeadError>, String) {
    let mut head = Parsed::default();
    let mut outcome = Ok(HeadStatus::Partial);
    for &cut in cuts.iter().chain([&input.len()]) {
        outcome = head.parse(&input[..cut], &HeadLimits::default());
        if outcome != Ok(HeadStatus::Partial) {
            break;
        }
    }
    let fields: Vec<_> = head
        .headers
        .iter()
        .map(|field| (field.name.to_vec(), field.value.to_vec(), field.hop_by_hop))
        .collect();
    let text = format!(
        "{:?} {:?} {:?} {:?} {:?}",
        head.method_text(),
        head.target_text(),
        head.wire.framing,
        head.wire.keep_alive,
        fields
    );
    (outcome, if matches!(outcome, Ok(HeadStatus::Complete { .. })) { text } else { String::new() })
}

fn response(input: &[u8], cuts: &[usize]) -> (Result<HeadStatus, HeadError>, u16, usize) {
    let mut head = ParsedResponse::default();
    for &cut in cuts {
        let outcome = head.parse(&input[..cut], &HeadLimits::default(), false);
        if outcome != Ok(HeadStatus::Partial) {
            return (outcome, head.status, head.headers.len());
        }
    }
    (head.parse(input, &HeadLimits::default(), false), head.status, head.headers.len())
}

const REQUEST: &[u8] =
    b"\r\nPOST http://h:80/a?b HTTP/1.1\r\nHost: h\r\nConnection: x\r\nX: \r\nContent-Length: 3\r\n\r\nabc";

#[test]
fn one_byte_at_a_time() {
    let each: Vec<usize> = (0..REQUEST.len()).collect();
    let (outcome, text) = request(REQUEST, &each);
    assert_eq!((outcome, text), request(REQUEST, &[]));
    assert_eq!(outcome, Ok(HeadStatus::Complete { head_bytes: REQUEST.len() - 3 }));
    // A reader that drops the head in between knows as well when to parse it again.
    let (mut scanned_bytes, limits) = (1, HeadLimits::default());
    let parsed = (2..=REQUEST.len())
        .find(|&end| !is_still_partial(&REQUEST[..end], &mut scanned_bytes, &limits))
        .unwrap();
    let (outcome, _) = request(&REQUEST[..parsed], &[]);
    assert_eq!(
        outcome,
        Ok(HeadStatus::Complete { head_bytes: REQUEST.len() - 3 }),
        "at the head's last byte"
    );
    let (mut scanned_bytes, endless) = (1, vec![b'a'; limits.max_head_bytes + 1]);
    assert!(!is_still_partial(&endless, &mut scanned_bytes, &limits), "too large is for the parser to say");
    let answer = b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 3\r\n\r\nabc";
    let each: Vec<usize> = (0..answer.len()).collect();
    assert_eq!(response(answer, &each), response(answer, &[]));
}

#[test]
fn a_long_status_line_is_refused_at_once_and_in_parts() {
    // The limit is 8 KiB; "HTTP/1.1 200 " has 13 bytes.
    for (reason_bytes, expected) in [(8 * 1024 - 13, None), (8 * 1024 - 12, Some(HeadError::LineTooLong))] {
        let input = format!("HTTP/1.1 200 {}\r\nContent-Length: 0\r\n\r\n", "a".repeat(reason_bytes));
        let each: Vec<usize> = (0..input.len()).collect();
        assert_eq!(response(input.as_bytes(), &[]).0.err(), expected, "at once");
        assert_eq!(response(input.as_bytes(), &each).0.err(), expected, "byte by byte");
    }
}

#[test]
fn a_large_head_byte_by_byte_is_not_quadratic() {
    // 64 KiB in single bytes: parsing from the start each time would be two billion steps.
    let input = format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "a".repeat(65_000));
    let each: Vec<usize> = (0..input.len()).collect();
    assert_eq!(request(input.as_bytes(), &each).0, Ok(HeadStatus::Complete { head_bytes: input.len() }));
}

fn field_lines() -> impl Strategy<Value = String> {
    prop::collection::vec(("[A-Za-z][A-Za-z0-9-]{0,12}", "[ -~]{0,20}"), 0..8).prop_map(|fields| {
        let framing = ["content-length", "transfer-encoding", "host", "connection", "expect"];
        let free =
            fields.into_iter().filter(|(name, _)| !framing.contains(&name.to_ascii_lowercase().as_str()));
        free.map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    })
}

proptest! {
    #[test]
    fn cuts_do_not_change_a_good_request(
        path in "/[!-\"$-~]{0,20}",
        lines in field_lines(),
        cut in prop::collection::vec(0usize..400, 0..5),
    ) {
        let input = format!("GET {path} HTTP/1.1\r\n{lines}Host: h\r\n\r\n");
        let mut cuts: Vec<usize> = cut.into_iter().map(|cut| cut.min(input.len())).collect();
        cuts.sort_unstable();
        let whole = request(input.as_bytes(), &[]);
        prop_assert_eq!(whole.0, Ok(HeadStatus::Complete { head_bytes: input.len() }));
        prop_assert_eq!(request(input.as_bytes(), &cuts), whole);
    }

    #[test]
    fn cut_damaged_request_has_the_same_verdict(at in 0usize..90, byte in any::<u8>(), cut in 0usize..90) {
        let mut input = REQUEST.to_vec();
        let at = at.min(input.len() - 1);
        input[at] = byte;
        let cut = cut.min(input.len());
        let (whole, parts) = (request(&input, &[]), request(&input, &[cut]));
        // A fault in a head that never ends may go unseen until it ends or is too large; it is never
        // accepted.
        let complete = |outcome| matches!(outcome, Ok(HeadStatus::Complete { .. }));
        prop_assert_eq!(complete(whole.0), complete(parts.0));
        if complete(whole.0) {
            prop_assert_eq!(whole, parts);
        }
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(input in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = request(&input, &[input.len() / 2]);
        let _ = response(&input, &[input.len() / 2]);
    }

    #[test]
    fn what_is_encoded_is_parsed_as_the_same(path in "/[!-\"$->@-~]{0,20}", query in prop::option::of("[!-\"$-~]{0,20}"), lines in field_lines()) {
        let input = format!("POST {path}{} HTTP/1.1\r\n{lines}Host: h\r\nContent-Length: 7\r\n\r\n",
            query.as_deref().map(|query| format!("?{query}")).unwrap_or_default());
        let mut head = Parsed::default();
        head.parse(input.as_bytes(), &HeadLimits::default()).unwrap();
        let mut out = Vec::new();
        encode::request_line(&mut out, head.method_text(), head.path(), head.query());
        encode::fields(&mut out, &head.headers);
        out.extend_from_slice(encode::HEAD_END);
        let mut again = Parsed::default();
        let outcome = again.parse(&out, &HeadLimits::default());
        prop_assert_eq!(outcome, Ok(HeadStatus::Complete { head_bytes: out.len() }));
        prop_assert_eq!((again.path(), again.query(), again.wire.framing), (head.path(), head.query(), head.wire.framing));
        let sent: Vec<_> = head.headers.iter().filter(|field| !field.hop_by_hop).map(|field| (field.name, field.value)).collect();
        let received: Vec<_> = again.headers.iter().map(|field| (field.name, field.value)).collect();
        prop_assert_eq!(sent, received);
    }
}

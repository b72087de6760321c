//! Oracle of the parser of response heads, for any bytes.

use http1::{
    HeadError, HeadStatus, ResponseFraming, ResponseWire, encode, parse_response, parse_upstream_response,
};
use message::{FieldId, HeadLimits, ResponseHead, Version};

use super::naive_head::{self, Framing};
use super::request_head::{LARGE, SMALL};
use super::steering::steering;

/// A head with its facts about the connection.
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

/// The input is three steering bytes and a head. The first switch selects small limits, the second one that
/// the request was HEAD.
pub fn check(data: &[u8]) {
    let Some(steering) = steering(data) else { return };
    let limits = if steering.switches & 1 == 0 { HeadLimits::default() } else { SMALL };
    let to_head = steering.switches & 2 != 0;
    let input = steering.input;
    let mut whole = ParsedResponse::default();
    let verdict = whole.parse(input, &limits, to_head);
    let in_parts = |cuts: &mut dyn Iterator<Item = usize>| in_parts(input, &limits, to_head, cuts);
    let mut cuts = steering.cuts.into_iter().chain([input.len()]);
    for (parts_verdict, parts) in [in_parts(&mut cuts), in_parts(&mut (0..=input.len()))] {
        match verdict {
            // In parts, a fault of an incomplete head may not be noticed yet; the head must not be accepted.
            Err(_) => assert!(!matches!(parts_verdict, Ok(HeadStatus::Complete { .. }))),
            Ok(_) => assert_eq!(parts_verdict, verdict, "the verdict on the parts"),
        }
        assert_same(&parts, &whole, verdict);
    }
    let mut used = ParsedResponse::default();
    used.parse(BEFORE, &limits, false).expect("the response before is good");
    assert_eq!(used.parse(input, &limits, to_head), verdict, "the verdict of a used head");
    assert_same(&used, &whole, verdict);
    read_leniently(input, &limits, to_head, &whole, verdict);
    if let Ok(HeadStatus::Complete { head_bytes }) = verdict {
        assert!(head_bytes <= limits.max_head_bytes && whole.headers.len() <= limits.max_fields);
        accepted(&input[..head_bytes], &whole, to_head);
        encoded(&whole);
    }
}

/// Asserts that the lenient reader agrees with the strict one about each head that this one accepts, that
/// cuts keep its verdict, and that each head which it accepts is written in the strict form.
fn read_leniently(
    input: &[u8],
    limits: &HeadLimits,
    to_head: bool,
    strict: &ParsedResponse,
    verdict: Result<HeadStatus, HeadError>,
) {
    let read = |end: usize, into: &mut ParsedResponse| {
        parse_upstream_response(&input[..end], &mut into.head, &mut into.wire, limits, to_head)
    };
    let mut whole = ParsedResponse::default();
    let lenient = read(input.len(), &mut whole);
    if matches!(verdict, Ok(HeadStatus::Complete { .. })) {
        assert_eq!(lenient, verdict, "the verdict of the lenient reader");
        assert_same(&whole, strict, verdict);
    }
    if matches!(lenient, Ok(HeadStatus::Complete { .. })) {
        encoded(&whole);
        let mut parts = ParsedResponse::default();
        let mut of_parts = Ok(HeadStatus::Partial);
        for end in 0..=input.len() {
            of_parts = read(end, &mut parts);
            if of_parts != Ok(HeadStatus::Partial) {
                break;
            }
        }
        assert_eq!(of_parts, lenient, "the verdict of the lenient reader on the parts");
        assert_same(&parts, &whole, lenient);
    }
}

/// Parses growing prefixes, as a connection does.
fn in_parts(
    input: &[u8],
    limits: &HeadLimits,
    to_head: bool,
    cuts: &mut dyn Iterator<Item = usize>,
) -> (Result<HeadStatus, HeadError>, ParsedResponse) {
    let mut head = ParsedResponse::default();
    let mut verdict = Ok(HeadStatus::Partial);
    for cut in cuts {
        verdict = head.parse(&input[..cut], limits, to_head);
        if verdict != Ok(HeadStatus::Partial) {
            break;
        }
    }
    (verdict, head)
}

/// Asserts that both heads are equal if the head was accepted.
fn assert_same(one: &ParsedResponse, other: &ParsedResponse, verdict: Result<HeadStatus, HeadError>) {
    if !matches!(verdict, Ok(HeadStatus::Complete { .. })) {
        return;
    }
    assert_eq!((one.status, one.reason_text()), (other.status, other.reason_text()));
    assert_eq!(
        (one.version, one.wire.framing, one.wire.keep_alive),
        (other.version, other.wire.framing, other.wire.keep_alive)
    );
    assert_eq!(one.upgrade_text(), other.upgrade_text());
    assert!(one.headers.iter().eq(other.headers.iter()), "the fields");
}

/// Asserts that an accepted head equals the result of the naive reader.
fn accepted(bytes: &[u8], head: &ParsedResponse, to_head: bool) {
    let (start, fields) = naive_head::read(bytes);
    let mut words = start.splitn(3, |byte| *byte == b' ');
    let (version, status) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    assert_eq!(head.version.as_str().as_bytes(), version);
    assert_eq!(head.status.to_string().as_bytes(), status);
    assert!((100..1000).contains(&head.status));
    // A reason phrase that is not ASCII is not forwarded.
    let reason = words.next().filter(|reason| reason.is_ascii()).unwrap_or_default();
    assert_eq!(head.reason_text(), reason);
    let is_1_1 = head.version == Version::Http11;
    let by_fields = naive_head::framing(&fields, is_1_1);
    let bodiless = to_head || matches!(head.status, 100..=199 | 204 | 304);
    let expected = match by_fields {
        _ if bodiless => ResponseFraming::None,
        Framing::Unsaid => ResponseFraming::UntilClose,
        Framing::Length(length) => ResponseFraming::Length(length),
        Framing::Chunked => ResponseFraming::Chunked,
    };
    assert_eq!(head.wire.framing, expected);
    let may_persist = head.status != 101 && expected != ResponseFraming::UntilClose;
    assert_eq!(head.wire.keep_alive, may_persist && naive_head::persists(&fields, is_1_1));
    assert_eq!(head.upgrade_text(), naive_head::upgrade(&fields, is_1_1));
    assert_eq!(head.is_interim(), head.status < 200 && head.status != 101);
    let lengthless = matches!(head.status, 100..=199 | 204);
    let unsent = if lengthless { FieldId::ContentLength } else { FieldId::Other };
    naive_head::assert_fields(&fields, &head.headers, unsent);
}

/// Asserts that an encoded head is parsed to the same head, without its hop-by-hop fields.
fn encoded(head: &ParsedResponse) {
    let mut out = Vec::new();
    encode::status_line(&mut out, head.status, head.reason_text());
    encode::fields(&mut out, &head.headers);
    out.extend_from_slice(encode::HEAD_END);
    let mut again = ParsedResponse::default();
    let verdict = again.parse(&out, &LARGE, false);
    assert_eq!(verdict, Ok(HeadStatus::Complete { head_bytes: out.len() }), "{}", out.escape_ascii());
    assert_eq!((again.status, again.reason_text()), (head.status, head.reason_text()));
    let sent = head.headers.iter().filter(|field| !field.hop_by_hop).map(|field| (field.name, field.value));
    assert!(sent.eq(again.headers.iter().map(|field| (field.name, field.value))), "the fields");
    if let ResponseFraming::Length(length) = head.wire.framing {
        assert_eq!(again.wire.framing, ResponseFraming::Length(length));
    }
}

/// The head before on the same connection.
const BEFORE: &[u8] = b"HTTP/1.1 404 Gone\r\nConnection: x\r\nX: y\r\nContent-Length: 7\r\n\r\n";

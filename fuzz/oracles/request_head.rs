//! Oracle of the parser of request heads, for any bytes.

use http1::{HeadError, HeadStatus, RequestFraming, RequestWire, TargetForm, encode, parse_request};
use message::{FieldId, HeadLimits, RequestHead, Version};

use super::naive_head::{self, Framing};
use super::steering::steering;

/// A head with its facts about the connection.
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

/// The input is three steering bytes and a head. The first switch selects small limits.
pub fn check(data: &[u8]) {
    let Some(steering) = steering(data) else { return };
    let limits = if steering.switches & 1 == 0 { HeadLimits::default() } else { SMALL };
    let input = steering.input;
    let mut whole = Parsed::default();
    let verdict = whole.parse(input, &limits);
    let cuts = steering.cuts.into_iter().chain([input.len()]);
    for (parts_verdict, parts) in [in_parts(input, &limits, cuts), in_parts(input, &limits, 0..=input.len())]
    {
        match verdict {
            // In parts, a fault of an incomplete head may not be noticed yet; a noticed fault must be the
            // same.
            Err(_) if parts_verdict == Ok(HeadStatus::Partial) => {}
            Err(_) => assert_eq!(parts_verdict, verdict, "the refusal of the parts"),
            Ok(_) => assert_eq!(parts_verdict, verdict, "the verdict on the parts"),
        }
        assert_same(&parts, &whole, verdict);
    }
    let mut used = Parsed::default();
    used.parse(BEFORE, &limits).expect("the request before is good");
    assert_eq!(used.parse(input, &limits), verdict, "the verdict of a used head");
    assert_same(&used, &whole, verdict);
    if let Ok(HeadStatus::Complete { head_bytes }) = verdict {
        assert!(head_bytes <= limits.max_head_bytes);
        // Host is not counted.
        let hosts = whole.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(b"host")).count();
        assert!(whole.headers.len() - hosts <= limits.max_fields);
        accepted(&input[..head_bytes], &whole);
        encoded(&whole);
    }
}

/// Parses growing prefixes, as a connection does.
fn in_parts(
    input: &[u8],
    limits: &HeadLimits,
    cuts: impl Iterator<Item = usize>,
) -> (Result<HeadStatus, HeadError>, Parsed) {
    let mut head = Parsed::default();
    let mut verdict = Ok(HeadStatus::Partial);
    for cut in cuts {
        verdict = head.parse(&input[..cut], limits);
        if verdict != Ok(HeadStatus::Partial) {
            break;
        }
    }
    (verdict, head)
}

/// Asserts that both heads are equal if the head was accepted.
fn assert_same(one: &Parsed, other: &Parsed, verdict: Result<HeadStatus, HeadError>) {
    if !matches!(verdict, Ok(HeadStatus::Complete { .. })) {
        return;
    }
    assert_eq!(one.method_text(), other.method_text());
    assert_eq!(one.target_text(), other.target_text());
    assert_eq!((one.method, one.wire.form, one.version), (other.method, other.wire.form, other.version));
    assert_eq!((one.path(), one.query(), one.authority()), (other.path(), other.query(), other.authority()));
    assert_eq!((one.wire.framing, one.wire.keep_alive), (other.wire.framing, other.wire.keep_alive));
    assert_eq!(one.wire.expect_continue, other.wire.expect_continue);
    assert_eq!(one.upgrade_text(), other.upgrade_text());
    assert!(one.headers.iter().eq(other.headers.iter()), "the fields");
}

/// Asserts that an accepted head equals the result of the naive reader.
fn accepted(bytes: &[u8], head: &Parsed) {
    let (start, fields) = naive_head::read(bytes.strip_prefix(b"\r\n").unwrap_or(bytes));
    let words: Vec<&[u8]> = start.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else { panic!("accepted {}", start.escape_ascii()) };
    assert_eq!((head.method_text(), head.target_text()), (method, target));
    assert_eq!(head.version.as_str().as_bytes(), version);
    assert!(message::syntax::is_token(method) && !target.is_empty());
    assert!(target.iter().all(|byte| (0x21..0x7f).contains(byte) && *byte != b'#'));
    let is_1_1 = head.version == Version::Http11;
    let expected = match naive_head::framing(&fields, is_1_1) {
        Framing::Unsaid => RequestFraming::None,
        Framing::Length(length) => RequestFraming::Length(length),
        Framing::Chunked => RequestFraming::Chunked,
    };
    assert_eq!(head.wire.framing, expected);
    assert_eq!(head.wire.keep_alive, naive_head::persists(&fields, is_1_1));
    assert_eq!(head.upgrade_text(), naive_head::upgrade(&fields, is_1_1));
    let hosts = naive_head::values(&fields, "host");
    assert!(hosts.len() == 1 || (hosts.is_empty() && !is_1_1), "{} Host fields", hosts.len());
    let authority = head.authority();
    assert!(authority.is_empty() || message::syntax::is_authority(authority), "{}", authority.escape_ascii());
    if matches!(head.wire.form, TargetForm::Origin | TargetForm::Asterisk) {
        assert_eq!(authority, hosts.first().copied().unwrap_or_default());
    }
    let expectations = naive_head::values(&fields, "expect");
    let awaits = matches!(expectations[..], [value] if value.eq_ignore_ascii_case(b"100-continue"));
    assert_eq!(head.wire.expect_continue, awaits && is_1_1);
    naive_head::assert_fields(&fields, &head.headers, FieldId::Other);
}

/// Asserts that an encoded head is parsed to the same head, without its hop-by-hop fields.
fn encoded(head: &Parsed) {
    let mut out = Vec::new();
    encode::request_line(&mut out, head.method_text(), head.path(), head.query());
    encode::fields(&mut out, &head.headers);
    if head.headers.get("host").is_none() {
        encode::field(&mut out, "Host", head.authority());
    }
    if head.wire.framing == RequestFraming::Chunked {
        encode::field(&mut out, "Transfer-Encoding", b"chunked");
    }
    out.extend_from_slice(encode::HEAD_END);
    let mut again = Parsed::default();
    let verdict = again.parse(&out, &LARGE);
    assert_eq!(verdict, Ok(HeadStatus::Complete { head_bytes: out.len() }), "{}", out.escape_ascii());
    assert_eq!((again.method_text(), again.path()), (head.method_text(), head.path()));
    assert_eq!((again.query(), again.wire.framing), (head.query(), head.wire.framing));
    let sent = head.headers.iter().filter(|field| !field.hop_by_hop).map(|field| (field.name, field.value));
    let received: Vec<_> = again.headers.iter().map(|field| (field.name, field.value)).collect();
    let expected: Vec<_> = sent.collect();
    assert_eq!(received[..expected.len()], expected);
}

/// Small limits, which short inputs reach.
pub const SMALL: HeadLimits = HeadLimits { max_head_bytes: 160, max_line_bytes: 40, max_fields: 6 };
/// Capacity for bytes that encoding adds.
pub const LARGE: HeadLimits = HeadLimits {
    max_head_bytes: 1 << 20,
    max_line_bytes: 1 << 17,
    max_fields: http1::Limits::FIELDS_ON_STACK,
};
/// The head before on the same connection.
const BEFORE: &[u8] =
    b"PUT /p?q HTTP/1.1\r\nHost: before\r\nConnection: x\r\nX: y\r\nContent-Length: 7\r\n\r\n";

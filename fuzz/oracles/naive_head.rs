//! A second, simple reader of HTTP/1 heads: lines, then fields, then their meaning. It is for accepted heads
//! only, so it asserts that a head has no fault.

use message::{FieldId, Headers};

/// A field, its value trimmed.
pub type Field<'a> = (&'a [u8], &'a [u8]);

/// The framing of the body by the header fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No field announces a body.
    Unsaid,
    /// Content-Length.
    Length(u64),
    /// Transfer-Encoding.
    Chunked,
}

/// The start line and the fields of a complete head. Asserts that it ends with an empty line, that lines
/// contain no CR, LF or NUL, and that names are tokens.
pub fn read(head: &[u8]) -> (&[u8], Vec<Field<'_>>) {
    let lines = head.strip_suffix(b"\r\n\r\n").expect("an accepted head ends in an empty line");
    let mut lines = split(lines).into_iter();
    let start = lines.next().expect("splitting gives one line at least");
    clean(start);
    (start, lines.map(field).collect())
}

/// The fields of lines, each of which ends with CRLF.
pub fn fields(lines: &[u8]) -> Vec<Field<'_>> {
    match lines.strip_suffix(b"\r\n") {
        Some(lines) => split(lines).into_iter().map(field).collect(),
        None => {
            assert!(lines.is_empty(), "the last line does not end: {}", lines.escape_ascii());
            Vec::new()
        }
    }
}

/// Asserts that the parsed fields are these, and that only hop-by-hop fields, fields that Connection lists,
/// and the field `unsent` are not forwarded.
pub fn assert_fields(fields: &[Field<'_>], headers: &Headers, unsent: FieldId) {
    let read: Vec<Field<'_>> = headers.iter().map(|field| (field.name, field.value)).collect();
    assert_eq!(read, fields);
    let options = options(fields);
    for field in headers.iter() {
        let named = options.iter().any(|option| option.eq_ignore_ascii_case(field.name));
        let may_stay = field.id.is_hop_by_hop() || named || (field.id == unsent && unsent != FieldId::Other);
        let must_go = KEPT.contains(&field.id) && field.id != unsent;
        assert!(field.hop_by_hop || !field.id.is_hop_by_hop(), "{} is sent on", field.name.escape_ascii());
        assert!(!field.hop_by_hop || may_stay, "{} stays behind", field.name.escape_ascii());
        assert!(!field.hop_by_hop || !must_go, "{} was taken away", field.name.escape_ascii());
    }
}

/// The framing of the body (RFC 9112 section 6.3). Asserts that it is unambiguous.
pub fn framing(fields: &[Field<'_>], is_1_1: bool) -> Framing {
    let lengths = values(fields, "content-length");
    let codings = values(fields, "transfer-encoding");
    assert!(lengths.len() + codings.len() <= 1, "more than one framing: {lengths:?} {codings:?}");
    if let [coding] = codings[..] {
        assert!(is_1_1 && coding.eq_ignore_ascii_case(b"chunked"), "accepted {}", coding.escape_ascii());
        return Framing::Chunked;
    }
    let [length] = lengths[..] else { return Framing::Unsaid };
    assert!(
        !length.is_empty() && length.iter().all(u8::is_ascii_digit),
        "accepted {}",
        length.escape_ascii()
    );
    let digits = std::str::from_utf8(length).expect("digits are text");
    Framing::Length(digits.parse().expect("an accepted length fits 64 bits"))
}

/// Whether the connection persists by the fields (RFC 9112 section 9.3).
pub fn persists(fields: &[Field<'_>], is_1_1: bool) -> bool {
    let lists = |option: &[u8]| options(fields).iter().any(|other| other.eq_ignore_ascii_case(option));
    !lists(b"close") && (is_1_1 || lists(b"keep-alive"))
}

/// The value of the Upgrade field, if Connection lists it and the version has upgrades.
pub fn upgrade<'a>(fields: &[Field<'a>], is_1_1: bool) -> Option<&'a [u8]> {
    let lists = options(fields).iter().any(|option| option.eq_ignore_ascii_case(b"upgrade"));
    let value = values(fields, "upgrade").into_iter().next().filter(|value| !value.is_empty());
    value.filter(|_| lists && is_1_1)
}

/// The elements of all Connection fields.
pub fn options<'a>(fields: &[Field<'a>]) -> Vec<&'a [u8]> {
    let all = values(fields, "connection");
    let elements = all.into_iter().flat_map(|value| value.split(|byte| *byte == b',')).map(trim);
    elements.filter(|element| !element.is_empty()).collect()
}

/// The values of the fields with this name, which is in lower case.
pub fn values<'a>(fields: &[Field<'a>], name: &str) -> Vec<&'a [u8]> {
    let named = fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
    named.map(|(_, value)| *value).collect()
}

/// Text without leading and trailing spaces and tabs.
pub fn trim(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

fn field(line: &[u8]) -> Field<'_> {
    clean(line);
    let colon = line.iter().position(|byte| *byte == b':').expect("an accepted line has a colon");
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    assert!(message::syntax::is_token(name), "the name {} is no token", name.escape_ascii());
    assert!(message::syntax::is_field_value(value), "the value {}", value.escape_ascii());
    (name, value)
}

fn clean(line: &[u8]) {
    assert!(!line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "accepted {}", line.escape_ascii());
}

fn split(mut text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = text.windows(2).position(|pair| pair == b"\r\n") {
        lines.push(&text[..end]);
        text = &text[end + 2..];
    }
    lines.push(text);
    lines
}

/// Fields that a Connection field cannot remove.
const KEPT: [FieldId; 6] = [
    FieldId::Host,
    FieldId::ContentLength,
    FieldId::Cookie,
    FieldId::Authorization,
    FieldId::XForwardedFor,
    FieldId::XRealIp,
];

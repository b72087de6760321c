//! Response heads: parsing and what they say about the body and the connection.
//! It does not know which request they answer beyond "was it HEAD".

use message::{FieldId, HeadLimits, ResponseHead, Span, Version};

use crate::lenient;
use crate::limits::Limits;
use crate::line::{self, FieldSlots};
use crate::semantics::Semantics;
use crate::{HeadError, HeadStatus};

/// How the end of a response's body is known (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResponseFraming {
    /// No body, whatever the fields say: 1xx, 204, 304 and answers to HEAD.
    #[default]
    None,
    /// Content-Length, in bytes; zero is possible.
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// The body ends with the connection, so a broken connection cannot be told from its end.
    UntilClose,
}

/// The facts of a response head about its connection and the message on it, besides the neutral head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseWire {
    /// How the body ends.
    pub framing: ResponseFraming,
    /// The connection may carry another exchange afterwards.
    pub keep_alive: bool,
    pub(crate) scanned: usize,
}

/// As [`parse_response`], for responses of upstreams, which are written anew before they are forwarded: a
/// head that deviates from the grammar in a form that servers in use are known for is read as if it were
/// well-formed, and [`ResponseWire::keep_alive`] is false. The forms: lines that end in a bare LF; a version
/// above 1.1; several blanks behind the version; white space before a colon (RFC 9112 section 5.1) and folded
/// values (section 5.2), which are removed and joined; lines without a colon or with a name that is no token,
/// which are dropped; control characters in values, which become spaces; Connection options with parameters;
/// an empty Content-Length, several equal ones, and one beside `chunked`, which wins (section 6.3);
/// `identity`; `chunked` twice or in HTTP/1.0; any number of fields that `limits` allows. A CR inside a line,
/// NUL, differing lengths and other codings stay errors.
pub fn parse_upstream_response(
    input: &[u8],
    head: &mut ResponseHead,
    wire: &mut ResponseWire,
    limits: &HeadLimits,
    request_was_head: bool,
) -> Result<HeadStatus, HeadError> {
    match parse_response(input, head, wire, limits, request_was_head) {
        Err(error) if !matches!(error, HeadError::HeadTooLarge | HeadError::LineTooLong) => {
            lenient::parse(input, head, wire, limits, request_was_head)
        }
        verdict => verdict,
    }
}

/// Parses the response head at the start of `input`; the rules of calling are those of
/// [`crate::parse_request`]. Every error means that the origin cannot be believed: 502.
pub fn parse_response(
    input: &[u8],
    head: &mut ResponseHead,
    wire: &mut ResponseWire,
    limits: &HeadLimits,
    request_was_head: bool,
) -> Result<HeadStatus, HeadError> {
    if input.first().is_some_and(|&byte| byte != b'H') {
        return Err(HeadError::StatusLine);
    }
    if !line::worth_parsing(input, wire.scanned) {
        wire.scanned = line::check_partial_head(input, limits)?;
        return Ok(HeadStatus::Partial);
    }
    let (mut stack, mut heap): (FieldSlots<'_>, _) =
        ([const { std::mem::MaybeUninit::uninit() }; Limits::FIELDS_ON_STACK], Vec::new());
    // The lenient reader takes heads with more fields, so that any number costs no memory before it is there.
    let count = limits.max_fields.min(Limits::FIELDS_ON_STACK);
    let slots = line::field_slots(&mut stack, &mut heap, count);
    let mut parsed = httparse::Response::new(&mut []);
    let status = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut parsed, input, slots)
        .map_err(|error| line::error_of(error, HeadError::StatusLine))?;
    let httparse::Status::Complete(head_bytes) = status else {
        wire.scanned = line::check_partial_head(input, limits)?;
        return Ok(HeadStatus::Partial);
    };
    if let Err(error) = fill(head, wire, &input[..head_bytes], &parsed, limits, request_was_head) {
        // Half-filled spans would point into bytes that are not there.
        head.clear();
        *wire = ResponseWire::default();
        return Err(error);
    }
    Ok(HeadStatus::Complete { head_bytes })
}

fn fill(
    head: &mut ResponseHead,
    wire: &mut ResponseWire,
    bytes: &[u8],
    parsed: &httparse::Response<'_, '_>,
    limits: &HeadLimits,
    request_was_head: bool,
) -> Result<(), HeadError> {
    let (Some(version), Some(status)) = (parsed.version, parsed.code) else {
        return Err(HeadError::StatusLine);
    };
    if status < 100 {
        return Err(HeadError::StatusLine);
    }
    // Also when the line came at once: the verdict is the same as when it came in parts.
    let line_end = b"\r\n".len();
    let first_field =
        parsed.headers.first().map(|field| Span::of(field.name.as_bytes(), bytes).start as usize);
    if first_field.unwrap_or(bytes.len() - line_end) > limits.max_line_bytes + line_end {
        return Err(HeadError::LineTooLong);
    }
    if bytes.len() > limits.max_head_bytes {
        return Err(HeadError::HeadTooLarge);
    }
    wire.scanned = 0;
    head.version = if version == 0 { Version::Http10 } else { Version::Http11 };
    head.status = status;
    head.reason = Span::of(parsed.reason.unwrap_or_default().as_bytes(), bytes);
    let mut semantics = Semantics::default();
    line::adopt_fields(bytes, parsed.headers, &mut head.headers, &mut semantics)?;
    semantics.check_framing(head.version)?;
    conclude(head, wire, &semantics, request_was_head);
    Ok(())
}

/// Sets what the fields of a head say about its body and the connection.
pub(crate) fn conclude(
    head: &mut ResponseHead,
    wire: &mut ResponseWire,
    semantics: &Semantics,
    request_was_head: bool,
) {
    let status = head.status;
    wire.framing = framing(status, request_was_head, semantics);
    wire.keep_alive = wire.framing != ResponseFraming::UntilClose
        && status != SWITCHING_PROTOCOLS
        && semantics.persists(head.version);
    head.upgrade = semantics.upgrade(head.version, &head.headers);
    if status < 200 || status == NO_CONTENT {
        // RFC 9110 section 8.6: such an answer must not carry a length, so an origin's is not sent on.
        head.headers.mark_hop_by_hop(FieldId::ContentLength);
    }
    semantics.apply_nominations(&mut head.headers);
}

fn framing(status: u16, request_was_head: bool, semantics: &Semantics) -> ResponseFraming {
    if request_was_head || matches!(status, 100..=199 | NO_CONTENT | NOT_MODIFIED) {
        return ResponseFraming::None;
    }
    match semantics.content_length {
        Some(length) => ResponseFraming::Length(length),
        None if semantics.chunked => ResponseFraming::Chunked,
        None => ResponseFraming::UntilClose,
    }
}

const SWITCHING_PROTOCOLS: u16 = 101;
const NO_CONTENT: u16 = 204;
const NOT_MODIFIED: u16 = 304;

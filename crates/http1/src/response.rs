//! Response heads: parsing and what they say about the body and the connection.
//! It refuses to know which request they answer beyond "was it HEAD".

use crate::limits::{HeadLimits, Limits};
use crate::line::{self, FieldSlots};
use crate::semantics::Semantics;
use crate::{FieldId, HeadError, HeadStatus, Headers, Span, Version};

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

/// A response head with its own storage, to be reused.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    /// The status code, 100 to 999: codes above 599 exist in the wild and are passed on.
    pub status: u16,
    /// The reason phrase as it was sent; empty when there is none or it is not ASCII.
    pub reason: Span,
    /// The version.
    pub version: Version,
    /// The fields.
    pub headers: Headers,
    /// How the body ends.
    pub framing: ResponseFraming,
    /// The connection may carry another exchange afterwards.
    pub keep_alive: bool,
    /// The Upgrade field's value when Connection lists it and the version is 1.1.
    pub upgrade: Option<Span>,
    scanned: usize,
}

impl ResponseHead {
    /// A head without memory of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything, keeps the memory; needed before a head is used for another connection.
    pub fn clear(&mut self) {
        let mut headers = std::mem::take(&mut self.headers);
        headers.clear();
        *self = Self { headers, ..Self::default() };
    }

    /// The reason phrase as it was sent.
    pub fn reason_text(&self) -> &[u8] {
        self.headers.text(self.reason)
    }

    /// The protocol of the Upgrade field, when the response upgrades.
    pub fn upgrade_text(&self) -> Option<&[u8]> {
        self.upgrade.map(|span| self.headers.text(span))
    }

    /// True for 1xx other than 101: another head follows.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != SWITCHING_PROTOCOLS
    }
}

/// Parses the response head at the start of `input`; the rules of calling are those of
/// [`crate::parse_request`]. Every error means that the origin cannot be believed: 502.
pub fn parse_response(
    input: &[u8],
    head: &mut ResponseHead,
    limits: &HeadLimits,
    request_was_head: bool,
) -> Result<HeadStatus, HeadError> {
    if input.first().is_some_and(|&byte| byte != b'H') {
        return Err(HeadError::StatusLine);
    }
    if !line::worth_parsing(input, head.scanned) {
        head.scanned = line::partial(input, limits)?;
        return Ok(HeadStatus::Partial);
    }
    let mut slots: FieldSlots<'_> = [const { std::mem::MaybeUninit::uninit() }; Limits::FIELDS_CEILING];
    let slots = &mut slots[..limits.max_fields.min(Limits::FIELDS_CEILING)];
    let mut parsed = httparse::Response::new(&mut []);
    let status = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut parsed, input, slots)
        .map_err(|error| line::error_of(error, HeadError::StatusLine))?;
    let httparse::Status::Complete(head_bytes) = status else {
        head.scanned = line::partial(input, limits)?;
        return Ok(HeadStatus::Partial);
    };
    if let Err(error) = fill(head, &input[..head_bytes], &parsed, limits, request_was_head) {
        // Half-filled spans would point into bytes that are not there.
        head.clear();
        return Err(error);
    }
    Ok(HeadStatus::Complete { head_bytes })
}

fn fill(
    head: &mut ResponseHead,
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
    head.scanned = 0;
    head.version = if version == 0 { Version::Http10 } else { Version::Http11 };
    head.status = status;
    head.reason = Span::of(parsed.reason.unwrap_or_default().as_bytes(), bytes);
    let mut semantics = Semantics::default();
    line::adopt_fields(bytes, parsed.headers, &mut head.headers, &mut semantics)?;
    semantics.check_framing(head.version)?;
    head.framing = framing(status, request_was_head, &semantics);
    head.keep_alive = head.framing != ResponseFraming::UntilClose
        && status != SWITCHING_PROTOCOLS
        && semantics.persists(head.version);
    head.upgrade = semantics.upgrade(head.version, &head.headers);
    if status < 200 || status == NO_CONTENT {
        // RFC 9110 section 8.6: such an answer must not carry a length, so an origin's is not sent on.
        head.headers.mark_hop_by_hop(FieldId::ContentLength);
    }
    semantics.apply_nominations(&mut head.headers);
    Ok(())
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

//! Request heads: parsing and what they say about the body and the connection.
//! It does not know routes, limits on bodies, or whether a target form is served.

mod fault;
mod refused;
mod target;

pub use refused::read_refused;
pub use target::TargetForm;

use message::{FieldId, HeadLimits, Method, RequestHead, Span, Version, syntax};

use crate::limits::Limits;
use crate::line::{self, FieldSlots};
use crate::semantics::Semantics;
use crate::{HeadError, HeadStatus};
use target::Target;

/// Fields that the limit of fields does not count: Host, which is a part of the start line in later versions
/// of HTTP.
const HOST_FIELDS: usize = 1;

/// How the end of a request's body is known (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestFraming {
    /// No body.
    #[default]
    None,
    /// Content-Length, in bytes; zero is possible.
    Length(u64),
    /// The chunked coding.
    Chunked,
}

/// The facts of a request head about its connection and the message on it, besides the neutral head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestWire {
    /// In which form the target was sent.
    pub form: TargetForm,
    /// How the body ends.
    pub framing: RequestFraming,
    /// The connection may carry another request afterwards.
    pub keep_alive: bool,
    /// The client waits for 100 (Continue) before the body; never true for HTTP/1.0.
    pub expect_continue: bool,
    scanned: usize,
}

/// Parses the request head at the start of `input`.
///
/// On [`HeadStatus::Complete`] the head is copied, so the input's bytes are free again. On
/// [`HeadStatus::Partial`] call again with the same `head` and the same bytes plus the ones that came since.
/// An error ends the connection: nothing behind a malformed head can be trusted. It leaves the head empty, or
/// as it was before. However the bytes were cut, it is the same, that of the first fault; but a fault inside
/// of a head that was begun may be seen only when that is complete or too large, or is parsed anew.
pub fn parse_request(
    input: &[u8],
    head: &mut RequestHead,
    wire: &mut RequestWire,
    limits: &HeadLimits,
) -> Result<HeadStatus, HeadError> {
    let skipped = leading_empty_line(input)?;
    // A head that is too large is parsed all the same, because a fault may stand before the limit.
    if !line::worth_parsing(input, wire.scanned)
        && let Ok(scanned) = line::check_partial_head(input, limits)
    {
        wire.scanned = scanned;
        return Ok(HeadStatus::Partial);
    }
    let (mut stack, mut heap): (FieldSlots<'_>, _) =
        ([const { std::mem::MaybeUninit::uninit() }; Limits::FIELDS_ON_STACK], Vec::new());
    let slots = line::field_slots(&mut stack, &mut heap, limits.max_fields.saturating_add(HOST_FIELDS));
    let mut parsed = httparse::Request::new(&mut []);
    let length = match parsed.parse_with_uninit_headers(&input[skipped..], slots) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => {
            wire.scanned = line::check_partial_head(input, limits)?;
            return Ok(HeadStatus::Partial);
        }
        Err(_) => {
            if let Some(error) = fault::first_fault(input, skipped, limits) {
                return Err(error);
            }
            wire.scanned = input.len();
            return Ok(HeadStatus::Partial);
        }
    };
    let head_bytes = skipped + length;
    if let Err(error) = fill(head, wire, &input[..head_bytes], &parsed, limits) {
        // Half-filled spans would point into bytes that are not there.
        head.clear();
        *wire = RequestWire::default();
        return Err(error);
    }
    Ok(HeadStatus::Complete { head_bytes })
}

/// Whether the head at the start of `input` is still incomplete, as far as that can be seen without parsing
/// it: for callers that keep no [`RequestHead`] while the rest is on its way. `scanned_bytes` is how much of
/// the same input was looked at before, by this or by a parse that found it partial; it is moved on. False
/// says: parse again, from the start.
pub fn is_still_partial(input: &[u8], scanned_bytes: &mut usize, limits: &HeadLimits) -> bool {
    if line::worth_parsing(input, *scanned_bytes) {
        return false;
    }
    match line::check_partial_head(input, limits) {
        Ok(scanned) => {
            *scanned_bytes = scanned;
            true
        }
        // The parse says in which way it is too large.
        Err(_) => false,
    }
}

/// Whether `input` begins with a request for a head only, whatever may be wrong behind its method: no answer
/// to HEAD has a body (RFC 9110 section 9.3.2), a refusal neither.
pub fn asks_for_head(input: &[u8]) -> bool {
    input.strip_prefix(b"\r\n").unwrap_or(input).starts_with(b"HEAD ")
}

fn fill(
    head: &mut RequestHead,
    wire: &mut RequestWire,
    bytes: &[u8],
    parsed: &httparse::Request<'_, '_>,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(HeadError::RequestLine);
    };
    let (method, target) = (method.as_bytes(), target.as_bytes());
    let line_bytes = method.len() + target.len() + b"  HTTP/1.1".len();
    if line_bytes > limits.max_line_bytes || bytes.len() > limits.max_head_bytes {
        return Err(line::size_fault(bytes, limits).map_or(HeadError::HeadTooLarge, |(_, error)| error));
    }
    wire.scanned = 0;
    head.version = if version == 0 { Version::Http10 } else { Version::Http11 };
    head.method = Method::of(method);
    head.spans.method = Span::of(method, bytes);
    head.spans.target = Span::of(target, bytes);
    let mut semantics = Semantics::default();
    line::adopt_fields(bytes, parsed.headers, &mut head.headers, &mut semantics)?;
    if parsed.headers.len() - (semantics.hosts as usize).min(HOST_FIELDS) > limits.max_fields {
        return Err(HeadError::TooManyFields);
    }
    let target = Target::parse(head.method, target, head.spans.target.start as usize)?;
    wire.form = target.form;
    head.spans.path = target.path;
    head.spans.query = target.query;
    head.spans.authority = authority(target.authority, semantics.hosts, head)?;
    apply(head, wire, &semantics)
}

fn apply(head: &mut RequestHead, wire: &mut RequestWire, semantics: &Semantics) -> Result<(), HeadError> {
    semantics.check_framing(head.version)?;
    wire.framing = match semantics.content_length {
        Some(length) => RequestFraming::Length(length),
        None if semantics.chunked => RequestFraming::Chunked,
        None => RequestFraming::None,
    };
    wire.keep_alive = semantics.persists(head.version);
    // A client of version 1.0 cannot be answered with 100, so its expectation counts for nothing.
    wire.expect_continue = semantics.expects_continue && head.version == Version::Http11;
    head.spans.upgrade = semantics.upgrade(head.version, &head.headers);
    semantics.apply_nominations(&mut head.headers);
    Ok(())
}

/// The authority that counts (RFC 9112 section 3.2): the target's if it has one, else the Host field's.
fn authority(of_target: Option<Span>, hosts: u32, head: &RequestHead) -> Result<Span, HeadError> {
    if hosts > 1 {
        return Err(HeadError::HostRepeated);
    }
    let Some(host) = head.headers.span_of(FieldId::Host) else {
        return match head.version {
            Version::Http10 => Ok(of_target.unwrap_or_default()),
            _ => Err(HeadError::HostMissing),
        };
    };
    let text = head.headers.text(host);
    if text.is_empty() {
        // An empty Host says that the target has no authority; it must not contradict one that has.
        return if of_target.is_some() { Err(HeadError::Host) } else { Ok(host) };
    }
    if !syntax::is_authority(text) {
        return Err(HeadError::Host);
    }
    Ok(of_target.unwrap_or(host))
}

/// One empty line before a request is forgiven (RFC 9112 section 2.2), a second or a bare one is not.
fn leading_empty_line(input: &[u8]) -> Result<usize, HeadError> {
    match input {
        [b'\r', b'\n', b'\r' | b'\n', ..] | [b'\n', ..] => Err(HeadError::EmptyLines),
        [b'\r', b'\n', ..] => Ok(2),
        [b'\r', _, ..] => Err(HeadError::EmptyLines),
        _ => Ok(0),
    }
}

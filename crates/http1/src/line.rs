//! The line structure of a head: is it complete, does every line end in CRLF, which spans are its fields.
//! It does not know what a start line or a field means.

use std::mem::MaybeUninit;

use message::{FieldId, HeadLimits, Headers, Span};

use crate::HeadError;
use crate::limits::Limits;
use crate::semantics::Semantics;

/// A field of the parser.
pub(crate) type FieldSlot<'a> = MaybeUninit<httparse::Header<'a>>;

/// Fields of one head that the parser holds on the stack.
pub(crate) type FieldSlots<'a> = [FieldSlot<'a>; Limits::FIELDS_ON_STACK];

/// Entries for `count` fields: those on the stack if they are enough, otherwise allocated ones.
#[inline]
pub(crate) fn field_slots<'s, 'a>(
    stack: &'s mut FieldSlots<'a>,
    heap: &'s mut Vec<FieldSlot<'a>>,
    count: usize,
) -> &'s mut [FieldSlot<'a>] {
    if count > stack.len() {
        heap.resize_with(count, MaybeUninit::uninit);
        return heap;
    }
    &mut stack[..count]
}

/// True when it is worth parsing: always the first time, later only once an empty line has appeared behind
/// what was looked at before, so that a head sent byte by byte costs no quadratic time.
pub(crate) fn worth_parsing(input: &[u8], scanned: usize) -> bool {
    if scanned == 0 {
        return true;
    }
    let from = scanned.saturating_sub(b"\n\r".len()).min(input.len());
    memchr::memchr_iter(b'\n', &input[from..]).any(|offset| {
        let rest = &input[from + offset + 1..];
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    })
}

/// Refuses an incomplete head that is already too large; else says how much of it has been looked at.
pub(crate) fn check_partial_head(input: &[u8], limits: &HeadLimits) -> Result<usize, HeadError> {
    size_fault(input, limits).map_or(Ok(input.len()), |(_, error)| Err(error))
}

/// Why a head at the start of `input` is too large, and at how many bytes that is known, if no fault came
/// before.
pub(crate) fn size_fault(input: &[u8], limits: &HeadLimits) -> Option<(usize, HeadError)> {
    // One empty line may stand before the start line.
    let line_start = if input.starts_with(b"\r\n") { b"\r\n".len() } else { 0 };
    let line_window = line_start + limits.max_line_bytes + b"\r\n".len();
    let has_line = |window: &[u8]| {
        memchr::memchr(b'\n', window)
            .is_some_and(|end| end <= limits.max_line_bytes || window.ends_with(b"\r\n"))
    };
    let line = input
        .get(line_start..line_window)
        .filter(|window| !has_line(window))
        .map(|_| (line_window, HeadError::LineTooLong));
    let head =
        (input.len() >= limits.max_head_bytes).then_some((limits.max_head_bytes, HeadError::HeadTooLarge));
    line.into_iter().chain(head).min_by_key(|(known_at, _)| *known_at)
}

/// Copies a complete head into `headers`, with every line checked and every field seen by `semantics`.
/// `head` ends behind its empty line.
pub(crate) fn adopt_fields(
    head: &[u8],
    parsed: &[httparse::Header<'_>],
    headers: &mut Headers,
    semantics: &mut Semantics,
) -> Result<(), HeadError> {
    if !head.ends_with(b"\r\n\r\n") {
        return Err(HeadError::LineEnd);
    }
    let lines_end = head.len() - b"\r\n".len();
    let span = |part: &[u8]| Span::of(part, head);
    headers.adopt(head, parsed.first().map_or(lines_end, |field| span(field.name.as_bytes()).start as usize));
    for field in parsed {
        let name = span(field.name.as_bytes());
        // The parser takes a bare LF for a line end; here each line, the start line included, ends in CRLF.
        if !head[..name.start as usize].ends_with(b"\r\n") {
            return Err(HeadError::LineEnd);
        }
        let id = FieldId::of(field.name.as_bytes());
        semantics.see(id, field.value)?;
        headers.push_span(name, span(field.value), id);
    }
    headers.seal(lines_end);
    Ok(())
}

/// The fault that an error of the parser stands for here.
pub(crate) fn error_of(error: httparse::Error, start_line: HeadError) -> HeadError {
    match error {
        httparse::Error::HeaderName => HeadError::FieldName,
        httparse::Error::HeaderValue => HeadError::FieldValue,
        httparse::Error::NewLine => HeadError::LineEnd,
        httparse::Error::TooManyHeaders => HeadError::TooManyFields,
        httparse::Error::Version | httparse::Error::Token | httparse::Error::Status => start_line,
    }
}

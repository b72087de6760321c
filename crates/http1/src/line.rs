//! The line structure of a head: is it complete, does every line end in CRLF, which spans are its fields.
//! It refuses to know what a start line or a field means.

use crate::limits::{HeadLimits, Limits};
use crate::semantics::Semantics;
use crate::{FieldId, HeadError, Headers, Span};

/// What the parser borrows of the stack for the fields of one head.
pub(crate) type FieldSlots<'a> = [std::mem::MaybeUninit<httparse::Header<'a>>; Limits::FIELDS_CEILING];

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
pub(crate) fn partial(input: &[u8], limits: &HeadLimits) -> Result<usize, HeadError> {
    let line_window = limits.max_line_bytes + LINE_ENDS_BYTES;
    if input.len() >= line_window && memchr::memchr(b'\n', &input[EMPTY_LINE_BYTES..line_window]).is_none() {
        return Err(HeadError::LineTooLong);
    }
    if input.len() >= limits.max_head_bytes {
        return Err(HeadError::HeadTooLarge);
    }
    Ok(input.len())
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

/// What the parser's complaint means here.
pub(crate) fn error_of(error: httparse::Error, start_line: HeadError) -> HeadError {
    match error {
        httparse::Error::HeaderName => HeadError::FieldName,
        httparse::Error::HeaderValue => HeadError::FieldValue,
        httparse::Error::NewLine => HeadError::LineEnd,
        httparse::Error::TooManyHeaders => HeadError::TooManyFields,
        httparse::Error::Version | httparse::Error::Token | httparse::Error::Status => start_line,
    }
}

/// One empty line may stand before the start line.
const EMPTY_LINE_BYTES: usize = 2;
/// It and the start line's own end.
const LINE_ENDS_BYTES: usize = 4;

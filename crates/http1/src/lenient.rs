//! The second reader of response heads, for those of upstreams that the strict one refuses: it reads the
//! deviations that servers in use are known for and writes the head anew in the strict form. It never reads a
//! request.

use std::borrow::Cow;

use message::{FieldId, HeadLimits, ResponseHead, Span, Version, syntax};

use crate::limits::Limits;
use crate::line;
use crate::response::conclude;
use crate::semantics::{CONTENT_LENGTH_MAX, Semantics, coding_error};
use crate::{HeadError, HeadStatus, ResponseWire};

/// Parses the response head at the start of `input`; the rules of calling are those of
/// [`crate::parse_request`].
#[cold]
pub(crate) fn parse(
    input: &[u8],
    head: &mut ResponseHead,
    wire: &mut ResponseWire,
    limits: &HeadLimits,
    request_was_head: bool,
) -> Result<HeadStatus, HeadError> {
    let mut lines = input.split_inclusive(|&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let is_whole = first.ends_with(b"\n");
    let Some(status_line) = StatusLine::parse(first, is_whole)? else { return partial(input, wire, limits) };
    if line_text(first).0.len() > limits.max_line_bytes {
        return Err(HeadError::LineTooLong);
    }
    let mut fields = LenientFields::default();
    fields.is_odd |= status_line.is_odd;
    let mut head_bytes = first.len();
    loop {
        let Some(line) = lines.next().filter(|line| line.ends_with(b"\n")) else {
            return partial(input, wire, limits);
        };
        head_bytes += line.len();
        if head_bytes > limits.max_head_bytes {
            return Err(HeadError::HeadTooLarge);
        }
        if line_text(line).0.is_empty() {
            fields.line(line, limits.max_fields)?;
            break;
        }
        fields.line(line, limits.max_fields)?;
    }
    let chunked = fields.settle_framing(status_line.version)?;
    fields.settle_connection()?;
    fill(head, &status_line, &fields);
    let mut semantics = Semantics::default();
    for field in head.headers.iter() {
        semantics.see(field.id, field.value)?;
    }
    semantics.chunked = chunked;
    conclude(head, wire, &semantics, request_was_head);
    wire.scanned = 0;
    wire.keep_alive &= !fields.is_odd;
    Ok(HeadStatus::Complete { head_bytes })
}

fn partial(input: &[u8], wire: &mut ResponseWire, limits: &HeadLimits) -> Result<HeadStatus, HeadError> {
    wire.scanned = line::check_partial_head(input, limits)?;
    Ok(HeadStatus::Partial)
}

/// Writes the head in the strict form into its own storage.
fn fill(head: &mut ResponseHead, line: &StatusLine<'_>, fields: &LenientFields<'_>) {
    let mut text = b"HTTP/1.1 000 ".to_vec();
    let reason = Span::new(text.len(), text.len() + line.reason.len());
    text.extend_from_slice(&line.reason);
    text.extend_from_slice(b"\r\n");
    let line_end = text.len();
    let mut spans = Vec::with_capacity(fields.fields.len());
    for (name, value) in fields.fields() {
        let name_start = text.len();
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
        let value_start = text.len();
        text.extend_from_slice(value);
        spans.push((
            Span::new(name_start, name_start + name.len()),
            Span::new(value_start, text.len()),
            FieldId::of(name),
        ));
        text.extend_from_slice(b"\r\n");
    }
    head.headers.adopt(&text, line_end);
    for (name, value, id) in spans {
        head.headers.push_span(name, value, id);
    }
    head.headers.seal(text.len());
    (head.version, head.status, head.reason) = (line.version, line.status, reason);
}

/// The text of a line without its line end, and whether that is CRLF.
fn line_text(line: &[u8]) -> (&[u8], bool) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    match line.strip_suffix(b"\r") {
        Some(text) => (text, true),
        None => (line, false),
    }
}

/// The text with each control character replaced by a space.
fn without_controls(text: &[u8]) -> Cow<'_, [u8]> {
    if syntax::is_field_value(text) {
        return Cow::Borrowed(text);
    }
    let clean = |&byte: &u8| if syntax::is_field_value(&[byte]) { byte } else { b' ' };
    Cow::Owned(syntax::trim(&text.iter().map(clean).collect::<Vec<u8>>()).to_vec())
}

/// A status line.
struct StatusLine<'a> {
    version: Version,
    status: u16,
    reason: Cow<'a, [u8]>,
    is_odd: bool,
}

impl<'a> StatusLine<'a> {
    /// Reads `line`; none if it is not `is_whole` and could still become a status line.
    fn parse(line: &'a [u8], is_whole: bool) -> Result<Option<Self>, HeadError> {
        const NAME: &[u8] = b"HTTP/";
        let (text, is_crlf) = if is_whole { line_text(line) } else { (line, true) };
        let common = text.len().min(NAME.len());
        if text[..common] != NAME[..common] || memchr::memchr(0, text).is_some() {
            return Err(HeadError::StatusLine);
        }
        if !is_whole {
            return Ok(None);
        }
        if memchr::memchr(b'\r', text).is_some() {
            return Err(HeadError::LineEnd);
        }
        let blank = text.iter().position(|byte| matches!(byte, b' ' | b'\t')).ok_or(HeadError::StatusLine)?;
        let version = text.get(NAME.len()..blank).ok_or(HeadError::StatusLine)?;
        let (version, is_odd_version) = version_of(version)?;
        let rest = syntax::trim(&text[blank..]);
        let (digits, reason) = rest.split_at_checked(3).ok_or(HeadError::StatusLine)?;
        let status = syntax::decimal(digits).filter(|status| *status >= 100).ok_or(HeadError::StatusLine)?;
        let reason = match reason {
            [] => &[][..],
            [b' ' | b'\t', reason @ ..] => reason,
            // A sub-status, as some servers write it.
            [b'.', ..] => &[],
            _ => return Err(HeadError::StatusLine),
        };
        let is_odd = !is_crlf
            || is_odd_version
            || text[blank] == b'\t'
            || text.get(blank..blank + 2).is_some_and(|blanks| syntax::trim(blanks).is_empty())
            || !syntax::is_field_value(reason)
            || rest.get(3) == Some(&b'.');
        let reason = if reason.is_ascii() { without_controls(reason) } else { Cow::Borrowed(&[][..]) };
        Ok(Some(Self { version, status: status as u16, reason, is_odd }))
    }
}

/// The version that `text`, what stands behind `HTTP/`, is read as, and whether it is another one than that.
fn version_of(text: &[u8]) -> Result<(Version, bool), HeadError> {
    let dot = memchr::memchr(b'.', text).ok_or(HeadError::StatusLine)?;
    let number = |digits: &[u8]| {
        (1..=VERSION_DIGITS).contains(&digits.len()).then(|| syntax::decimal(digits)).flatten()
    };
    match (number(&text[..dot]), number(&text[dot + 1..])) {
        (Some(0), Some(_)) => Err(HeadError::Version),
        (Some(1), Some(0)) => Ok((Version::Http10, text != b"1.0")),
        (Some(_), Some(_)) => Ok((Version::Http11, text != b"1.1")),
        _ => Err(HeadError::StatusLine),
    }
}

/// The most digits of either part of a version.
const VERSION_DIGITS: usize = 3;

/// A field as it is kept: its name and its value.
type KeptField<'a> = (&'a [u8], Cow<'a, [u8]>);

/// The fields of a head or of a trailer section, read line by line.
#[derive(Default)]
pub(crate) struct LenientFields<'a> {
    fields: Vec<KeptField<'a>>,
    lines: usize,
    /// The line before was dropped, so that its continuation is dropped too.
    is_dropped: bool,
    is_odd: bool,
}

impl<'a> LenientFields<'a> {
    /// Whether a deviation was met.
    pub(crate) fn is_odd(&self) -> bool {
        self.is_odd
    }

    /// The fields, each with a name that is a token and a value without control characters.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (*name, &value[..]))
    }

    /// Takes in a line with its line end; an empty one is no field.
    ///
    /// # Errors
    /// The line holds a CR or NUL, or there are more than `max_fields` lines.
    pub(crate) fn line(&mut self, line: &'a [u8], max_fields: usize) -> Result<(), HeadError> {
        let (text, is_crlf) = line_text(line);
        self.is_odd |= !is_crlf;
        if text.is_empty() {
            return Ok(());
        }
        if let Some(at) = memchr::memchr2(b'\r', 0, text) {
            return Err(if text[at] == 0 { HeadError::FieldValue } else { HeadError::LineEnd });
        }
        if matches!(text[0], b' ' | b'\t') {
            self.fold(text);
            return Ok(());
        }
        self.lines += 1;
        if self.lines > max_fields {
            return Err(HeadError::TooManyFields);
        }
        self.is_dropped = true;
        let Some(colon) = memchr::memchr(b':', text) else {
            self.is_odd = true;
            return Ok(());
        };
        let name = syntax::trim(&text[..colon]);
        if !syntax::is_token(name) {
            self.is_odd = true;
            return Ok(());
        }
        let value = without_controls(syntax::trim(&text[colon + 1..]));
        self.is_odd |= name.len() != colon || matches!(value, Cow::Owned(_));
        self.is_dropped = false;
        self.fields.push((name, value));
        Ok(())
    }

    /// Joins a continuation line to the value before it, by one space (RFC 9112 section 5.2).
    fn fold(&mut self, text: &[u8]) {
        self.is_odd = true;
        let more = without_controls(syntax::trim(text));
        if let Some((_, value)) = self.fields.last_mut()
            && !self.is_dropped
            && !more.is_empty()
        {
            let value = value.to_mut();
            if !value.is_empty() {
                value.push(b' ');
            }
            value.extend_from_slice(&more);
        }
    }

    /// Leaves one Content-Length at most, and no Transfer-Encoding; returns whether the body is chunked.
    fn settle_framing(&mut self, version: Version) -> Result<bool, HeadError> {
        let (mut lengths, mut codings) = (0, 0);
        let (mut length, mut chunked, mut bad_length) = (None, 0, false);
        for (name, value) in &self.fields {
            match FieldId::of(name) {
                FieldId::ContentLength => {
                    lengths += 1;
                    for element in syntax::list(value) {
                        let number = syntax::decimal(element).filter(|length| *length <= CONTENT_LENGTH_MAX);
                        bad_length |= !element.is_empty()
                            && (number.is_none() || length.is_some_and(|known| Some(known) != number));
                        self.is_odd |= element.is_empty() || lengths > 1 || element.len() != value.len();
                        length = length.or(number);
                    }
                }
                FieldId::TransferEncoding => {
                    codings += 1;
                    for coding in syntax::list(value) {
                        match coding {
                            coding if coding.eq_ignore_ascii_case(b"chunked") => chunked += 1,
                            coding if coding.is_empty() || coding.eq_ignore_ascii_case(b"identity") => {
                                self.is_odd = true;
                            }
                            _ => return Err(coding_error(value)),
                        }
                    }
                }
                _ => {}
            }
        }
        if bad_length && chunked == 0 {
            return Err(HeadError::ContentLength);
        }
        self.is_odd |= chunked > 0 && (chunked > 1 || lengths > 0 || version == Version::Http10);
        if lengths + codings > 0 {
            let is_framing =
                |name| matches!(FieldId::of(name), FieldId::ContentLength | FieldId::TransferEncoding);
            self.fields.retain(|(name, _)| !is_framing(name));
            if let Some(length) = length.filter(|_| chunked == 0) {
                self.fields.push((&b"Content-Length"[..], Cow::Owned(length.to_string().into_bytes())));
            }
        }
        Ok(chunked > 0)
    }

    /// Leaves the options of Connection fields without their parameters, and only those that are tokens.
    fn settle_connection(&mut self) -> Result<(), HeadError> {
        let mut options = 0;
        for (name, value) in &mut self.fields {
            if FieldId::of(name) != FieldId::Connection {
                continue;
            }
            options += syntax::list(value).count();
            if options > Limits::CONNECTION_OPTIONS as usize {
                return Err(HeadError::Connection);
            }
            if syntax::list(value).all(|element| element.is_empty() || syntax::is_token(element)) {
                continue;
            }
            self.is_odd = true;
            let option = |element: &[u8]| {
                let name = element.split(|&byte| byte == b';').next().map(syntax::trim).unwrap_or_default();
                syntax::is_token(name).then(|| name.to_vec())
            };
            let kept: Vec<Vec<u8>> = syntax::list(value).filter_map(option).collect();
            *value = Cow::Owned(kept.join(&b", "[..]));
        }
        Ok(())
    }
}

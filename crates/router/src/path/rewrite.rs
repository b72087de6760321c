//! The complete canonicalisation, for paths that need a change or are refused.
//!
//! Its result is right for every path; the fast check in `path` only avoids the cost. It makes three passes
//! over two buffers: escapes, then segments, then decoding; each pass relies on the normalisation of the one
//! before.

use super::{PathError, PathOptions};

/// The separator between a segment and its parameters in servlet paths.
pub(super) const PARAMETER_MARK: u8 = b';';

/// Writes both forms of `raw`, which begins with a slash.
pub(super) fn rewrite(
    raw: &[u8],
    options: &PathOptions,
    forward: &mut Vec<u8>,
    decoded: &mut Vec<u8>,
) -> Result<(), PathError> {
    normalize_escapes(raw, decoded)?;
    resolve_segments(decoded, options.merge_slashes, forward)?;
    decode(forward, options, decoded)
}

/// Pass one: decodes escapes of unreserved characters, puts the others in upper case, refuses bad bytes.
fn normalize_escapes(raw: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    out.clear();
    let mut lead = Lead::default();
    let mut index = 0;
    while let Some(&byte) = raw.get(index) {
        if byte != b'%' {
            check_raw(byte)?;
            lead = Lead::default();
            out.push(byte);
            index += 1;
            continue;
        }
        let value = escape_at(raw, index).ok_or(PathError::InvalidEscape)?;
        check_decoded(value)?;
        lead = lead.then(value)?;
        if is_unreserved(value) {
            out.push(value);
        } else {
            out.extend_from_slice(&[
                b'%',
                UPPER_HEX[usize::from(value >> 4)],
                UPPER_HEX[usize::from(value & 15)],
            ]);
        }
        index += 3;
    }
    Ok(())
}

/// Pass two: resolves dot segments and merges slashes (RFC 3986 section 5.2.4).
fn resolve_segments(path: &[u8], merge: bool, out: &mut Vec<u8>) -> Result<(), PathError> {
    out.clear();
    let mut segments = path[1..].split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." if last => out.push(b'/'),
            b"." => {}
            b".." => {
                let parent = memchr::memrchr(b'/', out).ok_or(PathError::AboveRoot)?;
                out.truncate(parent);
                if last {
                    out.push(b'/');
                }
            }
            // The path still ends with a slash after merging: `/a//` is `/a/`.
            b"" if merge && !last => {}
            _ => {
                if hides_dot_segment(segment) {
                    return Err(PathError::HiddenDotSegment);
                }
                out.push(b'/');
                out.extend_from_slice(segment);
            }
        }
    }
    Ok(())
}

/// Pass three: decodes, and removes the parts that only matching ignores.
fn decode(forward: &[u8], options: &PathOptions, out: &mut Vec<u8>) -> Result<(), PathError> {
    out.clear();
    let mut index = 0;
    while let Some(&byte) = forward.get(index) {
        index += 1;
        match byte {
            b'%' => {
                let value = escape_at(forward, index - 1).expect("pass one left only whole escapes");
                index += 2;
                match value {
                    b'/' if options.match_uri_encoded_slash => out.extend_from_slice(b"%2F"),
                    b'/' => push_slash(options, out),
                    _ => out.push(value),
                }
            }
            b'/' => push_slash(options, out),
            PARAMETER_MARK if options.normalize_uri_like_servlet => {
                let end = memchr::memchr(b'/', &forward[index..]).map(|length| index + length);
                if out.last() == Some(&b'/') && end.is_some() {
                    return Err(PathError::ParametersOnly);
                }
                let rest = end.unwrap_or(forward.len());
                if !options.match_uri_encoded_slash
                    && memchr::memmem::find(&forward[index..rest], b"%2F").is_some()
                {
                    return Err(PathError::EncodedSlashInParameters);
                }
                index = rest;
            }
            _ => out.push(byte),
        }
    }
    if options.delete_uri_tail_slash && out.len() > 1 && out.last() == Some(&b'/') {
        out.pop();
    }
    Ok(())
}

/// Appends a slash of the decoded form. Merging is needed here too, because a slash may come from an escape,
/// which pass two has not seen.
fn push_slash(options: &PathOptions, out: &mut Vec<u8>) {
    if !(options.merge_slashes && out.last() == Some(&b'/')) {
        out.push(b'/');
    }
}

/// Whether some origin would read `.` or `..` in the segment: between encoded slashes, or before `;` or
/// `%3B`.
fn hides_dot_segment(segment: &[u8]) -> bool {
    let mut rest = segment;
    loop {
        let slash = memchr::memmem::find(rest, b"%2F");
        let piece = &rest[..slash.unwrap_or(rest.len())];
        let escaped = memchr::memmem::find(piece, b"%3B").unwrap_or(piece.len());
        let plain = memchr::memchr(PARAMETER_MARK, piece).unwrap_or(piece.len());
        if matches!(&piece[..escaped.min(plain)], b"." | b"..") {
            return true;
        }
        match slash {
            Some(at) => rest = &rest[at + 3..],
            None => return false,
        }
    }
}

fn check_raw(byte: u8) -> Result<(), PathError> {
    match byte {
        0..0x20 | 0x7f => Err(PathError::Control),
        b'\\' => Err(PathError::Backslash),
        b' ' | b'#' | b'?' | 0x80.. => Err(PathError::InvalidByte),
        _ => Ok(()),
    }
}

fn check_decoded(value: u8) -> Result<(), PathError> {
    match value {
        0..0x20 | 0x7f => Err(PathError::Control),
        b'\\' => Err(PathError::Backslash),
        _ => Ok(()),
    }
}

/// The value of the escape at `index`.
fn escape_at(path: &[u8], index: usize) -> Option<u8> {
    let high = char::from(*path.get(index + 1)?).to_digit(16)?;
    let low = char::from(*path.get(index + 2)?).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}

/// Unreserved characters of RFC 3986 section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// The last decoded byte, when it may begin an overlong UTF-8 sequence.
#[derive(Clone, Copy, Default)]
struct Lead(u8);

impl Lead {
    /// Takes the next decoded byte; refuses the second byte of an overlong form (RFC 3629 section 3).
    fn then(self, value: u8) -> Result<Self, PathError> {
        let overlong = match self.0 {
            0xc0 | 0xc1 => (0x80..=0xbf).contains(&value),
            0xe0 => (0x80..=0x9f).contains(&value),
            0xf0 => (0x80..=0x8f).contains(&value),
            _ => false,
        };
        if overlong { Err(PathError::Overlong) } else { Ok(Self(value)) }
    }
}

const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";

//! The one canonical form of a request path, which is matched, shown to plugins, logged and forwarded.
//!
//! It knows neither query, host nor routes. A path as sent is converted into two forms that always mean the
//! same resource:
//!
//! * [`CanonicalPath::forward`]: escapes of unreserved characters decoded, the hex digits of the others in
//!   upper case, dot segments resolved, repeated slashes merged, everything else as sent (RFC 3986 section
//!   6.2.2).
//! * [`CanonicalPath::decoded`]: the same with its escapes decoded. An encoded slash becomes a slash here,
//!   merged with its neighbours as nginx and APISIX do, while the forward form keeps it as `%2F`; with
//!   `match_uri_encoded_slash` it stays `%2F` in both forms (decision 0027).
//!
//! A spelling that some origin would read as another path is refused with 400: a backslash, raw or as `%5C`,
//! because Windows origins take it for a slash; a dot segment that only shows once an encoded slash is
//! decoded (`..%2F`) or a parameter is cut off (`..;`), because servlet containers do both; an overlong UTF-8
//! form of an ASCII character; `..` above the root, as nginx does.
//!
//! A path without any change, which is the usual case, is borrowed: it costs one table lookup per byte and no
//! copy.

mod rewrite;

use rewrite::PARAMETER_MARK;

/// How paths are normalised. The options are the same for every request of a gateway, because two readings of
/// one path would allow rules to be bypassed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PathOptions {
    /// `//` means `/`. On by default, as in nginx; switch it off only for origins that distinguish the two.
    pub merge_slashes: bool,
    /// APISIX `match_uri_encoded_slash`: an encoded slash is part of its segment and is matched as `%2F`. Off
    /// by default, as in APISIX: it is matched as a slash. The forwarded path has `%2F` either way.
    pub match_uri_encoded_slash: bool,
    /// APISIX `delete_uri_tail_slash`: `/a/` is matched as `/a`. The forwarded path keeps the slash.
    pub delete_uri_tail_slash: bool,
    /// APISIX `normalize_uri_like_servlet`: `/a;x=1/b` is matched as `/a/b`. The forwarded path keeps the
    /// parameters, because the servlet container needs them.
    pub normalize_uri_like_servlet: bool,
}

/// Buffers for paths that must be rewritten, reused from request to request, so that they grow to the longest
/// path.
#[derive(Clone, Debug, Default)]
pub struct PathScratch {
    forward: Vec<u8>,
    decoded: Vec<u8>,
}

/// A path in its two canonical forms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CanonicalPath<'a> {
    forward: &'a [u8],
    decoded: &'a [u8],
    as_sent: bool,
}

/// Why a path is refused; each is answered 400.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathError {
    /// `..` would leave the root.
    #[error("the path climbs above its root")]
    AboveRoot,
    /// A backslash, raw or encoded.
    #[error("the path holds a backslash, which some servers read as a slash")]
    Backslash,
    /// A control character, raw or encoded.
    #[error("the path holds a control character")]
    Control,
    /// An encoded slash within parameters, where `normalize_uri_like_servlet` cuts those off: the gateway
    /// would cut up to the encoded slash, a servlet container up to the next real one.
    #[error("the path holds an encoded slash within the parameters of a segment")]
    EncodedSlashInParameters,
    /// A dot segment that shows only after decoding `%2F` or cutting `;parameters`.
    #[error("the path hides a dot segment behind an encoded slash or a parameter")]
    HiddenDotSegment,
    /// A byte that is not allowed unencoded in a path: space, `#`, `?`, or anything beyond ASCII.
    #[error("the path holds a byte that must be percent-encoded")]
    InvalidByte,
    /// `%` without two hexadecimal digits.
    #[error("the path holds a percent sign without two hexadecimal digits")]
    InvalidEscape,
    /// The path does not begin with a slash.
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    /// An ASCII character in an overlong UTF-8 form, such as `%C0%AE` for a dot.
    #[error("the path holds an overlong UTF-8 sequence")]
    Overlong,
    /// `/;x/` with servlet normalisation on: the segment would be empty.
    #[error("the path holds a segment of nothing but parameters")]
    ParametersOnly,
}

/// Brings `raw`, a path without its query, into canonical form.
///
/// The result borrows `raw` if it needs no change and has no escape, otherwise `scratch`. A caller that
/// cannot keep the borrow stores [`CanonicalPath::is_as_sent`] and later reads `raw` or
/// [`PathScratch::forward`] and [`PathScratch::decoded`].
///
/// # Errors
/// See [`PathError`]; the client is answered 400.
pub fn canonicalize<'a>(
    raw: &'a [u8],
    options: &PathOptions,
    scratch: &'a mut PathScratch,
) -> Result<CanonicalPath<'a>, PathError> {
    if raw.first() != Some(&b'/') {
        return Err(PathError::NotAbsolute);
    }
    if is_canonical(raw, options) {
        return Ok(CanonicalPath { forward: raw, decoded: raw, as_sent: true });
    }
    rewrite::rewrite(raw, options, &mut scratch.forward, &mut scratch.decoded)?;
    Ok(CanonicalPath { forward: &scratch.forward, decoded: &scratch.decoded, as_sent: false })
}

impl Default for PathOptions {
    fn default() -> Self {
        Self {
            merge_slashes: true,
            match_uri_encoded_slash: false,
            delete_uri_tail_slash: false,
            normalize_uri_like_servlet: false,
        }
    }
}

impl PathScratch {
    /// The forward form of the last path that was rewritten.
    #[must_use]
    pub fn forward(&self) -> &[u8] {
        &self.forward
    }

    /// The decoded form of the last path that was rewritten.
    #[must_use]
    pub fn decoded(&self) -> &[u8] {
        &self.decoded
    }
}

impl<'a> CanonicalPath<'a> {
    /// The bytes to send to an origin.
    #[must_use]
    pub fn forward(&self) -> &'a [u8] {
        self.forward
    }

    /// The bytes to match, to show to plugins and to log.
    #[must_use]
    pub fn decoded(&self) -> &'a [u8] {
        self.decoded
    }

    /// Whether both forms are borrowed from the path as it was sent. A path with an escape never is.
    #[must_use]
    pub fn is_as_sent(&self) -> bool {
        self.as_sent
    }
}

/// The fast check: true only if both forms equal `raw`. False may also mean that the path is refused;
/// `rewrite` decides.
fn is_canonical(raw: &[u8], options: &PathOptions) -> bool {
    let mut previous = 0;
    for (index, &byte) in raw.iter().enumerate() {
        match CLASS[usize::from(byte)] {
            PLAIN => {}
            SLASH => {
                if previous == b'/' && options.merge_slashes {
                    return false;
                }
            }
            DOT => {
                if previous == b'/' && is_dot_segment(&raw[index..]) {
                    return false;
                }
            }
            PARAMETER => {
                if options.normalize_uri_like_servlet {
                    return false;
                }
            }
            _ => return false,
        }
        previous = byte;
    }
    !(options.delete_uri_tail_slash && raw.len() > 1 && previous == b'/')
}

/// Whether the segment at the start of `rest` is `.` or `..`, alone or before parameters.
fn is_dot_segment(rest: &[u8]) -> bool {
    let dots = rest.iter().take(3).take_while(|&&byte| byte == b'.').count();
    let ends = matches!(rest.get(dots), None | Some(b'/' | &PARAMETER_MARK));
    ends && (dots == 1 || dots == 2)
}

const PLAIN: u8 = 0;
const SLASH: u8 = 1;
const DOT: u8 = 2;
const PARAMETER: u8 = 3;
const OTHER: u8 = 4;

/// The action of the scan for each byte. `OTHER` is an escape or a refused byte.
const CLASS: [u8; 256] = {
    let mut class = [PLAIN; 256];
    let mut byte = 0;
    while byte < 256 {
        if byte <= 0x20 || byte >= 0x7f {
            class[byte] = OTHER;
        }
        byte += 1;
    }
    class[b'/' as usize] = SLASH;
    class[b'.' as usize] = DOT;
    class[PARAMETER_MARK as usize] = PARAMETER;
    class[b'%' as usize] = OTHER;
    class[b'\\' as usize] = OTHER;
    class[b'#' as usize] = OTHER;
    class[b'?' as usize] = OTHER;
    class
};

#[cfg(test)]
mod tests;

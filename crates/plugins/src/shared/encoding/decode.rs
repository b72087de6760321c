//! Decodes whole bodies by their `Content-Encoding`, with limits: a few bytes of a hostile body may stand for
//! gigabytes. It knows no message.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};

use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use message::{FieldId, Headers};

/// Output up to this length is not held against the ratio, in bytes: short texts of one letter compress well.
const RATIO_FREE_BYTES: usize = 64 * 1024;
/// The most bytes of output for one byte of input. Deflate itself reaches 1,032; texts reach 20.
pub(crate) const RATIO_MAX: usize = 200;
/// Output that is made at a time, in bytes.
const STEP_BYTES: usize = 16 * 1024;
/// The largest window of Zstandard as a power of two: 8 MiB (RFC 9659).
const ZSTD_WINDOW_BITS_MAX: u32 = 23;
/// Bytes of input that the decoder of Brotli reads at a time.
const BROTLI_INPUT_BYTES: usize = 4 * 1024;

/// Why a body is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The coding is none that is known here, or there are several.
    UnknownCoding,
    /// The body is not in its coding, or is cut.
    Malformed,
    /// The decoded body is longer than the limit.
    TooLong,
    /// The decoded body is more than [`RATIO_MAX`] times as long as the coded one.
    TooDense,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(match self {
            DecodeError::UnknownCoding => "its Content-Encoding is not supported",
            DecodeError::Malformed => "it is not what its Content-Encoding says",
            DecodeError::TooLong => "it is too long when it is decoded",
            DecodeError::TooDense => "it is too much longer when it is decoded",
        })
    }
}

/// The codings of a message in one list: several `Content-Encoding` fields are one (RFC 9110 section 5.3).
/// Nothing if the body is not coded.
pub(crate) fn codings(headers: &Headers) -> Cow<'_, [u8]> {
    let mut lists = headers.get_all_known(FieldId::ContentEncoding);
    let Some(first) = lists.next() else { return Cow::Borrowed(b"") };
    let mut joined = Cow::Borrowed(first);
    for list in lists {
        let all = joined.to_mut();
        all.extend_from_slice(b", ");
        all.extend_from_slice(list);
    }
    if elements(&joined).next().is_none() { Cow::Borrowed(b"") } else { joined }
}

/// The codings of a list that change a body.
fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let changes = |coding: &&[u8]| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity");
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(changes)
}

/// Whether a list of codings is `deflate`, which some servers write although the body is in another form.
pub(crate) fn is_deflate(codings: &[u8]) -> bool {
    matches!(Coding::of(codings), Some(Coding::Deflate))
}

/// Whether [`decode_content`] knows the coding that a `Content-Encoding` names.
pub(crate) fn is_known(content_encoding: &[u8]) -> bool {
    Coding::of(content_encoding).is_some()
}

/// Decodes `body` by its `Content-Encoding`; the result has at most `limit_bytes`.
///
/// # Errors
/// See [`DecodeError`].
pub(crate) fn decode_content(
    content_encoding: &[u8],
    body: &[u8],
    limit_bytes: usize,
) -> Result<Vec<u8>, DecodeError> {
    let mut decoded = Vec::new();
    decode_into(content_encoding, body, limit_bytes, &mut decoded)?;
    Ok(decoded)
}

/// The beginning of a body, decoded by its `Content-Encoding`: at most `limit_bytes`, and less of a body that
/// is cut, malformed or too dense. Nothing if not a byte can be decoded.
pub(crate) fn decode_content_prefix(
    content_encoding: &[u8],
    body: &[u8],
    limit_bytes: usize,
) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    let whole = decode_into(content_encoding, body, limit_bytes, &mut decoded);
    (whole.is_ok() || !decoded.is_empty()).then_some(decoded)
}

/// As [`decode_content`]; `decoded` has the bytes before the error, too.
fn decode_into(
    content_encoding: &[u8],
    body: &[u8],
    limit_bytes: usize,
    decoded: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let malformed = |_: io::Error| DecodeError::Malformed;
    if body.is_empty() {
        // Nothing was coded, whatever the field says: many redirects come like this.
        return Ok(());
    }
    match Coding::of(content_encoding).ok_or(DecodeError::UnknownCoding)? {
        Coding::Identity => {
            decoded.extend_from_slice(&body[..body.len().min(limit_bytes)]);
            if body.len() > limit_bytes { Err(DecodeError::TooLong) } else { Ok(()) }
        }
        Coding::Gzip => read(MultiGzDecoder::new(body), body.len(), limit_bytes, decoded),
        Coding::Deflate if has_zlib_header(body) => {
            read(ZlibDecoder::new(body), body.len(), limit_bytes, decoded)
        }
        Coding::Deflate => read(DeflateDecoder::new(body), body.len(), limit_bytes, decoded),
        Coding::Brotli => {
            read(brotli::Decompressor::new(body, BROTLI_INPUT_BYTES), body.len(), limit_bytes, decoded)
        }
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(malformed)?;
            decoder.window_log_max(ZSTD_WINDOW_BITS_MAX).map_err(malformed)?;
            read(decoder, body.len(), limit_bytes, decoded)
        }
    }
}

#[derive(Clone, Copy)]
enum Coding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    fn of(content_encoding: &[u8]) -> Option<Coding> {
        let mut codings = elements(content_encoding);
        let Some(coding) = codings.next() else { return Some(Coding::Identity) };
        if codings.next().is_some() {
            return None;
        }
        let is = |name: &str| coding.eq_ignore_ascii_case(name.as_bytes());
        Some(match () {
            () if is("gzip") || is("x-gzip") => Coding::Gzip,
            () if is("deflate") => Coding::Deflate,
            () if is("br") => Coding::Brotli,
            () if is("zstd") => Coding::Zstd,
            () => return None,
        })
    }
}

/// Whether a body in `deflate` begins as the format says (RFC 1950); some servers send deflate without it.
fn has_zlib_header(body: &[u8]) -> bool {
    matches!(body, [method, flags, ..] if method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0)
}

fn read(
    mut decoder: impl Read,
    coded_bytes: usize,
    limit_bytes: usize,
    body: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let dense_bytes = coded_bytes.saturating_mul(RATIO_MAX).max(RATIO_FREE_BYTES);
    let mut step = [0; STEP_BYTES];
    loop {
        match decoder.read(&mut step) {
            Ok(0) => return Ok(()),
            Ok(count) if body.len() + count > limit_bytes => {
                body.extend_from_slice(&step[..limit_bytes - body.len()]);
                return Err(DecodeError::TooLong);
            }
            Ok(count) if body.len() + count > dense_bytes => return Err(DecodeError::TooDense),
            Ok(count) => body.extend_from_slice(&step[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(DecodeError::Malformed),
        }
    }
}

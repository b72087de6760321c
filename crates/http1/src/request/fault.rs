//! The fault of a request head that cannot be parsed. The verdict is that of a reader of single bytes, so
//! that it is the same however the bytes arrive. Complete heads are not its concern.

use std::mem::MaybeUninit;

use message::{HeadLimits, syntax};

use super::HOST_FIELDS;
use crate::HeadError;
use crate::limits::Limits;
use crate::line::{self, FieldSlots};

/// The first fault of the bytes that have come, in their order: bytes behind a limit are not looked at.
/// `None` as long as more bytes decide. Parses anew, a cost that only refused requests have.
#[cold]
#[inline(never)]
pub(super) fn first_fault(input: &[u8], skipped: usize, limits: &HeadLimits) -> Option<HeadError> {
    let size = line::size_fault(input, limits);
    let seen = size.map_or(input, |(seen_bytes, _)| &input[..seen_bytes]);
    let seen = seen.get(skipped..).unwrap_or_default();
    let (mut stack, mut heap): (FieldSlots<'_>, _) =
        ([const { MaybeUninit::uninit() }; Limits::FIELDS_ON_STACK], Vec::new());
    let slots = line::field_slots(&mut stack, &mut heap, limits.max_fields.saturating_add(HOST_FIELDS));
    let mut parsed = httparse::Request::new(&mut []);
    let fault = match parsed.parse_with_uninit_headers(seen, slots) {
        Ok(_) => None,
        Err(httparse::Error::Version) => version_fault(seen, parsed.method, parsed.path),
        Err(error) => Some(line::error_of(error, HeadError::RequestLine)),
    };
    fault.or(size.map(|(_, error)| error))
}

/// Tells a version that exists elsewhere from a line that is no request line (RFC 9112 sections 2.3 and 3):
/// 505 says that the line is good otherwise, which is known at its end.
fn version_fault(seen: &[u8], method: Option<&str>, target: Option<&str>) -> Option<HeadError> {
    let (Some(method), Some(target)) = (method, target) else { return Some(HeadError::RequestLine) };
    if !syntax::is_target(target.as_bytes()) {
        return Some(HeadError::TargetBytes);
    }
    let version = seen.get(method.len() + target.len() + b"  ".len()..).unwrap_or_default();
    let fits = |(byte, form): (&u8, &u8)| match form {
        // HTTP/0.9 requests have no version, and no other 0.x exists.
        b'1' => matches!(byte, b'1'..=b'9'),
        b'0' => byte.is_ascii_digit(),
        _ => byte == form,
    };
    if !version.iter().zip(VERSION_FORM).all(fits) {
        return Some(HeadError::RequestLine);
    }
    (version.len() >= VERSION_FORM.len()).then_some(HeadError::Version)
}

/// A version and the line's end; `1` stands for any digit but zero, `0` for any.
const VERSION_FORM: &[u8] = b"HTTP/1.0\r\n";

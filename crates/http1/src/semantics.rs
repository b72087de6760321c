//! The meaning of the fields of a head for the connection: framing, persistence, expectation, upgrade. It
//! sees each field once, in order, and does not know which kind of start line stood above them.

use message::{FieldId, Headers, Span, Version, syntax};

use crate::{HeadError, Limits};

/// The facts gathered from the fields of one head.
#[derive(Debug, Default)]
pub(crate) struct Semantics {
    pub(crate) content_length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) hosts: u32,
    expects: bool,
    pub(crate) expects_continue: bool,
    close: bool,
    keep_alive: bool,
    lists_upgrade: bool,
    nominates: bool,
    connection_options: u32,
}

impl Semantics {
    /// Takes in one field.
    pub(crate) fn see(&mut self, id: FieldId, value: &[u8]) -> Result<(), HeadError> {
        match id {
            FieldId::Host => self.hosts += 1,
            FieldId::ContentLength => self.see_content_length(value)?,
            FieldId::TransferEncoding => self.see_transfer_encoding(value)?,
            FieldId::Connection => self.see_connection(value)?,
            FieldId::Expect => {
                self.expects_continue = !self.expects && value.eq_ignore_ascii_case(b"100-continue");
                self.expects = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Refuses framing that two readers could understand differently (RFC 9112 section 6).
    pub(crate) fn check_framing(&self, version: Version) -> Result<(), HeadError> {
        if self.chunked && self.content_length.is_some() {
            return Err(HeadError::LengthAndCoding);
        }
        if self.chunked && version == Version::Http10 {
            return Err(HeadError::TransferEncodingVersion);
        }
        Ok(())
    }

    /// Whether the connection may carry another message (RFC 9112 section 9.3); `close` wins.
    pub(crate) fn persists(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }

    /// The Upgrade field's value when the Connection field lists it and the version has upgrades.
    pub(crate) fn upgrade(&self, version: Version, headers: &Headers) -> Option<Span> {
        if !self.lists_upgrade || version == Version::Http10 {
            return None;
        }
        headers.span_of(FieldId::Upgrade).filter(|span| !span.is_empty())
    }

    /// Marks what the Connection fields nominate. Rare, so it walks them a second time instead of storing
    /// them.
    pub(crate) fn apply_nominations(&self, headers: &mut Headers) {
        if !self.nominates {
            return;
        }
        for index in 0.. {
            let Some(value) = headers.nth_span_of(FieldId::Connection, index) else { return };
            let mut start = value.start as usize;
            while start < value.end as usize {
                let rest = &headers.text(Span::new(0, value.end as usize))[start..];
                let length = memchr::memchr(b',', rest).unwrap_or(rest.len());
                let element = syntax::trim(&rest[..length]);
                let offset = rest[..length].len() - rest[..length].trim_ascii_start().len();
                let name = Span::new(start + offset, start + offset + element.len());
                if !name.is_empty() {
                    headers.nominate(name);
                }
                start += length + 1;
            }
        }
    }

    fn see_content_length(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if self.content_length.is_some() {
            return Err(HeadError::ContentLengthRepeated);
        }
        let length = syntax::decimal(value).filter(|length| *length <= CONTENT_LENGTH_MAX);
        self.content_length = Some(length.ok_or(HeadError::ContentLength)?);
        Ok(())
    }

    fn see_transfer_encoding(&mut self, value: &[u8]) -> Result<(), HeadError> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(coding_error(value));
        }
        self.chunked = true;
        Ok(())
    }

    fn see_connection(&mut self, value: &[u8]) -> Result<(), HeadError> {
        for element in syntax::list(value).filter(|element| !element.is_empty()) {
            self.connection_options += 1;
            if self.connection_options > Limits::CONNECTION_OPTIONS {
                return Err(HeadError::Connection);
            }
            if element.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if element.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if element.eq_ignore_ascii_case(b"upgrade") {
                self.lists_upgrade = true;
            } else if syntax::is_token(element) {
                self.nominates = true;
            } else {
                return Err(HeadError::Connection);
            }
        }
        Ok(())
    }
}

/// The longest body that may be announced: 2^63 - 1 bytes. A peer that keeps lengths in a signed number of 64
/// bits, as nginx does, would read a larger one as negative.
pub(crate) const CONTENT_LENGTH_MAX: u64 = i64::MAX as u64;

/// Which refusal a Transfer-Encoding other than one `chunked` deserves: 501 for a coding that is merely
/// unknown, 400 for everything that leaves the length of the body in doubt.
pub(crate) fn coding_error(value: &[u8]) -> HeadError {
    let mut unknown = false;
    for coding in syntax::list(value) {
        let name = coding.split(|&byte| byte == b';').next().map(syntax::trim).unwrap_or_default();
        if !syntax::is_token(name) || name.eq_ignore_ascii_case(b"identity") {
            return HeadError::TransferEncoding;
        }
        if name.eq_ignore_ascii_case(b"chunked") {
            // Final and only once is right; but then another coding stands before it.
            let is_last = std::ptr::eq(coding.as_ptr_range().end, syntax::trim(value).as_ptr_range().end);
            if !is_last || !unknown || name.len() != coding.len() {
                return HeadError::TransferEncoding;
            }
        } else {
            unknown = true;
        }
    }
    HeadError::TransferCodingUnknown
}

//! Regular fields of a section: which are allowed, which mean something for the framing. It does not know
//! pseudo-fields.

use message::{FieldId, syntax};

use super::{HeadReader, Section};
use crate::field::{is_name, is_value};
use crate::{Field, Priority, pool};

type Verdict = Result<(), &'static str>;

impl HeadReader {
    /// Takes one field.
    #[inline]
    pub(super) fn take(&mut self, field: &Field<'_>) -> Verdict {
        if !field.is_valid {
            return match self.trimmed(field) {
                Some(field) => self.take(&field),
                None => Err("invalid byte in a field name or value"),
            };
        }
        if field.name.first() == Some(&b':') {
            if self.has_regular {
                return Err("pseudo-field behind a regular field");
            }
            return match self.section {
                Section::Request { extended } => self.request_pseudo(field, extended),
                Section::Response => self.response_pseudo(field),
                Section::Trailers => Err("pseudo-field in trailers"),
            };
        }
        self.has_regular = true;
        match field.id {
            FieldId::Connection
            | FieldId::KeepAlive
            | FieldId::ProxyConnection
            | FieldId::TransferEncoding
            | FieldId::Upgrade => {
                // Of a response they mean nothing here and go no further, so that they are worth no failure
                // of a request.
                let is_response = self.section == Section::Response;
                return if is_response { Ok(()) } else { Err("connection-specific field") };
            }
            FieldId::Te if !field.value.eq_ignore_ascii_case(b"trailers") => {
                return Err("TE other than trailers");
            }
            _ if self.section == Section::Trailers => {
                // As in HTTP/1, fields that must not be in trailers are dropped (RFC 9110 section 6.5.1).
                if !field.id.is_forbidden_in_trailers() {
                    self.push(field);
                }
                return Ok(());
            }
            FieldId::ContentLength => self.content_length(field.value)?,
            FieldId::Host => return self.host(field),
            FieldId::Cookie if self.is_request() => {
                self.crumb(field);
                return Ok(());
            }
            FieldId::Other if field.name == b"priority" && self.is_request() => {
                self.head.priority = Some(Priority::parse(field.value));
            }
            _ => {}
        }
        self.push(field);
        Ok(())
    }

    /// A field of a response without the white space at the ends of its value, if nothing else is wrong with
    /// it: HTTP/1 servers behind gateways of HTTP/2 write such values, and HTTP/1 ignores the white space.
    #[cold]
    fn trimmed<'f>(&self, field: &Field<'f>) -> Option<Field<'f>> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let start = field.value.iter().position(|byte| !is_blank(byte)).unwrap_or(field.value.len());
        let end = field.value.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
        let value = &field.value[start..end];
        let is_good = self.section == Section::Response && is_name(field.name) && is_value(value);
        is_good.then_some(Field { value, is_valid: true, ..*field })
    }

    /// Adds the Cookie field out of its crumbs.
    pub(super) fn end_cookie(&mut self) {
        self.head.headers.push_identified(b"cookie", &self.cookie, FieldId::Cookie);
        if self.is_cookie_sensitive {
            self.head.headers.mark_last_sensitive();
        }
        pool::give_bytes(std::mem::take(&mut self.cookie));
    }

    #[inline]
    fn push(&mut self, field: &Field<'_>) {
        self.head.headers.push_identified(field.name, field.value, field.id);
        if field.is_sensitive {
            self.head.headers.mark_last_sensitive();
        }
    }

    /// As in HTTP/1, a second Content-Length is refused even if it is equal.
    fn content_length(&mut self, value: &[u8]) -> Verdict {
        let length = syntax::decimal(value).filter(|length| *length <= CONTENT_LENGTH_MAX);
        match (length, self.head.content_length) {
            (Some(length), None) => {
                self.head.content_length = Some(length);
                Ok(())
            }
            (None, _) => Err("malformed Content-Length"),
            (_, Some(_)) => Err("more than one Content-Length"),
        }
    }

    /// A Host field agrees with `:authority`, which is stored as a Host field, or stands for it.
    fn host(&mut self, field: &Field<'_>) -> Verdict {
        if !self.is_request() {
            self.push(field);
            return Ok(());
        }
        if !self.has_host {
            return self.authority(field.value, field.is_sensitive);
        }
        let known = self.head.headers.text(self.head.spans.authority);
        if known.eq_ignore_ascii_case(field.value) { Ok(()) } else { Err("Host differs from the authority") }
    }

    fn crumb(&mut self, field: &Field<'_>) {
        if self.has_cookie {
            self.cookie.extend_from_slice(b"; ");
        } else {
            self.has_cookie = true;
            self.cookie = pool::take_bytes();
        }
        self.cookie.extend_from_slice(field.value);
        self.is_cookie_sensitive |= field.is_sensitive;
    }
}

/// The longest content that may be announced: 2^63 - 1 bytes, as in HTTP/1.
const CONTENT_LENGTH_MAX: u64 = i64::MAX as u64;

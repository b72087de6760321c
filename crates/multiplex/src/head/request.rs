//! Pseudo-fields of requests (RFC 9113 section 8.3.1 and 8.5, RFC 8441): their values, and which must and
//! must not be there. It does not know regular fields.

use message::{FieldId, Method, Span, syntax};

use super::{HeadReader, Scheme};
use crate::Field;

type Verdict = Result<(), &'static str>;

impl HeadReader {
    /// Takes one pseudo-field of a request.
    #[inline]
    pub(super) fn request_pseudo(&mut self, field: &Field<'_>, extended: bool) -> Verdict {
        match field.name {
            b":method" => {
                self.once(METHOD)?;
                self.method(field.value)
            }
            b":scheme" => {
                self.once(SCHEME)?;
                self.scheme(field.value)
            }
            b":path" => {
                self.once(PATH)?;
                self.path(field.value)
            }
            b":authority" => {
                self.once(AUTHORITY)?;
                self.authority(field.value, field.is_sensitive)
            }
            b":protocol" if extended => {
                self.once(PROTOCOL)?;
                if !syntax::is_token(field.value) {
                    return Err("malformed :protocol");
                }
                self.head.spans.upgrade = Some(self.head.headers.keep_text(field.value));
                Ok(())
            }
            _ => Err("unknown pseudo-field"),
        }
    }

    /// Marks a pseudo-field as seen.
    #[inline]
    pub(super) fn once(&mut self, bit: u8) -> Verdict {
        if self.pseudo & bit != 0 {
            return Err("repeated pseudo-field");
        }
        self.pseudo |= bit;
        Ok(())
    }

    /// Stores the authority, as a Host field too, so that a reader of fields finds it as in HTTP/1.
    pub(super) fn authority(&mut self, value: &[u8], is_sensitive: bool) -> Verdict {
        if !syntax::is_authority(value) {
            return Err("malformed authority");
        }
        self.has_host = true;
        let headers = &mut self.head.headers;
        headers.push_identified(b"host", value, FieldId::Host);
        if is_sensitive {
            headers.mark_last_sensitive();
        }
        self.head.spans.authority = headers.span_of(FieldId::Host).unwrap_or_default();
        Ok(())
    }

    /// Checks that the pseudo-fields belong together.
    pub(super) fn complete_request(&mut self) -> Verdict {
        let seen = |bits: u8| self.pseudo & bits == bits;
        if !seen(METHOD) {
            return Err("missing :method");
        }
        if self.head.method == Method::Connect && !seen(PROTOCOL) {
            // RFC 9113 section 8.5: the authority is the target, and nothing else is there.
            if self.pseudo & (SCHEME | PATH) != 0 || !seen(AUTHORITY) {
                return Err("CONNECT with :scheme or :path, or without :authority");
            }
            self.head.spans.target = self.head.spans.authority;
            self.head.spans.path = self.head.spans.authority;
            return Ok(());
        }
        if !seen(SCHEME | PATH) {
            return Err("missing :scheme or :path");
        }
        if seen(PROTOCOL) && (self.head.method != Method::Connect || !seen(AUTHORITY)) {
            return Err(":protocol without CONNECT or :authority");
        }
        let target = self.head.headers.text(self.head.spans.target);
        match (target.first(), self.head.method) {
            (Some(b'/'), _) => Ok(()),
            (Some(b'*'), Method::Options) if target.len() == 1 => Ok(()),
            _ => Err(":path does not begin with a slash"),
        }
    }

    #[inline]
    fn method(&mut self, value: &[u8]) -> Verdict {
        self.head.method = Method::of(value);
        if self.head.method == Method::Other && !syntax::is_token(value) {
            return Err("malformed :method");
        }
        self.head.spans.method = self.head.headers.keep_text(value);
        Ok(())
    }

    fn scheme(&mut self, value: &[u8]) -> Verdict {
        self.head.scheme = match value {
            b"https" => Scheme::Https,
            b"http" => Scheme::Http,
            _ if value.eq_ignore_ascii_case(b"https") => Scheme::Https,
            _ if value.eq_ignore_ascii_case(b"http") => Scheme::Http,
            _ => Scheme::Other,
        };
        let is_tail = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        // RFC 3986 section 3.1.
        let is_scheme = value.first().is_some_and(u8::is_ascii_alphabetic) && value.iter().all(is_tail);
        if is_scheme { Ok(()) } else { Err("malformed :scheme") }
    }

    fn path(&mut self, value: &[u8]) -> Verdict {
        if value.is_empty() || !syntax::is_target(value) {
            return Err("malformed :path");
        }
        let target = self.head.headers.keep_text(value);
        let (start, end) = (target.start as usize, target.end as usize);
        let mark = value.iter().position(|&byte| byte == b'?');
        let spans = &mut self.head.spans;
        spans.target = target;
        spans.path = Span::new(start, mark.map_or(end, |mark| start + mark));
        spans.query = mark.map(|mark| Span::new(start + mark + 1, end));
        Ok(())
    }
}

const METHOD: u8 = 1;
const SCHEME: u8 = 2;
const PATH: u8 = 4;
const AUTHORITY: u8 = 8;
const PROTOCOL: u8 = 16;

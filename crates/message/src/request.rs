//! Request heads: the method, the target and the fields of a request, with their own storage.

use crate::{FieldError, Headers, Method, Span, Version, syntax};

/// A request head with its own storage. Keep one per exchange: reuse makes reading requests free of
/// allocations.
#[derive(Debug, Clone, Default)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The version.
    pub version: Version,
    /// The fields.
    pub headers: Headers,
    /// Where the texts of the request lie in the storage of `headers`.
    pub spans: RequestSpans,
}

/// Where the texts of a request lie in the storage of its fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestSpans {
    /// The method as it was sent.
    pub method: Span,
    /// The whole target as it was sent.
    pub target: Span,
    /// The path of the target.
    pub path: Span,
    /// The query of the target, without its question mark.
    pub query: Option<Span>,
    /// Host and port.
    pub authority: Span,
    /// The protocol that the client asks to switch to: the Upgrade field of HTTP/1.1 where Connection lists
    /// it, `:protocol` of an extended CONNECT (RFC 8441).
    pub upgrade: Option<Span>,
}

/// Why a request head cannot be made of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// The method is not a token (RFC 9110 section 9.1).
    Method,
    /// The target has control characters, raw bytes above 0x7E, or a fragment.
    Target,
    /// The authority is not `host [":" port]`.
    Authority,
}

impl RequestError {
    /// The fault as a sentence without a full stop.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Method => "malformed request line",
            Self::Target => "invalid character in the request target",
            Self::Authority => "invalid Host",
        }
    }
}

impl RequestHead {
    /// A head without memory of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        let mut headers = std::mem::take(&mut self.headers);
        headers.clear();
        *self = Self { headers, ..Self::default() };
    }

    /// Makes this the head of a request without fields, from parts as HTTP/2 and HTTP/3 send them: `target`
    /// is a path with its query, `authority` host and port, empty where there is none.
    ///
    /// # Errors
    /// The part that is malformed. The head is empty then.
    pub fn set(
        &mut self,
        version: Version,
        method: &[u8],
        authority: &[u8],
        target: &[u8],
    ) -> Result<(), RequestError> {
        self.clear();
        if !syntax::is_token(method) {
            return Err(RequestError::Method);
        }
        if target.is_empty() || !syntax::is_target(target) {
            return Err(RequestError::Target);
        }
        if !authority.is_empty() && !syntax::is_authority(authority) {
            return Err(RequestError::Authority);
        }
        self.version = version;
        self.method = Method::of(method);
        let keep = |headers: &mut Headers, text: &[u8]| headers.keep_text(text);
        let (method, target_span) = (keep(&mut self.headers, method), keep(&mut self.headers, target));
        let authority = keep(&mut self.headers, authority);
        let (path, query) = split_query(target, target_span.start as usize);
        self.spans = RequestSpans { method, target: target_span, path, query, authority, upgrade: None };
        Ok(())
    }

    /// The path as it was sent, without the query; `/` for an absolute target without one, `*` for the
    /// asterisk form, the whole target for the authority form.
    pub fn path(&self) -> &[u8] {
        if self.spans.path.is_empty() { b"/" } else { self.headers.text(self.spans.path) }
    }

    /// The query as it was sent, without its question mark; `Some` and empty when only the mark was there.
    pub fn query(&self) -> Option<&[u8]> {
        self.spans.query.map(|span| self.headers.text(span))
    }

    /// Host and port the request is for, as it was sent; empty when there is neither.
    pub fn authority(&self) -> &[u8] {
        self.headers.text(self.spans.authority)
    }

    /// The method as it was sent.
    pub fn method_text(&self) -> &[u8] {
        self.headers.text(self.spans.method)
    }

    /// Replaces the method. The caller makes sure that the response still suits the client: one to HEAD has
    /// no body (RFC 9110 section 9.3.2).
    ///
    /// # Errors
    /// The text is not a token (RFC 9110 section 9.1).
    pub fn set_method(&mut self, method: &str) -> Result<(), FieldError> {
        if !syntax::is_token(method.as_bytes()) {
            return Err(FieldError::Name);
        }
        self.method = Method::of(method.as_bytes());
        self.spans.method = self.headers.keep_text(method.as_bytes());
        Ok(())
    }

    /// Replaces the query of the target; without one the question mark goes too. The caller makes sure that
    /// the text can stand in a target.
    pub fn set_query(&mut self, query: Option<&[u8]>) {
        let old = self.spans.target;
        let mut target = self.target_text().to_vec();
        target.truncate(memchr::memchr(b'?', &target).unwrap_or(target.len()));
        let end = target.len();
        if let Some(query) = query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        let new = self.headers.keep_text(&target);
        let start = new.start as usize;
        if !self.spans.path.is_empty() {
            let offset = (self.spans.path.start - old.start) as usize;
            self.spans.path = Span::new(start + offset, start + offset + self.spans.path.len());
        }
        self.spans.query = query.map(|_| Span::new(start + end + 1, new.end as usize));
        self.spans.target = new;
    }

    /// The whole target as it was sent.
    pub fn target_text(&self) -> &[u8] {
        self.headers.text(self.spans.target)
    }

    /// The protocol that the client asks to switch to, if it asks for one.
    pub fn upgrade_text(&self) -> Option<&[u8]> {
        self.spans.upgrade.map(|span| self.headers.text(span))
    }
}

/// The spans of the path and of the query of a target that begins at `offset`.
fn split_query(target: &[u8], offset: usize) -> (Span, Option<Span>) {
    let mark = memchr::memchr(b'?', target);
    let end = offset + target.len();
    let path = Span::new(offset, offset + mark.unwrap_or(target.len()));
    (path, mark.map(|mark| Span::new(offset + mark + 1, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_replaced_and_the_path_stays() {
        let check = |target: &[u8], query: Option<&[u8]>, expected: &[u8]| {
            let mut head = RequestHead::new();
            head.set(Version::Http2, b"GET", b"a", target).unwrap();
            let path = head.path().to_vec();
            head.set_query(query);
            assert_eq!(head.target_text(), expected);
            assert_eq!((head.path(), head.query()), (&*path, query));
        };
        check(b"/a?b=c", Some(b"d"), b"/a?d");
        check(b"/a?b?c", None, b"/a");
        check(b"/a", Some(b"longer=than-before"), b"/a?longer=than-before");
        check(b"/?b", Some(b""), b"/?");
    }

    #[test]
    fn head_made_of_parts_reads_like_a_parsed_one() {
        let mut head = RequestHead::new();
        head.set(Version::Http2, b"POST", b"a.example:8443", b"/a/b?x=1").unwrap();
        head.headers.append("Accept", b"*/*").unwrap();
        assert_eq!((head.method, head.method_text()), (Method::Post, &b"POST"[..]));
        assert_eq!((head.path(), head.query()), (&b"/a/b"[..], Some(&b"x=1"[..])));
        assert_eq!((head.target_text(), head.authority()), (&b"/a/b?x=1"[..], &b"a.example:8443"[..]));
        assert_eq!(head.headers.get("accept"), Some(&b"*/*"[..]));
        head.set(Version::Http2, b"GET", b"", b"/?").unwrap();
        assert_eq!((head.path(), head.query(), head.authority()), (&b"/"[..], Some(&b""[..]), &b""[..]));
        assert!(head.headers.is_empty());
    }

    #[test]
    fn malformed_parts_leave_the_head_empty() {
        let check = |method: &[u8], authority: &[u8], target: &[u8], error: RequestError| {
            let mut head = RequestHead::new();
            assert_eq!(head.set(Version::Http2, method, authority, target), Err(error));
            assert_eq!(head.target_text(), b"");
        };
        check(b"GE T", b"a", b"/", RequestError::Method);
        check(b"", b"a", b"/", RequestError::Method);
        check(b"GET", b"a", b"", RequestError::Target);
        check(b"GET", b"a", b"/a b", RequestError::Target);
        check(b"GET", b"a", b"/a#b", RequestError::Target);
        check(b"GET", b"a/b", b"/", RequestError::Authority);
        check(b"GET", b"user@a", b"/", RequestError::Authority);
    }
}

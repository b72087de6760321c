//! Heads of HTTP/1 messages: the start line, the field lines, and the fields that decide where the body ends.

use memchr::memchr;

use crate::Fault;
use crate::body::Body;

/// A head within the bytes it was read from; `L` is its start line.
#[derive(Debug, PartialEq, Eq)]
pub struct Head<'a, L> {
    /// The start line.
    pub line: L,
    /// The field lines with their line ends, without the empty line.
    pub fields: &'a [u8],
    /// The length of the head with its empty line.
    pub bytes: usize,
    /// The fields that concern the connection and the body.
    pub facts: Facts,
}

/// The fields of a head that concern the connection and the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The value of `Content-Length`.
    pub length: Option<u64>,
    /// Whether `Transfer-Encoding` is `chunked`.
    pub is_chunked: bool,
    /// Whether the client waits for a 100 before it sends its body.
    pub expects_continue: bool,
    /// `keep-alive` or `close` in `Connection`.
    keeps: Option<bool>,
}

/// The start line of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine<'a> {
    /// The method, as sent.
    pub method: &'a [u8],
    /// The target, as sent.
    pub target: &'a [u8],
    /// Whether it is HTTP/1.1 rather than 1.0.
    pub is_1_1: bool,
}

/// The start line of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLine {
    /// Three digits.
    pub status: u16,
    /// Whether it is HTTP/1.1 rather than 1.0.
    pub is_1_1: bool,
}

/// The head at the start of `input`, `None` while it is incomplete. `start` reads the start line, see
/// [`request_line`] and [`status_line`].
///
/// # Errors
/// A line without CRLF, a faulty start line, and framing fields that no peer may send.
pub fn parse<'a, L>(
    input: &'a [u8],
    start: impl FnOnce(&'a [u8]) -> Result<L, Fault>,
) -> Result<Option<Head<'a, L>>, Fault> {
    let Some(end) = memchr(b'\n', input) else { return Ok(None) };
    let line = start(without_cr(&input[..end])?)?;
    let (mut facts, mut at) = (Facts::default(), end + 1);
    loop {
        let Some(length) = memchr(b'\n', &input[at..]) else { return Ok(None) };
        let field = without_cr(&input[at..at + length])?;
        let next = at + length + 1;
        if field.is_empty() {
            return Ok(Some(Head { line, fields: &input[end + 1..at], bytes: next, facts }));
        }
        facts.take(field)?;
        at = next;
    }
}

/// Reads the start line of a request.
///
/// # Errors
/// It does not have three parts, or another version than 1.0 and 1.1.
pub fn request_line(line: &[u8]) -> Result<RequestLine<'_>, Fault> {
    let mut parts = line.split(|&byte| byte == b' ');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(method @ [_, ..]), Some(target @ [_, ..]), Some(version), None) => {
            let is_1_1 = is_1_1(version).ok_or(Fault("a request line of another version"))?;
            Ok(RequestLine { method, target, is_1_1 })
        }
        _ => Err(Fault("a request line without three parts")),
    }
}

/// Reads the start line of a response.
///
/// # Errors
/// It is no status line of HTTP/1.
pub fn status_line(line: &[u8]) -> Result<StatusLine, Fault> {
    let (Some(is_1_1), Some(b' ')) = (line.get(..8).and_then(is_1_1), line.get(8)) else {
        return Err(Fault("something that begins with no HTTP/1 status line"));
    };
    match (line.get(9..12), line.get(12)) {
        (Some([a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']), None | Some(b' ')) => {
            let status = u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0');
            Ok(StatusLine { status, is_1_1 })
        }
        _ => Err(Fault("a status that is no number of three digits")),
    }
}

/// Splits a field line into its name and its value without the blanks around it; `None` if it has no colon.
pub fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr(b':', line)?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

impl Facts {
    /// Whether the connection can serve another request after this message.
    pub fn keeps_alive(&self, is_1_1: bool) -> bool {
        self.keeps.unwrap_or(is_1_1)
    }

    /// The body that the fields announce; `None` if they announce none (RFC 9112 6.3).
    ///
    /// # Errors
    /// Both a length and chunks.
    pub fn body(&self) -> Result<Option<Body>, Fault> {
        match (self.is_chunked, self.length) {
            (true, Some(_)) => Err(Fault("both Transfer-Encoding and Content-Length")),
            (true, None) => Ok(Some(Body::CHUNKED)),
            (false, length) => Ok(length.map(Body::of_length)),
        }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), Fault> {
        // The first letter rules out nearly every field, because this runs for every field of every message.
        if !matches!(line[0] | 0x20, b'c' | b't' | b'e') {
            return Ok(());
        }
        let (name, value) = split_field(line).ok_or(Fault("a field without a colon"))?;
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value).ok_or(Fault("a Content-Length that is no number"))?;
            if self.length.is_some_and(|other| other != length) {
                return Err(Fault("two Content-Lengths"));
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(UNKNOWN_CODING);
            }
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"connection") {
            for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                if option.eq_ignore_ascii_case(b"close") {
                    self.keeps = Some(false);
                } else if option.eq_ignore_ascii_case(b"keep-alive") {
                    self.keeps = Some(true);
                }
            }
        } else if name.eq_ignore_ascii_case(b"expect") {
            self.expects_continue = value.eq_ignore_ascii_case(b"100-continue");
        }
        Ok(())
    }
}

/// A transfer coding other than `chunked`; an origin answers it with 501.
pub const UNKNOWN_CODING: Fault = Fault("a Transfer-Encoding other than chunked");

fn is_1_1(version: &[u8]) -> Option<bool> {
    match version {
        b"HTTP/1.1" => Some(true),
        b"HTTP/1.0" => Some(false),
        _ => None,
    }
}

fn without_cr(line: &[u8]) -> Result<&[u8], Fault> {
    line.strip_suffix(b"\r").ok_or(Fault("a line of a head that ends without CR"))
}

fn number(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok()?;
    // `parse` would take a sign as well.
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_heads_are_read() {
        let check = |fields: &str, version: &str, body: Option<Body>, keeps_alive: bool| {
            let text = format!("PUT /x HTTP/{version}\r\n{fields}\r\nrest");
            let head = parse(text.as_bytes(), request_line).unwrap().unwrap();
            assert_eq!((head.line.method, head.line.target), (&b"PUT"[..], &b"/x"[..]));
            assert_eq!(head.fields, fields.as_bytes());
            assert_eq!(
                (head.facts.body(), head.facts.keeps_alive(head.line.is_1_1), head.bytes),
                (Ok(body), keeps_alive, text.len() - 4),
                "{text}"
            );
        };
        check("", "1.1", None, true);
        check("Host: a\r\n", "1.0", None, false);
        check("CONNECTION: Keep-Alive\r\n", "1.0", None, true);
        check("Connection: upgrade, close\r\n", "1.1", None, false);
        check("Content-Length: 12\r\n", "1.1", Some(Body::of_length(12)), true);
        check("Content-Length: 0\r\n", "1.1", Some(Body::WHOLE), true);
        check("Transfer-Encoding: chunked\r\n", "1.1", Some(Body::CHUNKED), true);
    }

    #[test]
    fn faulty_requests_differ_from_partial_ones() {
        let check = |text: &str, wanted: Result<bool, &str>| {
            let found = parse(text.as_bytes(), request_line).map(|head| head.is_some());
            assert_eq!(found.map_err(|fault| fault.0), wanted, "{text:?}");
        };
        check("", Ok(false));
        check("GET / HTTP/1.1\r\nA: b\r", Ok(false));
        check("GET / HTTP/1.1\r\n\r\n", Ok(true));
        check("GET /\r\n\r\n", Err("a request line without three parts"));
        check("GET  HTTP/1.1\r\n\r\n", Err("a request line without three parts"));
        check("GET / HTTP/2.0\r\n\r\n", Err("a request line of another version"));
        check("GET / HTTP/1.1\nA: b\n\n", Err("a line of a head that ends without CR"));
        check("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", Err("a Content-Length that is no number"));
        check("GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", Err("a Content-Length that is no number"));
        check("GET / HTTP/1.1\r\nContent-Length: \r\n\r\n", Err("a Content-Length that is no number"));
        check("GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", Err(UNKNOWN_CODING.0));
    }
}

//! Just enough of a request for the echo origin: its line, its fields and where its body ends. Does no I/O.

use std::io;

/// A request head within the bytes it was read from.
#[derive(Debug)]
pub(super) struct Head<'a> {
    /// The method, as sent.
    pub(super) method: &'a [u8],
    /// The target, as sent.
    pub(super) target: &'a [u8],
    /// Whether it is HTTP/1.1 rather than 1.0.
    pub(super) is_1_1: bool,
    /// The field lines with their line ends, without the empty line.
    pub(super) fields: &'a [u8],
    /// How the body ends.
    pub(super) body: Body,
    /// Whether the connection serves another request.
    pub(super) keep_alive: bool,
    /// Whether the client waits for a 100 before it sends its body.
    pub(super) expects_continue: bool,
    /// The length of the head with its empty line.
    pub(super) bytes: usize,
}

/// What is left of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// A chunk size line comes, or the trailers once `last` was seen.
    Line { last: bool },
    /// So many bytes of a chunk, then its line end.
    Chunk(u64),
}

/// What one look at the input gave.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Bytes of input that are done with.
    pub(super) used: usize,
    /// How many of them were data.
    pub(super) data: u64,
    /// Whether the body is complete.
    pub(super) done: bool,
}

/// The head at the start of `input`, `None` while it is incomplete, or the status that refuses it.
pub(super) fn parse_head(input: &[u8]) -> Result<Option<Head<'_>>, u16> {
    let Some(line_end) = find_line_end(input) else { return incomplete(input) };
    let mut parts = input[..line_end].split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(400);
    };
    let is_1_1 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        _ => return Err(400),
    };
    let fields = line_end + 2;
    let mut head = Head {
        method,
        target,
        is_1_1,
        fields: &[],
        body: Body::None,
        keep_alive: is_1_1,
        expects_continue: false,
        bytes: 0,
    };
    let mut at = fields;
    loop {
        let Some(length) = find_line_end(&input[at..]) else { return incomplete(input) };
        if length == 0 {
            head.fields = &input[fields..at];
            head.bytes = at + 2;
            return Ok(Some(head));
        }
        head.take_field(&input[at..at + length])?;
        at += length + 2;
    }
}

/// Splits a field line into its name and its value without the blanks around it.
pub(super) fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

impl Head<'_> {
    fn take_field(&mut self, line: &[u8]) -> Result<(), u16> {
        // Nearly every field is passed over by its first letter.
        if !matches!(line[0] | 0x20, b'c' | b't' | b'e') {
            return Ok(());
        }
        let (name, value) = split_field(line).ok_or(400_u16)?;
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or(400_u16)?;
            if self.body == Body::None && length > 0 {
                self.body = Body::Length(length);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(501);
            }
            self.body = Body::Line { last: false };
        } else if name.eq_ignore_ascii_case(b"connection") {
            for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                if option.eq_ignore_ascii_case(b"close") {
                    self.keep_alive = false;
                } else if option.eq_ignore_ascii_case(b"keep-alive") {
                    self.keep_alive = true;
                }
            }
        } else if name.eq_ignore_ascii_case(b"expect") {
            self.expects_continue = value.eq_ignore_ascii_case(b"100-continue");
        }
        Ok(())
    }
}

impl Body {
    /// Takes what it can of `input`. Fails when chunks are not what RFC 9112 7.1 says.
    pub(super) fn consume(&mut self, input: &[u8]) -> io::Result<Step> {
        let mut step = Step::default();
        loop {
            let rest = &input[step.used..];
            match *self {
                Body::None => step.done = true,
                Body::Length(left) | Body::Chunk(left) if left > 0 => {
                    let taken = left.min(rest.len() as u64);
                    step.used += taken as usize;
                    step.data += taken;
                    let left = left - taken;
                    *self =
                        if matches!(self, Body::Length(_)) { Body::Length(left) } else { Body::Chunk(left) };
                    if left > 0 {
                        return Ok(step);
                    }
                    continue;
                }
                Body::Length(_) => step.done = true,
                Body::Chunk(_) | Body::Line { .. } => {
                    let Some(length) = find_line_end(rest) else { return Ok(step) };
                    step.used += length + 2;
                    step.done = self.take_line(&rest[..length])?;
                }
            }
            if step.done {
                return Ok(step);
            }
        }
    }

    /// Takes a line of the framing; true when it ended the body.
    fn take_line(&mut self, line: &[u8]) -> io::Result<bool> {
        *self = match *self {
            Body::Line { last: true } => return Ok(line.is_empty()),
            Body::Chunk(_) if line.is_empty() => Body::Line { last: false },
            Body::Line { last: false } => {
                let size = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
                let size = std::str::from_utf8(size).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
                match size {
                    Some(0) => Body::Line { last: true },
                    Some(size) => Body::Chunk(size),
                    None => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(false)
    }
}

/// Nothing yet, unless there is no room for the rest.
fn incomplete<'a>(input: &[u8]) -> Result<Option<Head<'a>>, u16> {
    if input.len() >= super::INPUT_BYTES { Err(431) } else { Ok(None) }
}

/// Where the first CRLF begins.
fn find_line_end(input: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + input[from..].iter().position(|&byte| byte == b'\r')?;
        match input.get(at + 1) {
            Some(b'\n') => return Some(at),
            Some(_) => from = at + 1,
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let check = |fields: &str, version: &str, body: Body, keep_alive: bool| {
            let text = format!("PUT /x HTTP/{version}\r\n{fields}\r\nrest");
            let head = parse_head(text.as_bytes()).unwrap().unwrap();
            assert_eq!((head.method, head.target), (&b"PUT"[..], &b"/x"[..]));
            assert_eq!(
                (head.body, head.keep_alive, head.bytes),
                (body, keep_alive, text.len() - 4),
                "{text}"
            );
        };
        check("", "1.1", Body::None, true);
        check("Host: a\r\n", "1.0", Body::None, false);
        check("CONNECTION: Keep-Alive\r\n", "1.0", Body::None, true);
        check("Connection: upgrade, close\r\n", "1.1", Body::None, false);
        check("Content-Length: 12\r\n", "1.1", Body::Length(12), true);
        check("Content-Length: 0\r\n", "1.1", Body::None, true);
        check("Transfer-Encoding: chunked\r\n", "1.1", Body::Line { last: false }, true);
    }

    #[test]
    fn refusals_and_partial_heads() {
        let check = |text: &str, wanted: Result<bool, u16>| {
            assert_eq!(parse_head(text.as_bytes()).map(|head| head.is_some()), wanted, "{text:?}");
        };
        check("", Ok(false));
        check("GET / HTTP/1.1\r\nA: b\r", Ok(false));
        check("GET / HTTP/1.1\r\n\r\n", Ok(true));
        check("GET /\r\n\r\n", Err(400));
        check("GET / HTTP/2.0\r\n\r\n", Err(400));
        check("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", Err(400));
        check("GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", Err(501));
        check(&"a".repeat(super::super::INPUT_BYTES), Err(431));
    }

    #[test]
    fn bodies_in_any_pieces() {
        let check = |body: Body, text: &str, data: u64| {
            for piece in 1..=text.len() {
                let (mut left, mut seen, mut from, mut to) = (body, 0, 0, 0);
                loop {
                    to = (to + piece).min(text.len());
                    let step = left.consume(&text.as_bytes()[from..to]).unwrap();
                    (seen, from) = (seen + step.data, from + step.used);
                    if step.done {
                        break;
                    }
                    assert!(to < text.len(), "{text:?} did not end");
                }
                assert_eq!((seen, from), (data, text.len() - 4), "{text:?} by {piece}");
            }
        };
        check(Body::Length(5), "helloNEXT", 5);
        check(Body::Line { last: false }, "5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\nNEXT", 15);
        assert!(Body::Line { last: false }.consume(b"zz\r\n").is_err());
        assert!(Body::Line { last: false }.consume(b"1\r\nab\r\n").is_err());
    }
}

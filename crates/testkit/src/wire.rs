//! Reads HTTP/1 messages from a blocking socket, strictly and simply; does not know who is client or origin.
//!
//! Strict on purpose: bare LF, a chunk size that is not hexadecimal or a body cut short is an error here, so that a
//! test notices a gateway that writes it.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;

/// One end of a connection, with the bytes read ahead.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    ahead: Vec<u8>,
    /// Every byte taken since [`Wire::start_record`], for the message of a failed read.
    record: Vec<u8>,
}

/// A message's start line and fields, as sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) raw: Vec<u8>,
    pub(crate) start_line: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// What a body held: its first bytes up to a limit, how long it was in all, and its trailers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    pub(crate) kept: Vec<u8>,
    pub(crate) length: u64,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        Wire { stream, ahead: Vec::new(), record: Vec::new() }
    }

    /// Bytes that were read but belong to no message yet.
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.ahead
    }

    /// Forgets the record; what is taken from here on is recorded anew (up to [`RECORD_LIMIT`]).
    pub(crate) fn start_record(&mut self) {
        self.record.clear();
    }

    /// The bytes taken since the last [`Wire::start_record`], then those read ahead.
    pub(crate) fn received(&self) -> Vec<u8> {
        [self.record.as_slice(), self.ahead.as_slice()].concat()
    }

    /// The next head, or `None` when the peer closed before its first byte.
    pub(crate) fn read_head(&mut self) -> io::Result<Option<Head>> {
        let end = loop {
            if let Some(at) = find(&self.ahead, b"\r\n\r\n") {
                break at + 4;
            }
            if self.ahead.len() > HEAD_LIMIT {
                return Err(bad("a head longer than the test peer accepts"));
            }
            if !self.fill()? {
                return if self.ahead.is_empty() { Ok(None) } else { Err(cut("within a head")) };
            }
        };
        let raw = self.take(end);
        let text = String::from_utf8_lossy(&raw[..end - 4]).into_owned();
        let mut lines = text.split("\r\n");
        let start_line = lines.next().unwrap_or_default().to_owned();
        let headers = lines.map(field).collect::<io::Result<_>>()?;
        Ok(Some(Head { raw, start_line, headers }))
    }

    /// A whole body; keeps its first `keep` bytes and counts the rest.
    pub(crate) fn read_body(&mut self, framing: Framing, keep: usize) -> io::Result<Body> {
        let mut body = Body::default();
        match framing {
            Framing::Length(length) => self.read_length(length, keep, &mut body)?,
            Framing::Chunked => self.read_chunked(keep, &mut body)?,
            Framing::UntilClose => loop {
                let length = self.ahead.len() as u64;
                self.read_length(length, keep, &mut body)?;
                if !self.fill()? {
                    break;
                }
            },
        }
        Ok(body)
    }

    fn read_length(&mut self, length: u64, keep: usize, body: &mut Body) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            if self.ahead.is_empty() && !self.fill()? {
                return Err(cut("within a body"));
            }
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(self.ahead.len());
            let bytes = self.take(step);
            let room = keep.saturating_sub(body.kept.len()).min(step);
            body.kept.extend_from_slice(&bytes[..room]);
            body.length += step as u64;
            left -= step as u64;
        }
        Ok(())
    }

    fn read_chunked(&mut self, keep: usize, body: &mut Body) -> io::Result<()> {
        loop {
            let line = self.read_line()?;
            let size = line.split(';').next().unwrap_or_default();
            if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(bad(&format!("chunk size {line:?} is not hexadecimal")));
            }
            let size = u64::from_str_radix(size, 16).map_err(|_| bad("a chunk size beyond 64 bits"))?;
            if size == 0 {
                break;
            }
            self.read_length(size, keep, body)?;
            if !self.read_line()?.is_empty() {
                return Err(bad("a chunk longer than its size"));
            }
        }
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                return Ok(());
            }
            body.trailers.push(field(&line)?);
        }
    }

    fn read_line(&mut self) -> io::Result<String> {
        let end = loop {
            if let Some(at) = find(&self.ahead, b"\r\n") {
                break at + 2;
            }
            if !self.fill()? {
                return Err(cut("within a line"));
            }
        };
        let line = self.take(end);
        Ok(String::from_utf8_lossy(&line[..end - 2]).into_owned())
    }

    /// Reads once; false when the peer closed.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        let mut block = [0; READ_BLOCK];
        loop {
            match self.stream.read(&mut block) {
                Ok(length) => {
                    self.ahead.extend_from_slice(&block[..length]);
                    return Ok(length > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the first `length` bytes read ahead.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.ahead.split_off(length);
        let taken = std::mem::replace(&mut self.ahead, rest);
        let room = RECORD_LIMIT.saturating_sub(self.record.len()).min(taken.len());
        self.record.extend_from_slice(&taken[..room]);
        taken
    }
}

impl Head {
    /// The first value of a field, by name in any case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The framing that the fields announce, `None` when they announce none (RFC 9112 6.3).
    pub(crate) fn announced(&self) -> io::Result<Option<Framing>> {
        let count =
            |wanted: &str| self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).count();
        if count("transfer-encoding") > 1 || count("content-length") > 1 {
            return Err(bad("framing said twice"));
        }
        if let Some(coding) = self.header("transfer-encoding") {
            if self.header("content-length").is_some() {
                return Err(bad("both Transfer-Encoding and Content-Length"));
            }
            if !coding.eq_ignore_ascii_case("chunked") {
                return Err(bad(&format!("transfer coding {coding:?}")));
            }
            return Ok(Some(Framing::Chunked));
        }
        let Some(length) = self.header("content-length") else { return Ok(None) };
        if !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad("Content-Length is no number"));
        }
        length
            .parse()
            .map(|length| Some(Framing::Length(length)))
            .map_err(|_| bad("Content-Length is no number"))
    }
}

/// The first value of `name` in `headers`, in any case.
pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// An error that says what the peer wrote wrongly.
pub(crate) fn bad(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

fn cut(place: &str) -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, format!("the connection was closed {place}"))
}

fn field(line: &str) -> io::Result<(String, String)> {
    let (name, value) =
        line.split_once(':').ok_or_else(|| bad(&format!("field line {line:?} has no colon")))?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty()
        || !name.bytes().all(is_token)
        || value.contains(|sign: char| sign != '\t' && sign < ' ')
    {
        return Err(bad(&format!("field line {line:?}")));
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// One read of the socket.
const READ_BLOCK: usize = 16 * 1024;
/// The longest head a test peer takes: beyond every limit the gateway enforces.
const HEAD_LIMIT: usize = 1024 * 1024;
/// How much of a message is kept to be shown when reading it fails.
const RECORD_LIMIT: usize = 64 * 1024;

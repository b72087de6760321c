//! Reads HTTP/1 messages from a blocking socket, for clients and origins alike.
//!
//! A bare LF, a chunk size that is not hexadecimal, and an incomplete body are errors, so that a test fails
//! if the gateway writes them.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;

use peer::Fault;
use peer::body::{Body, Part};
use peer::head::{self, Facts};

/// One end of a connection, with the bytes read ahead.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    ahead: Vec<u8>,
    /// Every byte consumed since [`Wire::start_record`], for the message of a failed read.
    record: Vec<u8>,
}

/// The start line and the header fields of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) raw: Vec<u8>,
    pub(crate) start_line: String,
    pub(crate) headers: Vec<(String, String)>,
    facts: Facts,
}

/// The content of a body: its first bytes up to a limit, its whole length, and its trailers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub(crate) kept: Vec<u8>,
    pub(crate) length: u64,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        Wire { stream, ahead: Vec::new(), record: Vec::new() }
    }

    /// Bytes that were read ahead and belong to no message yet.
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.ahead
    }

    /// Clears the record and begins a new one of up to [`RECORD_LIMIT`] bytes.
    pub(crate) fn start_record(&mut self) {
        self.record.clear();
    }

    /// The bytes consumed since [`Wire::start_record`], then the bytes read ahead.
    pub(crate) fn received(&self) -> Vec<u8> {
        [self.record.as_slice(), self.ahead.as_slice()].concat()
    }

    /// The next head; `None` if the peer closed before its first byte.
    pub(crate) fn read_head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(found) = head::parse(&self.ahead, Ok).map_err(faulty)? {
                let start_line = String::from_utf8_lossy(found.line).into_owned();
                let (headers, facts, bytes) = (fields(found.fields)?, found.facts, found.bytes);
                return Ok(Some(Head { raw: self.take(bytes), start_line, headers, facts }));
            }
            if self.ahead.len() > HEAD_LIMIT {
                return Err(bad("a head longer than the test peer accepts"));
            }
            if !self.fill()? {
                return if self.ahead.is_empty() { Ok(None) } else { Err(cut("within a head")) };
            }
        }
    }

    /// A whole body; keeps its first `keep` bytes and counts the rest.
    pub(crate) fn read_body(&mut self, mut body: Body, keep: usize) -> io::Result<Content> {
        let (mut content, mut trailers) = (Content::default(), Vec::new());
        while !body.is_whole() {
            if self.ahead.is_empty() && !self.fill()? {
                if body.take_end() {
                    break;
                }
                return Err(cut("within a body"));
            }
            let taken = body.take(&self.ahead, |part| match part {
                Part::Data(bytes) => {
                    let room = keep.saturating_sub(content.kept.len()).min(bytes.len());
                    content.kept.extend_from_slice(&bytes[..room]);
                    content.length += bytes.len() as u64;
                }
                Part::Trailers(bytes) => trailers.extend_from_slice(bytes),
            });
            self.take(taken.map_err(faulty)?);
        }
        content.trailers = fields(trailers.strip_suffix(b"\r\n").unwrap_or_default())?;
        Ok(content)
    }

    /// Reads once; false if the peer closed.
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

    /// Consumes the first `length` bytes read ahead.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.ahead.split_off(length);
        let taken = std::mem::replace(&mut self.ahead, rest);
        let room = RECORD_LIMIT.saturating_sub(self.record.len()).min(taken.len());
        self.record.extend_from_slice(&taken[..room]);
        taken
    }
}

impl Head {
    /// The body that the fields announce, `None` when they announce none (RFC 9112 6.3).
    pub(crate) fn announced(&self) -> io::Result<Option<Body>> {
        let count =
            |wanted: &str| self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).count();
        if count("transfer-encoding") > 1 || count("content-length") > 1 {
            return Err(bad("framing said twice"));
        }
        self.facts.body().map_err(faulty)
    }
}

/// The first value of `name` in `headers`; the name is case-insensitive.
pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// An error about malformed bytes of the peer.
pub(crate) fn bad(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

fn cut(place: &str) -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, format!("the connection was closed {place}"))
}

fn faulty(fault: Fault) -> io::Error {
    bad(fault.0)
}

/// Field lines with their line ends.
fn fields(lines: &[u8]) -> io::Result<Vec<(String, String)>> {
    String::from_utf8_lossy(lines).split_terminator("\r\n").map(field).collect()
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

/// One read of the socket.
const READ_BLOCK: usize = 16 * 1024;
/// Longest head, above every limit of the gateway.
const HEAD_LIMIT: usize = 1024 * 1024;
/// Bytes of a message that are kept for the message of a failed read.
const RECORD_LIMIT: usize = 64 * 1024;

//! Reads HTTP/1 answers from bytes as they come: status, where the body ends, whether the connection lives on. It does
//! no I/O, keeps no field and does not know what an answer should be; the body is handed on in pieces.

/// One answer being read. Starts anew by [`begin`](Reading::begin), so that its memory is kept.
#[derive(Debug, Default)]
pub(super) struct Reading {
    state: State,
    /// What came of a head that was cut; empty while heads come whole.
    carried: Vec<u8>,
    /// The answer's status; known from its head on.
    pub(super) status: u16,
    /// The connection can be asked again.
    pub(super) keeps: bool,
}

/// Where in an answer the next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// So many bytes of the body are left.
    Length(u64),
    /// In a chunk's size line: the size, how many digits it has had, whether an extension is being passed over, and
    /// whether the line's CR has come.
    Size {
        value: u64,
        digits: u8,
        extension: bool,
        cr: bool,
    },
    /// So many bytes of the chunk are left.
    Chunk(u64),
    /// Behind a chunk: whether its CR has come.
    ChunkEnd {
        cr: bool,
    },
    /// In the lines behind the last chunk: whether the line is empty so far, and whether its CR has come.
    Trailers {
        empty: bool,
        cr: bool,
    },
    /// The body ends with the connection.
    UntilClosed,
    Whole,
}

/// What no HTTP/1 server may send; the text says what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub(super) &'static str);

/// A head's meaning.
struct Head {
    bytes: usize,
    status: u16,
    keeps: bool,
    body: State,
}

impl Reading {
    /// Forgets the last answer.
    pub(super) fn begin(&mut self) {
        self.state = State::Head;
        self.carried.clear();
        self.status = 0;
        self.keeps = false;
    }

    /// Takes the next bytes, hands the body's pieces on with the status, and says how many bytes belonged to this answer. When it
    /// [`is_whole`](Reading::is_whole), the rest belongs to no request.
    pub(super) fn take(&mut self, bytes: &[u8], mut piece: impl FnMut(u16, &[u8])) -> Result<usize, Fault> {
        let mut used = 0;
        if self.state == State::Head {
            match self.take_head(bytes)? {
                Some(taken) => used = taken,
                None => return Ok(bytes.len()),
            }
        }
        while used < bytes.len() && self.state != State::Whole {
            let rest = &bytes[used..];
            match self.state {
                State::Length(left) | State::Chunk(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    piece(self.status, &rest[..taken]);
                    used += taken;
                    let left = left - taken as u64;
                    self.state = match (self.state, left) {
                        (State::Length(_), 0) => State::Whole,
                        (State::Length(_), left) => State::Length(left),
                        (_, 0) => State::ChunkEnd { cr: false },
                        (_, left) => State::Chunk(left),
                    };
                }
                State::UntilClosed => {
                    piece(self.status, rest);
                    used = bytes.len();
                }
                _ => {
                    self.state = self.state.after(rest[0])?;
                    used += 1;
                }
            }
        }
        Ok(used)
    }

    /// The server closed: whether the answer is whole with it.
    pub(super) fn take_end(&mut self) -> bool {
        if self.state == State::UntilClosed {
            self.state = State::Whole;
        }
        self.is_whole()
    }

    /// Nothing of this answer is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.state == State::Whole
    }

    /// Nothing of this answer has come.
    pub(super) fn is_untouched(&self) -> bool {
        self.state == State::Head && self.carried.is_empty()
    }

    /// Takes heads until that of the final answer is there; how many of `bytes` they had, or `None` if all were taken
    /// and more are needed.
    fn take_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        let mut used = 0;
        loop {
            let carried = self.carried.len();
            let head = if carried == 0 {
                parse_head(&bytes[used..])?
            } else {
                self.carried.extend_from_slice(&bytes[used..]);
                parse_head(&self.carried)?
            };
            let Some(head) = head else {
                if carried == 0 {
                    self.carried.extend_from_slice(&bytes[used..]);
                }
                if self.carried.len() > LONGEST_HEAD_BYTES {
                    return Err(TOO_LONG);
                }
                return Ok(None);
            };
            if head.bytes > LONGEST_HEAD_BYTES {
                return Err(TOO_LONG);
            }
            used += head.bytes - carried;
            self.carried.clear();
            // Interim answers are passed over; a 101 ends HTTP on this connection (RFC 9110 15.2).
            if (100..200).contains(&head.status) && head.status != SWITCHING_PROTOCOLS {
                if used == bytes.len() {
                    return Ok(None);
                }
                continue;
            }
            (self.status, self.keeps, self.state) = (head.status, head.keeps, head.body);
            return Ok(Some(used));
        }
    }
}

impl State {
    /// The state behind one byte of a chunked body's framing (RFC 9112 7.1).
    fn after(self, byte: u8) -> Result<Self, Fault> {
        Ok(match (self, byte) {
            (State::Size { value, digits, cr: true, .. }, b'\n') if digits > 0 => match value {
                0 => State::Trailers { empty: true, cr: false },
                _ => State::Chunk(value),
            },
            (State::Size { value, digits, extension, cr: false }, b'\r') => {
                State::Size { value, digits, extension, cr: true }
            }
            (State::Size { value, digits, cr: false, extension: true }, _) => {
                State::Size { value, digits, cr: false, extension: true }
            }
            (State::Size { value, digits, cr: false, .. }, b';' | b' ' | b'\t') if digits > 0 => {
                State::Size { value, digits, cr: false, extension: true }
            }
            (State::Size { value, digits, cr: false, extension: false }, byte) if digits < MOST_DIGITS => {
                let digit = (byte as char).to_digit(16).ok_or(Fault("a chunk's size that is no number"))?;
                let value = value * 16 + u64::from(digit);
                State::Size { value, digits: digits + 1, cr: false, extension: false }
            }
            (State::ChunkEnd { cr: false }, b'\r') => State::ChunkEnd { cr: true },
            (State::ChunkEnd { cr: true }, b'\n') => NEXT_SIZE,
            (State::Trailers { empty, cr: false }, b'\r') => State::Trailers { empty, cr: true },
            (State::Trailers { empty: true, cr: true }, b'\n') => State::Whole,
            (State::Trailers { empty: false, cr: true }, b'\n') => State::Trailers { empty: true, cr: false },
            (State::Trailers { cr: false, .. }, _) => State::Trailers { empty: false, cr: false },
            _ => return Err(Fault("chunks that do not follow each other as RFC 9112 7.1 says")),
        })
    }
}

/// The head that `bytes` begin with, `None` while it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<Head>, Fault> {
    let Some(end) = memchr::memchr(b'\n', bytes) else { return Ok(None) };
    let line = line(&bytes[..end])?;
    let is_1_1 = match line.get(..9) {
        Some(b"HTTP/1.1 ") => true,
        Some(b"HTTP/1.0 ") => false,
        _ => return Err(Fault("something that begins with no HTTP/1 status line")),
    };
    let status = match (line.get(9..12), line.get(12)) {
        (Some([a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']), None | Some(b' ')) => {
            u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')
        }
        _ => return Err(Fault("a status that is no number of three digits")),
    };
    let mut fields = Fields { length: None, chunked: false, keeps: is_1_1 };
    let mut at = end + 1;
    loop {
        let Some(length) = memchr::memchr(b'\n', &bytes[at..]) else { return Ok(None) };
        let line = self::line(&bytes[at..at + length])?;
        at += length + 1;
        if line.is_empty() {
            break;
        }
        fields.take(line)?;
    }
    let (body, keeps) = fields.framing(status)?;
    Ok(Some(Head { bytes: at, status, keeps, body }))
}

/// A line without its CR.
fn line(with_cr: &[u8]) -> Result<&[u8], Fault> {
    with_cr.strip_suffix(b"\r").ok_or(Fault("a line of a head that ends without CR"))
}

/// What of the fields concerns framing.
struct Fields {
    length: Option<u64>,
    chunked: bool,
    keeps: bool,
}

impl Fields {
    fn take(&mut self, line: &[u8]) -> Result<(), Fault> {
        // Nearly every field is passed over by its first letter.
        if !matches!(line[0] | 0x20, b'c' | b't') {
            return Ok(());
        }
        let colon = line.iter().position(|&byte| byte == b':').ok_or(Fault("a field without a colon"))?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value).ok_or(Fault("a Content-Length that is no number"))?;
            if self.length.is_some_and(|other| other != length) {
                return Err(Fault("two Content-Lengths"));
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Fault("a Transfer-Encoding other than chunked"));
            }
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"connection") {
            for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                if option.eq_ignore_ascii_case(b"close") {
                    self.keeps = false;
                } else if option.eq_ignore_ascii_case(b"keep-alive") {
                    self.keeps = true;
                }
            }
        }
        Ok(())
    }

    /// Where the body ends (RFC 9112 6.3), and whether the connection lives on.
    fn framing(&self, status: u16) -> Result<(State, bool), Fault> {
        Ok(match (self.chunked, self.length) {
            _ if status < 200 || status == 204 || status == 304 => (State::Whole, self.keeps),
            (true, Some(_)) => return Err(Fault("both Transfer-Encoding and Content-Length")),
            (true, None) => (NEXT_SIZE, self.keeps),
            (false, Some(0)) => (State::Whole, self.keeps),
            (false, Some(length)) => (State::Length(length), self.keeps),
            (false, None) => (State::UntilClosed, false),
        })
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

const TOO_LONG: Fault = Fault("a head longer than 64 KiB");
/// Before a chunk's size line.
const NEXT_SIZE: State = State::Size { value: 0, digits: 0, extension: false, cr: false };
/// Heads of gateways are far below; an endless one ends here.
const LONGEST_HEAD_BYTES: usize = 64 * 1024;
/// Of a chunk's size: more would not fit into 64 bits.
const MOST_DIGITS: u8 = 15;
const SWITCHING_PROTOCOLS: u16 = 101;

#[cfg(test)]
#[path = "reading/tests.rs"]
mod tests;

//! Where the body of an HTTP/1 message ends: after a length, after the last chunk (RFC 9112 7.1), or with the
//! connection.

use crate::Fault;

/// The part of a body that has not come yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body(State);

/// A piece of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Content.
    Data(&'a [u8]),
    /// The lines after the last chunk with their line ends, the empty one included.
    Trailers(&'a [u8]),
}

/// The place of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes are left.
    Length(u64),
    /// In the size line of a chunk: the size, the number of its digits, whether an extension is being
    /// skipped, and whether the CR of the line has come.
    Size { value: u64, digits: u8, is_extension: bool, cr: bool },
    /// So many bytes of a chunk are left.
    Chunk(u64),
    /// After the bytes of a chunk: whether the CR has come.
    ChunkEnd { cr: bool },
    /// In the lines after the last chunk: whether the line is empty so far, and whether its CR has come.
    Trailers { is_empty: bool, cr: bool },
    /// The body ends with the connection.
    UntilClosed,
    /// The body is complete.
    Whole,
}

impl Body {
    /// No body, or the end of one.
    pub const WHOLE: Body = Body(State::Whole);
    /// A body in chunks.
    pub const CHUNKED: Body = Body(NEXT_SIZE);
    /// A body that ends with the connection.
    pub const UNTIL_CLOSED: Body = Body(State::UntilClosed);

    /// A body of `bytes`.
    pub fn of_length(bytes: u64) -> Body {
        Body(if bytes == 0 { State::Whole } else { State::Length(bytes) })
    }

    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.0 == State::Whole
    }

    /// The peer closed: whether the body is complete with it.
    pub fn take_end(&mut self) -> bool {
        if self.0 == State::UntilClosed {
            self.0 = State::Whole;
        }
        self.is_whole()
    }

    /// Takes the next bytes, hands them on in parts, and returns how many belonged to this body: all of them,
    /// unless the body [is whole](Body::is_whole) before.
    ///
    /// # Errors
    /// Chunks that are not as RFC 9112 7.1 says.
    pub fn take(&mut self, bytes: &[u8], mut part: impl FnMut(Part<'_>)) -> Result<usize, Fault> {
        let mut used = 0;
        while used < bytes.len() && !self.is_whole() {
            let rest = &bytes[used..];
            match self.0 {
                State::Length(left) | State::Chunk(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    part(Part::Data(&rest[..taken]));
                    used += taken;
                    self.0 = match (self.0, left - taken as u64) {
                        (State::Length(_), 0) => State::Whole,
                        (State::Length(_), left) => State::Length(left),
                        (_, 0) => State::ChunkEnd { cr: false },
                        (_, left) => State::Chunk(left),
                    };
                }
                State::UntilClosed => {
                    part(Part::Data(rest));
                    used = bytes.len();
                }
                state => {
                    self.0 = state.after(rest[0])?;
                    if matches!(state, State::Trailers { .. }) {
                        part(Part::Trailers(&rest[..1]));
                    }
                    used += 1;
                }
            }
        }
        Ok(used)
    }
}

impl State {
    /// The state after one byte of the framing of chunks.
    fn after(self, byte: u8) -> Result<Self, Fault> {
        Ok(match (self, byte) {
            (State::Size { value, digits, cr: true, .. }, b'\n') if digits > 0 => match value {
                0 => State::Trailers { is_empty: true, cr: false },
                _ => State::Chunk(value),
            },
            (State::Size { value, digits, is_extension, cr: false }, b'\r') => {
                State::Size { value, digits, is_extension, cr: true }
            }
            (State::Size { value, digits, cr: false, is_extension: true }, _) => {
                State::Size { value, digits, cr: false, is_extension: true }
            }
            (State::Size { value, digits, cr: false, .. }, b';' | b' ' | b'\t') if digits > 0 => {
                State::Size { value, digits, cr: false, is_extension: true }
            }
            (State::Size { value, digits, cr: false, is_extension: false }, byte) if digits < DIGITS_MAX => {
                let digit = (byte as char).to_digit(16).ok_or(Fault("a chunk's size that is no number"))?;
                let value = value * 16 + u64::from(digit);
                State::Size { value, digits: digits + 1, cr: false, is_extension: false }
            }
            (State::ChunkEnd { cr: false }, b'\r') => State::ChunkEnd { cr: true },
            (State::ChunkEnd { cr: true }, b'\n') => NEXT_SIZE,
            (State::Trailers { is_empty, cr: false }, b'\r') => State::Trailers { is_empty, cr: true },
            (State::Trailers { is_empty: true, cr: true }, b'\n') => State::Whole,
            (State::Trailers { is_empty: false, cr: true }, b'\n') => {
                State::Trailers { is_empty: true, cr: false }
            }
            (State::Trailers { cr: false, .. }, _) => State::Trailers { is_empty: false, cr: false },
            _ => return Err(Fault("chunks that do not follow each other as RFC 9112 7.1 says")),
        })
    }
}

/// Before the size line of a chunk.
const NEXT_SIZE: State = State::Size { value: 0, digits: 0, is_extension: false, cr: false };
/// The most digits of a chunk's size: more would not fit into 64 bits.
const DIGITS_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Content, trailers, and the number of bytes taken, if the body came whole in pieces of this size.
    fn read(mut body: Body, bytes: &[u8], piece: usize) -> Result<Option<(String, String, usize)>, Fault> {
        let (mut data, mut trailers, mut used) = (Vec::new(), Vec::new(), 0);
        for bytes in bytes.chunks(piece) {
            used += body.take(bytes, |part| match part {
                Part::Data(bytes) => data.extend_from_slice(bytes),
                Part::Trailers(bytes) => trailers.extend_from_slice(bytes),
            })?;
        }
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ok(body.take_end().then(|| (text(data), text(trailers), used)))
    }

    #[test]
    fn bodies_come_in_any_pieces() {
        let check = |body: Body, text: &str, after: &str, data: &str, trailers: &str| {
            let whole = format!("{text}{after}");
            for piece in 1..=whole.len() {
                let wanted = Some((data.to_owned(), trailers.to_owned(), text.len()));
                assert_eq!(read(body, whole.as_bytes(), piece), Ok(wanted), "{whole:?} by {piece}");
            }
        };
        check(Body::of_length(5), "hello", "NEXT", "hello", "");
        check(Body::of_length(0), "", "NEXT", "", "");
        check(Body::UNTIL_CLOSED, "hello", "", "hello", "");
        let chunks = "5;a=b\r\nhello\r\nA ;c\r\n0123456789\r\n000\r\n";
        check(Body::CHUNKED, &format!("{chunks}\r\n"), "NEXT", "hello0123456789", "\r\n");
        check(Body::CHUNKED, &format!("{chunks}X: y\r\n\r\n"), "NEXT", "hello0123456789", "X: y\r\n\r\n");
    }

    #[test]
    fn faulty_chunks_are_refused() {
        for text in ["zz\r\n", "\r\n", "1\r\nab\r\n", "1\nab", "1\rx", "12345678901234567\r\n", "0\r\n\rx"] {
            assert!(read(Body::CHUNKED, text.as_bytes(), 1).is_err(), "{text:?}");
        }
        assert_eq!(read(Body::CHUNKED, b"ffffffffffffffff\r\nx", 1), Ok(None));
    }
}

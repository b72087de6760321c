//! Finds the end of a body in bytes that are forwarded unchanged. It knows no connection.

use http1::chunked::{ChunkError, Decoder, Piece};
use http1::{RequestFraming, ResponseFraming};

/// State of reading a body.
#[derive(Debug)]
pub(super) enum BodyProgress {
    /// There is none, or it has ended.
    Over,
    /// This many bytes are missing.
    Length(u64),
    /// Chunks are to come.
    Chunked(Box<Decoder>),
    /// It ends with its connection.
    UntilClose,
}

impl BodyProgress {
    /// A request's body.
    pub(super) fn of_request(framing: RequestFraming) -> Self {
        match framing {
            RequestFraming::None | RequestFraming::Length(0) => Self::Over,
            RequestFraming::Length(length) => Self::Length(length),
            RequestFraming::Chunked => Self::Chunked(Box::default()),
        }
    }

    /// A response's body.
    pub(super) fn of_response(framing: ResponseFraming) -> Self {
        match framing {
            ResponseFraming::None | ResponseFraming::Length(0) => Self::Over,
            ResponseFraming::Length(length) => Self::Length(length),
            ResponseFraming::Chunked => Self::Chunked(Box::default()),
            ResponseFraming::UntilClose => Self::UntilClose,
        }
    }

    /// Whether all of it has arrived.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }

    /// The number of these bytes that belong to the body. The data of chunks is appended to `data`, for a
    /// client that knows no chunks.
    ///
    /// # Errors
    /// A chunk is malformed.
    pub(super) fn take(&mut self, bytes: &[u8], data: Option<&mut Vec<u8>>) -> Result<usize, ChunkError> {
        match self {
            Self::Over => Ok(0),
            Self::UntilClose => Ok(bytes.len()),
            Self::Length(left) => {
                let here = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= here as u64;
                if *left == 0 {
                    *self = Self::Over;
                }
                Ok(here)
            }
            Self::Chunked(decoder) => {
                let (used, is_over) = chunks(decoder, bytes, data)?;
                if is_over {
                    *self = Self::Over;
                }
                Ok(used)
            }
        }
    }
}

fn chunks(
    decoder: &mut Decoder,
    bytes: &[u8],
    mut data: Option<&mut Vec<u8>>,
) -> Result<(usize, bool), ChunkError> {
    let mut at = 0;
    loop {
        let step = decoder.decode(&bytes[at..])?;
        at += step.consumed;
        match step.piece {
            Piece::Data(length) => {
                if let Some(data) = data.as_deref_mut() {
                    data.extend_from_slice(&bytes[at..at + length]);
                }
                decoder.took(length);
                at += length;
            }
            Piece::More => return Ok((at, false)),
            Piece::End => return Ok((at, true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the bytes in pieces of every size; checks how many belong to the body, and the data of its
    /// chunks.
    fn check(body: impl Fn() -> BodyProgress, bytes: &[u8], expected: (usize, bool, &[u8])) {
        for size in 1..=bytes.len() {
            let (mut body, mut data, mut used) = (body(), Vec::new(), 0);
            for piece in bytes.chunks(size) {
                used += body.take(piece, Some(&mut data)).unwrap();
            }
            assert_eq!((used, body.is_over(), &*data), expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_body_ends_where_it_says() {
        check(|| BodyProgress::of_request(RequestFraming::None), b"next", (0, true, b""));
        check(|| BodyProgress::of_request(RequestFraming::Length(3)), b"abcnext", (3, true, b""));
        check(|| BodyProgress::of_request(RequestFraming::Length(9)), b"abc", (3, false, b""));
        check(|| BodyProgress::of_response(ResponseFraming::UntilClose), b"abc", (3, false, b""));
        let chunks = || BodyProgress::of_response(ResponseFraming::Chunked);
        check(chunks, b"3\r\nabc\r\n0\r\n\r\nnext", (13, true, b"abc"));
        check(chunks, b"3\r\nabc\r\n2\r\nd", (12, false, b"abcd"));
        assert!(chunks().take(b"x\r\n", None).is_err());
    }
}

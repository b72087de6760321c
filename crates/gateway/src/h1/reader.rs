//! The body half of reading an HTTP/1 message, the same from clients and nodes: where in the buffer the next
//! body bytes are, and when the body ends. It does no I/O.

use http1::chunked::{ChunkError, Decoder, Piece};
use message::Headers;
use stdx::buffer::Buffer;
use stdx::pooled::PooledBox;

/// State of reading a body.
#[derive(Debug)]
pub(crate) enum BodyReader {
    /// It is complete, or there is none.
    Done,
    /// This many bytes are missing.
    Length(u64),
    /// The body comes in chunks.
    Chunked(PooledBox<Decoder>),
    /// The body ends when the peer closes.
    UntilClose,
}

/// The content of the buffer, according to the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyReadStep {
    /// The first bytes of the buffer, this many and at least one, are body.
    Data(usize),
    /// More has to be read.
    More,
    /// The body is complete.
    End,
}

impl BodyReader {
    /// Drops framing bytes from the front of `buffer` and reports what follows.
    pub(crate) fn next(&mut self, buffer: &mut Buffer) -> Result<BodyReadStep, ChunkError> {
        match self {
            BodyReader::Done | BodyReader::Length(0) => Ok(BodyReadStep::End),
            BodyReader::Length(left) => Ok(match buffer.filled().len() {
                0 => BodyReadStep::More,
                // A body longer than the address space still has pieces that fit.
                held => BodyReadStep::Data(usize::try_from(*left).unwrap_or(usize::MAX).min(held)),
            }),
            BodyReader::UntilClose => Ok(match buffer.filled().len() {
                0 => BodyReadStep::More,
                held => BodyReadStep::Data(held),
            }),
            BodyReader::Chunked(decoder) => {
                let step = decoder.decode(buffer.filled())?;
                buffer.consume(step.consumed);
                Ok(match step.piece {
                    Piece::Data(count) => BodyReadStep::Data(count),
                    Piece::More => BodyReadStep::More,
                    Piece::End => BodyReadStep::End,
                })
            }
        }
    }

    /// Takes `count` body bytes from the front of `buffer`.
    pub(crate) fn took(&mut self, count: usize, buffer: &mut Buffer) {
        buffer.consume(count);
        self.passed(count);
    }

    /// Counts `count` body bytes that were taken from the buffer.
    pub(crate) fn passed(&mut self, count: usize) {
        match self {
            BodyReader::Length(left) => *left -= count as u64,
            BodyReader::Chunked(decoder) => decoder.took(count),
            BodyReader::UntilClose | BodyReader::Done => {}
        }
    }

    /// The trailers, once the body is complete.
    pub(crate) fn trailers(&self) -> Option<&Headers> {
        match self {
            BodyReader::Chunked(decoder) if !decoder.trailers().is_empty() => Some(decoder.trailers()),
            _ => None,
        }
    }

    /// Whether the body was read to its end.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            BodyReader::Done | BodyReader::Length(0) => true,
            BodyReader::Chunked(decoder) => decoder.is_done(),
            BodyReader::Length(_) | BodyReader::UntilClose => false,
        }
    }

    /// Whether another reader could understand the framing of this body differently, so that its connection
    /// must not carry another message.
    pub(crate) fn is_ambiguous(&self) -> bool {
        matches!(self, BodyReader::Chunked(decoder) if decoder.is_ambiguous())
    }

    /// Whether the peer's close is the regular end of this body.
    pub(crate) fn ends_by_close(&self) -> bool {
        matches!(self, BodyReader::UntilClose)
    }
}

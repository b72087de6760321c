//! The sending half of an HTTP/1 message, the same towards clients and nodes: a head is encoded into a small
//! buffer, small bodies join it so that a message leaves in one write, large ones go straight from the
//! reader's buffer to the socket. It knows no fields and no policy.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use http1::encode;
use message::Headers;

use net::transport::Transport;

/// Pieces up to this size are copied behind what is waiting, since a copy of this size costs less than a
/// second slice in a system call.
const COPY_MAX_BYTES: usize = 4 * 1024;
/// The most bytes that may wait before a write is due; limits the memory that a peer which does not read can
/// hold.
const WAITING_MAX_BYTES: usize = 16 * 1024;

/// A smaller buffer is kept over a pause rather than allocated anew: a head usually fits.
const RESTING_MAX_BYTES: usize = 1024;

/// How the end of the body being sent is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body.
    #[default]
    Empty,
    /// By its length; the bytes still to come.
    Length(u64),
    /// By chunks.
    Chunked,
    /// By closing the connection.
    UntilClose,
}

/// Encoded bytes waiting to be sent, and the framing of the body that follows them.
#[derive(Debug, Default)]
pub(crate) struct H1Writer {
    waiting: Vec<u8>,
    written: usize,
    framing: Framing,
    /// Bytes announced by the last chunk prefix and not yet accepted.
    chunk_left: usize,
    sent_bytes: u64,
}

impl H1Writer {
    /// Encodes into what `take` takes from now on, an empty buffer, if it has no memory yet.
    pub(crate) fn take_buffer(&mut self, take: impl FnOnce() -> Vec<u8>) {
        if self.waiting.capacity() == 0 {
            self.waiting = take();
        }
    }

    /// The buffer of a writer in which nothing waits, for reuse.
    pub(crate) fn give_buffer(&mut self) -> Vec<u8> {
        debug_assert!(self.is_flushed(), "bytes would be lost");
        std::mem::take(&mut self.waiting)
    }

    /// The buffer, for reuse.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.waiting
    }

    /// Where a head is encoded, behind whatever is still waiting.
    pub(crate) fn head(&mut self) -> &mut Vec<u8> {
        debug_assert_eq!(self.chunk_left, 0, "a head inside a chunk");
        &mut self.waiting
    }

    /// Sets the framing of the body that follows the head.
    pub(crate) fn begin_body(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Bytes handed to the kernel so far.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Where the next byte that is encoded will stand in all that is sent.
    pub(crate) fn end_offset(&self) -> u64 {
        self.sent_bytes + self.waiting_bytes() as u64
    }

    /// Drops everything that was encoded from `offset` on, a result of [`H1Writer::end_offset`]; false if
    /// some of it has been handed to the kernel.
    pub(crate) fn take_back(&mut self, offset: u64) -> bool {
        let Some(kept) = offset.checked_sub(self.sent_bytes) else { return false };
        self.waiting.truncate(self.written + kept as usize);
        (self.framing, self.chunk_left) = (Framing::Empty, 0);
        true
    }

    /// Bytes that were encoded and not handed to the kernel.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.len() - self.written
    }

    /// Whether nothing waits.
    pub(crate) fn is_flushed(&self) -> bool {
        self.waiting_bytes() == 0
    }

    /// Gives back the memory that what waits does not need.
    pub(crate) fn release(&mut self) {
        self.waiting.drain(..self.written);
        self.written = 0;
        self.waiting.shrink_to_fit();
    }

    /// Gives back the memory that what waits does not need, if it is more than a head usually takes.
    pub(crate) fn rest_if_large(&mut self) {
        if self.waiting.capacity() > RESTING_MAX_BYTES {
            self.release();
        }
    }

    /// Whether a body of known length still lacks bytes.
    pub(crate) fn is_short(&self) -> bool {
        self.chunk_left > 0 || matches!(self.framing, Framing::Length(1..))
    }

    /// Whether no more of a body is to come.
    pub(crate) fn is_ended(&self) -> bool {
        self.framing == Framing::Empty
    }

    /// Takes some of `data` for the body; returns the number of bytes taken, at least one.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Transport,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        debug_assert!(!data.is_empty(), "an empty piece would end a chunked body");
        debug_assert_ne!(self.framing, Framing::Empty, "a body where the head promised none");
        if self.chunk_left == 0 && data.len() <= COPY_MAX_BYTES {
            if self.waiting_bytes() + data.len() > WAITING_MAX_BYTES {
                ready!(self.poll_flush(cx, stream))?;
            }
            self.copy(data);
            return Poll::Ready(Ok(data.len()));
        }
        if self.framing == Framing::Chunked && self.chunk_left == 0 {
            encode::chunk_prefix(&mut self.waiting, data.len());
            self.chunk_left = data.len();
        }
        let limit =
            if self.framing == Framing::Chunked { self.chunk_left.min(data.len()) } else { data.len() };
        loop {
            let waiting = self.waiting_bytes();
            let count = if waiting == 0 {
                ready!(stream.poll_write(cx, &data[..limit]))?
            } else {
                let slices = [IoSlice::new(&self.waiting[self.written..]), IoSlice::new(&data[..limit])];
                ready!(stream.poll_write_vectored(cx, &slices))?
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent_bytes += count as u64;
            if count < waiting {
                self.written += count;
                continue;
            }
            self.waiting.clear();
            self.written = 0;
            let taken = count - waiting;
            if taken > 0 {
                self.account(taken);
                return Poll::Ready(Ok(taken));
            }
        }
    }

    /// Ends the body: writes the last chunk and the trailers if it is chunked.
    pub(crate) fn finish(&mut self, trailers: Option<&Headers>) {
        debug_assert!(!self.is_short(), "the body ended before its announced length");
        if self.framing == Framing::Chunked {
            match trailers {
                Some(trailers) => encode::trailers(&mut self.waiting, trailers),
                None => self.waiting.extend_from_slice(encode::LAST_CHUNK),
            }
        }
        self.framing = Framing::Empty;
    }

    /// Writes the bytes that wait to the socket.
    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Transport,
    ) -> Poll<io::Result<()>> {
        while self.written < self.waiting.len() {
            let count = ready!(stream.poll_write(cx, &self.waiting[self.written..]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent_bytes += count as u64;
            self.written += count;
        }
        self.waiting.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    fn copy(&mut self, data: &[u8]) {
        if self.framing == Framing::Chunked {
            encode::chunk_prefix(&mut self.waiting, data.len());
            self.waiting.extend_from_slice(data);
            self.waiting.extend_from_slice(encode::CHUNK_END);
        } else {
            self.waiting.extend_from_slice(data);
            self.account(data.len());
        }
    }

    fn account(&mut self, taken: usize) {
        match &mut self.framing {
            Framing::Length(left) => {
                debug_assert!(*left >= taken as u64, "more body than the head promised");
                *left = left.saturating_sub(taken as u64);
            }
            Framing::Chunked => {
                self.chunk_left -= taken;
                if self.chunk_left == 0 {
                    self.waiting.extend_from_slice(encode::CHUNK_END);
                }
            }
            Framing::UntilClose | Framing::Empty => {}
        }
    }
}

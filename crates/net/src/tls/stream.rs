//! A TLS connection over the seam's stream: it feeds ciphertext to rustls, hands out plaintext, and writes
//! records, with the same calls as a plain stream. It holds no buffer while it is idle. `input` decrypts,
//! `output` encrypts. It knows no certificate and no protocol inside.

mod input;
mod output;

use std::cell::Cell;
use std::io::{self, BufRead};
use std::task::{Context, Poll, Waker, ready};

use rustls::Connection;

use super::facts::TlsFacts;
use crate::env::Stream;
use input::{KEPT_BYTES, PEEK_BYTES, Pull, READ_BYTES, TlsInputEnd};
use output::ENCRYPT_BYTES;

pub(super) use input::with_scratch;

/// Bytes that a record adds to its plaintext, at most: header, explicit nonce, type and tag of the suites in
/// use.
const RECORD_OVERHEAD_BYTES: u64 = 29;
/// The most plaintext of a record.
const RECORD_BYTES: u64 = 16 * 1024;

/// See the module.
pub struct TlsStream {
    stream: Stream,
    tls: Connection,
    /// Decrypted bytes that rustls holds.
    plaintext_bytes: usize,
    /// Ciphertext that rustls did not take yet, because it holds too much plaintext.
    held: Vec<u8>,
    /// Plaintext that was encrypted, and that the caller was not told to be written.
    uncredited_bytes: usize,
    /// The last flush found the socket full.
    was_full: bool,
    /// rustls's ciphertext buffer may have grown.
    has_grown: bool,
    end: Option<TlsInputEnd>,
    resets_on_close: Cell<bool>,
}

impl TlsStream {
    /// Wraps a connection that is about to begin its handshake, or is in it.
    pub(super) fn new(stream: Stream, mut tls: Connection) -> TlsStream {
        tls.set_buffer_limit(Some(ENCRYPT_BYTES));
        TlsStream {
            stream,
            tls,
            plaintext_bytes: 0,
            held: Vec::new(),
            uncredited_bytes: 0,
            was_full: false,
            has_grown: true,
            end: None,
            resets_on_close: Cell::new(false),
        }
    }

    /// The same with ciphertext that has been read already.
    pub(super) fn with_received(stream: Stream, tls: Connection, received: Vec<u8>) -> TlsStream {
        let mut stream = TlsStream::new(stream, tls);
        stream.held = received;
        stream
    }

    /// Whether the handshake resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// The agreed parameters of the handshake.
    pub fn facts(&self) -> TlsFacts {
        TlsFacts::of(&self.tls)
    }

    /// The protocol that was agreed by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// The socket beneath.
    pub fn socket(&self) -> &Stream {
        &self.stream
    }

    /// Whether bytes were encrypted that no write has reported yet; some of their records may be in the
    /// kernel.
    pub fn holds_unconfirmed(&self) -> bool {
        self.uncredited_bytes > 0
    }

    /// Runs the handshake. Ready when it is complete and its last flight is in the kernel.
    ///
    /// # Errors
    /// The socket's, or [`io::ErrorKind::InvalidData`] around rustls's; the peer was sent the alert then.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_records(cx))?;
            if !self.tls.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            let pull = Pull { most_bytes: PEEK_BYTES, at_once: true };
            match ready!(self.poll_fill(cx, pull, &mut [])) {
                Ok(_) if self.end.is_some() => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => {
                    // The alert. If the socket takes nothing, the peer sees a close.
                    let _ = self.poll_records(cx);
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// As [`Stream::poll_read`], in plaintext; 0 bytes mean that the peer has sent close_notify.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] where the stream ended without close_notify: what came may have been
    /// cut.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_take(cx, room, false)
    }

    /// As [`Stream::poll_read_at_once`].
    pub fn poll_read_at_once(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_take(cx, room, true)
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, room: &mut [u8], at_once: bool) -> Poll<io::Result<usize>> {
        if room.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let most_bytes = room.len().clamp(KEPT_BYTES, READ_BYTES);
        self.poll_arrived(cx, Pull { most_bytes, at_once }, room)
    }

    /// Fills `room` from what is here, else pulls; 0 only at the end.
    fn poll_arrived(&mut self, cx: &mut Context<'_>, pull: Pull, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let taken = self.take(room);
        if taken > 0 {
            return Poll::Ready(Ok(taken));
        }
        loop {
            match self.end {
                Some(TlsInputEnd::Closed) => return Poll::Ready(Ok(0)),
                Some(TlsInputEnd::Truncated) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Some(TlsInputEnd::Failed) => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
                None => {}
            }
            let taken = ready!(self.poll_fill(cx, pull, room))?;
            if taken > 0 || self.plaintext_bytes > 0 {
                return Poll::Ready(Ok(taken));
            }
        }
    }

    /// Ready when a read would not wait. Reads and decrypts until a whole record is here, so that a peer
    /// which sends a record byte by byte does not look ready.
    pub fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.plaintext_bytes > 0 || self.end.is_some() {
            return Poll::Ready(Ok(()));
        }
        let pull = Pull { most_bytes: PEEK_BYTES, at_once: false };
        // An error comes again with the read that follows.
        self.poll_arrived(cx, pull, &mut []).map(|_| Ok(()))
    }

    /// Whether a read might not wait: something has been decrypted, or the event loop has seen the socket
    /// readable.
    pub fn is_readable(&self) -> bool {
        self.plaintext_bytes > 0 || self.end.is_some() || self.stream.is_readable()
    }

    /// As [`Stream::read_arrived`].
    pub fn read_arrived(&mut self, room: &mut [u8]) -> usize {
        let taken = self.take(room);
        if taken > 0 || self.end.is_some() {
            return taken;
        }
        with_scratch(|scratch| {
            let count = self.stream.read_arrived(&mut scratch[..PEEK_BYTES]);
            // A broken record is nothing that arrived; the next read tells of it.
            self.feed(&scratch[..count], room).unwrap_or(0)
        })
    }

    /// As [`Stream::poll_peek`]: plaintext that stays here until it is dropped or read.
    pub fn poll_peek(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_look(cx, room, false)
    }

    /// As [`Stream::poll_peek_at_once`].
    pub fn poll_peek_at_once(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_look(cx, room, true)
    }

    fn poll_look(&mut self, cx: &mut Context<'_>, room: &mut [u8], at_once: bool) -> Poll<io::Result<usize>> {
        if self.plaintext_bytes == 0 {
            ready!(self.poll_arrived(cx, Pull { most_bytes: PEEK_BYTES, at_once }, &mut []))?;
        }
        if self.plaintext_bytes == 0 {
            return Poll::Ready(Ok(0));
        }
        let mut reader = self.tls.reader();
        let chunk = reader.fill_buf()?;
        let count = chunk.len().min(room.len());
        room[..count].copy_from_slice(&chunk[..count]);
        Poll::Ready(Ok(count))
    }

    /// As [`Stream::drop_seen`].
    pub fn drop_seen(&mut self, room: &mut [u8], _is_all: bool) -> usize {
        let mut reader = self.tls.reader();
        let held = reader.fill_buf().map_or(0, <[u8]>::len);
        let count = held.min(room.len());
        reader.consume(count);
        self.plaintext_bytes -= count;
        count
    }

    /// As [`Stream::send_buffer_bytes`].
    pub fn send_buffer_bytes(&self) -> io::Result<usize> {
        self.stream.send_buffer_bytes()
    }

    /// As [`Stream::poll_third_free`]; encrypted bytes that wait go first.
    pub fn poll_third_free(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_records(cx))?;
        self.stream.poll_third_free(cx)
    }

    /// Sends close_notify and closes the sending side.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // rustls sends it once, however often it is asked.
        self.tls.send_close_notify();
        ready!(self.poll_records(cx))?;
        self.stream.poll_shutdown(cx)
    }

    /// As [`Stream::reset_on_close`]; no close_notify is sent then.
    pub fn reset_on_close(&self) {
        self.resets_on_close.set(true);
        self.stream.reset_on_close();
    }

    /// As [`Stream::end_on_close`].
    pub fn end_on_close(&self) {
        self.resets_on_close.set(false);
        self.stream.end_on_close();
    }

    /// As [`Stream::unacknowledged_bytes`], in plaintext, a few bytes too many at most where records are
    /// small.
    pub fn unacknowledged_bytes(&self) -> u64 {
        let bytes = self.stream.unacknowledged_bytes();
        let records = bytes / RECORD_BYTES + 1;
        bytes.saturating_sub(records * RECORD_OVERHEAD_BYTES)
    }
}

impl Drop for TlsStream {
    /// Sends close_notify if the socket takes it, unless the close is to be abortive.
    fn drop(&mut self) {
        if !self.resets_on_close.get() && !self.tls.is_handshaking() && self.uncredited_bytes == 0 {
            self.tls.send_close_notify();
            let _ = self.poll_records(&mut Context::from_waker(Waker::noop()));
        }
    }
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TlsStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests;

//! A TLS connection over the seam's stream: it feeds ciphertext to rustls, hands out plaintext, and writes records, with the
//! same calls as a plain stream. It holds no buffer while it is idle. It knows no certificate and no protocol inside.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::task::{Context, Poll, Waker, ready};

use rustls::Connection;

use super::facts::Facts;
use crate::env::Stream;

/// Most ciphertext read at once: with 16 KiB, a body of 1 MB costs a fifth more CPU.
const READ_BYTES: usize = 64 * 1024;
/// Most ciphertext read for a look, whose plaintext stays here until it is taken.
const PEEK_BYTES: usize = 16 * 1024;
/// Most plaintext encrypted at once. Its records stay in memory when the socket is full.
const ENCRYPT_BYTES: usize = 64 * 1024;
/// The same after the socket was found full, so that a client which takes nothing holds little.
const ENCRYPT_FULL_BYTES: usize = 16 * 1024;
/// rustls refuses ciphertext while it holds more plaintext than this.
const PLAINTEXT_FULL_BYTES: usize = 16 * 1024;
/// rustls keeps a buffer of this size for ciphertext; one that grew is shrunk when the connection falls silent.
const KEPT_BYTES: usize = 4 * 1024;
/// Bytes that a record adds to its plaintext, at most: header, explicit nonce, type and tag of the suites in use.
const RECORD_OVERHEAD_BYTES: u64 = 29;

thread_local! {
    /// Where ciphertext is read into, shared by all connections of a thread.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

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
    end: Option<End>,
    resets_on_close: Cell<bool>,
}

/// How the incoming side ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By close_notify.
    Closed,
    /// By the end of the stream without close_notify.
    Truncated,
    /// By a violation of the protocol, or an alert of the peer.
    Failed,
}

/// How a call asks for bytes.
#[derive(Clone, Copy)]
struct Pull {
    most_bytes: usize,
    /// The kernel is asked before the event loop.
    at_once: bool,
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

    /// What was agreed in the handshake.
    pub fn facts(&self) -> Facts {
        Facts::of(&self.tls)
    }

    /// The protocol that was agreed by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// The socket beneath.
    pub fn socket(&self) -> &Stream {
        &self.stream
    }

    /// Whether bytes were encrypted that no write has reported yet; some of their records may be in the kernel.
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
    /// [`io::ErrorKind::UnexpectedEof`] where the stream ended without close_notify: what came may have been cut.
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
                Some(End::Closed) => return Poll::Ready(Ok(0)),
                Some(End::Truncated) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Some(End::Failed) => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
                None => {}
            }
            let taken = ready!(self.poll_fill(cx, pull, room))?;
            if taken > 0 || self.plaintext_bytes > 0 {
                return Poll::Ready(Ok(taken));
            }
        }
    }

    /// Ready when a read would not wait. Reads and decrypts until a whole record is here, so that a peer which sends a record
    /// byte by byte does not look ready.
    pub fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.plaintext_bytes > 0 || self.end.is_some() {
            return Poll::Ready(Ok(()));
        }
        let pull = Pull { most_bytes: PEEK_BYTES, at_once: false };
        // An error comes again with the read that follows.
        self.poll_arrived(cx, pull, &mut []).map(|_| Ok(()))
    }

    /// Whether a read might not wait: something has been decrypted, or the event loop has seen the socket readable.
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

    /// Writes from `data`. Ready when the records of the bytes that it counts are in the kernel. After Pending the caller has
    /// to come again with data that begins with the same bytes, since they are encrypted already.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    /// As [`TlsStream::poll_write`], from several slices.
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Records of the handshake, of tickets and of earlier bytes come first.
        ready!(self.poll_records(cx))?;
        if self.uncredited_bytes == 0 {
            self.uncredited_bytes = self.encrypt(data)?;
            ready!(self.poll_records(cx))?;
        }
        let given = data.iter().map(|slice| slice.len()).sum();
        let count = self.uncredited_bytes.min(given);
        self.uncredited_bytes -= count;
        Poll::Ready(Ok(count))
    }

    fn encrypt(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        let most_bytes = if std::mem::take(&mut self.was_full) { ENCRYPT_FULL_BYTES } else { ENCRYPT_BYTES };
        let mut writer = self.tls.writer();
        match data {
            [one] => writer.write(&one[..one.len().min(most_bytes)]),
            [first, second] if first.len() < most_bytes => {
                let second = &second[..second.len().min(most_bytes - first.len())];
                writer.write_vectored(&[IoSlice::new(first), IoSlice::new(second)])
            }
            // More than two slices are not written anywhere; the first ones go now, the others with the next call.
            [first, ..] => writer.write(&first[..first.len().min(most_bytes)]),
            [] => Ok(0),
        }
    }

    /// Writes the records that rustls has encoded.
    fn poll_records(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            let mut sink = Sink { stream: &mut self.stream, cx };
            match self.tls.write_tls(&mut sink) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.was_full = true;
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
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

    /// As [`Stream::unacknowledged_bytes`], in plaintext, a few bytes too many at most where records are small.
    pub fn unacknowledged_bytes(&self) -> u64 {
        let bytes = self.stream.unacknowledged_bytes();
        let records = bytes / (PLAINTEXT_FULL_BYTES as u64) + 1;
        bytes.saturating_sub(records * RECORD_OVERHEAD_BYTES)
    }

    /// Copies decrypted bytes out.
    fn take(&mut self, room: &mut [u8]) -> usize {
        if self.plaintext_bytes == 0 || room.is_empty() {
            return 0;
        }
        let count = self.tls.reader().read(room).unwrap_or(0);
        self.plaintext_bytes -= count;
        count
    }

    /// Reads ciphertext once and decrypts it, into `room` as far as that goes; how many bytes were put there. None may have
    /// been, if a record is not complete or is none of data.
    fn poll_fill(&mut self, cx: &mut Context<'_>, pull: Pull, room: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            return Poll::Ready(self.feed(&held, room));
        }
        with_scratch(|scratch| {
            let scratch = &mut scratch[..pull.most_bytes];
            let read = if pull.at_once {
                self.stream.poll_read_at_once(cx, scratch)
            } else {
                self.stream.poll_read(cx, scratch)
            };
            if read.is_pending() {
                self.shrink();
            }
            let count = ready!(read)?;
            if count == 0 {
                self.end = Some(End::Truncated);
                return Poll::Ready(Ok(0));
            }
            let fed = self.feed(&scratch[..count], room);
            // Answers that the protocol asks for leave with the next write if the socket is full.
            if self.tls.wants_write() && !self.tls.is_handshaking() {
                let _ = self.poll_records(cx);
            }
            Poll::Ready(fed)
        })
    }

    /// Decrypts `bytes`, into `room` as far as that goes. What rustls does not take is held.
    fn feed(&mut self, mut bytes: &[u8], room: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        self.has_grown |= bytes.len() > KEPT_BYTES;
        while !bytes.is_empty() && self.end.is_none() {
            if self.plaintext_bytes > PLAINTEXT_FULL_BYTES {
                self.held.extend_from_slice(bytes);
                break;
            }
            let read = self.tls.read_tls(&mut bytes);
            match read.and_then(|_| self.tls.process_new_packets().map_err(invalid)) {
                Ok(state) => {
                    self.plaintext_bytes = state.plaintext_bytes_to_read();
                    if state.peer_has_closed() {
                        self.end = Some(End::Closed);
                    }
                }
                Err(error) => {
                    self.end = Some(End::Failed);
                    if filled == 0 {
                        return Err(error);
                    }
                }
            }
            filled += self.take(&mut room[filled..]);
        }
        Ok(filled)
    }

    /// Gives back the memory of a ciphertext buffer that has grown, if nothing lies in it.
    fn shrink(&mut self) {
        if std::mem::take(&mut self.has_grown) {
            // A read that finds nothing makes rustls fit its buffer to what is in it.
            let _ = self.tls.read_tls(&mut Nothing);
        }
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

/// Lends the thread's buffer for ciphertext.
pub(super) fn with_scratch<T>(use_it: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| use_it(scratch))
}

/// Where rustls writes records to: the socket, polled with the task's context.
struct Sink<'a, 'c> {
    stream: &'a mut Stream,
    cx: &'a mut Context<'c>,
}

impl Write for Sink<'_, '_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        or_would_block(self.stream.poll_write(self.cx, data))
    }

    fn write_vectored(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        match data {
            [one] => self.write(one),
            several => or_would_block(self.stream.poll_write_vectored(self.cx, several)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn or_would_block<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// A source that has nothing now.
struct Nothing;

impl Read for Nothing {
    fn read(&mut self, _room: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

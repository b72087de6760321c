//! The incoming half of a TLS stream: ciphertext is read into a buffer of the thread, decrypted by rustls,
//! and copied out as far as the caller has room.

use std::cell::RefCell;
use std::io::{self, Read};
use std::task::{Context, Poll, ready};

use super::TlsStream;

/// Most ciphertext read at once: with 16 KiB, a body of 1 MB costs a fifth more CPU.
pub(super) const READ_BYTES: usize = 64 * 1024;
/// Most ciphertext read for a peek. Its plaintext stays here until it is taken.
pub(super) const PEEK_BYTES: usize = 16 * 1024;
/// rustls keeps a buffer of this size for ciphertext; one that grew is shrunk when the connection falls
/// silent.
pub(super) const KEPT_BYTES: usize = 4 * 1024;
/// rustls refuses ciphertext while it holds more plaintext than this.
const PLAINTEXT_FULL_BYTES: usize = 16 * 1024;

thread_local! {
    /// Where ciphertext is read into, shared by all connections of a thread.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// How the incoming side ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsInputEnd {
    /// By close_notify.
    Closed,
    /// By the end of the stream without close_notify.
    Truncated,
    /// By a violation of the protocol, or an alert of the peer.
    Failed,
}

/// How a call asks for bytes.
#[derive(Clone, Copy)]
pub(super) struct Pull {
    pub(super) most_bytes: usize,
    /// The kernel is asked before the event loop.
    pub(super) at_once: bool,
}

impl TlsStream {
    /// Copies decrypted bytes out.
    pub(super) fn take(&mut self, room: &mut [u8]) -> usize {
        if self.plaintext_bytes == 0 || room.is_empty() {
            return 0;
        }
        let count = self.tls.reader().read(room).unwrap_or(0);
        self.plaintext_bytes -= count;
        count
    }

    /// Reads ciphertext once and decrypts it, into `room` as far as that goes; how many bytes were put there.
    /// None may have been, if a record is not complete or is none of data.
    pub(super) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        pull: Pull,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
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
                self.end = Some(TlsInputEnd::Truncated);
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
    pub(super) fn feed(&mut self, mut bytes: &[u8], room: &mut [u8]) -> io::Result<usize> {
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
                        self.end = Some(TlsInputEnd::Closed);
                    }
                }
                Err(error) => {
                    self.end = Some(TlsInputEnd::Failed);
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
    pub(super) fn shrink(&mut self) {
        if std::mem::take(&mut self.has_grown) {
            // A read that finds nothing makes rustls fit its buffer to what is in it.
            let _ = self.tls.read_tls(&mut Nothing);
        }
    }
}

/// Lends the thread's buffer for ciphertext.
pub(in crate::tls) fn with_scratch<T>(use_it: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| use_it(scratch))
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

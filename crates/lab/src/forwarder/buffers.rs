//! Read buffers: pieces of one size, from a pool of each thread or newly allocated. It knows no connection.

use std::cell::RefCell;
use std::io;
use std::ops::Deref;

use clap::ValueEnum;
use tokio::net::tcp::OwnedReadHalf;

/// Bytes of one piece: the larger page of the published tests takes two.
const PIECE_BYTES: usize = 16 * 1024;
/// Pieces that a thread keeps: 16 MiB, more than a thousand connections have in flight.
const KEPT_PIECES: usize = 1024;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Where pieces come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Buffers {
    /// From those that the thread has used before
    Pooled,
    /// From the allocator, every time
    Fresh,
}

impl Buffers {
    /// An empty piece.
    pub(super) fn take(self) -> Buffer {
        let kept = (self == Self::Pooled).then(|| KEPT.with_borrow_mut(Vec::pop)).flatten();
        let bytes = kept.unwrap_or_else(|| Vec::with_capacity(PIECE_BYTES));
        Buffer { bytes, start: 0, source: self }
    }

    /// Waits for bytes and reads them; `None` at the end. A connection that waits holds no piece.
    pub(super) async fn read(self, socket: &OwnedReadHalf) -> io::Result<Option<Buffer>> {
        loop {
            socket.readable().await?;
            let mut buffer = self.take();
            match socket.try_read_buf(&mut buffer.bytes) {
                Ok(0) => return Ok(None),
                Ok(_) => return Ok(Some(buffer)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Bytes that were read and not used yet.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// Offset of the first unused byte.
    start: usize,
    source: Buffers,
}

impl Buffer {
    /// Marks the first `length` bytes as used.
    pub(super) fn advance(&mut self, length: usize) {
        self.start += length;
        debug_assert!(self.start <= self.bytes.len(), "used more than there was");
    }

    /// The vector to append bytes to.
    pub(super) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Keeps the first `length` bytes; bytes after them are copied into the result.
    pub(super) fn split_off(&mut self, length: usize) -> Option<Buffer> {
        let rest = &self[length..];
        if rest.is_empty() {
            return None;
        }
        let mut behind = self.source.take();
        behind.bytes.extend_from_slice(rest);
        self.bytes.truncate(self.start + length);
        Some(behind)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.source == Buffers::Pooled {
            let mut bytes = std::mem::take(&mut self.bytes);
            // If the thread is ending, its pool is gone, and this piece is freed too.
            let _ = KEPT.try_with(|kept| {
                let mut kept = kept.borrow_mut();
                if kept.len() < KEPT_PIECES && bytes.capacity() == PIECE_BYTES {
                    bytes.clear();
                    kept.push(bytes);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_piece_is_empty() {
        let mut piece = Buffers::Pooled.take();
        piece.bytes_mut().extend_from_slice(b"abc");
        let memory = piece.bytes.as_ptr();
        drop(piece);
        let again = Buffers::Pooled.take();
        assert_eq!((again.bytes.as_ptr(), &*again), (memory, &b""[..]));
    }

    #[test]
    fn rest_of_piece_is_split_off() {
        let mut piece = Buffers::Fresh.take();
        piece.bytes_mut().extend_from_slice(b"headbodynext");
        piece.advance(4);
        assert_eq!(piece.split_off(4).as_deref(), Some(&b"next"[..]));
        assert_eq!(&*piece, b"body");
        assert!(piece.split_off(4).is_none());
    }
}

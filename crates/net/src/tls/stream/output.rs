//! The outgoing half of a TLS stream: plaintext is encrypted to records, which are written until the kernel
//! has them.

use std::io::{self, IoSlice, Write};
use std::task::{Context, Poll, ready};

use super::TlsStream;
use crate::env::Stream;

/// Most plaintext encrypted at once. Its records stay in memory when the socket is full.
pub(super) const ENCRYPT_BYTES: usize = 64 * 1024;
/// The same after the socket was found full, so that a client which takes nothing holds little.
const ENCRYPT_FULL_BYTES: usize = 16 * 1024;
/// Most slices of one write that are encrypted together; others go with the next call.
const SLICES_MAX: usize = 32;

impl TlsStream {
    /// Writes from `data`. Ready when the records of the bytes that it counts are in the kernel. After
    /// Pending the caller has to come again with data that begins with the same bytes, since they are
    /// encrypted already.
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

    /// Encrypts the first bytes of `data`, up to the limit; how many they are. rustls copies them into its
    /// records from where they are: the slices are not joined before, and only the last record is not full.
    fn encrypt(&mut self, data: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut left = if std::mem::take(&mut self.was_full) { ENCRYPT_FULL_BYTES } else { ENCRYPT_BYTES };
        let mut writer = self.tls.writer();
        if let [one] = data {
            return writer.write(&one[..one.len().min(left)]);
        }
        let mut parts = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        for (part, slice) in parts.iter_mut().zip(data) {
            let bytes = slice.len().min(left);
            *part = IoSlice::new(&slice[..bytes]);
            (count, left) = (count + 1, left - bytes);
            if left == 0 {
                break;
            }
        }
        writer.write_vectored(&parts[..count])
    }

    /// Writes the records that rustls has encoded.
    pub(super) fn poll_records(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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

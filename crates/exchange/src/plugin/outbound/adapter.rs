//! A transport in the form that the library for HTTP/2 wants. It knows no protocol.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};

use net::transport::Transport;

/// A transport as the library wants it.
pub(super) struct Adapter(pub(super) Transport);

/// Bytes read at once: the answers plugins wait for are small.
const READ_BYTES: usize = 8 * 1024;

impl Read for Adapter {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0_u8; READ_BYTES];
        let length = room.remaining().min(READ_BYTES);
        let count = ready!(self.0.poll_read(cx, &mut bytes[..length]))?;
        room.put_slice(&bytes[..count]);
        Poll::Ready(Ok(()))
    }
}

impl Write for Adapter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_vectored(cx, data)
    }
}

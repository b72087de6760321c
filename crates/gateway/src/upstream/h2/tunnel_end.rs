//! A stream to an endpoint as one end of a tunnel (RFC 8441 section 5): DATA frames carry the bytes,
//! END_STREAM is the orderly end of one way, and RST_STREAM that of both.

use std::io;
use std::task::{Context, Poll, ready};

use stdx::pooled::PooledBox;

use super::stream::UpstreamH2Stream;
use crate::body::{BodyEvent, Capacity, UpstreamStream};
use crate::tunnel::TunnelEnd;

/// See the module. A stream that has not ended both ways is reset when this is dropped.
pub(crate) struct UpstreamStreamEnd {
    stream: PooledBox<UpstreamH2Stream>,
}

impl UpstreamStreamEnd {
    /// The end of a tunnel that the response on `stream` has opened.
    pub(crate) fn new(stream: PooledBox<UpstreamH2Stream>) -> UpstreamStreamEnd {
        UpstreamStreamEnd { stream }
    }
}

impl TunnelEnd for UpstreamStreamEnd {
    fn held(&self) -> &[u8] {
        self.stream.held()
    }

    fn consume(&mut self, count: usize) {
        UpstreamStream::consume(&mut *self.stream, count);
    }

    fn commit(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The window bounds the bytes that an endpoint can make the gateway hold, so that none have to be given
    /// back.
    fn release(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, capacity: Capacity) -> Poll<io::Result<usize>> {
        let mut all = |_: &mut Context<'_>| Poll::Ready(Ok(capacity));
        Poll::Ready(match ready!(self.stream.poll_body(cx, &mut all)) {
            BodyEvent::Data(data) => Ok(data.len()),
            BodyEvent::End(_) => Ok(0),
            BodyEvent::Reset(failure) => {
                Err(io::Error::new(io::ErrorKind::ConnectionReset, failure.detail.clone().into_owned()))
            }
        })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(UpstreamStream::poll_write(&mut *self.stream, cx, data))?;
        ready!(self.stream.poll_flush(cx))?;
        Poll::Ready(Ok(count))
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_capacity(cx)
    }

    fn poll_shutdown(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.end_sending();
        Poll::Ready(Ok(()))
    }

    fn reset_on_close(&mut self) {}

    fn end_on_close(&mut self) {
        self.stream.end_sending();
    }
}

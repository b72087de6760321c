//! A stream of HTTP/2 as one end of a tunnel (RFC 8441 section 5): DATA frames carry the bytes, END_STREAM is the orderly
//! end of one way, and RST_STREAM that of both.

use std::io;
use std::task::{Context, Poll, ready};

use super::stream::H2Stream;
use crate::body::{BodyEvent, Capacity, RequestBody, ResponseSink};
use crate::tunnel::TunnelEnd;
use exchange::failure::Blame;

/// See the module.
pub(super) struct StreamEnd {
    stream: H2Stream,
}

impl StreamEnd {
    /// The end of a tunnel on `stream`, after its response head was sent.
    pub(super) fn new(stream: H2Stream) -> StreamEnd {
        StreamEnd { stream }
    }
}

impl TunnelEnd for StreamEnd {
    fn held(&self) -> &[u8] {
        self.stream.held()
    }

    fn consume(&mut self, count: usize) {
        RequestBody::consume(&mut self.stream, count);
    }

    fn commit(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The window bounds the bytes that a client can make the gateway hold, so that none have to be given back.
    fn release(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, _capacity: Capacity) -> Poll<io::Result<usize>> {
        Poll::Ready(match ready!(self.stream.poll_body(cx)) {
            BodyEvent::Data(data) => Ok(data.len()),
            BodyEvent::End(_) => Ok(0),
            BodyEvent::Reset(failure) => {
                Err(io::Error::new(io::ErrorKind::ConnectionReset, failure.detail.clone().into_owned()))
            }
        })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ResponseSink::poll_write(&mut self.stream, cx, data)
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_capacity(cx).map_ok(|_| ())
    }

    fn poll_shutdown(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.end_tunnel();
        Poll::Ready(Ok(()))
    }

    fn reset_on_close(&mut self) {
        self.stream.abort(Blame::Client);
    }

    fn end_on_close(&mut self) {
        self.stream.end_in_order();
    }
}

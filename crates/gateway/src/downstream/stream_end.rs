//! A stream of HTTP/2 or HTTP/3 as one end of a tunnel (RFC 8441 section 5, RFC 9220): its content carries
//! the bytes, the end of a direction is the orderly end of one way, and a reset that of both.

use std::io;
use std::task::{Context, Poll, ready};

use crate::body::{BodyEvent, Capacity, RequestBody, ResponseSink};
use crate::tunnel::TunnelEnd;
use exchange::failure::Blame;

/// A stream that can carry a tunnel after its response head.
pub(crate) trait TunnelStream: RequestBody + ResponseSink {
    /// Bytes of the client that were read and not consumed.
    fn held(&self) -> &[u8];
    /// Sends bytes that were taken and have not been sent. They are sent while the tunnel waits for the
    /// client, because a tunnel has no step that flushes.
    fn send_taken(&mut self, cx: &mut Context<'_>);
    /// Ends the way to the client. Ready when all bytes before the end were passed to the transport.
    fn poll_end_tunnel(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Ends both ways in order.
    fn end_in_order(&mut self);
}

/// See the module.
pub(crate) struct DownstreamStreamEnd<S> {
    stream: S,
}

impl<S: TunnelStream> DownstreamStreamEnd<S> {
    /// The end of a tunnel on `stream`, after its response head was sent.
    pub(crate) fn new(stream: S) -> DownstreamStreamEnd<S> {
        DownstreamStreamEnd { stream }
    }
}

impl<S: TunnelStream> TunnelEnd for DownstreamStreamEnd<S> {
    fn held(&self) -> &[u8] {
        self.stream.held()
    }

    fn consume(&mut self, count: usize) {
        RequestBody::consume(&mut self.stream, count);
    }

    fn commit(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The window bounds the bytes that a client can make the gateway hold, so that none have to be given
    /// back.
    fn release(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, _capacity: Capacity) -> Poll<io::Result<usize>> {
        self.stream.send_taken(cx);
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

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_end_tunnel(cx)
    }

    fn reset_on_close(&mut self) {
        self.stream.abort(Blame::Client);
    }

    fn end_on_close(&mut self) {
        self.stream.end_in_order();
    }
}

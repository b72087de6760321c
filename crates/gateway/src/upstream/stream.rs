//! A stream that a pool checks out: one exchange's stream to an endpoint, in any protocol. The pipeline
//! forwards over this and knows no connection; the pool knows how many streams a connection carries.

use std::io;
use std::task::{Context, Poll};

use message::{Headers, ResponseHead};
use stdx::pooled::PooledBox;
use stdx::prefetch::prefetch;
use stdx::segment::ByteSegment;

use super::h1::UpstreamH1Stream;
use super::h2::stream::UpstreamH2Stream;
use super::h2::tunnel_end::UpstreamStreamEnd;
use super::tunnel_end::UpstreamEnd;
use crate::body::{AttemptProgress, BodyEvent, BodyLength, Capacity, PollCapacity, UpstreamStream};
use exchange::Exchange;
use exchange::failure::ExchangeFailure;

/// A stream that was checked out. One variant per protocol of endpoints, so that calls need no virtual table;
/// in pooled memory, because it is moved several times between the pool and the attempt.
pub(crate) enum PooledStream {
    /// HTTP/1: a whole connection, since it carries one exchange at a time.
    Http1(PooledBox<UpstreamH1Stream>),
    /// HTTP/2: one stream of a connection that exchanges share.
    Http2(PooledBox<UpstreamH2Stream>),
    /// A protocol with many exchanges at once on a connection, played by a test's script.
    #[cfg(test)]
    Scripted(Box<dyn UpstreamStream>),
}

/// Passes a call on to whichever stream it is.
macro_rules! on_stream {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self {
            PooledStream::Http1($stream) => $call,
            PooledStream::Http2($stream) => $call,
            #[cfg(test)]
            PooledStream::Scripted($stream) => $call,
        }
    };
}

impl PooledStream {
    /// Asks for its memory, which a wait may have driven out of the caches.
    #[inline]
    pub(crate) fn prefetch(&self) {
        match self {
            PooledStream::Http1(stream) => prefetch(&**stream),
            PooledStream::Http2(stream) => prefetch(&**stream),
            #[cfg(test)]
            PooledStream::Scripted(_) => {}
        }
    }

    /// Whether a response with `status` has opened a tunnel on a connection that exchanges share (RFC 8441).
    pub(crate) fn has_opened_tunnel(&self, status: u16) -> bool {
        matches!(self, PooledStream::Http2(stream) if stream.has_opened_tunnel(status))
    }

    /// Whether exchanges share the connection, over HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, PooledStream::Http2(_))
    }

    /// Whether this exchange has the connection to itself, so that the connection may become a tunnel.
    pub(crate) fn is_exclusive(&self) -> bool {
        match self {
            PooledStream::Http1(_) => true,
            PooledStream::Http2(_) => false,
            #[cfg(test)]
            PooledStream::Scripted(_) => false,
        }
    }

    /// The end of a tunnel that the response has opened, and a write buffer for reuse; `None` for a stream
    /// that cannot become one.
    pub(crate) fn into_tunnel(self) -> Option<(UpstreamEnd, Vec<u8>)> {
        match self {
            PooledStream::Http1(stream) => {
                let (duplex, bytes) = stream.into_inner().into_duplex();
                Some((UpstreamEnd::Socket(duplex.into_end()), bytes))
            }
            PooledStream::Http2(stream) => {
                Some((UpstreamEnd::Stream(UpstreamStreamEnd::new(stream)), Vec::new()))
            }
            #[cfg(test)]
            PooledStream::Scripted(_) => None,
        }
    }
}

impl UpstreamStream for PooledStream {
    fn start_request(&mut self, exchange: &Exchange, length: BodyLength) {
        on_stream!(self, stream => stream.start_request(exchange, length));
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => stream.poll_write(cx, data))
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        on_stream!(self, stream => stream.finish(trailers));
    }

    #[inline]
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_flush(cx))
    }

    #[inline]
    fn takes_segment(&mut self, count: usize) -> bool {
        on_stream!(self, stream => stream.takes_segment(count))
    }

    fn write_segment(&mut self, segment: ByteSegment) -> io::Result<()> {
        on_stream!(self, stream => stream.write_segment(segment))
    }

    #[inline]
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
        capacity: Capacity,
    ) -> Poll<Result<(), ExchangeFailure>> {
        on_stream!(self, stream => stream.poll_head(cx, head, capacity))
    }

    fn fault_in_head(&mut self, head: &mut ResponseHead) -> Option<ExchangeFailure> {
        on_stream!(self, stream => stream.fault_in_head(head))
    }

    #[inline]
    fn fault_at_body_start(&mut self) -> Option<ExchangeFailure> {
        on_stream!(self, stream => stream.fault_at_body_start())
    }

    #[inline]
    fn poll_body<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
        capacity: &mut PollCapacity<'_>,
    ) -> Poll<BodyEvent<'a>> {
        on_stream!(self, stream => stream.poll_body(cx, capacity))
    }

    fn take_segment(&mut self, count: usize) -> Option<ByteSegment> {
        on_stream!(self, stream => stream.take_segment(count))
    }

    fn pause(&mut self) -> Result<(), ExchangeFailure> {
        on_stream!(self, stream => stream.pause())
    }

    fn consume(&mut self, count: usize) {
        on_stream!(self, stream => stream.consume(count));
    }

    fn body_length(&self) -> BodyLength {
        on_stream!(self, stream => stream.body_length())
    }

    fn progress(&self) -> AttemptProgress {
        on_stream!(self, stream => stream.progress())
    }
}

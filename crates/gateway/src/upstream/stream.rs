//! A stream that a pool checks out: one exchange's stream to an endpoint, in any protocol. The pipeline forwards over
//! this and knows no connection; the pool knows how many streams a connection carries.

use std::io;
use std::task::{Context, Poll};

use message::{Headers, ResponseHead};
use stdx::pooled::PooledBox;

use super::h1::H1Stream;
use crate::body::{AttemptProgress, BodyEvent, BodyLength, Capacity, PollCapacity, UpstreamStream};
use crate::tunnel::Duplex;
use exchange::Exchange;
use exchange::failure::Failure;

/// A stream that was checked out. One variant per protocol of endpoints, so that calls need no virtual table; in pooled
/// memory, because it is moved several times between the pool and the attempt.
pub(crate) enum PooledStream {
    /// HTTP/1: a whole connection, since it carries one exchange at a time.
    Http1(PooledBox<H1Stream>),
    /// A protocol with many exchanges at once on a connection, played by a test's script.
    #[cfg(test)]
    Scripted(Box<dyn UpstreamStream>),
}

/// Passes a call on to whichever stream it is.
macro_rules! on_stream {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self {
            PooledStream::Http1($stream) => $call,
            #[cfg(test)]
            PooledStream::Scripted($stream) => $call,
        }
    };
}

impl PooledStream {
    /// Whether this exchange has the connection to itself, so that the connection may become a tunnel.
    pub(crate) fn is_exclusive(&self) -> bool {
        match self {
            PooledStream::Http1(_) => true,
            #[cfg(test)]
            PooledStream::Scripted(_) => false,
        }
    }

    /// The bare connection, for a tunnel, and a write buffer for reuse; `None` if exchanges share the connection.
    pub(crate) fn into_duplex(self) -> Option<(Duplex, Vec<u8>)> {
        match self {
            PooledStream::Http1(stream) => Some(stream.into_inner().into_duplex()),
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
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
        capacity: Capacity,
    ) -> Poll<Result<(), Failure>> {
        on_stream!(self, stream => stream.poll_head(cx, head, capacity))
    }

    fn fault_in_head(&mut self, head: &mut ResponseHead) -> Option<Failure> {
        on_stream!(self, stream => stream.fault_in_head(head))
    }

    #[inline]
    fn poll_body<'a>(
        &'a mut self,
        cx: &mut Context<'_>,
        capacity: &mut PollCapacity<'_>,
    ) -> Poll<BodyEvent<'a>> {
        on_stream!(self, stream => stream.poll_body(cx, capacity))
    }

    fn pause(&mut self) -> Result<(), Failure> {
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

//! The endpoint's end of a tunnel: a connection of HTTP/1 that has left its protocol, or one stream of
//! HTTP/2. It passes no bytes by itself.

use std::io;
use std::task::{Context, Poll};

use super::counted::CountedTransport;
use super::h2::tunnel_end::UpstreamStreamEnd;
use crate::body::Capacity;
use crate::tunnel::{SocketEnd, TunnelEnd};

/// See the module.
pub(crate) enum UpstreamEnd {
    /// A whole connection.
    Socket(SocketEnd<CountedTransport>),
    /// A stream of a connection that exchanges share.
    Stream(UpstreamStreamEnd),
}

/// Passes a call on to whichever end it is.
macro_rules! on_end {
    ($self:ident, $end:ident => $call:expr) => {
        match $self {
            UpstreamEnd::Socket($end) => $call,
            UpstreamEnd::Stream($end) => $call,
        }
    };
}

impl TunnelEnd for UpstreamEnd {
    #[inline]
    fn held(&self) -> &[u8] {
        on_end!(self, end => end.held())
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        on_end!(self, end => end.consume(count));
    }

    #[inline]
    fn commit(&mut self) -> io::Result<()> {
        on_end!(self, end => end.commit())
    }

    fn release(&mut self) -> io::Result<()> {
        on_end!(self, end => end.release())
    }

    #[inline]
    fn poll_fill(&mut self, cx: &mut Context<'_>, capacity: Capacity) -> Poll<io::Result<usize>> {
        on_end!(self, end => end.poll_fill(cx, capacity))
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        on_end!(self, end => end.poll_write(cx, data))
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_end!(self, end => end.poll_writable(cx))
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_end!(self, end => end.poll_shutdown(cx))
    }

    fn reset_on_close(&mut self) {
        on_end!(self, end => end.reset_on_close());
    }

    fn end_on_close(&mut self) {
        on_end!(self, end => end.end_on_close());
    }
}

//! The bytes of a connection, with TLS or without, behind the same calls: protocols are written once against
//! this. A call on a plain socket costs one branch more than on the socket itself.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use crate::env::{PeerEnd, Socket, Stream};
use crate::tls::TlsStream;

/// See the module.
#[derive(Debug)]
pub enum Transport {
    /// A plain socket.
    Tcp(Stream),
    /// TLS over one. In a box, so that a connection without TLS does not pay its size.
    Tls(Box<TlsStream>),
}

/// Passes a call on to the stream or the TLS stream.
macro_rules! on_either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self {
            Transport::Tcp($stream) => $call,
            Transport::Tls($stream) => $call,
        }
    };
}

impl From<Stream> for Transport {
    fn from(stream: Stream) -> Transport {
        Transport::Tcp(stream)
    }
}

impl From<TlsStream> for Transport {
    fn from(stream: TlsStream) -> Transport {
        Transport::Tls(Box::new(stream))
    }
}

impl Transport {
    /// Takes over a connected plain socket, for instance one that another worker accepted.
    ///
    /// # Errors
    /// The event loop's.
    pub fn attach(socket: Socket) -> io::Result<Transport> {
        Stream::attach(socket).map(Transport::Tcp)
    }

    /// The TLS part, if there is one.
    pub fn tls(&self) -> Option<&TlsStream> {
        match self {
            Transport::Tcp(_) => None,
            Transport::Tls(stream) => Some(stream),
        }
    }

    /// The socket beneath.
    #[inline]
    pub fn socket(&self) -> &Stream {
        match self {
            Transport::Tcp(stream) => stream,
            Transport::Tls(stream) => stream.socket(),
        }
    }

    /// See [`Stream::poll_read`]. Over TLS, an end of the stream without close_notify is
    /// [`io::ErrorKind::UnexpectedEof`] and not 0 bytes.
    #[inline]
    pub fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        on_either!(self, stream => stream.poll_read(cx, room))
    }

    /// See [`Stream::poll_read_at_once`].
    #[inline]
    pub fn poll_read_at_once(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        on_either!(self, stream => stream.poll_read_at_once(cx, room))
    }

    /// See [`Stream::poll_read_ready`]. Over TLS it is ready when something was decrypted, or at the end.
    #[inline]
    pub fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self, stream => stream.poll_read_ready(cx))
    }

    /// [`Transport::poll_read_ready`] with a look first, which is cheaper on a plain socket than the question
    /// that leaves a waker.
    #[inline]
    pub fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Transport::Tcp(stream) if stream.is_readable() => Poll::Ready(()),
            Transport::Tcp(stream) => stream.poll_read_ready(cx).map(drop),
            Transport::Tls(stream) => stream.poll_read_ready(cx).map(drop),
        }
    }

    /// See [`Stream::is_readable`]. Over TLS it may be true although a read waits, because a record is not
    /// complete.
    #[inline]
    pub fn is_readable(&self) -> bool {
        on_either!(self, stream => stream.is_readable())
    }

    /// See [`Stream::read_arrived`].
    pub fn read_arrived(&mut self, room: &mut [u8]) -> usize {
        on_either!(self, stream => stream.read_arrived(room))
    }

    /// See [`Stream::poll_peek`].
    #[inline]
    pub fn poll_peek(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        on_either!(self, stream => stream.poll_peek(cx, room))
    }

    /// See [`Stream::poll_peek_at_once`].
    #[inline]
    pub fn poll_peek_at_once(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        on_either!(self, stream => stream.poll_peek_at_once(cx, room))
    }

    /// See [`Stream::drop_seen`].
    #[inline]
    pub fn drop_seen(&mut self, room: &mut [u8], is_all: bool) -> usize {
        on_either!(self, stream => stream.drop_seen(room, is_all))
    }

    /// See [`Stream::poll_write`]. Over TLS, bytes are counted when their records are in the kernel; after
    /// Pending the caller has to come again with data that begins with the same bytes.
    #[inline]
    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        on_either!(self, stream => stream.poll_write(cx, data))
    }

    /// See [`Transport::poll_write`].
    #[inline]
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_either!(self, stream => stream.poll_write_vectored(cx, data))
    }

    /// Whether a write that is pending or failed may have sent some of its bytes. A plain socket reports
    /// every byte that it took; TLS reports bytes only when all records of a write are in the kernel.
    pub fn holds_unconfirmed(&self) -> bool {
        match self {
            Transport::Tcp(_) => false,
            Transport::Tls(stream) => stream.holds_unconfirmed(),
        }
    }

    /// See [`Stream::send_buffer_bytes`].
    pub fn send_buffer_bytes(&self) -> io::Result<usize> {
        self.socket().send_buffer_bytes()
    }

    /// See [`Stream::poll_third_free`].
    pub fn poll_third_free(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self, stream => stream.poll_third_free(cx))
    }

    /// Closes the sending side; over TLS, with close_notify.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self, stream => stream.poll_shutdown(cx))
    }

    /// See [`Stream::reset_on_close`].
    pub fn reset_on_close(&self) {
        on_either!(self, stream => stream.reset_on_close());
    }

    /// See [`Stream::end_on_close`].
    pub fn end_on_close(&self) {
        on_either!(self, stream => stream.end_on_close());
    }

    /// See [`Stream::unacknowledged_bytes`].
    pub fn unacknowledged_bytes(&self) -> u64 {
        on_either!(self, stream => stream.unacknowledged_bytes())
    }

    /// See [`Stream::descriptor`].
    pub fn descriptor(&self) -> u64 {
        self.socket().descriptor()
    }

    /// See [`Stream::peer_end`].
    pub fn peer_end(&self) -> PeerEnd {
        self.socket().peer_end()
    }

    /// See [`Stream::local_address`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket().local_address()
    }
}

//! One connection of a client to a peer: the library's protocol machine over a stream of the seam. The machine runs
//! inside the call that uses it, on no task of its own, so that whatever ends the call ends the connection. It decides
//! nothing about requests.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection as Machine, SendRequest};
use hyper::rt::{Read, ReadBufCursor, Write};

use net::endpoint::Endpoint;
use net::transport::Transport;

/// The longest head of an answer, and the most fields in it: as much as the gateway takes from any origin by default.
const HEAD_MAX_BYTES: usize = 64 * 1024;
const FIELDS_MAX: usize = 100;

/// See the module.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    machine: Pin<Box<Machine<Adapter, Full<Bytes>>>>,
    ended: bool,
    /// Where it leads.
    pub(super) endpoint: Arc<Endpoint>,
    /// The host that TLS was opened for; it serves requests for this host only.
    pub(super) server_name: Option<Box<str>>,
    /// Requests it has served.
    pub(super) served: u32,
    /// When it became idle, in milliseconds of the monotonic clock.
    pub(super) idle_since_ms: u64,
}

impl Connection {
    /// Makes a connection of a stream that is open.
    pub(super) async fn new(
        stream: Transport,
        endpoint: Arc<Endpoint>,
        host: &str,
    ) -> hyper::Result<Connection> {
        let server_name = stream.tls().map(|_| host.into());
        let mut builder = Builder::new();
        builder.max_header_size(HEAD_MAX_BYTES).max_headers(FIELDS_MAX);
        let (sender, machine) = builder.handshake(Adapter(stream)).await?;
        let machine = Box::pin(machine);
        Ok(Connection { sender, machine, ended: false, endpoint, server_name, served: 0, idle_since_ms: 0 })
    }

    /// Sends a request and waits for the head of its answer. The body is read through [`Connection::drive`].
    pub(super) async fn send(
        &mut self,
        request: http::Request<Full<Bytes>>,
    ) -> hyper::Result<http::Response<Incoming>> {
        self.served = self.served.saturating_add(1);
        let answer = self.sender.send_request(request);
        self.drive(answer).await
    }

    /// Runs the protocol until `work`, which waits for it, is done.
    pub(super) async fn drive<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.turn(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Whether it can serve another request now: the peer has not closed it, and nothing of the last one is left.
    pub(super) fn is_idle(&mut self) -> bool {
        // Bytes that arrived unexpectedly show here.
        self.turn(&mut Context::from_waker(Waker::noop()));
        !self.ended && self.sender.is_ready()
    }

    fn turn(&mut self, cx: &mut Context<'_>) {
        // How it ended shows in what waits for it.
        if !self.ended && self.machine.as_mut().poll(cx).is_ready() {
            self.ended = true;
        }
    }
}

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

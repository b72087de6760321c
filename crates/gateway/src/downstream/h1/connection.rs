//! A client's HTTP/1 connection as it is between exchanges.

use std::rc::Rc;

use stdx::buffer::Buffer;

use super::send_capacity::KeptSendCapacity;
use crate::downstream::arrival::ConnectionIdentity;
use crate::downstream::connection_guard::ConnectionGuard;
use crate::downstream::listener_state::OpenListener;
use exchange::exchange::{CompactAddress, ConnectionContext, ProxyContext, RequestScheme, TlsContext};
use net::transport::Transport;

/// A client's connection between exchanges: small, and without a buffer while it is idle. It lives in a box
/// of its own, since an `async fn` would keep two copies of what it is given, one as its argument and one as
/// its variable.
pub(crate) struct H1Connection {
    pub(crate) stream: Transport,
    pub(crate) input: Option<Buffer>,
    /// Number of the connection, unique in this process.
    pub(crate) id: u64,
    peer: CompactAddress,
    /// Requests begun on it.
    pub(crate) requests: u32,
    /// The listener that accepted the connection; when the listener closes, the connection closes too.
    pub(crate) listener: Rc<OpenListener>,
    /// Progress of a partial request head, if one has come.
    pub(super) partial: Option<PartialHead>,
    /// The capacity of the client's socket as the last exchange left it.
    pub(super) room: KeptSendCapacity,
    /// The facts of its TLS layer, if there is one.
    tls: Option<Rc<TlsContext>>,
    /// The PROXY protocol header that it began with.
    proxy: Option<Rc<ProxyContext>>,
    /// Its place in the worker's count, given back with it.
    counted: ConnectionGuard,
}

/// A request head of which only a part has arrived. Besides the bytes, this is all the memory that a slow
/// client holds.
#[derive(Clone, Copy)]
pub(super) struct PartialHead {
    /// When its first byte was read.
    pub(super) started_ns: u64,
    /// How many bytes were searched for the end of the head.
    pub(super) scanned_bytes: usize,
}

impl H1Connection {
    /// Creates a connection after the layers below HTTP (PROXY protocol, TLS) are open.
    pub(crate) fn new(
        stream: Transport,
        identity: ConnectionIdentity,
        counted: ConnectionGuard,
        tls: Option<Rc<TlsContext>>,
    ) -> Box<H1Connection> {
        let ConnectionIdentity { id, peer, listener, proxy } = identity;
        let room = KeptSendCapacity::AfterShort;
        Box::new(H1Connection {
            stream,
            input: None,
            id,
            peer,
            requests: 0,
            listener,
            partial: None,
            room,
            tls,
            proxy,
            counted,
        })
    }

    /// The connection as its exchanges see it.
    pub(crate) fn context(&self) -> ConnectionContext {
        ConnectionContext {
            id: self.id,
            peer: self.peer,
            local: self.listener.listener.address().into(),
            scheme: if self.tls.is_some() { RequestScheme::Https } else { RequestScheme::Http },
            requests: self.requests,
            tls: self.tls.clone(),
            proxy: self.proxy.clone(),
        }
    }

    /// Whether it may turn out to speak HTTP/2: its listener serves it, and no request has come before. Over
    /// TLS the handshake decides (RFC 9113 section 3.2).
    pub(super) fn takes_http2(&self) -> bool {
        self.requests == 0 && self.tls.is_none() && self.listener.serves_http2()
    }

    /// A buffer to read from a client.
    pub(crate) fn take_input() -> Buffer {
        Buffer::small()
    }

    /// Reads what the kernel has accepted and the event loop has not reported yet, so that such a request is
    /// answered although the connection is about to end. False if there is nothing.
    pub(super) fn take_arrived(&mut self) -> bool {
        let mut input = H1Connection::take_input();
        let count = self.stream.read_arrived(input.spare_mut());
        input.advance(count);
        self.input = Some(input);
        count > 0
    }

    /// Whether the connection is to end after the exchange in flight.
    #[inline]
    pub(crate) fn is_closing(&self, now_ms: u64) -> bool {
        self.listener.is_closing(self.id, now_ms)
    }

    pub(super) fn has_input(&self) -> bool {
        self.input.as_ref().is_some_and(|input| !input.filled().is_empty())
    }
}

impl Drop for H1Connection {
    fn drop(&mut self) {
        self.counted.release(self.peer.ip());
    }
}

//! A client's HTTP/3 connection as it is between exchanges.

use std::rc::Rc;

use crate::downstream::arrival::ConnectionIdentity;
use crate::downstream::connection_guard::ConnectionGuard;
use crate::downstream::listener_state::OpenListener;
use exchange::exchange::{CompactAddress, ConnectionContext, RequestScheme, TlsContext};
use net::quic::Guarded;

/// See the module.
pub(super) struct H3Connection {
    pub(super) quic: Guarded<quinn::Connection>,
    /// Number of the connection, unique in this process.
    pub(super) id: u64,
    /// The address that the handshake came from. It stays the client's address when the connection migrates,
    /// because a request may arrive from a new address before the transport has validated that address, and
    /// rules about addresses must not be decided by one that the client may have invented.
    peer: CompactAddress,
    /// Requests begun on it.
    pub(super) requests: u32,
    /// The listener that accepted the connection; when the listener closes, the connection closes too.
    pub(super) listener: Rc<OpenListener>,
    tls: Rc<TlsContext>,
    /// Its place in the worker's count, given back with it.
    counted: ConnectionGuard,
}

impl H3Connection {
    /// Creates a connection after its handshake.
    pub(super) fn new(
        quic: Guarded<quinn::Connection>,
        identity: ConnectionIdentity,
        counted: ConnectionGuard,
        tls: Rc<TlsContext>,
    ) -> Box<H3Connection> {
        let ConnectionIdentity { id, peer, listener, .. } = identity;
        Box::new(H3Connection { quic, id, peer, requests: 0, listener, tls, counted })
    }

    /// The connection as its exchanges see it.
    pub(super) fn context(&self) -> ConnectionContext {
        ConnectionContext {
            id: self.id,
            peer: self.peer,
            local: self.listener.listener.address().into(),
            scheme: RequestScheme::Https,
            requests: self.requests,
            tls: Some(self.tls.clone()),
            proxy: None,
        }
    }

    /// Whether the connection is to end after the exchanges in flight.
    pub(super) fn is_closing(&self, now_ms: u64) -> bool {
        self.listener.is_closing(self.id, now_ms)
    }
}

impl Drop for H3Connection {
    fn drop(&mut self) {
        self.counted.release(self.peer.ip());
    }
}

//! The stream that an attempt needs, and the connection that is opened for it where there is none. It opens
//! nothing.

use std::sync::Arc;

use exchange::overload::wait_queue::WaitQueue;
use net::endpoint::Endpoint;

/// The stream that an attempt needs.
#[derive(Clone, Copy)]
pub(crate) struct WantedStream<'a> {
    pub(crate) endpoint: &'a Arc<Endpoint>,
    /// The server name for TLS; none without TLS.
    pub(crate) server_name: Option<&'a str>,
    /// The request asks to switch protocols, for which it needs a connection of its own, or an extended
    /// CONNECT.
    pub(crate) is_upgrade: bool,
    /// The upstream speaks HTTP/2 alone, as gRPC does: an upgrade gets no connection of HTTP/1.
    pub(crate) needs_http2: bool,
    /// The attempt repeats one that failed because its connection was closed, or refused it.
    pub(crate) is_repeated: bool,
    /// It has waited for a connection, which is new.
    pub(crate) has_waited: bool,
    /// The requests that wait for a connection to close, where connections are limited.
    pub(crate) queue: Option<&'a Arc<WaitQueue>>,
}

/// The same, for a connection that has to be opened.
pub(crate) struct WantedConnection {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) server_name: Option<Box<str>>,
    pub(super) is_upgrade: bool,
    pub(super) needs_http2: bool,
    pub(super) is_repeated: bool,
    pub(super) queue: Option<Arc<WaitQueue>>,
}

impl From<WantedStream<'_>> for WantedConnection {
    fn from(wanted: WantedStream<'_>) -> WantedConnection {
        let WantedStream { endpoint, server_name, is_upgrade, needs_http2, is_repeated, queue, .. } = wanted;
        WantedConnection {
            endpoint: endpoint.clone(),
            server_name: server_name.map(Box::from),
            is_upgrade,
            needs_http2,
            is_repeated,
            queue: queue.cloned(),
        }
    }
}

impl WantedConnection {
    pub(super) fn wanted(&self) -> WantedStream<'_> {
        WantedStream {
            endpoint: &self.endpoint,
            server_name: self.server_name.as_deref(),
            is_upgrade: self.is_upgrade,
            needs_http2: self.needs_http2,
            is_repeated: self.is_repeated,
            has_waited: false,
            queue: self.queue.as_ref(),
        }
    }
}

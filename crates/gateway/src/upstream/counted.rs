//! A connection to an endpoint that counts among the open ones of all workers, until it is closed, whatever holds it by then.

use std::borrow::{Borrow, BorrowMut};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use net::endpoint::Endpoint;
use net::transport::Transport;

use exchange::failure::{Cause, Failure};

/// A place among the open connections of an endpoint.
#[derive(Debug)]
pub(crate) struct ConnectionPlace(Arc<Endpoint>);

impl ConnectionPlace {
    /// Takes a place; none is needed at an endpoint without a limit.
    ///
    /// # Errors
    /// `node_max_connections`; idle connections of other workers are asked to give way.
    pub(crate) fn new(endpoint: &Arc<Endpoint>) -> Result<Option<ConnectionPlace>, Failure> {
        if endpoint.keep_alive.max_connections == 0 {
            return Ok(None);
        }
        if endpoint.try_open() {
            return Ok(Some(ConnectionPlace(endpoint.clone())));
        }
        let most = endpoint.keep_alive.max_connections;
        Err(Failure::new(Cause::NodeConnections, format!("{most} connections to the node are open")))
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.0.closed();
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct CountedTransport {
    transport: Transport,
    /// After the transport, so that the place is free once the socket is closed.
    _place: Option<ConnectionPlace>,
}

impl CountedTransport {
    pub(crate) fn new(transport: Transport, place: Option<ConnectionPlace>) -> CountedTransport {
        CountedTransport { transport, _place: place }
    }
}

impl From<Transport> for CountedTransport {
    fn from(transport: Transport) -> CountedTransport {
        CountedTransport::new(transport, None)
    }
}

impl Deref for CountedTransport {
    type Target = Transport;

    #[inline]
    fn deref(&self) -> &Transport {
        &self.transport
    }
}

impl DerefMut for CountedTransport {
    #[inline]
    fn deref_mut(&mut self) -> &mut Transport {
        &mut self.transport
    }
}

impl Borrow<Transport> for CountedTransport {
    fn borrow(&self) -> &Transport {
        &self.transport
    }
}

impl BorrowMut<Transport> for CountedTransport {
    fn borrow_mut(&mut self) -> &mut Transport {
        &mut self.transport
    }
}

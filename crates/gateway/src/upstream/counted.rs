//! A connection to an endpoint that counts among the open ones of all workers, until it is closed, whatever
//! holds it by then.

use std::borrow::{Borrow, BorrowMut};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use net::endpoint::Endpoint;
use net::transport::Transport;

use exchange::failure::{Cause, ExchangeFailure};
use exchange::overload::wait_queue::WaitQueue;

/// A place among the open connections of an endpoint. Its end wakes a request that waits for one.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    endpoint: Arc<Endpoint>,
    queue: Option<Arc<WaitQueue>>,
}

impl ConnectionPlace {
    /// Takes a place; none is needed at an endpoint without a limit.
    ///
    /// # Errors
    /// `node_max_connections`; idle connections of other workers are asked to give way.
    pub(crate) fn new(
        endpoint: &Arc<Endpoint>,
        queue: Option<&Arc<WaitQueue>>,
    ) -> Result<Option<ConnectionPlace>, ExchangeFailure> {
        if endpoint.keep_alive.max_connections == 0 {
            return Ok(None);
        }
        if endpoint.try_open() {
            return Ok(Some(ConnectionPlace { endpoint: endpoint.clone(), queue: queue.cloned() }));
        }
        let most = endpoint.keep_alive.max_connections;
        Err(ExchangeFailure::new(Cause::NodeConnections, format!("{most} connections to the node are open")))
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.endpoint.closed();
        if let Some(queue) = &self.queue {
            queue.wake_first();
        }
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use exchange::overload::Priority;
    use exchange::overload::wait_queue::Blocked;
    use net::endpoint::{EndpointKey, EndpointTable, KeepAlive};
    use testkit::CountedTask;

    use super::*;

    #[test]
    fn closed_connection_wakes_a_waiting_request() {
        let keep_alive = KeepAlive { max_connections: 1, ..KeepAlive::default() };
        let address = ([127, 0, 0, 1], 80).into();
        let endpoint = EndpointTable::default().intern(EndpointKey::cleartext(address, keep_alive));
        let (queue, task) = (Arc::<WaitQueue>::default(), Arc::<CountedTask>::default());
        let place = ConnectionPlace::new(&endpoint, Some(&queue)).unwrap();
        assert_eq!(ConnectionPlace::new(&endpoint, Some(&queue)).unwrap_err().cause, Cause::NodeConnections);
        let mut waiter = queue.join(Priority::Default, 1).unwrap();
        let waker = Waker::from(task.clone());
        let enter = || if endpoint.is_full() { Err(Blocked::ForAll) } else { Ok(()) };
        assert!(waiter.poll(&Context::from_waker(&waker), enter).is_pending());
        drop(place);
        assert_eq!((task.woken(), endpoint.open_connections()), (1, 0));
        assert!(waiter.poll(&Context::from_waker(&waker), enter).is_ready());
    }
}

//! Connections that give way: for a place among those that an endpoint may have, and for descriptors.

use std::sync::Arc;

use super::UpstreamConnector;
use crate::evict;
use crate::upstream::counted::ConnectionPlace;
use exchange::failure::ExchangeFailure;
use exchange::overload::wait_queue::WaitQueue;
use net::endpoint::Endpoint;
use net::env;

impl UpstreamConnector {
    /// Whether a request for the endpoint is likely to get a stream: a connection may be opened, or this
    /// worker has one. If not, an idle connection of another worker gives way.
    pub(crate) fn has_capacity(&self, endpoint: &Endpoint) -> bool {
        let has_capacity = !endpoint.is_full()
            || self.pools.borrow().has_idle(endpoint.id)
            || endpoint.protocol.is_http2() && self.shared.borrow().has_capacity(endpoint.id);
        if !has_capacity {
            endpoint.want_connection();
        }
        has_capacity
    }

    /// Makes connections give way, because a call found no descriptor, and waits for them to end. False if
    /// there was nothing to close.
    #[cold]
    pub(crate) async fn free_descriptors(&self) -> bool {
        if self.evictor.free_descriptors().await {
            return true;
        }
        let (least_ms, now_ms) = (u64::from(evict::USED_LEAST_MS), self.local.now_ms());
        if self.pools.borrow_mut().close_idle(least_ms, now_ms) > 0 {
            return true;
        }
        let is_freed = self.shared.borrow_mut().close_idle(least_ms, now_ms) > 0;
        if is_freed {
            // Their tasks close them.
            env::yield_to_events().await;
        }
        is_freed
    }

    /// A place for a connection to the endpoint; none is needed without a limit. If all are taken, an idle
    /// connection of this worker gives way, which may be one for another TLS server name.
    ///
    /// # Errors
    /// `node_max_connections`.
    pub(super) async fn connection_place(
        &self,
        endpoint: &Arc<Endpoint>,
        queue: Option<&Arc<WaitQueue>>,
    ) -> Result<Option<ConnectionPlace>, ExchangeFailure> {
        // Before the try, because a failed one asks a worker to close a connection, which would be the new
        // one.
        if endpoint.is_full() {
            self.close_idle_at(endpoint.id).await;
        }
        ConnectionPlace::new(endpoint, queue)
    }

    /// Closes an idle connection to the endpoint, if there is one.
    #[cold]
    async fn close_idle_at(&self, endpoint_id: u64) {
        if self.pools.borrow_mut().close_oldest(endpoint_id) {
            return;
        }
        let is_closing = self.shared.borrow_mut().close_idle_at(endpoint_id);
        if is_closing {
            // Its task closes it.
            env::yield_to_events().await;
        }
    }
}

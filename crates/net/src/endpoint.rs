//! Endpoints: the identity of a place connections are opened to. Pools and averages are keyed by it, so that they
//! survive every configuration change that does not change the place itself.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The identity of an endpoint: two endpoints with equal keys are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointKey {
    /// The resolved address.
    pub address: SocketAddr,
    /// How its idle connections are kept; upstreams with other settings keep connections of their own.
    pub keep_alive: KeepAlive,
}

/// How idle connections of one endpoint are kept, per worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeepAlive {
    /// The most idle connections a worker keeps.
    pub size: u32,
    /// How long one may be idle, in milliseconds; 0 is without limit.
    pub idle_timeout_ms: u64,
    /// How many requests one serves; 0 is without limit.
    pub requests: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        // Contract section 2.3, `keepalive_pool`.
        KeepAlive { size: 320, idle_timeout_ms: 60_000, requests: 1_000 }
    }
}

/// A place connections are opened to.
#[derive(Debug)]
pub struct Endpoint {
    /// A number no other endpoint of this process ever has.
    pub id: u64,
    /// The address.
    pub address: SocketAddr,
    /// How idle connections are kept.
    pub keep_alive: KeepAlive,
}

/// All endpoints in use, so that the same place is always the same endpoint.
#[derive(Default)]
pub struct Endpoints {
    next_id: AtomicU64,
    known: Mutex<HashMap<EndpointKey, Weak<Endpoint>>>,
}

impl Endpoints {
    /// The endpoint for `key`, made if no holder has one.
    pub fn intern(&self, key: EndpointKey) -> Arc<Endpoint> {
        let mut known = self.known.lock();
        if let Some(endpoint) = known.get(&key).and_then(Weak::upgrade) {
            return endpoint;
        }
        // Endpoints without a holder are removed whenever the table would have to grow.
        if known.len() == known.capacity() {
            known.retain(|_, endpoint| endpoint.strong_count() > 0);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let endpoint = Arc::new(Endpoint { id, address: key.address, keep_alive: key.keep_alive });
        known.insert(key, Arc::downgrade(&endpoint));
        endpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_address_is_same_endpoint_while_held() {
        let endpoints = Endpoints::default();
        let key = |port| EndpointKey {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            keep_alive: KeepAlive::default(),
        };
        let first = endpoints.intern(key(80));
        assert!(Arc::ptr_eq(&first, &endpoints.intern(key(80))));
        assert_ne!(first.id, endpoints.intern(key(81)).id);
        let id = first.id;
        drop(first);
        assert_ne!(endpoints.intern(key(80)).id, id, "ids are never given twice");
    }
}

//! Endpoints: the identity of a place connections are opened to. Pools and averages are keyed by it, so that
//! they survive every configuration change that does not change the place itself.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::tls::client::ClientTls;

/// The identity of an endpoint: two endpoints with equal keys are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointKey {
    /// The resolved address.
    pub address: SocketAddr,
    /// With which TLS identity it is reached; without one, in cleartext. The server name is not part of it,
    /// because requests choose it: each connection holds the name that it was opened with, and serves
    /// requests for that name only.
    pub tls: Option<Arc<ClientTls>>,
    /// The protocol of its connections.
    pub protocol: EndpointProtocol,
    /// How its idle connections are kept; upstreams with other settings keep connections of their own.
    pub keep_alive: KeepAlive,
}

/// The protocol of an endpoint's connections. An endpoint that is spoken to in two protocols is two
/// endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EndpointProtocol {
    /// HTTP/1.1; over TLS, `http/1.1` is offered by ALPN.
    #[default]
    Http1,
    /// HTTP/2: in cleartext by prior knowledge; over TLS, `h2` is offered by ALPN, and the endpoint has to
    /// select it.
    Http2,
    /// HTTP/2 over TLS if the endpoint selects it by ALPN, otherwise HTTP/1.1.
    Http2OrHttp1,
    /// A protocol that a plugin speaks over the bare stream.
    Raw,
}

impl EndpointProtocol {
    /// Whether connections may carry HTTP/2.
    pub fn is_http2(self) -> bool {
        matches!(self, EndpointProtocol::Http2 | EndpointProtocol::Http2OrHttp1)
    }
}

/// How connections of one endpoint are kept, per worker unless a field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeepAlive {
    /// The most idle connections a worker keeps.
    pub size: u32,
    /// How long one may be idle, in milliseconds; 0 is without limit.
    pub idle_timeout_ms: u64,
    /// How many requests one serves; 0 is without limit.
    pub requests: u32,
    /// How many may be open over all workers, in use or idle; 0 is without limit.
    pub max_connections: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        // Contract section 2.3, `keepalive_pool`.
        KeepAlive { size: 320, idle_timeout_ms: 60_000, requests: 1_000, max_connections: 0 }
    }
}

/// A place connections are opened to.
#[derive(Debug)]
pub struct Endpoint {
    /// A number no other endpoint of this process ever has.
    pub id: u64,
    /// The address.
    pub address: SocketAddr,
    /// See [`EndpointKey::tls`].
    pub tls: Option<Arc<ClientTls>>,
    /// See [`EndpointKey::protocol`].
    pub protocol: EndpointProtocol,
    /// How idle connections are kept.
    pub keep_alive: KeepAlive,
    /// Open connections over all workers, and whether one was refused since an idle one gave way; only with a
    /// limit.
    open: OpenConnections,
}

#[derive(Debug, Default)]
struct OpenConnections {
    count: AtomicU32,
    is_wanted: AtomicBool,
}

impl EndpointKey {
    /// An endpoint that is reached in cleartext with HTTP/1.1.
    pub fn cleartext(address: SocketAddr, keep_alive: KeepAlive) -> EndpointKey {
        EndpointKey { address, tls: None, protocol: EndpointProtocol::Http1, keep_alive }
    }
}

impl Endpoint {
    /// An endpoint of this number that is reached in cleartext with HTTP/1.1, for tests of what is above.
    pub fn cleartext(id: u64, address: SocketAddr) -> Endpoint {
        Endpoint {
            id,
            address,
            tls: None,
            protocol: EndpointProtocol::Http1,
            keep_alive: KeepAlive::default(),
            open: OpenConnections::default(),
        }
    }

    /// The endpoint of one session that goes to the destination of its client. It is in no table, and nothing
    /// is kept of it, because clients choose such addresses: its number is the largest, which no endpoint of
    /// a table ever gets.
    pub fn unlisted(address: SocketAddr, tls: Option<Arc<ClientTls>>) -> Endpoint {
        Endpoint {
            id: u64::MAX,
            address,
            tls,
            protocol: EndpointProtocol::Raw,
            keep_alive: KeepAlive::default(),
            open: OpenConnections::default(),
        }
    }

    /// Whether as many connections are open as may be.
    #[inline]
    pub fn is_full(&self) -> bool {
        let most = self.keep_alive.max_connections;
        most != 0 && self.open.count.load(Ordering::SeqCst) >= most
    }

    /// Notes that a worker without an idle connection wants one.
    pub fn want_connection(&self) {
        if !self.open.is_wanted.load(Ordering::Relaxed) {
            self.open.is_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a connection that is opened; false if as many are open as may be.
    pub fn try_open(&self) -> bool {
        let most = self.keep_alive.max_connections;
        let open = |count: u32| (count < most).then_some(count + 1);
        let is_open = self.open.count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, open).is_ok();
        if !is_open {
            self.want_connection();
        }
        is_open
    }

    /// Counts the end of a connection that [`Endpoint::try_open`] has counted.
    pub fn closed(&self) {
        self.open.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Open connections over all workers; 0 without a limit.
    pub fn open_connections(&self) -> u32 {
        self.open.count.load(Ordering::Relaxed)
    }

    /// Whether an idle connection has to give way, because another worker wants one; true once for each wish.
    #[inline]
    pub fn takes_idle_away(&self) -> bool {
        self.keep_alive.max_connections != 0
            && self.open.is_wanted.load(Ordering::Relaxed)
            && self.open.is_wanted.swap(false, Ordering::Relaxed)
    }
}

/// All endpoints in use, so that the same place is always the same endpoint.
#[derive(Default)]
pub struct EndpointTable {
    next_id: AtomicU64,
    known: Mutex<HashMap<EndpointKey, Weak<Endpoint>>>,
}

impl EndpointTable {
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
        let EndpointKey { address, tls, protocol, keep_alive } = key.clone();
        let endpoint =
            Arc::new(Endpoint { id, address, tls, protocol, keep_alive, open: OpenConnections::default() });
        known.insert(key, Arc::downgrade(&endpoint));
        endpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::identity::{ALPN_HTTP1, ClientIdentities, ClientIdentity};

    #[test]
    fn same_address_is_same_endpoint_while_held() {
        let endpoints = EndpointTable::default();
        let key =
            |port| EndpointKey::cleartext(SocketAddr::from(([127, 0, 0, 1], port)), KeepAlive::default());
        let first = endpoints.intern(key(80));
        assert!(Arc::ptr_eq(&first, &endpoints.intern(key(80))));
        assert_ne!(first.id, endpoints.intern(key(81)).id);
        let id = first.id;
        drop(first);
        assert_ne!(endpoints.intern(key(80)).id, id, "ids are never given twice");
    }

    #[test]
    fn open_connections_are_limited_and_wanted_once() {
        let keep_alive = KeepAlive { max_connections: 2, ..KeepAlive::default() };
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let endpoint = EndpointTable::default().intern(EndpointKey::cleartext(address, keep_alive));
        assert!(
            endpoint.try_open() && !endpoint.is_full() && endpoint.try_open() && !endpoint.takes_idle_away()
        );
        assert!(endpoint.is_full() && !endpoint.try_open());
        assert!(endpoint.takes_idle_away() && !endpoint.takes_idle_away());
        endpoint.closed();
        assert!(!endpoint.is_full() && endpoint.open_connections() == 1);
        assert!(!Endpoint::cleartext(1, address).is_full(), "without a limit");
    }

    #[test]
    fn tls_identity_and_protocol_separate_endpoints() {
        let (endpoints, identities) = (EndpointTable::default(), ClientIdentities::default());
        let address = SocketAddr::from(([127, 0, 0, 1], 443));
        let alpn = |alpn| identities.intern(ClientIdentity { alpn, ..ClientIdentity::default() }).unwrap();
        let (one, other) = (alpn(&[]), alpn(ALPN_HTTP1));
        let key = |tls: Option<&Arc<ClientTls>>, protocol| EndpointKey {
            tls: tls.cloned(),
            protocol,
            ..EndpointKey::cleartext(address, KeepAlive::default())
        };
        let keys = [
            key(None, EndpointProtocol::Http1),
            key(None, EndpointProtocol::Raw),
            key(Some(&one), EndpointProtocol::Http1),
            key(Some(&other), EndpointProtocol::Http1),
        ];
        let held: Vec<Arc<Endpoint>> = keys.iter().map(|key| endpoints.intern(key.clone())).collect();
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(endpoints.intern(key.clone()).id, held[index].id);
            assert!(held.iter().enumerate().all(|(at, other)| at == index || other.id != held[index].id));
        }
    }
}

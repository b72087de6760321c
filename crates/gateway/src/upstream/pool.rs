//! A worker's connections by endpoint, and the streams that are checked out of them. The youngest idle
//! connection is checked out first: the endpoint is least likely to have closed it, and the others can age
//! out. It opens no connection.

use stdx::hash::FastMap;

use super::h1::UpstreamConnection;
use super::stream::PooledStream;

/// The connections of one worker.
#[derive(Default)]
pub(crate) struct Pools {
    idle: FastMap<u64, EndpointPool>,
    /// Connections that carry many streams at once, played by tests.
    #[cfg(test)]
    scripted: FastMap<u64, StreamScript>,
}

/// The idle connections to one endpoint.
#[derive(Default)]
struct EndpointPool {
    connections: Vec<UpstreamConnection>,
    /// When a connection was last checked in, in milliseconds of the worker's clock.
    given_ms: u64,
}

/// Makes a stream on a connection that a test plays.
#[cfg(test)]
pub(crate) type StreamScript = Box<dyn FnMut() -> Box<dyn crate::body::UpstreamStream>>;

impl Pools {
    /// A stream to the endpoint, if an idle connection exists; over TLS, one that was opened for
    /// `server_name`. `begin` makes the stream from it.
    #[inline]
    pub(crate) fn lend(
        &mut self,
        endpoint_id: u64,
        server_name: Option<&str>,
        begin: impl FnOnce(UpstreamConnection) -> PooledStream,
    ) -> Option<PooledStream> {
        #[cfg(test)]
        if let Some(script) = self.scripted.get_mut(&endpoint_id) {
            return Some(PooledStream::Scripted(script()));
        }
        self.take(endpoint_id, server_name).map(begin)
    }

    /// Replaces all connections to the endpoint by one that `script` plays.
    #[cfg(test)]
    #[cfg_attr(feature = "simulation", expect(dead_code, reason = "its tests are left out with the feature"))]
    pub(crate) fn play(&mut self, endpoint_id: u64, script: StreamScript) {
        self.scripted.insert(endpoint_id, script);
    }

    /// An idle connection to the endpoint that the endpoint has not closed.
    #[inline]
    fn take(&mut self, endpoint_id: u64, server_name: Option<&str>) -> Option<UpstreamConnection> {
        let pool = self.idle.get_mut(&endpoint_id)?;
        while let Some(youngest) = pool.connections.last() {
            let mut connection = if youngest.is_for(server_name) {
                pool.connections.pop()?
            } else {
                let found = pool.connections.iter().rposition(|one| one.is_for(server_name))?;
                pool.connections.remove(found)
            };
            if !connection.is_stale() {
                return Some(connection);
            }
        }
        None
    }

    /// Whether there is an idle connection to the endpoint.
    pub(crate) fn has_idle(&self, endpoint_id: u64) -> bool {
        self.idle.get(&endpoint_id).is_some_and(|pool| !pool.connections.is_empty())
    }

    /// Checks a connection in. If the endpoint's pool is full, the connection is closed; over TLS the oldest
    /// one is closed instead, because clients choose server names, and connections for names that never come
    /// again must not fill the pool.
    #[inline]
    pub(crate) fn give(&mut self, mut connection: UpstreamConnection, now_ms: u64) {
        if connection.endpoint.takes_idle_away() {
            return;
        }
        let keep_alive = connection.endpoint.keep_alive;
        let pool = self.idle.entry(connection.endpoint.id).or_default();
        if connection.server_name.is_some()
            && keep_alive.size > 0
            && pool.connections.len() >= keep_alive.size as usize
        {
            pool.connections.remove(0);
        }
        if pool.connections.len() < keep_alive.size as usize {
            connection.idle_since_ms = now_ms;
            pool.given_ms = now_ms;
            pool.connections.push(connection);
        }
    }

    /// Closes connections that have been idle for too long or were closed by the endpoint, and drops unused
    /// pools. A pool that is empty only because its connections are checked out keeps its memory, so that the
    /// next checkin need not allocate.
    pub(crate) fn sweep(&mut self, now_ms: u64) {
        self.idle.retain(|_, pool| {
            pool.connections.retain_mut(|connection| {
                let timeout_ms = connection.endpoint.keep_alive.idle_timeout_ms;
                let expired =
                    timeout_ms != 0 && now_ms.saturating_sub(connection.idle_since_ms) >= timeout_ms;
                !expired && !connection.is_stale() && !connection.endpoint.takes_idle_away()
            });
            !pool.connections.is_empty() || now_ms.saturating_sub(pool.given_ms) < ROOM_KEPT_MS
        });
    }

    /// Closes connections that have been idle for at least `least_ms`; returns how many.
    pub(crate) fn close_idle(&mut self, least_ms: u64, now_ms: u64) -> usize {
        let before = self.len();
        for pool in self.idle.values_mut() {
            pool.connections.retain(|connection| now_ms.saturating_sub(connection.idle_since_ms) < least_ms);
        }
        before - self.len()
    }

    /// Closes the oldest idle connection to the endpoint; false if there is none.
    pub(crate) fn close_oldest(&mut self, endpoint_id: u64) -> bool {
        let pool = self.idle.get_mut(&endpoint_id).filter(|pool| !pool.connections.is_empty());
        pool.map(|pool| pool.connections.remove(0)).is_some()
    }

    /// Closes everything.
    pub(crate) fn clear(&mut self) {
        self.idle.clear();
    }

    /// How many idle connections there are.
    pub(crate) fn len(&self) -> usize {
        self.idle.values().map(|pool| pool.connections.len()).sum()
    }
}

/// How long the memory of an empty pool is kept, in milliseconds: longer than almost any request has a
/// connection checked out, short enough that removed nodes hold nothing for long. It is a few hundred bytes.
const ROOM_KEPT_MS: u64 = 60_000;

// With a real socket, which a simulation does not have.
#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use super::*;
    use net::endpoint::{EndpointKey, EndpointTable, KeepAlive};
    use net::env;
    use net::transport::Transport;

    #[test]
    fn pool_in_use_keeps_capacity_over_sweeps() {
        let node = env::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let address = node.local_addr().unwrap();
        let endpoint = EndpointTable::default().intern(EndpointKey::cleartext(address, KeepAlive::default()));
        let play = async {
            let stream: Transport = env::connect(address).await.unwrap().into();
            let mut pools = Pools::default();
            pools.give(UpstreamConnection::new(stream, endpoint.clone(), None), 0);
            let mut now_ms = 0;
            for _ in 0..200 {
                now_ms += 1_000;
                let checkout = pools.take(endpoint.id, None).unwrap();
                pools.sweep(now_ms);
                assert!(pools.idle[&endpoint.id].connections.capacity() > 0, "at {now_ms} ms");
                pools.give(checkout, now_ms);
            }
            let connection = pools.take(endpoint.id, None).unwrap();
            pools.give(connection, now_ms);
            assert_eq!((pools.close_idle(1_000, now_ms + 999), pools.len()), (0, 1));
            assert_eq!((pools.close_idle(1_000, now_ms + 1_000), pools.len()), (1, 0));
            pools.sweep(now_ms + ROOM_KEPT_MS - 1);
            assert_eq!(pools.idle.len(), 1);
            pools.sweep(now_ms + ROOM_KEPT_MS);
            assert_eq!(pools.idle.len(), 0, "nobody needs it");
        };
        env::block_on(play).unwrap();
    }

    #[test]
    fn connection_serves_only_its_server_name() {
        let node = env::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let address = node.local_addr().unwrap();
        let keep_alive = KeepAlive { size: 2, ..KeepAlive::default() };
        let endpoint = EndpointTable::default().intern(EndpointKey::cleartext(address, keep_alive));
        let play = async {
            let mut pools = Pools::default();
            for name in ["a", "b", "c"] {
                let stream: Transport = env::connect(address).await.unwrap().into();
                let connection = UpstreamConnection::new(stream, endpoint.clone(), Some(name.into()));
                pools.give(connection, 0);
            }
            assert!(pools.take(endpoint.id, Some("a")).is_none(), "the oldest gave way to the third");
            assert!(pools.take(endpoint.id, None).is_none());
            for name in ["B", "c"] {
                let found = pools.take(endpoint.id, Some(name)).unwrap();
                assert!(found.is_for(Some(name)), "{name}");
            }
            assert_eq!(pools.len(), 0);
        };
        env::block_on(play).unwrap();
    }
}

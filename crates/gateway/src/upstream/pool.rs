//! A worker's connections to nodes, by endpoint, and the streams it lends of them. Of idle ones the youngest is lent
//! first: it is the least likely to have been closed by the node, and the rest can age out. It opens nothing itself.

use stdx::hash::FastMap;

use super::stream::NodeStream;
use crate::h1::origin::OriginConnection;

/// The connections of one worker.
#[derive(Default)]
pub(crate) struct Pools {
    idle: FastMap<u64, Vec<OriginConnection>>,
    /// Connections that carry many streams at once, played by tests.
    #[cfg(test)]
    scripted: FastMap<u64, Script>,
}

/// Makes a stream on a connection that a test plays.
#[cfg(test)]
pub(crate) type Script = Box<dyn FnMut() -> Box<dyn crate::body::ClientStream>>;

impl Pools {
    /// A stream to the endpoint, if it can be had without opening a connection. `begin` makes it of an idle one.
    #[inline]
    pub(crate) fn lend(
        &mut self,
        endpoint_id: u64,
        begin: impl FnOnce(OriginConnection) -> NodeStream,
    ) -> Option<NodeStream> {
        #[cfg(test)]
        if let Some(script) = self.scripted.get_mut(&endpoint_id) {
            return Some(NodeStream::Scripted(script()));
        }
        self.take(endpoint_id).map(begin)
    }

    /// Puts a connection that `script` plays in the place of all others to the endpoint.
    #[cfg(test)]
    pub(crate) fn play(&mut self, endpoint_id: u64, script: Script) {
        self.scripted.insert(endpoint_id, script);
    }

    /// An idle connection to the endpoint, if there is one the node has not closed.
    #[inline]
    fn take(&mut self, endpoint_id: u64) -> Option<OriginConnection> {
        let idle = self.idle.get_mut(&endpoint_id)?;
        while let Some(mut connection) = idle.pop() {
            if !connection.is_stale() {
                return Some(connection);
            }
        }
        None
    }

    /// Takes a connection back, unless the endpoint's pool is full.
    #[inline]
    pub(crate) fn give(&mut self, mut connection: OriginConnection, now_ms: u64) {
        let keep_alive = connection.endpoint.keep_alive;
        let idle = self.idle.entry(connection.endpoint.id).or_default();
        if idle.len() < keep_alive.size as usize {
            connection.idle_since_ms = now_ms;
            idle.push(connection);
        }
    }

    /// Closes what has been idle for too long or was closed by its node, and forgets empty pools.
    pub(crate) fn sweep(&mut self, now_ms: u64) {
        self.idle.retain(|_, idle| {
            idle.retain_mut(|connection| {
                let timeout_ms = connection.endpoint.keep_alive.idle_timeout_ms;
                let expired =
                    timeout_ms != 0 && now_ms.saturating_sub(connection.idle_since_ms) >= timeout_ms;
                !expired && !connection.is_stale()
            });
            !idle.is_empty()
        });
    }

    /// Closes everything.
    pub(crate) fn clear(&mut self) {
        self.idle.clear();
    }

    /// How many idle connections there are.
    pub(crate) fn len(&self) -> usize {
        self.idle.values().map(Vec::len).sum()
    }
}

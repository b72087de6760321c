//! The sockets of one interpreter: destinations with names that are looked up as long as they are kept,
//! connections that wait to be used again, and the count of open ones.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use exchange::plugin::outbound::{OutboundStream, OutboundTls, StreamDestination, StreamDestinations};
use net::env;

use crate::runtime::limits::{DESTINATIONS_MAX, POOLED_MAX, SOCKETS_MAX};

/// See the module.
#[derive(Default)]
pub(crate) struct Sockets {
    open: Rc<Cell<usize>>,
    destinations: RefCell<HashMap<String, Rc<StreamDestination>>>,
    kept: RefCell<VecDeque<IdleSocket>>,
}

/// An open connection, which counts.
pub(super) struct SocketConnection {
    pub(super) stream: OutboundStream,
    pub(super) reused: u32,
    _place: ConnectionSlot,
}

/// The place of an open connection.
pub(super) struct ConnectionSlot(Rc<Cell<usize>>);

/// A connection that waits to be used again.
struct IdleSocket {
    pool: String,
    link: SocketConnection,
    ends_ns: u64,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl SocketConnection {
    pub(super) fn new(stream: OutboundStream, place: ConnectionSlot) -> SocketConnection {
        SocketConnection { stream, reused: 0, _place: place }
    }
}

impl Sockets {
    /// A place for one more connection; none if there are too many. Connections that wait make room.
    pub(super) fn place(&self) -> Option<ConnectionSlot> {
        if self.open.get() >= SOCKETS_MAX {
            self.kept.borrow_mut().pop_front();
        }
        if self.open.get() >= SOCKETS_MAX {
            return None;
        }
        self.open.set(self.open.get() + 1);
        Some(ConnectionSlot(self.open.clone()))
    }

    /// The destination `place`, with `tls` if any.
    ///
    /// # Errors
    /// It is no `HOST:PORT`, or the TLS settings are faulty, as a sentence.
    pub(super) fn destination(
        &self,
        destinations: &StreamDestinations,
        place: &str,
        tls: Option<&OutboundTls>,
    ) -> Result<Rc<StreamDestination>, String> {
        let key = match tls {
            Some(tls) => {
                format!("{place} {} {}", tls.verifies, tls.server_name.as_deref().unwrap_or_default())
            }
            None => place.to_owned(),
        };
        if let Some(known) = self.destinations.borrow().get(&key) {
            return Ok(known.clone());
        }
        let made = Rc::new(destinations.destination_with(place, tls)?);
        let mut kept = self.destinations.borrow_mut();
        if kept.len() >= DESTINATIONS_MAX {
            kept.clear();
        }
        kept.insert(key, made.clone());
        Ok(made)
    }

    /// A connection of `pool` that can be used again.
    pub(super) fn checkout(&self, pool: &str) -> Option<SocketConnection> {
        let now_ns = env::monotonic_ns();
        let mut kept = self.kept.borrow_mut();
        kept.retain(|one| one.ends_ns > now_ns);
        while let Some(index) = kept.iter().rposition(|one| one.pool == pool) {
            let mut link = kept.remove(index)?.link;
            if link.stream.is_quiet() {
                link.reused += 1;
                return Some(link);
            }
        }
        None
    }

    /// Keeps a connection for later sockets of `pool`, of which at most `most` wait.
    pub(super) fn checkin(&self, pool: &str, link: SocketConnection, idle_ms: u64, most: usize) {
        let mut kept = self.kept.borrow_mut();
        let is_full =
            |kept: &VecDeque<IdleSocket>| kept.iter().filter(|one| one.pool == pool).count() >= most;
        if is_full(&kept) {
            let oldest = kept.iter().position(|one| one.pool == pool);
            oldest.map(|index| kept.remove(index));
        }
        if kept.len() >= POOLED_MAX {
            kept.pop_front();
        }
        let ends_ns = env::monotonic_ns().saturating_add(idle_ms.saturating_mul(1_000_000));
        kept.push_back(IdleSocket { pool: pool.to_owned(), link, ends_ns });
    }
}

//! A response on its way into a zone: a copy of the body, made while the client gets it. A response that is
//! cut is never stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use exchange::overload::OverloadState;
use exchange::plugin::BodyTap;
use exchange::plugin::event_stream::is_event_stream;
use net::env;

use super::disk::{DiskFill, EntryDestination};
use super::entry::{CacheEntry, CachedBody};
use super::flight::Leader;
use super::zone::Zone;

/// See the module.
pub(super) struct Fill {
    destination: EntryDestination,
    /// The entry without its body.
    entry: CacheEntry,
    body: FillTarget,
    limit_bytes: u64,
    length: u64,
    leader: Option<Leader>,
    /// When the requests that wait for the response go on by themselves, in nanoseconds.
    released_ns: u64,
}

/// Where the body goes.
enum FillTarget {
    Memory(MemoryFill),
    Disk(DiskFill),
}

/// A body in memory that is not in the zone yet.
struct MemoryFill {
    bytes: Vec<u8>,
    shared: Arc<OverloadState>,
    filling: Filling,
}

/// Bytes of a response that is not in the zone yet: together they have a limit, in memory and on disk.
pub(super) struct Filling {
    zone: Arc<Zone>,
    taken: AtomicU64,
}

impl Fill {
    /// Begins to store `entry`, of which the body comes. `expected` is its length where the head tells it.
    pub(super) fn new(
        destination: EntryDestination,
        entry: CacheEntry,
        limit_bytes: u64,
        expected: Option<u64>,
        shared: &Arc<OverloadState>,
        leader: Option<Leader>,
    ) -> Fill {
        let body = match &destination.zone.disk {
            Some(disk) => {
                FillTarget::Disk(DiskFill::new(disk, &destination, entry.status, &entry.headers, entry.times))
            }
            None => FillTarget::Memory(MemoryFill {
                bytes: Vec::with_capacity(expected.map_or(0, |bytes| bytes.min(RESERVED_BYTES_MAX) as usize)),
                shared: shared.clone(),
                filling: Filling::new(&destination.zone),
            }),
        };
        // How long a response without a length takes cannot be told, and an event stream may never end.
        let patience_ns = match expected {
            _ if is_event_stream(&entry.headers) => 0,
            None => PATIENCE_NS,
            Some(_) => u64::MAX,
        };
        if let (0, Some(leader)) = (patience_ns, &leader) {
            leader.release();
        }
        let released_ns = env::monotonic_ns().saturating_add(patience_ns);
        Fill { destination, entry, body, limit_bytes, length: 0, leader, released_ns }
    }
}

/// A length that a head tells is not believed beyond this: memory is taken as bytes come.
const RESERVED_BYTES_MAX: u64 = 1 << 20;

/// How long other requests wait for the end of a response that does not tell its length.
const PATIENCE_NS: u64 = 1_000_000_000;

impl BodyTap for Fill {
    fn piece(&mut self, piece: &[u8]) -> bool {
        self.length += piece.len() as u64;
        let keeps = self.length <= self.limit_bytes && self.body.add(piece, self.limit_bytes);
        if let Some(leader) = &self.leader
            && self.released_ns != u64::MAX
            && env::monotonic_ns() >= self.released_ns
        {
            self.released_ns = u64::MAX;
            leader.release();
        }
        if !keeps {
            // It cannot be stored for waiting requests either.
            self.destination.fail(self.leader.take());
        }
        keeps
    }

    fn end(self: Box<Self>) {
        let Fill { destination, entry, body, leader, .. } = *self;
        match body {
            FillTarget::Memory(mut memory) => {
                if leader.as_ref().is_some_and(Leader::is_purged) {
                    return;
                }
                let bytes = std::mem::take(&mut memory.bytes).into_boxed_slice();
                let entry = CacheEntry { body: CachedBody::Memory(Bytes::from(bytes)), ..entry };
                let EntryDestination { zone, key, fields, signature } = &destination;
                zone.insert(key, fields, signature, Arc::new(entry));
            }
            FillTarget::Disk(fill) => fill.finish(destination, entry, leader),
        }
    }
}

impl FillTarget {
    fn add(&mut self, piece: &[u8], limit_bytes: u64) -> bool {
        match self {
            FillTarget::Memory(memory) => memory.add(piece, limit_bytes),
            FillTarget::Disk(fill) => fill.piece(piece),
        }
    }
}

impl MemoryFill {
    fn add(&mut self, piece: &[u8], limit_bytes: u64) -> bool {
        if !self.filling.take(piece.len() as u64) {
            return false;
        }
        let limit_bytes = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        self.shared.append_limited(&mut self.bytes, piece, limit_bytes).is_ok()
    }
}

impl Filling {
    pub(super) fn new(zone: &Arc<Zone>) -> Filling {
        Filling { zone: zone.clone(), taken: AtomicU64::new(0) }
    }

    /// Takes `bytes` more; false if as much is taken as the zone may have.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let fits = self.zone.take_filling(bytes);
        if fits {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
        }
        fits
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.zone.give_filling(*self.taken.get_mut());
    }
}

//! A response on its way into a zone: a copy of the body, made while the client gets it. A response that is cut is never
//! stored.

use std::sync::Arc;

use bytes::Bytes;
use exchange::overload::Shared;
use exchange::plugin::BodyTap;

use super::disk::{Destination, DiskFill};
use super::entry::{Body, Entry};
use super::flight::Leader;
use super::zone::Zone;

/// See the module.
pub(super) struct Fill {
    destination: Destination,
    /// The entry without its body.
    entry: Entry,
    body: Store,
    limit_bytes: u64,
    length: u64,
    leader: Option<Leader>,
}

/// Where the body goes.
enum Store {
    Memory(MemoryFill),
    Disk(DiskFill),
}

/// A body in memory that is not in the zone yet.
struct MemoryFill {
    bytes: Vec<u8>,
    shared: Arc<Shared>,
    zone: Arc<Zone>,
    /// The bytes that were taken of the zone's limit.
    taken: u64,
}

impl Fill {
    /// Begins to store `entry`, of which the body comes. `expected` is its length where the head tells it.
    pub(super) fn new(
        destination: Destination,
        entry: Entry,
        limit_bytes: u64,
        expected: Option<u64>,
        shared: &Arc<Shared>,
        leader: Option<Leader>,
    ) -> Fill {
        let body = match &destination.zone.disk {
            Some(disk) => {
                Store::Disk(DiskFill::new(disk, &destination, entry.status, &entry.headers, entry.times))
            }
            None => Store::Memory(MemoryFill {
                bytes: Vec::with_capacity(expected.map_or(0, |bytes| bytes.min(RESERVED_BYTES_MAX) as usize)),
                shared: shared.clone(),
                zone: destination.zone.clone(),
                taken: 0,
            }),
        };
        Fill { destination, entry, body, limit_bytes, length: 0, leader }
    }
}

/// A length that a head tells is not believed beyond this: memory is taken as bytes come.
const RESERVED_BYTES_MAX: u64 = 1 << 20;

impl BodyTap for Fill {
    fn piece(&mut self, piece: &[u8]) -> bool {
        self.length += piece.len() as u64;
        let keeps = self.length <= self.limit_bytes && self.body.add(piece, self.limit_bytes);
        if !keeps && let Some(leader) = self.leader.take() {
            // It is too long for waiting requests as well.
            leader.pass();
        }
        keeps
    }

    fn end(self: Box<Self>) {
        let Fill { destination, entry, body, leader, .. } = *self;
        match body {
            Store::Memory(mut memory) => {
                if leader.as_ref().is_some_and(Leader::is_purged) {
                    return;
                }
                let bytes = std::mem::take(&mut memory.bytes).into_boxed_slice();
                let entry = Entry { body: Body::Memory(Bytes::from(bytes)), ..entry };
                let Destination { zone, key, fields, signature } = &destination;
                zone.insert(key, fields, signature, Arc::new(entry));
            }
            Store::Disk(fill) => fill.finish(destination, entry, leader),
        }
    }
}

impl Store {
    fn add(&mut self, piece: &[u8], limit_bytes: u64) -> bool {
        match self {
            Store::Memory(memory) => memory.add(piece, limit_bytes),
            Store::Disk(fill) => fill.piece(piece),
        }
    }
}

impl MemoryFill {
    fn add(&mut self, piece: &[u8], limit_bytes: u64) -> bool {
        if !self.zone.take_filling(piece.len() as u64) {
            return false;
        }
        self.taken += piece.len() as u64;
        let limit_bytes = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        self.shared.append_limited(&mut self.bytes, piece, limit_bytes).is_ok()
    }
}

impl Drop for MemoryFill {
    fn drop(&mut self) {
        self.zone.give_filling(self.taken);
    }
}

//! A zone: stored responses by key, process-wide, within a number of bytes. Admission and eviction are those
//! of `quick_cache`: an entry that is asked for once does not displace one that is asked for often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use message::Headers;
use net::env;
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::background::BackgroundCounters;
use super::counters::CacheCounters;
use super::disk::DiskStore;
use super::entry::{CacheEntry, CachedBody};
use super::flight::{FlightRole, Flights};
use super::settings::ZoneSettings;
use super::vary::{Variants, write_signature};

/// Seconds for which requests of a key with a response that cannot be stored do not wait for each other.
const PASS_S: u64 = 10;
/// Bytes of an entry besides its key, head and body: its place in the table and the allocations' own bytes.
const OVERHEAD_BYTES: u64 = 256;
/// Bytes of a part of a zone in memory, which has a lock of its own. An entry fits into one part.
const MEMORY_PART_BYTES: u64 = 16 << 20;
/// The same for a zone on disk.
const DISK_PART_BYTES: u64 = 256 << 20;
const PARTS_MAX: u64 = 64;

/// See the module.
pub(crate) struct Zone {
    pub(super) name: Box<str>,
    store: Cache<Arc<[u8]>, ZoneSlot, Weights>,
    flights: Arc<Flights>,
    pub(super) counters: CacheCounters,
    pub(super) background: BackgroundCounters,
    /// Where the bodies are; none: in memory.
    pub(super) disk: Option<Arc<DiskStore>>,
    /// Bytes of disk for each byte of memory, so that one weight bounds both.
    disk_per_memory: u64,
    /// Bytes of responses in memory that are not stored yet.
    filling: AtomicU64,
    capacity: u64,
}

#[derive(Clone)]
struct ZoneSlot {
    kind: ZoneSlotKind,
    weight: u64,
}

#[derive(Clone)]
enum ZoneSlotKind {
    Entry(Arc<CacheEntry>),
    Variants(Arc<Variants>),
    /// The response cannot be stored; until then, in Unix seconds, no request waits for another one.
    Passes(u64),
}

#[derive(Clone)]
struct Weights;

impl Weighter<Arc<[u8]>, ZoneSlot> for Weights {
    fn weight(&self, _key: &Arc<[u8]>, slot: &ZoneSlot) -> u64 {
        slot.weight
    }
}

/// The entry of a zone for a request, or the lack of one.
pub(super) enum ZoneLookup {
    Entry(Arc<CacheEntry>),
    Passes,
    Nothing,
}

impl Zone {
    /// An empty zone.
    pub(super) fn new(settings: &ZoneSettings) -> Zone {
        let (capacity, part_bytes) = match &settings.disk {
            Some(disk) => (disk.size_bytes, DISK_PART_BYTES),
            None => (settings.memory_bytes, MEMORY_PART_BYTES),
        };
        let parts = (capacity / part_bytes).clamp(1, PARTS_MAX) as usize;
        let options = OptionsBuilder::new()
            .shards(parts)
            .estimated_items_capacity((settings.memory_bytes / 4_096).clamp(16, 100_000) as usize)
            .weight_capacity(capacity)
            .build()
            .expect("both capacities are given");
        Zone {
            name: settings.name.clone(),
            store: Cache::with_options(options, Weights, DefaultHashBuilder::default(), Default::default()),
            flights: Arc::default(),
            counters: CacheCounters::default(),
            background: BackgroundCounters::default(),
            disk: settings.disk.as_ref().map(|disk| Arc::new(DiskStore::new(&settings.name, disk))),
            disk_per_memory: (capacity / settings.memory_bytes.max(1)).max(1),
            filling: AtomicU64::new(0),
            capacity,
        }
    }

    /// The entry for `key` and a request with these fields.
    pub(super) fn find(&self, key: &[u8], request: &Headers, now_s: u64) -> ZoneLookup {
        let Some(slot) = self.store.get(key) else { return ZoneLookup::Nothing };
        match slot.kind {
            ZoneSlotKind::Entry(entry) => ZoneLookup::Entry(entry),
            ZoneSlotKind::Passes(until_s) if now_s < until_s => ZoneLookup::Passes,
            ZoneSlotKind::Passes(_) => ZoneLookup::Nothing,
            ZoneSlotKind::Variants(variants) => {
                let variant = variant_key(&variants, &signature(&variants.fields, request));
                match self.store.get(&variant[..]) {
                    Some(ZoneSlot { kind: ZoneSlotKind::Entry(entry), .. }) => ZoneLookup::Entry(entry),
                    _ => ZoneLookup::Nothing,
                }
            }
        }
    }

    /// The entry of `key` with this `signature` of these `fields`.
    pub(super) fn find_signed(&self, key: &[u8], fields: &[Box<str>], signature: &[u8]) -> ZoneLookup {
        match self.store.peek(key) {
            Some(ZoneSlot { kind: ZoneSlotKind::Entry(entry), .. }) => ZoneLookup::Entry(entry),
            Some(ZoneSlot { kind: ZoneSlotKind::Variants(variants), .. }) if &*variants.fields == fields => {
                match self.store.peek(&variant_key(&variants, signature)[..]) {
                    Some(ZoneSlot { kind: ZoneSlotKind::Entry(entry), .. }) => ZoneLookup::Entry(entry),
                    _ => ZoneLookup::Nothing,
                }
            }
            _ => ZoneLookup::Nothing,
        }
    }

    /// Stores an entry of `key`, for requests with this `signature` of the `fields` that its response varies
    /// by.
    pub(super) fn insert(
        &self,
        key: &Arc<[u8]>,
        fields: &[Box<str>],
        signature: &[u8],
        entry: Arc<CacheEntry>,
    ) {
        if fields.is_empty() {
            self.forget_variants(key);
            return self.put(key.clone(), ZoneSlotKind::Entry(entry));
        }
        let variants = match self.store.peek(key) {
            Some(ZoneSlot { kind: ZoneSlotKind::Variants(variants), .. }) if &*variants.fields == fields => {
                variants
            }
            _ => {
                self.forget_variants(key);
                let variants = Arc::new(Variants::new(fields.into()));
                self.put(key.clone(), ZoneSlotKind::Variants(variants.clone()));
                variants
            }
        };
        let variant: Arc<[u8]> = variant_key(&variants, signature).into();
        self.put(variant.clone(), ZoneSlotKind::Entry(entry));
        if let Some(displaced) = variants.note(&variant) {
            self.store.remove(&displaced[..]);
        }
    }

    /// Notes that the response for `key` cannot be stored; an entry that it would have replaced is gone.
    pub(super) fn pass(&self, key: &Arc<[u8]>, now_s: u64) {
        self.forget_variants(key);
        self.put(key.clone(), ZoneSlotKind::Passes(now_s + PASS_S));
    }

    /// Notes that the response for `key` could not be stored this time: what there is of the key stays.
    pub(super) fn pass_unless_stored(&self, key: &Arc<[u8]>) {
        if !matches!(
            self.store.peek(key),
            Some(ZoneSlot { kind: ZoneSlotKind::Entry(_) | ZoneSlotKind::Variants(_), .. })
        ) {
            self.put(key.clone(), ZoneSlotKind::Passes(env::wall_clock().as_secs() + PASS_S));
        }
    }

    /// Whether entries can be stored: a disk may be refused at the start.
    pub(super) fn can_store(&self) -> bool {
        self.disk.as_ref().is_none_or(|disk| disk.is_started())
    }

    /// Removes everything of `key`, and keeps a response under way for it from being stored; false if there
    /// was nothing.
    pub(super) fn purge(&self, key: &[u8]) -> bool {
        self.flights.purge(key);
        self.forget_variants(key);
        matches!(
            self.store.remove(key),
            Some((_, ZoneSlot { kind: ZoneSlotKind::Entry(_) | ZoneSlotKind::Variants(_), .. }))
        )
    }

    fn forget_variants(&self, key: &[u8]) {
        if let Some(ZoneSlot { kind: ZoneSlotKind::Variants(variants), .. }) = self.store.peek(key) {
            for variant in variants.take_keys() {
                self.store.remove(&variant[..]);
            }
        }
    }

    fn put(&self, key: Arc<[u8]>, kind: ZoneSlotKind) {
        // A key is held by the table and by the list of its variants.
        let memory = OVERHEAD_BYTES + 2 * key.len() as u64;
        let weight = match &kind {
            ZoneSlotKind::Entry(entry) => {
                let memory = memory + entry.memory_bytes();
                match &entry.body {
                    CachedBody::Memory(_) => memory,
                    CachedBody::Disk(file) => {
                        file.disk_bytes().max(memory.saturating_mul(self.disk_per_memory))
                    }
                }
            }
            ZoneSlotKind::Variants(_) | ZoneSlotKind::Passes(_) => {
                memory.saturating_mul(self.disk_per_memory)
            }
        };
        self.store.insert(key, ZoneSlot { kind, weight });
    }

    /// Takes part in the fill of `key`: of the variant of this request, where the key is known to have some.
    pub(super) fn join(&self, key: &Arc<[u8]>, request: &Headers) -> FlightRole {
        match self.store.peek(key) {
            Some(ZoneSlot { kind: ZoneSlotKind::Variants(variants), .. }) => {
                let variant = variant_key(&variants, &signature(&variants.fields, request)).into();
                self.flights.join(&variant, key)
            }
            _ => self.flights.join(key, key),
        }
    }

    /// The longest body that can be stored.
    pub(super) fn body_bytes_max(&self) -> u64 {
        self.store.shard_capacity() / 2
    }

    /// Takes memory for `bytes` of a response that is not stored yet; false if as much is taken as the zone
    /// may have.
    pub(super) fn take_filling(&self, bytes: u64) -> bool {
        let taken = self.filling.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let fits = taken <= self.capacity;
        if !fits {
            self.give_filling(bytes);
        }
        fits
    }

    /// Gives memory back that [`Zone::take_filling`] took.
    pub(super) fn give_filling(&self, bytes: u64) {
        self.filling.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Entries and other keys, the bytes that they take, and the most that they may take.
    pub(super) fn size(&self) -> (usize, u64, u64) {
        (self.store.len(), self.store.weight(), self.capacity)
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        // Files of entries are removed with them, and those of a zone that ends are for the next start.
        if let Some(disk) = &self.disk {
            disk.close();
        }
    }
}

/// The values of a request for `fields`.
pub(super) fn signature(fields: &[Box<str>], request: &Headers) -> Vec<u8> {
    let mut signature = Vec::new();
    write_signature(fields, request, &mut signature);
    signature
}

fn variant_key(variants: &Variants, signature: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + signature.len());
    variants.write_key(signature, &mut key);
    key
}

#[cfg(test)]
mod tests;

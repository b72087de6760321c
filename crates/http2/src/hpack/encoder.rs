//! The encoder of header blocks; it does not know frames and which fields a message needs.

use message::FieldId;
use multiplex::{integer, string};

use super::policy::{self, Policy};
use super::static_table;
use super::table::Table;

/// The encoder of one connection. Its table and the index to it allocate at the first insertion.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    index: Option<Box<Index>>,
    /// The smallest size since the last block, when the size has changed: the next block begins with it.
    smallest_pending: Option<u32>,
}

/// A pseudo-field with the index of its name in the static table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pseudo {
    Authority = static_table::AUTHORITY as isize,
    Method = static_table::METHOD as isize,
    Path = static_table::PATH as isize,
    Scheme = static_table::SCHEME as isize,
    Status = static_table::STATUS as isize,
}

impl Encoder {
    /// An encoder with a table of 4,096 bytes, the default of the protocol and the most that it uses.
    pub fn new() -> Self {
        Self { table: Table::new(TABLE_BYTES_MAX), index: None, smallest_pending: None }
    }

    /// Obeys the peer's SETTINGS_HEADER_TABLE_SIZE; the next block says so if the size changes (RFC 7541
    /// section 4.2).
    pub fn set_peer_limit(&mut self, limit: u32) {
        let size = TABLE_BYTES_MAX.min(limit as usize);
        if size == self.table.max_size() {
            return;
        }
        self.table.set_max_size(size);
        self.smallest_pending = Some(self.smallest_pending.unwrap_or(u32::MAX).min(size as u32));
        if size == 0 {
            self.index = None;
        }
    }

    /// Begins a block in `out`: writes the pending updates of the table's size.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(smallest) = self.smallest_pending.take() {
            integer::write_integer(out, 0x20, 5, smallest as usize);
            if smallest as usize != self.table.max_size() {
                integer::write_integer(out, 0x20, 5, self.table.max_size());
            }
        }
    }

    /// Appends a field. `id` is the number of the name, `name` is its text in any case; both were checked. A
    /// field that is sensitive is never put into a table.
    pub fn field(&mut self, out: &mut Vec<u8>, id: FieldId, name: &[u8], value: &[u8], is_sensitive: bool) {
        let policy = if is_sensitive { Policy::Never } else { policy::of(id, name, value) };
        let static_name = static_table::index_of(id);
        match policy {
            Policy::Never => return self.literal(out, 0x10, id, static_name, name, value),
            Policy::Literal => return self.literal(out, 0x00, id, static_name, name, value),
            Policy::Insert | Policy::InsertSecond => {}
        }
        if id == FieldId::AcceptEncoding && value == b"gzip, deflate" {
            return integer::write_integer(out, 0x80, 7, static_table::ACCEPT_ENCODING_GZIP_DEFLATE);
        }
        if self.table.max_size() == 0 {
            return self.literal(out, 0x00, id, static_name, name, value);
        }
        let name_hash = hash_name(id, name);
        let hash = hash_value(name_hash, value);
        if let Some(found) = self.find(hash, id, name, Some(value)) {
            return integer::write_integer(out, 0x80, 7, found);
        }
        let is_inserted = policy == Policy::Insert || self.was_seen(hash);
        let pattern = if is_inserted { 0x40 } else { 0x00 };
        self.literal(out, pattern, id, static_name, name, value);
        if is_inserted {
            self.insert(hash, name_hash, id, name, value);
        }
    }

    /// Appends a pseudo-field. `is_kept` says whether the same value is likely to come again.
    pub(crate) fn pseudo(&mut self, out: &mut Vec<u8>, pseudo: Pseudo, value: &[u8], is_kept: bool) {
        let index = pseudo as usize;
        let mut same = index;
        while let Some(&(name, text, _)) = static_table::get(same) {
            if text.as_bytes() == value && !value.is_empty() {
                return integer::write_integer(out, 0x80, 7, same);
            }
            if static_table::get(same + 1).is_none_or(|next| next.0 != name) {
                break;
            }
            same += 1;
        }
        if !is_kept || self.table.max_size() == 0 || value.len() > PSEUDO_BYTES_MAX {
            integer::write_integer(out, 0x00, 4, index);
            return string::write_string(out, 0x00, 7, value);
        }
        let name = static_table::get(index).map_or(&b""[..], |entry| entry.0.as_bytes());
        let name_hash = hash_name(FieldId::Other, name);
        let hash = hash_value(name_hash, value);
        if let Some(found) = self.find(hash, FieldId::Other, name, Some(value)) {
            return integer::write_integer(out, 0x80, 7, found);
        }
        integer::write_integer(out, 0x40, 6, index);
        string::write_string(out, 0x00, 7, value);
        self.insert(hash, name_hash, FieldId::Other, name, value);
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        self.table.memory() + self.index.as_ref().map_or(0, |_| size_of::<Index>())
    }

    fn literal(
        &mut self,
        out: &mut Vec<u8>,
        pattern: u8,
        id: FieldId,
        static_name: usize,
        name: &[u8],
        value: &[u8],
    ) {
        let bits = if pattern == 0x40 { 6 } else { 4 };
        let index = if static_name != 0 {
            static_name
        } else {
            self.find(hash_name(id, name), id, name, None).unwrap_or(0)
        };
        integer::write_integer(out, pattern, bits, index);
        if index == 0 {
            string::write_lower(out, 0x00, 7, name);
        }
        string::write_string(out, 0x00, 7, value);
    }

    /// The index of the entry with this name, and this value unless there is none.
    fn find(&self, hash: u32, id: FieldId, name: &[u8], value: Option<&[u8]>) -> Option<usize> {
        let number = self.index.as_ref()?.entries[hash as usize % ENTRY_SLOTS];
        let place = self.table.index_of_number(number)?;
        let entry = self.table.get(place)?;
        let is_same_name = match id {
            FieldId::Other => entry.id == id && entry.name.eq_ignore_ascii_case(name),
            _ => entry.id == id,
        };
        let is_same = is_same_name && value.is_none_or(|value| entry.value == value);
        is_same.then_some(static_table::LENGTH + 1 + place)
    }

    /// Whether a field with this hash was seen shortly before; remembers it.
    fn was_seen(&mut self, hash: u32) -> bool {
        let index = self.index.get_or_insert_with(Index::new);
        // The low bits choose the slot, the high ones tell fields of the same slot apart.
        let (slot, mark) = (hash as usize % SIGHTING_SLOTS, (hash >> 16) as u16 | 1);
        std::mem::replace(&mut index.sightings[slot], mark) == mark
    }

    fn insert(&mut self, hash: u32, name_hash: u32, id: FieldId, name: &[u8], value: &[u8]) {
        let mut lower = [0; PSEUDO_BYTES_MAX];
        // The policy inserts no longer names.
        let Some(lower) = lower.get_mut(..name.len()) else { return };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        if let Some(number) = self.table.insert(lower, value, id, true) {
            let index = self.index.get_or_insert_with(Index::new);
            index.entries[hash as usize % ENTRY_SLOTS] = number;
            index.entries[name_hash as usize % ENTRY_SLOTS] = number;
        }
    }
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Where entries of the table are likely to be. A slot has one entry: a newer one with the same hash hides
/// the older, which costs bytes on the wire and nothing else.
#[derive(Debug)]
struct Index {
    entries: [u16; ENTRY_SLOTS],
    sightings: [u16; SIGHTING_SLOTS],
}

impl Index {
    fn new() -> Box<Self> {
        Box::new(Self { entries: [0; ENTRY_SLOTS], sightings: [0; SIGHTING_SLOTS] })
    }
}

/// A hash of a name: of its number if it is known.
#[inline]
fn hash_name(id: FieldId, name: &[u8]) -> u32 {
    if id != FieldId::Other {
        return mix(u64::from(id as u8), 1);
    }
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        // Sets the bit that tells the cases of letters apart.
        u64::from_le_bytes(word) | 0x2020_2020_2020_2020
    };
    name.chunks(8).fold(name.len() as u32, |hash, chunk| mix(word(chunk), hash))
}

/// A hash of a name and a value.
#[inline]
fn hash_value(name_hash: u32, value: &[u8]) -> u32 {
    let (words, rest) = value.as_chunks::<8>();
    let hash = words
        .iter()
        .fold(mix(value.len() as u64, name_hash), |hash, word| mix(u64::from_le_bytes(*word), hash));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(u64::from_le_bytes(last), hash)
}

/// Not against attackers: a collision costs bytes on the wire of the connection that caused it.
#[inline]
fn mix(word: u64, hash: u32) -> u32 {
    let product = (word ^ u64::from(hash).rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product >> 32) as u32 ^ product as u32
}

/// The largest table that this encoder uses, the default of the protocol: connections are many, and a larger
/// table saves little.
const TABLE_BYTES_MAX: usize = 4096;
/// Slots for entries and names: twice the number of ordinary entries in a full table.
const ENTRY_SLOTS: usize = 128;
/// Slots for fields seen once.
const SIGHTING_SLOTS: usize = 64;
/// The longest value of a pseudo-field, and the longest name of a field, that is inserted.
const PSEUDO_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests;

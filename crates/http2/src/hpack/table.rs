//! The dynamic table (RFC 7541 section 2.3.2 and 4): a queue of fields bounded in bytes. It does not know
//! which fields belong into it and how an encoder finds them.

use std::collections::VecDeque;

use message::FieldId;

/// Bytes that an entry counts besides its name and value (RFC 7541 section 4.1).
pub(crate) const ENTRY_OVERHEAD: usize = 32;

/// The dynamic table of one direction. Without entries it owns no memory until the first insertion.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Texts of the entries, oldest first; evicted ones stay at the front until they are half of it.
    bytes: Vec<u8>,
    /// Entries, oldest at the front.
    entries: VecDeque<Entry>,
    size: usize,
    max_size: usize,
    /// Number of all insertions, modulo 2^16: an entry is found by its number.
    inserted: u16,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    name_length: u16,
    value_length: u16,
    id: FieldId,
    is_valid: bool,
}

/// An entry as its reader sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryRef<'a> {
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) id: FieldId,
    /// Whether name and value were valid when the entry was inserted.
    pub(super) is_valid: bool,
}

impl Table {
    /// An empty table for entries of `max_size` bytes in sum.
    pub(super) fn new(max_size: usize) -> Self {
        let mut table = Self::default();
        table.set_max_size(max_size);
        table
    }

    /// Changes the size and evicts what exceeds it.
    pub(super) fn set_max_size(&mut self, max_size: usize) {
        self.max_size = max_size.min(MAX_SIZE_BYTES);
        self.evict_to(self.max_size);
        if self.entries.is_empty() {
            self.bytes = Vec::new();
            self.entries = VecDeque::new();
        }
    }

    pub(super) fn max_size(&self) -> usize {
        self.max_size
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry with this index; the newest has zero.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<EntryRef<'_>> {
        let place = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries.get(place)?;
        let (name, value) = self.texts(entry);
        Some(EntryRef { name, value, id: entry.id, is_valid: entry.is_valid })
    }

    /// The index of the entry that was inserted as number `number`, if it is still there.
    #[inline]
    pub(super) fn index_of_number(&self, number: u16) -> Option<usize> {
        let age = usize::from(self.inserted.wrapping_sub(number));
        (age < self.entries.len()).then_some(age)
    }

    /// Inserts a field and evicts the oldest ones; one that is larger than the table empties it (RFC 7541
    /// section 4.4). Returns the number of the entry.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], id: FieldId, is_valid: bool) -> Option<u16> {
        let size = name.len() + value.len() + ENTRY_OVERHEAD;
        if size > self.max_size {
            self.evict_to(0);
            return None;
        }
        self.evict_to(self.max_size - size);
        self.make_space(name.len() + value.len());
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_back(Entry {
            start,
            name_length: name.len() as u16,
            value_length: value.len() as u16,
            id,
            is_valid,
        });
        self.size += size;
        self.inserted = self.inserted.wrapping_add(1);
        Some(self.inserted)
    }

    /// Bytes of heap memory.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    fn texts(&self, entry: &Entry) -> (&[u8], &[u8]) {
        let start = entry.start as usize;
        let middle = start + usize::from(entry.name_length);
        (&self.bytes[start..middle], &self.bytes[middle..middle + usize::from(entry.value_length)])
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size {
            let oldest = self.entries.pop_front().expect("a size above zero is that of entries");
            self.size -= usize::from(oldest.name_length) + usize::from(oldest.value_length) + ENTRY_OVERHEAD;
        }
    }

    /// Makes capacity for `count` bytes: moves the entries to the front when at least half is evicted, else
    /// doubles.
    fn make_space(&mut self, count: usize) {
        if self.bytes.len() + count <= self.bytes.capacity() {
            return;
        }
        let dead = self.entries.front().map_or(self.bytes.len(), |oldest| oldest.start as usize);
        if 2 * dead >= self.bytes.len() {
            self.bytes.drain(..dead);
            for entry in &mut self.entries {
                entry.start -= dead as u32;
            }
        }
        let needed = self.bytes.len() + count;
        if needed > self.bytes.capacity() {
            let capacity = needed.max(2 * self.bytes.capacity()).max(FIRST_CAPACITY_BYTES);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }
}

/// The largest table: lengths of its entries have 16 bits.
const MAX_SIZE_BYTES: usize = u16::MAX as usize;
/// The first allocation: what the fields of one small request need.
const FIRST_CAPACITY_BYTES: usize = 192;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn oldest_entries_are_evicted() {
        let mut table = Table::new(3 * (ENTRY_OVERHEAD + 2));
        assert_eq!(table.memory(), 0);
        for name in [b"a", b"b", b"c", b"d"] {
            table.insert(name, b"1", FieldId::Other, true);
        }
        let names: Vec<u8> = (0..table.len()).map(|index| table.get(index).unwrap().name[0]).collect();
        assert_eq!(names, b"dcb");
        assert!(table.get(3).is_none() && table.get(usize::MAX - 1).is_none());
        table.set_max_size(ENTRY_OVERHEAD + 2);
        assert_eq!((table.len(), table.get(0).unwrap().name), (1, &b"d"[..]));
        assert_eq!(table.insert(b"too", b"large", FieldId::Other, true), None);
        assert_eq!(table.len(), 0);
        table.set_max_size(0);
        assert_eq!(table.memory(), 0);
    }

    proptest! {
        /// The table equals a plain list, and its memory stays bounded however entries come and go.
        #[test]
        fn table_equals_a_naive_queue(values in proptest::collection::vec(0..300_usize, 1..200)) {
            let max_size = 1000;
            let (mut table, mut naive) = (Table::new(max_size), VecDeque::<Vec<u8>>::new());
            for (at, length) in values.into_iter().enumerate() {
                let value = vec![at as u8; length];
                let number = table.insert(b"n", &value, FieldId::Other, true).unwrap();
                naive.push_front(value);
                let size = |queue: &VecDeque<Vec<u8>>| {
                    queue.iter().map(|value| value.len() + 1 + ENTRY_OVERHEAD).sum::<usize>()
                };
                while size(&naive) > max_size {
                    naive.pop_back();
                }
                prop_assert_eq!(table.index_of_number(number), Some(0));
                prop_assert_eq!(table.len(), naive.len());
                for (index, value) in naive.iter().enumerate() {
                    prop_assert_eq!(table.get(index).unwrap().value, &value[..]);
                }
                prop_assert!(table.bytes.capacity() <= 4 * max_size);
            }
        }
    }
}

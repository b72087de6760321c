//! A vector of numbered slots in chunks behind `Arc`; a change copies one chunk if others hold it.

use std::sync::Arc;

/// Slots that hold values under a stable number. A clone is one reference; a change copies one chunk of
/// 256 slots and the directory.
#[derive(Clone)]
pub struct ChunkedVec<T> {
    chunks: Arc<Vec<Arc<Chunk<T>>>>,
    len: usize,
    /// No chunk before this one has a free slot.
    first_free_chunk: usize,
}

#[derive(Clone)]
struct Chunk<T> {
    /// Grows up to [`CHUNK_SLOTS`], so that a short vector stays small; what lies beyond is free.
    slots: Vec<Option<T>>,
    used: usize,
}

impl<T> ChunkedVec<T> {
    /// A vector without slots.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value in slot `index`.
    pub fn get(&self, index: u32) -> Option<&T> {
        let (chunk, slot) = split(index);
        self.chunks.get(chunk)?.slots.get(slot)?.as_ref()
    }

    /// The values with their slots, in the order of the slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().enumerate().flat_map(|(chunk, slots)| {
            let numbered = slots.slots.iter().enumerate();
            numbered.filter_map(move |(slot, value)| Some((join(chunk, slot), value.as_ref()?)))
        })
    }
}

impl<T: Clone> ChunkedVec<T> {
    /// Puts a value in the first free slot, among those given back by [`ChunkedVec::take`] if there are any.
    ///
    /// # Panics
    /// When all 2^32 slots are taken, which memory does not allow.
    pub fn allocate(&mut self, value: T) -> u32 {
        let free = |chunk: &Arc<Chunk<T>>| chunk.used < CHUNK_SLOTS;
        let from = self.first_free_chunk.min(self.chunks.len());
        let chunk =
            self.chunks[from..].iter().position(free).map_or(self.chunks.len(), |offset| from + offset);
        self.first_free_chunk = chunk;
        let slots = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.slots);
        let slot = slots.iter().position(Option::is_none).unwrap_or(slots.len());
        let index = join(chunk, slot);
        self.set(index, value);
        index
    }

    /// Puts a value in slot `index`, whatever was there; returns what was there. Slots up to it come to
    /// exist.
    pub fn set(&mut self, index: u32, value: T) -> Option<T> {
        let (chunk, slot) = split(index);
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.len() <= chunk {
            let empty = Arc::new(Chunk { slots: Vec::new(), used: 0 });
            chunks.resize(chunk + 1, empty);
        }
        let chunk = Arc::make_mut(&mut chunks[chunk]);
        if chunk.slots.len() <= slot {
            chunk.slots.resize(slot + 1, None);
        }
        let old = chunk.slots[slot].replace(value);
        if old.is_none() {
            chunk.used += 1;
            self.len += 1;
        }
        old
    }

    /// Empties slot `index` and returns its value; the slot may be allocated again.
    pub fn take(&mut self, index: u32) -> Option<T> {
        self.get(index)?;
        let (chunk_index, slot) = split(index);
        let chunk = Arc::make_mut(&mut Arc::make_mut(&mut self.chunks)[chunk_index]);
        let value = chunk.slots[slot].take()?;
        chunk.used -= 1;
        self.len -= 1;
        self.first_free_chunk = self.first_free_chunk.min(chunk_index);
        Some(value)
    }
}

impl<T> Default for ChunkedVec<T> {
    fn default() -> Self {
        Self { chunks: Arc::default(), len: 0, first_free_chunk: 0 }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for ChunkedVec<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

fn split(index: u32) -> (usize, usize) {
    (index as usize / CHUNK_SLOTS, index as usize % CHUNK_SLOTS)
}

fn join(chunk: usize, slot: usize) -> u32 {
    u32::try_from(chunk * CHUNK_SLOTS + slot).expect("memory holds fewer than 2^32 values")
}

/// The copy of one change: a few KiB for values that are references.
const CHUNK_SLOTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_like_table_and_reuses_first_free_slot(
            edits in prop::collection::vec((0u8..3, 0u32..700, any::<u8>()), 0..900),
        ) {
            let (mut slots, mut twin) = (ChunkedVec::new(), BTreeMap::new());
            let before = slots.clone();
            for (edit, index, value) in edits {
                match edit {
                    0 => {
                        let free = (0..).find(|index| !twin.contains_key(index)).unwrap();
                        prop_assert_eq!(slots.allocate(value), free);
                        twin.insert(free, value);
                    }
                    1 => prop_assert_eq!(slots.set(index, value), twin.insert(index, value)),
                    _ => prop_assert_eq!(slots.take(index), twin.remove(&index)),
                }
            }
            prop_assert_eq!(slots.len(), twin.len());
            prop_assert!((0..800).all(|index| slots.get(index) == twin.get(&index)));
            let all: Vec<_> = slots.iter().map(|(index, value)| (index, *value)).collect();
            prop_assert_eq!(all, twin.into_iter().collect::<Vec<_>>());
            prop_assert!(before.is_empty());
        }
    }

    #[test]
    fn a_change_shares_all_other_chunks() {
        let mut slots = ChunkedVec::new();
        for value in 0..100_000u32 {
            assert_eq!(slots.allocate(value), value);
        }
        let old = slots.clone();
        assert_eq!(slots.take(1000), Some(1000));
        let shared = old.chunks.iter().zip(slots.chunks.iter()).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, old.chunks.len() - 1);
        assert_eq!((old.get(1000), slots.get(1000)), (Some(&1000), None));
        assert_eq!(slots.allocate(5), 1000);
    }
}

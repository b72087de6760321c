//! The streams of a connection: slots, keys that detect reuse, and the way from an identifier to a slot. It
//! does not know what streams do.

use stdx::pooled::PooledBox;

use crate::stream::Stream;

/// Names a stream for as long as it exists; a key of an earlier stream in the same slot finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKey {
    index: u32,
    generation: u32,
}

impl StreamKey {
    /// The slot: small numbers, reused; an index for tables of the driver.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug)]
enum Slot {
    /// A stream and its generation.
    Used(u32, PooledBox<Stream>),
    /// The next free slot.
    Free(u32),
}

/// The streams of one connection.
#[derive(Debug)]
pub(crate) struct Streams {
    slots: Vec<Slot>,
    first_free: u32,
    /// Identifiers in ascending order with their slots. New ones are the largest, so that adding is
    /// appending.
    by_id: Vec<(u32, u32)>,
    next_generation: u32,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), first_free: NONE, by_id: Vec::new(), next_generation: 0 }
    }

    /// Number of streams.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Adds a stream, with an identifier above all others.
    pub(crate) fn insert(&mut self, stream: PooledBox<Stream>) -> StreamKey {
        debug_assert!(self.by_id.last().is_none_or(|last| last.0 < stream.id), "identifiers ascend");
        let (id, generation) = (stream.id, self.next_generation);
        self.next_generation = generation.wrapping_add(1);
        let index = match self.slots.get_mut(self.first_free as usize) {
            Some(slot) => {
                let index = self.first_free;
                if let Slot::Free(next) = *slot {
                    self.first_free = next;
                }
                *slot = Slot::Used(generation, stream);
                index
            }
            None => {
                self.slots.push(Slot::Used(generation, stream));
                self.slots.len() as u32 - 1
            }
        };
        self.by_id.push((id, index));
        StreamKey { index, generation }
    }

    /// The stream of a key.
    #[inline]
    pub(crate) fn get(&self, key: StreamKey) -> Option<&Stream> {
        match self.slots.get(key.index()) {
            Some(Slot::Used(generation, stream)) if *generation == key.generation => Some(stream),
            _ => None,
        }
    }

    /// The stream of a key.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: StreamKey) -> Option<&mut Stream> {
        match self.slots.get_mut(key.index()) {
            Some(Slot::Used(generation, stream)) if *generation == key.generation => Some(stream),
            _ => None,
        }
    }

    /// The key of an identifier.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<StreamKey> {
        let place = match self.by_id.last() {
            // The newest stream is the usual one.
            Some(last) if last.0 == id => self.by_id.len() - 1,
            Some(last) if last.0 > id => self.by_id.binary_search_by_key(&id, |entry| entry.0).ok()?,
            _ => return None,
        };
        self.key_at(place)
    }

    /// The key of the stream at a place in the order of identifiers.
    pub(crate) fn key_at(&self, place: usize) -> Option<StreamKey> {
        let &(_, index) = self.by_id.get(place)?;
        match self.slots.get(index as usize) {
            Some(Slot::Used(generation, _)) => Some(StreamKey { index, generation: *generation }),
            _ => None,
        }
    }

    /// Removes a stream.
    pub(crate) fn remove(&mut self, key: StreamKey) -> Option<PooledBox<Stream>> {
        self.get(key)?;
        let slot = std::mem::replace(&mut self.slots[key.index()], Slot::Free(self.first_free));
        self.first_free = key.index;
        let Slot::Used(_, stream) = slot else { return None };
        if let Ok(place) = self.by_id.binary_search_by_key(&stream.id, |entry| entry.0) {
            self.by_id.remove(place);
        }
        if self.by_id.is_empty() && self.slots.len() > KEPT_SLOTS {
            (self.slots, self.by_id, self.first_free) = (Vec::new(), Vec::new(), NONE);
        }
        Some(stream)
    }

    /// Bytes of heap memory besides that of the streams.
    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.by_id.capacity() * size_of::<(u32, u32)>()
    }
}

/// No slot.
const NONE: u32 = u32::MAX;
/// Slots that a connection without streams keeps, so that one request after the other allocates nothing.
const KEPT_SLOTS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(id: u32) -> PooledBox<Stream> {
        PooledBox::new(Stream::new(id, 0, 0))
    }

    #[test]
    fn keys_find_their_stream_and_no_later_one() {
        let mut streams = Streams::new();
        let keys: Vec<StreamKey> = [1, 3, 9].into_iter().map(|id| streams.insert(stream(id))).collect();
        for (key, id) in keys.iter().zip([1, 3, 9]) {
            assert_eq!((streams.find(id), streams.get(*key).unwrap().id), (Some(*key), id));
        }
        assert_eq!(streams.find(5), None);
        assert_eq!(streams.find(11), None);
        assert_eq!(streams.remove(keys[1]).unwrap().id, 3);
        assert!(streams.remove(keys[1]).is_none() && streams.get_mut(keys[1]).is_none());
        let reused = streams.insert(stream(11));
        assert_eq!(reused.index(), keys[1].index());
        assert!(streams.get(keys[1]).is_none());
        assert_eq!((streams.len(), streams.find(3), streams.find(11)), (3, None, Some(reused)));
        assert_eq!(streams.key_at(0), Some(keys[0]));
    }

    #[test]
    fn last_stream_gives_the_memory_of_many_back() {
        let mut streams = Streams::new();
        for count in [KEPT_SLOTS, KEPT_SLOTS + 1] {
            let keys: Vec<_> =
                (0..count as u32).map(|id| streams.insert(stream(100 * count as u32 + id))).collect();
            assert!(keys.into_iter().all(|key| streams.remove(key).is_some()));
            assert_eq!(streams.memory() == 0, count > KEPT_SLOTS, "{count}");
        }
    }
}

//! Bytes together with the memory that they lie in, so that a large piece of a body can go from the reader to
//! the writer without a copy. It knows no reader and no writer.

use crate::buffer::Buffer;

/// See the module. The memory goes back to where it is from when the segment is dropped.
#[derive(Debug)]
pub struct ByteSegment(SegmentMemory);

#[derive(Debug)]
enum SegmentMemory {
    Buffer(Buffer),
    Vector {
        bytes: Vec<u8>,
        start: usize,
        /// Takes the memory back.
        give_back: fn(Vec<u8>),
    },
}

impl From<Buffer> for ByteSegment {
    /// The filled bytes of a buffer.
    fn from(buffer: Buffer) -> ByteSegment {
        ByteSegment(SegmentMemory::Buffer(buffer))
    }
}

impl ByteSegment {
    /// The bytes of a vector from `start` on; `give_back` takes its memory in the end.
    ///
    /// # Panics
    /// When `start` lies behind the bytes.
    pub fn from_vector(bytes: Vec<u8>, start: usize, give_back: fn(Vec<u8>)) -> ByteSegment {
        assert!(start <= bytes.len(), "a segment that begins behind its bytes");
        ByteSegment(SegmentMemory::Vector { bytes, start, give_back })
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            SegmentMemory::Buffer(buffer) => buffer.filled(),
            SegmentMemory::Vector { bytes, start, .. } => &bytes[*start..],
        }
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Whether no byte is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the memory that the segment holds.
    pub fn capacity(&self) -> usize {
        match &self.0 {
            SegmentMemory::Buffer(buffer) => buffer.capacity(),
            SegmentMemory::Vector { bytes, .. } => bytes.capacity(),
        }
    }

    /// Drops `count` bytes from the front.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn consume(&mut self, count: usize) {
        match &mut self.0 {
            SegmentMemory::Buffer(buffer) => buffer.consume(count),
            SegmentMemory::Vector { bytes, start, .. } => {
                assert!(count <= bytes.len() - *start, "consumed more than there was");
                *start += count;
            }
        }
    }
}

impl AsRef<[u8]> for ByteSegment {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for ByteSegment {
    fn drop(&mut self) {
        if let SegmentMemory::Vector { bytes, give_back, .. } = &mut self.0 {
            give_back(std::mem::take(bytes));
        }
    }
}

/// Whether `count` bytes may keep `capacity_bytes` of memory occupied while they wait: not if more than half
/// of it holds none of them, because then a peer that reads slowly would make the gateway hold much for
/// little.
#[inline]
pub fn is_dense(count: usize, capacity_bytes: usize) -> bool {
    count >= capacity_bytes / 2
}

/// A piece of a body with fewer bytes is copied, because the copy costs less than a slice of its own in the
/// write and another buffer from the pool.
pub const SEGMENT_LEAST_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::buffer::{BufferPool, LARGE_BYTES};

    thread_local! {
        static GIVEN_BACK: Cell<usize> = const { Cell::new(0) };
    }

    fn note(bytes: Vec<u8>) {
        GIVEN_BACK.set(GIVEN_BACK.get() + bytes.capacity());
    }

    #[test]
    fn segments_are_consumed_from_the_front() {
        let mut buffer = Buffer::large();
        buffer.write(b"-abcd");
        buffer.consume(1);
        for mut segment in [buffer.into(), ByteSegment::from_vector(b"-abcd".to_vec(), 1, note)] {
            assert_eq!((segment.bytes(), segment.len()), (&b"abcd"[..], 4));
            segment.consume(3);
            assert_eq!((segment.bytes(), segment.is_empty()), (&b"d"[..], false));
            segment.consume(1);
            assert!(segment.is_empty() && segment.capacity() > 0);
        }
    }

    #[test]
    fn memory_of_a_segment_is_given_back() {
        BufferPool::clear();
        let mut buffer = Buffer::large();
        buffer.write(b"abc");
        let segment = ByteSegment::from(buffer);
        assert_eq!(BufferPool::free_bytes(), 0);
        drop(segment);
        assert_eq!(BufferPool::free_bytes(), LARGE_BYTES);
        drop(ByteSegment::from_vector(Vec::with_capacity(100), 0, note));
        assert!(GIVEN_BACK.get() >= 100);
    }

    #[test]
    fn sparse_memory_is_not_kept() {
        for (count, capacity, expected) in [(0, 0, true), (1, 4, false), (2, 4, true), (4, 4, true)] {
            assert_eq!(is_dense(count, capacity), expected, "{count} of {capacity}");
        }
    }
}

//! A range of bytes inside a head's own storage.

use std::ops::Range;

/// A half-open range of byte offsets, 32 bits each: a head is bounded far below 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

impl Span {
    /// The span from `start` up to and without `end`.
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && u32::try_from(end).is_ok(), "heads are bounded to 32-bit offsets");
        Self { start: start as u32, end: end as u32 }
    }

    /// Where `part`, a slice of `whole`, lies in it. An empty `part` may come from anywhere.
    pub fn of(part: &[u8], whole: &[u8]) -> Self {
        if part.is_empty() {
            return Self::default();
        }
        let start = part.as_ptr() as usize - whole.as_ptr() as usize;
        Self::new(start, start + part.len())
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// True when it covers no byte.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The span as an index range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

//! The output of a connection: one buffer for frames, and beside it the payloads of large DATA frames in the
//! memory that they came in. It does not know what the bytes are.

mod payloads;

use std::io::IoSlice;

use stdx::segment::ByteSegment;

use crate::pool;
pub(crate) use payloads::Payloads;

/// Bytes that wait to be written. Its memory comes from the thread's pool and goes back when everything was
/// written.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    start: usize,
    /// Payloads that lie outside of `bytes`, if there are any. In a box, because a connection has them only
    /// while a large body is on its way.
    payloads: Option<Box<Payloads>>,
    /// Bytes of frames that answer the peer's and wait, counted since `mark` was set.
    control_bytes: usize,
    /// Number of all bytes that were written.
    written: u64,
    /// Once so many bytes were written, all frames that were counted before are gone and the count begins
    /// anew: an output that carries a large body may never be empty.
    mark: u64,
}

impl Output {
    /// The bytes that come next, as far as they lie in one piece; empty only if none wait.
    pub(crate) fn next_slice(&self) -> &[u8] {
        match &self.payloads {
            None => &self.bytes[self.start..],
            Some(payloads) => payloads.next_slice(&self.bytes, self.start),
        }
    }

    /// Puts the bytes that come next into `slices`, as many slices as there is room for; how many they are.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        if let Some(payloads) = &self.payloads {
            return payloads.slices(&self.bytes, self.start, slices);
        }
        match slices {
            [first, ..] if self.len() > 0 => {
                *first = IoSlice::new(self.next_slice());
                1
            }
            _ => 0,
        }
    }

    /// Number of bytes that wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start + self.payloads.as_ref().map_or(0, |payloads| payloads.len())
    }

    /// Drops `count` written bytes.
    ///
    /// # Panics
    /// When fewer bytes wait: the driver would have written bytes that do not exist.
    pub(crate) fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "more was written than waited");
        self.written += count as u64;
        match &mut self.payloads {
            None => self.start += count,
            Some(payloads) => {
                self.start = payloads.advance(self.start, count);
                if payloads.is_empty() {
                    self.payloads.take().into_iter().for_each(pool::give_payloads);
                }
            }
        }
        if self.start == self.bytes.len() && self.payloads.is_none() {
            pool::give_bytes(std::mem::take(&mut self.bytes));
            self.start = 0;
        } else if self.start >= COMPACT_BYTES {
            self.bytes.drain(..self.start);
            if let Some(payloads) = &mut self.payloads {
                payloads.move_back(self.start);
            }
            self.start = 0;
        }
    }

    /// The buffer to append frames to.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = pool::take_bytes();
        }
        &mut self.bytes
    }

    /// The buffer to append a frame to that answers one of the peer's, and counts it.
    pub(crate) fn control(&mut self, frame_bytes: usize) -> &mut Vec<u8> {
        if self.written >= self.mark {
            self.control_bytes = 0;
            self.mark = self.written + (self.len() + frame_bytes) as u64;
        }
        self.control_bytes += frame_bytes;
        self.buffer()
    }

    /// Appends the first `count` bytes of `segment`, where frames have to stand between its parts: the rest
    /// follows with [`Output::rest_of_segment`].
    pub(crate) fn segment(&mut self, segment: ByteSegment, count: usize) {
        let at = self.bytes.len();
        self.payloads.get_or_insert_with(pool::take_payloads).push(at, segment, count);
    }

    /// Appends the next `count` bytes of the last segment.
    pub(crate) fn rest_of_segment(&mut self, count: usize) {
        let at = self.bytes.len();
        if let Some(payloads) = &mut self.payloads {
            payloads.push_rest(at, count);
        }
    }

    /// Bytes of frames that answer the peer's and may still wait.
    pub(crate) fn control_bytes(&self) -> usize {
        if self.written >= self.mark { 0 } else { self.control_bytes }
    }

    /// Bytes of heap memory.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.payloads.as_ref().map_or(0, |payloads| payloads.memory())
    }
}

/// Written bytes at the front are dropped once they are so many: seldom enough that moving the rest costs
/// little.
const COMPACT_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests;

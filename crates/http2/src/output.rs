//! The one output buffer of a connection; it refuses to know what the bytes are.

use crate::pool;

/// Bytes that wait to be written. Its memory comes from the thread's pool and goes back when everything was written.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    start: usize,
    /// Bytes of frames that answer the peer's, since the output was last empty.
    control_bytes: usize,
}

impl Output {
    /// The bytes that wait.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Number of bytes that wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Drops `count` written bytes.
    ///
    /// # Panics
    /// When fewer bytes wait: the driver would have written bytes that do not exist.
    pub(crate) fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "more was written than waited");
        self.start += count;
        if self.start == self.bytes.len() {
            pool::give_bytes(std::mem::take(&mut self.bytes));
            (self.start, self.control_bytes) = (0, 0);
        } else if self.start >= COMPACT_BYTES {
            self.bytes.drain(..self.start);
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
        self.control_bytes += frame_bytes;
        self.buffer()
    }

    /// Bytes of frames that answer the peer's, since the output was last empty.
    pub(crate) fn control_bytes(&self) -> usize {
        self.control_bytes
    }

    /// Bytes of heap memory.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Written bytes at the front are dropped once they are so many: seldom enough that moving the rest costs little.
const COMPACT_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_leave_and_memory_is_given_back() {
        let mut output = Output::default();
        output.buffer().extend_from_slice(&[7; 2 * COMPACT_BYTES]);
        output.control(1).push(8);
        output.advance(COMPACT_BYTES - 1);
        output.advance(1);
        assert_eq!((output.len(), output.start), (COMPACT_BYTES + 1, 0));
        assert_eq!(output.control_bytes(), 1);
        output.advance(COMPACT_BYTES);
        assert_eq!(output.waiting(), [8]);
        output.advance(1);
        assert_eq!((output.memory(), output.control_bytes()), (0, 0));
    }
}

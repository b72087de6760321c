//! The one output buffer of a connection; it does not know what the bytes are.

use crate::pool;

/// Bytes that wait to be written. Its memory comes from the thread's pool and goes back when everything was
/// written.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    start: usize,
    /// Bytes of frames that answer the peer's and wait, counted since `mark` was set.
    control_bytes: usize,
    /// Number of all bytes that were written.
    written: u64,
    /// Once so many bytes were written, all frames that were counted before are gone and the count begins
    /// anew: an output that carries a large body may never be empty.
    mark: u64,
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
        self.written += count as u64;
        if self.start == self.bytes.len() {
            pool::give_bytes(std::mem::take(&mut self.bytes));
            self.start = 0;
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
        if self.written >= self.mark {
            self.control_bytes = 0;
            self.mark = self.written + (self.len() + frame_bytes) as u64;
        }
        self.control_bytes += frame_bytes;
        self.buffer()
    }

    /// Bytes of frames that answer the peer's and may still wait.
    pub(crate) fn control_bytes(&self) -> usize {
        if self.written >= self.mark { 0 } else { self.control_bytes }
    }

    /// Bytes of heap memory.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Written bytes at the front are dropped once they are so many: seldom enough that moving the rest costs
/// little.
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

    #[test]
    fn written_answers_do_not_count() {
        let mut output = Output::default();
        for _ in 0..1000 {
            output.control(10).extend_from_slice(&[1; 10]);
            output.buffer().extend_from_slice(&[7; 100]);
            // The output is never empty.
            output.advance(if output.len() > 200 { 110 } else { 0 });
            assert!(output.control_bytes() <= 40, "{}", output.control_bytes());
        }
        (0..5).for_each(|_| output.control(10).extend_from_slice(&[1; 10]));
        assert!(output.control_bytes() >= 50, "unread ones add up");
    }
}

//! Byte buffers for sockets: heap memory that is initialised once, given back to the thread's pool on drop.
//! They refuse to know what the bytes are and where they come from.

use std::cell::RefCell;

/// A queue of bytes in one piece of memory: filled at the back, consumed at the front.
#[derive(Debug)]
pub struct Buffer {
    data: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// An empty buffer of [`BUFFER_BYTES`] from the thread's pool.
    pub fn take() -> Self {
        BufferPool::take()
    }

    /// The size of its memory in bytes.
    pub fn capacity(&self) -> usize {
        self.data.len()
    }

    /// Number of bytes that wait to be consumed.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// True when no byte waits.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// True when nothing can be added, even after [`Buffer::compact`].
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// The bytes that wait to be consumed.
    pub fn filled(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// The bytes that wait to be consumed, to be changed in place.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.data[self.start..self.end]
    }

    /// The memory behind the filled bytes, initialised with whatever was there.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.data[self.end..]
    }

    /// Says that `count` bytes of the spare memory were written.
    ///
    /// # Panics
    /// When there is less spare memory than that.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.data.len() - self.end, "advanced beyond the buffer");
        self.end += count;
    }

    /// Drops `count` bytes from the front.
    ///
    /// # Panics
    /// When fewer bytes wait.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "consumed more than was filled");
        self.start += count;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Forgets all bytes.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Moves the filled bytes to the beginning, so that all free memory is spare.
    pub fn compact(&mut self) {
        if self.start > 0 {
            self.data.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    /// Makes the capacity at least `capacity`, keeping the bytes; such a buffer does not go back to the pool.
    pub fn grow_to(&mut self, capacity: usize) {
        if capacity > self.capacity() {
            let mut data = vec![0; capacity].into_boxed_slice();
            data[..self.len()].copy_from_slice(self.filled());
            let len = self.len();
            BufferPool::give(std::mem::replace(&mut self.data, data));
            (self.start, self.end) = (0, len);
        }
    }

    /// Copies as much of `bytes` as fits behind the filled bytes; returns how many that was.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        if bytes.len() > self.data.len() - self.end {
            self.compact();
        }
        let count = bytes.len().min(self.data.len() - self.end);
        self.data[self.end..self.end + count].copy_from_slice(&bytes[..count]);
        self.end += count;
        count
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        BufferPool::give(std::mem::take(&mut self.data));
    }
}

/// The pool of the current thread.
pub struct BufferPool;

impl BufferPool {
    /// An empty buffer of [`BUFFER_BYTES`]; its memory may hold bytes of an earlier use.
    pub fn take() -> Buffer {
        let pooled = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        let data = pooled.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice());
        Buffer { data, start: 0, end: 0 }
    }

    /// How many buffers this thread's pool holds.
    pub fn free() -> usize {
        FREE.try_with(|free| free.borrow().len()).unwrap_or(0)
    }

    fn give(data: Box<[u8]>) {
        if data.len() != BUFFER_BYTES {
            return;
        }
        // While the thread ends its pool may be gone; then the memory is simply freed.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < POOLED_BUFFERS {
                free.push(data);
            }
        });
    }
}

thread_local! {
    static FREE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// One read of a busy connection and any ordinary head: more costs cache misses, less costs system calls.
pub const BUFFER_BYTES: usize = 16 * 1024;
/// Buffers a thread keeps: 8 MiB, what 500 connections that are busy at the same moment need.
pub const POOLED_BUFFERS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_in_order() {
        let mut buffer = Buffer::take();
        buffer.spare_mut()[..3].copy_from_slice(b"abc");
        buffer.advance(3);
        assert_eq!((buffer.filled(), buffer.len()), (&b"abc"[..], 3));
        buffer.consume(1);
        assert_eq!(buffer.write(b"def"), 3);
        assert_eq!(buffer.filled(), b"bcdef");
        buffer.compact();
        assert_eq!(buffer.filled(), b"bcdef");
        assert_eq!(buffer.spare_mut().len(), BUFFER_BYTES - 5);
        buffer.consume(5);
        assert!(buffer.is_empty() && buffer.spare_mut().len() == BUFFER_BYTES);
    }

    #[test]
    fn a_full_buffer_takes_what_fits_and_grows_on_demand() {
        let mut buffer = Buffer::take();
        buffer.write(b"x");
        buffer.consume(0);
        let long = vec![b'y'; BUFFER_BYTES];
        assert_eq!(buffer.write(&long), BUFFER_BYTES - 1);
        assert!(buffer.is_full());
        buffer.consume(BUFFER_BYTES - 1);
        assert_eq!(buffer.write(b"z"), 1);
        buffer.grow_to(2 * BUFFER_BYTES);
        assert_eq!((buffer.filled(), buffer.capacity()), (&b"yz"[..], 2 * BUFFER_BYTES));
    }

    #[test]
    fn the_pool_takes_back_up_to_its_cap() {
        let buffers: Vec<_> = (0..POOLED_BUFFERS + 3).map(|_| Buffer::take()).collect();
        assert_eq!(BufferPool::free(), 0);
        drop(buffers);
        assert_eq!(BufferPool::free(), POOLED_BUFFERS);
        let mut grown = Buffer::take();
        grown.grow_to(BUFFER_BYTES + 1);
        assert_eq!(BufferPool::free(), POOLED_BUFFERS);
        drop(grown);
        assert_eq!(BufferPool::free(), POOLED_BUFFERS);
    }
}

//! Byte buffers for sockets: heap memory that is initialised once, given back to the thread's pool on drop.
//! They do not know what the bytes are and where they come from.

use std::cell::RefCell;

use crate::segment::is_dense;

/// A queue of bytes in one piece of memory: filled at the back, consumed at the front.
#[derive(Debug)]
pub struct Buffer {
    data: Box<[u8]>,
    // Half the room of a usize: connections keep a place for a buffer while they have none.
    start: u32,
    end: u32,
}

impl Buffer {
    /// An empty buffer of [`SMALL_BYTES`] from the thread's pool: for a head, or for a peer that may never
    /// send more.
    pub fn small() -> Self {
        BufferPool::take(Size::Small)
    }

    /// An empty buffer of [`LARGE_BYTES`] from the thread's pool: for a body on its way.
    pub fn large() -> Self {
        BufferPool::take(Size::Large)
    }

    /// A buffer without memory, for a connection that has nothing to read.
    pub fn none() -> Self {
        Buffer { data: Box::default(), start: 0, end: 0 }
    }

    /// The size of its memory in bytes.
    pub fn capacity(&self) -> usize {
        self.data.len()
    }

    /// Number of bytes that wait to be consumed.
    pub fn len(&self) -> usize {
        self.end() - self.start()
    }

    fn start(&self) -> usize {
        self.start as usize
    }

    fn end(&self) -> usize {
        self.end as usize
    }

    /// Every position lies in the memory; the size was checked when it was made.
    fn set(&mut self, start: usize, end: usize) {
        debug_assert!(start <= end && end <= self.data.len(), "positions outside the buffer");
        (self.start, self.end) = (start as u32, end as u32);
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
        &self.data[self.start()..self.end()]
    }

    /// The memory behind the filled bytes, initialised with whatever was there.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        let end = self.end();
        &mut self.data[end..]
    }

    /// Says that `count` bytes of the spare memory were written.
    ///
    /// # Panics
    /// When there is less spare memory than that.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.data.len() - self.end(), "advanced beyond the buffer");
        self.set(self.start(), self.end() + count);
    }

    /// Drops `count` bytes from the front.
    ///
    /// # Panics
    /// When fewer bytes wait.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "consumed more than was filled");
        if count == self.len() { self.clear() } else { self.set(self.start() + count, self.end()) }
    }

    /// Forgets all bytes.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Moves the filled bytes to the beginning, so that all free memory is spare.
    pub fn compact(&mut self) {
        if self.start > 0 {
            let length = self.len();
            self.data.copy_within(self.start()..self.end(), 0);
            self.set(0, length);
        }
    }

    /// Makes the capacity at least `capacity`, keeping the bytes; one beyond [`LARGE_BYTES`] does not go back
    /// to the pool.
    pub fn grow_to(&mut self, capacity: usize) {
        if capacity > self.capacity() {
            let mut grown = if capacity <= LARGE_BYTES {
                Buffer::large()
            } else {
                assert!(u32::try_from(capacity).is_ok(), "a buffer of 4 GiB or more");
                Buffer { data: vec![0; capacity].into_boxed_slice(), start: 0, end: 0 }
            };
            grown.write(self.filled());
            *self = grown;
        }
    }

    /// Makes the capacity twice as large, but no larger than `most`, keeping the bytes: a peer that sends
    /// without end takes no more memory than twice the bytes that have come. The new memory does not go back
    /// to the pool.
    pub fn double_to(&mut self, most: usize) {
        let capacity = (2 * self.capacity()).min(most);
        if capacity > self.capacity() {
            let mut grown = Buffer { data: vec![0; capacity].into_boxed_slice(), start: 0, end: 0 };
            grown.write(self.filled());
            *self = grown;
        }
    }

    /// Gives back memory that the filled bytes do not need: all of it if there are none, all but a small
    /// buffer's if they fit into one.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            *self = Buffer::none();
        } else if self.len() <= SMALL_BYTES && self.capacity() > SMALL_BYTES {
            let mut small = Buffer::small();
            small.write(self.filled());
            *self = small;
        }
    }

    /// Hands all `count` filled bytes over with their memory, so that they need not be copied; a buffer of
    /// the same size takes their place. None if others lie behind them, or if they are too few for the memory
    /// that they would hold.
    pub fn take_whole(&mut self, count: usize) -> Option<Buffer> {
        let is_worth_it = self.capacity() == LARGE_BYTES && is_dense(count, LARGE_BYTES);
        (is_worth_it && self.len() == count).then(|| std::mem::replace(self, Buffer::large()))
    }

    /// Copies as much of `bytes` as fits behind the filled bytes; returns how many that was.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        if bytes.len() > self.data.len() - self.end() {
            self.compact();
        }
        let end = self.end();
        let count = bytes.len().min(self.data.len() - end);
        self.data[end..end + count].copy_from_slice(&bytes[..count]);
        self.set(self.start(), end + count);
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

#[derive(Clone, Copy)]
enum Size {
    Small,
    Large,
}

impl BufferPool {
    /// An empty buffer; its memory may hold bytes of an earlier use.
    fn take(size: Size) -> Buffer {
        let pooled = FREE.try_with(|free| free.borrow_mut()[size as usize].pop()).ok().flatten();
        let bytes = [SMALL_BYTES, LARGE_BYTES][size as usize];
        let data = pooled.unwrap_or_else(|| vec![0; bytes].into_boxed_slice());
        Buffer { data, start: 0, end: 0 }
    }

    /// How many bytes this thread's pool holds.
    pub fn free_bytes() -> usize {
        let bytes = |free: &RefCell<Free>| free.borrow().iter().flatten().map(|data| data.len()).sum();
        FREE.try_with(bytes).unwrap_or(0)
    }

    /// Frees what this thread's pool holds.
    pub fn clear() {
        let _ = FREE.try_with(|free| *free.borrow_mut() = Free::default());
    }

    fn give(data: Box<[u8]>) {
        let (size, most) = match data.len() {
            SMALL_BYTES => (Size::Small, POOLED_SMALL_BUFFERS),
            LARGE_BYTES => (Size::Large, POOLED_LARGE_BUFFERS),
            _ => return,
        };
        // While the thread ends its pool may be gone; then the memory is simply freed.
        let _ = FREE.try_with(|free| {
            let free = &mut free.borrow_mut()[size as usize];
            if free.len() < most {
                free.push(data);
            }
        });
    }
}

type Free = [Vec<Box<[u8]>>; 2];

thread_local! {
    static FREE: RefCell<Free> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// Any ordinary request head: what ten thousand slow clients can each make a thread hold must be little.
pub const SMALL_BYTES: usize = 4 * 1024;
/// One read of a body or of a response: a page of the usual size arrives in one system call.
pub const LARGE_BYTES: usize = 32 * 1024;
/// Small buffers a thread keeps: 4 MiB, what 1,000 connections that are busy at the same moment need.
pub const POOLED_SMALL_BUFFERS: usize = 1_024;
/// Large buffers a thread keeps: 8 MiB, what 250 exchanges under way at the same moment need.
pub const POOLED_LARGE_BUFFERS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_in_order() {
        let mut buffer = Buffer::small();
        buffer.spare_mut()[..3].copy_from_slice(b"abc");
        buffer.advance(3);
        assert_eq!((buffer.filled(), buffer.len()), (&b"abc"[..], 3));
        buffer.consume(1);
        assert_eq!(buffer.write(b"def"), 3);
        assert_eq!(buffer.filled(), b"bcdef");
        buffer.compact();
        assert_eq!(buffer.filled(), b"bcdef");
        assert_eq!(buffer.spare_mut().len(), SMALL_BYTES - 5);
        buffer.consume(5);
        assert!(buffer.is_empty() && buffer.spare_mut().len() == SMALL_BYTES);
    }

    #[test]
    fn a_full_buffer_takes_what_fits_and_grows_on_demand() {
        let mut buffer = Buffer::small();
        buffer.write(b"x");
        buffer.consume(0);
        let long = vec![b'y'; SMALL_BYTES];
        assert_eq!(buffer.write(&long), SMALL_BYTES - 1);
        assert!(buffer.is_full());
        buffer.consume(SMALL_BYTES - 1);
        assert_eq!(buffer.write(b"z"), 1);
        buffer.grow_to(2 * SMALL_BYTES);
        assert_eq!((buffer.filled(), buffer.capacity()), (&b"yz"[..], LARGE_BYTES));
        buffer.grow_to(LARGE_BYTES + 1);
        assert_eq!((buffer.filled(), buffer.capacity()), (&b"yz"[..], LARGE_BYTES + 1));
    }

    #[test]
    fn doubling_keeps_the_bytes_and_ends_at_its_bound() {
        let mut buffer = Buffer::small();
        buffer.write(b"kept");
        let mut capacities = Vec::new();
        for _ in 0..4 {
            buffer.double_to(3 * SMALL_BYTES);
            capacities.push(buffer.capacity() / SMALL_BYTES);
            assert_eq!(buffer.filled(), b"kept");
        }
        assert_eq!(capacities, [2, 3, 3, 3]);
    }

    #[test]
    fn shrink_keeps_bytes_in_the_least_capacity() {
        for (filled, capacities) in [
            (0, [0, 0]),
            (1, [SMALL_BYTES, SMALL_BYTES]),
            (SMALL_BYTES, [SMALL_BYTES, SMALL_BYTES]),
            (SMALL_BYTES + 1, [LARGE_BYTES, LARGE_BYTES + 1]),
        ] {
            for (size, capacity) in [LARGE_BYTES, LARGE_BYTES + 1].into_iter().zip(capacities) {
                let mut buffer = Buffer::none();
                buffer.grow_to(size);
                let bytes = vec![b'x'; filled];
                buffer.write(&bytes);
                buffer.shrink();
                assert_eq!((buffer.filled(), buffer.capacity()), (&bytes[..], capacity), "of {size}");
            }
        }
    }

    #[test]
    fn bytes_alone_in_a_large_buffer_are_taken() {
        for (filled, count, capacity, is_taken) in [
            (LARGE_BYTES, LARGE_BYTES, LARGE_BYTES, true),
            (LARGE_BYTES / 2, LARGE_BYTES / 2, LARGE_BYTES, true),
            (LARGE_BYTES / 2 - 1, LARGE_BYTES / 2 - 1, LARGE_BYTES, false),
            (LARGE_BYTES, LARGE_BYTES - 1, LARGE_BYTES, false),
            (SMALL_BYTES, SMALL_BYTES, SMALL_BYTES, false),
            (LARGE_BYTES, LARGE_BYTES, LARGE_BYTES + 1, false),
        ] {
            let mut buffer = Buffer::small();
            buffer.grow_to(capacity);
            buffer.write(&vec![b'x'; filled]);
            let taken = buffer.take_whole(count).map(|taken| taken.len());
            assert_eq!(taken, is_taken.then_some(count), "{count} of {filled} in {capacity}");
            assert_eq!((buffer.len(), buffer.capacity()), (if is_taken { 0 } else { filled }, capacity));
        }
    }

    #[test]
    fn the_pool_takes_back_up_to_its_caps() {
        let small: Vec<_> = (0..POOLED_SMALL_BUFFERS + 3).map(|_| Buffer::small()).collect();
        let large: Vec<_> = (0..POOLED_LARGE_BUFFERS + 3).map(|_| Buffer::large()).collect();
        assert_eq!(BufferPool::free_bytes(), 0);
        drop((small, large));
        let full = POOLED_SMALL_BUFFERS * SMALL_BYTES + POOLED_LARGE_BUFFERS * LARGE_BYTES;
        assert_eq!(BufferPool::free_bytes(), full);
        let mut grown = Buffer::large();
        grown.grow_to(LARGE_BYTES + 1);
        drop(grown);
        assert_eq!(BufferPool::free_bytes(), full);
        BufferPool::clear();
        assert_eq!(BufferPool::free_bytes(), 0);
    }
}

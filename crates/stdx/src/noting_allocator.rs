//! A global allocator for tests that count allocations. It keeps no count itself.

use std::alloc::{GlobalAlloc, Layout, System};

/// Passes every call to the system's allocator, after it has called the function with the number of
/// allocations (0 or 1), the bytes taken and the bytes given back. The function must neither allocate nor
/// panic; a thread may call it while its thread-local values are destroyed.
#[derive(Debug)]
pub struct NotingAllocator(pub fn(allocations: usize, taken_bytes: usize, given_bytes: usize));

// SAFETY: every call goes to the system's allocator unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for NotingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        (self.0)(1, layout.size(), 0);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        (self.0)(0, 0, layout.size());
        // SAFETY: the block came from the same allocator with the same layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        (self.0)(1, size, layout.size());
        // SAFETY: as in `dealloc`, and the size is the caller's.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static NOTES: RefCell<Vec<(usize, usize, usize)>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    #[allow(unsafe_code)]
    fn every_call_is_noted_with_its_sizes() {
        let allocator = NotingAllocator(|allocations, taken, given| {
            NOTES.with_borrow_mut(|notes| notes.push((allocations, taken, given)));
        });
        let layout = Layout::array::<u8>(10).unwrap();
        // SAFETY: the layouts are those of the blocks.
        unsafe {
            let block = allocator.alloc(layout);
            let block = allocator.realloc(block, layout, 20);
            allocator.dealloc(block, Layout::array::<u8>(20).unwrap());
        }
        NOTES.with_borrow(|notes| assert_eq!(notes[..], [(1, 10, 0), (1, 20, 10), (0, 0, 20)]));
    }
}

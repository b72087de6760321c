//! Memory that connections of one thread borrow while they have work: byte vectors and stored heads. It does
//! not know what they are used for. Idle connections hold none of it.

use std::cell::RefCell;

use crate::StoredHead;

/// An empty vector, with the capacity of an earlier use.
pub fn take_bytes() -> Vec<u8> {
    POOL.try_with(|pool| pool.borrow_mut().bytes.pop()).ok().flatten().unwrap_or_default()
}

/// Takes back a vector; its bytes are forgotten.
pub fn give_bytes(mut bytes: Vec<u8>) {
    if bytes.capacity() == 0 || bytes.capacity() > KEPT_CAPACITY_BYTES {
        return;
    }
    bytes.clear();
    // While the thread ends its pool may be gone; then the memory is freed.
    let _ = POOL.try_with(|pool| {
        let pool = &mut pool.borrow_mut().bytes;
        if pool.len() < POOLED_VECTORS {
            pool.push(bytes);
        }
    });
}

/// An empty head.
pub fn take_head() -> Box<StoredHead> {
    POOL.try_with(|pool| pool.borrow_mut().heads.pop()).ok().flatten().unwrap_or_default()
}

/// Takes back a head; its content is forgotten.
pub fn give_head(mut head: Box<StoredHead>) {
    if head.memory() > KEPT_HEAD_BYTES {
        return;
    }
    head.clear();
    let _ = POOL.try_with(|pool| {
        let pool = &mut pool.borrow_mut().heads;
        if pool.len() < POOLED_HEADS {
            pool.push(head);
        }
    });
}

/// Frees the memory that the pool of this thread holds.
pub fn clear() {
    let _ = POOL.try_with(|pool| *pool.borrow_mut() = Pool::EMPTY);
}

struct Pool {
    bytes: Vec<Vec<u8>>,
    // Boxes, so that a stream has one pointer and a head is moved by its pointer.
    #[allow(clippy::vec_box)]
    heads: Vec<Box<StoredHead>>,
}

impl Pool {
    const EMPTY: Self = Self { bytes: Vec::new(), heads: Vec::new() };
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool::EMPTY) };
}

/// Vectors that a thread keeps: with [`KEPT_CAPACITY_BYTES`] 16 MiB at most, usually far less.
const POOLED_VECTORS: usize = 128;
/// A larger vector is freed: it belonged to an unusual body or head.
const KEPT_CAPACITY_BYTES: usize = 128 * 1024;
/// Heads that a thread keeps: streams that are busy at the same moment.
const POOLED_HEADS: usize = 256;
/// A larger head is freed; ordinary ones take one or two KiB.
const KEPT_HEAD_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reused_up_to_the_caps() {
        clear();
        let mut bytes = Vec::with_capacity(100);
        bytes.extend_from_slice(b"old");
        give_bytes(bytes);
        let again = take_bytes();
        assert!(again.is_empty() && again.capacity() >= 100);
        give_bytes(Vec::with_capacity(KEPT_CAPACITY_BYTES + 1));
        assert_eq!(take_bytes().capacity(), 0);
        for _ in 0..POOLED_VECTORS + 3 {
            give_bytes(Vec::with_capacity(1));
        }
        for _ in 0..POOLED_HEADS + 3 {
            give_head(Box::default());
        }
        POOL.with_borrow(|pool| {
            assert_eq!((pool.bytes.len(), pool.heads.len()), (POOLED_VECTORS, POOLED_HEADS));
        });
        clear();
    }
}

//! Memory that connections of one thread borrow while they have work: byte vectors, stored heads and queues of events. It
//! refuses to know what they are used for. Idle connections hold none of it.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::Event;
use crate::head::StoredHead;

/// An empty vector, with the capacity of an earlier use.
pub(crate) fn take_bytes() -> Vec<u8> {
    POOL.try_with(|pool| pool.borrow_mut().bytes.pop()).ok().flatten().unwrap_or_default()
}

/// Takes back a vector; its bytes are forgotten.
pub(crate) fn give_bytes(mut bytes: Vec<u8>) {
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

/// Takes back memory that [`take_data`](crate::Connection::take_data) handed out.
pub fn recycle(bytes: Vec<u8>) {
    give_bytes(bytes);
}

/// An empty head.
pub(crate) fn take_head() -> Box<StoredHead> {
    POOL.try_with(|pool| pool.borrow_mut().heads.pop()).ok().flatten().unwrap_or_default()
}

/// Takes back a head; its content is forgotten.
pub(crate) fn give_head(mut head: Box<StoredHead>) {
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

/// An empty queue of events.
pub(crate) fn take_events() -> VecDeque<Event> {
    POOL.try_with(|pool| pool.borrow_mut().events.pop()).ok().flatten().unwrap_or_default()
}

/// Takes back a queue of events, which is empty.
pub(crate) fn give_events(events: VecDeque<Event>) {
    if events.capacity() == 0 || events.capacity() > KEPT_EVENTS {
        return;
    }
    let _ = POOL.try_with(|pool| {
        let pool = &mut pool.borrow_mut().events;
        if pool.len() < POOLED_EVENT_QUEUES {
            pool.push(events);
        }
    });
}

/// Frees the memory that the pool of this thread holds.
pub fn clear_pools() {
    let _ = POOL.try_with(|pool| *pool.borrow_mut() = Pool::EMPTY);
}

struct Pool {
    bytes: Vec<Vec<u8>>,
    // Boxes, so that a stream has one pointer and a head is moved by its pointer.
    #[allow(clippy::vec_box)]
    heads: Vec<Box<StoredHead>>,
    events: Vec<VecDeque<Event>>,
}

impl Pool {
    const EMPTY: Self = Self { bytes: Vec::new(), heads: Vec::new(), events: Vec::new() };
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool::EMPTY) };
}

/// Vectors that a thread keeps: with [`KEPT_CAPACITY_BYTES`] 16 MiB at most, usually far less.
const POOLED_VECTORS: usize = 128;
/// A larger vector is freed: it belonged to an unusual body or head.
const KEPT_CAPACITY_BYTES: usize = 128 * 1024;
/// Queues of events that a thread keeps: connections have one while they work only.
const POOLED_EVENT_QUEUES: usize = 16;
/// A queue for more events is freed: it belonged to a burst.
const KEPT_EVENTS: usize = 1024;
/// Heads that a thread keeps: streams that are busy at the same moment.
const POOLED_HEADS: usize = 256;
/// A larger head is freed; ordinary ones take one or two KiB.
const KEPT_HEAD_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reused_up_to_the_caps() {
        clear_pools();
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
        clear_pools();
    }
}

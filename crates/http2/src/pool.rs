//! Memory that connections of one thread borrow while they have work: byte vectors and heads of `multiplex`,
//! queues of events, and lists of payloads. It does not know what they are used for. Idle connections hold
//! none of it.

use std::cell::RefCell;
use std::collections::VecDeque;

pub(crate) use multiplex::pool::{give_bytes, give_head, take_bytes};

use crate::Event;
use crate::output::Payloads;

/// An empty queue of events.
pub(crate) fn take_events() -> VecDeque<Event> {
    EVENTS.try_with(|queues| queues.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

/// Takes back a queue of events, which is empty.
pub(crate) fn give_events(events: VecDeque<Event>) {
    if events.capacity() == 0 || events.capacity() > KEPT_EVENTS {
        return;
    }
    // While the thread ends its pool may be gone; then the memory is freed.
    let _ = EVENTS.try_with(|queues| {
        let queues = &mut queues.borrow_mut();
        if queues.len() < POOLED_EVENT_QUEUES {
            queues.push(events);
        }
    });
}

/// An empty list of payloads.
pub(crate) fn take_payloads() -> Box<Payloads> {
    PAYLOADS.try_with(|lists| lists.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

/// Takes back a list of payloads, which is empty. Its size is bounded by the output of a connection.
pub(crate) fn give_payloads(payloads: Box<Payloads>) {
    let _ = PAYLOADS.try_with(|lists| {
        let lists = &mut lists.borrow_mut();
        if lists.len() < POOLED_PAYLOAD_LISTS {
            lists.push(payloads);
        }
    });
}

/// Takes back memory that [`take_data`](crate::Connection::take_data) handed out.
pub fn recycle(bytes: Vec<u8>) {
    give_bytes(bytes);
}

/// Frees the memory that the pools of this thread hold.
pub fn clear_pools() {
    multiplex::pool::clear();
    let _ = EVENTS.try_with(|queues| *queues.borrow_mut() = Vec::new());
    let _ = PAYLOADS.try_with(|lists| *lists.borrow_mut() = Vec::new());
}

thread_local! {
    static EVENTS: RefCell<Vec<VecDeque<Event>>> = const { RefCell::new(Vec::new()) };
    // Boxes, so that a connection has one pointer.
    #[allow(clippy::vec_box)]
    static PAYLOADS: RefCell<Vec<Box<Payloads>>> = const { RefCell::new(Vec::new()) };
}

/// Queues of events that a thread keeps: connections have one while they work only.
const POOLED_EVENT_QUEUES: usize = 16;
/// Lists of payloads that a thread keeps: connections have one while large bodies wait in their output only.
const POOLED_PAYLOAD_LISTS: usize = 16;
/// A queue for more events is freed: it belonged to a burst.
const KEPT_EVENTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_reused_up_to_the_caps() {
        clear_pools();
        give_events(VecDeque::with_capacity(10));
        assert!(take_events().capacity() >= 10);
        give_events(VecDeque::with_capacity(KEPT_EVENTS + 1));
        assert_eq!(take_events().capacity(), 0);
        for _ in 0..POOLED_EVENT_QUEUES + 3 {
            give_events(VecDeque::with_capacity(1));
        }
        EVENTS.with_borrow(|queues| assert_eq!(queues.len(), POOLED_EVENT_QUEUES));
        clear_pools();
        EVENTS.with_borrow(|queues| assert!(queues.is_empty()));
    }
}

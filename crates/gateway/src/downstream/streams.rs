//! The exchanges in flight of one connection, each a future in pooled memory in the slot of its stream. It
//! polls those that asked for it and knows nothing of what they do.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use stdx::pooled::PooledBox;
use stdx::prefetch::prefetch;

use super::waker::{ReadyList, SlotWaker};

/// An exchange in flight.
pub(crate) type StreamFuture = Pin<PooledBox<dyn Future<Output = ()>>>;

/// See the module.
#[derive(Default)]
pub(crate) struct Streams {
    slots: Vec<ExchangeSlot>,
    /// Slots that asked for a poll and have not had it.
    ready: Vec<u32>,
    list: Arc<ReadyList>,
    in_flight: usize,
}

struct ExchangeSlot {
    future: Option<StreamFuture>,
    mark: Arc<SlotWaker>,
    waker: Waker,
}

/// Slots that a connection without streams keeps, so that one request after the other allocates nothing.
const KEPT_SLOTS: usize = 4;

impl Streams {
    /// Names the task of the connection, which is running now.
    pub(crate) fn set_task(&self, waker: &Waker) {
        self.list.set_task(waker);
    }

    /// How many exchanges are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Begins an exchange in `slot`, which is free. It is polled next time.
    pub(crate) fn begin(&mut self, slot: usize, future: StreamFuture) {
        while self.slots.len() <= slot {
            let mark = SlotWaker::new(&self.list, self.slots.len() as u32);
            self.slots.push(ExchangeSlot { future: None, waker: mark.clone().into(), mark });
        }
        let place = &mut self.slots[slot];
        debug_assert!(place.future.is_none(), "two streams in one slot");
        place.future = Some(future);
        place.mark.mark();
        self.in_flight += 1;
    }

    /// Begins an exchange in the first free slot.
    pub(crate) fn begin_anywhere(&mut self, future: StreamFuture) {
        let free = self.slots.iter().position(|place| place.future.is_none()).unwrap_or(self.slots.len());
        self.begin(free, future);
    }

    /// Something happened that the exchange in `slot` may wait for.
    pub(crate) fn mark(&self, slot: usize) {
        if let Some(place) = self.slots.get(slot) {
            place.mark.mark();
        }
    }

    /// Marks all exchanges.
    pub(crate) fn mark_all(&self) {
        self.slots.iter().filter(|place| place.future.is_some()).for_each(|place| place.mark.mark());
    }

    /// Whether an exchange asked for a poll.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.list.is_empty()
    }

    /// Polls exchanges that asked for it, at most `most`; how many.
    pub(crate) fn poll_ready(&mut self, most: usize) -> usize {
        self.list.drain_into(&mut self.ready);
        let count = self.ready.len().min(most);
        for place in 0..count {
            // The next exchange's state comes from memory while this one runs.
            self.prefetch(place + 1);
            let Some(slot) = self.ready.get(place).and_then(|slot| self.slots.get_mut(*slot as usize)) else {
                continue;
            };
            slot.mark.begin_poll();
            let Some(future) = &mut slot.future else { continue };
            if future.as_mut().poll(&mut Context::from_waker(&slot.waker)).is_ready() {
                slot.future = None;
                self.in_flight -= 1;
            }
        }
        self.ready.drain(..count);
        count
    }

    /// Asks for the memory of the exchange that is at `place` of those that asked for a poll.
    #[inline]
    fn prefetch(&self, place: usize) {
        if let Some(slot) = self.ready.get(place).and_then(|slot| self.slots.get(*slot as usize))
            && let Some(future) = &slot.future
        {
            prefetch(&**future);
        }
    }

    /// Whether there are more slots than an idle connection keeps.
    pub(crate) fn holds_slots(&self) -> bool {
        self.slots.len() > KEPT_SLOTS
    }

    /// Gives memory back that a connection without exchanges does not need.
    pub(crate) fn rest(&mut self) {
        if self.in_flight == 0 && self.holds_slots() {
            self.slots.truncate(KEPT_SLOTS);
            self.slots.shrink_to_fit();
            self.ready.clear();
            self.ready.shrink_to(KEPT_SLOTS);
            self.list.shrink(KEPT_SLOTS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Poll;

    use super::*;

    /// An exchange that counts its polls and ends with the one at which `lasts` is reached.
    fn counting(polls: &Rc<Cell<usize>>, lasts: usize) -> StreamFuture {
        let polls = polls.clone();
        let mut own = 0;
        PooledBox::new(poll_fn(move |_| {
            own += 1;
            polls.set(polls.get() + 1);
            if own == lasts { Poll::Ready(()) } else { Poll::Pending }
        }))
        .into_dyn_future()
    }

    #[test]
    fn only_marked_exchanges_are_polled() {
        let (mut streams, polls) = (Streams::default(), Rc::new(Cell::new(0)));
        for slot in 0..3 {
            streams.begin(slot, counting(&polls, 2));
        }
        assert_eq!((streams.poll_ready(2), polls.get()), (2, 2));
        assert!(streams.has_ready());
        assert_eq!((streams.poll_ready(9), polls.get()), (1, 3));
        assert!(!streams.has_ready());
        streams.mark(1);
        streams.mark(1);
        streams.mark(77);
        assert_eq!((streams.poll_ready(9), polls.get(), streams.in_flight()), (1, 4, 2));
        streams.mark_all();
        assert_eq!((streams.poll_ready(9), streams.in_flight()), (2, 0));
        streams.begin(1, counting(&polls, 1));
        assert_eq!((streams.poll_ready(9), streams.in_flight()), (1, 0), "a slot serves again");
    }

    #[test]
    fn memory_of_many_slots_is_given_back() {
        let (mut streams, polls) = (Streams::default(), Rc::new(Cell::new(0)));
        for slot in 0..100 {
            streams.begin(slot, counting(&polls, 1));
        }
        streams.rest();
        assert_eq!(streams.slots.len(), 100, "they are in flight");
        streams.poll_ready(100);
        streams.rest();
        assert_eq!((streams.slots.len(), streams.slots.capacity()), (KEPT_SLOTS, KEPT_SLOTS));
        streams.mark(50);
        assert!(!streams.has_ready());
    }
}

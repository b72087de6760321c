//! How a stream asks for its turn: its waker notes the stream in the list of its connection and wakes the
//! connection's task. A waker is made once for a slot and serves all streams that come to have it, so that a
//! request allocates none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// The streams of a connection that are to be polled. Wakers are `Send`, so that it has a lock; no other
/// thread ever holds it for longer than a push.
#[derive(Default)]
pub(crate) struct ReadyList {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Slots in the order in which they were woken; each at most once, so that their number bounds it.
    slots: Vec<u32>,
    task: Option<Waker>,
}

impl ReadyList {
    /// Names the task of the connection, which is running now.
    pub(crate) fn set_task(&self, waker: &Waker) {
        let mut inner = self.inner.lock();
        match &mut inner.task {
            Some(task) => task.clone_from(waker),
            None => inner.task = Some(waker.clone()),
        }
    }

    /// Moves the slots to be polled behind those in `slots`.
    pub(crate) fn drain_into(&self, slots: &mut Vec<u32>) {
        slots.append(&mut self.inner.lock().slots);
    }

    /// Whether no slot waits for its poll.
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.lock().slots.is_empty()
    }

    /// Gives the memory of many slots back.
    pub(crate) fn shrink(&self, kept: usize) {
        self.inner.lock().slots.shrink_to(kept);
    }
}

/// The waker of one slot.
pub(crate) struct SlotWaker {
    list: Arc<ReadyList>,
    slot: u32,
    /// It is in the list, or about to be polled.
    is_queued: AtomicBool,
}

impl SlotWaker {
    /// The waker of `slot`, in no list.
    pub(crate) fn new(list: &Arc<ReadyList>, slot: u32) -> Arc<SlotWaker> {
        Arc::new(SlotWaker { list: list.clone(), slot, is_queued: AtomicBool::new(false) })
    }

    /// Puts the slot into the list without waking the task, which is running and looks at the list before it
    /// waits.
    pub(crate) fn mark(&self) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.list.inner.lock().slots.push(self.slot);
        }
    }

    /// The slot is about to be polled: what happens from now on asks for another poll.
    pub(crate) fn begin_poll(&self) {
        self.is_queued.store(false, Ordering::Release);
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut inner = self.list.inner.lock();
            inner.slots.push(self.slot);
            inner.task.clone()
        };
        // Outside of the lock, because the event loop may take locks of its own.
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::CountedTask;

    use super::*;

    #[test]
    fn slot_is_listed_once_until_its_poll() {
        let (list, task) = (Arc::new(ReadyList::default()), Arc::new(CountedTask::default()));
        list.set_task(&task.clone().into());
        let slot = SlotWaker::new(&list, 7);
        let waker = Waker::from(slot.clone());
        waker.wake_by_ref();
        waker.wake_by_ref();
        slot.mark();
        let mut ready = Vec::new();
        list.drain_into(&mut ready);
        assert_eq!((ready.as_slice(), task.woken()), (&[7][..], 1));
        waker.wake_by_ref();
        assert!(list.is_empty(), "it is about to be polled");
        slot.begin_poll();
        slot.mark();
        assert!(!list.is_empty());
        assert_eq!(task.woken(), 1, "a mark wakes no task");
    }
}

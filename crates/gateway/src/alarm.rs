//! A connection's one timer: moved forward at almost no cost as the exchange goes on, it wakes the connection's task
//! when the deadline passes. What the deadline means is the caller's business.

use std::rc::Rc;
use std::task::Context;

use stdx::timers::TimerId;

use crate::worker::Worker;

/// A timer on a worker's wheel, released when dropped.
pub(crate) struct Alarm {
    worker: Rc<Worker>,
    id: TimerId,
}

impl Alarm {
    /// An alarm that is not set.
    pub(crate) fn new(worker: &Rc<Worker>) -> Alarm {
        let id = worker.timers.borrow_mut().register();
        Alarm { worker: worker.clone(), id }
    }

    /// The worker whose wheel it is on.
    #[inline]
    pub(crate) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Wakes this task `timeout_ms` from now; 0 means never.
    #[inline]
    pub(crate) fn set(&self, cx: &Context<'_>, timeout_ms: u64) {
        if timeout_ms == 0 {
            return self.clear();
        }
        let deadline_ms = self.worker.now_ms() + timeout_ms;
        self.worker.timers.borrow_mut().set(self.id, deadline_ms, cx.waker());
    }

    /// Takes the deadline away.
    #[inline]
    pub(crate) fn clear(&self) {
        self.worker.timers.borrow_mut().clear(self.id);
    }

    /// Whether the deadline has passed.
    #[inline]
    pub(crate) fn rang(&self) -> bool {
        self.worker.timers.borrow().expired(self.id)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.worker.timers.borrow_mut().release(self.id);
    }
}

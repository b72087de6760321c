//! A connection's one timer: moved forward at almost no cost as the exchange goes on, it wakes the connection's task
//! when the deadline passes. What the deadline means is the caller's business.

use std::rc::Rc;
use std::task::Context;

use stdx::timers::TimerId;

use crate::worker::{IdleState, Worker};

/// A timer on a worker's wheel, released when dropped.
pub(crate) struct Deadline {
    worker: Rc<Worker>,
    id: TimerId,
}

impl Deadline {
    /// An deadline that is not set.
    pub(crate) fn new(worker: &Rc<Worker>) -> Deadline {
        let id = worker.timers.borrow_mut().register();
        Deadline { worker: worker.clone(), id }
    }

    /// The worker whose wheel it is on.
    #[inline]
    pub(crate) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Wakes this task `timeout_ms` from now, or at the bound if that is earlier; 0 means never.
    #[inline]
    pub(crate) fn set(&self, cx: &Context<'_>, timeout_ms: u64) {
        let mut timers = self.worker.timers.borrow_mut();
        if timeout_ms != 0 {
            return timers.set(self.id, self.worker.now_ms() + timeout_ms, cx.waker());
        }
        match timers.bound_of(self.id) {
            Some(bound_ms) => timers.set(self.id, bound_ms, cx.waker()),
            None => timers.clear(self.id),
        }
    }

    /// Lets no deadline lie behind `bound_ms` of the worker's clock, until [`Deadline::clear_cap`].
    pub(crate) fn set_cap(&self, bound_ms: u64) {
        self.worker.timers.borrow_mut().bound(self.id, Some(bound_ms));
    }

    /// Takes the bound away.
    pub(crate) fn clear_cap(&self) {
        self.worker.timers.borrow_mut().bound(self.id, None);
    }

    /// Whether there is a bound and it has passed.
    pub(crate) fn is_overdue(&self) -> bool {
        let bound = self.worker.timers.borrow().bound_of(self.id);
        bound.is_some_and(|bound_ms| self.worker.now_ms() >= bound_ms)
    }

    /// The client's connection whose deadline this is waits without a request in flight from now on, and gives way to others
    /// when seats or descriptors run out. The deadline must be set before the task waits: its waker is used.
    #[inline]
    pub(crate) fn begin_idle(&self, silence: IdleState) {
        self.worker.idle.borrow_mut().enter(self.id.index(), silence, self.worker.now_ms());
    }

    /// It has a request in flight again, or has ended.
    #[inline]
    pub(crate) fn end_idle(&self) {
        if self.worker.idle.borrow_mut().leave(self.id.index()) {
            self.worker.one_has_left();
        }
    }

    /// Whether the connection is to end, because it has been silent longest and others need its place.
    #[inline]
    pub(crate) fn gives_way(&self) -> bool {
        self.worker.idle.borrow().gives_way(self.id.index())
    }

    /// Whether the deadline has passed.
    #[inline]
    pub(crate) fn expired(&self) -> bool {
        self.worker.timers.borrow().expired(self.id)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.end_idle();
        self.worker.timers.borrow_mut().release(self.id);
    }
}

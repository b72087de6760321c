//! A connection's one timer: moved forward at almost no cost as the exchange goes on, it wakes the connection's task
//! when the deadline passes. What the deadline means is the caller's business.

use std::rc::Rc;
use std::task::Context;

use stdx::timers::TimerId;

use crate::local::Local;

/// A timer on a worker's wheel, released when dropped.
pub struct Deadline {
    local: Rc<Local>,
    id: TimerId,
}

impl Deadline {
    /// An deadline that is not set.
    pub fn new(local: &Rc<Local>) -> Deadline {
        let id = local.timers.borrow_mut().register();
        Deadline { local: local.clone(), id }
    }

    /// Wakes this task `timeout_ms` from now, or at the bound if that is earlier; 0 means never.
    #[inline]
    pub fn set(&self, cx: &Context<'_>, timeout_ms: u64) {
        let mut timers = self.local.timers.borrow_mut();
        if timeout_ms != 0 {
            return timers.set(self.id, self.local.now_ms() + timeout_ms, cx.waker());
        }
        match timers.bound_of(self.id) {
            Some(bound_ms) => timers.set(self.id, bound_ms, cx.waker()),
            None => timers.clear(self.id),
        }
    }

    /// Lets no deadline lie behind `bound_ms` of the worker's clock, until [`Deadline::clear_cap`].
    pub fn set_cap(&self, bound_ms: u64) {
        self.local.timers.borrow_mut().bound(self.id, Some(bound_ms));
    }

    /// Takes the bound away.
    pub fn clear_cap(&self) {
        self.local.timers.borrow_mut().bound(self.id, None);
    }

    /// Whether there is a bound and it has passed.
    pub fn is_overdue(&self) -> bool {
        let bound = self.local.timers.borrow().bound_of(self.id);
        bound.is_some_and(|bound_ms| self.local.now_ms() >= bound_ms)
    }

    /// The index of its timer, which no other timer of this worker has at the same time.
    #[inline]
    pub fn index(&self) -> u32 {
        self.id.index()
    }

    /// Whether the deadline has passed.
    #[inline]
    pub fn expired(&self) -> bool {
        self.local.timers.borrow().expired(self.id)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.local.timers.borrow_mut().release(self.id);
    }
}

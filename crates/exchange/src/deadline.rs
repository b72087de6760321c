//! A connection's one timer: moved forward at almost no cost as the exchange goes on, it wakes the
//! connection's task when the deadline passes. Callers decide what follows then; a [`StepTimer`] is the usual
//! rule.

use std::rc::Rc;
use std::task::Context;

use stdx::timers::TimerId;

use crate::local::WorkerLocal;

/// A timer on a worker's wheel, released when dropped.
pub struct Deadline {
    local: Rc<WorkerLocal>,
    id: TimerId,
}

impl Deadline {
    /// A deadline that is not set.
    pub fn new(local: &Rc<WorkerLocal>) -> Deadline {
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

    /// As [`Deadline::set_cap`], unless there is an earlier bound.
    pub fn tighten_cap(&self, bound_ms: u64) {
        self.set_cap(self.cap_ms().map_or(bound_ms, |cap_ms| cap_ms.min(bound_ms)));
    }

    /// The bound, if there is one.
    pub fn cap_ms(&self) -> Option<u64> {
        self.local.timers.borrow().bound_of(self.id)
    }

    /// Takes the bound away.
    pub fn clear_cap(&self) {
        self.local.timers.borrow_mut().bound(self.id, None);
    }

    /// Whether there is a bound and it has passed.
    pub fn is_overdue(&self) -> bool {
        self.cap_ms().is_some_and(|bound_ms| self.local.now_ms() >= bound_ms)
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

/// Times the steps of one task with its connection's deadline: each step has a timeout that begins anew with
/// every progress.
#[derive(Debug)]
pub struct StepTimer<S> {
    step: Option<S>,
}

impl<S> Default for StepTimer<S> {
    fn default() -> StepTimer<S> {
        StepTimer { step: None }
    }
}

/// Why a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// It made no progress for its timeout.
    Step,
    /// The cap of the deadline has passed: the exchange as a whole is late.
    Cap,
}

impl<S: PartialEq> StepTimer<S> {
    /// The task waits in `step`, which may go `timeout_ms` without progress (0 is without limit). `moved`
    /// says whether there was progress since the last call.
    ///
    /// # Errors
    /// When the step, or the exchange, has had its time. Progress does not save an exchange after its cap.
    pub fn wait(
        &mut self,
        deadline: &Deadline,
        cx: &Context<'_>,
        step: S,
        timeout_ms: u64,
        moved: bool,
    ) -> Result<(), Expired> {
        let is_new = self.enter(step);
        if moved || is_new {
            if deadline.expired() && deadline.is_overdue() {
                return Err(Expired::Cap);
            }
            deadline.set(cx, timeout_ms);
        } else if deadline.expired() {
            return Err(Expired::Step);
        }
        Ok(())
    }

    /// The task waits in `step`, which something else times. True if it was in another one before.
    pub fn enter(&mut self, step: S) -> bool {
        self.step.as_ref() != Some(&step) && {
            self.step = Some(step);
            true
        }
    }
}

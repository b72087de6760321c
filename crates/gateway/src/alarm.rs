//! A connection's one timer: moved forward at almost no cost as the exchange goes on, it wakes the connection's task
//! when the deadline passes. What the deadline means is the caller's business.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

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

    /// Lets no deadline lie behind `bound_ms` of the worker's clock, until [`Alarm::lift`].
    pub(crate) fn bound(&self, bound_ms: u64) {
        self.worker.timers.borrow_mut().bound(self.id, Some(bound_ms));
    }

    /// Takes the bound away.
    pub(crate) fn lift(&self) {
        self.worker.timers.borrow_mut().bound(self.id, None);
    }

    /// Whether there is a bound and it has passed.
    pub(crate) fn is_overdue(&self) -> bool {
        let bound = self.worker.timers.borrow().bound_of(self.id);
        bound.is_some_and(|bound_ms| self.worker.now_ms() >= bound_ms)
    }

    /// What `future` comes to; nothing if the bound passes before that.
    pub(crate) async fn within_bound<F: Future + Unpin>(&self, mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|cx| match Pin::new(&mut future).poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.is_overdue() => Poll::Ready(None),
            Poll::Pending => {
                self.set(cx, 0);
                Poll::Pending
            }
        })
        .await
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

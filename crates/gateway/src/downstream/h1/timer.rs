//! The deadline of a client's connection, and its place among the idle connections of its worker.

use std::rc::Rc;

use crate::context::WorkerContext;
use crate::observe::idle_counts::IdleState;
use exchange::deadline::Deadline;

/// The deadline of one connection of a client; when it is dropped, the connection leaves the idle ones.
pub(crate) struct ConnectionTimer {
    pub(crate) context: Rc<WorkerContext>,
    pub(crate) deadline: Deadline,
}

impl ConnectionTimer {
    /// For a connection that was just accepted.
    pub(crate) fn new(context: &Rc<WorkerContext>) -> ConnectionTimer {
        ConnectionTimer { context: context.clone(), deadline: Deadline::new(&context.local) }
    }

    /// The connection waits without a request in flight from now on, and gives way to others when seats or
    /// descriptors run out. The deadline must be set before the task waits, because its waker is used.
    #[inline]
    pub(crate) fn begin_idle(&self, state: IdleState) {
        self.context.evictor.idle.borrow_mut().enter(
            self.deadline.index(),
            state,
            self.context.local.now_ms(),
        );
    }

    /// The connection has a request in flight again, or has ended.
    #[inline]
    pub(crate) fn end_idle(&self) {
        if self.context.evictor.idle.borrow_mut().leave(self.deadline.index()) {
            self.context.evictor.one_has_left();
        }
    }

    /// Whether the connection is to end, because it has been idle longest and others need its place.
    #[inline]
    pub(crate) fn gives_way(&self) -> bool {
        self.context.evictor.idle.borrow().gives_way(self.deadline.index())
    }
}

impl Drop for ConnectionTimer {
    fn drop(&mut self) {
        self.end_idle();
    }
}

//! The connections of one worker to the runner. Each carries one call at a time; those without a call wait
//! here for the next.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use exchange::local::WorkerLocal;

use super::connection::RunnerConnection;
use super::error::CallError;
use super::place::Runner;

/// Connections without a call that a worker keeps, as many as APISIX.
const IDLE_MAX: usize = 32;
/// How long one is kept, in milliseconds, as in APISIX.
const IDLE_MS: u64 = 180_000;
/// Calls of one worker at the same time. A runner that hangs holds a descriptor for each of them until its
/// time is over; one that answers in 10 milliseconds serves 100,000 requests a second with as many.
const CALLS_MAX: usize = 1_000;
/// The largest buffer that is kept with an idle connection, in bytes.
const BUFFER_KEPT_BYTES: usize = 64 * 1024;

/// See the module.
#[derive(Default)]
pub(super) struct RunnerPool {
    idle: RefCell<Vec<IdleRunnerConnection>>,
    calls: Cell<usize>,
    count: Cell<u32>,
    /// Room for reads, which copy from here.
    pub(super) room: RefCell<Vec<u8>>,
}

struct IdleRunnerConnection {
    connection: RunnerConnection,
    buffer: Vec<u8>,
    since_ms: u64,
}

/// A place among the calls of a worker, given back when it is dropped.
pub(super) struct CallPlace(Rc<RunnerPool>);

impl Drop for CallPlace {
    fn drop(&mut self) {
        self.0.calls.set(self.0.calls.get() - 1);
    }
}

impl RunnerPool {
    /// The pool of the worker.
    pub(super) fn of(worker: &WorkerLocal) -> Rc<RunnerPool> {
        worker.resource(RunnerPool::default)
    }

    /// A place for one more call.
    ///
    /// # Errors
    /// There are [`CALLS_MAX`] calls.
    pub(super) fn place(self: &Rc<RunnerPool>) -> Result<CallPlace, CallError> {
        if self.calls.get() >= CALLS_MAX {
            return Err(CallError::Busy);
        }
        self.calls.set(self.calls.get() + 1);
        Ok(CallPlace(self.clone()))
    }

    /// An idle connection to the present runner that is still open, with its buffer; otherwise a new one.
    ///
    /// # Errors
    /// There is no runner, or its socket takes no connection.
    pub(super) async fn checkout(
        &self,
        runner: &Runner,
        now_ms: u64,
    ) -> Result<(RunnerConnection, Vec<u8>), CallError> {
        let epoch = runner.epoch();
        loop {
            let Some(mut idle) = self.idle.borrow_mut().pop() else { break };
            let is_fresh = now_ms.saturating_sub(idle.since_ms) < IDLE_MS;
            if is_fresh && idle.connection.epoch == epoch && idle.connection.is_quiet() {
                return Ok((idle.connection, idle.buffer));
            }
        }
        Ok((RunnerConnection::open(runner).await?, Vec::new()))
    }

    /// Keeps a connection for the next call, of which the last one has ended well.
    pub(super) fn checkin(&self, connection: RunnerConnection, mut buffer: Vec<u8>, now_ms: u64) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= IDLE_MAX {
            return;
        }
        if buffer.capacity() > BUFFER_KEPT_BYTES {
            buffer = Vec::new();
        }
        idle.push(IdleRunnerConnection { connection, buffer, since_ms: now_ms });
    }

    /// A number for the next call that no other call of the process has at the same time: the worker in
    /// front, as in APISIX. It is never 0, which stands for no number in answers.
    pub(super) fn next_id(&self, worker: &WorkerLocal) -> u32 {
        const COUNT_BITS: u32 = 22;
        let count = self.count.get() % ((1 << COUNT_BITS) - 1) + 1;
        self.count.set(count);
        ((worker.index as u32) << COUNT_BITS) | count
    }
}

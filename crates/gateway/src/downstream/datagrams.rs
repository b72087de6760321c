//! Datagrams of layer 4: a session for each client of a UDP listener, with a socket of its own at a node. One
//! task of a worker receives for each listener, one for the nodes of all sessions; none belongs to a session,
//! because a task to wake for each datagram costs more than to pass it on.
//!
//! A datagram waits nowhere but for the decision of a plugin: it is sent on when it is received, or dropped
//! and counted. Sessions end when they were idle, after the time or the datagrams that their route gives
//! them, or when they have to give way.

mod clients;
mod nodes;
mod open;
mod port;
mod session;
mod table;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::context::WorkerContext;
use crate::observe::datagram_counts::DropReason;
use exchange::plugin::stream::SessionEnd;
use net::env;
use net::env::udp::{DatagramBatch, NodePoll, Ready};

use port::Port;
use session::{DatagramSession, Seam};
use table::SessionTable;

/// Most sessions of a worker. Each has a descriptor, a port, and 1 KiB and a half of memory.
const SESSIONS_MAX: usize = 16_384;
/// Sessions of all workers have one in so many of the descriptors that the process may open, because
/// connections need two.
const DESCRIPTORS_SHARE: u64 = 4;
/// Sessions that wait for the decision of a plugin, at most: each has a task.
const DECIDING_MAX: usize = 1_024;
/// Idle sessions are looked for so often.
const SWEEP_MS: u64 = 250;

/// The sessions of one worker. Its parts are borrowed only while no other code of the worker runs.
pub(crate) struct DatagramWorker {
    context: Rc<WorkerContext>,
    nodes: NodePoll,
    /// How many workers share the descriptors of the process.
    workers: usize,
    batch: RefCell<DatagramBatch>,
    sessions: RefCell<SessionTable<DatagramSession>>,
    /// Sessions that wait for the decision of a plugin.
    deciding: Cell<usize>,
    /// Ports so far, which are numbers of them.
    ports: Cell<u32>,
    ready: RefCell<Ready>,
    /// Sessions of which the node's socket had more than one look takes.
    unread: RefCell<Vec<u64>>,
    /// The port of the answers in the batch.
    answering: RefCell<Option<Rc<Port>>>,
}

impl DatagramWorker {
    /// The sessions of a worker, one of `workers`.
    ///
    /// # Errors
    /// The kernel's: there is no descriptor left.
    pub(crate) fn new(context: &Rc<WorkerContext>, workers: usize) -> std::io::Result<Rc<DatagramWorker>> {
        Ok(Rc::new(DatagramWorker {
            context: context.clone(),
            nodes: NodePoll::new()?,
            workers,
            batch: RefCell::default(),
            sessions: RefCell::new(SessionTable::new(limit_of(workers))),
            deciding: Cell::new(0),
            ports: Cell::new(0),
            ready: RefCell::default(),
            unread: RefCell::default(),
            answering: RefCell::default(),
        }))
    }

    /// Ends sessions that were idle, are as long as they may be, or are too many because an operator has
    /// lowered the limit on descriptors.
    pub(crate) async fn end_idle(self: Rc<Self>) {
        loop {
            env::sleep_ms(SWEEP_MS).await;
            let now_ms = self.now_ms();
            let mut sessions = self.sessions.borrow_mut();
            for session in sessions.set_limit(limit_of(self.workers)) {
                session.finish(&self.context, SessionEnd::Evicted);
            }
            let due = sessions.due(|session, used_ms| session.due(used_ms, now_ms).is_some());
            for token in due {
                let Some(session) = sessions.remove(token) else { continue };
                // A second question, because the table does not know ends; it was idle or long.
                let end = session.due(0, now_ms).unwrap_or(SessionEnd::IdleTimeout);
                session.finish(&self.context, end);
            }
        }
    }

    fn seam(&self) -> Seam<'_> {
        Seam { context: &self.context, nodes: &self.nodes }
    }

    fn now_ms(&self) -> u64 {
        self.context.local.clock_ns() / 1_000_000
    }

    fn dropped(&self, reason: DropReason, count: u64) {
        self.context.status.datagrams.dropped(reason, count);
    }
}

/// Most sessions of one of so many workers.
fn limit_of(workers: usize) -> usize {
    let share = env::open_files_limit() / DESCRIPTORS_SHARE / workers.max(1) as u64;
    usize::try_from(share).unwrap_or(SESSIONS_MAX).clamp(1, SESSIONS_MAX)
}

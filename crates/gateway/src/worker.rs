//! A worker: one thread with its event loop, its listeners and its context. It accepts connections, runs commands of
//! other threads, and sweeps what it keeps; requests are served by `downstream` and `pipeline` with its context.

mod accept;
pub(crate) mod command;
mod listeners;
mod run;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stdx::published::Published;

pub(crate) use crate::downstream::listener_state::{CLOSE_GRACE_MS, Closing, Queue};
pub(crate) use command::{Command, Handle, channel};
#[cfg(feature = "simulation")]
pub(crate) use run::body;
pub(crate) use run::run;

use crate::context::{ContextParts, WorkerContext};
use crate::observe::current_work::CurrentWork;
use exchange::Local;
use exchange::options::Options;
use exchange::overload::Shared;
use net::listener::ListenerSet;

/// One worker thread.
pub(crate) struct Worker {
    pub(crate) context: Rc<WorkerContext>,
    listeners: RefCell<listeners::Listeners>,
    /// A task that it cannot do without has panicked.
    critical_task_failed: tokio::sync::Notify,
    /// The revision whose deleted routes were last swept from the counters.
    swept_revision: Cell<u64>,
}

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) index: usize,
    pub(crate) options: Arc<Options>,
    pub(crate) listeners: Arc<Published<ListenerSet>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) context: ContextParts,
}

impl Worker {
    pub(crate) fn new(parts: Parts) -> Rc<Worker> {
        let local = Local::new(parts.index, parts.options, parts.shared);
        let context = WorkerContext::new(local, parts.context);
        let status = &context.status;
        status.beat_ms.store(context.local.now_ms(), Ordering::Relaxed);
        status.current_work.set(CurrentWork::Nothing);
        status.configured.store(true, Ordering::Release);
        Rc::new(Worker {
            context,
            listeners: RefCell::new(listeners::Listeners::new(parts.listeners)),
            critical_task_failed: tokio::sync::Notify::new(),
            swept_revision: Cell::new(0),
        })
    }
}

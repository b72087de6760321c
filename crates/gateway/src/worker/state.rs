//! A worker's state: its context, its listeners, and its critical tasks.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stdx::published::{Published, Reader};

use crate::context::{ContextParts, WorkerContext};
use crate::downstream::datagrams::DatagramWorker;
use crate::downstream::inner;
use crate::downstream::listener_state::OpenListener;
use crate::observe::current_work::CurrentWork;
use exchange::WorkerLocal;
use exchange::options::Options;
use exchange::overload::OverloadState;
use net::env;
use net::listener::ListenerSet;
use net::quic::QuicProcess;

/// One worker thread.
pub(crate) struct Worker {
    pub(crate) context: Rc<WorkerContext>,
    /// The number of its share of every listener.
    pub(super) seat: usize,
    pub(super) listeners: RefCell<WorkerListeners>,
    /// Sessions over UDP, once it has a listener for them.
    pub(super) datagrams: OnceCell<Rc<DatagramWorker>>,
    /// Keys and generation, the same as those of other workers.
    pub(super) quic: QuicProcess,
    /// Notified when a critical task has panicked.
    pub(super) critical_task_failed: tokio::sync::Notify,
    /// The revision at which counters of deleted routes were last swept.
    pub(super) swept_revision: Cell<u64>,
}

/// The parts that a worker is made of.
pub(crate) struct WorkerParts {
    pub(crate) index: usize,
    pub(crate) seat: usize,
    pub(crate) options: Arc<Options>,
    pub(crate) listeners: Arc<Published<ListenerSet>>,
    pub(crate) shared: Arc<OverloadState>,
    pub(crate) quic: QuicProcess,
    pub(crate) context: ContextParts,
}

impl Worker {
    pub(crate) fn new(parts: WorkerParts) -> Rc<Worker> {
        let local = WorkerLocal::new(parts.index, parts.options, parts.shared);
        let context = WorkerContext::new(local, parts.context);
        inner::install(&context);
        let status = &context.status;
        status.beat_ms.store(context.local.now_ms(), Ordering::Relaxed);
        status.current_work.set(CurrentWork::Nothing);
        status.configured.store(true, Ordering::Release);
        Rc::new(Worker {
            context,
            seat: parts.seat,
            listeners: RefCell::new(WorkerListeners::new(parts.listeners)),
            datagrams: OnceCell::new(),
            quic: parts.quic,
            critical_task_failed: tokio::sync::Notify::new(),
            swept_revision: Cell::new(0),
        })
    }

    /// Runs a critical task, such as an accept loop: the event loop treats a panic as the end of one task,
    /// but a worker without this task is useless, so the whole worker is started again.
    pub(super) fn spawn_critical(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        let vital = CriticalTask(self.clone());
        env::spawn(async move {
            let _vital = vital;
            task.await;
        });
    }
}

/// The listeners of a worker.
pub(super) struct WorkerListeners {
    pub(super) published: Reader<ListenerSet>,
    pub(super) open: Vec<Rc<OpenListener>>,
}

impl WorkerListeners {
    pub(super) fn new(published: Arc<Published<ListenerSet>>) -> WorkerListeners {
        WorkerListeners { published: Reader::new(published), open: Vec::new() }
    }
}

/// Notifies the worker if it is dropped by a panic.
struct CriticalTask(Rc<Worker>);

impl Drop for CriticalTask {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.critical_task_failed.notify_one();
        }
    }
}

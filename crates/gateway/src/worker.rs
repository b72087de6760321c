//! A worker: one thread, one event loop, and everything a request needs without asking another thread. Tasks of one
//! worker share it by a count of its own; its cells are never borrowed across an await.

mod accept;
mod chains;
mod command;
mod current_work;
mod evict;
mod idle;
mod listeners;
mod run;
mod upstreams;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use router::path::PathScratch;
use stdx::clock::HttpDate;
use stdx::published::{Published, Reader};
use stdx::timers::Timers;

pub(crate) use accept::ConnectionGuard;
pub(crate) use command::{Command, Handle, channel};
pub(crate) use current_work::{CurrentWork, CurrentWorkCell};
pub use idle::{IdleCounts, IdleState};
pub(crate) use listeners::{CLOSE_GRACE_MS, Closing, OpenListener, Queue};
#[cfg(feature = "simulation")]
pub(crate) use run::body;
pub(crate) use run::run;
pub(crate) use upstreams::{CheckedOutNode, Checkout};

use crate::env;
use crate::exchange::Exchange;
use crate::forward::Entry;
use crate::listener::ListenerSet;
use crate::observe::access_log::{AccessLog, LineWriter};
use crate::observe::failures::FailureCounts;
use crate::observe::metrics::WorkerMetrics;
use crate::options::Options;
use crate::overload::Shared;
use crate::overload::capacity::Shortage;
use crate::plugin::outbound::HttpClient;
use crate::runtime::{Generation, Runtime};
use crate::upstream::pool::Pools;

/// Byte buffers kept for reuse: two for each exchange that is commonly under way at once on one core.
const BYTES_KEPT_MAX: usize = 512;
/// A buffer that has grown beyond this is not kept: one large head must not be paid for ever.
const BYTES_KEPT_CAPACITY_MAX: usize = 32 * 1024;

/// Ways in whose lines are kept.
const ENTRIES_MAX: usize = 64;

/// What all workers see of each other and control sees of them: a few counters, each written by one worker.
#[derive(Debug, Default)]
pub struct Status {
    /// Open client connections.
    pub connections: AtomicUsize,
    /// Sockets that it accepts on, or whose queue it is still serving.
    pub accepting: AtomicUsize,
    /// Client connections accepted so far.
    pub accepted: AtomicU64,
    /// Requests served so far.
    pub requests: AtomicU64,
    /// Idle connections to nodes.
    pub idle_upstream: AtomicUsize,
    /// Whether it runs, by a configuration; `revision` says which.
    pub configured: AtomicBool,
    /// The revision it runs.
    pub revision: AtomicU64,
    /// Milliseconds of the monotonic clock when it last turned its loop.
    pub beat_ms: AtomicU64,
    /// Its current work.
    pub(crate) current_work: CurrentWorkCell,
    /// Whether its loop was seen to stand; written by the engine's watch, as is the next.
    pub is_stalled: AtomicBool,
    /// How often its loop was seen to stand.
    pub stalls: AtomicU64,
    /// Failures, refusals, and connections that gave way to others.
    pub failures: FailureCounts,
    /// Client connections without a request in flight.
    pub idle: IdleCounts,
    /// How many of them other workers want to give way, by what there is too little of.
    pub(crate) asked: [AtomicU32; Shortage::ALL.len()],
    /// Its connections that were told to give way, or that it was asked for, and that have not ended.
    pub(crate) leaving: AtomicUsize,
}

impl Status {
    /// Takes back what other workers have asked for, where there is no worker that could do it.
    pub(crate) fn ignore_asked(&self) {
        let asked: u32 = self.asked.iter().map(|asked| asked.swap(0, Ordering::Relaxed)).sum();
        self.settled(asked as usize);
    }

    /// So many of those that were told to give way have ended, or do not end after all.
    pub(crate) fn settled(&self, count: usize) {
        self.leaving.fetch_sub(count, Ordering::Relaxed);
    }
}

/// See the module.
pub struct Worker {
    /// Its number.
    pub index: usize,
    /// What the engine was told at start.
    pub options: Arc<Options>,
    /// Counters for metrics.
    pub metrics: WorkerMetrics,
    /// Calls of plugins to other peers.
    pub http: HttpClient,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) pools: RefCell<Pools>,
    // Boxed so that leasing one moves a pointer.
    #[expect(clippy::vec_box, reason = "a lease moves the box, not the exchange")]
    pub(crate) exchanges: RefCell<Vec<Box<Exchange>>>,
    pub(crate) path_scratch: RefCell<PathScratch>,
    bytes: RefCell<Vec<Vec<u8>>>,
    entries: RefCell<Vec<(Entry, Box<[u8]>)>>,
    date: RefCell<HttpDate>,
    current: RefCell<Current>,
    reclaimer: Sender<Arc<Runtime>>,
    upstreams: RefCell<upstreams::UpstreamStates>,
    chains: RefCell<chains::Merged>,
    access_log: Option<(AccessLog, RefCell<LineWriter>)>,
    listeners: RefCell<listeners::Listeners>,
    pub(crate) idle: RefCell<idle::IdleConnections>,
    /// All workers, this one among them; set when it begins to run.
    peers: OnceCell<Rc<[Handle]>>,
    /// How many connections were about to end when this worker last waited for that.
    waited_for: Cell<usize>,
    draining: Cell<bool>,
    /// A task that it cannot do without has panicked.
    critical_task_failed: tokio::sync::Notify,
    /// The revision whose deleted routes were last swept from the counters.
    swept_revision: Cell<u64>,
    last_ns: Cell<u64>,
    wall_offset: Cell<(u64, u64)>,
    status: Arc<Status>,
    pub(crate) shared: Arc<Shared>,
}

struct Current {
    reader: Reader<Runtime>,
    generation: Rc<Generation>,
}

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) index: usize,
    pub(crate) options: Arc<Options>,
    pub(crate) published: Arc<Published<Runtime>>,
    pub(crate) listeners: Arc<Published<ListenerSet>>,
    pub(crate) reclaimer: Sender<Arc<Runtime>>,
    pub(crate) status: Arc<Status>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) metrics: WorkerMetrics,
    pub(crate) access_log: Option<(AccessLog, LineWriter)>,
}

impl Worker {
    pub(crate) fn new(parts: Parts) -> Rc<Worker> {
        let reader = Reader::new(parts.published);
        let generation = Rc::new(Generation::new(reader.get().clone(), parts.reclaimer.clone()));
        parts.status.revision.store(generation.revision, Ordering::Release);
        parts.status.beat_ms.store(env::monotonic_ns() / 1_000_000, Ordering::Relaxed);
        parts.status.current_work.set(CurrentWork::Nothing);
        parts.status.configured.store(true, Ordering::Release);
        Rc::new(Worker {
            index: parts.index,
            options: parts.options,
            metrics: parts.metrics,
            http: HttpClient::default(),
            timers: RefCell::new(Timers::new(env::monotonic_ns() / 1_000_000)),
            pools: RefCell::default(),
            exchanges: RefCell::default(),
            path_scratch: RefCell::default(),
            bytes: RefCell::default(),
            entries: RefCell::default(),
            date: RefCell::new(HttpDate::new()),
            current: RefCell::new(Current { reader, generation }),
            reclaimer: parts.reclaimer,
            upstreams: RefCell::default(),
            chains: RefCell::default(),
            access_log: parts.access_log.map(|(log, writer)| (log, RefCell::new(writer))),
            listeners: RefCell::new(listeners::Listeners::new(parts.listeners)),
            idle: RefCell::new(idle::IdleConnections::new(parts.status.clone())),
            peers: OnceCell::new(),
            waited_for: Cell::new(0),
            draining: Cell::new(false),
            critical_task_failed: tokio::sync::Notify::new(),
            swept_revision: Cell::new(0),
            last_ns: Cell::new(env::monotonic_ns()),
            wall_offset: Cell::new(wall_offset()),
            status: parts.status,
            shared: parts.shared,
        })
    }

    /// Nanoseconds of the monotonic clock, read now.
    #[inline]
    pub fn clock_ns(&self) -> u64 {
        let now = env::monotonic_ns();
        self.last_ns.set(now);
        now
    }

    /// Nanoseconds of the monotonic clock when this worker last read it: at the latest with the last turn of the slow
    /// loop, while requests pass a few microseconds ago. Good for deadlines, dates and idle times, and free.
    #[inline]
    pub fn recent_ns(&self) -> u64 {
        self.last_ns.get()
    }

    /// [`Worker::recent_ns`] in milliseconds.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        self.recent_ns() / 1_000_000
    }

    /// Seconds and nanoseconds since the Unix epoch at `monotonic_ns`, exact to the last turn of the slow loop.
    pub fn wall_at(&self, monotonic_ns: u64) -> (u64, u32) {
        let (seconds, nanoseconds) = self.wall_offset.get();
        let total = nanoseconds + monotonic_ns;
        (seconds + total / 1_000_000_000, (total % 1_000_000_000) as u32)
    }

    /// A connection of this worker that was told to give way has ended.
    pub(crate) fn one_has_left(&self) {
        self.status.settled(1);
    }

    /// Whether the worker is at its end: what it keeps for later requests has no use any more.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Says what is worked on, for the watch.
    #[inline]
    pub(crate) fn current_work(&self) -> &CurrentWorkCell {
        &self.status.current_work
    }

    /// The generation in force: one relaxed load unless it has changed.
    #[inline]
    pub(crate) fn generation(&self) -> Rc<Generation> {
        let mut current = self.current.borrow_mut();
        if let Some(old) = current.reader.refresh() {
            let runtime = current.reader.get().clone();
            self.status.revision.store(runtime.revision, Ordering::Release);
            current.generation = Rc::new(Generation::new(runtime, self.reclaimer.clone()));
            self.metrics.generation_changed();
            self.chains.borrow_mut().clear();
            let _ = self.reclaimer.send(old);
        }
        current.generation.clone()
    }

    /// The Date field's value now (RFC 9110 section 5.6.7).
    pub(crate) fn http_date(&self) -> [u8; 29] {
        let (seconds, _) = self.wall_at(self.recent_ns());
        *self.date.borrow_mut().at(seconds)
    }

    /// Appends the lines that tell a node how the request came in; formatted once for each way in.
    pub(crate) fn entry_lines(&self, entry: Entry, out: &mut Vec<u8>) {
        let mut entries = self.entries.borrow_mut();
        let index = entries.iter().position(|(known, _)| *known == entry).unwrap_or_else(|| {
            // Listeners times versions: a handful, unless listeners come and go for ever.
            if entries.len() >= ENTRIES_MAX {
                entries.clear();
            }
            entries.push((entry, entry.lines(&self.options.forward)));
            entries.len() - 1
        });
        out.extend_from_slice(&entries[index].1);
    }

    /// An empty byte buffer.
    pub(crate) fn take_bytes(&self) -> Vec<u8> {
        self.bytes.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a byte buffer back.
    pub(crate) fn give_bytes(&self, mut bytes: Vec<u8>) {
        let mut kept = self.bytes.borrow_mut();
        if kept.len() < BYTES_KEPT_MAX && (1..=BYTES_KEPT_CAPACITY_MAX).contains(&bytes.capacity()) {
            bytes.clear();
            kept.push(bytes);
        }
    }

    /// Counts an ended exchange and logs it, if anybody reads that log.
    pub(crate) fn observe(&self, exchange: &Exchange) {
        // One writer: a load and a store are enough, and cheaper than an atomic addition.
        let requests = &self.status.requests;
        requests.store(requests.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if let Some(failure) = &exchange.failure {
            self.status.failures.failed(failure.cause);
        }
        if let Some((log, writer)) = &self.access_log {
            log.write(exchange, &mut writer.borrow_mut());
        }
    }
}

/// Wall clock less monotonic clock, as seconds and nanoseconds.
fn wall_offset() -> (u64, u64) {
    let monotonic = std::time::Duration::from_nanos(env::monotonic_ns());
    let offset = env::wall_clock().saturating_sub(monotonic);
    (offset.as_secs(), u64::from(offset.subsec_nanos()))
}

//! The one kind of queue for plugins that report what happened: workers push entries without ever waiting,
//! batches are delivered by a task of the service thread. A queue is bounded in entries and bytes, retries
//! included; what does not fit is dropped, counted and said once in a while. It knows neither entries nor
//! where they go.
//!
//! Batches are formed as the contract's data plane does it: when there are enough entries, when the oldest
//! has waited long enough, or when no other has come for a while (`batch_max_size`, `buffer_duration`,
//! `inactive_timeout`).

mod complaint;
mod failure;
mod flush;
mod metrics;
mod pace;
mod settings;

use parking_lot::Mutex;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::outbound::HttpClient;
use super::service_thread::ServiceThread;
use net::env;

use crate::overload;
pub use failure::DeliveryFailure;
pub use settings::QueueSettings;

use complaint::Complaints;
use metrics::{QueueSeries, QueueTotals};

/// The most bytes one queue holds; a thousandth of it is a long entry. A peer that is gone must not take the
/// memory that requests need.
pub const QUEUE_MAX_BYTES: usize = 64 * 1024 * 1024;
/// The most bytes all queues together hold.
pub const ALL_QUEUES_MAX_BYTES: usize = 256 * 1024 * 1024;
/// Batches of one queue on their way at once. More would not make a slow peer quicker.
const DELIVERIES_MAX: usize = 16;

/// One thing to report, already in the form in which it is sent.
pub type BatchEntry = Box<[u8]>;

/// A delivery under way. An error that is only a sentence becomes a [`DeliveryFailure`] of the whole batch.
pub type Delivery<'a> = Pin<Box<dyn Future<Output = Result<(), DeliveryFailure>> + 'a>>;

/// Where batches go.
pub trait Sink: Send + Sync + 'static {
    /// Delivers a batch, on the service thread, by its client.
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a>;
}

/// A worker's way into a queue. Held by plugin instances; what is left when the last is gone is still
/// delivered.
pub struct BatchQueue {
    shared: Arc<BatchQueueState>,
    entries: UnboundedSender<BatchEntry>,
}

/// State that pushers and the delivering task share, without a lock.
struct BatchQueueState {
    settings: QueueSettings,
    totals: Arc<QueueTotals>,
    process: Arc<Process>,
    changed: Notify,
    /// Entries in the channel; what is on its way no longer counts.
    waiting: AtomicUsize,
    held_entries: AtomicUsize,
    held_bytes: AtomicUsize,
    last_push_ms: AtomicU64,
    complaints: Complaints,
}

/// State that all queues share.
#[derive(Default)]
struct Process {
    held_bytes: AtomicUsize,
    flush_now: AtomicBool,
    /// Of the engine, once it runs.
    overload: OnceLock<Arc<overload::OverloadState>>,
}

/// All queues of a process.
#[derive(Default)]
pub(super) struct Queues {
    process: Arc<Process>,
    known: Mutex<Vec<Weak<BatchQueueState>>>,
    series: QueueSeries,
}

impl BatchQueue {
    /// Puts an entry into the queue and returns at once; false if it was dropped because the queue is full or
    /// memory is short.
    pub fn push(&self, entry: Vec<u8>) -> bool {
        let is_taken = self.push_silently(entry);
        if !is_taken {
            self.shared.complaints.dropped(&self.shared.settings, now_ms());
        }
        is_taken
    }

    /// As [`BatchQueue::push`], for an entry of a request that came to `server_address`, which metrics name.
    pub fn push_from(&self, server_address: IpAddr, entry: Vec<u8>) -> bool {
        self.shared.totals.come_to(server_address);
        self.push(entry)
    }

    /// As [`BatchQueue::push`], for entries that are lines of the log: the log does not tell of a dropped
    /// one, the metrics do.
    pub fn push_silently(&self, entry: Vec<u8>) -> bool {
        let shared = &*self.shared;
        let now_ms = now_ms();
        if !shared.reserve(entry.len()) {
            shared.totals.dropped(1);
            return false;
        }
        shared.last_push_ms.store(now_ms, Ordering::Relaxed);
        let waiting = shared.waiting.fetch_add(1, Ordering::AcqRel) + 1;
        let bytes = entry.len();
        if self.entries.send(entry.into()).is_err() {
            // Without a service thread, as at the end of the process, the entry would never be delivered.
            shared.waiting.fetch_sub(1, Ordering::AcqRel);
            shared.release(1, bytes);
            shared.totals.dropped(1);
            return false;
        }
        // The task sleeps while nothing is due: it has to hear of the first entry and of a full batch, not of
        // each.
        if waiting == 1
            || waiting.is_multiple_of(shared.settings.batch_max_entries)
            || shared.process.flush_now.load(Ordering::Relaxed)
        {
            shared.changed.notify_one();
        }
        true
    }
}

impl Drop for BatchQueue {
    fn drop(&mut self) {
        // The task looks whether the channel is closed; a permit is kept until it does.
        let (closed, _) = unbounded_channel();
        self.entries = closed;
        self.shared.changed.notify_one();
    }
}

impl BatchQueueState {
    /// Makes room for an entry of so many bytes, if there is room and memory.
    fn reserve(&self, bytes: usize) -> bool {
        if self.process.overload.get().is_some_and(|overload| !overload.memory.try_reserve(bytes)) {
            return false;
        }
        let entries = self.held_entries.fetch_add(1, Ordering::Relaxed) + 1;
        let own = self.held_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let all = self.process.held_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let fits = entries <= self.settings.max_pending_entries
            && own <= QUEUE_MAX_BYTES
            && all <= ALL_QUEUES_MAX_BYTES;
        if !fits {
            self.release(1, bytes);
        }
        fits
    }

    fn release(&self, entries: usize, bytes: usize) {
        self.held_entries.fetch_sub(entries, Ordering::Relaxed);
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.process.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Queues {
    /// Makes a queue and starts its task.
    pub(super) fn add(
        &self,
        settings: QueueSettings,
        sink: Box<dyn Sink>,
        thread: &ServiceThread,
    ) -> BatchQueue {
        let (entries, receiver) = unbounded_channel();
        let shared = Arc::new(BatchQueueState {
            totals: self.series.totals(&settings),
            settings,
            process: self.process.clone(),
            changed: Notify::new(),
            waiting: AtomicUsize::new(0),
            held_entries: AtomicUsize::new(0),
            held_bytes: AtomicUsize::new(0),
            last_push_ms: AtomicU64::new(0),
            complaints: Complaints::default(),
        });
        let mut known = self.known.lock();
        known.retain(|queue| queue.strong_count() > 0);
        known.push(Arc::downgrade(&shared));
        drop(known);
        let task = shared.clone();
        thread.run(move |client| env::spawn(flush::run_batch_queue(task, receiver, sink.into(), client)));
        BatchQueue { shared, entries }
    }

    /// From now on nothing is kept that memory is too short for.
    pub(super) fn limit_memory(&self, overload: Arc<overload::OverloadState>) {
        // An engine has its services to itself.
        let _ = self.process.overload.set(overload);
    }

    /// From now on nothing waits for company.
    pub(super) fn flush_now(&self) {
        self.process.flush_now.store(true, Ordering::Relaxed);
        self.each(|queue| queue.changed.notify_one());
    }

    /// Entries not yet delivered or given up.
    pub(super) fn held_entries(&self) -> usize {
        let mut held = 0;
        self.each(|queue| held += queue.held_entries.load(Ordering::Relaxed));
        held
    }

    pub(super) fn write_metrics(&self, text: &mut String) {
        let mut held = Vec::new();
        self.each(|queue| held.push((queue.totals.clone(), queue.held_entries.load(Ordering::Relaxed))));
        self.series.write(&held, text);
    }

    fn each(&self, mut call: impl FnMut(&BatchQueueState)) {
        let known = self.known.lock();
        known.iter().filter_map(Weak::upgrade).for_each(|queue| call(&queue));
    }
}

fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}

#[cfg(test)]
mod tests;

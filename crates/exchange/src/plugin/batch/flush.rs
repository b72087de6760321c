//! The task of one queue on the service thread: sleeps until a batch is due, sends it on its way, goes on.
//! Batches are delivered beside each other within a bound; each is repeated as the settings say and then
//! given up.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::pace::{FlushTime, due};
use super::{BatchEntry, BatchQueueState, DELIVERIES_MAX, DeliveryFailure, Sink, now_ms};
use crate::plugin::outbound::HttpClient;
use net::env;

/// Runs until no pusher is left and every entry is delivered or given up.
pub(super) async fn run_batch_queue(
    shared: Arc<BatchQueueState>,
    mut entries: UnboundedReceiver<BatchEntry>,
    sink: Rc<dyn Sink>,
    client: Rc<HttpClient>,
) {
    let slots = Arc::new(Semaphore::new(DELIVERIES_MAX));
    // When the oldest of those that wait was noticed.
    let mut first_ms = None;
    loop {
        let waiting = shared.waiting.load(Ordering::Acquire);
        let is_closed = entries.is_closed();
        if waiting == 0 {
            if is_closed {
                return;
            }
            first_ms = None;
            shared.changed.notified().await;
            continue;
        }
        let now_ms = now_ms();
        let first = *first_ms.get_or_insert(now_ms);
        let last = shared.last_push_ms.load(Ordering::Relaxed);
        let is_ending = is_closed || shared.process.flush_now.load(Ordering::Relaxed);
        match due(&shared.settings, waiting, first, last, now_ms, is_ending) {
            FlushTime::At(due_ms) => tokio::select! {
                () = shared.changed.notified() => {}
                () = env::sleep_ms(due_ms.saturating_sub(now_ms)) => {}
            },
            FlushTime::Now => {
                let Ok(slot) = slots.clone().acquire_owned().await else { return };
                let batch = take(&shared, &mut entries).await;
                // Remaining entries came while the batch was awaited.
                first_ms = None;
                env::spawn(deliver(batch, sink.clone(), client.clone(), slot));
            }
        }
    }
}

/// A batch on its way; the queue has room again when it is gone, however that came about.
struct BatchInFlight {
    shared: Arc<BatchQueueState>,
    entries: Vec<BatchEntry>,
}

impl Drop for BatchInFlight {
    fn drop(&mut self) {
        let bytes = self.entries.iter().map(|entry| entry.len()).sum();
        self.shared.release(self.entries.len(), bytes);
    }
}

/// Takes up to a full batch of what waits.
async fn take(shared: &Arc<BatchQueueState>, receiver: &mut UnboundedReceiver<BatchEntry>) -> BatchInFlight {
    let count = shared.waiting.load(Ordering::Acquire).min(shared.settings.batch_max_entries);
    let mut entries = Vec::with_capacity(count);
    while entries.len() < count {
        // One that is counted and not there yet is between two lines of its pusher.
        match receiver.recv().await {
            Some(entry) => entries.push(entry),
            None => break,
        }
    }
    shared.waiting.fetch_sub(entries.len(), Ordering::AcqRel);
    BatchInFlight { shared: shared.clone(), entries }
}

impl BatchInFlight {
    /// Keeps the entries that are worth another attempt, and makes room for the others in the queue. Entries
    /// that were given up are counted as failed and told of.
    fn settle(&mut self, failure: &DeliveryFailure) {
        let (count, mut index, mut bytes) = (self.entries.len(), 0, 0);
        self.entries.retain(|entry| {
            let is_left = failure.leaves(index);
            index += 1;
            bytes += if is_left { 0 } else { entry.len() };
            is_left
        });
        let settled = count - self.entries.len();
        let delivered = failure.delivered.min(settled);
        self.shared.release(settled, bytes);
        self.shared.totals.sent(delivered as u64);
        if settled > delivered {
            self.shared.give_up(settled - delivered, &failure.reason);
        }
    }
}

impl BatchQueueState {
    fn give_up(&self, entries: usize, reason: &str) {
        self.totals.failed(entries as u64);
        self.complaints.failed(&self.settings, entries, reason, now_ms());
    }
}

async fn deliver(
    mut batch: BatchInFlight,
    sink: Rc<dyn Sink>,
    client: Rc<HttpClient>,
    _slot: OwnedSemaphorePermit,
) {
    let shared = batch.shared.clone();
    let mut failures = 0_u32;
    loop {
        let Err(failure) = sink.deliver(&client, &batch.entries).await else {
            return shared.totals.sent(batch.entries.len() as u64);
        };
        batch.settle(&failure);
        let left = batch.entries.len();
        if left == 0 {
            return;
        }
        // Retries are counted for the entries that are left; each round that delivers some makes those fewer.
        if failure.delivered > 0 {
            failures = 0;
        }
        failures = failures.saturating_add(1);
        if failures > shared.settings.max_retry_count || failure.is_final {
            return shared.give_up(left, &failure.reason);
        }
        shared.complaints.retried(&shared.settings, left, &failure.reason, now_ms());
        env::sleep_ms(shared.settings.retry_delay_ms).await;
    }
}

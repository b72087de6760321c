//! The counts of one worker as the history reads them. They outlive a restart of the worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use exchange::observe::histogram::bump;
use parking_lot::Mutex;

use super::cell::{CounterLabel, Sample, TrafficCell};
use super::times::TimeCounts;

/// Classes of statuses: index 2 counts 200 to 299; index 0 requests without a response.
pub(crate) const CLASSES: usize = 6;

/// The traffic of one worker.
#[derive(Debug, Default)]
pub(crate) struct TrafficCounts {
    classes: [AtomicU64; CLASSES],
    bytes: AtomicU64,
    /// The durations of all requests.
    pub(crate) times: TimeCounts,
    /// Whether durations are counted by route, consumer and endpoint as well, because a reader asked.
    pub(crate) is_timed: AtomicBool,
    pub(crate) routes: CellList,
    pub(crate) consumers: CellList,
    pub(crate) endpoints: CellList,
}

impl TrafficCounts {
    /// Counts an ended request.
    #[inline]
    pub(crate) fn record(&self, sample: Sample) {
        let class = usize::from(sample.status / 100);
        bump(&self.classes[if class < CLASSES { class } else { 0 }], 1);
        bump(&self.bytes, sample.bytes);
        self.times.record(sample.us);
    }

    /// Requests by class of status.
    pub(crate) fn classes(&self) -> [u64; CLASSES] {
        std::array::from_fn(|class| self.classes[class].load(Ordering::Relaxed))
    }

    /// Bytes of responses.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The counters of one worker by route, by consumer, or by endpoint.
#[derive(Debug)]
pub(crate) struct CellList {
    cells: Mutex<Vec<Arc<TrafficCell>>>,
    /// Counts what comes beyond the limit of cells.
    pub(crate) other: TrafficCell,
}

impl Default for CellList {
    fn default() -> CellList {
        let other = TrafficCell::new(CounterLabel { id: "".into(), upstream: None });
        CellList { cells: Mutex::default(), other }
    }
}

impl CellList {
    /// The counters that exist now. The lock is held for the copy of the list only, because the worker may
    /// wait for it.
    pub(crate) fn cells(&self) -> Vec<Arc<TrafficCell>> {
        self.cells.lock().clone()
    }

    /// Adds counters.
    pub(crate) fn push(&self, cell: Arc<TrafficCell>) {
        self.cells.lock().push(cell);
    }

    /// Replaces all counters.
    pub(crate) fn replace(&self, cells: Vec<Arc<TrafficCell>>) {
        let old = std::mem::replace(&mut *self.cells.lock(), cells);
        // Freed outside the lock, because 20,000 cells take milliseconds.
        drop(old);
    }
}

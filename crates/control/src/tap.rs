//! Single requests for pages and commands: reads the records of the workers while they are followed, filters
//! and samples them for each reader, and lists the failures that were kept. Knows no HTTP.

mod json;
mod reader;
mod searched;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::report::{RequestRecord, Tap};
use model::search::SearchFilter;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use reader::TapReader;
use searched::Searched;

/// Readers at the same time. A reader is a person in front of a page or a terminal.
pub(crate) const READERS_MAX: usize = 4;
/// The most requests a second that one reader gets: more lines can be neither drawn nor read.
pub(crate) const RATE_MAX: u32 = 500;
/// Pieces of an answer that wait for a slow reader; beyond it requests are left out and counted.
pub(crate) const QUEUE: usize = 256;
/// Interval at which the rings of the workers are read. A ring holds 256 records, so that 12,800 requests a
/// second and worker are looked at.
const PERIOD: Duration = Duration::from_millis(20);

/// The tap of an instance, shared by its readers; see the module.
#[derive(Clone)]
pub struct TapHub {
    shared: Arc<TapShared>,
}

struct TapShared {
    tap: Arc<dyn Tap>,
    state: Mutex<TapState>,
}

#[derive(Default)]
struct TapState {
    readers: Vec<TapReader>,
    /// Whether a task reads the rings.
    is_running: bool,
}

/// The requests that a reader asks for.
pub(crate) struct TapQuery {
    pub(crate) filter: SearchFilter,
    /// Requests a second, at most.
    pub(crate) rate: u32,
    /// Whether requests are shown with timelines.
    pub(crate) timeline: bool,
    /// Whether queries are hidden.
    pub(crate) hides_queries: bool,
}

impl std::fmt::Debug for TapHub {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("TapHub")
    }
}

impl TapHub {
    /// A hub over the records of a gateway.
    pub fn new(tap: Arc<dyn Tap>) -> TapHub {
        TapHub { shared: Arc::new(TapShared { tap, state: Mutex::default() }) }
    }

    /// Sends requests to `sender` as server-sent events until its receiver is gone or the time of a reader is
    /// over. Needs a runtime. False: there are as many readers as there may be. Viewers leave one place to
    /// administrators, because an incident needs it.
    pub(crate) fn follow(&self, wanted: TapQuery, sender: mpsc::Sender<Bytes>) -> bool {
        let mut state = self.shared.state.lock();
        state.readers.retain(TapReader::is_there);
        let most = if wanted.hides_queries { READERS_MAX - 1 } else { READERS_MAX };
        if state.readers.len() >= most {
            return false;
        }
        state.readers.push(TapReader::new(wanted, sender));
        self.shared.tap.open(state.wants_timelines());
        if !state.is_running {
            state.is_running = true;
            tokio::spawn(Arc::clone(&self.shared).run());
        }
        true
    }

    /// The failures kept, the newest first, as JSON; and the number of failures that were not kept.
    pub(crate) fn failures(
        &self,
        filter: &SearchFilter,
        hides_queries: bool,
        limit: usize,
    ) -> (Vec<Value>, u64) {
        let (records, lost) = self.shared.tap.failures();
        let matching = records.iter().filter(|record| filter.matches(&Searched { record, hides_queries }));
        let shown = matching.take(limit).map(|record| json::describe_record(record, hides_queries, true));
        (shown.collect(), lost)
    }
}

impl TapState {
    fn wants_timelines(&self) -> bool {
        self.readers.iter().any(TapReader::wants_timelines)
    }
}

/// Closes the tap when the task that reads it panics: otherwise workers would record for readers that are
/// gone.
struct TapCloseGuard<'a>(&'a TapShared);

impl Drop for TapCloseGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state.lock();
            state.readers.clear();
            state.is_running = false;
            self.0.tap.close();
        }
    }
}

impl TapShared {
    /// Reads the rings until no reader is left.
    async fn run(self: Arc<Self>) {
        let _closing = TapCloseGuard(&self);
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut records: Vec<RequestRecord> = Vec::new();
        loop {
            ticks.tick().await;
            records.clear();
            let mut state = self.state.lock();
            let count = state.readers.len();
            let counts = self.tap.take(&mut records);
            records.sort_by_key(|record| record.t_ms + record.total_us / 1_000);
            state.readers.retain_mut(|reader| reader.offer(&records, counts));
            if state.readers.is_empty() {
                state.is_running = false;
                self.tap.close();
                return;
            }
            if state.readers.len() != count {
                self.tap.open(state.wants_timelines());
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

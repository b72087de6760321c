//! The records of single requests that one worker keeps for readers: recent ones while a reader asks for
//! them, and failures always. The worker never waits: a full ring, or one that is being read, drops the
//! record and counts it.

mod budget;
mod record;
mod spans;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use model::report::{RequestRecord, TapCounts};
use parking_lot::Mutex;

use budget::{EventBudget, EventRate};
use exchange::Exchange;
use exchange::failure::Blame;

/// Records that wait for a reader. A reader comes 50 times a second, so that a worker records about 12,000
/// requests a second at most; the rest is counted.
const RECORDS_MAX: usize = 256;
/// Failures that are kept: about three seconds of a storm, or the last ones of a week.
const FAILURES_MAX: usize = 64;
/// Requests that are timed: 2,000 a second, spread over the second, because a timed request reads the clock
/// twice for each plugin.
const TIMED: EventRate = EventRate { events: 200, window_ns: 100_000_000 };
/// Failures that are recorded a second, so that a storm of failures costs no more than a few log lines.
const KEPT: EventRate = EventRate { events: 20, window_ns: 1_000_000_000 };

/// No reader.
const OFF: u8 = 0;
/// Requests are recorded.
const RECORDED: u8 = 1;
/// Requests are recorded, and some are timed.
const RECORDED_AND_TIMED: u8 = 2;

/// The tap of one worker; see the module.
#[derive(Debug)]
pub struct WorkerTap {
    mode: AtomicU8,
    seen: AtomicU64,
    dropped: AtomicU64,
    lost: AtomicU64,
    timed: EventBudget,
    kept: EventBudget,
    records: Mutex<Vec<RequestRecord>>,
    failures: Mutex<VecDeque<RequestRecord>>,
}

impl Default for WorkerTap {
    fn default() -> WorkerTap {
        WorkerTap {
            mode: AtomicU8::new(OFF),
            seen: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            timed: EventBudget::new(TIMED),
            kept: EventBudget::new(KEPT),
            records: Mutex::default(),
            failures: Mutex::default(),
        }
    }
}

impl WorkerTap {
    /// A request begins: decides whether it is timed. One relaxed load while no reader wants timelines.
    #[inline]
    pub(crate) fn begin(&self, exchange: &mut Exchange) {
        if self.mode.load(Ordering::Relaxed) == RECORDED_AND_TIMED {
            self.draw(exchange);
        }
    }

    #[cold]
    fn draw(&self, exchange: &mut Exchange) {
        let now_ns = exchange.local().clock_ns();
        if self.timed.take(now_ns) {
            exchange.timeline.switch_on_at(now_ns);
        }
    }

    /// Whether the ended request is recorded. One relaxed load for a request without a failure.
    #[inline]
    pub(crate) fn wants(&self, exchange: &Exchange) -> bool {
        exchange.failure.is_some() || self.mode.load(Ordering::Relaxed) != OFF
    }

    /// Records an ended request that [`WorkerTap::wants`] asked for. `upstream` is the identity of its
    /// upstream.
    #[cold]
    pub(crate) fn record(&self, exchange: &Exchange, revision: u64, upstream: Option<&str>) {
        let is_open = self.mode.load(Ordering::Relaxed) != OFF;
        let is_kept = self.keeps(exchange);
        if is_open {
            self.seen.fetch_add(1, Ordering::Relaxed);
        }
        let has_room = is_open && self.records.try_lock().is_some_and(|records| records.len() < RECORDS_MAX);
        if is_open && !has_room {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        if !has_room && !is_kept {
            return;
        }
        let record = record::build_request_record(exchange, revision, upstream);
        if is_kept {
            self.keep(&record);
        }
        if has_room {
            match self.records.try_lock() {
                Some(mut records) => records.push(record),
                None => drop(self.dropped.fetch_add(1, Ordering::Relaxed)),
            }
        }
    }

    /// Whether the request is a failure of the gateway or of an upstream, and is within the limit of failures
    /// a second.
    fn keeps(&self, exchange: &Exchange) -> bool {
        let Some(failure) = &exchange.failure else { return false };
        if failure.cause.blame() == Blame::Client {
            return false;
        }
        let is_within = self.kept.take(exchange.local().recent_ns());
        if !is_within {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        is_within
    }

    fn keep(&self, record: &RequestRecord) {
        let Some(mut failures) = self.failures.try_lock() else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if failures.len() == FAILURES_MAX {
            failures.pop_front();
        }
        failures.push_back(record.clone());
    }

    /// Records every request from here on; `timed` asks for timelines.
    pub fn open(&self, timed: bool) {
        if self.mode.load(Ordering::Relaxed) == OFF {
            self.forget();
        }
        self.mode.store(if timed { RECORDED_AND_TIMED } else { RECORDED }, Ordering::Relaxed);
    }

    /// Records failures only, and frees the memory of other records.
    pub fn close(&self) {
        self.mode.store(OFF, Ordering::Relaxed);
        self.forget();
    }

    fn forget(&self) {
        *self.records.lock() = Vec::new();
        self.seen.store(0, Ordering::Relaxed);
        self.dropped.store(0, Ordering::Relaxed);
    }

    /// Moves the records to the end of `records`.
    pub fn take(&self, records: &mut Vec<RequestRecord>) -> TapCounts {
        let taken = std::mem::take(&mut *self.records.lock());
        records.extend(taken);
        TapCounts {
            seen: self.seen.swap(0, Ordering::Relaxed),
            dropped: self.dropped.swap(0, Ordering::Relaxed),
        }
    }

    /// Adds the failures kept to `records`; the number of those that were not kept since the start.
    pub fn failures(&self, records: &mut Vec<RequestRecord>) -> u64 {
        records.extend(self.failures.lock().iter().cloned());
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use exchange::failure::{Cause, ExchangeFailure};
    use exchange::testing::Scene;

    use super::*;

    fn ended(scene: &mut Scene, failed: Option<Cause>) -> Box<Exchange> {
        let mut exchange = scene.exchange(b"GET /a?b=1 HTTP/1.1\r\nHost: h\r\n\r\n");
        exchange.failure = failed.map(|cause| ExchangeFailure::new(cause, "a test"));
        exchange
    }

    #[test]
    fn closed_tap_keeps_failures_of_upstreams_only() {
        let (tap, mut scene) = (WorkerTap::default(), Scene::new());
        let good = ended(&mut scene, None);
        assert!(!tap.wants(&good));
        for cause in [Cause::BadRequest, Cause::ConnectFailed, Cause::NoNode] {
            let failed = ended(&mut scene, Some(cause));
            assert!(tap.wants(&failed));
            tap.record(&failed, 7, Some("/upstreams/u"));
        }
        let mut kept = Vec::new();
        assert_eq!(tap.failures(&mut kept), 0);
        let kept: Vec<_> = kept.iter().map(|record| (record.cause, record.revision)).collect();
        assert_eq!(kept, [(Some("connect_failed"), 7), (Some("no_usable_node"), 7)]);
        let mut records = Vec::new();
        assert_eq!((tap.take(&mut records), records.len()), (TapCounts::default(), 0));
    }

    #[test]
    fn storm_of_failures_is_counted() {
        let (tap, mut scene) = (WorkerTap::default(), Scene::new());
        let failed = ended(&mut scene, Some(Cause::ReadTimeout));
        (0..50).for_each(|_| tap.record(&failed, 1, None));
        let mut kept = Vec::new();
        assert_eq!((tap.failures(&mut kept), kept.len()), (30, 20));
    }

    #[test]
    fn full_ring_drops_and_counts() {
        let (tap, mut scene) = (WorkerTap::default(), Scene::new());
        let good = ended(&mut scene, None);
        tap.open(false);
        assert!(tap.wants(&good));
        (0..RECORDS_MAX + 5).for_each(|_| tap.record(&good, 1, None));
        let mut records = Vec::new();
        let counts = tap.take(&mut records);
        assert_eq!((counts.seen, counts.dropped, records.len()), (RECORDS_MAX as u64 + 5, 5, RECORDS_MAX));
        tap.record(&good, 1, None);
        tap.close();
        assert!(!tap.wants(&good));
        records.clear();
        assert_eq!((tap.take(&mut records).seen, records.len()), (0, 0));
    }

    #[test]
    fn only_wanted_requests_are_timed_within_budget() {
        let (tap, mut scene) = (WorkerTap::default(), Scene::new());
        let mut exchange = ended(&mut scene, None);
        tap.open(false);
        tap.begin(&mut exchange);
        assert!(!exchange.timeline.is_on());
        tap.open(true);
        let mut timed = 0;
        for _ in 0..300 {
            let mut exchange = ended(&mut scene, None);
            tap.begin(&mut exchange);
            timed += u32::from(exchange.timeline.is_on());
        }
        // 300 exchanges may take longer than one window on a busy machine.
        assert!((200..=300).contains(&timed), "{timed}");
    }
}

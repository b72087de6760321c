//! Counters by name, summed over workers, with their values of the last minute, from which rates are made.
//! One reader at a time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use exchange::failure::Cause;
use model::report::TrafficRow;

use super::cell::{CounterLabel, Sums, TrafficCell};
use super::counts::CellList;
use super::times::TimeTotals;

/// Moments that are kept. One is taken every 10 s, so that the oldest is a minute old or a little more.
const MOMENTS: usize = 7;
/// How old a moment of durations becomes before it is replaced: percentiles are of the last 30 to 60 s.
const TIMES_MS: u64 = 30_000;

/// The counters of one kind.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    rows: HashMap<CounterLabel, LedgerRow>,
    /// The counters beyond the limit of cells.
    other: LedgerRow,
    /// The times of the moments, oldest first, in milliseconds of the monotonic clock.
    moments: VecDeque<u64>,
    /// The number of moments taken so far.
    taken: usize,
}

#[derive(Debug, Default)]
struct LedgerRow {
    now: Sums,
    /// The values at the moments, by their number modulo [`MOMENTS`].
    past: [Sums; MOMENTS],
    last_failure: Option<(Cause, u64)>,
    times: Option<Box<DurationHistory>>,
    /// Whether a worker has these counters.
    is_present: bool,
    /// Whether a worker counts their durations.
    is_timed: bool,
}

#[derive(Debug)]
struct DurationHistory {
    now: TimeTotals,
    /// The values at the last two moments of durations, the older one first, with their times.
    past: [(u64, TimeTotals); 2],
}

impl Ledger {
    /// A ledger that begins at `now_ms`, when all counters are 0.
    pub(crate) fn new(now_ms: u64) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.mark(now_ms);
        ledger
    }

    /// Reads the counters of all workers.
    pub(crate) fn read<'w>(&mut self, lists: impl Iterator<Item = &'w CellList>, now_ms: u64) {
        for row in self.rows.values_mut().chain([&mut self.other]) {
            row.begin();
        }
        for list in lists {
            for cell in list.cells() {
                match self.rows.get_mut(&cell.label) {
                    Some(row) => row.add(&cell, now_ms),
                    None => self.rows.entry(cell.label.clone()).or_default().add(&cell, now_ms),
                }
            }
            self.other.add(&list.other, now_ms);
        }
        self.rows.retain(|_, row| row.is_present);
        for row in self.rows.values_mut() {
            row.end_read(now_ms);
        }
    }

    /// Takes counters that are no cells: a name, and the sums of all workers.
    pub(crate) fn set(&mut self, id: &'static str, sums: Sums) {
        if sums != Sums::default() {
            self.rows.entry(CounterLabel { id: id.into(), upstream: None }).or_default().now = sums;
        }
    }

    /// Keeps the values that were read last as those of the moment `now_ms`.
    pub(crate) fn mark(&mut self, now_ms: u64) {
        let slot = self.taken % MOMENTS;
        for row in self.rows.values_mut().chain([&mut self.other]) {
            row.past[slot] = row.now;
        }
        self.taken += 1;
        self.moments.push_back(now_ms);
        if self.moments.len() > MOMENTS {
            self.moments.pop_front();
        }
    }

    /// The rates over the last `window_ms`, as near as the moments allow, busiest first; and the time that
    /// they are over, in seconds. Counters without a request in this time are left out.
    pub(crate) fn rates(&self, window_ms: u64, now_ms: u64) -> Rates {
        let (slot, began_ms) = self.moment(window_ms, now_ms);
        let seconds = (now_ms.saturating_sub(began_ms) as f64 / 1_000.0).max(MIN_SECONDS);
        let mut rows: Vec<TrafficRow> =
            self.rows.iter().filter_map(|(label, row)| row.rate(label, slot, seconds)).collect();
        rows.sort_by(|left, right| {
            right.requests.total_cmp(&left.requests).then_with(|| left.id.cmp(&right.id))
        });
        let other = self.other.now.since(self.other.past[slot]);
        Rates { rows, other: other.requests as f64 / seconds, seconds }
    }

    /// The slot and the time of the moment that lies nearest to `window_ms` ago.
    fn moment(&self, window_ms: u64, now_ms: u64) -> (usize, u64) {
        let wanted_ms = now_ms.saturating_sub(window_ms);
        let first = self.taken - self.moments.len();
        let numbered = self.moments.iter().enumerate().map(|(index, at_ms)| (first + index, *at_ms));
        // A moment of just now would make rates of a fraction of a second.
        let usable = numbered.filter(|(_, at_ms)| now_ms.saturating_sub(*at_ms) >= MIN_AGE_MS);
        let nearest = usable.min_by_key(|(_, at_ms)| at_ms.abs_diff(wanted_ms));
        let (number, at_ms) = nearest.unwrap_or((first, self.moments[0]));
        (number % MOMENTS, at_ms)
    }
}

/// Rates of one kind.
#[derive(Debug)]
pub(crate) struct Rates {
    pub(crate) rows: Vec<TrafficRow>,
    /// Requests a second beyond the limit of counters.
    pub(crate) other: f64,
    /// The time that the rates are over.
    pub(crate) seconds: f64,
}

/// Least age of a moment that rates are made from, where there is an older one.
const MIN_AGE_MS: u64 = 2_000;
/// Least time that rates are over, so that the first request of an instance is not a million a second.
const MIN_SECONDS: f64 = 1.0;

impl LedgerRow {
    fn begin(&mut self) {
        self.now = Sums::default();
        (self.is_present, self.is_timed) = (false, false);
        if let Some(times) = &mut self.times {
            times.now = TimeTotals::default();
        }
    }

    fn add(&mut self, cell: &TrafficCell, now_ms: u64) {
        self.is_present = true;
        self.now.add(cell.sums());
        let failure = cell.last_failure();
        self.last_failure =
            std::cmp::max_by_key(self.last_failure, failure, |failure| failure.map_or(0, |(_, at_ms)| at_ms));
        if let Some(times) = cell.times() {
            self.is_timed = true;
            let own = self.times.get_or_insert_with(|| {
                let empty = || (now_ms, TimeTotals::default());
                Box::new(DurationHistory { now: TimeTotals::default(), past: [empty(), empty()] })
            });
            times.add_to(&mut own.now);
        }
    }

    /// Replaces the older moment of durations by a new one when the newer one is old enough.
    fn end_read(&mut self, now_ms: u64) {
        if !self.is_timed {
            self.times = None;
        }
        if let Some(times) = &mut self.times
            && now_ms.saturating_sub(times.past[1].0) >= TIMES_MS
        {
            times.past.swap(0, 1);
            times.past[1] = (now_ms, times.now.clone());
        }
    }

    fn rate(&self, label: &CounterLabel, slot: usize, seconds: f64) -> Option<TrafficRow> {
        let grown = self.now.since(self.past[slot]);
        if grown.requests == 0 {
            return None;
        }
        let percent = |part: u64| part as f64 * 100.0 / grown.requests as f64;
        let times = self.times.as_ref();
        let p99 = times.and_then(|times| times.now.since(&times.past[0].1).percentiles([0.99]));
        Some(TrafficRow {
            id: Arc::clone(&label.id),
            upstream: label.upstream.clone(),
            requests: grown.requests as f64 / seconds,
            client_errors: percent(grown.client_errors),
            server_errors: percent(grown.server_errors),
            mean_us: grown.time_us / grown.requests,
            p99_us: p99.map(|[p99]| p99),
            bytes: grown.bytes as f64 / seconds,
            last_failure: self.last_failure.map(|(cause, at_ms)| (cause.code(), at_ms)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::traffic::cell::Sample;

    fn cell(id: &str) -> Arc<TrafficCell> {
        Arc::new(TrafficCell::new(CounterLabel { id: id.into(), upstream: None }))
    }

    fn ask(cell: &TrafficCell, status: u16, times: usize) {
        for _ in 0..times {
            cell.record(Sample { status, us: 1_000, bytes: 10, failure: None });
        }
    }

    #[test]
    fn rates_are_of_the_window() {
        let lists = [CellList::default(), CellList::default()];
        let (shop, there, idle) = (cell("shop"), cell("shop"), cell("idle"));
        lists[0].push(shop.clone());
        lists[1].push(there.clone());
        lists[1].push(idle.clone());
        let mut ledger = Ledger::new(0);
        ask(&shop, 200, 100);
        ask(&idle, 200, 1);
        ledger.read(lists.iter(), 10_000);
        ledger.mark(10_000);
        ask(&shop, 200, 60);
        ask(&there, 500, 20);
        ask(&there, 404, 20);
        ask(&lists[0].other, 200, 10);
        ledger.read(lists.iter(), 20_000);
        let rates = ledger.rates(10_000, 20_000);
        assert_eq!(
            (rates.rows.len(), rates.seconds, rates.other),
            (1, 10.0, 1.0),
            "the idle one is left out"
        );
        let row = &rates.rows[0];
        assert_eq!(
            (&*row.id, row.requests, row.client_errors, row.server_errors),
            ("shop", 10.0, 20.0, 20.0)
        );
        assert_eq!((row.bytes, row.mean_us, row.p99_us), (100.0, 1_000, None));
        let minute = ledger.rates(60_000, 20_000);
        assert_eq!((minute.rows[0].requests, minute.seconds), (10.0, 20.0), "as far back as it goes");
    }

    #[test]
    fn moments_go_back_a_minute() {
        let mut ledger = Ledger::new(0);
        for moment in 1..=20 {
            ledger.mark(moment * 10_000);
        }
        assert_eq!(ledger.moment(60_000, 200_000), (14 % MOMENTS, 140_000));
        assert_eq!(ledger.moment(10_000, 206_000).1, 200_000);
        assert_eq!(ledger.moment(10_000, 201_000).1, 190_000, "not the one of just now");
    }

    #[test]
    fn durations_give_a_percentile() {
        let list = CellList::default();
        let shop = cell("shop");
        shop.begin_times();
        list.push(shop.clone());
        let mut ledger = Ledger::new(0);
        ledger.read([&list].into_iter(), 1_000);
        ask(&shop, 200, 50);
        ledger.read([&list].into_iter(), 11_000);
        let p99_us = ledger.rates(10_000, 11_000).rows[0].p99_us.unwrap();
        assert!((960..=1_040).contains(&p99_us), "{p99_us}");
        list.replace(vec![Arc::new(shop.without_times())]);
        ask(&list.cells()[0], 200, 50);
        ledger.read([&list].into_iter(), 21_000);
        assert_eq!(ledger.rates(10_000, 21_000).rows[0].requests, 100.0 / 21.0);
    }

    #[test]
    fn counter_that_is_gone_leaves_no_row() {
        let list = CellList::default();
        list.push(cell("shop"));
        ask(&list.cells()[0], 200, 50);
        let mut ledger = Ledger::new(0);
        ledger.read([&list].into_iter(), 10_000);
        assert_eq!(ledger.rates(10_000, 10_000).rows.len(), 1);
        list.replace(Vec::new());
        ledger.read([&list].into_iter(), 20_000);
        assert_eq!(ledger.rates(10_000, 20_000).rows.len(), 0);
    }
}

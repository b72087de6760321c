//! The worker's side of the traffic counts: finds the counters of a request by number, makes them at first
//! use, and gives up those of objects that are gone. The number of counters is bounded as that of metric
//! series (decision 0010).

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::Exchange;
use stdx::hash::FastMap;

use super::cell::{CounterLabel, Sample, TrafficCell};
use super::counts::CellList;
use crate::observe::status::WorkerStatus;

/// Counters of one kind that a worker keeps; requests beyond count in one without a name.
const CELLS_MAX: usize = 20_000;
/// Numbers that are kept for finding counters. An object has a new number with each of its forms; when the
/// numbers are used up, all are found anew.
const KEYS_MAX: usize = 2 * CELLS_MAX;
/// Counters of one kind with durations: 2 KiB each, so that a reader costs 8 MiB a worker and kind at most.
/// Others have no percentile.
const TIMED_MAX: usize = 4_096;
/// How often counters without a request are looked for where all are taken, because addresses that come and
/// go would otherwise keep the others out.
const IDLE_S: u32 = 60;

/// The counters of one worker.
pub(crate) struct WorkerTraffic {
    status: Arc<WorkerStatus>,
    tables: RefCell<TrafficTables>,
}

struct TrafficTables {
    /// Sweeps so far.
    seconds: u32,
    routes: CounterTable,
    consumers: CounterTable,
    endpoints: CounterTable,
}

impl WorkerTraffic {
    /// Goes on with the counters in `status`, which a restarted worker finds there.
    pub(crate) fn new(status: Arc<WorkerStatus>) -> WorkerTraffic {
        let counts = &status.traffic;
        let tables = TrafficTables {
            seconds: 0,
            routes: CounterTable::new(&counts.routes),
            consumers: CounterTable::new(&counts.consumers),
            endpoints: CounterTable::new(&counts.endpoints),
        };
        WorkerTraffic { tables: RefCell::new(tables), status }
    }

    /// Counts an ended exchange. `upstream` is the identity of the upstream in a slot of the exchange's
    /// generation, and `wall_ms` the time in milliseconds since 1970.
    pub(crate) fn record<'g>(
        &self,
        exchange: &Exchange,
        upstream: impl Fn(u32) -> Option<&'g Arc<str>>,
        wall_ms: impl Fn() -> u64,
    ) {
        let counts = &self.status.traffic;
        let us = exchange.times.total_ns() / 1_000;
        let (status, bytes) = (exchange.status(), exchange.stats.response_bytes);
        let sample = Sample { status, us, bytes, failure: None };
        counts.record(sample);
        let is_timed = counts.is_timed.load(Ordering::Relaxed);
        let mut tables = self.tables.borrow_mut();
        if let Some(route) = exchange.route() {
            tables.routes.record(&counts.routes, CounterKey::only(&route.id), sample, is_timed);
        }
        if let Some(consumer) = exchange.consumer() {
            tables.consumers.record(
                &counts.consumers,
                CounterKey::only(&consumer.username),
                sample,
                is_timed,
            );
        }
        for (index, attempt) in exchange.attempts.iter().enumerate() {
            let Some(owner) = upstream(attempt.upstream) else { continue };
            let failure = attempt.failed.map(|cause| (cause, wall_ms()));
            let status = match attempt.failed {
                Some(_) if attempt.status < 500 => FAILED,
                _ => attempt.status,
            };
            let is_last = index + 1 == exchange.attempts.len();
            let sample =
                Sample { status, us: attempt.total_us, bytes: if is_last { bytes } else { 0 }, failure };
            let label =
                || CounterLabel { id: attempt.address.to_string().into(), upstream: Some(Arc::clone(owner)) };
            let named = CounterKey { keeps: owner, number: attempt.endpoint_id, label };
            tables.endpoints.record(&counts.endpoints, named, sample, is_timed);
        }
    }

    /// Gives up the counters of objects that no longer exist.
    pub(crate) fn retain(
        &self,
        route: impl Fn(&str) -> bool,
        consumer: impl Fn(&str) -> bool,
        upstream: impl Fn(&str) -> bool,
    ) {
        let (counts, mut tables) = (&self.status.traffic, self.tables.borrow_mut());
        tables.routes.retain(&counts.routes, |label| route(&label.id));
        tables.consumers.retain(&counts.consumers, |label| consumer(&label.id));
        tables.endpoints.retain(&counts.endpoints, |label| label.upstream.as_deref().is_some_and(&upstream));
    }

    /// Frees the durations when no reader asks for them any more, and counters without a request since the
    /// last minute where all are taken. Called once a second.
    pub(crate) fn sweep(&self) {
        let (counts, mut tables) = (&self.status.traffic, self.tables.borrow_mut());
        tables.seconds = tables.seconds.wrapping_add(1);
        if tables.seconds.is_multiple_of(IDLE_S) {
            tables.routes.end_idle(&counts.routes);
            tables.consumers.end_idle(&counts.consumers);
            tables.endpoints.end_idle(&counts.endpoints);
        }
        if !counts.is_timed.load(Ordering::Relaxed) {
            tables.routes.end_times(&counts.routes);
            tables.consumers.end_times(&counts.consumers);
            tables.endpoints.end_times(&counts.endpoints);
        }
    }
}

/// The status that a failed attempt without a response of 5xx counts as.
const FAILED: u16 = 502;

/// The counters that are meant.
struct CounterKey<'a, L> {
    /// The text with the address that tells the object apart; it is kept, so that no other text gets this
    /// address.
    keeps: &'a Arc<str>,
    /// A number that tells counters with the same text apart.
    number: u64,
    /// Makes their name, at first use.
    label: L,
}

impl<'a> CounterKey<'a, ()> {
    /// Counters that are told apart by a text alone.
    fn only(id: &'a Arc<str>) -> CounterKey<'a, impl Fn() -> CounterLabel + use<'a>> {
        CounterKey {
            keeps: id,
            number: 0,
            label: move || CounterLabel { id: Arc::clone(id), upstream: None },
        }
    }
}

/// The counters of one kind.
struct CounterTable {
    by_key: FastMap<(usize, u64), CounterEntry>,
    by_label: FastMap<CounterLabel, Arc<TrafficCell>>,
    /// How many of them count durations.
    timed: usize,
}

struct CounterEntry {
    cell: Arc<TrafficCell>,
    _keeps: Arc<str>,
}

impl CounterTable {
    fn new(list: &CellList) -> CounterTable {
        let cells = list.cells();
        let timed = cells.iter().filter(|cell| cell.has_times()).count();
        let by_label = cells.into_iter().map(|cell| (cell.label.clone(), cell)).collect();
        CounterTable { by_key: FastMap::default(), by_label, timed }
    }

    #[inline]
    fn record<L: Fn() -> CounterLabel>(
        &mut self,
        list: &CellList,
        named: CounterKey<'_, L>,
        sample: Sample,
        is_timed: bool,
    ) {
        let key = (Arc::as_ptr(named.keeps).cast::<u8>().addr(), named.number);
        match self.by_key.get(&key) {
            Some(known) if !is_timed || known.cell.has_times() || self.timed >= TIMED_MAX => {
                known.cell.record(sample);
            }
            _ => self.record_slowly(list, key, named, sample, is_timed),
        }
    }

    #[cold]
    fn record_slowly<L: Fn() -> CounterLabel>(
        &mut self,
        list: &CellList,
        key: (usize, u64),
        named: CounterKey<'_, L>,
        sample: Sample,
        is_timed: bool,
    ) {
        let Some(cell) = self.find(list, (named.label)()) else { return list.other.record(sample) };
        if is_timed && !cell.has_times() && self.timed < TIMED_MAX {
            cell.begin_times();
            self.timed += 1;
        }
        cell.record(sample);
        if self.by_key.len() >= KEYS_MAX {
            self.by_key.clear();
        }
        self.by_key.insert(key, CounterEntry { cell, _keeps: Arc::clone(named.keeps) });
    }

    /// The counters with that name, made if there are none; none beyond the limit.
    fn find(&mut self, list: &CellList, label: CounterLabel) -> Option<Arc<TrafficCell>> {
        if let Some(cell) = self.by_label.get(&label) {
            return Some(Arc::clone(cell));
        }
        if self.by_label.len() >= CELLS_MAX {
            return None;
        }
        let cell = Arc::new(TrafficCell::new(label.clone()));
        list.push(Arc::clone(&cell));
        self.by_label.insert(label, Arc::clone(&cell));
        Some(cell)
    }

    fn retain(&mut self, list: &CellList, exists: impl Fn(&CounterLabel) -> bool) {
        let before = self.by_label.len();
        self.by_label.retain(|label, _| exists(label));
        if self.by_label.len() != before {
            self.publish(list);
        }
    }

    fn end_idle(&mut self, list: &CellList) {
        if self.by_label.len() >= CELLS_MAX {
            self.by_label.retain(|_, cell| cell.was_used());
            self.publish(list);
        }
    }

    fn end_times(&mut self, list: &CellList) {
        if self.timed == 0 {
            return;
        }
        for cell in self.by_label.values_mut().filter(|cell| cell.has_times()) {
            *cell = Arc::new(cell.without_times());
        }
        self.publish(list);
    }

    /// Shows the counters of `by_label` to readers; numbers are found anew.
    fn publish(&mut self, list: &CellList) {
        self.by_key.clear();
        self.timed = self.by_label.values().filter(|cell| cell.has_times()).count();
        list.replace(self.by_label.values().cloned().collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Sample = Sample { status: 200, us: 100, bytes: 1, failure: None };

    fn requests(list: &CellList) -> Vec<(String, u64)> {
        let mut all: Vec<_> =
            list.cells().iter().map(|cell| (cell.label.id.to_string(), cell.sums().requests)).collect();
        all.sort();
        all
    }

    #[test]
    fn new_form_of_an_object_keeps_its_counters() {
        let (list, mut table) = (CellList::default(), CounterTable::new(&CellList::default()));
        let (old, new): (Arc<str>, Arc<str>) = ("shop".into(), "shop".into());
        for id in [&old, &old, &new] {
            table.record(&list, CounterKey::only(id), SAMPLE, false);
        }
        assert_eq!(requests(&list), [("shop".to_owned(), 3)]);
        table.retain(&list, |label| &*label.id != "shop");
        assert_eq!(requests(&list), []);
        table.record(&list, CounterKey::only(&new), SAMPLE, false);
        assert_eq!(requests(&list), [("shop".to_owned(), 1)]);
    }

    #[test]
    fn restarted_worker_goes_on_counting() {
        let list = CellList::default();
        let id: Arc<str> = "a".into();
        for _ in 0..2 {
            CounterTable::new(&list).record(&list, CounterKey::only(&id), SAMPLE, false);
        }
        assert_eq!(requests(&list), [("a".to_owned(), 2)]);
    }

    #[test]
    fn durations_are_counted_while_asked_for() {
        let (list, mut table) = (CellList::default(), CounterTable::new(&CellList::default()));
        let id: Arc<str> = "a".into();
        table.record(&list, CounterKey::only(&id), SAMPLE, false);
        assert!(!list.cells()[0].has_times());
        table.record(&list, CounterKey::only(&id), SAMPLE, true);
        assert!(list.cells()[0].has_times());
        table.end_times(&list);
        assert!(!list.cells()[0].has_times());
        table.record(&list, CounterKey::only(&id), SAMPLE, false);
        assert_eq!(requests(&list), [("a".to_owned(), 3)]);
    }

    #[test]
    fn counters_are_bounded() {
        let (list, mut table) = (CellList::default(), CounterTable::new(&CellList::default()));
        for number in 0..CELLS_MAX + 3 {
            let id: Arc<str> = number.to_string().into();
            table.record(&list, CounterKey::only(&id), SAMPLE, true);
        }
        assert_eq!((list.cells().len(), list.other.sums().requests), (CELLS_MAX, 3));
        assert_eq!(table.timed, TIMED_MAX);
        table.end_idle(&list);
        assert_eq!(list.cells().len(), CELLS_MAX, "all were used");
        let id: Arc<str> = "7".into();
        table.record(&list, CounterKey::only(&id), SAMPLE, true);
        table.end_idle(&list);
        assert_eq!(requests(&list), [("7".to_owned(), 2)]);
    }
}

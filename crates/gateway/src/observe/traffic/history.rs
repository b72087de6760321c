//! The history of the traffic: one thread reads the counts of all workers once a second, whether or not a
//! reader is there; counts by route, consumer and endpoint are read every ten seconds, and whenever a reader
//! asks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use exchange::failure::Cause;
use model::report::{Breakdown, Top, Traffic, TrafficInterval, TrafficNow, TrafficPoint, TrafficRate};
use net::env;
use parking_lot::Mutex;

use super::cell::Sums;
use super::counts::{CLASSES, CellList, TrafficCounts};
use super::ledger::Ledger;
use super::process::ProcessUsage;
use super::ring::{TEN, TrafficReading, TrafficRing};
use crate::observe::status::WorkerStatus;

/// How long durations are counted by route, consumer and endpoint after a reader has asked.
const TIMED_MS: u64 = 30_000;
/// How old an answer may be that is given again, so that many readers cost as much as one.
const FRESH_MS: u64 = 1_000;
/// The time that [`Traffic::rates`] is over.
const RATES_WINDOW_S: u64 = 60;
/// The distance of two readings.
const PERIOD: Duration = Duration::from_secs(1);

/// The history of the traffic of all workers.
pub struct TrafficHistory {
    workers: Vec<Arc<WorkerStatus>>,
    memory_limit_bytes: Option<u64>,
    usage: ProcessUsage,
    ring: Mutex<TrafficRing>,
    kinds: Mutex<Kinds>,
    /// Until when durations are counted, in milliseconds of the monotonic clock; 0 while they are not.
    timed_until_ms: AtomicU64,
}

/// Counts by kind, in the order of [`Breakdown`].
struct Kinds {
    ledgers: [Ledger; 4],
    /// When each was read last, in milliseconds of the monotonic clock.
    read_ms: [u64; 4],
    rates: [Option<(u64, Arc<[TrafficRate]>)>; 4],
}

impl TrafficHistory {
    /// A history that begins now; [`TrafficHistory::start`] keeps it up to date.
    pub(crate) fn begin(workers: Vec<Arc<WorkerStatus>>, memory_limit_bytes: u64) -> Arc<TrafficHistory> {
        Arc::new(TrafficHistory::new(workers, memory_limit_bytes, now_ms()))
    }

    /// Starts the thread that keeps the history up to date until it is dropped.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        let weak = Arc::downgrade(self);
        let run = move || {
            let mut next = Instant::now() + PERIOD;
            loop {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                let Some(history) = weak.upgrade() else { return };
                history.tick(now_ms());
                next = following(next, Instant::now());
            }
        };
        std::thread::Builder::new().name("figures".to_owned()).spawn(run).map(drop)
    }

    fn new(workers: Vec<Arc<WorkerStatus>>, memory_limit_bytes: u64, now_ms: u64) -> TrafficHistory {
        let usage = ProcessUsage::open();
        let ring = TrafficRing::new(read(&workers, &usage, now_ms));
        let kinds = Kinds {
            ledgers: std::array::from_fn(|_| Ledger::new(now_ms)),
            read_ms: [0; 4],
            rates: Default::default(),
        };
        TrafficHistory {
            workers,
            memory_limit_bytes: (memory_limit_bytes != 0).then_some(memory_limit_bytes),
            usage,
            ring: Mutex::new(ring),
            kinds: Mutex::new(kinds),
            timed_until_ms: AtomicU64::new(0),
        }
    }

    /// The work of one second.
    fn tick(&self, now_ms: u64) {
        let reading = read(&self.workers, &self.usage, now_ms);
        let seq = {
            let mut ring = self.ring.lock();
            ring.push(reading, unix_ms());
            ring.now().map_or(0, |point| point.seq)
        };
        if seq.is_multiple_of(TEN as u64) {
            let mut kinds = self.kinds.lock();
            for kind in KINDS {
                kinds.read(kind, &self.workers, now_ms);
                kinds.ledgers[kind as usize].mark(now_ms);
            }
        }
        let until_ms = self.timed_until_ms.load(Ordering::Relaxed);
        if until_ms != 0 && until_ms < now_ms {
            // In this order: a reader that asks in between is forgotten with the old time, and switches it on
            // when it asks again. The other way round it would believe it on until no reader asks any more.
            self.set_timed(false);
            self.timed_until_ms.store(0, Ordering::Relaxed);
        }
    }

    /// Has durations counted by route, consumer and endpoint for a while.
    fn wants_times(&self, now_ms: u64) {
        if self.timed_until_ms.swap(now_ms + TIMED_MS, Ordering::Relaxed) == 0 {
            self.set_timed(true);
        }
    }

    fn set_timed(&self, is_timed: bool) {
        for worker in &self.workers {
            worker.traffic.is_timed.store(is_timed, Ordering::Relaxed);
        }
    }

    fn top_at(&self, by: Breakdown, window_s: u64, limit: usize, now_ms: u64) -> Top {
        self.wants_times(now_ms);
        let mut kinds = self.kinds.lock();
        kinds.read_if_old(by, &self.workers, now_ms);
        let read_ms = kinds.read_ms[by as usize];
        let rates = kinds.ledgers[by as usize].rates(window_s.saturating_mul(1_000), read_ms);
        drop(kinds);
        let mut rows = rates.rows;
        let counted: f64 = rows.iter().map(|row| row.requests).sum::<f64>() + rates.other;
        let total = match by {
            // Requests without a route or a consumer are among all.
            Breakdown::Routes | Breakdown::Consumers => {
                counted.max(self.ring.lock().requests_over(rates.seconds))
            }
            Breakdown::Endpoints | Breakdown::Causes => counted,
        };
        let left = rows.split_off(limit.min(rows.len()));
        let shown: f64 = rows.iter().map(|row| row.requests).sum();
        Top {
            seconds: rates.seconds,
            total,
            rows,
            other: if left.is_empty() && rates.other == 0.0 && total <= shown * ROUNDING {
                0.0
            } else {
                (total - shown).max(0.0)
            },
            other_count: left.len(),
        }
    }
}

/// The rates of the ring and of the ledger are over times that differ by up to a second.
const ROUNDING: f64 = 1.1;

impl Traffic for TrafficHistory {
    fn rates(&self, by: Breakdown) -> Arc<[TrafficRate]> {
        let now_ms = now_ms();
        if let Some((at_ms, rates)) = &self.kinds.lock().rates[by as usize]
            && now_ms.saturating_sub(*at_ms) < FRESH_MS
        {
            self.wants_times(now_ms);
            return Arc::clone(rates);
        }
        let top = self.top_at(by, RATES_WINDOW_S, usize::MAX, now_ms);
        let rates: Arc<[TrafficRate]> = merged(&top).into();
        self.kinds.lock().rates[by as usize] = Some((now_ms, Arc::clone(&rates)));
        rates
    }

    fn now(&self) -> Option<TrafficNow> {
        let ring = self.ring.lock();
        Some(TrafficNow {
            point: ring.now()?,
            requests_total: ring.requests(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_limit_bytes: self.memory_limit_bytes,
            log_lines_lost: 0,
        })
    }

    fn points(&self, step: TrafficInterval, since: u64, most: usize) -> Vec<TrafficPoint> {
        self.ring.lock().points(step, since, most)
    }

    fn top(&self, by: Breakdown, window_s: u64, limit: usize) -> Top {
        self.top_at(by, window_s, limit, now_ms())
    }
}

/// The rates by name alone: an endpoint of several upstreams is one.
fn merged(top: &Top) -> Vec<TrafficRate> {
    let mut rates: Vec<TrafficRate> = Vec::with_capacity(top.rows.len());
    let mut places: std::collections::HashMap<Arc<str>, usize> = std::collections::HashMap::new();
    for row in &top.rows {
        let rate = TrafficRate {
            id: Arc::clone(&row.id),
            requests: row.requests,
            client_errors: row.client_errors,
            server_errors: row.server_errors,
            p99_us: row.p99_us,
            bytes: row.bytes,
        };
        match places.get(&row.id) {
            None => {
                places.insert(Arc::clone(&row.id), rates.len());
                rates.push(rate);
            }
            Some(place) => rates[*place].join(&rate),
        }
    }
    rates.sort_by(|left, right| right.requests.total_cmp(&left.requests));
    rates
}

const KINDS: [Breakdown; 4] =
    [Breakdown::Routes, Breakdown::Consumers, Breakdown::Endpoints, Breakdown::Causes];

impl Kinds {
    fn read_if_old(&mut self, kind: Breakdown, workers: &[Arc<WorkerStatus>], now_ms: u64) {
        if now_ms.saturating_sub(self.read_ms[kind as usize]) >= FRESH_MS {
            self.read(kind, workers, now_ms);
        }
    }

    fn read(&mut self, kind: Breakdown, workers: &[Arc<WorkerStatus>], now_ms: u64) {
        let ledger = &mut self.ledgers[kind as usize];
        let list: fn(&TrafficCounts) -> &CellList = match kind {
            Breakdown::Routes => |counts| &counts.routes,
            Breakdown::Consumers => |counts| &counts.consumers,
            Breakdown::Endpoints => |counts| &counts.endpoints,
            Breakdown::Causes => {
                for cause in Cause::ALL {
                    ledger.set(cause.code(), failures(workers, *cause));
                }
                self.read_ms[kind as usize] = now_ms;
                return;
            }
        };
        ledger.read(workers.iter().map(|worker| list(&worker.traffic)), now_ms);
        self.read_ms[kind as usize] = now_ms;
    }
}

/// The failures of one cause, over all workers.
fn failures(workers: &[Arc<WorkerStatus>], cause: Cause) -> Sums {
    let requests = workers.iter().map(|worker| worker.failures.failures(cause)).sum();
    let status = cause.status();
    Sums {
        requests,
        client_errors: if (400..500).contains(&status) { requests } else { 0 },
        server_errors: if (500..600).contains(&status) { requests } else { 0 },
        ..Sums::default()
    }
}

/// Reads the counts of all workers.
fn read(workers: &[Arc<WorkerStatus>], usage: &ProcessUsage, now_ms: u64) -> TrafficReading {
    let mut reading = TrafficReading {
        at_ms: now_ms,
        cpu_ns: usage.cpu_ns(),
        resident_bytes: usage.resident_bytes(),
        ..TrafficReading::default()
    };
    for worker in workers {
        let classes = worker.traffic.classes();
        (0..CLASSES).for_each(|class| reading.classes[class] += classes[class]);
        reading.bytes += worker.traffic.bytes();
        worker.traffic.times.add_to(&mut reading.times);
        reading.in_flight += worker.in_flight.get() as u64;
        reading.connections += worker.connections.load(Ordering::Relaxed) as u64;
    }
    reading
}

/// When the reading after the one of `due` is due. A process that was stopped does not make up for the time;
/// a reading at once would make rates of a fraction of a second.
fn following(due: Instant, now: Instant) -> Instant {
    let next = due + PERIOD;
    if next > now { next } else { now + PERIOD }
}

fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}

fn unix_ms() -> u64 {
    u64::try_from(env::wall_clock().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use super::*;
    use crate::observe::traffic::cell::{CounterLabel, Sample, TrafficCell};

    fn workers() -> Vec<Arc<WorkerStatus>> {
        (0..2).map(|_| Arc::default()).collect()
    }

    fn endpoint(upstream: &str) -> Arc<TrafficCell> {
        let label = CounterLabel { id: "10.0.0.1:80".into(), upstream: Some(upstream.into()) };
        Arc::new(TrafficCell::new(label))
    }

    #[test]
    fn figures_are_those_of_all_workers() {
        let workers = workers();
        let history = TrafficHistory::new(workers.clone(), 1_000, 0);
        assert_eq!(history.now(), None);
        for (worker, status) in workers.iter().zip([200, 503]) {
            let sample = Sample { status, us: 2_000, bytes: 100, failure: None };
            (0..10).for_each(|_| worker.traffic.record(sample));
            worker.in_flight.set(3);
        }
        history.tick(1_000);
        let now = history.now().unwrap();
        let figures = &now.point.figures;
        assert_eq!((figures.successes, figures.server_errors, figures.requests()), (10.0, 10.0, 20.0));
        assert_eq!((figures.in_flight, figures.bytes), (6.0, 2_000.0));
        assert!(figures.p99_us.is_some_and(|us| (1_920..=2_080).contains(&us)));
        assert!(figures.resident_bytes > 100_000);
        assert_eq!((now.requests_total, now.memory_limit_bytes), (20, Some(1_000)));
        assert_eq!(history.points(TrafficInterval::Second, 0, 10).len(), 1);
    }

    #[test]
    fn endpoint_of_two_upstreams_is_one_rate() {
        let workers = workers();
        let history = TrafficHistory::new(workers.clone(), 0, 0);
        let (shop, pay) = (endpoint("/upstreams/shop"), endpoint("/upstreams/pay"));
        for (cell, status, count) in [(&shop, 200, 30), (&pay, 502, 10)] {
            workers[0].traffic.endpoints.push(Arc::clone(cell));
            let failure = (status == 502).then_some((Cause::ConnectFailed, 77));
            (0..count).for_each(|_| cell.record(Sample { status, us: 1, bytes: 0, failure }));
        }
        let top = history.top_at(Breakdown::Endpoints, 10, 1, 10_000);
        assert_eq!((top.total, top.other, top.other_count, top.seconds), (4.0, 1.0, 1, 10.0));
        assert_eq!(top.rows[0].upstream.as_deref(), Some("/upstreams/shop"));
        let rates = merged(&history.top_at(Breakdown::Endpoints, 10, 9, 10_000));
        assert_eq!((rates.len(), rates[0].requests, rates[0].server_errors), (1, 4.0, 25.0));
        assert!(workers[1].traffic.is_timed.load(Ordering::Relaxed), "a reader asks");
        history.tick(10_000 + TIMED_MS + 1);
        assert!(!workers[1].traffic.is_timed.load(Ordering::Relaxed), "no reader asks");
    }

    #[test]
    fn reading_after_a_stop_is_a_period_later() {
        let due = Instant::now();
        let late = due + PERIOD / 4;
        assert_eq!(following(due, late), due + PERIOD);
        let stopped = due + 60 * PERIOD;
        assert_eq!(following(due, stopped), stopped + PERIOD);
    }

    #[test]
    fn causes_are_counted_by_their_status() {
        let workers = workers();
        let history = TrafficHistory::new(workers.clone(), 0, 0);
        (0..20).for_each(|_| workers[0].failures.failed(Cause::ConnectFailed));
        let top = history.top_at(Breakdown::Causes, 60, 10, 10_000);
        assert_eq!((&*top.rows[0].id, top.rows[0].requests), (Cause::ConnectFailed.code(), 2.0));
        assert_eq!(top.rows[0].server_errors, 100.0);
    }

    #[test]
    fn requests_without_a_route_are_among_the_others() {
        let workers = workers();
        let history = TrafficHistory::new(workers.clone(), 0, 0);
        let sample = Sample { status: 404, us: 1, bytes: 0, failure: None };
        (0..40).for_each(|_| workers[0].traffic.record(sample));
        history.tick(1_000);
        let top = history.top_at(Breakdown::Routes, 60, 10, 1_000);
        assert_eq!((top.rows.len(), top.total, top.other), (0, 40.0, 40.0));
    }
}

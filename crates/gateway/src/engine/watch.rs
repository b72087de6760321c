//! Finds workers that have not turned their event loop for [`STALLED_AFTER_MS`]. It reads the time that each
//! worker writes, logs when a stall begins and ends, marks the worker for readiness and metrics, and names
//! those that have stood for too long. It wakes and replaces no worker.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::command::Handle;
use crate::observe::current_work::CurrentWork;
use crate::observe::status::WorkerStatus;
use crate::runtime::Runtime;

/// Interval between two checks of the workers. A check costs one load per worker.
pub(super) const PERIOD_MS: u64 = 250;
/// A worker is reported if its event loop has not turned for this long. A loop turns every 20 ms, and no step
/// of a request takes more than a few milliseconds; a machine with too few cores may delay a thread by some
/// hundred.
const STALLED_AFTER_MS: u64 = 1_000;
/// If two checks lie farther apart than this, the whole process was stopped, for example by a signal.
const LATE_AFTER_MS: u64 = PERIOD_MS * 2;

/// The state at the last check.
pub(super) struct StallWatch {
    workers: Vec<Handle>,
    stalls: Vec<Option<Stall>>,
    looked_ms: u64,
    stands_most_ms: u64,
}

/// A worker that has stood for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StalledWorker {
    /// Its place.
    pub(super) index: usize,
    /// For how long.
    pub(super) for_ms: u64,
    /// Its work, as a part of a sentence.
    pub(super) request: String,
}

/// A stall that was reported.
#[derive(Clone, Debug)]
struct Stall {
    since_ms: u64,
    request: String,
}

impl StallWatch {
    /// A watch of `workers` that begins at `now_ms` of the monotonic clock. A worker may stand for
    /// `stands_most_ms`; 0 is without limit.
    pub(super) fn new(workers: Vec<Handle>, now_ms: u64, stands_most_ms: u64) -> StallWatch {
        let stalls = vec![None; workers.len()];
        StallWatch { workers, stalls, looked_ms: now_ms, stands_most_ms }
    }

    /// Checks all workers, and tells those that have stood for too long; `runtime` names the routes.
    pub(super) fn look(&mut self, now_ms: u64, runtime: impl Fn() -> Arc<Runtime>) -> Vec<StalledWorker> {
        let is_late = now_ms.saturating_sub(self.looked_ms) > LATE_AFTER_MS;
        self.looked_ms = now_ms;
        let mut standing = Vec::new();
        for (index, (worker, stall)) in self.workers.iter().zip(&mut self.stalls).enumerate() {
            let status = &*worker.status;
            match (stalled_ms(status, now_ms), &stall) {
                (Some(for_ms), None) if !is_late => {
                    let request = request_of(status, &runtime());
                    tracing::error!(
                        worker = index,
                        "worker {index} has not turned its event loop for {for_ms} ms and serves no request; {request}"
                    );
                    status.is_stalled.store(true, Ordering::Relaxed);
                    status.stalls.fetch_add(1, Ordering::Relaxed);
                    *stall = Some(Stall { since_ms: now_ms - for_ms, request });
                }
                // Another worker serves in its seat.
                (None, Some(_)) if !status.takes_part() => *stall = None,
                (None, Some(Stall { since_ms, request })) => {
                    let stood_ms = now_ms.saturating_sub(*since_ms);
                    tracing::warn!(
                        worker = index,
                        "worker {index} turns its event loop again after {stood_ms} ms; {request}"
                    );
                    status.is_stalled.store(false, Ordering::Relaxed);
                    *stall = None;
                }
                (Some(for_ms), Some(Stall { request, .. }))
                    if !is_late && self.stands_most_ms != 0 && for_ms >= self.stands_most_ms =>
                {
                    let request = request.clone();
                    standing.push(StalledWorker { index, for_ms, request });
                }
                _ => {}
            }
        }
        standing
    }
}

/// For how long a worker has stood, if it counts as a stall. One that has not started, has ended or was given
/// up turns no loop.
fn stalled_ms(status: &WorkerStatus, now_ms: u64) -> Option<u64> {
    let for_ms = now_ms.saturating_sub(status.beat_ms.load(Ordering::Relaxed));
    let is_running = status.configured.load(Ordering::Acquire) && status.takes_part();
    (is_running && for_ms >= STALLED_AFTER_MS).then_some(for_ms)
}

/// Why the gateway is not ready: the first worker that was marked as stalled and still is, as a sentence.
pub(super) fn complaint(
    workers: &[Handle],
    now_ms: u64,
    runtime: impl Fn() -> Arc<Runtime>,
) -> Option<String> {
    workers.iter().enumerate().find_map(|(index, worker)| {
        let status = &*worker.status;
        let for_ms = stalled_ms(status, now_ms).filter(|_| status.is_stalled.load(Ordering::Relaxed))?;
        let request = request_of(status, &runtime());
        Some(format!("worker {index} has not turned its event loop for {for_ms} ms; {request}"))
    })
}

/// The request that a worker worked on last, as a part of a sentence.
fn request_of(status: &WorkerStatus, runtime: &Runtime) -> String {
    let slot = match status.current_work.get() {
        CurrentWork::Nothing => return "it works on no request".to_owned(),
        CurrentWork::Matching => return "it looks for the route of a request".to_owned(),
        CurrentWork::Route(slot) => slot,
    };
    match runtime.routes.get(slot) {
        Some(route) => format!("it works on a request of route {}", route.info.id),
        None => "it works on a request of a route that no longer exists".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(now_ms: u64) -> (StallWatch, Vec<Handle>) {
        let workers: Vec<Handle> = (0..2).map(|_| crate::command::channel().0).collect();
        for worker in &workers {
            worker.status.configured.store(true, Ordering::Release);
            beat(worker, now_ms);
        }
        (StallWatch::new(workers.clone(), now_ms, 0), workers)
    }

    fn beat(worker: &Handle, now_ms: u64) {
        worker.status.beat_ms.store(now_ms, Ordering::Relaxed);
    }

    fn runtime() -> Arc<Runtime> {
        crate::testing::without_routes().1
    }

    /// Whether each worker is marked, and how many stalls it had.
    fn marks(workers: &[Handle]) -> Vec<(bool, u64)> {
        let mark = |worker: &Handle| {
            (worker.status.is_stalled.load(Ordering::Relaxed), worker.status.stalls.load(Ordering::Relaxed))
        };
        workers.iter().map(mark).collect()
    }

    #[test]
    fn stalled_worker_is_marked_until_it_turns() {
        let (mut watch, workers) = watched(10_000);
        let mut look = |now_ms: u64, turns: &[usize]| {
            turns.iter().for_each(|index| beat(&workers[*index], now_ms));
            watch.look(now_ms, runtime);
            marks(&workers)
        };
        for now_ms in (10_250..=10_750).step_by(250) {
            assert_eq!(look(now_ms, &[1]), [(false, 0), (false, 0)], "{now_ms}");
        }
        assert_eq!(look(11_000, &[1]), [(true, 1), (false, 0)]);
        assert_eq!(look(11_250, &[1]), [(true, 1), (false, 0)], "it is one stall");
        let complaint = complaint(&workers, 11_300, runtime);
        let expected = "worker 0 has not turned its event loop for 1300 ms; it works on no request";
        assert_eq!(complaint.as_deref(), Some(expected));
        assert_eq!(look(11_500, &[0, 1]), [(false, 1), (false, 0)]);
        assert_eq!(super::complaint(&workers, 11_500, runtime), None);
    }

    #[test]
    fn worker_is_named_when_it_has_stood_too_long() {
        let (mut watch, workers) = watched(10_000);
        watch.stands_most_ms = 3_000;
        let mut look = |now_ms: u64| {
            beat(&workers[1], now_ms);
            watch.look(now_ms, runtime).iter().map(|one| (one.index, one.for_ms)).collect::<Vec<_>>()
        };
        for now_ms in (10_250..13_000).step_by(250) {
            assert_eq!(look(now_ms), [], "{now_ms}");
        }
        assert_eq!(look(13_000), [(0, 3_000)]);
        assert_eq!(look(20_000), [], "the whole process was stopped");
        assert_eq!(look(20_250), [(0, 10_250)]);
        workers[0].status.is_given_up.store(true, Ordering::Release);
        assert_eq!(look(20_500), []);
        assert_eq!(complaint(&workers, 20_500, runtime), None);
    }

    #[test]
    fn stopped_process_and_ended_worker_are_no_stall() {
        let (mut watch, workers) = watched(10_000);
        watch.look(60_000, runtime);
        assert_eq!(marks(&workers), [(false, 0), (false, 0)], "the look is as late as the workers are");
        workers.iter().for_each(|worker| beat(worker, 60_010));
        watch.look(60_250, runtime);
        workers[0].status.configured.store(false, Ordering::Release);
        for now_ms in (60_500..62_000).step_by(250) {
            beat(&workers[1], now_ms);
            watch.look(now_ms, runtime);
        }
        assert_eq!(marks(&workers), [(false, 0), (false, 0)]);
    }

    #[test]
    fn stall_complaint_names_the_request() {
        let (_, workers) = watched(0);
        let status = &*workers[0].status;
        status.is_stalled.store(true, Ordering::Relaxed);
        for (work, activity) in [
            (CurrentWork::Nothing, "it works on no request"),
            (CurrentWork::Matching, "it looks for the route of a request"),
            (CurrentWork::Route(7), "it works on a request of a route that no longer exists"),
        ] {
            status.current_work.set(work);
            let complaint = complaint(&workers, 2_000, runtime).unwrap();
            assert_eq!(complaint, format!("worker 0 has not turned its event loop for 2000 ms; {activity}"));
        }
    }
}

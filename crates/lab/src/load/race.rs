//! The threads of the load generator: begun together, and their CPU time. It does not know their work.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::tally::Tally;

/// The tallies of all threads, the time from their beginning on, and the CPU time in it.
pub(super) type Raced = (Vec<thread::Result<anyhow::Result<Tally>>>, Duration, Duration);

/// Runs all workers, each on a thread of its own. They begin together at the barrier, because a thread alone
/// would find the server idle; `during` is called there. Returns their tallies, the time from the barrier on,
/// and the CPU time in it.
pub(super) fn race<W: Send>(
    workers: Vec<W>,
    work: impl Fn(W, &Barrier) -> anyhow::Result<Tally> + Sync,
    during: impl FnOnce(Instant),
) -> Raced {
    let barrier = Barrier::new(workers.len() + 1);
    thread::scope(|scope| {
        let (work, barrier) = (&work, &barrier);
        let running: Vec<_> =
            workers.into_iter().map(|worker| scope.spawn(move || work(worker, barrier))).collect();
        barrier.wait();
        let (began, cpu_before) = (Instant::now(), cpu_time());
        during(began);
        let tallies = running.into_iter().map(thread::ScopedJoinHandle::join).collect();
        (tallies, began.elapsed(), cpu_time().saturating_sub(cpu_before))
    })
}

/// CPU time of this process, user and system.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

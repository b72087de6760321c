//! Tasks, threads, clocks and randomness of the real world.

use parking_lot::{Condvar, Mutex};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::Context;
use std::time::Duration;

use stdx::threads::{ThreadLife, keep_running};
use tokio::runtime::{Builder, LocalOptions};

/// Nanoseconds of the monotonic clock, the same for all threads.
#[inline]
pub fn monotonic_ns() -> u64 {
    stdx::clock::monotonic_ns()
}

/// Seconds and nanoseconds since the Unix epoch.
pub fn wall_clock() -> Duration {
    stdx::clock::unix_time()
}

/// How many descriptors this process may have open (getrlimit(2), RLIMIT_NOFILE, the soft limit).
pub fn open_files_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// A pseudo-random number; not for keys.
#[inline]
pub fn random_u64() -> u64 {
    fastrand::u64(..)
}

/// Lets other tasks run when this one has had its share of the event loop, as reads and writes let them; for
/// a loop in which none need be waited for.
pub async fn yield_when_spent() {
    tokio::task::coop::consume_budget().await;
}

/// Lets other tasks with pending I/O have their turn, then goes on.
pub async fn yield_to_events() {
    tokio::task::yield_now().await;
}

/// Wakes the task of `cx` after the other tasks that are ready and the event loop have had their turn: what
/// [`yield_to_events`] does, for a task that is polled and returns `Poll::Pending`.
pub fn wake_after_events(cx: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

/// Runs a task on this worker.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    tokio::task::spawn_local(task);
}

/// Waits; for service loops, never per request.
pub async fn sleep_ms(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Runs `body` and the tasks it spawns on the calling thread until `body` ends; what else still runs ends
/// with it.
///
/// # Errors
/// When the event loop cannot be made.
pub fn block_on<T>(body: impl Future<Output = T>) -> io::Result<T> {
    let runtime =
        Builder::new_current_thread().enable_io().enable_time().build_local(LocalOptions::default())?;
    Ok(runtime.block_on(body))
}

/// Runs what `make` makes, and the tasks it spawns, on a thread of its own with an event loop, beside all
/// workers. If it panics, another one is made after a pause, and readiness and metrics tell.
///
/// # Errors
/// When the thread or its event loop cannot be made.
pub fn service<F>(name: &'static str, make: impl Fn() -> F + Send + 'static) -> io::Result<()>
where
    F: Future<Output = ()>,
{
    // The loop takes tasks of its own thread, so it has to be made there.
    let (started, outcome) = std::sync::mpsc::sync_channel(1);
    let life = ThreadLife::begin(name);
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => {
                // The starter of the thread waits for this message.
                let _ = started.send(Ok(()));
                let report = |life: &ThreadLife, pause_ms| {
                    tracing::error!(
                        thread = life.name(),
                        "the thread {} panicked, which is a fault of the gateway; it is started again \
                         in {pause_ms} ms",
                        life.name()
                    );
                };
                runtime.block_on(keep_running(&life, make, report, sleep_ms));
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    })?;
    outcome.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended at once")))
}

/// Blocks the calling thread while `unsettled` holds, at most for `timeout`. A change of the
/// value must notify `changed`. Never on a worker.
pub fn wait_while<T>(
    value: &Mutex<T>,
    changed: &Condvar,
    timeout: Duration,
    unsettled: impl FnMut(&mut T) -> bool,
) {
    changed.wait_while_for(&mut value.lock(), unsettled, timeout);
}

//! The seam's other side, for the simulation and its tests: sockets, clocks, tasks and randomness in memory,
//! in one thread, all from one seed. Time is virtual: it passes by a little with each step and jumps where
//! everybody waits. What is written against the seam runs here unchanged, several workers beside their
//! clients and origins.

mod connection;
mod executor;
mod local;
mod network;
mod random;
mod splice;
mod stream;
#[cfg(test)]
mod tests;
mod transparent;
mod world;

use parking_lot::{Condvar, Mutex};
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub use connection::LinkBehavior;
pub use executor::{Planted, TaskGroup};
pub use local::{LocalStream, connect_local};
pub use network::{BoundSocket, Listener, bind, connect};
pub use network::{Harm, connect_from};
pub use random::Random;
pub use splice::Pipe;
pub use stream::{Socket, Stream};
pub use transparent::{connect_as, is_local_address, set_transparent, try_transparent};
pub use world::{Ran, simulate};
use world::{world, world_left};

/// Nanoseconds of the world's clock.
pub fn monotonic_ns() -> u64 {
    world().now_ns()
}

/// Seconds and nanoseconds since the Unix epoch.
pub fn wall_clock() -> Duration {
    Duration::from_nanos(world().wall_ns())
}

/// A number that follows from the seed.
pub fn random_u64() -> u64 {
    world().executor().random().next_u64()
}

/// Here there is no end of descriptors.
pub fn open_files_limit() -> u64 {
    u64::MAX
}

/// Nothing: here tasks take turns in an order that the seed decides.
pub async fn yield_when_spent() {}

/// Yields: the seed decides which task goes on.
pub async fn yield_to_events() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Yields inside a poll: the seed decides which task goes on.
pub fn wake_after_events(cx: &mut Context<'_>) {
    cx.waker().wake_by_ref();
}

/// Runs a task on this worker.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    world().executor().spawn(task);
}

/// Waits.
pub async fn sleep_ms(milliseconds: u64) {
    sleep_ns(milliseconds.saturating_mul(1_000_000)).await;
}

/// Waits.
pub async fn sleep_ns(nanoseconds: u64) {
    let deadline_ns = monotonic_ns().saturating_add(nanoseconds);
    let sleep = Sleep { deadline_ns, id: world().executor().next_id() };
    poll_fn(|cx| {
        if monotonic_ns() >= sleep.deadline_ns {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        world().at(sleep.key(), move || waker.wake());
        Poll::Pending
    })
    .await;
}

/// A time that a task waits for, dropped when it no longer does.
struct Sleep {
    deadline_ns: u64,
    id: u64,
}

impl Sleep {
    fn key(&self) -> (u64, u64) {
        (self.deadline_ns, self.id * 4)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(world) = world_left() {
            world.executor().forget(self.key());
        }
    }
}

/// Runs `body` until it ends, while everybody else goes on as well.
pub fn block_on<T>(body: impl Future<Output = T>) -> io::Result<T> {
    let mut body = std::pin::pin!(body);
    let called = Arc::new(Called(AtomicBool::new(true)));
    let waker = Waker::from(called.clone());
    loop {
        if called.0.swap(false, Ordering::Relaxed) {
            if let Poll::Ready(value) = body.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(value);
            }
        } else if !world().executor().run_until(u64::MAX, || called.0.load(Ordering::Relaxed)) {
            return Err(io::Error::other("nothing will ever happen again"));
        }
    }
}

/// Whether a blocked caller was woken.
struct Called(AtomicBool);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs what `make` makes beside all workers.
pub fn service<F>(_name: &'static str, make: impl Fn() -> F + Send + 'static) -> io::Result<()>
where
    F: Future<Output = ()> + 'static,
{
    world().executor().spawn_root(async move { make().await });
    Ok(())
}

/// Blocks the caller while `unsettled` holds, at most for `timeout`; everybody else goes on.
pub fn wait_while<T>(
    value: &Mutex<T>,
    _changed: &Condvar,
    timeout: Duration,
    mut unsettled: impl FnMut(&mut T) -> bool,
) {
    let deadline_ns = monotonic_ns() + u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 2);
    let settled = || !unsettled(&mut value.lock());
    world().executor().run_until(deadline_ns, settled);
}

/// Runs a worker's body: its tasks are a group that ends with it.
pub fn spawn_worker(body: impl Future<Output = ()> + 'static) -> TaskGroup {
    world().executor().spawn_root(body)
}

/// Ends a worker's tasks wherever they are, as a panic of its loop does.
pub fn end_worker(group: TaskGroup) {
    world().executor().end_group(group);
}

/// Tasks of a group that have not ended.
pub fn tasks_of(group: TaskGroup) -> usize {
    world().executor().tasks_of(group)
}

/// Open streams that a group holds.
pub fn streams_of(group: TaskGroup) -> usize {
    world().ends_of(group)
}

/// Says how `address` is reached from now on.
pub fn set_link(address: std::net::SocketAddr, link: LinkBehavior) {
    world().network.set_link(address, link);
}

/// The harm the network has done so far.
pub fn harms() -> Vec<Harm> {
    world().network.harms()
}

/// Adds a line to the trace, if one is kept.
pub fn note(line: impl FnOnce() -> String) {
    world().note(line);
}

/// Sets the wall clock forward.
pub fn set_wall_forward(duration: Duration) {
    world().set_wall_forward(u64::try_from(duration.as_nanos()).unwrap_or_default());
}

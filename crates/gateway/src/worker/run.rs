//! A worker's thread: its event loop, its slow loop (timers, sweeps, flushes), its commands.

use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use stdx::buffer::BufferPool;
use tokio::sync::mpsc::UnboundedReceiver;

use super::accept;
use super::endpoint;
use super::state::{Worker, WorkerParts};
use crate::command::ListenerClosing;
use crate::command::{Handle, WorkerCommand};
use crate::context::WorkerContext;
use exchange::observe::node_loads::NodeLoadQuery;
use net::env::{self, Stream};

/// One turn of the slow loop; deadlines are met to within this and the steps of [`wake_in_batches`].
const TURN_MS: u64 = 20;
/// Wakes expired timers in at most this many batches, one per millisecond. Ending a connection takes some 40
/// µs, and its client often connects again at once: all of them together would delay every connection that
/// has something to read or to write.
const WAKE_STEPS: usize = 10;
const STEP_MS: u64 = 1;
/// Most tasks woken in one batch before other events are served, however many timers are due.
const WAKES_AT_ONCE: usize = 4;
/// Turns of the event loop in which idle connections to endpoints say that they end before the worker does.
const PARTING_TURNS: usize = 2;
/// Number of turns between two sweeps of idle connections and of the wall clock: once a second.
const SWEEP_TURNS: u64 = 50;

/// Runs a worker on the calling thread until it is told to stop, or is drained.
///
/// # Errors
/// When the event loop cannot be made.
pub(crate) fn run_worker(
    parts: WorkerParts,
    peers: Vec<Handle>,
    commands: &mut UnboundedReceiver<WorkerCommand>,
) -> io::Result<()> {
    let status = parts.context.status.clone();
    env::block_on(async move {
        // So that its connections can be ended from outside, should it stand.
        let _mark = status.event_loop.mark()?;
        run_worker_tasks(Worker::new(parts), peers, commands).await;
        Ok(())
    })?
}

/// Runs all tasks of a worker on the current event loop; the tasks that it spawns end with that loop.
pub(crate) async fn run_worker_tasks(
    worker: Rc<Worker>,
    peers: Vec<Handle>,
    commands: &mut UnboundedReceiver<WorkerCommand>,
) {
    let peers: Rc<[Handle]> = peers.into();
    worker.context.evictor.set_peers(peers.clone());
    worker.take_up_listeners(&peers);
    worker.spawn_critical(slow_loop(worker.clone()));
    tokio::select! {
        biased;
        () = run_commands(&worker, &peers, commands) => {}
        () = worker.critical_task_failed.notified() => panic!("a loop that this worker cannot do without has panicked"),
    }
}

async fn run_commands(
    worker: &Rc<Worker>,
    peers: &Rc<[Handle]>,
    commands: &mut UnboundedReceiver<WorkerCommand>,
) {
    loop {
        match commands.recv().await {
            Some(WorkerCommand::Serve(socket, peer, listener)) => match Stream::attach(socket) {
                Ok(stream) => {
                    accept::serve_accepted_connection(
                        worker,
                        stream,
                        peer,
                        worker.open_listener(listener, peers),
                    );
                }
                Err(_) => {
                    worker.context.status.connections.fetch_sub(1, Ordering::Relaxed);
                    accept::release_address(worker, peer, &listener);
                }
            },
            Some(WorkerCommand::Listeners) => worker.take_up_listeners(peers),
            Some(WorkerCommand::Evict) => worker.context.evictor.evict_asked(),
            Some(WorkerCommand::Loads(NodeLoadQuery { only, answer })) => {
                // An error means that the asking thread no longer waits.
                let _ = answer.send(worker.context.upstreams.report(only.as_ref()));
            }
            Some(WorkerCommand::Endpoint(call)) => endpoint::serve_endpoint_call(&worker.context, *call),
            Some(WorkerCommand::Drain(closing)) => worker.drain(closing),
            Some(WorkerCommand::Panic) => worker.spawn_critical(async { panic!("a test asked for it") }),
            Some(WorkerCommand::Stop) | None => {
                worker.part_from_endpoints().await;
                return worker.context.flush_log();
            }
        }
    }
}

/// Number of tasks that one turn commonly wakes; memory for them and their timers is allocated at the start.
const WAKERS_CAPACITY: usize = 16;

async fn slow_loop(worker: Rc<Worker>) {
    let mut wakers: Vec<Waker> = Vec::with_capacity(WAKERS_CAPACITY);
    let mut turn = 0_u64;
    let mut was_short = false;
    loop {
        env::sleep_ms(TURN_MS).await;
        let now_ms = worker.beat();
        worker.context.local.timers.borrow_mut().advance(now_ms, &mut wakers);
        wake_in_batches(&mut wakers, || {
            worker.beat();
        })
        .await;
        // An idle worker takes up a new generation too, so that the old one can be freed and the new revision
        // reported.
        drop(worker.context.generation());
        worker.context.flush_log();
        turn += 1;
        let sweeps = turn.is_multiple_of(SWEEP_TURNS);
        if sweeps {
            worker.sweep(now_ms);
        }
        let is_short = worker.context.local.shared.memory.sheds_idle();
        if is_short && (sweeps || !was_short) {
            worker.free_what_is_kept();
        }
        was_short = is_short;
    }
}

/// Wakes all tasks in batches, with other events served in between; calls `turned` after each batch.
async fn wake_in_batches(wakers: &mut Vec<Waker>, turned: impl Fn()) {
    let a_step = wakers.len().div_ceil(WAKE_STEPS);
    for (number, waker) in wakers.drain(..).enumerate() {
        if number > 0 && number.is_multiple_of(a_step) {
            env::sleep_ms(STEP_MS).await;
            turned();
        } else if number > 0 && number.is_multiple_of(WAKES_AT_ONCE) {
            env::yield_to_events().await;
            turned();
        }
        waker.wake();
    }
}

impl Worker {
    /// Records that the event loop turns; returns the time in milliseconds.
    fn beat(&self) -> u64 {
        let now_ms = self.context.local.clock_ns() / 1_000_000;
        self.context.status.beat_ms.store(now_ms, Ordering::Relaxed);
        now_ms
    }

    /// Begins the drain: idle connections close when their last wait is over, the others after the exchange
    /// in flight.
    fn drain(&self, closing: ListenerClosing) {
        self.context.upstreams.drain();
        self.context.local.http.clear();
        self.close_listeners(closing);
    }

    /// Ends idle connections to endpoints in order, which otherwise end as they are with the worker.
    async fn part_from_endpoints(&self) {
        self.context.upstreams.close_idle();
        for _ in 0..PARTING_TURNS {
            env::yield_to_events().await;
        }
    }

    /// Frees memory under pressure: closes idle client connections and idle connections to endpoints, and
    /// frees what was kept for reuse.
    fn free_what_is_kept(&self) {
        self.context.upstreams.close_idle();
        self.context.exchanges.clear();
        self.context.local.free_buffers();
        BufferPool::clear();
        self.wake_connections();
    }

    /// The work that is done once a second.
    fn sweep(&self, now_ms: u64) {
        let WorkerContext { local, status, upstreams, .. } = &*self.context;
        status.idle_upstream.store(upstreams.sweep(now_ms), Ordering::Relaxed);
        local.http.sweep();
        local.shared.capacity.read_limit();
        self.context.upstream_warnings.tell_due(now_ms);
        local.read_wall_offset();
        self.context.traffic.sweep();
        let generation = self.context.generation();
        if self.swept_revision.replace(generation.revision) != generation.revision {
            self.context.metrics.retain_routes(|id| generation.route_slots.contains_key(id));
            self.context.traffic.retain(
                |id| generation.route_slots.contains_key(id),
                |username| generation.consumers.named(username).is_some(),
                |identity| generation.upstream_slots.contains_key(identity),
            );
        }
    }
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::task::{spawn_local, yield_now};

    use super::*;

    /// Tasks that wait for their deadline, `count` of them: their wakers, and how many have ended.
    fn many(count: usize) -> (Rc<RefCell<Vec<Waker>>>, Rc<Cell<usize>>) {
        let (wakers, ended) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
        for _ in 0..count {
            let (wakers, ended) = (wakers.clone(), ended.clone());
            let mut waits = false;
            spawn_local(poll_fn(move |cx| {
                if !std::mem::replace(&mut waits, true) {
                    wakers.borrow_mut().push(cx.waker().clone());
                    return Poll::Pending;
                }
                ended.set(ended.get() + 1);
                Poll::Ready(())
            }));
        }
        (wakers, ended)
    }

    /// How many of `count` simultaneous deadlines are served before a byte that had arrived by then is read.
    fn served_before_a_byte(count: usize) -> usize {
        env::block_on(async {
            let (wakers, ended) = many(count);
            let (mut here, mut there) = UnixStream::pair().unwrap();
            let seen = ended.clone();
            let reader = spawn_local(async move {
                here.read_exact(&mut [0]).await.unwrap();
                seen.get()
            });
            while wakers.borrow().len() < count {
                yield_now().await;
            }
            there.write_all(b"x").await.unwrap();
            let mut due = wakers.take();
            wake_in_batches(&mut due, || {}).await;
            while ended.get() < count {
                yield_now().await;
            }
            reader.await.unwrap()
        })
        .unwrap()
    }

    #[test]
    fn simultaneous_deadlines_do_not_delay_readers() {
        for (count, most) in [(1, 1), (6, 1), (20, 2), (1_000, 2 * WAKES_AT_ONCE)] {
            let before = served_before_a_byte(count);
            assert!(before <= most, "{before} of {count} ended before the byte was read");
        }
    }
}

//! A worker's thread from its start to its end: it runs the worker, and again when that breaks or cannot be run. What the
//! worker does is its own business.

use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use stdx::published::Published;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;

use crate::command::{Command, Handle};
use crate::context::ContextParts;
use crate::observe::access_log::{AccessLog, LineWriter};
use crate::observe::log_writer::LogWriter;
use crate::runtime::Runtime;
use crate::upstream::warnings::UpstreamWarnings;
use crate::worker::{self, Parts};
use exchange::observe::metrics::{SharedSeries, WorkerMetrics};
use exchange::options::Options;
use exchange::overload::Shared;
use net::listener::ListenerSet;

/// The parts that a worker is started with, again if it has to be.
pub(super) struct Seed {
    pub(super) index: usize,
    pub(super) options: Arc<Options>,
    pub(super) published: Arc<Published<Runtime>>,
    pub(super) listeners: Arc<Published<ListenerSet>>,
    pub(super) reclaimer: Sender<Arc<Runtime>>,
    pub(super) handle: Handle,
    pub(super) shared: Arc<Shared>,
    pub(super) upstream_warnings: Arc<UpstreamWarnings>,
    pub(super) peers: Vec<Handle>,
    pub(super) series: Arc<Mutex<Vec<SharedSeries>>>,
    pub(super) access_log: Option<(AccessLog, LogWriter)>,
}

/// Runs a worker, and again if it panics: its connections are lost, its place is not.
pub(super) fn keep_alive(seed: &Seed, commands: &mut UnboundedReceiver<Command>) {
    if seed.options.pin {
        pin_to_core(seed.index);
    }
    loop {
        let metrics = WorkerMetrics::default();
        seed.series.lock().push(metrics.shared());
        let access_log =
            seed.access_log.as_ref().map(|(log, writer)| (log.clone(), LineWriter::new(writer.clone())));
        let parts = Parts {
            index: seed.index,
            options: seed.options.clone(),
            listeners: seed.listeners.clone(),
            shared: seed.shared.clone(),
            context: ContextParts {
                published: seed.published.clone(),
                reclaimer: seed.reclaimer.clone(),
                status: seed.handle.status.clone(),
                upstream_warnings: seed.upstream_warnings.clone(),
                metrics,
                access_log,
            },
        };
        let run = catch_unwind(AssertUnwindSafe(|| worker::run(parts, seed.peers.clone(), commands)));
        seed.handle.status.configured.store(false, Ordering::Release);
        match run {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                tracing::error!(worker = seed.index, %error, "a worker cannot run; it is tried again soon");
                if !is_wanted_again(&seed.handle, &seed.shared, commands) {
                    return;
                }
            }
            Err(_) => {
                // Its connections ended with its loop and left the count; those on their way to it are still in it.
                tracing::error!(worker = seed.index, "a worker panicked; it is started again");
            }
        }
    }
}

/// How long a worker that cannot run waits before it is tried again: what it lacks, descriptors above all, others must
/// give back first.
const RUN_AGAIN_MS: u64 = 1_000;
/// How often it looks for commands meanwhile.
const LOOK_MS: u64 = 20;

/// Waits before a worker is tried again, refusing what others hand to it; false if it is to end.
fn is_wanted_again(handle: &Handle, shared: &Shared, commands: &mut UnboundedReceiver<Command>) -> bool {
    for _ in 0..RUN_AGAIN_MS / LOOK_MS {
        loop {
            match commands.try_recv() {
                Ok(Command::Stop | Command::Drain(_)) | Err(TryRecvError::Disconnected) => return false,
                Ok(Command::Serve(_, peer, _)) => {
                    handle.status.connections.fetch_sub(1, Ordering::Relaxed);
                    shared.addresses.release(peer.ip());
                }
                Ok(Command::Evict) => handle.status.ignore_asked(),
                // It takes up the listeners in force when it starts.
                Ok(Command::Listeners | Command::Panic) => {}
                Err(TryRecvError::Empty) => break,
            }
        }
        std::thread::sleep(Duration::from_millis(LOOK_MS));
    }
    true
}

fn pin_to_core(index: usize) {
    let mut set = rustix::thread::CpuSet::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    set.set(index % cores);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(worker = index, %error, "cannot pin the worker to a core; it runs unpinned");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Closing;

    #[test]
    fn failed_worker_is_restarted_until_stopped() {
        let shared = Shared::new(&crate::testing::without_routes().0);
        let check = |told: &[fn() -> Command], wanted: bool| {
            let (handle, mut commands) = crate::command::channel();
            for command in told {
                handle.commands.send(command()).unwrap();
            }
            assert_eq!(is_wanted_again(&handle, &shared, &mut commands), wanted);
        };
        check(&[|| Command::Listeners], true);
        check(&[|| Command::Listeners, || Command::Stop], false);
        check(&[|| Command::Drain(Closing::at_once(0))], false);
    }
}

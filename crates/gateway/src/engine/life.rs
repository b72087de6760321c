//! A worker's thread from its start to its end: runs the worker, and runs it again after a panic or a failed
//! start.

use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use stdx::published::Published;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;

use crate::command::{Handle, WorkerCommand};
use crate::context::ContextParts;
use crate::observe::access_log::{AccessLog, LineWriter};
use crate::observe::log_writer::LogWriter;
use crate::runtime::Runtime;
use crate::upstream::warnings::UpstreamWarnings;
use crate::worker::{self, WorkerParts};
use exchange::observe::metrics::{SharedSeries, WorkerMetrics};
use exchange::options::Options;
use exchange::overload::OverloadState;
use net::listener::ListenerSet;
use net::quic::QuicProcess;

/// The parts that a worker is started with, also after a panic.
#[derive(Clone)]
pub(super) struct Seed {
    /// Its place among the handles of all places.
    pub(super) index: usize,
    /// The number of its share of every listener.
    pub(super) seat: usize,
    pub(super) options: Arc<Options>,
    pub(super) published: Arc<Published<Runtime>>,
    pub(super) listeners: Arc<Published<ListenerSet>>,
    pub(super) reclaimer: Sender<Arc<Runtime>>,
    pub(super) handle: Handle,
    pub(super) shared: Arc<OverloadState>,
    pub(super) upstream_warnings: Arc<UpstreamWarnings>,
    pub(super) peers: Vec<Handle>,
    pub(super) quic: QuicProcess,
    pub(super) series: Arc<Mutex<Vec<SharedSeries>>>,
    pub(super) access_log: Option<(AccessLog, LogWriter)>,
    pub(super) session_log: Option<(AccessLog, LogWriter)>,
}

/// Runs a worker, and runs it again after a panic: its connections are lost, its queue of commands is kept.
pub(super) fn keep_worker_alive(seed: &Seed, commands: &mut UnboundedReceiver<WorkerCommand>) {
    if seed.options.pin {
        pin_to_core(seed.seat);
    }
    loop {
        let metrics = WorkerMetrics::default();
        seed.series.lock().push(metrics.shared());
        let log_of_worker = |log: &Option<(AccessLog, LogWriter)>| {
            log.as_ref().map(|(log, writer)| (log.clone(), LineWriter::new(writer.clone())))
        };
        let (access_log, session_log) = (log_of_worker(&seed.access_log), log_of_worker(&seed.session_log));
        let parts = WorkerParts {
            index: seed.index,
            seat: seed.seat,
            options: seed.options.clone(),
            listeners: seed.listeners.clone(),
            shared: seed.shared.clone(),
            quic: seed.quic.clone(),
            context: ContextParts {
                published: seed.published.clone(),
                reclaimer: seed.reclaimer.clone(),
                status: seed.handle.status.clone(),
                upstream_warnings: seed.upstream_warnings.clone(),
                metrics,
                access_log,
                session_log,
            },
        };
        let run = catch_unwind(AssertUnwindSafe(|| worker::run_worker(parts, seed.peers.clone(), commands)));
        seed.handle.status.configured.store(false, Ordering::Release);
        if !matches!(run, Ok(Ok(()))) {
            seed.handle.status.restarts.fetch_add(1, Ordering::Relaxed);
        }
        match run {
            Ok(Ok(())) => return,
            // Another worker has its seat.
            _ if seed.handle.status.is_given_up.load(Ordering::Acquire) => return,
            Ok(Err(error)) => {
                tracing::error!(worker = seed.index, %error, "a worker cannot run; it is tried again soon");
                if !is_wanted_again(&seed.handle, &seed.shared, commands) {
                    return;
                }
            }
            Err(_) => {
                // Its connections ended with its loop and were uncounted; those handed to it and not yet
                // taken are still counted.
                tracing::error!(worker = seed.index, "a worker panicked; it is started again");
            }
        }
    }
}

/// How long a worker that cannot start waits before the next attempt: other parts of the process have to
/// release the missing resource, usually descriptors, first.
const RUN_AGAIN_MS: u64 = 1_000;
/// How often the thread looks for commands during that wait.
const LOOK_MS: u64 = 20;

/// Waits before the next start and closes connections that are handed to the worker meanwhile; false if it is
/// to end.
fn is_wanted_again(
    handle: &Handle,
    shared: &OverloadState,
    commands: &mut UnboundedReceiver<WorkerCommand>,
) -> bool {
    for _ in 0..RUN_AGAIN_MS / LOOK_MS {
        loop {
            match commands.try_recv() {
                Ok(WorkerCommand::Stop | WorkerCommand::Drain(_)) | Err(TryRecvError::Disconnected) => {
                    return false;
                }
                Ok(WorkerCommand::Serve(_, peer, _)) => {
                    handle.status.connections.fetch_sub(1, Ordering::Relaxed);
                    shared.addresses.release(peer.ip());
                }
                Ok(WorkerCommand::Evict) => handle.status.ignore_asked(),
                // A starting worker takes up the listeners in force by itself, and has measured nothing.
                Ok(
                    WorkerCommand::Listeners
                    | WorkerCommand::Loads(_)
                    | WorkerCommand::Endpoint(_)
                    | WorkerCommand::Panic,
                ) => {}
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
    use crate::command::ListenerClosing;

    #[test]
    fn failed_worker_is_restarted_until_stopped() {
        let shared = OverloadState::new(&crate::testing::without_routes().0);
        let check = |sent: &[fn() -> WorkerCommand], wanted: bool| {
            let (handle, mut commands) = crate::command::channel();
            for command in sent {
                handle.commands.send(command()).unwrap();
            }
            assert_eq!(is_wanted_again(&handle, &shared, &mut commands), wanted);
        };
        check(&[|| WorkerCommand::Listeners], true);
        check(&[|| WorkerCommand::Listeners, || WorkerCommand::Stop], false);
        check(&[|| WorkerCommand::Drain(ListenerClosing::at_once(0))], false);
    }
}

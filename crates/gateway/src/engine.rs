//! The data plane as boot sees it: workers started, generations published, drained, stopped, asked how they are.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stdx::published::Published;

use crate::listener::Listening;
use crate::observe::access_log::{AccessLog, LogWriter};
use crate::observe::exposition;
use crate::observe::metrics::{SharedSeries, WorkerMetrics};
use crate::options::Options;
use crate::runtime::Runtime;
use crate::worker::{self, Command, Handle, Parts};

/// How often a drain looks whether it is done.
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// A running data plane.
pub struct Engine {
    published: Arc<Published<Runtime>>,
    workers: Vec<Handle>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    series: Arc<Mutex<Vec<SharedSeries>>>,
    spare: SpareSockets,
}

/// Each worker's sockets once more, so that the kernel goes on queueing for one that has to be started again; emptied
/// when a drain begins, for as long as any descriptor is left the kernel accepts.
type SpareSockets = Arc<Mutex<Vec<Vec<Listening>>>>;

/// What an engine is started with.
pub struct EngineConfig {
    /// Limits, deadlines, forwarding.
    pub options: Arc<Options>,
    /// For each worker, the sockets it accepts on.
    pub listening: Vec<Vec<Listening>>,
    /// The first generation.
    pub runtime: Arc<Runtime>,
    /// The access log, if there is one.
    pub access_log: Option<(AccessLog, LogWriter)>,
}

impl Engine {
    /// Starts one worker for each entry of `listening`.
    ///
    /// # Errors
    /// When a thread cannot be made.
    pub fn start(config: EngineConfig) -> io::Result<Engine> {
        let published = Arc::new(Published::new(config.runtime));
        let graveyard = bury()?;
        let channels: Vec<_> = config.listening.iter().map(|_| worker::channel()).collect();
        let workers: Vec<Handle> = channels.iter().map(|(handle, _)| handle.clone()).collect();
        let series: Arc<Mutex<Vec<SharedSeries>>> = Arc::default();
        let spare: SpareSockets = Arc::new(Mutex::new(config.listening));
        let mut threads = Vec::new();
        for (index, (handle, mut commands)) in channels.into_iter().enumerate() {
            let seed = Seed {
                index,
                options: config.options.clone(),
                published: published.clone(),
                graveyard: graveyard.clone(),
                handle,
                peers: workers.clone(),
                series: series.clone(),
                access_log: config.access_log.clone(),
                spare: spare.clone(),
            };
            let run = move || keep_alive(&seed, &mut commands);
            threads.push(std::thread::Builder::new().name(format!("worker-{index}")).spawn(run)?);
        }
        Ok(Engine { published, workers, threads: Mutex::new(threads), series, spare })
    }

    /// Brings a generation into force: every request that begins from now on is decided by it.
    pub fn publish(&self, runtime: Arc<Runtime>) {
        self.published.publish(runtime);
    }

    /// The generation in force.
    pub fn current(&self) -> Arc<Runtime> {
        self.published.load()
    }

    /// The revision that each worker has taken up.
    pub fn revisions(&self) -> Vec<u64> {
        self.workers.iter().map(|worker| worker.status.revision.load(Ordering::Acquire)).collect()
    }

    /// Open client connections.
    pub fn connections(&self) -> usize {
        self.workers.iter().map(|worker| worker.status.connections.load(Ordering::Relaxed)).sum()
    }

    /// Accepts no more, lets exchanges end for at most `grace`, then stops; true if all ended in time.
    pub fn drain(&self, grace: Duration, abandon: &dyn Fn() -> bool) -> bool {
        self.tell(|| Command::Drain);
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let deadline = Instant::now() + grace;
        while self.connections() > 0 && Instant::now() < deadline && !abandon() {
            std::thread::sleep(DRAIN_POLL);
        }
        let all_ended = self.connections() == 0;
        self.stop();
        all_ended
    }

    /// Stops at once and waits for the threads.
    pub fn stop(&self) {
        self.tell(|| Command::Stop);
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A worker's panic was reported when it happened.
            let _ = thread.join();
        }
    }

    /// Appends all counters in the Prometheus text format.
    pub fn write_metrics(&self, text: &mut String) {
        exposition::write_status(self.workers.iter().map(|worker| &*worker.status), text);
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner).clone();
        exposition::write_series(&series, text);
    }

    fn tell(&self, command: impl Fn() -> Command) {
        for worker in &self.workers {
            // A worker that is gone needs no telling.
            let _ = worker.commands.send(command());
        }
    }
}

/// What a worker is started with, again if it has to be.
struct Seed {
    index: usize,
    options: Arc<Options>,
    published: Arc<Published<Runtime>>,
    graveyard: Sender<Arc<Runtime>>,
    handle: Handle,
    peers: Vec<Handle>,
    series: Arc<Mutex<Vec<SharedSeries>>>,
    access_log: Option<(AccessLog, LogWriter)>,
    spare: SpareSockets,
}

impl Seed {
    /// Descriptors of this worker's sockets; none once a drain has begun.
    fn sockets(&self) -> io::Result<Vec<Listening>> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.get(self.index).map_or(&[][..], Vec::as_slice).iter().map(Listening::try_clone).collect()
    }
}

/// Runs a worker, and again if it panics: its connections are lost, its place is not.
fn keep_alive(seed: &Seed, commands: &mut tokio::sync::mpsc::UnboundedReceiver<Command>) {
    if seed.options.pin {
        pin_to_core(seed.index);
    }
    loop {
        let metrics = WorkerMetrics::default();
        seed.series.lock().unwrap_or_else(PoisonError::into_inner).push(metrics.shared());
        let access_log = seed.access_log.as_ref().map(|(log, writer)| (log.clone(), writer.line_writer()));
        let parts = Parts {
            index: seed.index,
            options: seed.options.clone(),
            published: seed.published.clone(),
            graveyard: seed.graveyard.clone(),
            status: seed.handle.status.clone(),
            metrics,
            access_log,
        };
        let run = seed.sockets().map(|sockets| {
            catch_unwind(AssertUnwindSafe(|| worker::run(parts, seed.peers.clone(), sockets, commands)))
        });
        match run {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) | Err(error) => {
                tracing::error!(worker = seed.index, %error, "a worker cannot run");
                return;
            }
            Ok(Err(_)) => {
                tracing::error!(worker = seed.index, "a worker panicked; it is started again");
                seed.handle.status.connections.store(0, Ordering::Relaxed);
            }
        }
    }
}

fn pin_to_core(index: usize) {
    let mut set = rustix::thread::CpuSet::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    set.set(index % cores);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(worker = index, %error, "cannot pin the worker to a core; it runs unpinned");
    }
}

/// The side thread that frees old generations, which for a large configuration takes longer than a request may wait.
fn bury() -> io::Result<Sender<Arc<Runtime>>> {
    let (graveyard, dead) = channel::<Arc<Runtime>>();
    std::thread::Builder::new()
        .name("graveyard".to_owned())
        .spawn(move || dead.into_iter().for_each(drop))?;
    Ok(graveyard)
}

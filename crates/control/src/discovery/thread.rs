//! The thread that runs all registries on one event loop, starts a registry again that has panicked or ended, and saves the
//! last good answers. It knows no registry.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::services::Services;
use super::table::Shared;
use super::{BuildContext, RegistryKind};

/// The running thread.
pub(super) struct DiscoveryThread {
    handle: JoinHandle<()>,
    stop: Arc<Notify>,
}

impl DiscoveryThread {
    /// Starts the thread with these registries.
    ///
    /// # Errors
    /// The system cannot start a thread, or has no descriptor for its event loop.
    pub(super) fn start(
        shared: Arc<Shared>,
        kinds: Vec<(&'static RegistryKind, Value)>,
        context: BuildContext,
    ) -> io::Result<DiscoveryThread> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(MAX_BLOCKING)
            .build()?;
        let stop = Arc::new(Notify::new());
        let stopping = Arc::clone(&stop);
        let handle = std::thread::Builder::new().name("discovery".to_owned()).spawn(move || {
            runtime.block_on(run(&shared, kinds, context, &stopping));
            // Not waited for, because a name lookup that still runs would block the end of the thread.
            runtime.shutdown_background();
        })?;
        Ok(DiscoveryThread { handle, stop })
    }

    /// Stops the thread; answers that are not saved yet are saved.
    pub(super) fn stop(self) {
        self.stop.notify_one();
        if self.handle.join().is_err() {
            tracing::error!("the thread of the registries had panicked");
        }
    }
}

async fn run(
    shared: &Arc<Shared>,
    kinds: Vec<(&'static RegistryKind, Value)>,
    context: BuildContext,
    stop: &Notify,
) {
    let mut registries = JoinSet::new();
    for (kind, block) in kinds {
        registries.spawn(keep_running(kind, block, context.clone(), Arc::clone(shared)));
    }
    let saving = async {
        loop {
            shared.unsaved.notified().await;
            tokio::time::sleep(SAVE_AFTER).await;
            let shared = Arc::clone(shared);
            // A panic there shows in the log; the next change saves again.
            let _ = tokio::task::spawn_blocking(move || shared.save_copies()).await;
        }
    };
    tokio::select! {
        () = stop.notified() => {}
        () = saving => {}
    }
    registries.abort_all();
    shared.save_copies();
}

/// Runs one registry for ever.
async fn keep_running(kind: &'static RegistryKind, block: Value, context: BuildContext, shared: Arc<Shared>) {
    let mut pause = RESTART_AFTER;
    loop {
        let started = Instant::now();
        let services = Services::new(Arc::clone(&shared), kind.name);
        let ended = match (kind.build)(&block, &context) {
            // A task of its own, aborted with this one, so that a panic ends only that task.
            Ok(registry) => {
                let mut task = JoinSet::new();
                task.spawn(registry.run(services.clone()));
                match task.join_next().await {
                    Some(Err(fault)) if fault.is_panic() => {
                        "it panicked, which is a fault of the gateway".to_owned()
                    }
                    _ => "it ended".to_owned(),
                }
            }
            Err(reason) => reason,
        };
        services.failed(None, &ended);
        if started.elapsed() > RESTART_MAX {
            pause = RESTART_AFTER;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RESTART_MAX);
    }
}

/// Pause before a registry is started again; it doubles with each restart.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Longest pause before a restart.
const RESTART_MAX: Duration = Duration::from_secs(60);
/// Answers are saved this long after the first change, so that a burst of changes is one write.
const SAVE_AFTER: Duration = Duration::from_secs(1);
/// Threads for name lookups, reading of files and saving.
const MAX_BLOCKING: usize = 4;

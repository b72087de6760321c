//! The thread that runs all registries on one event loop, starts a registry again that has panicked or ended,
//! and saves the last good answers. It knows no registry.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outbound::background::BackgroundThread;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::services::Services;
use super::table::DiscoveryShared;
use super::{BuildContext, RegistryKind};

/// Starts the thread with these registries. When it is stopped, answers that are not saved yet are saved.
///
/// # Errors
/// As [`BackgroundThread::start`].
pub(super) fn start_discovery_thread(
    shared: Arc<DiscoveryShared>,
    kinds: Vec<(&'static RegistryKind, Value)>,
    context: BuildContext,
) -> io::Result<BackgroundThread> {
    BackgroundThread::start("discovery", MAX_BLOCKING, move |stopping| {
        run(Arc::clone(&shared), kinds.clone(), context.clone(), stopping)
    })
}

async fn run(
    shared: Arc<DiscoveryShared>,
    kinds: Vec<(&'static RegistryKind, Value)>,
    context: BuildContext,
    mut stopping: watch::Receiver<bool>,
) {
    let mut registries = JoinSet::new();
    for (kind, block) in kinds {
        registries.spawn(keep_running(kind, block, context.clone(), Arc::clone(&shared)));
    }
    let saving = async {
        loop {
            shared.unsaved.notified().await;
            tokio::time::sleep(SAVE_AFTER).await;
            let shared = Arc::clone(&shared);
            // A panic there shows in the log; the next change saves again.
            let _ = tokio::task::spawn_blocking(move || shared.save_copies()).await;
        }
    };
    tokio::select! {
        // An error means that the owner of the thread is gone.
        _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
        () = saving => {}
    }
    registries.abort_all();
    shared.save_copies();
}

/// Runs one registry for ever.
async fn keep_running(
    kind: &'static RegistryKind,
    block: Value,
    context: BuildContext,
    shared: Arc<DiscoveryShared>,
) {
    let mut pause = RESTART_AFTER;
    loop {
        let started = Instant::now();
        let services = Services::new(Arc::clone(&shared), kind.name);
        // A task of its own, aborted with this one, so that a panic ends only that task.
        let mut task = JoinSet::new();
        task.spawn(build_and_run(kind, block.clone(), context.clone(), services.clone()));
        let ended = match task.join_next().await {
            Some(Ok(reason)) => reason,
            Some(Err(fault)) if fault.is_panic() => "it panicked, which is a fault of the gateway".to_owned(),
            _ => "it ended".to_owned(),
        };
        services.failed(None, &ended);
        if started.elapsed() > RESTART_MAX {
            pause = RESTART_AFTER;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RESTART_MAX);
    }
}

/// Runs a registry until it ends, and returns the reason.
async fn build_and_run(
    kind: &'static RegistryKind,
    block: Value,
    context: BuildContext,
    services: Services,
) -> String {
    match (kind.build)(&block, &context) {
        Ok(registry) => {
            registry.run(services).await;
            "it ended".to_owned()
        }
        Err(reason) => reason,
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

#[cfg(test)]
mod tests {
    use model::outbound::OutboundPolicy;
    use testkit::wait_until;

    use super::*;

    const PANICKING: RegistryKind = RegistryKind {
        name: "panicking",
        has_ports_by_scheme: false,
        schema: || Value::Null,
        build: |_, _| panic!("the test wants it"),
    };

    #[test]
    fn panic_while_building_is_a_failure() {
        let blocks = [("panicking", Value::Null)].into_iter();
        let shared = Arc::new(DiscoveryShared::new(blocks, None, OutboundPolicy::default()));
        let kinds = vec![(&PANICKING, Value::Null)];
        let thread = start_discovery_thread(Arc::clone(&shared), kinds, BuildContext::default()).unwrap();
        wait_until("the panic is reported", || {
            let table = shared.table.lock();
            table["panicking"].failure.as_deref().is_some_and(|reason| reason.starts_with("it panicked"))
        });
        thread.stop();
    }
}

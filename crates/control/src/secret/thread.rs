//! The thread that asks secret managers, a few at a time, and reports changed values. The cache decides the
//! time of each request, and the manager the meaning of an answer.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use outbound::background::BackgroundThread;
use outbound::bounded_request::send_bounded;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cache::{SecretFailure, SecretFields, SecretTask};
use super::managers;
use super::shared::SecretShared;

/// Starts the thread. When it is stopped, unfinished requests are dropped.
///
/// # Errors
/// As [`BackgroundThread::start`].
pub(super) fn start_secrets_thread(shared: Arc<SecretShared>) -> io::Result<BackgroundThread> {
    BackgroundThread::start("secrets", MAX_LOOKUPS, move |stopping| run(Arc::clone(&shared), stopping))
}

async fn run(shared: Arc<SecretShared>, mut stopping: watch::Receiver<bool>) {
    let mut asking: JoinSet<(SecretTask, Result<SecretFields, SecretFailure>)> = JoinSet::new();
    loop {
        let now = Instant::now();
        let (changed, tasks, next) = {
            let mut cache = shared.cache.lock();
            let changed = cache.expire(now);
            let tasks = cache.due(now, MAX_ASKED - asking.len());
            (changed, tasks, cache.next(now))
        };
        shared.tried.notify_all();
        shared.tell(changed);
        for task in tasks {
            let shared = Arc::clone(&shared);
            asking.spawn(async move {
                let answer = ask(&task, &shared).await;
                (task, answer)
            });
        }
        // While all places are taken, only an answer frees one.
        let next = if asking.len() >= MAX_ASKED { now + shared.options.timeout } else { next };
        tokio::select! {
            Some(joined) = asking.join_next(), if !asking.is_empty() => {
                if let Ok((task, answer)) = joined {
                    let changed = shared.cache.lock().answered(&task, answer, Instant::now());
                    shared.tried.notify_all();
                    shared.tell(changed);
                }
            }
            () = tokio::time::sleep_until(next.max(now + LEAST_PAUSE).into()) => {}
            () = shared.wake.notified() => {}
            // An error means that the owner of the thread is gone.
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        }
    }
}

async fn ask(task: &SecretTask, shared: &SecretShared) -> Result<SecretFields, SecretFailure> {
    let manager = task.id.manager.split('/').next().unwrap_or_default();
    let manager =
        managers::find_secret_manager(manager).map_err(|reason| SecretFailure { reason, gone: true })?;
    let request = manager.request(&task.manager, &task.id.path, shared.environment)?;
    let options = &shared.options;
    let got = send_bounded(request, options.timeout, &options.policy, || shared.tls()).await;
    manager.read(&got.map_err(|reason| SecretFailure::passing(format!("{}: {reason}", manager.name())))?)
}

/// Limit of requests at the same time, because one vault serves many clients.
const MAX_ASKED: usize = 8;
/// Limit of name lookups at the same time; the system's resolver blocks a thread for each.
const MAX_LOOKUPS: usize = 4;
/// Shortest pause between two rounds, so that a wrong due time does not make a busy loop.
const LEAST_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

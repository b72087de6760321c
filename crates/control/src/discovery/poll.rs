//! Registries that are asked for one service at a time: each followed service again after an interval, a new one at once, a
//! bounded number at the same time. It does not know the registries.

use std::collections::BTreeMap;
use std::time::Duration;

use model::discovery::ServiceKey;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Services;
use super::publish::{Found, Pause, publish};

/// The reason why a service is not known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The registry cannot be used at all.
    Registry(String),
    /// The answer for this service is faulty.
    Service(String),
}

/// An answer for one service; none: it has not changed since the last one.
pub(super) type Asked = Result<Option<Found>, Failure>;

/// The ends that a push connection uses: it follows the wanted services, and names those that are to be asked for now.
pub(super) struct Pushed {
    pub(super) wanted: watch::Sender<Vec<ServiceKey>>,
    pub(super) changed: mpsc::Receiver<ServiceKey>,
}

impl Pushed {
    /// Waits for the next service that has changed; forever once the push connection is gone.
    async fn next(this: Option<&mut Pushed>) -> ServiceKey {
        if let Some(pushed) = this
            && let Some(key) = pushed.changed.recv().await
        {
            return key;
        }
        std::future::pending().await
    }
}

/// Asks for followed services without end.
pub(super) async fn poll<A>(
    services: Services,
    interval: Duration,
    mut pushed: Option<Pushed>,
    ask: impl Fn(ServiceKey) -> A,
) where
    A: Future<Output = Asked> + Send + 'static,
{
    let mut due_at: BTreeMap<ServiceKey, Instant> = BTreeMap::new();
    let mut pause = Pause::default();
    loop {
        let wanted = services.wanted();
        due_at.retain(|key, _| wanted.binary_search(key).is_ok());
        if let Some(pushed) = &pushed {
            pushed.wanted.send_if_modified(|known| {
                let is_new = *known != wanted;
                if is_new {
                    known.clone_from(&wanted);
                }
                is_new
            });
        }
        let now = Instant::now();
        let is_due = |key: &ServiceKey| due_at.get(key).is_none_or(|at| *at <= now);
        let due: Vec<ServiceKey> = wanted.into_iter().filter(is_due).collect();
        if !due.is_empty() {
            let is_usable = round(&services, due, &ask, |key| {
                due_at.insert(key, Instant::now() + interval);
            })
            .await;
            if !is_usable {
                pause.wait().await;
                continue;
            }
            pause.reset();
        }
        let next = due_at.values().min().copied();
        tokio::select! {
            () = services.wanted_changed() => {}
            key = Pushed::next(pushed.as_mut()) => drop(due_at.remove(&key)),
            () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
        }
    }
}

/// Asks for these services; false if the registry cannot be used, so that the others were not asked for.
async fn round<A>(
    services: &Services,
    due: Vec<ServiceKey>,
    ask: &impl Fn(ServiceKey) -> A,
    mut done: impl FnMut(ServiceKey),
) -> bool
where
    A: Future<Output = Asked> + Send + 'static,
{
    let mut waiting = due.into_iter();
    let mut asked = JoinSet::new();
    loop {
        while asked.len() < MAX_AT_ONCE
            && let Some(key) = waiting.next()
        {
            let answer = ask(key.clone());
            asked.spawn(async move { (key, answer.await) });
        }
        // A task ends without a value only by a panic, which the thread of the registries handles.
        let (key, answer) = match asked.join_next().await {
            None => return true,
            Some(Ok(answered)) => answered,
            Some(Err(error)) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => return false,
            },
        };
        match answer {
            Ok(Some(found)) => publish(services, &key, Ok(found)),
            Ok(None) => {}
            Err(Failure::Service(reason)) => publish(services, &key, Err(reason)),
            Err(Failure::Registry(reason)) => {
                services.failed(None, &reason);
                return false;
            }
        }
        done(key);
    }
}

/// Calls at the same time, each over its own connection.
const MAX_AT_ONCE: usize = 8;

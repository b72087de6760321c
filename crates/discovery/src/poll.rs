//! Registries that are asked for one service at a time: each followed service again after an interval, a new
//! one at once, a bounded number at the same time. It does not know the registries.

mod round;
mod schedule;

use std::time::Duration;

use model::discovery::ServiceKey;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use self::round::round;
use self::schedule::PollSchedule;
use super::Services;
use super::publish::{RegistryBackoff, ServiceLookup};

/// A call that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PollQuery {
    pub(super) key: ServiceKey,
    /// The revision of the answer that is in force; none: the answer must be a whole one.
    pub(super) revision: Option<String>,
}

/// A good answer for one service.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PollAnswer {
    /// The service still has the revision of the question.
    Unchanged,
    /// The state of the service, with its revision where the registry has such.
    Whole(ServiceLookup, Option<String>),
}

/// The reason why a service is not known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PollFailure {
    /// The registry has not answered. It concerns only this service if the registry answers for others.
    Registry(String),
    /// The answer for this service is faulty.
    Service(String),
}

impl From<PollFailure> for String {
    fn from(failure: PollFailure) -> String {
        match failure {
            PollFailure::Registry(reason) | PollFailure::Service(reason) => reason,
        }
    }
}

/// The result of one call.
pub(super) type PollResult = Result<PollAnswer, PollFailure>;

/// The ends that a push connection uses: it follows the wanted services, and names those that are to be asked
/// for now.
pub(super) struct Pushed {
    pub(super) wanted: watch::Sender<Vec<ServiceKey>>,
    pub(super) changed: mpsc::Receiver<ServiceKey>,
}

impl Pushed {
    /// Tells the push connection which services are followed.
    fn follow(&self, wanted: &[ServiceKey]) {
        self.wanted.send_if_modified(|known| {
            let is_new = known != wanted;
            if is_new {
                *known = wanted.to_vec();
            }
            is_new
        });
    }

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
    ask: impl Fn(PollQuery) -> A,
) where
    A: Future<Output = PollResult> + Send + 'static,
{
    let mut schedule = PollSchedule::new(interval);
    let mut pause = RegistryBackoff::default();
    loop {
        let wanted = services.wanted();
        schedule.keep(&wanted);
        if let Some(pushed) = &mut pushed {
            pushed.follow(&wanted);
            // All changes that have come meanwhile are asked for in one round.
            while let Ok(key) = pushed.changed.try_recv() {
                schedule.hurry(&key);
            }
        }
        let due = schedule.due(wanted, &services.unanswered(), Instant::now());
        if !due.is_empty() {
            if let Err(reason) = round(&services, due, &ask, &mut schedule).await {
                services.failed(None, &reason);
                // Whole answers end the failure.
                schedule.forget_revisions();
                pause.wait().await;
                continue;
            }
            pause.reset();
        }
        let next = schedule.next();
        tokio::select! {
            () = services.wanted_changed() => {}
            key = Pushed::next(pushed.as_mut()) => schedule.hurry(&key),
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests;

//! One task for each followed service, for registries that are asked for services one by one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;

use model::discovery::ServiceKey;
use tokio::task::{AbortHandle, JoinSet};

use super::services::Services;

/// The task of a service.
struct ServiceTask {
    task: AbortHandle,
    /// The oldest follower at the start; 0 if the service had an outcome then.
    oldest: u64,
}

/// Runs `start` for each service as long as it is followed. A service that was followed again is started
/// again, because its task may wait for a change of an answer that is no longer in force. A panic of one task
/// is passed on.
pub(super) async fn each_wanted<Work>(services: &Services, start: impl Fn(ServiceKey) -> Work)
where
    Work: Future<Output = ()> + Send + 'static,
{
    let mut tasks: JoinSet<()> = JoinSet::new();
    let mut running: BTreeMap<ServiceKey, ServiceTask> = BTreeMap::new();
    loop {
        let (wanted, unanswered) = (services.wanted(), services.unanswered());
        running.retain(|key, running| {
            let is_of_before = unanswered.get(key).is_some_and(|oldest| *oldest > running.oldest);
            let is_kept = wanted.binary_search(key).is_ok() && !is_of_before;
            if !is_kept {
                running.task.abort();
            }
            is_kept
        });
        for key in wanted {
            if let Entry::Vacant(place) = running.entry(key) {
                let oldest = unanswered.get(place.key()).copied().unwrap_or_default();
                let task = tasks.spawn(start(place.key().clone()));
                place.insert(ServiceTask { task, oldest });
            }
        }
        tokio::select! {
            () = services.wanted_changed() => {}
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended
                    && error.is_panic()
                {
                    std::panic::resume_unwind(error.into_panic());
                }
            }
        }
    }
}

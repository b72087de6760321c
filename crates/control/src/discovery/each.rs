//! One task for each followed service, for registries that are asked for services one by one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;

use model::discovery::ServiceKey;
use tokio::task::{AbortHandle, JoinSet};

use super::services::Services;

/// Runs `start` for each service as long as it is followed. A panic of one task is passed on.
pub(super) async fn each_wanted<Work>(services: &Services, start: impl Fn(ServiceKey) -> Work)
where
    Work: Future<Output = ()> + Send + 'static,
{
    let mut tasks: JoinSet<()> = JoinSet::new();
    let mut running: BTreeMap<ServiceKey, AbortHandle> = BTreeMap::new();
    loop {
        let wanted = services.wanted();
        running.retain(|key, task| {
            let is_wanted = wanted.binary_search(key).is_ok();
            if !is_wanted {
                task.abort();
            }
            is_wanted
        });
        for key in wanted {
            if let Entry::Vacant(place) = running.entry(key) {
                let task = tasks.spawn(start(place.key().clone()));
                place.insert(task);
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

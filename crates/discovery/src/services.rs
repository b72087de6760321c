//! The handle that a registry gets: the services that are followed, and the way to pass answers and failures
//! on. It does not know the registry.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::discovery::{ServiceInstance, ServiceKey};
use tokio::sync::Notify;

use super::auto_routes::Names;
use super::limits::RegistryLimits;
use super::publish::RegistryBackoff;
use super::table::{Answered, DiscoveryShared, ServiceOutcome, ServiceState};

/// The handle of one registry; cheap to clone.
#[derive(Clone)]
pub(crate) struct Services {
    shared: Arc<DiscoveryShared>,
    registry: &'static str,
    wanted_changed: Arc<Notify>,
    limits: RegistryLimits,
}

impl Services {
    /// The handle of the registry of that kind.
    pub(super) fn new(shared: Arc<DiscoveryShared>, registry: &'static str) -> Services {
        let wanted_changed = shared.wanted_changed(registry);
        Services { shared, registry, wanted_changed, limits: RegistryLimits::default() }
    }

    /// The services that upstreams follow now, ordered.
    pub(crate) fn wanted(&self) -> Vec<ServiceKey> {
        self.shared.wanted(self.registry)
    }

    /// The followed services without an outcome of this following, that is neither an answer nor a failure:
    /// new ones, and those that were followed again. With the number of the oldest follower, which tells one
    /// following from the next.
    pub(super) fn unanswered(&self) -> BTreeMap<ServiceKey, u64> {
        let table = self.shared.table.lock();
        let services = table.get(self.registry).into_iter().flat_map(|state| &state.services);
        let unanswered = services.filter(|(_, service)| {
            matches!(service.outcome, ServiceOutcome::Pending | ServiceOutcome::Copied)
                && service.failure.is_none()
        });
        let oldest = |(key, service): (&ServiceKey, &ServiceState)| {
            Some((key.clone(), service.followers.iter().map(|(number, _)| *number).min()?))
        };
        unanswered.filter_map(oldest).collect()
    }

    /// Waits until [`Services::wanted`] has changed since the last call; only one task may wait.
    pub(crate) async fn wanted_changed(&self) {
        self.wanted_changed.notified().await;
    }

    /// A good answer for one service, possibly empty. It is ignored where no upstream follows the service.
    pub(crate) fn answer(&self, key: &ServiceKey, instances: Vec<ServiceInstance>) {
        self.shared.answer(self.registry, key, Answered::Instances(instances, None), &self.limits);
    }

    /// A good answer for one service, with the reason why other instances of the registry are left out. It is
    /// ignored where no upstream follows the service.
    pub(crate) fn answer_with(
        &self,
        key: &ServiceKey,
        instances: Vec<ServiceInstance>,
        reason: Option<String>,
    ) {
        self.shared.answer(self.registry, key, Answered::Instances(instances, reason), &self.limits);
    }

    /// A good answer of which a part is missing, with the reason: it counts as a failure as well.
    pub(super) fn answer_in_part(&self, key: &ServiceKey, instances: Vec<ServiceInstance>, reason: String) {
        self.shared.count_failure(self.registry);
        self.answer_with(key, instances, Some(reason));
    }

    /// The registry has answered that it does not know the service: its nodes are taken out.
    pub(crate) fn unknown(&self, key: &ServiceKey) {
        self.shared.answer(self.registry, key, Answered::Unknown, &self.limits);
    }

    /// A good answer for all services at once: a service that is not in `all` is unknown to the registry. One
    /// faulty service keeps its last good instances.
    pub(crate) fn replace_all(&self, all: BTreeMap<ServiceKey, Vec<ServiceInstance>>) {
        self.shared.replace_all(self.registry, all, &self.limits);
    }

    /// Namespace, group and arguments of the services that the registry is to list, as a key without a
    /// service; none where no routes are made of them.
    pub(super) fn list_of(&self) -> Option<ServiceKey> {
        self.shared.auto_routes.as_ref()?.list_of(self.registry)
    }

    /// The names of all services of the registry. An empty list is an answer.
    pub(super) fn listed(&self, names: Names) {
        self.shared.listed(self.registry, names, &self.limits);
    }

    /// Lists the services without end, by an `ask` each `interval` and after a growing pause where it failed.
    pub(super) async fn list_by<A>(&self, interval: Duration, ask: impl Fn() -> A)
    where
        A: Future<Output = Result<Names, String>>,
    {
        let mut pause = RegistryBackoff::default();
        loop {
            match ask().await {
                Ok(names) => {
                    self.listed(names);
                    pause.reset();
                    tokio::time::sleep(interval).await;
                }
                Err(reason) => {
                    self.list_failed(&reason);
                    pause.wait().await;
                }
            }
        }
    }

    /// The services of the registry cannot be listed; the last list stays in force.
    pub(super) fn list_failed(&self, reason: &str) {
        if let Some(routes) = &self.shared.auto_routes {
            routes.failed(self.registry, reason);
        }
    }

    /// The instance of services that the registry does not know (`default_service`).
    pub(crate) fn set_default(&self, instance: Option<ServiceInstance>) {
        self.shared.set_default(self.registry, instance);
    }

    /// The registry, or one service, cannot be asked, or has answered something unusable. The last good
    /// answers stay in force; it is logged when it begins.
    pub(crate) fn failed(&self, key: Option<&ServiceKey>, reason: &str) {
        self.shared.failed(self.registry, key, reason);
    }
}

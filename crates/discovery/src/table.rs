//! The known state of all services: the last good answers, failures, and the followers that are called after
//! each change. It asks nothing and opens no file but through the copies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use model::discovery::{OnChange, ServiceInstance, ServiceKey, ServiceNodes};
use model::outbound::OutboundPolicy;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use tokio::sync::Notify;

use super::auto_routes::{AutoRoutes, Names};
use super::copy::ServiceCopies;
use super::limits::{REASON_MAX_CHARS, RegistryLimits, shortened_to, usable};

/// State that the thread of the registries, the compiler and the control API share.
pub(super) struct DiscoveryShared {
    pub(super) table: Mutex<BTreeMap<&'static str, RegistryState>>,
    /// Notified when a followed service has its first outcome.
    settled: Condvar,
    /// The folder of the copies.
    pub(super) directory: Option<PathBuf>,
    /// The addresses that no instance may have.
    pub(super) policy: OutboundPolicy,
    /// Notified when there is something to save.
    pub(super) unsaved: Notify,
    /// Held while copies are written.
    pub(super) saving: Mutex<()>,
    /// The routes that are made of services, if a block asks for some.
    pub(super) auto_routes: Option<Arc<AutoRoutes>>,
}

/// One registry.
#[derive(Default)]
pub(super) struct RegistryState {
    /// Its block with secrets masked.
    pub(super) block: Value,
    pub(super) services: BTreeMap<ServiceKey, ServiceState>,
    /// Last good answers for services that are not followed yet, or not any more.
    pub(super) copies: ServiceCopies,
    /// The instance of unknown services.
    default: Option<ServiceInstance>,
    /// Whether the last answer listed all services, so that others are unknown.
    is_complete: bool,
    /// Services that began to be followed since the last wait for them.
    new: BTreeSet<ServiceKey>,
    /// Why the registry as a whole cannot be used.
    pub(super) failure: Option<Arc<str>>,
    pub(super) failures: u64,
    pub(super) last_good: Option<SystemTime>,
    wanted_changed: Arc<Notify>,
    pub(super) is_unsaved: bool,
    next_follower: u64,
}

/// One service.
#[derive(Default)]
pub(super) struct ServiceState {
    pub(super) instances: Arc<[ServiceInstance]>,
    pub(super) outcome: ServiceOutcome,
    /// Why it alone cannot be asked for.
    pub(super) failure: Option<Arc<str>>,
    /// Why instances were left out of the last good answer.
    partial: Option<Arc<str>>,
    pub(super) followers: Vec<(u64, OnChange)>,
}

/// The last good answer for a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ServiceOutcome {
    /// There was none yet.
    #[default]
    Pending,
    /// It comes from an earlier run, or from the time when the service was followed before.
    Copied,
    /// The registry has listed the instances.
    Known,
    /// The registry does not know the service.
    Unknown,
}

/// A good answer.
pub(super) enum Answered {
    /// With the reason why the registry has more instances than these.
    Instances(Vec<ServiceInstance>, Option<String>),
    Unknown,
}

/// The rules for instances.
#[derive(Clone, Copy)]
struct InstanceRules<'a> {
    limits: &'a RegistryLimits,
    policy: &'a OutboundPolicy,
}

/// Ends a following when it is dropped.
pub(super) struct Unfollow {
    pub(super) shared: Arc<DiscoveryShared>,
    pub(super) key: ServiceKey,
    pub(super) number: u64,
}

impl Drop for Unfollow {
    fn drop(&mut self) {
        self.shared.unfollow(&self.key, self.number);
    }
}

impl DiscoveryShared {
    pub(super) fn new(
        blocks: impl Iterator<Item = (&'static str, Value)>,
        directory: Option<PathBuf>,
        policy: OutboundPolicy,
    ) -> DiscoveryShared {
        let state = |(name, block)| (name, RegistryState { block, ..RegistryState::default() });
        DiscoveryShared {
            table: Mutex::new(blocks.map(state).collect()),
            settled: Condvar::new(),
            directory,
            policy,
            unsaved: Notify::new(),
            saving: Mutex::new(()),
            auto_routes: None,
        }
    }

    pub(super) fn with_auto_routes(self, auto_routes: Option<Arc<AutoRoutes>>) -> DiscoveryShared {
        DiscoveryShared { auto_routes, ..self }
    }

    /// The services that a registry lists now.
    pub(super) fn listed(&self, registry: &'static str, names: Names, limits: &RegistryLimits) {
        let Some(routes) = &self.auto_routes else { return };
        if names.len() > limits.services {
            let (found, limit) = (names.len(), limits.services);
            return routes.failed(registry, &format!("it lists {found} services; the limit is {limit}"));
        }
        if routes.listed(registry, names)
            && let Some(state) = self.table.lock().get_mut(registry)
        {
            state.is_unsaved = true;
            self.unsaved.notify_one();
        }
    }

    pub(super) fn has(&self, registry: &str) -> bool {
        self.table.lock().contains_key(registry)
    }

    pub(super) fn wanted_changed(&self, registry: &str) -> Arc<Notify> {
        let table = self.table.lock();
        table.get(registry).map(|state| Arc::clone(&state.wanted_changed)).unwrap_or_default()
    }

    pub(super) fn wanted(&self, registry: &str) -> Vec<ServiceKey> {
        let table = self.table.lock();
        let services = table.get(registry).into_iter().flat_map(|state| &state.services);
        services.filter(|(_, state)| !state.followers.is_empty()).map(|(key, _)| key.clone()).collect()
    }

    /// Adds a follower, and returns its number.
    pub(super) fn follow(&self, key: &ServiceKey, on_change: OnChange) -> u64 {
        let mut table = self.table.lock();
        let Some(state) = table.get_mut(&*key.registry) else {
            let note = format!("the registry {} is not configured", key.registry);
            on_change(&ServiceNodes { note: Some(note.into()), ..ServiceNodes::default() });
            return 0;
        };
        state.next_follower += 1;
        let number = state.next_follower;
        if !state.services.contains_key(key) {
            let service = state.new_service(key);
            state.services.insert(key.clone(), service);
            state.new.insert(key.clone());
        }
        let shown = state.nodes(key);
        on_change(&shown);
        let service = state.services.get_mut(key).expect("it was put in a few lines above");
        let is_new = service.followers.is_empty();
        service.followers.push((number, on_change));
        if is_new {
            state.wanted_changed.notify_one();
        }
        number
    }

    fn unfollow(&self, key: &ServiceKey, number: u64) {
        let mut table = self.table.lock();
        let Some(state) = table.get_mut(&*key.registry) else { return };
        let Some(service) = state.services.get_mut(key) else { return };
        let at = service.followers.iter().position(|(found, _)| *found == number);
        let dropped = at.map(|at| service.followers.swap_remove(at));
        if service.followers.is_empty() {
            if !(state.is_complete && service.outcome == ServiceOutcome::Known) {
                let removed = state.services.remove(key).filter(|service| !service.instances.is_empty());
                if let Some(service) = removed {
                    state.copies.insert(key.clone(), service.instances, &RegistryLimits::default());
                }
                state.new.remove(key);
            }
            state.wanted_changed.notify_one();
        }
        drop(table);
        // After the lock, because the function may hold the last reference to something that follows a
        // service itself.
        drop(dropped);
    }

    pub(super) fn answer(
        &self,
        registry: &'static str,
        key: &ServiceKey,
        answer: Answered,
        limits: &RegistryLimits,
    ) {
        let mut table = self.table.lock();
        let Some(state) = table.get_mut(registry) else { return };
        if !state.services.contains_key(key) {
            return;
        }
        state.heard(registry);
        state.take(registry, key, answer, InstanceRules { limits, policy: &self.policy });
        self.changed(state);
    }

    pub(super) fn replace_all(
        &self,
        registry: &'static str,
        all: BTreeMap<ServiceKey, Vec<ServiceInstance>>,
        limits: &RegistryLimits,
    ) {
        let instances: usize = all.values().map(Vec::len).sum();
        if all.len() > limits.services || instances > limits.registry_instances {
            let reason = format!(
                "it lists {} services with {instances} instances; the limits are {} and {}",
                all.len(),
                limits.services,
                limits.registry_instances
            );
            return self.failed(registry, None, &reason);
        }
        let mut table = self.table.lock();
        let Some(state) = table.get_mut(registry) else { return };
        state.heard(registry);
        state.is_complete = true;
        let rules = InstanceRules { limits, policy: &self.policy };
        state.copies.clear();
        let gone: BTreeSet<ServiceKey> =
            state.services.keys().filter(|key| !all.contains_key(*key)).cloned().collect();
        for (key, instances) in all {
            state.services.entry(key.clone()).or_default();
            state.take(registry, &key, Answered::Instances(instances, None), rules);
        }
        for key in gone {
            if state.services.get(&key).is_some_and(|service| service.followers.is_empty()) {
                state.services.remove(&key);
                state.is_unsaved = true;
            } else {
                state.take(registry, &key, Answered::Unknown, rules);
            }
        }
        self.changed(state);
    }

    pub(super) fn set_default(&self, registry: &str, instance: Option<ServiceInstance>) {
        if let Some(state) = self.table.lock().get_mut(registry) {
            state.default = instance;
        }
    }

    pub(super) fn failed(&self, registry: &'static str, key: Option<&ServiceKey>, reason: &str) {
        let mut table = self.table.lock();
        let Some(state) = table.get_mut(registry) else { return };
        state.failures += 1;
        match key {
            Some(key) => state.service_failed(registry, key, reason),
            None => {
                let reason: Arc<str> = shortened_to(reason, REASON_MAX_CHARS).into();
                if state.failure.is_none() {
                    tracing::warn!(registry, %reason, "a registry cannot be used; the last good answers stay in force");
                }
                let before = state.failure.replace(reason);
                let concerned: Vec<ServiceKey> = match before == state.failure {
                    true => Vec::new(),
                    false => state.services.keys().cloned().collect(),
                };
                for key in concerned {
                    // Only the note of services without instances says why.
                    if state.services.get(&key).is_some_and(|service| service.instances.is_empty()) {
                        state.call(&key);
                    }
                }
            }
        }
        self.settled.notify_all();
    }

    /// Counts a failure of which an answer tells the reason.
    pub(super) fn count_failure(&self, registry: &str) {
        if let Some(state) = self.table.lock().get_mut(registry) {
            state.failures += 1;
        }
    }

    /// Waits until no service is pending that began to be followed since the last call, or for as long as
    /// `limit`. Services of earlier calls are not waited for again, because a silent registry would delay
    /// each later change. Returns whether all of them have an outcome.
    pub(super) fn settle(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut table = self.table.lock();
        let is_pending = |state: &RegistryState| state.new.iter().any(|key| state.nodes(key).is_pending);
        let mut is_settled = true;
        while is_settled && table.values().any(is_pending) {
            is_settled = !self.settled.wait_until(&mut table, deadline).timed_out();
        }
        table.values_mut().for_each(|state| state.new.clear());
        if !is_settled {
            tracing::warn!(
                "not every registry has answered yet; upstreams without nodes are answered 503 until then"
            );
        }
        is_settled
    }

    fn changed(&self, state: &RegistryState) {
        if state.is_unsaved {
            self.unsaved.notify_one();
        }
        self.settled.notify_all();
    }
}

impl RegistryState {
    /// The state of a service that nothing follows yet.
    fn new_service(&mut self, key: &ServiceKey) -> ServiceState {
        let copied = self.copies.get(key).cloned();
        let outcome = match (&copied, self.is_complete) {
            (Some(_), _) => ServiceOutcome::Copied,
            (None, true) => ServiceOutcome::Unknown,
            (None, false) => ServiceOutcome::Pending,
        };
        ServiceState { instances: copied.unwrap_or_default(), outcome, ..ServiceState::default() }
    }

    /// The registry has answered.
    fn heard(&mut self, registry: &'static str) {
        self.last_good = Some(SystemTime::now());
        if self.failure.take().is_some() {
            tracing::info!(registry, "the registry can be used again");
        }
    }

    fn take(&mut self, registry: &'static str, key: &ServiceKey, answer: Answered, rules: InstanceRules<'_>) {
        let (instances, outcome, partial) = match answer {
            Answered::Instances(instances, reason) => match usable(instances, rules.limits, rules.policy) {
                Ok((instances, partial)) => (instances, ServiceOutcome::Known, partial.or(reason)),
                Err(reason) => {
                    self.failures += 1;
                    return self.service_failed(registry, key, &reason);
                }
            },
            Answered::Unknown => (Vec::new(), ServiceOutcome::Unknown, None),
        };
        let before = self.nodes(key);
        let Some(service) = self.services.get_mut(key) else { return };
        if service.failure.take().is_some() {
            tracing::info!(registry, service = &*key.service, "the service can be asked for again");
        }
        if let Some(reason) = partial.as_deref().filter(|_| service.partial.is_none()) {
            tracing::warn!(registry, service = &*key.service, %reason, "instances of a service cannot be used");
        }
        service.partial = partial.map(Into::into);
        let is_new = service.outcome != outcome;
        service.outcome = outcome;
        if *service.instances != *instances {
            service.instances = instances.into();
            self.is_unsaved = true;
        }
        self.is_unsaved |= is_new;
        self.copies.remove(key);
        let after = self.nodes(key);
        let is_same = Arc::ptr_eq(&before.instances, &after.instances) && before.note == after.note;
        if is_new || !is_same {
            self.call(key);
        }
    }

    fn service_failed(&mut self, registry: &'static str, key: &ServiceKey, reason: &str) {
        let Some(service) = self.services.get_mut(key) else { return };
        let reason: Arc<str> = shortened_to(reason, REASON_MAX_CHARS).into();
        if service.failure.is_none() {
            let kept = service.instances.len();
            tracing::warn!(registry, service = &*key.service, %reason, kept, "a service cannot be asked for; the last good answer stays in force");
        }
        let before = service.failure.replace(reason);
        if before != service.failure {
            self.call(key);
        }
    }

    /// Calls the followers of a service.
    fn call(&self, key: &ServiceKey) {
        let Some(service) = self.services.get(key) else { return };
        if service.followers.is_empty() {
            return;
        }
        let nodes = self.nodes(key);
        for (_, on_change) in &service.followers {
            on_change(&nodes);
        }
    }

    /// The instances of a service, with the reason where there are none or fewer.
    pub(super) fn nodes(&self, key: &ServiceKey) -> ServiceNodes {
        let Some(service) = self.services.get(key) else { return ServiceNodes::default() };
        let (name, registry) = (&key.service, &key.registry);
        let failure = service.failure.as_ref().or(self.failure.as_ref());
        if service.outcome == ServiceOutcome::Unknown
            && let Some(default) = &self.default
        {
            let note = format!("the registry {registry} does not know {name}: default_service serves");
            let instances = Arc::from([default.clone()]);
            return ServiceNodes { instances, note: Some(note.into()), is_pending: false };
        }
        let note = if !service.instances.is_empty() {
            service.partial.clone()
        } else {
            let said = match service.outcome {
                ServiceOutcome::Known | ServiceOutcome::Copied => {
                    let reason = service.partial.as_deref().map(|reason| format!(": {reason}"));
                    format!(
                        "the registry {registry} knows no instance of {name}{}",
                        reason.unwrap_or_default()
                    )
                }
                ServiceOutcome::Unknown => {
                    format!("the registry {registry} does not know the service {name}")
                }
                ServiceOutcome::Pending => format!("the registry {registry} has not answered for {name} yet"),
            };
            let failed = failure.map(|reason| format!("; it fails: {reason}")).unwrap_or_default();
            Some(format!("{said}{failed}").into())
        };
        let is_pending = service.outcome == ServiceOutcome::Pending && failure.is_none();
        ServiceNodes { instances: Arc::clone(&service.instances), note, is_pending }
    }
}

/// The name of a service as lists show it: namespace and group before the name and the arguments behind it,
/// where it has them, so that two services do not have the same name.
pub(super) fn shown_name(key: &ServiceKey) -> String {
    let before = [&key.namespace, &key.group].into_iter().filter(|part| !part.is_empty());
    let parts: Vec<&str> = before.map(|part| &**part).chain([&*key.service]).collect();
    let args: Vec<String> = key.args.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let name = parts.join("/");
    if args.is_empty() { name } else { format!("{name} ({})", args.join(", ")) }
}

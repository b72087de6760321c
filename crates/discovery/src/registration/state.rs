//! The state of the registrations, as views and metrics show it. It asks no registry.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use stdx::prometheus_text::{header, sample};

use crate::limits::shortened_to;

/// The states of all registrations, by registry.
#[derive(Default)]
pub(super) struct States {
    all: Mutex<BTreeMap<&'static str, RegistrationState>>,
    changed: Condvar,
}

struct RegistrationState {
    /// The identity, as views show it.
    identity: Value,
    stage: RegistrationStage,
    /// The last good answer of the registry.
    last_good: Option<Instant>,
    failures: u64,
    /// How often the registry had lost the instance.
    losses: u64,
    failure: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RegistrationStage {
    /// The instance is not ready, or was not registered yet.
    Waiting,
    Registered,
    Withdrawn,
}

impl RegistrationStage {
    fn as_str(self) -> &'static str {
        match self {
            RegistrationStage::Waiting => "waiting",
            RegistrationStage::Registered => "registered",
            RegistrationStage::Withdrawn => "withdrawn",
        }
    }
}

impl States {
    pub(super) fn add(&self, registry: &'static str, identity: Value) {
        let state = RegistrationState {
            identity,
            stage: RegistrationStage::Waiting,
            last_good: None,
            failures: 0,
            losses: 0,
            failure: None,
        };
        self.all.lock().insert(registry, state);
    }

    /// The registry has registered the instance, or renewed its registration.
    pub(super) fn registered(&self, registry: &'static str) {
        self.change(registry, |state| {
            if state.stage == RegistrationStage::Waiting {
                tracing::info!(registry, "this instance is registered");
            } else if state.failure.is_some() {
                tracing::info!(registry, "the registration of this instance can be renewed again");
            }
            state.stage = RegistrationStage::Registered;
            state.last_good = Some(Instant::now());
            state.failure = None;
        });
    }

    /// The registry does not know the instance any more.
    pub(super) fn lost(&self, registry: &'static str) {
        self.change(registry, |state| {
            tracing::warn!(registry, "the registry has lost this instance, which is registered again");
            state.stage = RegistrationStage::Waiting;
            state.losses += 1;
        });
    }

    /// A call has failed; it is logged when failures begin and when their reason changes.
    pub(super) fn failed(&self, registry: &'static str, reason: &str) {
        self.change(registry, |state| {
            let reason = shortened_to(reason, REASON_MAX_CHARS);
            state.failures += 1;
            if state.failure.as_deref() != Some(&*reason) {
                tracing::warn!(registry, %reason, "the registration of this instance fails; it is tried again");
            }
            state.failure = Some(reason);
        });
    }

    /// The instance is out, or the attempt to take it out is given up with a reason.
    pub(super) fn withdrawn(&self, registry: &'static str, failure: Option<String>) {
        self.change(registry, |state| {
            match &failure {
                None => tracing::info!(registry, "this instance is taken out"),
                Some(reason) => {
                    tracing::warn!(registry, %reason, "this instance cannot be taken out; its lease has to end");
                }
            }
            state.stage = RegistrationStage::Withdrawn;
            state.failure = failure;
        });
    }

    /// Waits until every instance is taken out, at most for `limit` or until `abandon`. True if no attempt
    /// has failed.
    pub(super) fn wait_until_withdrawn(&self, limit: Duration, abandon: &dyn Fn() -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut all = self.all.lock();
        let is_out = |state: &RegistrationState| state.stage == RegistrationStage::Withdrawn;
        while !all.values().all(is_out) && Instant::now() < deadline && !abandon() {
            self.changed.wait_for(&mut all, ABANDON_POLL);
        }
        all.values().all(|state| is_out(state) && state.failure.is_none())
    }

    fn change(&self, registry: &'static str, change: impl FnOnce(&mut RegistrationState)) {
        if let Some(state) = self.all.lock().get_mut(registry) {
            change(state);
        }
        self.changed.notify_all();
    }

    /// See `Registration::shown`.
    pub(super) fn shown(&self) -> Value {
        let shown = |(registry, state): (&&'static str, &RegistrationState)| {
            let mut shown = state.identity.clone();
            shown["state"] = Value::from(state.stage.as_str());
            shown["seconds_since_answer"] = json!(state.last_good.map(|at| at.elapsed().as_secs()));
            shown["failures"] = Value::from(state.failures);
            shown["losses"] = Value::from(state.losses);
            shown["failure"] = json!(state.failure);
            ((*registry).to_owned(), shown)
        };
        Value::Object(self.all.lock().iter().map(shown).collect())
    }

    /// See `Registration::write_metrics`.
    pub(super) fn write_metrics(&self, text: &mut String) {
        let all = self.all.lock();
        let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&RegistrationState) -> u64| {
            header(text, name, kind, help);
            for (registry, state) in all.iter() {
                sample(text, name, &[("registry", registry)], value(state));
            }
        };
        let help = "Whether this instance is registered.";
        family("weir_registration_registered", "gauge", help, &|state| {
            u64::from(state.stage == RegistrationStage::Registered)
        });
        let help = "Failed calls to register this instance or to renew its registration.";
        family("weir_registration_failures_total", "counter", help, &|state| state.failures);
        let help = "How often a registry had lost this instance.";
        family("weir_registration_losses_total", "counter", help, &|state| state.losses);
    }
}

/// Characters of a reason that views and the log show.
const REASON_MAX_CHARS: usize = 500;
/// How often a wait looks whether it is to be given up.
const ABANDON_POLL: Duration = Duration::from_millis(20);

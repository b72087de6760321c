//! Bringing changed secrets into force: the objects that refer to them are published again under the same revision. It
//! refuses to know where secrets come from.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use model::{Applied, Difference, Fault, Key};

use super::Reconciler;

impl Reconciler {
    /// Before `applied` is compiled: its references are taken up. At the first start their values are waited for, within
    /// a bound, so that a gateway that just started lets in whom it let in before.
    pub(super) fn prepare_secrets(&mut self, applied: &Applied) {
        let secrets = &self.parts.secrets;
        secrets.follow(applied);
        if !self.secrets_awaited {
            self.secrets_awaited = true;
            secrets.await_first(Instant::now() + FIRST_WAIT);
            // What came meanwhile is compiled in a moment.
            drop(secrets.take_changed());
        }
    }

    /// What is wrong with the references of what was just compiled.
    pub(super) fn secret_faults(&self, applied: &Applied) -> Vec<Fault> {
        let faults = self.parts.secrets.faults(applied);
        for fault in &faults {
            tracing::warn!(%fault, "a reference to a secret is not resolved");
        }
        faults
    }

    /// Publishes the objects that refer to secrets whose values have changed.
    pub(super) fn take_changed_secrets(&mut self) {
        let changed = self.parts.secrets.take_changed();
        let keys: BTreeSet<Key> =
            changed.iter().flat_map(|reference| self.snapshot.referring_to_secret(reference)).collect();
        let difference = |key: Key| {
            let object = self.snapshot.get(&key)?.clone();
            Some(Difference { key, before: Some(object.clone()), after: Some(object) })
        };
        let diff: Vec<Difference> = keys.into_iter().filter_map(difference).collect();
        if diff.is_empty() {
            return;
        }
        tracing::info!(objects = diff.len(), "secrets have changed");
        self.publish(Applied { snapshot: self.snapshot.clone(), diff, faults: Vec::new() });
    }
}

/// A secret manager on the same network answers in milliseconds. One that is down keeps a gateway from starting no
/// longer than this; what needs its secrets stays closed.
const FIRST_WAIT: Duration = Duration::from_secs(5);

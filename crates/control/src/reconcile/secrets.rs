//! Bringing changed secrets into force: the objects that refer to them are published again under the same
//! revision. It does not know where secrets come from.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use model::{Applied, ConfigFault, Difference, ObjectKey};

use super::Reconciler;

impl Reconciler {
    /// Takes up the references of `applied` before it is compiled. At the first start it waits for their
    /// values, at most [`FIRST_WAIT`], so that a gateway that has just started accepts the same clients as
    /// before.
    pub(super) fn prepare_secrets(&mut self, applied: &Applied) {
        let secrets = &self.parts.secrets;
        secrets.follow(applied);
        if !self.secrets_awaited {
            self.secrets_awaited = true;
            secrets.await_first(Instant::now() + FIRST_WAIT);
            // The values that arrived during the wait are compiled next, so that no second publication is
            // needed.
            drop(secrets.take_changed());
        }
    }

    /// The faults of the references in the objects that were just compiled.
    pub(super) fn secret_faults(&self, applied: &Applied) -> Vec<ConfigFault> {
        let faults = self.parts.secrets.faults(applied);
        for fault in &faults {
            tracing::warn!(%fault, "a reference to a secret is not resolved");
        }
        faults
    }

    /// Publishes the objects that refer to secrets with changed values.
    pub(super) fn take_changed_secrets(&mut self) {
        let changed = self.parts.secrets.take_changed();
        let keys: BTreeSet<ObjectKey> =
            changed.iter().flat_map(|reference| self.served().referring_to_secret(reference)).collect();
        let objects = self.publish_again(keys);
        if objects > 0 {
            tracing::info!(objects, "secrets have changed");
        }
    }

    /// Publishes the certificates with changed OCSP responses.
    pub(super) fn take_changed_staples(&mut self) {
        let changed = self.parts.ocsp.take_changed();
        self.publish_again(changed);
    }

    /// Publishes unchanged objects again, and returns their number.
    fn publish_again(&mut self, keys: BTreeSet<ObjectKey>) -> usize {
        let difference = |key: ObjectKey| {
            let object = self.served().get(&key)?.clone();
            Some(Difference { key, before: Some(object.clone()), after: Some(object) })
        };
        let diff: Vec<Difference> = keys.into_iter().filter_map(difference).collect();
        let objects = diff.len();
        if objects > 0 {
            self.publish(Applied { snapshot: self.snapshot.clone(), diff, faults: Vec::new() });
        }
        objects
    }
}

/// Longest wait for secrets at the first start. A secret manager on the same network answers in milliseconds,
/// and one that is down must not prevent the start; objects that need its secrets then refuse access.
const FIRST_WAIT: Duration = Duration::from_secs(5);

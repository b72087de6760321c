//! Whole sets and going back, in the embedded store: one transaction for everything that differs. It does not
//! know where a set comes from.

use std::sync::Arc;

use model::{FaultPolicy, SnapshotChange, WrittenObject};

use super::super::Reconciler;
use super::super::whole::{Differing, Terms, WholeRefused, collect_set_faults, unreadable};
use super::EmbeddedStore;
use crate::reconcile::stored_change::stored_change;
use crate::sealing::StorageMedium;
use crate::source::store::{Expect, RevisionLabel, StoreError, Transaction};
use crate::{plan, stored_key};

impl EmbeddedStore {
    /// Writes what differs in one revision, with whatever else is to be kept in the same transaction, and
    /// publishes it. Where nothing differs, only that else is written, under the revision there is.
    pub(in crate::reconcile) fn change_all(
        &mut self,
        reconciler: &mut Reconciler,
        differing: &[Differing],
        terms: &Terms<'_>,
        keep: impl FnOnce(&mut Transaction<'_>) -> Result<(), StoreError>,
    ) -> Result<(), WholeRefused> {
        let view = reconciler.parts.view.load();
        let at_ms = reconciler.parts.clock.unix_ms();
        let mut transaction = self.store.begin()?;
        transaction.sign(RevisionLabel { at_ms, source: terms.source, by: Arc::clone(terms.author) });
        let revision = if differing.is_empty() { transaction.revision() } else { transaction.advance() };
        for differing in differing {
            let path = stored_key::format_stored_key(&differing.key);
            match &differing.after {
                Some(text) => {
                    let text = reconciler.parts.sealer.seal_for(StorageMedium::Store, &differing.key, text);
                    transaction.put(&path, &text, Expect::Any, differing.expires_at_ms)?;
                }
                None => {
                    transaction.delete(&path)?;
                }
            }
        }
        let changes: Vec<SnapshotChange> =
            differing.iter().map(|differing| differing.change(&view, revision)).collect();
        let policy = if terms.strict.is_some() { FaultPolicy::Strict } else { FaultPolicy::Lenient };
        let applied = reconciler.snapshot.apply(&reconciler.parts.catalog, &changes, revision, policy);
        let faults = terms.strict.map(|set| collect_set_faults(&applied, set)).unwrap_or_default();
        if !faults.is_empty() {
            return Err(WholeRefused::Faulty(faults));
        }
        keep(&mut transaction)?;
        transaction.commit()?;
        self.publish(reconciler, (!differing.is_empty()).then_some(applied));
        Ok(())
    }

    /// The objects that differ from what was there at `version`.
    pub(super) fn differences_since(
        &self,
        reconciler: &Reconciler,
        version: u64,
    ) -> Result<Vec<Differing>, WholeRefused> {
        let (store, view) = (&self.store, reconciler.parts.view.load());
        let unknown = || WholeRefused::Unknown { version, oldest: store.oldest_version() };
        let now_ms = reconciler.parts.clock.unix_ms();
        let mut differing = Vec::new();
        for (path, record) in store.since(version)?.ok_or_else(unknown)? {
            // Paths of no object were reported at the start, and are left alone.
            let Some(key) = stored_key::parse_stored_key(&path) else { continue };
            // An object that has expired by now would only be removed again.
            let record = record
                .filter(|record| record.expires_at_ms.is_none_or(|expires_at_ms| expires_at_ms > now_ms));
            let expires_at_ms = record.as_ref().and_then(|record| record.expires_at_ms);
            let after = record.and_then(|record| {
                stored_change(&reconciler.parts.sealer, StorageMedium::Store, key.clone(), record).written
            });
            // Written again as it is shown, it would be lost.
            if let Some(reason) = after.as_ref().and_then(WrittenObject::why_unreadable) {
                return Err(WholeRefused::Faulty(vec![unreadable(&key, reason)]));
            }
            let after = after.map(|written| written.text);
            let before = view.written(&key).map(|written| Arc::clone(&written.text));
            let is_same = match (&before, &after) {
                (Some(before), Some(after)) => plan::same(key.kind, before, after),
                (before, after) => before.is_none() && after.is_none(),
            };
            if !is_same {
                differing.push(Differing { key, before, after, expires_at_ms });
            }
        }
        Ok(differing)
    }
}

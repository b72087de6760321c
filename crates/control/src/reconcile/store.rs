//! The embedded store as the source: it is loaded once, written in durable transactions, swept of expired
//! objects, and lent to another process during an upgrade. It does not know how the store keeps things.

mod journal;
mod whole;

use std::sync::Arc;

use model::{FaultPolicy, ObjectKey, SnapshotChange};

use super::batch::WriteBatch;
use super::configs::{ConfigsUpdate, Overtaken};
use super::source::{ConfigSource, SourceFacts, Wake};
use super::stored_change::stored_change;
use super::versions::{VersionFilter, VersionList, decrypt_record_text, plan_of};
use super::whole::{Differing, Terms, WholeRefused};
use super::write::{Done, WriteRefusal};
use super::{Flow, LoadError, Reconciler, Signed};
use crate::plan::ConfigPlan;
use crate::sealing::StorageMedium;
use crate::source::store::{
    ConfigStore, RevisionInfo, RevisionLabel, SetStatement, StoreError, VersionSource,
};
use crate::stored_key;
use journal::StoreJournal;

/// The embedded store; the Admin API writes it.
pub(crate) struct EmbeddedStore {
    store: ConfigStore,
    /// It was lent to another process and may hold more than the snapshot.
    behind: bool,
}

impl EmbeddedStore {
    pub(crate) fn new(store: ConfigStore) -> EmbeddedStore {
        EmbeddedStore { store, behind: false }
    }

    fn sweep(&mut self, reconciler: &mut Reconciler) {
        let now_ms = reconciler.parts.clock.unix_ms();
        if let Err(fault) = self.catch_up(reconciler) {
            tracing::error!(%fault, "the store cannot be taken back; it is tried again");
            reconciler.note_written(Err(fault.to_string()));
            return;
        }
        let expired = self.store.expired(now_ms, MAX_SWEPT);
        if expired.is_empty() {
            return;
        }
        let mut batch = match self.begin(reconciler, now_ms) {
            Ok(batch) => batch,
            Err(fault) => {
                tracing::warn!(%fault, "expired objects cannot be removed");
                reconciler.note_written(Err(fault.to_string()));
                return;
            }
        };
        batch.journal.sign(RevisionLabel {
            at_ms: now_ms,
            source: VersionSource::Expiry,
            by: THE_CLOCK.into(),
        });
        for path in expired {
            if let Err(refusal) = batch.expire(&path) {
                tracing::warn!(path, ?refusal, "an expired object cannot be removed");
            }
        }
        let committed = batch.finish().map(|(journal, applied)| journal.commit().map(|()| applied));
        match committed.transpose() {
            Ok(applied) => {
                self.publish(reconciler, applied);
                reconciler.note_written(Ok(()));
            }
            Err(fault) => {
                tracing::warn!(%fault, "expired objects cannot be removed");
                reconciler.note_written(Err(fault.to_string()));
            }
        }
    }

    fn not_kept(&self, version: u64) -> WholeRefused {
        WholeRefused::Unknown { version, oldest: self.store.oldest_version() }
    }

    /// A batch in a transaction of its own.
    fn begin<'s>(
        &'s mut self,
        reconciler: &'s Reconciler,
        now_ms: u64,
    ) -> Result<WriteBatch<'s, StoreJournal<'s>>, StoreError> {
        let journal = StoreJournal::new(self.store.begin()?, &reconciler.parts.sealer);
        Ok(WriteBatch::new(journal, &reconciler.parts.catalog, reconciler.snapshot.clone(), now_ms))
    }

    /// Brings into force what the store holds and the snapshot does not.
    fn take_stored(&mut self, reconciler: &mut Reconciler) -> Result<(), StoreError> {
        let store = &mut self.store;
        let configs = SetStatement::load(store)?;
        if configs != reconciler.configs {
            reconciler.configs = configs;
        }
        reconciler.changed = store.latest_change();
        let revision = store.revision();
        if revision != reconciler.snapshot.revision() {
            let records = store.load()?;
            // Paths of no object were reported at the start.
            let (changes, _) = reconciler.differing(StorageMedium::Store, records);
            let catalog = &reconciler.parts.catalog;
            let applied = reconciler.snapshot.apply(catalog, &changes, revision, FaultPolicy::Lenient);
            reconciler.publish(applied);
        }
        Ok(())
    }

    /// Publishes what a transaction that is durable has changed, if it changed anything.
    fn publish(&self, reconciler: &mut Reconciler, applied: Option<model::Applied>) {
        reconciler.changed = self.store.latest_change();
        if let Some(applied) = applied {
            reconciler.publish(applied);
        }
    }
}

impl ConfigSource for EmbeddedStore {
    fn facts(&self) -> SourceFacts {
        SourceFacts { identity: "store".to_owned(), has_revisions: true, logs_faults: false }
    }

    fn load(&mut self, reconciler: &mut Reconciler, _wake: Wake) -> Result<(), LoadError> {
        let revision = self.store.revision();
        let mut changes: Vec<SnapshotChange> = Vec::new();
        for (path, record) in self.store.load()? {
            match stored_key::parse_stored_key(&path) {
                Some(key) => {
                    changes.push(stored_change(&reconciler.parts.sealer, StorageMedium::Store, key, record));
                }
                None => {
                    let fault = format!("the store holds {path}, which is no object this version knows");
                    tracing::error!("{fault}");
                    reconciler.faults.push(fault);
                }
            }
        }
        reconciler.configs = SetStatement::load(&self.store)?;
        reconciler.changed = self.store.latest_change();
        reconciler.apply_first(changes, revision);
        Ok(())
    }

    fn tick(&mut self, reconciler: &mut Reconciler) {
        self.sweep(reconciler);
    }

    /// Takes the store back, if it was lent, and brings into force what was written meanwhile.
    fn catch_up(&mut self, reconciler: &mut Reconciler) -> Result<(), StoreError> {
        if !self.behind {
            return Ok(());
        }
        self.store.reopen()?;
        self.take_stored(reconciler)?;
        self.behind = false;
        reconciler.show();
        Ok(())
    }

    fn recover(&mut self, reconciler: &mut Reconciler) {
        let taken = if self.behind { self.catch_up(reconciler) } else { self.take_stored(reconciler) };
        if let Err(fault) = taken {
            tracing::error!(%fault, "the store cannot be read after a panic; the next write tries again");
        }
        reconciler.show();
    }

    fn write(&mut self, reconciler: &mut Reconciler, writes: Vec<Signed>) -> Vec<Result<Done, WriteRefusal>> {
        let now_ms = reconciler.parts.clock.unix_ms();
        let count = writes.len();
        let mut batch = match self.begin(reconciler, now_ms) {
            Ok(batch) => batch,
            Err(fault) => return vec![Err(WriteRefusal::Store(fault.to_string())); count],
        };
        let write = |signed: Signed| {
            let by = Arc::clone(&signed.author);
            batch.journal.sign(RevisionLabel { at_ms: now_ms, source: VersionSource::Admin, by });
            batch.write(signed)
        };
        let mut results: Vec<Result<Done, WriteRefusal>> = writes.into_iter().map(write).collect();
        let committed = batch.finish().map(|(journal, applied)| journal.commit().map(|()| applied));
        match committed.transpose() {
            Ok(applied) => self.publish(reconciler, applied),
            Err(fault) => {
                tracing::error!(%fault, "writes were lost before they were acknowledged");
                let refusal = WriteRefusal::Store(fault.to_string());
                results
                    .iter_mut()
                    .filter(|result| result.is_ok())
                    .for_each(|result| *result = Err(refusal.clone()));
            }
        }
        results
    }

    fn write_whole(
        &mut self,
        reconciler: &mut Reconciler,
        differing: &[Differing],
        terms: &Terms<'_>,
    ) -> Result<(), WholeRefused> {
        self.change_all(reconciler, differing, terms, |_| Ok(()))
    }

    fn put_configs(
        &mut self,
        reconciler: &mut Reconciler,
        put: ConfigsUpdate,
    ) -> Result<Result<(), Overtaken>, WholeRefused> {
        self.change_configs(reconciler, put)
    }

    fn differences_to(
        &mut self,
        reconciler: &Reconciler,
        version: u64,
    ) -> Result<Vec<Differing>, WholeRefused> {
        self.differences_since(reconciler, version)
    }

    fn versions(
        &mut self,
        reconciler: &Reconciler,
        below: u64,
        limit: usize,
        filter: &VersionFilter,
    ) -> Result<VersionList, WholeRefused> {
        let (revision, oldest) = (reconciler.snapshot.revision(), self.store.oldest_version());
        let admits = |version: &RevisionInfo| filter.admits(&version.label);
        let versions = self.store.versions_with(below, limit, filter.path().as_deref(), &admits)?;
        Ok(VersionList { revision, oldest, versions })
    }

    fn version(
        &mut self,
        reconciler: &Reconciler,
        version: u64,
    ) -> Result<(RevisionInfo, ConfigPlan), WholeRefused> {
        let (catalog, sealer) = (&reconciler.parts.catalog, &reconciler.parts.sealer);
        let (version, changed) = self.store.version(version)?.ok_or_else(|| self.not_kept(version))?;
        let plan = plan_of(catalog, sealer, StorageMedium::Store, version.parent, changed);
        Ok((version, plan))
    }

    fn object_at(
        &mut self,
        reconciler: &Reconciler,
        version: u64,
        key: &ObjectKey,
    ) -> Result<Option<Arc<str>>, WholeRefused> {
        let found = self.store.object_at(version, &stored_key::format_stored_key(key))?;
        let record = found.ok_or_else(|| self.not_kept(version))?;
        let sealer = &reconciler.parts.sealer;
        record.map_or(Ok(None), |record| decrypt_record_text(sealer, StorageMedium::Store, key, record))
    }

    fn plan_between(
        &mut self,
        reconciler: &Reconciler,
        from: u64,
        to: u64,
    ) -> Result<ConfigPlan, WholeRefused> {
        let changed = self.store.between(from, to)?.map_err(|version| self.not_kept(version))?;
        let (catalog, sealer) = (&reconciler.parts.catalog, &reconciler.parts.sealer);
        Ok(plan_of(catalog, sealer, StorageMedium::Store, from, changed))
    }

    fn release(&mut self) {
        self.store.close();
        self.behind = true;
    }

    /// One process at a time can open the store, so that it cannot be followed on.
    fn give_away(&mut self) -> Flow {
        Flow::Stop
    }
}

/// The author of the removal of expired objects.
const THE_CLOCK: &str = "weir";
/// Objects removed in one sweep; the rest goes with the next.
const MAX_SWEPT: usize = 10_000;

//! Older versions of the configuration in etcd: notes name their authors, and etcd's own past holds their
//! changes. It changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{ObjectKey, ObjectKind};

use super::super::Reconciler;
use super::super::versions::{VersionFilter, VersionList, decrypt_record_text, plan_of};
use super::super::whole::{DesiredSet, Differing, WholeRefused, differences, unreadable};
use super::super::write::WriteRefusal;
use crate::plan::ConfigPlan;
use crate::reconcile::stored_change::stored_change;
use crate::sealing::StorageMedium;
use crate::source::etcd::{EtcdError, EtcdSource};
use crate::source::store::{RecordChange, RevisionInfo, StoredRecord};
use crate::stored_key;

impl EtcdSource {
    /// The noted versions below `below` that pass the filter, newest first, at most `limit` of them.
    pub(super) fn noted_versions(
        &self,
        reconciler: &Reconciler,
        below: u64,
        limit: usize,
        filter: &VersionFilter,
    ) -> Result<VersionList, WholeRefused> {
        // etcd cannot look into the notes.
        let asked = if filter.is_open() { limit } else { MAX_NOTES };
        let noted = self.handle().block_on(self.etcd.notes(&self.space, below, asked)).map_err(refused)?;
        let path = filter.path();
        let versions = noted
            .into_iter()
            .filter(|note| path.as_ref().is_none_or(|path| note.paths.contains(path)))
            .map(|note| note.version)
            .filter(|version| filter.admits(&version.label))
            .take(limit)
            .collect();
        let revision = reconciler.snapshot.revision();
        Ok(VersionList { revision, oldest: self.oldest_known(reconciler), versions })
    }

    /// One version of etcd: its author is noted there, and its changes are in etcd's own past.
    pub(super) fn noted_version(
        &self,
        reconciler: &Reconciler,
        version: u64,
    ) -> Result<(RevisionInfo, ConfigPlan), WholeRefused> {
        let unknown = || WholeRefused::Unknown { version, oldest: self.oldest_known(reconciler) };
        let (client, space, handle) = (&self.etcd, &self.space, self.handle());
        let notes = handle.block_on(client.notes(space, version.saturating_add(1), 1)).map_err(refused)?;
        let note = notes.into_iter().find(|note| note.version.revision == version).ok_or_else(unknown)?;
        let at = |path: &str, revision| match handle.block_on(client.object_at(space, path, revision)) {
            Err(EtcdError::Compacted) => Err(unknown()),
            other => other.map_err(refused),
        };
        let mut changed = Vec::with_capacity(note.paths.len());
        for path in note.paths {
            let (before, after) = (at(&path, note.version.parent)?, at(&path, version)?);
            changed.push(RecordChange { key: path, before, after });
        }
        let parent = note.version.parent;
        let plan = plan_of(
            &reconciler.parts.catalog,
            &reconciler.parts.sealer,
            StorageMedium::Etcd,
            parent,
            changed,
        );
        Ok((note.version, plan))
    }

    /// The oldest noted version that etcd still knows; the revision in force where it knows none of them.
    fn oldest_known(&self, reconciler: &Reconciler) -> u64 {
        let (client, space, handle) = (&self.etcd, &self.space, self.handle());
        let now = reconciler.snapshot.revision();
        let Ok(notes) = handle.block_on(client.notes(space, u64::MAX, MAX_NOTES)) else { return now };
        // Newest first: those that are known come before those that are compacted.
        let known = notes.partition_point(|note| {
            handle.block_on(client.knows(space, note.version.revision)).unwrap_or(false)
        });
        known.checked_sub(1).map_or(now, |last| notes[last].version.revision)
    }

    /// All objects of etcd at a version, without those that have a time to live.
    fn entries_at(
        &self,
        reconciler: &Reconciler,
        version: u64,
    ) -> Result<Vec<(String, StoredRecord)>, WholeRefused> {
        self.refuse_newest(reconciler, version)?;
        self.handle()
            .block_on(self.etcd.at(&self.space, version))
            .map_err(|fault| self.not_known(reconciler, version, &fault))
    }

    /// The refusal for a version that etcd does not have, or for the fault itself.
    fn not_known(&self, reconciler: &Reconciler, version: u64, fault: &EtcdError) -> WholeRefused {
        if version > self.followed || *fault == EtcdError::Compacted {
            WholeRefused::Unknown { version, oldest: self.oldest_known(reconciler) }
        } else {
            WholeRefused::Write(WriteRefusal::Store(fault.to_string()))
        }
    }

    /// Refuses version 0, which no configuration has: etcd would answer with the newest one.
    fn refuse_newest(&self, reconciler: &Reconciler, version: u64) -> Result<(), WholeRefused> {
        if version > 0 {
            return Ok(());
        }
        Err(WholeRefused::Unknown { version, oldest: self.oldest_known(reconciler) })
    }

    /// The text of an object at a version; none if it did not exist.
    pub(super) fn known_object_at(
        &self,
        reconciler: &Reconciler,
        version: u64,
        key: &ObjectKey,
    ) -> Result<Option<Arc<str>>, WholeRefused> {
        self.refuse_newest(reconciler, version)?;
        let path = stored_key::format_stored_key(key);
        let found = self.handle().block_on(self.etcd.object_at(&self.space, &path, version));
        let record = found.map_err(|fault| self.not_known(reconciler, version, &fault))?;
        let sealer = &reconciler.parts.sealer;
        record.map_or(Ok(None), |record| decrypt_record_text(sealer, StorageMedium::Etcd, key, record))
    }

    /// The changes from one version to another.
    pub(super) fn plan_of_two(
        &self,
        reconciler: &Reconciler,
        from: u64,
        to: u64,
    ) -> Result<ConfigPlan, WholeRefused> {
        let mut changed: BTreeMap<String, RecordChange> = BTreeMap::new();
        for (path, record) in self.entries_at(reconciler, from)? {
            changed.insert(path.clone(), RecordChange { key: path, before: Some(record), after: None });
        }
        for (path, record) in self.entries_at(reconciler, to)? {
            let place = changed.entry(path.clone());
            place.or_insert(RecordChange { key: path, before: None, after: None }).after = Some(record);
        }
        let is_same = |changed: &RecordChange| match (&changed.before, &changed.after) {
            (Some(before), Some(after)) => before.text == after.text,
            _ => false,
        };
        let changed = changed.into_values().filter(|changed| !is_same(changed)).collect();
        let (catalog, sealer) = (&reconciler.parts.catalog, &reconciler.parts.sealer);
        Ok(plan_of(catalog, sealer, StorageMedium::Etcd, from, changed))
    }

    /// The objects that differ from what etcd held at a version.
    pub(super) fn differences_at(
        &self,
        reconciler: &Reconciler,
        version: u64,
    ) -> Result<Vec<Differing>, WholeRefused> {
        let entries = self.entries_at(reconciler, version)?;
        let mut set = DesiredSet {
            objects: Vec::with_capacity(entries.len()),
            complete: ObjectKind::ALL.to_vec(),
            deletes: Vec::new(),
        };
        for (path, record) in entries {
            let Some(key) = stored_key::parse_stored_key(&path) else { continue };
            let change = stored_change(&reconciler.parts.sealer, StorageMedium::Etcd, key.clone(), record);
            let Some(written) = change.written else { continue };
            if let Some(reason) = written.why_unreadable() {
                return Err(WholeRefused::Faulty(vec![unreadable(&key, reason)]));
            }
            set.objects.push((key, written.text));
        }
        Ok(differences(&reconciler.parts.view.load(), &set))
    }
}

fn refused(fault: EtcdError) -> WholeRefused {
    WholeRefused::Write(WriteRefusal::Store(fault.to_string()))
}

/// More notes than are kept.
const MAX_NOTES: usize = 10_000;

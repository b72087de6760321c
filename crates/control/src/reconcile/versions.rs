//! Reading which revisions are kept, in the store or in etcd, and the changes of each. It changes nothing.

use std::sync::Arc;

use model::{ObjectKey, PluginCatalog};

use super::ControlLoop;
use super::stored_change::stored_change;
use super::whole::{WholeRefused, unreadable};
use crate::plan::{self, ConfigPlan};
use crate::sealing::{Sealer, StorageMedium};
use crate::source::store::{RecordChange, RevisionInfo, RevisionLabel, StoredRecord};
use crate::stored_key;

/// A part of the list of revisions.
#[derive(Debug, Clone)]
pub(crate) struct VersionList {
    /// The revision in force.
    pub(crate) revision: u64,
    /// The oldest revision that a rollback can restore.
    pub(crate) oldest: u64,
    /// The revisions, newest first.
    pub(crate) versions: Vec<RevisionInfo>,
}

/// The revisions that a list has; the default admits all.
#[derive(Debug, Clone, Default)]
pub(crate) struct VersionFilter {
    /// Only those that changed this object.
    pub(crate) key: Option<ObjectKey>,
    /// Only those of an author with this text in its name, in small letters.
    pub(crate) by: Option<String>,
    /// Only those made at this time or later, in milliseconds since the Unix epoch.
    pub(crate) since_ms: Option<u64>,
}

impl VersionFilter {
    /// Whether author and time of a revision pass. The object is compared by the source.
    pub(crate) fn admits(&self, label: &RevisionLabel) -> bool {
        self.since_ms.is_none_or(|since_ms| label.at_ms >= since_ms)
            && self.by.as_ref().is_none_or(|by| label.by.to_lowercase().contains(by))
    }

    /// Whether it admits every revision.
    pub(crate) fn is_open(&self) -> bool {
        self.key.is_none() && self.by.is_none() && self.since_ms.is_none()
    }

    /// The key of the object as the store writes it.
    pub(crate) fn path(&self) -> Option<String> {
        self.key.as_ref().map(stored_key::format_stored_key)
    }
}

impl ControlLoop {
    /// The revisions below `below` that pass the filter, newest first, at most `limit` of them.
    pub(crate) fn versions(
        &mut self,
        below: u64,
        limit: usize,
        filter: &VersionFilter,
    ) -> Result<VersionList, WholeRefused> {
        self.source.catch_up(&mut self.reconciler)?;
        self.source.versions(&self.reconciler, below, limit, filter)
    }

    /// The text of an object at a revision; none if it did not exist.
    pub(crate) fn object_at(
        &mut self,
        version: u64,
        key: &ObjectKey,
    ) -> Result<Option<Arc<str>>, WholeRefused> {
        self.source.catch_up(&mut self.reconciler)?;
        self.source.object_at(&self.reconciler, version, key)
    }

    /// The changes from one revision to another, in either order.
    pub(crate) fn plan_between(&mut self, from: u64, to: u64) -> Result<ConfigPlan, WholeRefused> {
        self.source.catch_up(&mut self.reconciler)?;
        self.source.plan_between(&self.reconciler, from, to)
    }

    /// One revision and its changes.
    pub(crate) fn version(&mut self, version: u64) -> Result<(RevisionInfo, ConfigPlan), WholeRefused> {
        self.source.catch_up(&mut self.reconciler)?;
        self.source.version(&self.reconciler, version)
    }
}

/// The text of a stored object, its secrets decrypted.
pub(super) fn decrypt_record_text(
    sealer: &Sealer,
    medium: StorageMedium,
    key: &ObjectKey,
    record: StoredRecord,
) -> Result<Option<Arc<str>>, WholeRefused> {
    let written = stored_change(sealer, medium, key.clone(), record).written;
    if let Some(reason) = written.as_ref().and_then(model::WrittenObject::why_unreadable) {
        return Err(WholeRefused::Faulty(vec![unreadable(key, reason)]));
    }
    Ok(written.map(|written| written.text))
}

/// The changes of a revision, as a plan.
pub(crate) fn plan_of(
    catalog: &PluginCatalog,
    sealer: &Sealer,
    medium: StorageMedium,
    parent: u64,
    changed: Vec<RecordChange>,
) -> ConfigPlan {
    let change = |RecordChange { key: path, before, after }: RecordChange| {
        let key = stored_key::parse_stored_key(&path)?;
        let text = |record| {
            let change = stored_change(sealer, medium, key.clone(), record);
            change.written.map(|written| written.text)
        };
        let (before, after) = (before.and_then(text), after.and_then(text));
        plan::between(catalog, &key, before.as_deref(), after.as_deref())
    };
    ConfigPlan::new(parent, changed.into_iter().filter_map(change).collect())
}

//! The configuration on disk, for commands that run while no instance does. It starts nothing and changes
//! nothing.

use std::path::Path;

use model::{ConfigFault, FaultPolicy, PluginCatalog, Snapshot, SnapshotChange};
use serde_json::Value;

use crate::admin::weir::versions::{version_value, versions_value};
use crate::plan::ConfigPlan;
use crate::reconcile::stored_change::stored_change;
use crate::reconcile::{versions, whole};
use crate::sealing::{Sealer, StorageMedium};
use crate::source::etcd::LastGood;
use crate::source::file;
use crate::source::store::{ConfigStore, DirectoryLock, StoreError, StoredRecord};
use crate::stored_key;
use crate::view::View;

/// The objects of an embedded store that no instance has open; none where there is no store yet.
///
/// # Errors
/// The store cannot be opened, usually because an instance runs on it.
pub fn from_store(directory: &Path, sealer: &Sealer) -> Result<Vec<SnapshotChange>, StoreError> {
    if !ConfigStore::exists(directory) {
        return Ok(Vec::new());
    }
    let records = ConfigStore::open(directory)?.load()?;
    Ok(changes(sealer, StorageMedium::Store, records))
}

/// The objects that etcd had last, from the copy on this disk; none where there is no copy.
///
/// # Errors
/// The copy cannot be opened, usually because an instance runs on it.
pub fn from_etcd_copy(
    directory: &Path,
    prefix: &str,
    sealer: &Sealer,
) -> Result<Vec<SnapshotChange>, StoreError> {
    if !LastGood::exists(directory) {
        return Ok(Vec::new());
    }
    let lock = DirectoryLock::take(directory)?;
    let (_, kept) = LastGood::open(&lock, prefix)?;
    Ok(changes(sealer, StorageMedium::Etcd, kept.entries))
}

fn changes(
    sealer: &Sealer,
    medium: StorageMedium,
    entries: Vec<(String, StoredRecord)>,
) -> Vec<SnapshotChange> {
    let change = |(path, record): (String, StoredRecord)| {
        Some(stored_change(sealer, medium, stored_key::parse_stored_key(&path)?, record))
    };
    entries.into_iter().filter_map(change).collect()
}

/// The objects of a declarative file.
///
/// # Errors
/// The faults because of which the file is no document, one `file:line: path: reason` per line.
pub fn from_file(path: &Path) -> Result<Vec<SnapshotChange>, String> {
    let document = file::read_document(path).map_err(|faults| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })?;
    Ok(document.objects.iter().chain(&document.stand_ins).map(|object| object.change(1)).collect())
}

/// The changes that a set would make to those objects, as an instance that has them would report them.
///
/// # Errors
/// The objects of the set that are faulty.
pub fn plan_document(
    catalog: &PluginCatalog,
    objects: &[SnapshotChange],
    document: &file::ConfigDocument,
    keep_others: bool,
) -> Result<ConfigPlan, Vec<ConfigFault>> {
    let of = |change: &SnapshotChange| change.written.as_ref().map_or(0, |written| written.modified_index);
    let revision = objects.iter().map(of).max().unwrap_or_default();
    let snapshot = Snapshot::empty().apply(catalog, objects, revision, FaultPolicy::Lenient).snapshot;
    let view = View { snapshot, ..View::default() };
    whole::plan_set(catalog, &view, &whole::DesiredSet::of(document, keep_others))
}

/// The answer of `GET weir/versions`, or with a version of `GET weir/versions/N`, for a store that no
/// instance has open; none where the store keeps no such version.
///
/// # Errors
/// The store cannot be opened, usually because an instance runs on it.
pub fn history(
    catalog: &PluginCatalog,
    sealer: &Sealer,
    directory: &Path,
    version: Option<u64>,
    limit: usize,
) -> Result<Option<Value>, StoreError> {
    if !ConfigStore::exists(directory) {
        return Ok(version.is_none().then(|| versions_value(0, 0, &[])));
    }
    let store = ConfigStore::open(directory)?;
    let Some(version) = version else {
        let versions = store.versions(u64::MAX, limit)?;
        return Ok(Some(versions_value(store.revision(), store.oldest_version(), &versions)));
    };
    let found = store.version(version)?;
    Ok(found.map(|(version, changed)| {
        let plan = versions::plan_of(catalog, sealer, StorageMedium::Store, version.parent, changed);
        version_value(&version, &plan)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_makes_no_store() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("weir-data");
        let sealer = crate::testing::sealer(&[]);
        assert!(from_store(&directory, &sealer).unwrap().is_empty());
        assert!(!directory.exists());
    }
}

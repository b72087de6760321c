//! The changes of every revision: author, time, way, and each object as it was before. Applied backwards from
//! the newest revision, they give the state of every kept revision. It knows neither the meaning of the
//! objects nor the reason for a rollback.
//!
//! A version is a kept revision. Beside the objects the store has a table of heads (revision →
//! [`RevisionInfo`]) and a table of earlier records ((revision, key) → record, empty for an object that did
//! not exist). Both are written in the transaction of the change itself. The state after a change is not
//! stored: it is the earlier record of the key's next change, or the present object.

mod find;
mod version;

use std::collections::{BTreeMap, HashMap};

use redb::{ReadTransaction, ReadableTable, TableDefinition, TableError, WriteTransaction};

use super::guard::Leaked;
use super::{ConfigStore, OBJECTS, StoreError, StoredRecord, failed};

pub use version::{RevisionInfo, RevisionLabel, VersionSource};

/// One object of a revision: before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    /// The key's text.
    pub key: String,
    /// The record before; none: it did not exist.
    pub before: Option<StoredRecord>,
    /// The record after; none: it was removed.
    pub after: Option<StoredRecord>,
}

/// The part of the log that is held in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RevisionLog {
    /// Count of kept revisions.
    count: usize,
    /// Size of their changes in bytes.
    bytes: u64,
    /// The revision before the oldest kept one; none where no revision is kept.
    base: Option<u64>,
    /// The newest revision and its time in milliseconds.
    latest: Option<(u64, u64)>,
    /// Whether the table still has rows of revisions that are no longer kept.
    leftover: bool,
    /// Whether a write was not recorded, so that the next write starts a new log.
    stale: bool,
    /// Limits of the log.
    pub(super) limits: RevisionLogLimits,
}

/// Limits of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RevisionLogLimits {
    pub(super) versions: usize,
    pub(super) bytes: u64,
}

/// The changes of one revision that are not committed yet.
#[derive(Debug)]
pub(super) struct PendingRevision {
    revision: u64,
    label: RevisionLabel,
    changes: Vec<(String, Option<StoredRecord>)>,
}

impl Default for RevisionLogLimits {
    fn default() -> RevisionLogLimits {
        RevisionLogLimits { versions: VERSIONS_MAX, bytes: VERSIONS_BYTES_MAX }
    }
}

impl ConfigStore {
    /// The newest recorded change, and its time in milliseconds; none where no change is recorded.
    pub fn latest_change(&self) -> Option<(u64, u64)> {
        self.log.latest
    }

    /// The oldest revision with a known state.
    pub fn oldest_version(&self) -> u64 {
        self.log.base.unwrap_or(self.revision)
    }

    /// The revisions below `below`, newest first, at most `limit` of them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn versions(&self, below: u64, limit: usize) -> Result<Vec<RevisionInfo>, StoreError> {
        self.versions_with(below, limit, None, &|_| true)
    }

    /// One revision with every object that it changed, ordered by key; none where it is not kept.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn version(&self, revision: u64) -> Result<Option<(RevisionInfo, Vec<RecordChange>)>, StoreError> {
        let Some(version) = self
            .versions(revision.saturating_add(1), 1)?
            .pop()
            .filter(|version| version.revision == revision)
        else {
            return Ok(None);
        };
        let mut changed = self.read(|read| {
            let objects = Leaked::new(read.open_table(OBJECTS).map_err(failed)?);
            let mut later = undone(read, revision + 1..=self.revision)?;
            let mut changed = Vec::new();
            for (key, before) in undone(read, revision..=revision)? {
                let after = match later.remove(&key) {
                    Some(record) => record,
                    None => {
                        let bytes = objects.get(key.as_str()).map_err(failed)?;
                        bytes.map(|bytes| StoredRecord::decode(bytes.value()).map_err(failed)).transpose()?
                    }
                };
                changed.push(RecordChange { key, before, after });
            }
            Ok(changed)
        })?;
        changed.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(Some((version, changed)))
    }

    /// Every key that was changed after `revision`, with its record at `revision`; none where that revision
    /// is not kept any more or does not exist yet.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn since(&self, revision: u64) -> Result<Option<HashMap<String, Option<StoredRecord>>>, StoreError> {
        if revision < self.oldest_version() || revision > self.revision {
            return Ok(None);
        }
        self.read(|read| undone(read, revision + 1..=self.revision)).map(Some)
    }
}

impl RevisionLog {
    /// Reads the log from the file. `logged` is the revision up to which changes were recorded, `revision`
    /// the store's.
    pub(super) fn read(
        read: &ReadTransaction,
        logged: Option<u64>,
        revision: u64,
    ) -> Result<RevisionLog, StoreError> {
        if logged != Some(revision) {
            return Ok(RevisionLog { stale: true, ..RevisionLog::default() });
        }
        let Some(heads) = opened(read.open_table(VERSIONS))? else { return Ok(RevisionLog::default()) };
        let heads = Leaked::new(heads);
        let mut log = RevisionLog::default();
        let mut oldest = u64::MAX;
        for row in heads.iter().map_err(failed)? {
            let (revision, bytes) = row.map_err(failed)?;
            let version = RevisionInfo::decode(revision.value(), bytes.value())?;
            oldest = oldest.min(version.revision);
            log.add(&version);
        }
        if let Some(undo) = opened(read.open_table(UNDO))?.map(Leaked::new) {
            let first = undo.first().map_err(failed)?;
            log.leftover = first.is_some_and(|(place, _)| place.value().0 < oldest);
        }
        Ok(log)
    }

    fn add(&mut self, version: &RevisionInfo) {
        self.count += 1;
        self.bytes += version.bytes;
        self.base.get_or_insert(version.parent);
        self.latest = Some((version.revision, version.label.at_ms));
    }

    /// The log after a change that was not recorded.
    pub(super) fn ended(self) -> RevisionLog {
        RevisionLog { stale: true, limits: self.limits, ..RevisionLog::default() }
    }

    fn is_over(&self) -> bool {
        self.count > 1 && (self.count > self.limits.versions || self.bytes > self.limits.bytes)
    }

    /// Writes the changes of the transaction, and removes the changes beyond the limits. `before` is the
    /// previous revision of the store.
    pub(super) fn write(
        mut self,
        write: &WriteTransaction,
        pending: Vec<PendingRevision>,
        before: u64,
    ) -> Result<RevisionLog, StoreError> {
        if self.stale {
            write.delete_table(VERSIONS).map_err(failed)?;
            write.delete_table(UNDO).map_err(failed)?;
            self = RevisionLog { limits: self.limits, ..RevisionLog::default() };
        }
        let mut heads = Leaked::new(write.open_table(VERSIONS).map_err(failed)?);
        let mut undo = Leaked::new(write.open_table(UNDO).map_err(failed)?);
        for PendingRevision { revision, label, changes } in pending {
            let mut bytes = 0;
            let objects = u32::try_from(changes.len()).unwrap_or(u32::MAX);
            // For a key that was written twice in one revision, the record that the first write found must be
            // stored, so it is inserted last.
            for (key, before) in changes.into_iter().rev() {
                let record = before.map(|record| record.encode()).unwrap_or_default();
                bytes += (key.len() + record.len()) as u64 + ROW_BYTES;
                undo.insert((revision, key.as_str()), record.as_slice()).map_err(failed)?;
            }
            let parent = self.latest.map_or(before, |(latest, _)| latest);
            let version = RevisionInfo { revision, parent, label, objects, bytes: bytes + HEAD_BYTES };
            heads.insert(revision, version.encode().as_slice()).map_err(failed)?;
            self.add(&version);
        }
        while self.is_over() {
            let (oldest, dropped) = {
                let row = heads.pop_first().map_err(failed)?;
                let Some((revision, bytes)) = row else { break };
                (revision.value(), RevisionInfo::decode(revision.value(), bytes.value())?)
            };
            self.count -= 1;
            self.bytes = self.bytes.saturating_sub(dropped.bytes);
            // The state after the oldest revision is the one that the next revision started from.
            self.base = Some(oldest);
            self.leftover = true;
        }
        if self.leftover {
            let oldest = heads.first().map_err(failed)?.map_or(u64::MAX, |(revision, _)| revision.value());
            for _ in 0..REMOVED_ROWS_MAX {
                let first = undo.first().map_err(failed)?.map(|(place, _)| place.value().0);
                if first.is_none_or(|revision| revision >= oldest) {
                    self.leftover = false;
                    break;
                }
                undo.pop_first().map_err(failed)?;
            }
        }
        Ok(self)
    }
}

impl PendingRevision {
    /// Records the value of a key before the change of that revision.
    pub(super) fn note(
        pending: &mut Vec<PendingRevision>,
        revision: u64,
        label: &RevisionLabel,
        key: &str,
        before: Option<StoredRecord>,
    ) {
        let change = (key.to_owned(), before);
        match pending.last_mut().filter(|last| last.revision == revision) {
            Some(last) => last.changes.push(change),
            None => pending.push(PendingRevision { revision, label: label.clone(), changes: vec![change] }),
        }
    }
}

/// The record of each key before the first of these revisions changed it.
fn undone(
    read: &ReadTransaction,
    revisions: std::ops::RangeInclusive<u64>,
) -> Result<HashMap<String, Option<StoredRecord>>, StoreError> {
    let mut found = BTreeMap::new();
    let Some(undo) = opened(read.open_table(UNDO))? else { return Ok(HashMap::new()) };
    let undo = Leaked::new(undo);
    let (first, last) = revisions.into_inner();
    if first > last {
        return Ok(HashMap::new());
    }
    // Newest first, so that the oldest of these changes overwrites the others.
    for row in undo.range((first, "")..(last.saturating_add(1), "")).map_err(failed)?.rev() {
        let (place, bytes) = row.map_err(failed)?;
        let record = match bytes.value() {
            [] => None,
            bytes => Some(StoredRecord::decode(bytes).map_err(failed)?),
        };
        found.insert(place.value().1.to_owned(), record);
    }
    Ok(found.into_iter().collect())
}

/// A table that does not exist yet is empty.
fn opened<T>(table: Result<T, TableError>) -> Result<Option<T>, StoreError> {
    match table {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(fault) => Err(failed(fault)),
    }
}

/// Table: revision → [`RevisionInfo`].
const VERSIONS: TableDefinition<u64, &[u8]> = TableDefinition::new("versions");
/// Table: revision and key → the [`StoredRecord`] before the change, or no bytes.
const UNDO: TableDefinition<(u64, &str), &[u8]> = TableDefinition::new("undo");
/// Limit of kept revisions: weeks of changes of a busy team, and a script that writes every object one by one
/// does not remove all revisions of the day before.
const VERSIONS_MAX: usize = 10_000;
/// Limit of the bytes of their changes: two rewrites of the largest file that is read (100,000 routes). The
/// newest revision is kept whatever its size, because it can then be undone.
const VERSIONS_BYTES_MAX: u64 = 512 << 20;
/// Limit of rows of dropped revisions that one commit removes, so that a small write after a huge one does
/// not remove all of its rows.
const REMOVED_ROWS_MAX: usize = 1_000;
/// Approximate overhead of a row besides key and record, in bytes.
const ROW_BYTES: u64 = 16;
/// Approximate size of a head, in bytes.
const HEAD_BYTES: u64 = 64;

#[cfg(test)]
mod tests;

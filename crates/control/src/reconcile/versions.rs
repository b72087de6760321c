//! Reading which revisions are kept, in the store or in etcd, and the changes of each. It changes nothing.

use model::Catalog;

use super::whole::WholeRefused;
use super::write::Refused;
use super::{Reconciler, Source};
use crate::plan::{self, Plan};
use crate::sealing::{Medium, Sealer};
use crate::source::etcd::{EtcdError, EtcdSource};
use crate::source::store::{Changed, Version};
use crate::stored_key;

/// A part of the list of revisions.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// The revision in force.
    pub(crate) revision: u64,
    /// The oldest revision that a rollback can restore.
    pub(crate) oldest: u64,
    /// The revisions, newest first.
    pub(crate) versions: Vec<Version>,
}

impl Reconciler {
    /// The revisions below `below`, newest first, at most `limit` of them.
    pub(crate) fn versions(&mut self, below: u64, limit: usize) -> Result<Told, WholeRefused> {
        self.catch_up()?;
        let revision = self.snapshot.revision();
        if let Source::Etcd(etcd) = &self.parts.source {
            let notes =
                etcd.handle().block_on(etcd.etcd.notes(&etcd.space, below, limit)).map_err(refused)?;
            let versions = notes.into_iter().map(|note| note.version).collect();
            return Ok(Told { revision, oldest: self.oldest_in_etcd(etcd), versions });
        }
        let Source::Store(store) = &self.parts.source else { return Err(self.only_read()) };
        Ok(Told { revision, oldest: store.oldest_version(), versions: store.versions(below, limit)? })
    }

    /// One revision and its changes.
    pub(crate) fn version(&mut self, version: u64) -> Result<(Version, Plan), WholeRefused> {
        self.catch_up()?;
        if let Source::Etcd(etcd) = &self.parts.source {
            return self.version_in_etcd(etcd, version);
        }
        let Source::Store(store) = &self.parts.source else { return Err(self.only_read()) };
        let unknown = || WholeRefused::Unknown { version, oldest: store.oldest_version() };
        let (version, changed) = store.version(version)?.ok_or_else(unknown)?;
        let plan = plan_of(&self.parts.catalog, &self.parts.sealer, Medium::Store, version.parent, changed);
        Ok((version, plan))
    }

    /// One revision of etcd: its author is in a note, its changes are in etcd's own history.
    fn version_in_etcd(&self, etcd: &EtcdSource, version: u64) -> Result<(Version, Plan), WholeRefused> {
        let unknown = || WholeRefused::Unknown { version, oldest: self.oldest_in_etcd(etcd) };
        let (client, space, handle) = (&etcd.etcd, &etcd.space, etcd.handle());
        let notes = handle.block_on(client.notes(space, version.saturating_add(1), 1)).map_err(refused)?;
        let note = notes.into_iter().find(|note| note.version.revision == version).ok_or_else(unknown)?;
        let at = |path: &str, revision| match handle.block_on(client.object_at(space, path, revision)) {
            Err(EtcdError::Compacted) => Err(unknown()),
            other => other.map_err(refused),
        };
        let mut changed = Vec::with_capacity(note.paths.len());
        for path in note.paths {
            let (before, after) = (at(&path, note.version.parent)?, at(&path, version)?);
            changed.push(Changed { key: path, before, after });
        }
        let parent = note.version.parent;
        let plan = plan_of(&self.parts.catalog, &self.parts.sealer, Medium::Etcd, parent, changed);
        Ok((note.version, plan))
    }

    /// The oldest noted revision that etcd still knows; the revision in force where it knows none of them.
    pub(super) fn oldest_in_etcd(&self, etcd: &EtcdSource) -> u64 {
        let (client, space, handle) = (&etcd.etcd, &etcd.space, etcd.handle());
        let now = self.snapshot.revision();
        let Ok(notes) = handle.block_on(client.notes(space, u64::MAX, MAX_NOTES)) else { return now };
        // The notes are newest first, so that known revisions come before compacted ones.
        let known = notes.partition_point(|note| {
            handle.block_on(client.knows(space, note.version.revision)).unwrap_or(false)
        });
        known.checked_sub(1).map_or(now, |last| notes[last].version.revision)
    }
}

fn refused(fault: EtcdError) -> WholeRefused {
    WholeRefused::Write(Refused::Store(fault.to_string()))
}

/// Limit of notes that are read; more than are kept.
const MAX_NOTES: usize = 10_000;

/// The changes of a revision, as a plan.
pub(crate) fn plan_of(
    catalog: &Catalog,
    sealer: &Sealer,
    medium: Medium,
    parent: u64,
    changed: Vec<Changed>,
) -> Plan {
    let change = |Changed { key: path, before, after }: Changed| {
        let key = stored_key::parse(&path)?;
        let text = |record| {
            let change = stored_key::change(sealer, medium, key.clone(), record);
            change.written.map(|written| written.text)
        };
        let (before, after) = (before.and_then(text), after.and_then(text));
        plan::between(catalog, &key, before.as_deref(), after.as_deref())
    };
    Plan::new(parent, changed.into_iter().filter_map(change).collect())
}

//! Reading which revisions are kept, in the store or in etcd, and the changes of each. It changes nothing.

use model::Catalog;

use super::ControlLoop;
use super::whole::WholeRefused;
use crate::plan::{self, Plan};
use crate::sealing::{Medium, Sealer};
use crate::source::store::{Changed, Version};
use crate::stored_key;

/// A part of the list of revisions.
#[derive(Debug, Clone)]
pub(crate) struct VersionList {
    /// The revision in force.
    pub(crate) revision: u64,
    /// The oldest revision that a rollback can restore.
    pub(crate) oldest: u64,
    /// The revisions, newest first.
    pub(crate) versions: Vec<Version>,
}

impl ControlLoop {
    /// The revisions below `below`, newest first, at most `limit` of them.
    pub(crate) fn versions(&mut self, below: u64, limit: usize) -> Result<VersionList, WholeRefused> {
        self.source.catch_up(&mut self.reconciler)?;
        self.source.versions(&self.reconciler, below, limit)
    }

    /// One revision and its changes.
    pub(crate) fn version(&mut self, version: u64) -> Result<(Version, Plan), WholeRefused> {
        self.source.catch_up(&mut self.reconciler)?;
        self.source.version(&self.reconciler, version)
    }
}

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

//! Telling which versions the store keeps and what each of them changed. It changes nothing.

use model::Catalog;

use super::whole::WholeRefused;
use super::{Reconciler, Source};
use crate::plan::{self, Plan};
use crate::sealing::{Medium, Sealer};
use crate::source::store::{Changed, Version};
use crate::stored_key;

/// Some of the versions.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// The revision now.
    pub(crate) revision: u64,
    /// The oldest revision that one can go back to.
    pub(crate) oldest: u64,
    /// Newest first.
    pub(crate) versions: Vec<Version>,
}

impl Reconciler {
    /// The versions below `below`, newest first, at most `limit` of them.
    pub(crate) fn versions(&mut self, below: u64, limit: usize) -> Result<Told, WholeRefused> {
        self.catch_up()?;
        let revision = self.snapshot.revision();
        let Source::Store(store) = &self.parts.source else { return Err(self.only_read()) };
        Ok(Told { revision, oldest: store.oldest_version(), versions: store.versions(below, limit)? })
    }

    /// One version, and what it changed.
    pub(crate) fn version(&mut self, version: u64) -> Result<(Version, Plan), WholeRefused> {
        self.catch_up()?;
        let Source::Store(store) = &self.parts.source else { return Err(self.only_read()) };
        let unknown = || WholeRefused::Unknown { version, oldest: store.oldest_version() };
        let (version, changed) = store.version(version)?.ok_or_else(unknown)?;
        let plan = plan_of(&self.parts.catalog, &self.parts.sealer, version.parent, changed);
        Ok((version, plan))
    }
}

/// What a version changed, as a plan.
pub(crate) fn plan_of(catalog: &Catalog, sealer: &Sealer, parent: u64, changed: Vec<Changed>) -> Plan {
    let change = |Changed { key: path, before, after }: Changed| {
        let key = stored_key::parse(&path)?;
        let text = |record| {
            let change = stored_key::change(sealer, Medium::Store, key.clone(), record);
            change.written.map(|written| written.text)
        };
        let (before, after) = (before.and_then(text), after.and_then(text));
        plan::between(catalog, &key, before.as_deref(), after.as_deref())
    };
    Plan::new(parent, changed.into_iter().filter_map(change).collect())
}

//! The statement of a whole set about itself: its digest, the versions of its collections, and the indices
//! that its owner gave. It outlives the process. It does not know how a set is put.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{ObjectKey, ObjectKind};
use serde::{Deserialize, Serialize};

use super::{ConfigStore, StoreError, Transaction};
use crate::stored_key;

/// The statement of the last set about itself. It outlives the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetStatement {
    /// The name that its owner gave it.
    pub digest: String,
    /// The time when it was put, in seconds since the Unix epoch.
    pub last_modified_s: u64,
    /// The newest change when the set had been put; 0: none. The owner did not make newer changes.
    as_of: u64,
    /// The version of each collection.
    versions: BTreeMap<String, u64>,
    /// The index that the owner gave an object, and the revision that wrote that object.
    given: HashMap<String, GivenIndex>,
}

/// An index from the owner of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct GivenIndex {
    index: u64,
    written: u64,
}

impl SetStatement {
    /// Reads the statement from the store.
    pub(crate) fn load(store: &ConfigStore) -> Result<Arc<SetStatement>, StoreError> {
        let Some(bytes) = store.kept(NAME)? else { return Ok(Arc::default()) };
        // A later version of Weir may keep other fields; if a field is missing here, the owner starts again.
        let configs = serde_json::from_slice(&bytes).unwrap_or_else(|fault| {
            tracing::warn!(%fault, "what is kept of the last whole set cannot be read; its versions begin anew");
            SetStatement::default()
        });
        Ok(Arc::new(configs))
    }

    /// The version of a kind's collection; 0 before there was a set.
    pub(crate) fn version(&self, kind: ObjectKind) -> u64 {
        self.versions.get(kind.collection()).copied().unwrap_or_default()
    }

    /// The index that the owner gave the object that was written at that revision.
    pub(crate) fn index(&self, key: &ObjectKey, modified_index: u64) -> Option<u64> {
        let given = self.given.get(&stored_key::format_stored_key(key))?;
        (given.written == modified_index).then_some(given.index)
    }

    /// The digest, if that set is still in force.
    pub(crate) fn digest(&self, changed: Option<(u64, u64)>) -> Option<&str> {
        let as_of = changed.map_or(0, |(revision, _)| revision);
        (!self.digest.is_empty() && self.as_of == as_of).then_some(self.digest.as_str())
    }

    /// Sets the version of a kind's collection.
    pub(crate) fn set_version(&mut self, kind: ObjectKind, version: u64) {
        self.versions.insert(kind.collection().to_owned(), version);
    }

    /// Notes the index that the owner gave the object that the revision `written` wrote.
    pub(crate) fn give_index(&mut self, key: &ObjectKey, index: u64, written: u64) {
        self.given.insert(stored_key::format_stored_key(key), GivenIndex { index, written });
    }

    /// Notes the newest change when the set had been put; 0: none.
    pub(crate) fn follows_revision(&mut self, revision: u64) {
        self.as_of = revision;
    }

    /// Drops the indices of objects of these kinds.
    pub(crate) fn forget(&mut self, kinds: &[ObjectKind]) {
        self.given.retain(|path, _| {
            stored_key::parse_stored_key(path).is_none_or(|key| !kinds.contains(&key.kind))
        });
    }

    /// Keeps the statement in the store, durable together with the other changes of the transaction.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(crate) fn keep(&self, transaction: &mut Transaction) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(self).expect("numbers and texts always serialize");
        transaction.keep(NAME, &bytes)
    }
}

/// The name under which the store keeps it.
const NAME: &str = "configs";

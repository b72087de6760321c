//! A whole set that an external owner puts (contract 2.1, API-driven standalone): the statement of a set about itself,
//! and putting the next set. It does not know the text of requests.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use model::{Key, Kind};
use serde::{Deserialize, Serialize};

use super::store::EmbeddedStore;
use super::whole::{Set, Terms, WholeRefused, differences};
use super::write::Author;
use super::{ControlLoop, Reconciler};
use crate::source::store::{Store, StoreError, VersionSource};
use crate::stored_key;
use crate::view::View;

/// The statement of the last set about itself. It outlives the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configs {
    /// The name that its owner gave it.
    pub digest: String,
    /// The time when it was put, in seconds since the Unix epoch.
    pub last_modified_s: u64,
    /// The newest change when the set had been put; 0: none. The owner did not make newer changes.
    as_of: u64,
    /// The version of each collection.
    versions: BTreeMap<String, u64>,
    /// The index that the owner gave an object, and the revision that wrote that object.
    given: HashMap<String, Given>,
}

/// An index from the owner of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Given {
    index: u64,
    written: u64,
}

/// The next set.
#[derive(Debug, Clone)]
pub(crate) struct Put {
    pub(crate) digest: String,
    /// The set that it follows; if another one was put in the meantime, the configuration stays unchanged.
    pub(crate) follows: Arc<Configs>,
    /// The collections of the set; unchanged ones are left out.
    pub(crate) collections: Vec<Collection>,
    /// The author of the change.
    pub(crate) author: Author,
}

/// An object of a set: its key, its text, and the index that its owner gave it.
pub(crate) type Item = (Key, Arc<str>, Option<u64>);

/// One collection of a set.
#[derive(Debug, Clone)]
pub(crate) struct Collection {
    /// The kind of the list; credentials are among the consumers.
    pub(crate) kind: Kind,
    pub(crate) version: u64,
    pub(crate) items: Vec<Item>,
}

/// Another set was put in the meantime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overtaken;

impl Configs {
    /// Reads the statement from the store.
    pub(super) fn load(store: &Store) -> Result<Arc<Configs>, StoreError> {
        let Some(bytes) = store.kept(NAME)? else { return Ok(Arc::default()) };
        // A later version of Weir may keep other fields; if a field is missing here, the owner starts again.
        let configs = serde_json::from_slice(&bytes).unwrap_or_else(|fault| {
            tracing::warn!(%fault, "what is kept of the last whole set cannot be read; its versions begin anew");
            Configs::default()
        });
        Ok(Arc::new(configs))
    }

    /// The version of a kind's collection; 0 before there was a set.
    pub(crate) fn version(&self, kind: Kind) -> u64 {
        self.versions.get(kind.collection()).copied().unwrap_or_default()
    }

    /// The index that the owner gave the object that was written at that revision.
    pub(crate) fn index(&self, key: &Key, modified_index: u64) -> Option<u64> {
        let given = self.given.get(&stored_key::text(key))?;
        (given.written == modified_index).then_some(given.index)
    }

    /// The digest, if that set is still in force.
    pub(crate) fn digest(&self, changed: Option<(u64, u64)>) -> Option<&str> {
        let as_of = changed.map_or(0, |(revision, _)| revision);
        (!self.digest.is_empty() && self.as_of == as_of).then_some(self.digest.as_str())
    }
}

impl View {
    /// The digest of the set in force, if it has one.
    pub(crate) fn digest(&self) -> Option<&str> {
        self.configs.digest(self.changed)
    }

    /// When the set was changed last, in seconds since the Unix epoch.
    pub(crate) fn last_modified_s(&self) -> Option<u64> {
        match (self.digest(), self.changed) {
            (Some(_), _) => Some(self.configs.last_modified_s),
            (None, Some((_, at_ms))) => Some(at_ms / 1000),
            (None, None) => None,
        }
    }
}

impl ControlLoop {
    /// Replaces the objects of the set's collections. Faulty objects are reported and keep their last good form. The
    /// change is one revision, durable together with the statement of the set.
    pub(crate) fn put_configs(&mut self, put: Put) -> Result<Result<(), Overtaken>, WholeRefused> {
        let caught_up = self.source.catch_up(&mut self.reconciler).map_err(WholeRefused::from);
        let result = caught_up.and_then(|()| self.source.put_configs(&mut self.reconciler, put));
        if !matches!(result, Ok(Err(Overtaken))) {
            self.reconciler.note_whole(&result);
        }
        result
    }
}

impl EmbeddedStore {
    /// Puts the set in one revision, durable together with what the set says of itself.
    pub(super) fn change_configs(
        &mut self,
        reconciler: &mut Reconciler,
        put: Put,
    ) -> Result<Result<(), Overtaken>, WholeRefused> {
        if !Arc::ptr_eq(&reconciler.configs, &put.follows) {
            return Ok(Err(Overtaken));
        }
        let view = reconciler.parts.view.load();
        let mut next = Configs { digest: put.digest, ..(*reconciler.configs).clone() };
        let mut set = Set::default();
        for collection in &put.collections {
            next.versions.insert(collection.kind.collection().to_owned(), collection.version);
            set.complete.push(collection.kind);
            if collection.kind == Kind::Consumer {
                set.complete.push(Kind::Credential);
            }
            for (key, text, index) in &collection.items {
                // An object with the same index is unchanged, whatever its text.
                let kept = view.written(key).filter(|written| {
                    index.is_some() && reconciler.configs.index(key, written.modified_index) == *index
                });
                let text = kept.map_or(text, |written| &written.text);
                set.objects.push((key.clone(), Arc::clone(text)));
            }
        }
        let differing = differences(&view, &set);
        let revision = reconciler.snapshot.revision();
        let is_new: HashSet<&Key> = differing.iter().map(|differing| &differing.key).collect();
        next.last_modified_s = reconciler.parts.clock.unix_ms() / 1000;
        // Known only after the transaction has its revision.
        let given: Vec<(&Key, u64)> = put
            .collections
            .iter()
            .flat_map(|collection| &collection.items)
            .filter_map(|(key, _, index)| Some((key, (*index)?)))
            .collect();
        next.forget(&set.complete);
        let latest = reconciler.changed.map_or(0, |(revision, _)| revision);
        let terms = Terms { source: VersionSource::Configs, author: &put.author, strict: None };
        let kept = &mut next;
        self.change_all(reconciler, &differing, &terms, |transaction| {
            let now = transaction.revision();
            kept.as_of = if differing.is_empty() { latest } else { now };
            for (key, index) in given {
                let before = view.written(key).map_or(revision, |written| written.modified_index);
                let written = if is_new.contains(key) { now } else { before };
                kept.given.insert(stored_key::text(key), Given { index, written });
            }
            let bytes = serde_json::to_vec(kept).expect("numbers and texts always serialize");
            transaction.keep(NAME, &bytes)
        })?;
        reconciler.configs = Arc::new(next);
        reconciler.show();
        Ok(Ok(()))
    }
}

impl Configs {
    /// Drops the indices of objects of these kinds.
    fn forget(&mut self, kinds: &[Kind]) {
        self.given.retain(|path, _| stored_key::parse(path).is_none_or(|key| !kinds.contains(&key.kind)));
    }
}

/// The name under which the store keeps it.
const NAME: &str = "configs";

//! A whole set that an external owner puts (contract 2.1, API-driven standalone): putting the next set. It
//! does not know the text of requests.

use std::collections::HashSet;
use std::sync::Arc;

use model::{ObjectKey, ObjectKind};

use super::store::EmbeddedStore;
use super::whole::{DesiredSet, Terms, WholeRefused, differences};
use super::write::Author;
use super::{ControlLoop, Reconciler};
use crate::source::store::{SetStatement, VersionSource};

/// The next set.
#[derive(Debug, Clone)]
pub(crate) struct ConfigsUpdate {
    pub(crate) digest: String,
    /// The set that it follows; if another one was put in the meantime, the configuration stays unchanged.
    pub(crate) follows: Arc<SetStatement>,
    /// The collections of the set; unchanged ones are left out.
    pub(crate) collections: Vec<Collection>,
    /// The author of the change.
    pub(crate) author: Author,
}

/// An object of a set: its key, its text, and the index that its owner gave it.
pub(crate) type ConfigsItem = (ObjectKey, Arc<str>, Option<u64>);

/// One collection of a set.
#[derive(Debug, Clone)]
pub(crate) struct Collection {
    /// The kind of the list; credentials are among the consumers.
    pub(crate) kind: ObjectKind,
    pub(crate) version: u64,
    pub(crate) items: Vec<ConfigsItem>,
}

/// Another set was put in the meantime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overtaken;

impl ControlLoop {
    /// Replaces the objects of the set's collections. Faulty objects are reported and keep their last good
    /// form. The change is one revision, durable together with the statement of the set.
    pub(crate) fn put_configs(&mut self, put: ConfigsUpdate) -> Result<Result<(), Overtaken>, WholeRefused> {
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
        put: ConfigsUpdate,
    ) -> Result<Result<(), Overtaken>, WholeRefused> {
        if !Arc::ptr_eq(&reconciler.configs, &put.follows) {
            return Ok(Err(Overtaken));
        }
        let view = reconciler.parts.view.load();
        let mut next = (*reconciler.configs).clone();
        next.digest = put.digest;
        let mut set = DesiredSet::default();
        for collection in &put.collections {
            next.set_version(collection.kind, collection.version);
            set.complete.push(collection.kind);
            if collection.kind == ObjectKind::Consumer {
                set.complete.push(ObjectKind::Credential);
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
        let is_new: HashSet<&ObjectKey> = differing.iter().map(|differing| &differing.key).collect();
        next.last_modified_s = reconciler.parts.clock.unix_ms() / 1000;
        // Known only after the transaction has its revision.
        let given: Vec<(&ObjectKey, u64)> = put
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
            kept.follows_revision(if differing.is_empty() { latest } else { now });
            for (key, index) in given {
                let before = view.written(key).map_or(revision, |written| written.modified_index);
                let written = if is_new.contains(key) { now } else { before };
                kept.give_index(key, index, written);
            }
            kept.keep(transaction)
        })?;
        reconciler.configs = Arc::new(next);
        reconciler.show();
        Ok(Ok(()))
    }
}

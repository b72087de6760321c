//! Objects that are laid over snapshots: made by the gateway itself, checked as written ones, and never part
//! of what the source holds. Knows no maker of such objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::read::{self, ObjectCandidate};
use super::{Applied, FaultPolicy, Snapshot, SnapshotChange};
use crate::catalog::PluginCatalog;
use crate::{ObjectKey, WrittenObject};

/// Objects that were read once, to be laid over each snapshot that comes into force.
#[derive(Default)]
pub struct Overlay {
    objects: BTreeMap<ObjectKey, ObjectCandidate>,
}

impl Overlay {
    /// An overlay of these objects, each with its own key. Objects with the text that they have here are not
    /// read again.
    #[must_use]
    pub fn renewed(&self, catalog: &PluginCatalog, objects: Vec<WrittenObject>) -> Overlay {
        let (same, new): (Vec<WrittenObject>, Vec<WrittenObject>) = objects
            .into_iter()
            .partition(|object| self.objects.get(&object.key).and_then(text) == Some(&object.text));
        let same = same.into_iter().filter_map(|object| self.objects.get_key_value(&object.key));
        let same = same.map(|(key, candidate)| (key.clone(), candidate.clone()));
        let change =
            |written: WrittenObject| SnapshotChange { key: written.key.clone(), written: Some(written) };
        let new: Vec<SnapshotChange> = new.into_iter().map(change).collect();
        Overlay { objects: same.chain(read::all(catalog, &new)).collect() }
    }

    /// The keys of the objects, ordered.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.objects.keys()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.objects.keys()).finish()
    }
}

fn text(candidate: &ObjectCandidate) -> Option<&Arc<str>> {
    match candidate {
        ObjectCandidate::Good(object) => Some(&object.written.text),
        ObjectCandidate::Bad(written, ..) => Some(&written.text),
        ObjectCandidate::Deleted => None,
    }
}

impl Snapshot {
    /// The snapshot with the objects of the overlay, except those under keys that it has itself. The
    /// differences are those to this snapshot.
    #[must_use]
    pub fn overlaid(&self, catalog: &PluginCatalog, overlay: &Overlay) -> Applied {
        let is_free = |key: &ObjectKey| !self.contains(key) && self.faulty_at(key).is_none();
        let objects = overlay.objects.iter().filter(|(key, _)| is_free(key));
        let objects = objects.map(|(key, candidate)| (key.clone(), candidate.clone())).collect();
        self.apply_read(catalog, objects, self.revision, FaultPolicy::Lenient)
    }
}

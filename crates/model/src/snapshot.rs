//! All objects in force at one revision, and what is wrong with the rest. Immutable: a change makes a new one
//! that shares what it did not touch. Knows no store, no source and no data plane.

mod admit;
mod apply;
mod closed;
mod equal_routes;
mod extensions;
mod identity;
mod index;
mod overlay;
mod queue;
mod read;
mod reference;
mod stream_sessions;

use std::sync::Arc;

use crate::extension::ExtensionPlugins;
use crate::resource::Resource;
use crate::{ConfigFault, ObjectKey, ObjectKind, ObjectRefusal, Warning, WrittenObject};
use stdx::persistent::ShardedMap;

use index::ObjectIndex;

pub use admit::Admitted;
pub use overlay::Overlay;
pub use reference::Reference;

/// An object in force.
#[derive(Clone, Debug)]
pub struct SnapshotObject {
    /// As written.
    pub written: WrittenObject,
    /// As read, without unknown fields that were accepted.
    pub resource: Resource,
    /// Boxed, since hardly any object has one.
    remarks: Option<Box<Remarks>>,
}

/// Reports about an object that is in force.
#[derive(Clone, Debug)]
struct Remarks {
    skipped: Box<[ConfigFault]>,
    warnings: Box<[Warning]>,
}

impl SnapshotObject {
    fn new(
        written: WrittenObject,
        resource: Resource,
        skipped: Box<[ConfigFault]>,
        warnings: Box<[Warning]>,
    ) -> SnapshotObject {
        let has_remarks = !(skipped.is_empty() && warnings.is_empty());
        let remarks = has_remarks.then(|| Box::new(Remarks { skipped, warnings }));
        SnapshotObject { written, resource, remarks }
    }

    /// An object that this one is made into, with its text and revisions, under another key.
    #[must_use]
    pub fn derived(&self, key: ObjectKey, resource: Resource) -> SnapshotObject {
        let written = WrittenObject { key, ..self.written.clone() };
        SnapshotObject { written, resource, remarks: None }
    }

    /// Faulty plugins that the setting `ignore_faulty_plugins` names: the object serves without them.
    #[must_use]
    pub fn skipped(&self) -> &[ConfigFault] {
        self.remarks.as_deref().map(|remarks| &*remarks.skipped).unwrap_or_default()
    }

    /// Parts of it that have no effect.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        self.remarks.as_deref().map(|remarks| &*remarks.warnings).unwrap_or_default()
    }

    /// The key it is stored under.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.written.key
    }
}

/// A change of one object.
#[derive(Clone, Debug)]
pub struct SnapshotChange {
    /// Which object.
    pub key: ObjectKey,
    /// The text that it has now; none: it was deleted.
    pub written: Option<WrittenObject>,
}

/// The treatment of a faulty object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultPolicy {
    /// It keeps its last good form, or stays out; the rest applies.
    #[default]
    Lenient,
    /// Nothing applies.
    Strict,
}

/// How one object differs between two snapshots. When `before` and `after` are the same object, only the
/// presence of something it refers to has changed. When both are none, the closed form differs
/// ([`Snapshot::closed`]).
#[derive(Clone, Debug)]
pub struct Difference {
    /// Which object.
    pub key: ObjectKey,
    /// The object before; none: it was not in force.
    pub before: Option<Arc<SnapshotObject>>,
    /// The object now; none: it is no longer in force.
    pub after: Option<Arc<SnapshotObject>>,
}

/// The outcome of applying changes.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The new snapshot; under [`FaultPolicy::Strict`] with faults, the old one.
    pub snapshot: Snapshot,
    /// The differences, kinds in resolving order, each object once.
    pub diff: Vec<Difference>,
    /// The faults of the objects of these changes, and of those that these changes have left without
    /// something they refer to.
    pub faults: Vec<ConfigFault>,
}

/// All objects in force at one revision.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    revision: u64,
    /// By kind, in the order of [`ObjectKind`].
    objects: [ShardedMap<ObjectKey, Arc<SnapshotObject>>; ObjectKind::ALL.len()],
    faulty: ShardedMap<ObjectKey, Arc<Faulty>>,
    /// From what is referred to, to what refers to it, in force or waiting.
    dependents: ObjectIndex<ObjectKey>,
    /// From upstreams, protos and extensions, to what names them by its plugins.
    mentions: ObjectIndex<ObjectKey>,
    /// From references to secrets, as they are written, to what has them.
    secrets: ObjectIndex<Arc<str>>,
    /// From what tells consumers apart (hashed), to the consumers and credentials that have it.
    identities: ObjectIndex<u64>,
    /// The plugins of the extensions in force.
    extensions: ExtensionPlugins,
}

/// An object that is not in force as it was written last.
#[derive(Clone, Debug)]
pub struct Faulty {
    /// As written last.
    pub written: WrittenObject,
    /// Why that is not in force.
    pub refusal: ObjectRefusal,
    /// The object, when nothing is wrong with it but what it refers to.
    waiting: Option<Arc<SnapshotObject>>,
    /// The form that keeps its place while it answers 503 ([`Snapshot::closed`]).
    closed: Option<Arc<SnapshotObject>>,
}

impl Snapshot {
    /// No objects, revision 0.
    #[must_use]
    pub fn empty() -> Snapshot {
        Snapshot::default()
    }

    /// The revision it was made at.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The object in force under that key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<SnapshotObject>> {
        self.table(key.kind).get(key)
    }

    /// Whether an object is in force under that key.
    #[must_use]
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some()
    }

    /// How many objects of a kind are in force.
    #[must_use]
    pub fn len(&self, kind: ObjectKind) -> usize {
        self.table(kind).len()
    }

    /// Whether no object at all is in force.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        ObjectKind::ALL.into_iter().all(|kind| self.len(kind) == 0)
    }

    /// The objects of a kind in force, in no particular order.
    pub fn iter(&self, kind: ObjectKind) -> impl Iterator<Item = &Arc<SnapshotObject>> {
        self.table(kind).values()
    }

    /// The faults, object by object, in no particular order.
    pub fn faulty(&self) -> impl Iterator<Item = &Faulty> {
        self.faulty.values().map(|faulty| &**faulty)
    }

    /// The faults of the object under that key; none when it is in force as written, or not there.
    #[must_use]
    pub fn faulty_at(&self, key: &ObjectKey) -> Option<&Faulty> {
        self.faulty.get(key).map(|faulty| &**faulty)
    }

    /// The form in which a faulty object that has no good form is compiled, so that its requests are answered
    /// 503 instead of falling through to another object; and why. Of a route it is what the route matches, of
    /// a service its hosts, of a global rule its presence, of an object that only lacks what it refers to the
    /// whole object. None when an object is in force under that key, or when what a route matches cannot be
    /// read.
    #[must_use]
    pub fn closed(&self, key: &ObjectKey) -> Option<(&Arc<SnapshotObject>, &ObjectRefusal)> {
        if self.contains(key) {
            return None;
        }
        let faulty = self.faulty_at(key)?;
        Some((faulty.closed.as_ref()?, &faulty.refusal))
    }

    /// Routes and contracts that keep no place in the routing table, because what they match cannot be read
    /// and they have no earlier good form; ordered by key.
    #[must_use]
    pub fn unplaced(&self) -> Vec<&Faulty> {
        let is_unplaced = |faulty: &&Faulty| {
            let key = &faulty.written.key;
            matches!(key.kind, ObjectKind::Route | ObjectKind::Contract)
                && faulty.closed.is_none()
                && !self.contains(key)
        };
        let mut unplaced: Vec<&Faulty> = self.faulty().filter(is_unplaced).collect();
        unplaced.sort_by(|left, right| left.written.key.cmp(&right.written.key));
        unplaced
    }

    /// Every fault of every object, ordered by key.
    #[must_use]
    pub fn faults(&self) -> Vec<ConfigFault> {
        let mut keys: Vec<&ObjectKey> = self.faulty.keys().collect();
        keys.sort();
        keys.into_iter().flat_map(|key| self.faults_at(key)).collect()
    }

    /// Every fault of the object under that key.
    #[must_use]
    pub fn faults_at(&self, key: &ObjectKey) -> Vec<ConfigFault> {
        let Some(faulty) = self.faulty_at(key) else { return Vec::new() };
        let mut faults = faulty.refusal.clone().into_faults(key, self.contains(key));
        if let Some(object) = &faulty.waiting {
            reference::tell_faulty_targets(self, key, &object.resource, &mut faults);
        }
        faults
    }

    /// The warnings of the object under that key as it was written last; empty while that form is faulty in
    /// itself.
    #[must_use]
    pub fn warnings_at(&self, key: &ObjectKey) -> Vec<Warning> {
        let object = match self.faulty_at(key) {
            Some(faulty) => faulty.waiting.as_ref(),
            None => self.get(key),
        };
        let Some(object) = object else { return Vec::new() };
        let mut warnings = object.warnings().to_vec();
        if let Resource::StreamRoute(route) = &object.resource {
            warnings.extend(self.stream_warnings(key, route));
        }
        warnings
    }

    /// The objects that refer to that key, in force or waiting, in no order.
    pub fn users_of(&self, key: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.dependents.get(key)
    }

    /// The plugins of the extensions in force, to be laid over the catalog of the gateway.
    #[must_use]
    pub fn extensions(&self) -> &ExtensionPlugins {
        &self.extensions
    }

    /// The objects with a plugin that names that key in its configuration; of an extension, those that have
    /// its plugin.
    pub fn mentioned_by(&self, key: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.mentions.get(key)
    }

    /// The objects that refer to that key, in force or waiting, ordered by key.
    #[must_use]
    pub fn dependents(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        let mut keys: Vec<ObjectKey> = self.dependents.get(key).cloned().collect();
        keys.sort();
        keys
    }

    /// Whether an object in force has that reference to a secret.
    #[must_use]
    pub fn has_secret_reference(&self, reference: &Arc<str>) -> bool {
        self.secrets.get(reference).any(|key| self.contains(key))
    }

    /// The objects that have that reference to a secret, in force or waiting, ordered by key.
    #[must_use]
    pub fn referring_to_secret(&self, reference: &Arc<str>) -> Vec<ObjectKey> {
        let mut keys: Vec<ObjectKey> = self.secrets.get(reference).cloned().collect();
        keys.sort();
        keys
    }

    fn table(&self, kind: ObjectKind) -> &ShardedMap<ObjectKey, Arc<SnapshotObject>> {
        &self.objects[kind as usize]
    }

    fn table_mut(&mut self, kind: ObjectKind) -> &mut ShardedMap<ObjectKey, Arc<SnapshotObject>> {
        &mut self.objects[kind as usize]
    }
}

#[cfg(test)]
mod tests;

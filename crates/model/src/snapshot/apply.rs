//! Applying changes: every object is checked on its own, then what it refers to; objects that wait for
//! something are looked at again when it appears. One change costs what it touches, never the size of the
//! snapshot.

use std::collections::HashSet;
use std::sync::Arc;

use super::identity::Claims;
use super::queue::ResolveQueue;
use super::read::{self, ObjectCandidate};
use super::{
    Applied, Difference, FaultPolicy, Faulty, Snapshot, SnapshotChange, SnapshotObject, extensions, identity,
    reference,
};
use crate::catalog::PluginCatalog;
use crate::fault::{CheckStage, Findings};
use crate::{ConfigFault, ObjectKey, ObjectKind, ObjectRefusal, secret_reference};

impl Snapshot {
    /// Applies changes, later ones of the same key over earlier ones. `revision` becomes the snapshot's. Many
    /// changes are read on several threads.
    #[must_use]
    pub fn apply(
        &self,
        catalog: &PluginCatalog,
        changes: &[SnapshotChange],
        revision: u64,
        policy: FaultPolicy,
    ) -> Applied {
        let (extensions, others): (Vec<SnapshotChange>, Vec<SnapshotChange>) = match has_extension(changes) {
            true => changes.iter().cloned().partition(|change| change.key.kind == ObjectKind::Extension),
            false => (Vec::new(), Vec::new()),
        };
        let others = if extensions.is_empty() { changes } else { &others };
        let read = last_of_each(read::all(catalog, &extensions));
        let (catalog, read) = self.with_extensions_of(catalog, read, others);
        self.apply_read(&catalog, read, revision, policy)
    }

    /// As [`Snapshot::apply`], with changes that have been read.
    pub(super) fn apply_read(
        &self,
        catalog: &PluginCatalog,
        changes: Vec<(ObjectKey, ObjectCandidate)>,
        revision: u64,
        policy: FaultPolicy,
    ) -> Applied {
        let mut work = Work {
            catalog,
            next: Snapshot { revision, ..self.clone() },
            before: Vec::with_capacity(changes.len()),
            queue: ResolveQueue::new(changes),
            woken: HashSet::new(),
        };
        while let Some((key, candidate)) = work.queue.next() {
            work.resolve(&key, candidate);
        }
        work.finish(self, policy)
    }
}

fn has_extension(changes: &[SnapshotChange]) -> bool {
    changes.iter().any(|change| change.key.kind == ObjectKind::Extension)
}

/// The last candidate of each key.
fn last_of_each(read: Vec<(ObjectKey, ObjectCandidate)>) -> Vec<(ObjectKey, ObjectCandidate)> {
    let mut seen = HashSet::new();
    let mut last: Vec<_> = read.into_iter().rev().filter(|(key, _)| seen.insert(key.clone())).collect();
    last.reverse();
    last
}

/// The form compiled under a key before: the object in force, or its closed form.
struct PreviousForm {
    object: Option<Arc<SnapshotObject>>,
    closed: Option<Arc<SnapshotObject>>,
}

/// A snapshot in the making.
struct Work<'a> {
    catalog: &'a PluginCatalog,
    next: Snapshot,
    /// The objects that were touched, as they were before; what was touched again has a later entry, too.
    before: Vec<(ObjectKey, PreviousForm)>,
    /// Keys with references that are still to be looked at, referred objects first.
    queue: ResolveQueue<ObjectCandidate>,
    /// Keys that were looked at because something they refer to appeared or went.
    woken: HashSet<ObjectKey>,
}

impl Work<'_> {
    /// Decides what is in force under a key.
    fn resolve(&mut self, key: &ObjectKey, candidate: Option<ObjectCandidate>) {
        let present = self.next.get(key).cloned();
        let before = PreviousForm { object: present.clone(), closed: self.closed(key) };
        self.before.push((key.clone(), before));
        let old = self.relations(key);
        match candidate {
            Some(ObjectCandidate::Deleted) => {
                self.next.faulty.remove(key);
                self.next.table_mut(key.kind).remove(key);
            }
            Some(ObjectCandidate::Bad(written, refusal, closed)) => {
                // A place that is held already is not given up because a later text is harder to read.
                let held = || self.next.faulty_at(key).and_then(|faulty| faulty.closed.clone());
                let closed = closed.or_else(held);
                let faulty = Faulty { written, refusal, waiting: None, closed };
                self.next.faulty.insert(key.clone(), Arc::new(faulty));
            }
            // A good form that runs the plugin goes before a form without it.
            Some(ObjectCandidate::Good(object))
                if !object.skipped().is_empty()
                    && present.as_ref().is_some_and(|present| present.skipped().is_empty()) =>
            {
                let refusal = ObjectRefusal::of(object.skipped());
                let faulty = Faulty { written: object.written.clone(), refusal, waiting: None, closed: None };
                self.next.faulty.insert(key.clone(), Arc::new(faulty));
            }
            Some(ObjectCandidate::Good(object)) => self.settle(key, object),
            None => {
                let waiting = self.next.faulty_at(key).map(|faulty| faulty.waiting.clone());
                match (waiting, present.clone()) {
                    (Some(Some(object)), _) | (None, Some(object)) => self.settle(key, object),
                    _ => {}
                }
            }
        }
        self.drop_orphan(key);
        if key.kind == ObjectKind::Extension {
            let plugin =
                self.next.get(key).and_then(|object| extensions::find_loaded_plugin(&object.resource));
            self.next.extensions.set(key.own_id(), plugin);
        }
        self.relink(key, &old);
        if present.is_some() != self.next.contains(key) {
            self.wake_dependents(key);
        }
    }

    fn closed(&self, key: &ObjectKey) -> Option<Arc<SnapshotObject>> {
        self.next.closed(key).map(|(object, _)| Arc::clone(object))
    }

    /// Puts an object in force if all it refers to is there, else among the faulty.
    fn settle(&mut self, key: &ObjectKey, object: Arc<SnapshotObject>) {
        let mut findings = Findings::default();
        for reference in reference::list_object_references(key, &object.resource) {
            if !self.next.contains(&reference.target) {
                reference::add_missing(&reference, &mut findings);
            }
        }
        let mut is_anothers = false;
        if matches!(key.kind, ObjectKind::Consumer | ObjectKind::Credential) {
            // Of two consumers with the same key the first stays, because the consumer of a request would
            // otherwise depend on the order.
            for (pointer, reason) in
                self.next.taken_identities(self.catalog, key, object.resource.plugins(), Claims::InForce)
            {
                is_anothers = true;
                findings.add(CheckStage::Plugins, pointer, reason);
            }
        }
        match findings.into_result() {
            Ok(()) => {
                self.next.faulty.remove(key);
                self.next.table_mut(key.kind).insert(key.clone(), object);
            }
            Err(refusal) => {
                let written = object.written.clone();
                // A key that another consumer has must not name this one, not even to answer 503.
                let closed = (!is_anothers).then(|| Arc::clone(&object));
                let faulty = Faulty { written, refusal, waiting: Some(object), closed };
                self.next.faulty.insert(key.clone(), Arc::new(faulty));
            }
        }
    }

    /// A credential without its consumer proves nothing: even a kept form never outlives the consumer.
    fn drop_orphan(&mut self, key: &ObjectKey) {
        if key.consumer_key().is_some_and(|consumer| !self.next.contains(&consumer)) {
            self.next.table_mut(key.kind).remove(key);
        }
    }

    /// The objects that an object is related to, in force and waiting.
    fn relations(&self, key: &ObjectKey) -> Relations {
        let faulty = self.next.faulty_at(key);
        let waiting = faulty.and_then(|faulty| faulty.waiting.as_ref().or(faulty.closed.as_ref()));
        let mut relations = Relations::default();
        for object in waiting.into_iter().chain(self.next.get(key)) {
            let references = reference::list_object_references(key, &object.resource);
            relations.targets.extend(references.into_iter().map(|reference| reference.target));
            relations.mentions.extend(reference::mentions(&object.resource));
            relations.mentions.extend(extensions::named(self.catalog, &object.resource));
            let secrets = secret_reference::list_secret_references(&object.resource);
            relations.secrets.extend(secrets.into_iter().map(|(_, text)| Arc::<str>::from(text)));
            relations.identities.extend(identity::hash_identities(self.catalog, object));
        }
        sort_unique(&mut relations.targets);
        sort_unique(&mut relations.mentions);
        sort_unique(&mut relations.secrets);
        sort_unique(&mut relations.identities);
        relations
    }

    /// Brings the indices up to date with what an object has to do with now.
    fn relink(&mut self, key: &ObjectKey, old: &Relations) {
        let new = self.relations(key);
        self.next.dependents.relink(key, &old.targets, &new.targets);
        self.next.mentions.relink(key, &old.mentions, &new.mentions);
        self.next.secrets.relink(key, &old.secrets, &new.secrets);
        self.next.identities.relink(key, &old.identities, &new.identities);
        // A claim that this object gives up may be one that another has waited for.
        for given_up in old.identities.iter().filter(|identity| !new.identities.contains(identity)) {
            let claimants = self.next.identities.get(given_up);
            for claimant in claimants.filter(|claimant| self.next.faulty_at(claimant).is_some()) {
                self.queue.wake(claimant.clone());
            }
        }
    }

    /// Queues what refers to a key that has appeared or gone.
    fn wake_dependents(&mut self, key: &ObjectKey) {
        for dependent in self.next.dependents.get(key) {
            self.queue.wake(dependent.clone());
            self.woken.insert(dependent.clone());
        }
    }

    /// The outcome, by the policy.
    fn finish(self, old: &Snapshot, policy: FaultPolicy) -> Applied {
        let Work { next, before, woken, .. } = self;
        // Stable, and in order but for what was woken: the first entry of a key is how it was.
        let mut touched = before;
        touched.sort_by(|left, right| left.0.cmp(&right.0));
        touched.dedup_by(|again, first| again.0 == first.0);
        let mut faults: Vec<ConfigFault> = touched.iter().flat_map(|(key, _)| next.faults_at(key)).collect();
        if policy == FaultPolicy::Strict {
            let skipped = touched.iter().filter_map(|(key, _)| Some(next.get(key)?.skipped()));
            faults.extend(skipped.flatten().cloned());
        }
        if policy == FaultPolicy::Strict && !faults.is_empty() {
            let faults = faults.into_iter().map(|fault| kept_by(old, fault)).collect();
            return Applied { snapshot: old.clone(), diff: Vec::new(), faults };
        }
        let difference = |(key, before): (ObjectKey, PreviousForm)| {
            let after = next.get(&key).cloned();
            let is_same =
                |before: &Arc<SnapshotObject>, after| Arc::ptr_eq(before, after) && !woken.contains(&key);
            let same = match (&before.object, &after) {
                (Some(before), Some(after)) => is_same(before, after),
                (None, None) => match (&before.closed, next.closed(&key)) {
                    (Some(before), Some((after, _))) => is_same(before, after),
                    (before, after) => before.is_none() && after.is_none(),
                },
                _ => false,
            };
            (!same).then_some(Difference { key, before: before.object, after })
        };
        let diff = touched.into_iter().filter_map(difference).collect();
        Applied { snapshot: next, diff, faults }
    }
}

/// The objects that an object is related to; no list has an entry twice.
#[derive(Default)]
struct Relations {
    targets: Vec<ObjectKey>,
    mentions: Vec<ObjectKey>,
    secrets: Vec<Arc<str>>,
    identities: Vec<u64>,
}

fn sort_unique<T: Ord>(items: &mut Vec<T>) {
    items.sort();
    items.dedup();
}

/// The fault with what the old snapshot has in force.
fn kept_by(old: &Snapshot, fault: ConfigFault) -> ConfigFault {
    let kept = fault.key.as_ref().is_some_and(|key| old.contains(key));
    ConfigFault { kept, ..fault }
}

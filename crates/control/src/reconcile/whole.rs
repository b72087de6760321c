//! Many objects changed as one: the changes of a whole set, and making them, all or none, in one revision. It knows
//! neither the origin of the set nor the receiver of the answer.

use std::collections::HashSet;
use std::sync::Arc;

use model::{Applied, Catalog, Change, Fault, Key, Kind, Policy, Written};
use serde_json::Value;

use super::write::{Author, Refused, set_times};
use super::{Reconciler, Source};
use crate::plan::{self, Plan};
use crate::sealing::{Medium, Sealer};
use crate::source::etcd::{EtcdError, EtcdSource, Expected, Operation, Place};
use crate::source::file::Document;
use crate::source::store::{Expect, Label, StoreError, Transaction, VersionSource};
use crate::stored_key;
use crate::view::View;

/// The objects that are to exist afterwards.
#[derive(Debug, Clone, Default)]
pub(crate) struct Set {
    /// Their keys and texts, each key once.
    pub(crate) objects: Vec<(Key, Arc<str>)>,
    /// The kinds that the set lists completely: other objects of these kinds are removed.
    pub(crate) complete: Vec<Kind>,
}

/// The wanted state.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    /// These objects.
    Set(Set),
    /// The objects at an older revision.
    Version(u64),
}

/// A whole set to be brought into force.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// The wanted state.
    pub(crate) wanted: Wanted,
    /// The revision that must be in force; none: any.
    pub(crate) expect: Option<u64>,
    /// Also applies faulty objects: each keeps its last good form, or stays out.
    pub(crate) lenient: bool,
    /// The author of the change.
    pub(crate) author: Author,
}

/// The result of an order.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// The changes that were made; empty when there were none.
    pub(crate) plan: Plan,
    /// The revision afterwards.
    pub(crate) revision: u64,
}

/// The reasons why nothing was changed.
#[derive(Debug, Clone)]
pub(crate) enum WholeRefused {
    /// As for a single write.
    Write(Refused),
    /// The configuration is at another revision than the one expected.
    Moved {
        /// The revision in force.
        revision: u64,
        /// The revision that was expected.
        expected: u64,
    },
    /// Objects of the set are faulty.
    Faulty(Vec<Fault>),
    /// The revision is not kept.
    Unknown {
        /// The requested revision.
        version: u64,
        /// The oldest kept revision.
        oldest: u64,
    },
}

impl Set {
    /// The set of a document: all objects that are to exist, or with `keep_others` only the named ones.
    pub(crate) fn of(document: &Document, keep_others: bool) -> Set {
        let objects =
            document.objects.iter().map(|object| (object.key.clone(), Arc::clone(&object.text))).collect();
        Set { objects, complete: if keep_others { Vec::new() } else { Kind::ALL.to_vec() } }
    }
}

impl From<StoreError> for WholeRefused {
    fn from(fault: StoreError) -> WholeRefused {
        WholeRefused::Write(Refused::Store(fault.to_string()))
    }
}

/// The conditions of a change.
pub(super) struct Terms<'a> {
    pub(super) source: VersionSource,
    pub(super) author: &'a Author,
    /// If present, nothing is changed when any object of this set is faulty; if none, the good objects are applied.
    pub(super) strict: Option<&'a Set>,
}

/// One object that differs from the wanted state.
#[derive(Debug, Clone)]
pub(super) struct Differing {
    pub(super) key: Key,
    before: Option<Arc<str>>,
    after: Option<Arc<str>>,
    expires_at_ms: Option<u64>,
}

/// The changes that this set would make now.
///
/// # Errors
/// The faulty objects.
pub(crate) fn plan(catalog: &Catalog, view: &View, set: &Set) -> Result<Plan, Vec<Fault>> {
    let differing = differences(view, set);
    let revision = view.revision() + 1;
    let changes: Vec<Change> = differing.iter().map(|differing| differing.change(view, revision)).collect();
    let applied = view.snapshot.apply(catalog, &changes, revision, Policy::Strict);
    let faults = faults_of(&applied, set);
    if faults.is_empty() { Ok(told(catalog, view.revision(), &differing)) } else { Err(faults) }
}

impl Reconciler {
    /// The changes that a rollback to that revision would make now.
    pub(crate) fn plan_back(&mut self, version: u64) -> Result<Plan, WholeRefused> {
        self.catch_up()?;
        let differing = self.wanted_changes(&Wanted::Version(version))?;
        Ok(told(&self.parts.catalog, self.snapshot.revision(), &differing))
    }

    /// Brings a whole set into force: durable and published in one revision, or not at all.
    pub(crate) fn take_whole(&mut self, order: &Order) -> Result<Outcome, WholeRefused> {
        self.catch_up()?;
        let now = self.snapshot.revision();
        if let Some(expected) = order.expect.filter(|expected| *expected != now) {
            return Err(WholeRefused::Moved { revision: now, expected });
        }
        let mut differing = self.wanted_changes(&order.wanted)?;
        let plan = told(&self.parts.catalog, now, &differing);
        let nothing = Set::default();
        let (source, set) = match &order.wanted {
            Wanted::Set(set) => {
                let now_s = self.parts.clock.unix_ms() / 1000;
                differing.iter_mut().for_each(|differing| differing.set_times(now_s));
                (VersionSource::Apply, set)
            }
            Wanted::Version(_) => (VersionSource::Rollback, &nothing),
        };
        let strict = (!order.lenient).then_some(set);
        let terms = Terms { source, author: &order.author, strict };
        match &self.parts.source {
            Source::Etcd(_) => self.change_all_in_etcd(&differing, &terms)?,
            Source::Store(_) | Source::File { .. } => self.change_all(&differing, &terms, |_| Ok(()))?,
        }
        Ok(Outcome { plan, revision: self.snapshot.revision() })
    }

    /// Writes the objects that differ in one revision, together with the data that `keep` writes, and publishes them.
    /// Where no object differs, only that data is written, under the revision in force.
    pub(super) fn change_all(
        &mut self,
        differing: &[Differing],
        terms: &Terms<'_>,
        keep: impl FnOnce(&mut Transaction<'_>) -> Result<(), StoreError>,
    ) -> Result<(), WholeRefused> {
        let view = self.parts.view.load();
        let at_ms = self.parts.clock.unix_ms();
        let Source::Store(store) = &mut self.parts.source else { return Err(self.only_read()) };
        let mut transaction = store.begin()?;
        transaction.sign(Label { at_ms, source: terms.source, by: Arc::clone(terms.author) });
        let revision = if differing.is_empty() { transaction.revision() } else { transaction.advance() };
        for differing in differing {
            let path = stored_key::text(&differing.key);
            match &differing.after {
                Some(text) => {
                    let text = self.parts.sealer.seal_for(Medium::Store, &differing.key, text);
                    transaction.put(&path, &text, Expect::Any, differing.expires_at_ms)?;
                }
                None => {
                    transaction.delete(&path)?;
                }
            }
        }
        let changes: Vec<Change> =
            differing.iter().map(|differing| differing.change(&view, revision)).collect();
        let policy = if terms.strict.is_some() { Policy::Strict } else { Policy::Lenient };
        let applied = self.snapshot.apply(&self.parts.catalog, &changes, revision, policy);
        let faults = terms.strict.map(|set| faults_of(&applied, set)).unwrap_or_default();
        if !faults.is_empty() {
            return Err(WholeRefused::Faulty(faults));
        }
        keep(&mut transaction)?;
        transaction.commit()?;
        if !differing.is_empty() {
            self.publish(applied);
        }
        Ok(())
    }

    /// Checks whether the objects that differ are good.
    pub(super) fn check_all(
        &self,
        differing: &[Differing],
        terms: &Terms<'_>,
        view: &View,
        revision: u64,
    ) -> Result<(), WholeRefused> {
        let changes: Vec<Change> =
            differing.iter().map(|differing| differing.change(view, revision)).collect();
        let policy = if terms.strict.is_some() { Policy::Strict } else { Policy::Lenient };
        let applied = self.snapshot.apply(&self.parts.catalog, &changes, revision, policy);
        let faults = terms.strict.map(|set| faults_of(&applied, set)).unwrap_or_default();
        if faults.is_empty() { Ok(()) } else { Err(WholeRefused::Faulty(faults)) }
    }

    /// The objects that differ from the wanted state.
    pub(super) fn wanted_changes(&self, wanted: &Wanted) -> Result<Vec<Differing>, WholeRefused> {
        let view = self.parts.view.load();
        let version = match (wanted, &self.parts.source) {
            (_, Source::File { .. }) => return Err(self.only_read()),
            (Wanted::Set(set), _) => return Ok(differences(&view, set)),
            (Wanted::Version(version), Source::Etcd(etcd)) => {
                return self.differences_to(etcd, &view, *version);
            }
            (Wanted::Version(version), Source::Store(_)) => *version,
        };
        let Source::Store(store) = &self.parts.source else { return Err(self.only_read()) };
        let unknown = || WholeRefused::Unknown { version, oldest: store.oldest_version() };
        let now_ms = self.parts.clock.unix_ms();
        let mut differing = Vec::new();
        for (path, record) in store.since(version)?.ok_or_else(unknown)? {
            // Records that are no objects were reported at the start, and are left unchanged.
            let Some(key) = stored_key::parse(&path) else { continue };
            // An object that has expired since would be removed at the next sweep.
            let record = record
                .filter(|record| record.expires_at_ms.is_none_or(|expires_at_ms| expires_at_ms > now_ms));
            let expires_at_ms = record.as_ref().and_then(|record| record.expires_at_ms);
            let after = record.and_then(|record| {
                stored_key::change(&self.parts.sealer, Medium::Store, key.clone(), record).written
            });
            // The stored value cannot be read, and writing its replacement text would destroy it.
            if let Some(reason) = after.as_ref().and_then(Written::why_unreadable) {
                return Err(WholeRefused::Faulty(vec![unreadable(&key, reason)]));
            }
            let after = after.map(|written| written.text);
            let before = view.written(&key).map(|written| Arc::clone(&written.text));
            let is_same = match (&before, &after) {
                (Some(before), Some(after)) => plan::same(key.kind, before, after),
                (before, after) => before.is_none() && after.is_none(),
            };
            if !is_same {
                differing.push(Differing { key, before, after, expires_at_ms });
            }
        }
        Ok(differing)
    }

    /// The objects that differ from those in etcd at that revision.
    fn differences_to(
        &self,
        etcd: &EtcdSource,
        view: &View,
        version: u64,
    ) -> Result<Vec<Differing>, WholeRefused> {
        let entries = etcd.handle().block_on(etcd.etcd.at(&etcd.space, version)).map_err(|fault| {
            if version > etcd.followed || fault == EtcdError::Compacted {
                WholeRefused::Unknown { version, oldest: self.oldest_in_etcd(etcd) }
            } else {
                WholeRefused::Write(Refused::Store(fault.to_string()))
            }
        })?;
        let mut set = Set { objects: Vec::with_capacity(entries.len()), complete: Kind::ALL.to_vec() };
        for (path, record) in entries {
            let Some(key) = stored_key::parse(&path) else { continue };
            let change = stored_key::change(&self.parts.sealer, Medium::Etcd, key.clone(), record);
            let Some(written) = change.written else { continue };
            if let Some(reason) = written.why_unreadable() {
                return Err(WholeRefused::Faulty(vec![unreadable(&key, reason)]));
            }
            set.objects.push((key, written.text));
        }
        Ok(differences(view, &set))
    }

    /// The refusal where there is no store to write.
    pub(super) fn only_read(&self) -> WholeRefused {
        WholeRefused::Write(self.read_only())
    }
}

impl Differing {
    fn change(&self, view: &View, revision: u64) -> Change {
        let created = view.written(&self.key).map_or(revision, |before| before.created_index);
        let written = self.after.as_ref().map(|text| Written {
            key: self.key.clone(),
            text: Arc::clone(text),
            created_index: created,
            modified_index: revision,
        });
        Change { key: self.key.clone(), written }
    }

    /// The operation for etcd. Its condition is that the object is at the revision that this instance knows.
    pub(super) fn operation(&self, view: &View, sealer: &Sealer) -> Operation {
        let text = self.after.as_ref();
        let text = text.map(|text| sealer.seal_for(Medium::Etcd, &self.key, text).into_owned());
        Operation {
            path: stored_key::text(&self.key),
            place: Place::Data,
            text,
            expect: Expected::At(view.written(&self.key).map_or(0, |before| before.modified_index)),
            ttl_s: None,
        }
    }

    /// Sets the times as a write of the Admin API does.
    fn set_times(&mut self, now_s: u64) {
        let Some(Ok(Value::Object(mut object))) = self.after.as_ref().map(|text| serde_json::from_str(text))
        else {
            return;
        };
        set_times(self.key.kind, &mut object, self.before.as_deref(), now_s);
        self.after = Some(Value::Object(object).to_string().into());
    }
}

/// The objects of the set that differ, and the objects that are not in the set, ordered by key.
pub(super) fn differences(view: &View, set: &Set) -> Vec<Differing> {
    let mut named: HashSet<&Key> = HashSet::with_capacity(set.objects.len());
    let mut differing = Vec::new();
    for (key, text) in &set.objects {
        named.insert(key);
        let before = view.written(key).map(|written| Arc::clone(&written.text));
        if before.as_deref().is_none_or(|before| !plan::same(key.kind, before, text)) {
            let (key, after) = (key.clone(), Some(Arc::clone(text)));
            differing.push(Differing { key, before, after, expires_at_ms: None });
        }
    }
    for written in set.complete.iter().flat_map(|kind| view.all_written(*kind)) {
        if !named.contains(&written.key) {
            let (key, before) = (written.key.clone(), Some(Arc::clone(&written.text)));
            differing.push(Differing { key, before, after: None, expires_at_ms: None });
        }
    }
    differing.sort_by(|left, right| left.key.cmp(&right.key));
    differing
}

/// All faults of the objects of the set, and of objects that refer to them. An object that was faulty before and is
/// unchanged in the set is still faulty.
fn faults_of(applied: &Applied, set: &Set) -> Vec<Fault> {
    // The usual case has no fault. If the change has faults of its own, it was not applied and `faults` has all of
    // them.
    if !applied.faults.is_empty() || applied.snapshot.faulty().next().is_none() {
        return applied.faults.clone();
    }
    set.objects.iter().flat_map(|(key, _)| applied.snapshot.faults_at(key)).collect()
}

fn unreadable(key: &Key, reason: &str) -> Fault {
    Fault { key: Some(key.clone()), pointer: String::new(), reason: reason.to_owned(), kept: false }
}

fn told(catalog: &Catalog, revision: u64, differing: &[Differing]) -> Plan {
    let change = |differing: &Differing| {
        plan::between(catalog, &differing.key, differing.before.as_deref(), differing.after.as_deref())
    };
    Plan::new(revision, differing.iter().filter_map(change).collect())
}

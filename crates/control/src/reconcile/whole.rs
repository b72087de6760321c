//! Many objects changed as one: what a whole set would change, and changing it, all of it or nothing, in one revision.
//! It refuses to know where the set comes from and who is told.

use std::collections::HashSet;
use std::sync::Arc;

use model::{Applied, Catalog, Change, Fault, Key, Kind, Policy, Written};
use serde_json::Value;

use super::write::{Author, Refused, set_times};
use super::{ControlLoop, Reconciler};
use crate::plan::{self, Plan};
use crate::source::file::Document;
use crate::source::store::{StoreError, VersionSource};
use crate::view::View;

/// Objects that are to be there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Set {
    /// Their keys and texts, each key once.
    pub(crate) objects: Vec<(Key, Arc<str>)>,
    /// The kinds of which whatever is not among them goes.
    pub(crate) complete: Vec<Kind>,
}

/// What is wanted.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    /// These objects.
    Set(Set),
    /// What was there at a revision.
    Version(u64),
}

/// A whole set to be brought into force.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// What is wanted.
    pub(crate) wanted: Wanted,
    /// Only if this revision is the one in force.
    pub(crate) expect: Option<u64>,
    /// Also what is faulty: it keeps its last good form, or stays out.
    pub(crate) lenient: bool,
    /// Who wants it.
    pub(crate) author: Author,
}

/// What became of an order.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// What was done; empty when there was nothing to do.
    pub(crate) plan: Plan,
    /// The revision now.
    pub(crate) revision: u64,
}

/// Why nothing was done.
#[derive(Debug, Clone)]
pub(crate) enum WholeRefused {
    /// As any write.
    Write(Refused),
    /// The configuration is at another revision than the one expected.
    Moved {
        /// The one in force.
        revision: u64,
        /// The one expected.
        expected: u64,
    },
    /// Objects that could not be used.
    Faulty(Vec<Fault>),
    /// The version is not kept.
    Unknown {
        /// The one asked for.
        version: u64,
        /// The oldest that can be told.
        oldest: u64,
    },
}

impl Set {
    /// What a document wants: all that there is to be, or with `keep_others` only what it names.
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

/// How a set is changed.
pub(crate) struct Terms<'a> {
    pub(super) source: VersionSource,
    pub(super) author: &'a Author,
    /// Nothing is changed if any of these objects could not be used; without it, what can is brought into force.
    pub(super) strict: Option<&'a Set>,
}

/// One object that differs from what is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Differing {
    pub(super) key: Key,
    pub(super) before: Option<Arc<str>>,
    pub(super) after: Option<Arc<str>>,
    pub(super) expires_at_ms: Option<u64>,
}

/// What bringing the set into force would do now.
///
/// # Errors
/// The objects that could not be used.
pub(crate) fn plan(catalog: &Catalog, view: &View, set: &Set) -> Result<Plan, Vec<Fault>> {
    let differing = differences(view, set);
    let revision = view.revision() + 1;
    let changes: Vec<Change> = differing.iter().map(|differing| differing.change(view, revision)).collect();
    let applied = view.snapshot.apply(catalog, &changes, revision, Policy::Strict);
    let faults = faults_of(&applied, set);
    if faults.is_empty() { Ok(told(catalog, view.revision(), &differing)) } else { Err(faults) }
}

impl ControlLoop {
    /// What going back to a version would do now.
    pub(crate) fn plan_back(&mut self, version: u64) -> Result<Plan, WholeRefused> {
        self.source.catch_up(&mut self.reconciler)?;
        let differing = self.source.differences_to(&self.reconciler, version)?;
        Ok(told(&self.reconciler.parts.catalog, self.reconciler.snapshot.revision(), &differing))
    }

    /// Brings a whole set into force: durable and published in one revision, or nothing of it.
    pub(crate) fn take_whole(&mut self, order: &Order) -> Result<Outcome, WholeRefused> {
        let (source, reconciler) = (&mut self.source, &mut self.reconciler);
        source.catch_up(reconciler)?;
        let now = reconciler.snapshot.revision();
        if let Some(expected) = order.expect.filter(|expected| *expected != now) {
            return Err(WholeRefused::Moved { revision: now, expected });
        }
        let mut differing = match &order.wanted {
            Wanted::Set(set) => differences(&reconciler.parts.view.load(), set),
            Wanted::Version(version) => source.differences_to(reconciler, *version)?,
        };
        let plan = told(&reconciler.parts.catalog, now, &differing);
        let nothing = Set::default();
        let (made_by, set) = match &order.wanted {
            Wanted::Set(set) => {
                let now_s = reconciler.parts.clock.unix_ms() / 1000;
                differing.iter_mut().for_each(|differing| differing.set_times(now_s));
                (VersionSource::Apply, set)
            }
            Wanted::Version(_) => (VersionSource::Rollback, &nothing),
        };
        let strict = (!order.lenient).then_some(set);
        let terms = Terms { source: made_by, author: &order.author, strict };
        source.write_whole(reconciler, &differing, &terms)?;
        Ok(Outcome { plan, revision: reconciler.snapshot.revision() })
    }
}

impl Reconciler {
    /// Whether what differs could be used.
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
}

impl Differing {
    pub(super) fn change(&self, view: &View, revision: u64) -> Change {
        let created = view.written(&self.key).map_or(revision, |before| before.created_index);
        let written = self.after.as_ref().map(|text| Written {
            key: self.key.clone(),
            text: Arc::clone(text),
            created_index: created,
            modified_index: revision,
        });
        Change { key: self.key.clone(), written }
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

/// What of the set differs from what is there, and what is there and not in the set, ordered by key.
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

/// Everything that is wrong with the objects of the set, or with others that lean on them. What was faulty before and is
/// the same in the set is faulty still.
pub(super) fn faults_of(applied: &Applied, set: &Set) -> Vec<Fault> {
    // Nearly always nothing is faulty; and with faults of its own nothing was applied.
    if !applied.faults.is_empty() || applied.snapshot.faulty().next().is_none() {
        return applied.faults.clone();
    }
    set.objects.iter().flat_map(|(key, _)| applied.snapshot.faults_at(key)).collect()
}

pub(super) fn unreadable(key: &Key, reason: &str) -> Fault {
    Fault { key: Some(key.clone()), pointer: String::new(), reason: reason.to_owned(), kept: false }
}

fn told(catalog: &Catalog, revision: u64, differing: &[Differing]) -> Plan {
    let change = |differing: &Differing| {
        plan::between(catalog, &differing.key, differing.before.as_deref(), differing.after.as_deref())
    };
    Plan::new(revision, differing.iter().filter_map(change).collect())
}

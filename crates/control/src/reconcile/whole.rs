//! Many objects changed as one: the changes of a whole set, and making them, all or none, in one revision. It
//! knows neither the origin of the set nor the receiver of the answer.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use model::{
    Applied, ConfigFault, FaultPolicy, ObjectKey, ObjectKind, PluginCatalog, SnapshotChange, WrittenObject,
    check,
};
use serde_json::Value;

use super::write::{Author, WriteRefusal, set_times};
use super::{ControlLoop, Reconciler};
use crate::hidden::places::HIDDEN;
use crate::hidden::{self, NothingStored};
use crate::plan::{self, ConfigPlan};
use crate::source::file::ConfigDocument;
use crate::source::store::{StoreError, VersionSource};
use crate::view::View;

/// The objects that are to exist afterwards.
#[derive(Debug, Clone, Default)]
pub(crate) struct DesiredSet {
    /// Their keys and texts, each key once.
    pub(crate) objects: Vec<(ObjectKey, Arc<str>)>,
    /// The kinds that the set lists completely: other objects of these kinds are removed.
    pub(crate) complete: Vec<ObjectKind>,
    /// Objects that are removed, whatever the kinds that are listed completely. Missing ones are ignored.
    pub(crate) deletes: Vec<ObjectKey>,
}

/// The wanted state.
#[derive(Debug, Clone)]
pub(crate) enum DesiredState {
    /// These objects.
    Set(DesiredSet),
    /// The objects at an older revision.
    Version(u64),
}

/// A whole set to be brought into force.
#[derive(Debug, Clone)]
pub(crate) struct ApplyRequest {
    /// The wanted state.
    pub(crate) wanted: DesiredState,
    /// The revision that must be in force; none: any.
    pub(crate) expect: Option<u64>,
    /// Also applies faulty objects: each keeps its last good form, or stays out.
    pub(crate) lenient: bool,
    /// The author of the change.
    pub(crate) author: Author,
}

/// The result of an order.
#[derive(Debug, Clone)]
pub(crate) struct ApplyOutcome {
    /// The changes that were made; empty when there were none.
    pub(crate) plan: ConfigPlan,
    /// The revision afterwards.
    pub(crate) revision: u64,
}

/// The reasons why nothing was changed.
#[derive(Debug, Clone)]
pub(crate) enum WholeRefused {
    /// As for a single write.
    Write(WriteRefusal),
    /// The configuration is at another revision than the one expected.
    Moved {
        /// The revision in force.
        revision: u64,
        /// The revision that was expected.
        expected: u64,
    },
    /// Objects of the set are faulty.
    Faulty(Vec<ConfigFault>),
    /// The revision is not kept.
    Unknown {
        /// The requested revision.
        version: u64,
        /// The oldest kept revision.
        oldest: u64,
    },
}

impl DesiredSet {
    /// The set of a document: all objects that are to exist, or with `keep_others` only the named ones.
    pub(crate) fn of(document: &ConfigDocument, keep_others: bool) -> DesiredSet {
        let objects =
            document.objects.iter().map(|object| (object.key.clone(), Arc::clone(&object.text))).collect();
        let deletes = document.deletes.iter().map(|(key, _)| key.clone()).collect();
        DesiredSet {
            objects,
            complete: if keep_others { Vec::new() } else { ObjectKind::ALL.to_vec() },
            deletes,
        }
    }

    /// The set with stored secrets in the places where it has them hidden.
    ///
    /// # Errors
    /// The places where no secret is stored.
    fn revealed(
        &self,
        catalog: &PluginCatalog,
        view: &View,
    ) -> Result<Cow<'_, DesiredSet>, Vec<ConfigFault>> {
        let is_hidden = |(_, text): &&(ObjectKey, Arc<str>)| text.contains(HIDDEN);
        if !self.objects.iter().any(|object| is_hidden(&object)) {
            return Ok(Cow::Borrowed(self));
        }
        let mut set = self.clone();
        let mut faults = Vec::new();
        for (key, text) in set.objects.iter_mut().filter(|object| is_hidden(&&**object)) {
            // A text that is no JSON has other faults.
            let Ok(mut object) = serde_json::from_str::<Value>(text) else { continue };
            let before = view.written(key).map(|written| &*written.text);
            match hidden::put_back(catalog, key, &mut object, before) {
                Ok(()) => *text = object.to_string().into(),
                Err(NothingStored { pointer }) => faults.push(ConfigFault {
                    key: Some(key.clone()),
                    pointer,
                    reason: NothingStored::REASON.to_owned(),
                    kept: view.snapshot.contains(key),
                }),
            }
        }
        if faults.is_empty() { Ok(Cow::Owned(set)) } else { Err(faults) }
    }
}

impl From<StoreError> for WholeRefused {
    fn from(fault: StoreError) -> WholeRefused {
        WholeRefused::Write(WriteRefusal::Store(fault.to_string()))
    }
}

/// The conditions of a change.
pub(crate) struct Terms<'a> {
    pub(super) source: VersionSource,
    pub(super) author: &'a Author,
    /// If present, nothing is changed when any object of this set is faulty; if none, the good objects are
    /// applied.
    pub(super) strict: Option<&'a DesiredSet>,
}

/// One object that differs from the wanted state.
#[derive(Debug, Clone)]
pub(crate) struct Differing {
    pub(super) key: ObjectKey,
    pub(super) before: Option<Arc<str>>,
    pub(super) after: Option<Arc<str>>,
    pub(super) expires_at_ms: Option<u64>,
}

/// The changes that this set would make now.
///
/// # Errors
/// The faulty objects.
pub(crate) fn plan_set(
    catalog: &PluginCatalog,
    view: &View,
    set: &DesiredSet,
) -> Result<ConfigPlan, Vec<ConfigFault>> {
    let set = set.revealed(catalog, view)?;
    let differing = differences(view, &set);
    let revision = view.revision() + 1;
    let changes: Vec<SnapshotChange> =
        differing.iter().map(|differing| differing.change(view, revision)).collect();
    let applied = view.snapshot.apply(catalog, &changes, revision, FaultPolicy::Strict);
    let faults = collect_set_faults(&applied, &set);
    if faults.is_empty() { Ok(config_plan(catalog, view.revision(), &differing)) } else { Err(faults) }
}

impl ControlLoop {
    /// The changes that a rollback to that revision would make now.
    pub(crate) fn plan_back(&mut self, version: u64) -> Result<ConfigPlan, WholeRefused> {
        self.source.catch_up(&mut self.reconciler)?;
        let differing = self.source.differences_to(&self.reconciler, version)?;
        Ok(config_plan(&self.reconciler.parts.catalog, self.reconciler.snapshot.revision(), &differing))
    }

    /// Brings a whole set into force: durable and published in one revision, or not at all.
    pub(crate) fn take_whole(&mut self, order: &ApplyRequest) -> Result<ApplyOutcome, WholeRefused> {
        let taken = self.try_to_take(order);
        self.reconciler.note_whole(&taken);
        taken
    }

    fn try_to_take(&mut self, order: &ApplyRequest) -> Result<ApplyOutcome, WholeRefused> {
        let (source, reconciler) = (&mut self.source, &mut self.reconciler);
        source.catch_up(reconciler)?;
        let now = reconciler.snapshot.revision();
        if let Some(expected) = order.expect.filter(|expected| *expected != now) {
            return Err(WholeRefused::Moved { revision: now, expected });
        }
        let view = reconciler.parts.view.load();
        let set = match &order.wanted {
            DesiredState::Set(set) => {
                set.revealed(&reconciler.parts.catalog, &view).map_err(WholeRefused::Faulty)?
            }
            DesiredState::Version(_) => Cow::Owned(DesiredSet::default()),
        };
        let mut differing = match &order.wanted {
            DesiredState::Set(_) => differences(&view, &set),
            DesiredState::Version(version) => source.differences_to(reconciler, *version)?,
        };
        let plan = config_plan(&reconciler.parts.catalog, now, &differing);
        let made_by = match &order.wanted {
            DesiredState::Set(_) => {
                let now_s = reconciler.parts.clock.unix_ms() / 1000;
                differing.iter_mut().for_each(|differing| differing.set_times(now_s));
                VersionSource::Apply
            }
            DesiredState::Version(_) => VersionSource::Rollback,
        };
        let expired: Vec<ConfigFault> =
            differing.iter().flat_map(|differing| reconciler.expired(differing)).collect();
        if !order.lenient && matches!(made_by, VersionSource::Apply) && !expired.is_empty() {
            return Err(WholeRefused::Faulty(expired));
        }
        let strict = (!order.lenient).then_some(&*set);
        let terms = Terms { source: made_by, author: &order.author, strict };
        source.write_whole(reconciler, &differing, &terms)?;
        Ok(ApplyOutcome { plan, revision: reconciler.snapshot.revision() })
    }
}

impl Reconciler {
    /// Checks whether the objects that differ are good.
    pub(super) fn check_all(
        &self,
        differing: &[Differing],
        terms: &Terms<'_>,
        view: &View,
        revision: u64,
    ) -> Result<(), WholeRefused> {
        let changes: Vec<SnapshotChange> =
            differing.iter().map(|differing| differing.change(view, revision)).collect();
        let policy = if terms.strict.is_some() { FaultPolicy::Strict } else { FaultPolicy::Lenient };
        let applied = self.snapshot.apply(&self.parts.catalog, &changes, revision, policy);
        let faults = terms.strict.map(|set| collect_set_faults(&applied, set)).unwrap_or_default();
        if faults.is_empty() { Ok(()) } else { Err(WholeRefused::Faulty(faults)) }
    }
}

impl Reconciler {
    /// The fault of an `ssl` object with certificates that have expired, where a setting refuses such.
    fn expired(&self, differing: &Differing) -> Vec<ConfigFault> {
        if differing.key.kind != ObjectKind::Ssl || !self.parts.catalog.options().refuses_expired_certificates
        {
            return Vec::new();
        }
        // A text that is no JSON has other faults.
        let value = differing.after.as_ref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let now_s = i64::try_from(self.parts.clock.unix_ms() / 1000).unwrap_or(i64::MAX);
        let refused = value.and_then(|value| check::unexpired(ObjectKind::Ssl, &value, now_s).err());
        let kept = self.snapshot.contains(&differing.key);
        refused.map(|refusal| refusal.into_faults(&differing.key, kept)).unwrap_or_default()
    }
}

impl Differing {
    pub(super) fn change(&self, view: &View, revision: u64) -> SnapshotChange {
        let created = view.written(&self.key).map_or(revision, |before| before.created_index);
        let written = self.after.as_ref().map(|text| WrittenObject {
            key: self.key.clone(),
            text: Arc::clone(text),
            created_index: created,
            modified_index: revision,
        });
        SnapshotChange { key: self.key.clone(), written }
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
pub(super) fn differences(view: &View, set: &DesiredSet) -> Vec<Differing> {
    let mut named: HashSet<&ObjectKey> = HashSet::with_capacity(set.objects.len());
    let mut differing = Vec::new();
    for (key, text) in &set.objects {
        named.insert(key);
        let before = view.written(key).map(|written| Arc::clone(&written.text));
        if before.as_deref().is_none_or(|before| !plan::same(key.kind, before, text)) {
            let (key, after) = (key.clone(), Some(Arc::clone(text)));
            differing.push(Differing { key, before, after, expires_at_ms: None });
        }
    }
    let listed = set.complete.iter().flat_map(|kind| view.all_written(*kind));
    for written in listed.chain(removed(view, set)) {
        // An object is listed twice where the set names a consumer and a credential of it.
        if named.insert(&written.key) {
            let (key, before) = (written.key.clone(), Some(Arc::clone(&written.text)));
            differing.push(Differing { key, before, after: None, expires_at_ms: None });
        }
    }
    differing.sort_by(|left, right| left.key.cmp(&right.key));
    differing
}

/// The objects that the set removes by name; with a consumer, its credentials.
fn removed<'v>(view: &'v View, set: &'v DesiredSet) -> impl Iterator<Item = &'v WrittenObject> {
    let consumers: HashSet<&str> =
        set.deletes.iter().filter(|key| key.kind == ObjectKind::Consumer).map(ObjectKey::own_id).collect();
    let credentials =
        if consumers.is_empty() { Vec::new() } else { view.all_written(ObjectKind::Credential) };
    let of_consumer = move |written: &&WrittenObject| {
        written.key.consumer().is_some_and(|consumer| consumers.contains(consumer))
    };
    set.deletes.iter().filter_map(|key| view.written(key)).chain(credentials.into_iter().filter(of_consumer))
}

/// All faults of the objects of the set, and of objects that refer to them. An object that was faulty before
/// and is unchanged in the set is still faulty.
pub(super) fn collect_set_faults(applied: &Applied, set: &DesiredSet) -> Vec<ConfigFault> {
    // The usual case has no fault. If the change has faults of its own, it was not applied and `faults` has
    // all of them.
    if !applied.faults.is_empty() || applied.snapshot.faulty().next().is_none() {
        return applied.faults.clone();
    }
    set.objects.iter().flat_map(|(key, _)| applied.snapshot.faults_at(key)).collect()
}

pub(super) fn unreadable(key: &ObjectKey, reason: &str) -> ConfigFault {
    ConfigFault { key: Some(key.clone()), pointer: String::new(), reason: reason.to_owned(), kept: false }
}

fn config_plan(catalog: &PluginCatalog, revision: u64, differing: &[Differing]) -> ConfigPlan {
    let change = |differing: &Differing| {
        plan::between(catalog, &differing.key, differing.before.as_deref(), differing.after.as_deref())
    };
    ConfigPlan::new(revision, differing.iter().filter_map(change).collect())
}

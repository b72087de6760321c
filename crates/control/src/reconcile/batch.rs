//! Writing many objects in one durable transaction: each write is checked against the snapshot that the
//! writes before it have left, and none is published unless all of them are durable. It does not know the
//! origin of the writes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use model::{
    Applied, ConfigFault, Difference, FaultPolicy, ObjectKey, ObjectKind, PluginCatalog, Snapshot,
    SnapshotChange, WrittenObject, check,
};
use serde_json::{Map, Value};

use super::Signed;
use super::journal::{Indices, Journal, JournalPut};
use super::write::{Done, PatchPart, Write, WriteRefusal, forbid_times, set_times};
use crate::hidden;
use crate::source::store::Expect;
use crate::stored_key;

/// The writes of one transaction so far.
pub(super) struct WriteBatch<'a, J> {
    pub(super) journal: J,
    catalog: &'a PluginCatalog,
    snapshot: Snapshot,
    /// The changes of all writes so far, each object once, kinds in resolving order.
    differences: BTreeMap<ObjectKey, Difference>,
    faults: Vec<ConfigFault>,
    now_ms: u64,
    /// Whether the batch has any write.
    dirty: bool,
}

impl<'a, J: Journal> WriteBatch<'a, J> {
    pub(super) fn new(
        journal: J,
        catalog: &'a PluginCatalog,
        snapshot: Snapshot,
        now_ms: u64,
    ) -> WriteBatch<'a, J> {
        WriteBatch {
            journal,
            catalog,
            snapshot,
            differences: BTreeMap::new(),
            faults: Vec::new(),
            now_ms,
            dirty: false,
        }
    }

    /// The journal, to be made durable, and what that brings into force; none if nothing was written.
    pub(super) fn finish(self) -> Option<(J, Applied)> {
        let diff = self.differences.into_values().collect();
        let applied = Applied { snapshot: self.snapshot, diff, faults: self.faults };
        self.dirty.then_some((self.journal, applied))
    }

    pub(super) fn write(&mut self, signed: Signed) -> Result<Done, WriteRefusal> {
        let Signed { write, condition, .. } = signed;
        match write.key() {
            Some(key) if !condition.holds(self.written(key).map(|written| written.modified_index)) => {
                return Err(WriteRefusal::Changed(key.clone()));
            }
            None if !condition.holds(None) => {
                return Err(WriteRefusal::Invalid(
                    "an object that gets its id with this write has no revision for If-Match".to_owned(),
                ));
            }
            _ => {}
        }
        let planned = self.journal.planned();
        let done = match write {
            Write::Put { key, body, ttl_s } => self.put(key, body, ttl_s),
            Write::Create { kind, body, ttl_s } => self.create(kind, body, ttl_s),
            Write::Patch { key, part, ttl_s } => self.patch(key, part, ttl_s),
            Write::Delete { key, force } => self.delete(&key, force),
        };
        if done.is_err() {
            self.journal.take_back(planned);
        }
        done
    }

    fn put(
        &mut self,
        key: ObjectKey,
        mut body: Map<String, Value>,
        ttl_s: Option<f64>,
    ) -> Result<Done, WriteRefusal> {
        if let Some(consumer) = key.consumer()
            && !ObjectKey::new(ObjectKind::Consumer, consumer)
                .is_ok_and(|consumer| self.written(&consumer).is_some())
        {
            return Err(WriteRefusal::NoConsumer);
        }
        if key.kind != ObjectKind::PluginMetadata {
            forbid_times(&body).map_err(WriteRefusal::Invalid)?;
        }
        set_times(key.kind, &mut body, self.written(&key).map(|written| &*written.text), self.now_ms / 1000);
        self.store(key, body, Expect::Any, ttl_s)
    }

    /// The id is a revision of its own, with twenty digits as in etcd.
    fn create(
        &mut self,
        kind: ObjectKind,
        mut body: Map<String, Value>,
        ttl_s: Option<f64>,
    ) -> Result<Done, WriteRefusal> {
        forbid_times(&body).map_err(WriteRefusal::Invalid)?;
        let number = self.journal.new_id().map_err(|fault| WriteRefusal::Store(fault.to_string()))?;
        let id = format!("{number:020}");
        let key = ObjectKey::new(kind, &id).expect("twenty digits are an id");
        body.insert("id".to_owned(), Value::String(id));
        set_times(kind, &mut body, None, self.now_ms / 1000);
        self.store(key, body, Expect::Any, ttl_s)
    }

    fn patch(&mut self, key: ObjectKey, part: PatchPart, ttl_s: Option<f64>) -> Result<Done, WriteRefusal> {
        let before = self.written(&key).ok_or(WriteRefusal::NotFound)?;
        let index = before.modified_index;
        let mut object = part.apply(&before.text, self.now_ms / 1000).map_err(WriteRefusal::Invalid)?;
        settle_id(&key, &mut object);
        self.store(key, object, Expect::ModifiedIndex(index), ttl_s)
    }

    fn store(
        &mut self,
        key: ObjectKey,
        body: Map<String, Value>,
        expect: Expect,
        ttl_s: Option<f64>,
    ) -> Result<Done, WriteRefusal> {
        let mut value = Value::Object(body);
        let before = self.written(&key);
        hidden::put_back(self.catalog, &key, &mut value, before.map(|before| &*before.text))
            .map_err(|fault| WriteRefusal::Invalid(fault.to_string()))?;
        if self.catalog.options().refuses_expired_certificates {
            let now_s = i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX);
            check::unexpired(key.kind, &value, now_s)
                .map_err(|refusal| WriteRefusal::Invalid(refusal.contract_message().to_owned()))?;
        }
        let admitted = self
            .snapshot
            .admit(self.catalog, &key, &value)
            .map_err(|refusal| WriteRefusal::Invalid(refusal.contract_message().to_owned()))?;
        let before = self.written(&key).map(indices);
        let created = before.is_none();
        let text: Arc<str> = value.to_string().into();
        let revision = self.journal.advance();
        let put = JournalPut { key: &key, text: &text, before, expect, ttl_s, now_ms: self.now_ms };
        let indices = self.journal.put(&put).map_err(|fault| WriteRefusal::Store(fault.to_string()))?;
        let written = WrittenObject {
            key: key.clone(),
            text: Arc::clone(&text),
            created_index: indices.created,
            modified_index: indices.modified,
        };
        let applied = self.snapshot.put(self.catalog, admitted, written, revision);
        self.take(applied);
        Ok(Done::Stored { key, text, created, revision })
    }

    fn delete(&mut self, key: &ObjectKey, force: bool) -> Result<Done, WriteRefusal> {
        if self.written(key).is_none() {
            return Err(WriteRefusal::NotFound);
        }
        if !force && let Some(user) = self.snapshot.still_used(key) {
            return Err(WriteRefusal::Invalid(user));
        }
        let revision = self.journal.advance();
        let mut keys = self.credentials_of(key);
        keys.push(key.clone());
        for key in &keys {
            let before = self.written(key).map(indices);
            self.journal
                .delete(&stored_key::format_stored_key(key), before.as_ref())
                .map_err(|fault| WriteRefusal::Store(fault.to_string()))?;
        }
        let changes: Vec<SnapshotChange> =
            keys.into_iter().map(|key| SnapshotChange { key, written: None }).collect();
        self.take(self.snapshot.apply(self.catalog, &changes, revision, FaultPolicy::Lenient));
        Ok(Done::Deleted { key: key.clone(), revision })
    }

    /// Removes an expired object, even if other objects refer to it.
    pub(super) fn expire(&mut self, path: &str) -> Result<(), WriteRefusal> {
        match stored_key::parse_stored_key(path) {
            Some(key) => self.delete(&key, true).map(drop),
            None => {
                self.journal.advance();
                self.dirty = true;
                self.journal.delete(path, None).map_err(|fault| WriteRefusal::Store(fault.to_string()))
            }
        }
    }

    /// The credentials of a consumer, which are removed with it.
    fn credentials_of(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        if key.kind != ObjectKind::Consumer {
            return Vec::new();
        }
        self.snapshot.dependents(key).into_iter().filter(|user| user.kind == ObjectKind::Credential).collect()
    }

    /// Adds the changes of a write to those of the batch.
    fn take(&mut self, applied: Applied) {
        self.snapshot = applied.snapshot;
        self.faults.extend(applied.faults);
        for difference in applied.diff {
            match self.differences.entry(difference.key.clone()) {
                Entry::Occupied(mut earlier) => earlier.get_mut().after = difference.after,
                Entry::Vacant(place) => {
                    place.insert(difference);
                }
            }
        }
        self.dirty = true;
    }

    fn written(&self, key: &ObjectKey) -> Option<&WrittenObject> {
        match self.snapshot.faulty_at(key) {
            Some(faulty) => Some(&faulty.written),
            None => self.snapshot.get(key).map(|object| &object.written),
        }
    }
}

fn indices(written: &WrittenObject) -> Indices {
    Indices { created: written.created_index, modified: written.modified_index }
}

/// Writes the object's own id into a patched object as a text, even if the patch did not touch it. An id of
/// another object stays, so that the write is refused.
fn settle_id(key: &ObjectKey, object: &mut Map<String, Value>) {
    let own = if key.kind == ObjectKind::Secret { &*key.id } else { key.own_id() };
    let differs = match object.get("id") {
        Some(Value::String(id)) => id != own,
        Some(Value::Number(id)) => id.to_string() != own,
        Some(_) => true,
        None => false,
    };
    if !differs {
        object.insert("id".to_owned(), own.into());
    }
}

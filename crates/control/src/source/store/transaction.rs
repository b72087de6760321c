//! Writes that become durable together, and their conditions. It does not know the writers.

use std::cell::Cell;

use redb::{ReadableTable, WriteTransaction};

use super::failures;
use super::guard::{Leaked, guarded};
use super::versions::{PendingRevision, RevisionLabel};
use super::{
    ConfigStore, FORMAT, FORMAT_VERSION, KEPT, LOGGED, OBJECTS, ORIGIN, REVISION, StoreError, StoredRecord,
    failed, put_bytes, put_number,
};

/// Condition of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No condition.
    Any,
    /// The object's `modified_index` is still this one (compare-and-swap).
    ModifiedIndex(u64),
}

/// Writes that become durable together.
pub struct Transaction<'a> {
    store: &'a mut ConfigStore,
    /// None after the commit, or after a panic of the library.
    write: Cell<Option<Leaked<WriteTransaction>>>,
    revision: u64,
    expiry_changes: Vec<ExpiryChange>,
    /// The author of the changes; without it they are not recorded as revisions.
    label: Option<RevisionLabel>,
    pending: Vec<PendingRevision>,
    /// Whether a change was not recorded, so that the recorded history no longer fits the objects.
    unsigned: bool,
}

#[derive(Debug)]
struct ExpiryChange {
    key: String,
    before_ms: Option<u64>,
    after_ms: Option<u64>,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(store: &'a mut ConfigStore, write: Leaked<WriteTransaction>) -> Transaction<'a> {
        Transaction {
            revision: store.revision,
            write: Cell::new(Some(write)),
            expiry_changes: Vec::new(),
            label: None,
            pending: Vec::new(),
            unsigned: false,
            store,
        }
    }

    /// The next revision. Every single write takes one, so that the answer to a write names exactly that
    /// write.
    pub fn advance(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Sets the author of later changes, and records them as revisions. A change without an author ends the
    /// recorded history.
    pub fn sign(&mut self, label: RevisionLabel) {
        self.label = Some(label);
    }

    /// The revision reached so far.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Writes one object under the current revision and returns its record.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when `expect` does not hold; the transaction stays usable. Otherwise a
    /// failure of the file; the transaction is then unusable.
    pub fn put(
        &mut self,
        key: &str,
        text: &str,
        expect: Expect,
        expires_at_ms: Option<u64>,
    ) -> Result<StoredRecord, StoreError> {
        let before = self.get(key)?;
        if let Expect::ModifiedIndex(index) = expect
            && before.as_ref().is_none_or(|record| record.modified_index != index)
        {
            return Err(StoreError::Conflict);
        }
        let record = StoredRecord {
            text: text.to_owned(),
            created_index: before.as_ref().map_or(self.revision, |record| record.created_index),
            modified_index: self.revision,
            expires_at_ms,
        };
        self.insert(key, &record)?;
        self.note_expiry(key, before.as_ref().and_then(|record| record.expires_at_ms), expires_at_ms);
        self.note(key, before);
        Ok(record)
    }

    /// Writes one object of another source with that source's revisions.
    ///
    /// # Errors
    /// A failure of the file; the transaction cannot be used any more.
    pub fn copy(&mut self, key: &str, record: &StoredRecord) -> Result<(), StoreError> {
        self.insert(key, record)
    }

    fn insert(&self, key: &str, record: &StoredRecord) -> Result<(), StoreError> {
        self.guarded(|write| {
            let mut table = Leaked::new(write.open_table(OBJECTS).map_err(failed)?);
            table.insert(key, record.encode().as_slice()).map_err(failed)?;
            Ok(())
        })
    }

    /// Sets the revision of the source of copied objects. It may be lower than the previous revision of this
    /// store.
    pub fn copy_revision(&mut self, revision: u64) {
        self.revision = revision;
    }

    /// Writes the origin of the copied objects.
    ///
    /// # Errors
    /// A failure of the file; the transaction cannot be used any more.
    pub fn copy_origin(&mut self, origin: &str) -> Result<(), StoreError> {
        self.guarded(|write| put_bytes(write, ORIGIN, origin.as_bytes()))
    }

    /// Removes one object; returns whether it existed.
    pub fn delete(&mut self, key: &str) -> Result<bool, StoreError> {
        let Some(before) = self.get(key)? else { return Ok(false) };
        self.guarded(|write| {
            let mut table = Leaked::new(write.open_table(OBJECTS).map_err(failed)?);
            table.remove(key).map_err(failed)?;
            Ok(())
        })?;
        self.note_expiry(key, before.expires_at_ms, None);
        self.note(key, Some(before));
        Ok(true)
    }

    /// Stores bytes beside the objects under a name; see [`ConfigStore::kept`].
    pub fn keep(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.guarded(|write| put_bytes(write, &format!("{KEPT}{name}"), bytes))
    }

    /// One object as this transaction sees it.
    pub fn get(&self, key: &str) -> Result<Option<StoredRecord>, StoreError> {
        self.guarded(|write| {
            let table = Leaked::new(write.open_table(OBJECTS).map_err(failed)?);
            let bytes = table.get(key).map_err(failed)?;
            let decode = |bytes: &[u8]| {
                StoredRecord::decode(bytes)
                    .map_err(|fault| StoreError::Failed(format!("object {key}: {fault}")))
            };
            bytes.map(|bytes| decode(bytes.value())).transpose()
        })
    }

    /// All writing calls of the library go through this function, because they may panic over a damaged file.
    pub(super) fn guarded<T>(
        &self,
        call: impl FnOnce(&WriteTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Some(write) = self.write.take() else { return Err(self.store.note_damage()) };
        match guarded(|| call(&write)) {
            Ok(done) => {
                self.write.set(Some(write));
                done
            }
            Err(_) => {
                write.forget();
                Err(self.store.note_damage())
            }
        }
    }

    /// Makes all writes durable (fsync) and returns the new revision.
    pub fn commit(mut self) -> Result<u64, StoreError> {
        let revision = self.revision;
        let pending = std::mem::take(&mut self.pending);
        let (log, before, format) = (self.store.log, self.store.revision, self.store.format);
        let is_unsigned = self.unsigned;
        let written = self.guarded(|write| {
            put_number(write, REVISION, revision)?;
            if format != FORMAT {
                put_number(write, FORMAT_VERSION, FORMAT)?;
            }
            if is_unsigned {
                return Ok(log.ended());
            }
            put_number(write, LOGGED, revision)?;
            log.write(write, pending, before)
        });
        let committed = written.and_then(|log| {
            let write = self.write.take().expect("a guarded call has just put it back");
            match guarded(|| write.into_inner().commit()) {
                Ok(done) => done.map(|()| log).map_err(failed),
                Err(_) => Err(self.store.note_damage()),
            }
        });
        self.store.log = match committed {
            Ok(log) => log,
            Err(fault) => {
                if matches!(fault, StoreError::Failed(_)) {
                    failures::count_store_failure();
                }
                drop(self.write.take());
                self.store.close();
                return Err(fault);
            }
        };
        self.store.revision = revision;
        self.store.format = FORMAT;
        for change in self.expiry_changes.drain(..) {
            if let Some(at) = change.before_ms {
                self.store.expiries.remove(&(at, change.key.clone()));
            }
            if let Some(at) = change.after_ms {
                self.store.expiries.insert((at, change.key));
            }
        }
        Ok(revision)
    }

    fn note(&mut self, key: &str, before: Option<StoredRecord>) {
        match &self.label {
            Some(label) => PendingRevision::note(&mut self.pending, self.revision, label, key, before),
            None => self.unsigned = true,
        }
    }

    fn note_expiry(&mut self, key: &str, before_ms: Option<u64>, after_ms: Option<u64>) {
        if before_ms.is_some() || after_ms.is_some() {
            self.expiry_changes.push(ExpiryChange { key: key.to_owned(), before_ms, after_ms });
        }
    }
}

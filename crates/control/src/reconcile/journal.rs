//! The destination of the writes of one batch: a transaction of the embedded store, or a list of operations that etcd
//! carries out after all of them are checked. It knows neither the objects nor the permissions.

use std::collections::HashSet;

use model::Key;

use crate::sealing::{Medium, Sealer};
use crate::source::etcd::{Etcd, Expected, KeySpace, Operation, Place};
use crate::source::store::{Expect, Label, StoreError, Transaction};
use crate::stored_key;

/// The writes of one batch.
pub(super) enum Journal<'a> {
    /// Durable with the commit of the transaction; secrets are encrypted.
    Store(Box<Transaction<'a>>, &'a Sealer),
    /// Operations that are not sent yet.
    Etcd(Planned<'a>),
}

/// The operations for etcd.
pub(super) struct Planned<'a> {
    etcd: &'a Etcd,
    space: &'a KeySpace,
    runtime: &'a tokio::runtime::Handle,
    sealer: &'a Sealer,
    /// Counts up from the revision in force; etcd assigns the real ones when it does the writes.
    revision: u64,
    operations: Vec<Operation>,
    /// Keys that an operation of this batch writes; a later operation on such a key builds on that write.
    touched: HashSet<String>,
}

/// The revisions of a written object.
pub(super) struct Indices {
    pub(super) created: u64,
    pub(super) modified: u64,
}

/// One put, with the known revisions of the object that it replaces.
pub(super) struct Put<'p> {
    pub(super) key: &'p Key,
    pub(super) text: &'p str,
    /// Revisions of the object as the writer sees it; none: the object is new.
    pub(super) before: Option<Indices>,
    /// The condition for the object that is replaced.
    pub(super) expect: Expect,
    /// Seconds until the object expires.
    pub(super) ttl_s: Option<f64>,
    pub(super) now_ms: u64,
}

impl<'a> Journal<'a> {
    pub(super) fn etcd(
        etcd: &'a Etcd,
        space: &'a KeySpace,
        runtime: &'a tokio::runtime::Handle,
        sealer: &'a Sealer,
        revision: u64,
    ) -> Journal<'a> {
        let (operations, touched) = (Vec::new(), HashSet::new());
        Journal::Etcd(Planned { etcd, space, runtime, sealer, revision, operations, touched })
    }

    /// Sets the author of the writes that follow; with etcd it does nothing, because etcd has a history of its own.
    pub(super) fn sign(&mut self, label: Label) {
        match self {
            Journal::Store(transaction, _) => transaction.sign(label),
            Journal::Etcd(_) => {}
        }
    }

    /// The next revision. Every single write takes one.
    pub(super) fn advance(&mut self) -> u64 {
        match self {
            Journal::Store(transaction, _) => transaction.advance(),
            Journal::Etcd(planned) => {
                planned.revision += 1;
                planned.revision
            }
        }
    }

    /// A number for a new object that no other object has or will get.
    ///
    /// # Errors
    /// etcd does not answer.
    pub(super) fn new_id(&mut self) -> Result<u64, StoreError> {
        match self {
            Journal::Store(transaction, _) => Ok(transaction.advance()),
            Journal::Etcd(planned) => {
                let asked = planned.etcd.new_id(planned.space);
                let asked = planned.runtime.block_on(asked);
                asked.map_err(|fault| StoreError::Failed(format!("{fault}; nothing was written")))
            }
        }
    }

    /// Writes one object under the current revision.
    ///
    /// # Errors
    /// See [`Transaction::put`]; with etcd, conflicts are known only after the operations were sent.
    pub(super) fn put(&mut self, put: &Put<'_>) -> Result<Indices, StoreError> {
        let path = stored_key::text(put.key);
        match self {
            Journal::Store(transaction, sealer) => {
                let expires_at_ms = put.ttl_s.map(|seconds| expiry(put.now_ms, seconds));
                let text = sealer.seal_for(Medium::Store, put.key, put.text);
                let record = transaction.put(&path, &text, put.expect, expires_at_ms)?;
                Ok(Indices { created: record.created_index, modified: record.modified_index })
            }
            Journal::Etcd(planned) => {
                let revision = planned.revision;
                let text = planned.sealer.seal_for(Medium::Etcd, put.key, put.text);
                planned.add(path, Some(text.into_owned()), put.before.as_ref(), put.ttl_s);
                let created = put.before.as_ref().map_or(revision, |before| before.created);
                Ok(Indices { created, modified: revision })
            }
        }
    }

    /// Removes one object; `before` has its known revisions.
    ///
    /// # Errors
    /// See [`Transaction::delete`].
    pub(super) fn delete(&mut self, path: &str, before: Option<&Indices>) -> Result<(), StoreError> {
        match self {
            Journal::Store(transaction, _) => transaction.delete(path).map(drop),
            Journal::Etcd(planned) => {
                planned.add(path.to_owned(), None, before, None);
                Ok(())
            }
        }
    }

    /// Count of operations that are planned so far; 0 with the store.
    pub(super) fn planned(&self) -> usize {
        match self {
            Journal::Store(..) => 0,
            Journal::Etcd(planned) => planned.operations.len(),
        }
    }

    /// Drops the operations planned after the first `count`.
    pub(super) fn take_back(&mut self, count: usize) {
        if let Journal::Etcd(planned) = self {
            planned.operations.truncate(count);
        }
    }

    /// Makes the writes of the store durable; with etcd, returns the operations to send.
    ///
    /// # Errors
    /// See [`Transaction::commit`].
    pub(super) fn commit(self) -> Result<Vec<Operation>, StoreError> {
        match self {
            Journal::Store(transaction, _) => transaction.commit().map(|_| Vec::new()),
            Journal::Etcd(planned) => Ok(planned.operations),
        }
    }
}

impl Planned<'_> {
    fn add(&mut self, path: String, text: Option<String>, before: Option<&Indices>, ttl_s: Option<f64>) {
        let is_first = self.touched.insert(path.clone());
        let expect = if is_first {
            Expected::At(before.map_or(0, |before| before.modified))
        } else {
            Expected::AsWrittenBefore
        };
        // Rounded up, so that an object does not expire before its time.
        #[allow(clippy::cast_possible_truncation)]
        let ttl_s = ttl_s.map(|seconds| seconds.ceil() as i64);
        self.operations.push(Operation { path, place: Place::Data, text, expect, ttl_s });
    }
}

/// The time `seconds` from now; an object with a time in the past expires at the next sweep.
fn expiry(now_ms: u64, seconds: f64) -> u64 {
    // The conversion saturates: the result is never negative and at most `u64::MAX`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let after_ms = (seconds * 1000.0) as u64;
    now_ms.saturating_add(after_ms)
}

//! Where the writes of one batch go: into a transaction of the embedded store, or into a list of operations that etcd is
//! asked to do once all of them are checked. It refuses to know what is written and who may.

use std::collections::HashSet;

use model::Key;

use crate::sealing::{Medium, Sealer};
use crate::source::etcd::{Etcd, Expected, KeySpace, Operation, Place};
use crate::source::store::{Expect, Label, StoreError, Transaction};
use crate::stored_key;

/// The writes of one batch.
pub(super) enum Journal<'a> {
    /// Durable with the commit of the transaction, secrets sealed.
    Store(Box<Transaction<'a>>, &'a Sealer),
    /// Not yet asked for.
    Etcd(Planned<'a>),
}

/// What etcd will be asked to do.
pub(super) struct Planned<'a> {
    etcd: &'a Etcd,
    space: &'a KeySpace,
    runtime: &'a tokio::runtime::Handle,
    sealer: &'a Sealer,
    /// Counts up from the one in force; the real ones are known afterwards.
    revision: u64,
    operations: Vec<Operation>,
    /// Keys that an operation of this batch writes: a later one builds on what that has left.
    touched: HashSet<String>,
}

/// The revisions that a write got.
pub(super) struct Indices {
    pub(super) created: u64,
    pub(super) modified: u64,
}

/// One put, with what is known of the object it replaces.
pub(super) struct Put<'p> {
    pub(super) key: &'p Key,
    pub(super) text: &'p str,
    /// Revisions of the object as the writer sees it; none: it is new.
    pub(super) before: Option<Indices>,
    /// Whether it must still be that one.
    pub(super) expect: Expect,
    /// Seconds until it ends by itself.
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

    /// Says whose the writes are from now on; etcd's history is etcd's.
    pub(super) fn sign(&mut self, label: Label) {
        match self {
            Journal::Store(transaction, _) => transaction.sign(label),
            Journal::Etcd(_) => {}
        }
    }

    /// The next revision. Every write of its own takes one.
    pub(super) fn advance(&mut self) -> u64 {
        match self {
            Journal::Store(transaction, _) => transaction.advance(),
            Journal::Etcd(planned) => {
                planned.revision += 1;
                planned.revision
            }
        }
    }

    /// A number for a new object that no other object has got or gets.
    ///
    /// # Errors
    /// etcd cannot be asked.
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
    /// See [`Transaction::put`]; with etcd, conflicts are only known afterwards.
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

    /// Removes one object, of which `before` is known.
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

    /// How many operations are planned so far; 0 with the store.
    pub(super) fn planned(&self) -> usize {
        match self {
            Journal::Store(..) => 0,
            Journal::Etcd(planned) => planned.operations.len(),
        }
    }

    /// Takes back the operations planned behind `count`.
    pub(super) fn take_back(&mut self, count: usize) {
        if let Journal::Etcd(planned) = self {
            planned.operations.truncate(count);
        }
    }

    /// Makes the writes of the store durable; with etcd, gives back what it has to be asked for.
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
        // A part of a second lasts as long as a whole one: nothing ends before its time.
        #[allow(clippy::cast_possible_truncation)]
        let ttl_s = ttl_s.map(|seconds| seconds.ceil() as i64);
        self.operations.push(Operation { path, place: Place::Data, text, expect, ttl_s });
    }
}

/// When `seconds` from now are over; a time that is over already ends at the next sweep.
fn expiry(now_ms: u64, seconds: f64) -> u64 {
    // A float becomes the nearest number that fits: never negative, at most the end of time.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let after_ms = (seconds * 1000.0) as u64;
    now_ms.saturating_add(after_ms)
}

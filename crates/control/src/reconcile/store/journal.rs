//! The writes of one batch in a transaction of the embedded store. It does not know contents and permissions.

use super::super::journal::{Indices, Journal, JournalPut};
use crate::sealing::{Sealer, StorageMedium};
use crate::source::store::{RevisionLabel, StoreError, Transaction};
use crate::stored_key;

/// A transaction; durable with its commit, secrets sealed.
pub(super) struct StoreJournal<'a> {
    transaction: Transaction<'a>,
    sealer: &'a Sealer,
}

impl<'a> StoreJournal<'a> {
    pub(super) fn new(transaction: Transaction<'a>, sealer: &'a Sealer) -> StoreJournal<'a> {
        StoreJournal { transaction, sealer }
    }

    /// Sets the author of the writes from now on.
    pub(super) fn sign(&mut self, label: RevisionLabel) {
        self.transaction.sign(label);
    }

    /// Makes the writes durable.
    ///
    /// # Errors
    /// See [`Transaction::commit`].
    pub(super) fn commit(self) -> Result<(), StoreError> {
        self.transaction.commit().map(drop)
    }
}

impl Journal for StoreJournal<'_> {
    fn advance(&mut self) -> u64 {
        self.transaction.advance()
    }

    fn new_id(&mut self) -> Result<u64, StoreError> {
        Ok(self.transaction.advance())
    }

    fn put(&mut self, put: &JournalPut<'_>) -> Result<Indices, StoreError> {
        let expires_at_ms = put.ttl_s.map(|seconds| expiry(put.now_ms, seconds));
        let text = self.sealer.seal_for(StorageMedium::Store, put.key, put.text);
        let record = self.transaction.put(
            &stored_key::format_stored_key(put.key),
            &text,
            put.expect,
            expires_at_ms,
        )?;
        Ok(Indices { created: record.created_index, modified: record.modified_index })
    }

    fn delete(&mut self, path: &str, _before: Option<&Indices>) -> Result<(), StoreError> {
        self.transaction.delete(path).map(drop)
    }
}

/// When `seconds` from now are over; a time that is over already ends at the next sweep.
fn expiry(now_ms: u64, seconds: f64) -> u64 {
    // A float becomes the nearest number that fits: never negative, at most the end of time.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let after_ms = (seconds * 1000.0) as u64;
    now_ms.saturating_add(after_ms)
}

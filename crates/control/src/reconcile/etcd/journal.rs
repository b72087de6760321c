//! The writes of one batch as operations that etcd is asked to do once all of them are checked. It does not
//! know contents and permissions.

use std::collections::HashSet;

use super::super::journal::{Indices, Journal, JournalPut};
use crate::sealing::{Sealer, StorageMedium};
use crate::source::etcd::{Etcd, EtcdOperation, Expected, KeyPrefix, KeySpace};
use crate::source::store::StoreError;
use crate::stored_key;

/// The operations that etcd will be asked for.
pub(super) struct Planned<'a> {
    etcd: &'a Etcd,
    space: &'a KeySpace,
    runtime: &'a tokio::runtime::Handle,
    sealer: &'a Sealer,
    /// Counts up from the one in force; the real ones are known afterwards.
    revision: u64,
    pub(super) operations: Vec<EtcdOperation>,
    /// Keys that an operation of this batch writes: a later one builds on what that has left.
    touched: HashSet<String>,
}

impl<'a> Planned<'a> {
    pub(super) fn new(
        etcd: &'a Etcd,
        space: &'a KeySpace,
        runtime: &'a tokio::runtime::Handle,
        sealer: &'a Sealer,
        revision: u64,
    ) -> Planned<'a> {
        let (operations, touched) = (Vec::new(), HashSet::new());
        Planned { etcd, space, runtime, sealer, revision, operations, touched }
    }

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
        self.operations.push(EtcdOperation { path, place: KeyPrefix::Data, text, expect, ttl_s });
    }
}

impl Journal for Planned<'_> {
    fn advance(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    fn new_id(&mut self) -> Result<u64, StoreError> {
        let asked = self.runtime.block_on(self.etcd.new_id(self.space));
        asked.map_err(|fault| StoreError::Failed(format!("{fault}; nothing was written")))
    }

    fn put(&mut self, put: &JournalPut<'_>) -> Result<Indices, StoreError> {
        let revision = self.revision;
        let text = self.sealer.seal_for(StorageMedium::Etcd, put.key, put.text);
        self.add(
            stored_key::format_stored_key(put.key),
            Some(text.into_owned()),
            put.before.as_ref(),
            put.ttl_s,
        );
        let created = put.before.as_ref().map_or(revision, |before| before.created);
        Ok(Indices { created, modified: revision })
    }

    fn delete(&mut self, path: &str, before: Option<&Indices>) -> Result<(), StoreError> {
        self.add(path.to_owned(), None, before, None);
        Ok(())
    }

    fn planned(&self) -> usize {
        self.operations.len()
    }

    fn take_back(&mut self, count: usize) {
        self.operations.truncate(count);
    }
}

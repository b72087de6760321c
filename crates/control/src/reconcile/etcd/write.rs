//! Writing to etcd: a write of the Admin API becomes operations under conditions, and is answered when the
//! follower has reported it. It knows nothing else of the follower's updates.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{ObjectKey, ObjectKind};

use super::super::batch::WriteBatch;
use super::super::journal::Journal;
use super::super::whole::{Differing, Terms, WholeRefused};
use super::super::write::{Done, WriteRefusal};
use super::super::{Reconciler, Signed, WriteCondition};
use super::journal::Planned;
use crate::sealing::{Sealer, StorageMedium};
use crate::source::etcd::EtcdState;
use crate::source::etcd::{
    EtcdError, EtcdOperation, EtcdSource, EtcdWriteOutcome, Expected, KeyPrefix, MAX_OPERATIONS,
    MAX_TRANSACTION_BYTES, build_note_operation,
};
use crate::source::store::{RevisionLabel, StoreError, VersionSource};
use crate::stored_key;
use crate::view::View;

impl EtcdSource {
    /// Sends the writes to etcd; each is answered when it is in force on this instance, or refused.
    pub(super) fn write_objects(
        &mut self,
        reconciler: &mut Reconciler,
        writes: Vec<Signed>,
    ) -> Vec<Result<Done, WriteRefusal>> {
        let mut results: Vec<Option<Result<Done, WriteRefusal>>> = writes.iter().map(|_| None).collect();
        let mut open: Vec<(usize, Signed)> = writes.into_iter().enumerate().collect();
        for _ in 0..MAX_TRIES {
            open = self.try_to_write(reconciler, open, &mut results);
            if open.is_empty() {
                break;
            }
        }
        let conflict = || Err(WriteRefusal::Store(StoreError::Conflict.to_string()));
        results.into_iter().map(|result| result.unwrap_or_else(conflict)).collect()
    }

    /// One attempt; returns the writes that found a newer object.
    fn try_to_write(
        &mut self,
        reconciler: &mut Reconciler,
        writes: Vec<(usize, Signed)>,
        results: &mut [Option<Result<Done, WriteRefusal>>],
    ) -> Vec<(usize, Signed)> {
        let now_ms = reconciler.parts.clock.unix_ms();
        if self.status.state == EtcdState::Behind {
            let reason = self.status.reason.clone().unwrap_or_default();
            for (index, _) in writes {
                results[index] = Some(Err(WriteRefusal::Store(reason.clone())));
            }
            return Vec::new();
        }
        let handle = self.handle();
        let (sealer, revision) = (&reconciler.parts.sealer, reconciler.snapshot.revision());
        let journal = Planned::new(&self.etcd, &self.space, &handle, sealer, revision);
        let mut batch =
            WriteBatch::new(journal, &reconciler.parts.catalog, reconciler.snapshot.clone(), now_ms);
        let mut planned: Vec<(usize, Signed, Done, usize)> = Vec::new();
        let (mut again, mut doubtful) = (Vec::new(), Vec::new());
        for (index, signed) in writes {
            let from = batch.journal.planned();
            match batch.write(signed.clone()) {
                Ok(done) => planned.push((index, signed, done, batch.journal.planned() - from)),
                Err(WriteRefusal::Changed(key)) => {
                    // Whether an earlier write of this batch that changes the object is done is known
                    // afterwards.
                    let is_open = planned.iter().any(|(_, _, done, _)| *done.key() == key);
                    doubtful.push((index, signed, key, is_open));
                }
                Err(refused) => results[index] = Some(Err(refused)),
            }
        }
        let operations = batch.finish().map(|(journal, _)| journal.operations).unwrap_or_default();
        let mut operations = operations.into_iter();
        let group = |(_, signed, _, count): &(usize, Signed, Done, usize)| {
            let mut group: Vec<EtcdOperation> = operations.by_ref().take(*count).collect();
            let by = Arc::clone(&signed.author);
            let label = RevisionLabel { at_ms: now_ms, source: VersionSource::Admin, by };
            group.push(build_note_operation(&label, group.iter().map(|operation| operation.path.clone())));
            group
        };
        let groups: Vec<Vec<EtcdOperation>> = planned.iter().map(group).collect();
        let outcomes = handle.block_on(self.etcd.write(&self.space, &groups));
        let newest = outcomes.iter().flatten().map(|outcome| outcome.revision).max().unwrap_or(0);
        let noted = outcomes.len();
        for ((index, signed, done, _), outcome) in planned.into_iter().zip(outcomes) {
            match outcome {
                Ok(EtcdWriteOutcome { revision, done: true }) => results[index] = Some(Ok(done.at(revision))),
                Ok(_) => again.push((index, signed)),
                Err(failed) => {
                    results[index] = Some(Err(WriteRefusal::Store(worded(&failed.0, self.space.prefix()))))
                }
            }
        }
        if newest > 0 {
            self.follow_until(reconciler, newest);
        }
        self.forget_oldest_notes(noted);
        for (index, signed, key, is_open) in doubtful {
            if is_open || self.was_behind(reconciler, &key, &signed.condition) {
                again.push((index, signed));
            } else {
                results[index] = Some(Err(WriteRefusal::Changed(key)));
            }
        }
        again.sort_by_key(|(index, _)| *index);
        again
    }

    /// Whether an object meets a condition in etcd that it does not meet here, because another instance has
    /// written it just now; then waits for that change.
    fn was_behind(
        &mut self,
        reconciler: &mut Reconciler,
        key: &ObjectKey,
        condition: &WriteCondition,
    ) -> bool {
        // Revision 0 is the newest one.
        let path = stored_key::format_stored_key(key);
        let newest = self.etcd.object_at(&self.space, &path, 0);
        let Ok(newest) = self.handle().block_on(newest) else { return false };
        let index = newest.map(|record| record.modified_index);
        if !condition.holds(index) {
            return false;
        }
        // The revision of a deletion is not known, but it is the next one to come.
        self.follow_until(reconciler, index.unwrap_or(self.followed + 1));
        true
    }

    /// Now and then, removes the notes of the oldest changes from etcd.
    fn forget_oldest_notes(&mut self, noted: usize) {
        self.notes_written += noted;
        if self.notes_written < NOTES_BETWEEN {
            return;
        }
        self.notes_written = 0;
        let (client, space) = (Arc::clone(&self.etcd), self.space.clone());
        self.handle().spawn(async move {
            if let Err(fault) = client.forget_oldest(&space).await {
                tracing::warn!(%fault, "etcd keeps more notes of old versions than it should");
            }
        });
    }

    /// Writes the objects that differ in one transaction of etcd, and nothing if anything has changed since.
    /// The change is in force when this returns.
    pub(super) fn change_all(
        &mut self,
        reconciler: &mut Reconciler,
        differing: &[Differing],
        terms: &Terms<'_>,
    ) -> Result<(), WholeRefused> {
        if differing.is_empty() {
            return Ok(());
        }
        let (now, view) = (reconciler.snapshot.revision(), reconciler.parts.view.load());
        reconciler.check_all(differing, terms, &view, now + 1)?;
        let at_ms = reconciler.parts.clock.unix_ms();
        if self.status.state == EtcdState::Behind {
            let reason = self.status.reason.clone().unwrap_or_default();
            return Err(WholeRefused::Write(WriteRefusal::Store(reason)));
        }
        let mut operations: Vec<EtcdOperation> =
            differing.iter().map(|differing| differing.operation(&view, &reconciler.parts.sealer)).collect();
        let label = RevisionLabel { at_ms, source: terms.source, by: Arc::clone(terms.author) };
        operations
            .push(build_note_operation(&label, operations.iter().map(|operation| operation.path.clone())));
        fits_into_one(&operations, self.max_operations)?;
        let collections: Vec<&str> = ObjectKind::ALL
            .into_iter()
            .filter(|kind| *kind != ObjectKind::Credential)
            .map(ObjectKind::collection)
            .collect();
        let followed = self.followed;
        let written = self.etcd.write_whole(&self.space, &operations, &collections, followed);
        let outcome = self.handle().block_on(written);
        let prefix = self.space.prefix();
        let outcome =
            outcome.map_err(|fault| WholeRefused::Write(WriteRefusal::Store(worded(&fault, prefix))))?;
        self.follow_until(reconciler, outcome.revision);
        self.forget_oldest_notes(1);
        if outcome.done {
            Ok(())
        } else {
            Err(WholeRefused::Moved { revision: reconciler.snapshot.revision(), expected: now })
        }
    }

    /// Takes the follower's updates until `revision` is reported, for at most [`ECHO_WITHIN`]; the write is
    /// done either way.
    fn follow_until(&mut self, reconciler: &mut Reconciler, revision: u64) {
        let deadline = Instant::now() + ECHO_WITHIN;
        while self.followed < revision {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.updates.as_ref().and_then(|updates| updates.recv_timeout(left).ok()) {
                Some(update) => self.take(reconciler, update),
                None => {
                    tracing::warn!(revision, "etcd has done a write that it has not told of yet");
                    return;
                }
            }
        }
    }
}

impl Differing {
    /// The operation for etcd, under the condition that the object has not changed.
    fn operation(&self, view: &View, sealer: &Sealer) -> EtcdOperation {
        let text = self.after.as_ref();
        let text = text.map(|text| sealer.seal_for(StorageMedium::Etcd, &self.key, text).into_owned());
        EtcdOperation {
            path: stored_key::format_stored_key(&self.key),
            place: KeyPrefix::Data,
            text,
            expect: Expected::At(view.written(&self.key).map_or(0, |before| before.modified_index)),
            ttl_s: None,
        }
    }
}

/// Refuses operations that etcd would not accept in one transaction.
fn fits_into_one(operations: &[EtcdOperation], max_operations: usize) -> Result<(), WholeRefused> {
    let count = operations.len();
    let bytes: usize = operations
        .iter()
        .map(|operation| operation.path.len() + operation.text.as_ref().map_or(0, String::len))
        .sum();
    let refuse = |what: String| Err(WholeRefused::Write(WriteRefusal::Invalid(what)));
    if count > max_operations {
        return refuse(format!(
            "{} objects differ, and etcd takes {} in one step: raise its --max-txn-ops and then etcd_max_operations here, \
             or apply parts of it with keep_others",
            count - 1,
            max_operations.saturating_sub(1)
        ));
    }
    // A user that raised the limit of operations has raised etcd's limit too, and etcd's own
    // --max-request-bytes then limits the bytes.
    if max_operations == MAX_OPERATIONS && bytes > MAX_TRANSACTION_BYTES {
        return refuse(format!(
            "what differs has {bytes} bytes, and etcd takes about {MAX_TRANSACTION_BYTES} in one step: apply parts of it with \
             keep_others"
        ));
    }
    Ok(())
}

/// The error text for a writer of the objects below `prefix`.
fn worded(error: &EtcdError, prefix: &str) -> String {
    match error {
        denied if denied.is_denied() => format!(
            "{error}; nothing was written: grant the user of this instance the keys below its prefix \
             (etcdctl role grant-permission ROLE readwrite {prefix}/ --prefix=true)"
        ),
        EtcdError::Unreachable(_) => format!("{error}; whether the write was done is not known"),
        EtcdError::NotConnected(_) => format!("{error}; nothing was written"),
        other => other.to_string(),
    }
}

/// Notes that this instance writes before it checks whether there are too many.
const NOTES_BETWEEN: usize = 100;
/// Limit of attempts for one write; an attempt fails if another writer changed the object in between.
const MAX_TRIES: usize = 10;
/// Longest wait for the follower to report a write. It takes a millisecond or two, unless the watch is being
/// opened again.
const ECHO_WITHIN: Duration = Duration::from_secs(2);

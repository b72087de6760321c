//! Writing to etcd: a write of the Admin API becomes operations under conditions, and is answered when the follower has
//! reported it. It knows nothing else of the follower's updates.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::Kind;

use super::super::batch::Batch;
use super::super::journal::Journal;
use super::super::whole::{Differing, Terms, WholeRefused};
use super::super::write::{Done, Refused};
use super::super::{Command, Reconciler, Signed, Source};
use crate::source::etcd::{EtcdError, MAX_OPERATIONS, MAX_TRANSACTION_BYTES, Operation, Outcome, note};
use crate::source::store::{Label, StoreError, VersionSource};
use crate::view::EtcdState;

impl Reconciler {
    /// Sends the writes to etcd; each is answered when it is in force on this instance, or refused.
    pub(in crate::reconcile) fn write_to_etcd(&mut self, writes: Vec<Signed>) -> Vec<Result<Done, Refused>> {
        let mut results: Vec<Option<Result<Done, Refused>>> = writes.iter().map(|_| None).collect();
        let mut open: Vec<(usize, Signed)> = writes.into_iter().enumerate().collect();
        for _ in 0..MAX_TRIES {
            open = self.try_to_write(open, &mut results);
            if open.is_empty() {
                break;
            }
        }
        let conflict = || Err(Refused::Store(StoreError::Conflict.to_string()));
        results.into_iter().map(|result| result.unwrap_or_else(conflict)).collect()
    }

    /// One attempt; returns the writes that found a newer object.
    fn try_to_write(
        &mut self,
        writes: Vec<(usize, Signed)>,
        results: &mut [Option<Result<Done, Refused>>],
    ) -> Vec<(usize, Signed)> {
        let now_ms = self.parts.clock.unix_ms();
        let Source::Etcd(etcd) = &self.parts.source else { return Vec::new() };
        if etcd.status.state == EtcdState::Behind {
            let reason = etcd.status.reason.clone().unwrap_or_default();
            for (index, _) in writes {
                results[index] = Some(Err(Refused::Store(reason.clone())));
            }
            return Vec::new();
        }
        let handle = etcd.handle();
        let (sealer, revision) = (&self.parts.sealer, self.snapshot.revision());
        let journal = Journal::etcd(&etcd.etcd, &etcd.space, &handle, sealer, revision);
        let mut batch = Batch::new(journal, &self.parts.catalog, self.snapshot.clone(), now_ms);
        let mut planned = Vec::new();
        for (index, signed) in writes {
            let from = batch.planned();
            match batch.write(signed.0.clone()) {
                Ok(done) => planned.push((index, signed, done, batch.planned() - from)),
                Err(refused) => results[index] = Some(Err(refused)),
            }
        }
        let mut operations = match batch.commit() {
            Ok(committed) => committed.operations.into_iter(),
            Err(fault) => {
                for (index, ..) in planned {
                    results[index] = Some(Err(Refused::Store(fault.to_string())));
                }
                return Vec::new();
            }
        };
        let group = |(_, (_, author), _, count): &(usize, Signed, Done, usize)| {
            let mut group: Vec<Operation> = operations.by_ref().take(*count).collect();
            let label = Label { at_ms: now_ms, source: VersionSource::Admin, by: Arc::clone(author) };
            group.push(note(&label, group.iter().map(|operation| operation.path.clone())));
            group
        };
        let groups: Vec<Vec<Operation>> = planned.iter().map(group).collect();
        let outcomes = handle.block_on(etcd.etcd.write(&etcd.space, &groups));
        let newest = outcomes.iter().flatten().map(|outcome| outcome.revision).max().unwrap_or(0);
        let mut again = Vec::new();
        let noted = outcomes.len();
        for ((index, signed, done, _), outcome) in planned.into_iter().zip(outcomes) {
            match outcome {
                Ok(Outcome { revision, done: true }) => results[index] = Some(Ok(done.at(revision))),
                Ok(_) => again.push((index, signed)),
                Err(failed) => results[index] = Some(Err(Refused::Store(worded(&failed.0)))),
            }
        }
        if newest > 0 {
            self.follow_until(newest);
        }
        self.forget_oldest_notes(noted);
        again
    }

    /// Now and then, removes the notes of the oldest changes from etcd.
    fn forget_oldest_notes(&mut self, noted: usize) {
        let Source::Etcd(etcd) = &mut self.parts.source else { return };
        etcd.notes_written += noted;
        if etcd.notes_written < NOTES_BETWEEN {
            return;
        }
        etcd.notes_written = 0;
        let (client, space) = (Arc::clone(&etcd.etcd), etcd.space.clone());
        etcd.handle().spawn(async move {
            if let Err(fault) = client.forget_oldest(&space).await {
                tracing::warn!(%fault, "etcd keeps more notes of old versions than it should");
            }
        });
    }

    /// Writes the objects that differ in one transaction of etcd, and nothing if anything has changed since. The change
    /// is in force when this returns.
    pub(in crate::reconcile) fn change_all_in_etcd(
        &mut self,
        differing: &[Differing],
        terms: &Terms<'_>,
    ) -> Result<(), WholeRefused> {
        if differing.is_empty() {
            return Ok(());
        }
        let (now, view) = (self.snapshot.revision(), self.parts.view.load());
        self.check_all(differing, terms, &view, now + 1)?;
        let at_ms = self.parts.clock.unix_ms();
        let Source::Etcd(etcd) = &self.parts.source else { return Err(self.only_read()) };
        if etcd.status.state == EtcdState::Behind {
            let reason = etcd.status.reason.clone().unwrap_or_default();
            return Err(WholeRefused::Write(Refused::Store(reason)));
        }
        let mut operations: Vec<Operation> =
            differing.iter().map(|differing| differing.operation(&view, &self.parts.sealer)).collect();
        let label = Label { at_ms, source: terms.source, by: Arc::clone(terms.author) };
        operations.push(note(&label, operations.iter().map(|operation| operation.path.clone())));
        fits_into_one(&operations, etcd.max_operations)?;
        let collections: Vec<&str> =
            Kind::ALL.into_iter().filter(|kind| *kind != Kind::Credential).map(Kind::collection).collect();
        let followed = etcd.followed;
        let written = etcd.etcd.write_whole(&etcd.space, &operations, &collections, followed);
        let outcome = etcd.handle().block_on(written);
        let outcome = outcome.map_err(|fault| WholeRefused::Write(Refused::Store(worded(&fault))))?;
        self.follow_until(outcome.revision);
        self.forget_oldest_notes(1);
        if outcome.done {
            Ok(())
        } else {
            Err(WholeRefused::Moved { revision: self.snapshot.revision(), expected: now })
        }
    }

    /// Takes the follower's updates until `revision` is reported, for at most [`ECHO_WITHIN`]; the write is done either
    /// way.
    fn follow_until(&mut self, revision: u64) {
        let deadline = Instant::now() + ECHO_WITHIN;
        while self.followed() < revision {
            // Deferred commands wait, because they are served after this write.
            match self.inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Command::Etcd(update)) => self.take(update),
                Ok(other) => self.deferred.push_back(other),
                Err(_) => {
                    tracing::warn!(revision, "etcd has done a write that it has not told of yet");
                    return;
                }
            }
        }
    }

    fn followed(&self) -> u64 {
        match &self.parts.source {
            Source::Etcd(etcd) => etcd.followed,
            _ => u64::MAX,
        }
    }
}

/// Refuses operations that etcd would not accept in one transaction.
fn fits_into_one(operations: &[Operation], max_operations: usize) -> Result<(), WholeRefused> {
    let count = operations.len();
    let bytes: usize = operations
        .iter()
        .map(|operation| operation.path.len() + operation.text.as_ref().map_or(0, String::len))
        .sum();
    let refuse = |what: String| Err(WholeRefused::Write(Refused::Invalid(what)));
    if count > max_operations {
        return refuse(format!(
            "{} objects differ, and etcd takes {} in one step: raise its --max-txn-ops and then etcd_max_operations here, \
             or apply parts of it with keep_others",
            count - 1,
            max_operations.saturating_sub(1)
        ));
    }
    // A user that raised the limit of operations has raised etcd's limit too, and etcd's own --max-request-bytes then
    // limits the bytes.
    if max_operations == MAX_OPERATIONS && bytes > MAX_TRANSACTION_BYTES {
        return refuse(format!(
            "what differs has {bytes} bytes, and etcd takes about {MAX_TRANSACTION_BYTES} in one step: apply parts of it with \
             keep_others"
        ));
    }
    Ok(())
}

/// The error text for a writer.
fn worded(error: &EtcdError) -> String {
    match error {
        EtcdError::Unreachable(_) => format!("{error}; whether the write was done is not known"),
        EtcdError::NotConnected(_) => format!("{error}; nothing was written"),
        other => other.to_string(),
    }
}

/// Notes that this instance writes before it checks whether there are too many.
const NOTES_BETWEEN: usize = 100;
/// Limit of attempts for one write; an attempt fails if another writer changed the object in between.
const MAX_TRIES: usize = 10;
/// Longest wait for the follower to report a write. It takes a millisecond or two, unless the watch is being opened
/// again.
const ECHO_WITHIN: Duration = Duration::from_secs(2);

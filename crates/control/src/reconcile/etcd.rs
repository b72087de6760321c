//! etcd as the source: what the follower tells becomes the configuration in force, and writes go to etcd and come back by
//! the same way, so that there is one order of changes. It refuses to know etcd's protocol.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use model::{Change, Kind, Policy};

use super::batch::Batch;
use super::journal::Journal;
use super::whole::{Differing, Terms, WholeRefused};
use super::write::{Done, Refused};
use super::{Command, LoadError, Reconciler, Signed, Source};
use crate::sealing::Medium;
use crate::source::etcd::{
    Changed, EtcdError, EtcdSource, MAX_OPERATIONS, MAX_TRANSACTION_BYTES, Operation, Outcome, Stray, Update,
    note,
};
use crate::source::store::{Label, Record, StoreError, VersionSource};
use crate::stored_key;
use crate::view::EtcdState;

impl Reconciler {
    /// The first configuration: the copy on disk at once, then what etcd has, if it can be had soon.
    pub(super) fn load_from_etcd(&mut self, commands: &SyncSender<Command>) -> Result<(), LoadError> {
        let Source::Etcd(etcd) = &mut self.parts.source else { return Ok(()) };
        let kept = etcd.kept.take().unwrap_or_default();
        let has_kept = kept.revision > 0;
        let patience = if has_kept { START_WITHIN_KEPT } else { etcd.start_timeout };
        etcd.follow(teller(commands.clone()));
        if has_kept {
            let count = kept.entries.len();
            let (changes, _) = self.differing(kept.entries);
            let applied = self.snapshot.apply(&self.parts.catalog, &changes, kept.revision, Policy::Lenient);
            self.publish(applied);
            tracing::info!(revision = kept.revision, objects = count, "the copy of etcd's data on this disk");
        }
        let deadline = Instant::now() + patience;
        let mut reason = "it has not answered yet".to_owned();
        loop {
            match self.inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Command::Etcd(update)) => {
                    let is_all = matches!(update, Update::All { .. });
                    if let Update::Lost(why) = &update {
                        reason.clone_from(why);
                    }
                    let is_down = matches!(update, Update::Lost(_) | Update::Behind { .. });
                    self.take(update);
                    if is_all || (is_down && has_kept) {
                        return Ok(());
                    }
                }
                Ok(other) => self.deferred.push_back(other),
                Err(RecvTimeoutError::Timeout) if has_kept => return Ok(()),
                Err(_) => return Err(LoadError::Etcd(reason)),
            }
        }
    }

    /// Brings into force what the follower tells.
    pub(super) fn take(&mut self, update: Update) {
        match update {
            Update::All { revision, cluster_id, entries, strays } => {
                self.take_all(revision, cluster_id, entries, strays);
            }
            Update::Changes { revision, changes } => self.take_changes(revision, changes),
            Update::Following(_) => self.etcd_is(EtcdState::Following, None),
            Update::Lost(reason) => self.etcd_is(EtcdState::Unreachable, Some(reason)),
            Update::Behind { revision, cluster_id } => {
                let reason = format!(
                    "etcd (cluster {cluster_id:x}) is at revision {revision}, this node has served {}: it keeps serving that \
                     until etcd is newer, or until it is told to adopt what etcd has",
                    self.snapshot.revision()
                );
                self.etcd_is(EtcdState::Behind, Some(reason));
            }
        }
    }

    fn take_all(
        &mut self,
        revision: u64,
        cluster_id: u64,
        entries: Vec<(String, Record)>,
        strays: Vec<Stray>,
    ) {
        let Source::Etcd(etcd) = &mut self.parts.source else { return };
        let kept = etcd.last_good.replace(revision, cluster_id, &entries);
        etcd.note_copy(kept);
        etcd.strays = strays.into_iter().map(|stray| (stray.path, stray.reason)).collect();
        etcd.followed = revision;
        etcd.status.revision = revision;
        etcd.status.cluster_id = cluster_id;
        etcd.is_now(EtcdState::Following, None);
        let (changes, unknown) = self.differing(entries);
        for path in unknown {
            self.stray(path, UNKNOWN_KIND.to_owned());
        }
        self.tell_strays();
        if !changes.is_empty() || self.snapshot.revision() == 0 {
            let applied = self.snapshot.apply(&self.parts.catalog, &changes, revision, Policy::Lenient);
            tracing::info!(revision, changes = changes.len(), "took over what etcd has");
            self.publish(applied);
        } else {
            self.show();
        }
    }

    fn take_changes(&mut self, revision: u64, changes: Vec<Changed>) {
        let Source::Etcd(etcd) = &mut self.parts.source else { return };
        let stored =
            changes.iter().filter_map(|(path, change)| Some((path.as_str(), change.as_ref().ok()?.as_ref())));
        debug_assert!(revision >= etcd.followed, "what etcd tells arrives in order");
        if !changes.is_empty() {
            let kept = etcd.last_good.change(revision, stored);
            etcd.note_copy(kept);
        }
        etcd.followed = etcd.followed.max(revision);
        etcd.status.revision = etcd.followed;
        let strays_before = etcd.strays.len();
        let mut effective = Vec::with_capacity(changes.len());
        for (path, change) in changes {
            self.forget_stray(&path);
            match (change, stored_key::parse(&path)) {
                (Ok(Some(record)), Some(key)) => {
                    effective.push(stored_key::change(&self.parts.sealer, Medium::Etcd, key, record));
                }
                (Ok(None), Some(key)) => effective.push(Change { key, written: None }),
                (Ok(Some(_)), None) => self.stray(path, UNKNOWN_KIND.to_owned()),
                (Ok(None), None) => {}
                // An object that cannot be read keeps its last good form.
                (Err(stray), _) => self.stray(stray.path, stray.reason),
            }
        }
        if self.stray_count() != strays_before {
            self.tell_strays();
        }
        if effective.is_empty() {
            return;
        }
        let applied = self.snapshot.apply(&self.parts.catalog, &effective, revision, Policy::Lenient);
        self.publish(applied);
    }

    /// Asks etcd for the writes; each is answered when it is in force here, or refused.
    pub(super) fn write_to_etcd(&mut self, writes: Vec<Signed>) -> Vec<Result<Done, Refused>> {
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

    /// One try; gives back the writes that met something newer.
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

    /// Lets etcd forget who made the oldest changes, now and then.
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

    /// Writes what differs in one transaction of etcd, and nothing if anything has changed since; in force when this
    /// returns.
    pub(super) fn change_all_in_etcd(
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

    /// Takes what the follower tells until it has told of `revision`, for a while at most: the write is done either way.
    fn follow_until(&mut self, revision: u64) {
        let deadline = Instant::now() + ECHO_WITHIN;
        while self.followed() < revision {
            // Not those that were put off: they come behind this write.
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

    /// Reads everything again from etcd, and adopts it even if it is older, where that is wanted.
    pub(super) fn read_etcd_again(&mut self, adopt: bool) {
        let Source::Etcd(etcd) = &self.parts.source else { return };
        if adopt {
            tracing::warn!("what etcd has is adopted, even if it is older");
            etcd.follower.drop_floor();
        } else {
            etcd.follower.read_again();
        }
    }

    fn etcd_is(&mut self, state: EtcdState, reason: Option<String>) {
        let Source::Etcd(etcd) = &mut self.parts.source else { return };
        etcd.is_now(state, reason);
        self.show();
    }

    fn stray(&mut self, path: String, reason: String) {
        let Source::Etcd(etcd) = &mut self.parts.source else { return };
        if etcd.strays.len() < MAX_STRAYS {
            etcd.strays.insert(path, reason);
        }
    }

    fn forget_stray(&mut self, path: &str) {
        if let Source::Etcd(etcd) = &mut self.parts.source {
            etcd.strays.remove(path);
        }
    }

    fn stray_count(&self) -> usize {
        match &self.parts.source {
            Source::Etcd(etcd) => etcd.strays.len(),
            _ => 0,
        }
    }

    /// Lets readers know of keys that hold no object.
    fn tell_strays(&mut self) {
        let Source::Etcd(etcd) = &self.parts.source else { return };
        let faults: Vec<String> = etcd
            .strays
            .iter()
            .map(|(path, reason)| format!("etcd's key {path} is skipped: {reason}"))
            .collect();
        for fault in faults.iter().filter(|fault| !self.faults.contains(fault)) {
            tracing::warn!("{fault}");
        }
        self.faults = faults;
        self.show();
    }
}

impl EtcdSource {
    /// Remembers whether the copy on disk could be written; serving does not depend on it.
    fn note_copy(&mut self, written: Result<(), StoreError>) {
        let fault = written.err().map(|fault| fault.to_string());
        if let Some(fault) = &fault
            && self.status.copy_fault.as_ref() != Some(fault)
        {
            tracing::error!(%fault, "the copy of etcd's data on this disk is not up to date");
        }
        self.status.copy_fault = fault;
    }

    /// What happens by itself, each second: a copy that lacks changes is made anew from everything there is.
    pub(super) fn tick(&mut self) {
        if self.last_good.lacks_changes() && self.copy_again_at.is_none_or(|at| Instant::now() >= at) {
            self.copy_again_at = Some(Instant::now() + COPY_AGAIN_AFTER);
            self.follower.read_again();
        }
    }
}

/// Refuses what etcd would not take in one step.
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
    // With more operations than usual, etcd was told to take more, and its --max-request-bytes will say how much.
    if max_operations == MAX_OPERATIONS && bytes > MAX_TRANSACTION_BYTES {
        return refuse(format!(
            "what differs has {bytes} bytes, and etcd takes about {MAX_TRANSACTION_BYTES} in one step: apply parts of it with \
             keep_others"
        ));
    }
    Ok(())
}

/// Hands updates to the reconciling thread, waiting where its queue is full.
fn teller(
    commands: SyncSender<Command>,
) -> impl Fn(Update) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync + 'static {
    move |update| {
        let commands = commands.clone();
        Box::pin(async move {
            let mut command = Command::Etcd(update);
            loop {
                match commands.try_send(command) {
                    Ok(()) => return true,
                    Err(TrySendError::Disconnected(_)) => return false,
                    Err(TrySendError::Full(back)) => command = back,
                }
                tokio::time::sleep(FULL_PAUSE).await;
            }
        })
    }
}

/// What a writer is told.
fn worded(error: &EtcdError) -> String {
    match error {
        EtcdError::Unreachable(_) => format!("{error}; whether the write was done is not known"),
        other => other.to_string(),
    }
}

/// Why a key of no known kind is skipped.
const UNKNOWN_KIND: &str = "it is no object that this version knows";
/// How many notes this node writes before it looks whether there are too many.
const NOTES_BETWEEN: usize = 100;
/// How often a write is made anew from what it met; each time somebody else was faster.
const MAX_TRIES: usize = 10;
/// What a write did comes back within a millisecond or two, unless the watch is being opened anew.
const ECHO_WITHIN: Duration = Duration::from_secs(2);
/// How long a start waits for etcd, where its disk has what was served before.
const START_WITHIN_KEPT: Duration = Duration::from_secs(10);
/// How often everything is read again for a copy that the disk did not take.
const COPY_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Between two tries to get into a full queue.
const FULL_PAUSE: Duration = Duration::from_millis(2);
/// Keys that hold no object and are remembered; the first of thousands say what the others would.
const MAX_STRAYS: usize = 1000;

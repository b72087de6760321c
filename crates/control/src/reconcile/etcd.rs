//! etcd as the source: updates of the follower become the configuration in force. Writes come back as updates too, so
//! that there is one order of changes. It does not know etcd's protocol.

mod write;

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use model::{Change, Policy, Written};

use super::{Command, LoadError, Reconciler, Source};
use crate::sealing::Medium;
use crate::source::etcd::{Changed, EtcdSource, Stray, Update};
use crate::source::store::{Record, StoreError};
use crate::stored_key;
use crate::view::EtcdState;

impl Reconciler {
    /// The first configuration: the copy on disk at once, then the data of etcd, if it answers within the time limit.
    pub(super) fn load_from_etcd(&mut self, commands: &SyncSender<Command>) -> Result<(), LoadError> {
        let Source::Etcd(etcd) = &mut self.parts.source else { return Ok(()) };
        let kept = etcd.kept.take().unwrap_or_default();
        let has_kept = kept.revision > 0;
        let patience = if has_kept { START_WITHIN_KEPT } else { etcd.start_timeout };
        etcd.follow(teller(commands.clone()));
        if has_kept {
            let count = kept.entries.len();
            let (changes, _) = self.differing(kept.entries);
            self.apply_first(changes, kept.revision);
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

    /// Brings an update of the follower into force.
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
        mut entries: Vec<(String, Record)>,
        mut strays: Vec<Stray>,
    ) {
        strays.retain(|stray| match self.faulty_record(stray) {
            Some(record) => {
                entries.push((stray.path.clone(), record));
                false
            }
            None => true,
        });
        let (changes, unknown) = self.differing(entries.clone());
        let is_first = self.snapshot.revision() == 0;
        let concerns = !changes.is_empty() && !is_first;
        let (snapshot, catalog) = (&self.snapshot, &self.parts.catalog);
        let Source::Etcd(etcd) = &mut self.parts.source else { return };
        let last_good = &mut etcd.last_good;
        // Each of the two takes a second or two with very many objects, so they run at the same time. The new data is
        // in force only after both are done.
        let (kept, applied) = thread::scope(|scope| {
            let copying = scope.spawn(|| last_good.replace(revision, cluster_id, &entries));
            let applied = concerns.then(|| snapshot.apply(catalog, &changes, revision, Policy::Lenient));
            (copying.join().unwrap_or_else(|panic| resume_unwind(panic)), applied)
        });
        etcd.note_copy(kept);
        etcd.strays = strays.into_iter().map(|stray| (stray.path, stray.reason)).collect();
        etcd.followed = revision;
        etcd.status.revision = revision;
        etcd.status.cluster_id = cluster_id;
        etcd.is_now(EtcdState::Following, None);
        for path in unknown {
            self.stray(path, UNKNOWN_KIND.to_owned());
        }
        self.tell_strays();
        if concerns || is_first {
            tracing::info!(revision, changes = changes.len(), "took over what etcd has");
        }
        match applied {
            Some(applied) => self.publish(applied),
            None if is_first => self.apply_first(changes, revision),
            None => self.show(),
        }
    }

    /// A record for a key with a value that cannot be read. It makes a faulty object, so that the object keeps its last
    /// good form or is answered 503. None where the key belongs to no kind of object.
    fn faulty_record(&self, stray: &Stray) -> Option<Record> {
        let key = stored_key::parse(&stray.path)?;
        let text = Written::unreadable(&stray.reason);
        // Its revisions are not known. If it is read again unchanged, it counts as the same object.
        let before = self.written(&key);
        let is_known = before.is_some_and(|before| before.text == text);
        Some(Record {
            text: text.to_string(),
            created_index: before.map_or(0, |before| before.created_index),
            modified_index: before.filter(|_| is_known).map_or(0, |before| before.modified_index),
            expires_at_ms: None,
        })
    }

    fn take_changes(&mut self, revision: u64, mut changes: Vec<Changed>) {
        for (_, change) in &mut changes {
            if let Err(stray) = change
                && let Some(record) = self.faulty_record(stray)
            {
                *change = Ok(Some(record));
            }
        }
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

    /// Reads everything again from etcd; with `adopt`, takes it over even if it is older.
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

    /// Shows readers the keys that hold no object.
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
    /// Records whether the copy on disk could be written; requests are served either way.
    fn note_copy(&mut self, written: Result<(), StoreError>) {
        let fault = written.err().map(|fault| fault.to_string());
        if let Some(fault) = &fault
            && self.status.copy_fault.as_ref() != Some(fault)
        {
            tracing::error!(%fault, "the copy of etcd's data on this disk is not up to date");
        }
        self.status.copy_fault = fault;
    }

    /// Periodic work, each second: starts reading everything again for a copy that lacks changes.
    pub(super) fn tick(&mut self) {
        if self.last_good.lacks_changes() && self.copy_again_at.is_none_or(|at| Instant::now() >= at) {
            self.copy_again_at = Some(Instant::now() + COPY_AGAIN_AFTER);
            self.follower.read_again();
        }
    }
}

/// Passes updates to the reconciling thread, and waits while its queue is full.
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

/// The reason why a key of no known kind is skipped.
const UNKNOWN_KIND: &str = "it is no object that this version knows";
/// Longest wait for etcd at a start, where the disk has a copy.
const START_WITHIN_KEPT: Duration = Duration::from_secs(10);
/// Time between two attempts to write a copy that the disk did not take.
const COPY_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Pause between two attempts to send into a full queue.
const FULL_PAUSE: Duration = Duration::from_millis(2);
/// Limit of remembered keys that hold no object. The first thousand usually show the cause.
const MAX_STRAYS: usize = 1000;

//! etcd as the source: updates of the follower become the configuration in force. Writes come back as updates
//! too, so that there is one order of changes. It does not know etcd's protocol.

mod history;
mod journal;
mod write;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use model::{FaultPolicy, ObjectKey, SnapshotChange, WrittenObject};

use super::source::{ClusterAccess, ConfigSource, SourceFacts, Wake};
use super::stored_change::stored_change;
use super::versions::{VersionFilter, VersionList};
use super::whole::{Differing, Terms, WholeRefused};
use super::write::{Done, WriteRefusal};
use super::{Flow, LoadError, Reconciler, Signed};
use crate::plan::ConfigPlan;
use crate::sealing::StorageMedium;
use crate::source::etcd::{EtcdKeyChange, EtcdSource, EtcdState, Stray, Update};
use crate::source::store::{RevisionInfo, StoreError, StoredRecord};
use crate::stored_key;

impl ConfigSource for EtcdSource {
    fn facts(&self) -> SourceFacts {
        let identity = format!("etcd {}", self.space.prefix());
        SourceFacts { identity, has_revisions: true, logs_faults: false }
    }

    fn cluster(&self) -> Option<ClusterAccess> {
        let prefix = self.space.prefix().to_owned();
        Some(ClusterAccess { etcd: self.etcd.clone(), prefix, runtime: self.handle() })
    }

    fn load(&mut self, reconciler: &mut Reconciler, wake: Wake) -> Result<(), LoadError> {
        self.load_first(reconciler, wake)
    }

    fn tick(&mut self, _reconciler: &mut Reconciler) {
        self.renew_copy();
    }

    fn take_updates(&mut self, reconciler: &mut Reconciler) {
        while let Some(update) = self.updates.as_ref().and_then(|updates| updates.try_recv().ok()) {
            self.take(reconciler, update);
        }
    }

    /// Reads everything again, without waiting for it.
    fn reload(&mut self, _reconciler: &mut Reconciler) -> Vec<String> {
        self.follower.read_again();
        Vec::new()
    }

    fn adopt(&mut self, _reconciler: &mut Reconciler) {
        tracing::warn!("what etcd has is adopted, even if it is older");
        self.follower.drop_floor();
    }

    fn refusal(&self) -> WriteRefusal {
        WriteRefusal::ReadOnly(
            "the configuration comes from etcd, which has other owners too: write objects, or a set with \
             `weir apply`"
                .to_owned(),
        )
    }

    fn write(&mut self, reconciler: &mut Reconciler, writes: Vec<Signed>) -> Vec<Result<Done, WriteRefusal>> {
        self.write_objects(reconciler, writes)
    }

    fn write_whole(
        &mut self,
        reconciler: &mut Reconciler,
        differing: &[Differing],
        terms: &Terms<'_>,
    ) -> Result<(), WholeRefused> {
        self.change_all(reconciler, differing, terms)
    }

    fn differences_to(
        &mut self,
        reconciler: &Reconciler,
        version: u64,
    ) -> Result<Vec<Differing>, WholeRefused> {
        self.differences_at(reconciler, version)
    }

    fn versions(
        &mut self,
        reconciler: &Reconciler,
        below: u64,
        limit: usize,
        filter: &VersionFilter,
    ) -> Result<VersionList, WholeRefused> {
        self.noted_versions(reconciler, below, limit, filter)
    }

    fn version(
        &mut self,
        reconciler: &Reconciler,
        version: u64,
    ) -> Result<(RevisionInfo, ConfigPlan), WholeRefused> {
        self.noted_version(reconciler, version)
    }

    fn object_at(
        &mut self,
        reconciler: &Reconciler,
        version: u64,
        key: &ObjectKey,
    ) -> Result<Option<Arc<str>>, WholeRefused> {
        self.known_object_at(reconciler, version, key)
    }

    fn plan_between(
        &mut self,
        reconciler: &Reconciler,
        from: u64,
        to: u64,
    ) -> Result<ConfigPlan, WholeRefused> {
        self.plan_of_two(reconciler, from, to)
    }

    fn release(&mut self) {
        self.last_good.close();
    }

    /// etcd is followed on, without a copy on disk.
    fn give_away(&mut self) -> Flow {
        self.last_good.give_away();
        Flow::Continue
    }
}

impl EtcdSource {
    /// The first configuration: the copy on disk at once, then the data of etcd, if it answers within the
    /// time limit.
    fn load_first(&mut self, reconciler: &mut Reconciler, wake: Wake) -> Result<(), LoadError> {
        let kept = self.kept.take().unwrap_or_default();
        let has_kept = kept.revision > 0;
        let patience = if has_kept { START_WITHIN_KEPT } else { self.start_timeout };
        self.show_status(reconciler);
        let (sender, updates) = sync_channel(MAX_UPDATES);
        self.follow(teller(sender, wake));
        if has_kept {
            let count = kept.entries.len();
            let (changes, _) = reconciler.differing(StorageMedium::Etcd, kept.entries);
            reconciler.apply_first(changes, kept.revision);
            tracing::info!(revision = kept.revision, objects = count, "the copy of etcd's data on this disk");
        }
        let deadline = Instant::now() + patience;
        let mut reason = "it has not answered yet".to_owned();
        loop {
            match updates.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(update) => {
                    let is_all = matches!(update, Update::All { .. });
                    if let Update::Lost(why) = &update {
                        reason.clone_from(why);
                    }
                    let is_down = matches!(update, Update::Lost(_) | Update::Behind { .. });
                    self.take(reconciler, update);
                    if is_all || (is_down && has_kept) {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) if has_kept => break,
                Err(_) => return Err(LoadError::Etcd(reason)),
            }
        }
        self.updates = Some(updates);
        Ok(())
    }

    /// Brings an update of the follower into force.
    fn take(&mut self, reconciler: &mut Reconciler, update: Update) {
        match update {
            Update::All { revision, cluster_id, entries, strays } => {
                self.take_all(reconciler, revision, cluster_id, entries, strays);
            }
            Update::Changes { revision, changes } => self.take_changes(reconciler, revision, changes),
            Update::Following(_) => self.etcd_is(reconciler, EtcdState::Following, None),
            Update::Lost(reason) => self.etcd_is(reconciler, EtcdState::Unreachable, Some(reason)),
            Update::Behind { revision, cluster_id } => {
                let reason = format!(
                    "etcd (cluster {cluster_id:x}) is at revision {revision}, this node has served {}: it keeps serving that \
                     until etcd is newer, or until it is told to adopt what etcd has",
                    reconciler.snapshot.revision()
                );
                self.etcd_is(reconciler, EtcdState::Behind, Some(reason));
            }
        }
    }

    fn take_all(
        &mut self,
        reconciler: &mut Reconciler,
        revision: u64,
        cluster_id: u64,
        mut entries: Vec<(String, StoredRecord)>,
        mut strays: Vec<Stray>,
    ) {
        strays.retain(|stray| match reconciler.faulty_record(stray) {
            Some(record) => {
                entries.push((stray.path.clone(), record));
                false
            }
            None => true,
        });
        let (changes, unknown) = reconciler.differing(StorageMedium::Etcd, entries.clone());
        let is_first = reconciler.snapshot.revision() == 0;
        let concerns = !changes.is_empty() && !is_first;
        let (snapshot, catalog) = (&reconciler.snapshot, &reconciler.parts.catalog);
        let last_good = &mut self.last_good;
        // Each of the two takes a second or two with very many objects, so they run at the same time. The new
        // data is in force only after both are done.
        let (kept, applied) = thread::scope(|scope| {
            let copying = scope.spawn(|| last_good.replace(revision, cluster_id, &entries));
            let applied = concerns.then(|| snapshot.apply(catalog, &changes, revision, FaultPolicy::Lenient));
            (copying.join().unwrap_or_else(|panic| resume_unwind(panic)), applied)
        });
        self.note_copy(kept);
        self.strays = strays.into_iter().map(|stray| (stray.path, stray.reason)).collect();
        self.followed = revision;
        self.status.revision = revision;
        self.status.cluster_id = cluster_id;
        self.is_now(EtcdState::Following, None);
        self.show_status(reconciler);
        for path in unknown {
            self.stray(path, UNKNOWN_KIND.to_owned());
        }
        self.tell_strays(reconciler);
        if concerns || is_first {
            tracing::info!(revision, changes = changes.len(), "took over what etcd has");
        }
        match applied {
            Some(applied) => reconciler.publish(applied),
            None if is_first => reconciler.apply_first(changes, revision),
            None => reconciler.show(),
        }
    }

    fn take_changes(&mut self, reconciler: &mut Reconciler, revision: u64, mut changes: Vec<EtcdKeyChange>) {
        for (_, change) in &mut changes {
            if let Err(stray) = change
                && let Some(record) = reconciler.faulty_record(stray)
            {
                *change = Ok(Some(record));
            }
        }
        let stored =
            changes.iter().filter_map(|(path, change)| Some((path.as_str(), change.as_ref().ok()?.as_ref())));
        debug_assert!(revision >= self.followed, "what etcd tells arrives in order");
        if !changes.is_empty() {
            let kept = self.last_good.change(revision, stored);
            self.note_copy(kept);
        }
        self.followed = self.followed.max(revision);
        self.status.revision = self.followed;
        self.show_status(reconciler);
        let strays_before = self.strays.len();
        let mut effective = Vec::with_capacity(changes.len());
        for (path, change) in changes {
            self.strays.remove(&path);
            match (change, stored_key::parse_stored_key(&path)) {
                (Ok(Some(record)), Some(key)) => {
                    effective.push(stored_change(&reconciler.parts.sealer, StorageMedium::Etcd, key, record));
                }
                (Ok(None), Some(key)) => effective.push(SnapshotChange { key, written: None }),
                (Ok(Some(_)), None) => self.stray(path, UNKNOWN_KIND.to_owned()),
                (Ok(None), None) => {}
                (Err(stray), _) => self.stray(stray.path, stray.reason),
            }
        }
        if self.strays.len() != strays_before {
            self.tell_strays(reconciler);
        }
        if effective.is_empty() {
            return;
        }
        let applied =
            reconciler.snapshot.apply(&reconciler.parts.catalog, &effective, revision, FaultPolicy::Lenient);
        reconciler.publish(applied);
    }

    fn etcd_is(&mut self, reconciler: &mut Reconciler, state: EtcdState, reason: Option<String>) {
        self.is_now(state, reason);
        self.show_status(reconciler);
        reconciler.show();
    }

    fn stray(&mut self, path: String, reason: String) {
        if self.strays.len() < MAX_STRAYS {
            self.strays.insert(path, reason);
        }
    }

    /// Hands the state of etcd to readers with what is shown next.
    fn show_status(&self, reconciler: &mut Reconciler) {
        reconciler.etcd = Some(self.status.clone());
    }

    /// Lets readers know of keys that hold no object.
    fn tell_strays(&self, reconciler: &mut Reconciler) {
        let stray = |(path, reason): (&String, &String)| format!("etcd's key {path} is skipped: {reason}");
        let faults: Vec<String> = self.strays.iter().map(stray).collect();
        for fault in faults.iter().filter(|fault| !reconciler.faults.contains(fault)) {
            tracing::warn!("{fault}");
        }
        reconciler.faults = faults;
        reconciler.show();
    }
}

impl Reconciler {
    /// In place of an unreadable value: a record that makes a faulty object, so that it keeps its last good
    /// form or is answered 503. None where the key is of no kind of object.
    fn faulty_record(&self, stray: &Stray) -> Option<StoredRecord> {
        let key = stored_key::parse_stored_key(&stray.path)?;
        let text = WrittenObject::unreadable(&stray.reason);
        // Its revisions are not known. If it is read again unchanged, it counts as the same object.
        let before = self.written(&key);
        let is_known = before.is_some_and(|before| before.text == text);
        Some(StoredRecord {
            text: text.to_string(),
            created_index: before.map_or(0, |before| before.created_index),
            modified_index: before.filter(|_| is_known).map_or(0, |before| before.modified_index),
            expires_at_ms: None,
        })
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

    /// Makes a copy that lacks changes anew from everything there is.
    fn renew_copy(&mut self) {
        if self.last_good.lacks_changes() && self.copy_again_at.is_none_or(|at| Instant::now() >= at) {
            self.copy_again_at = Some(Instant::now() + COPY_AGAIN_AFTER);
            self.follower.read_again();
        }
    }
}

/// Hands updates to the reconciling thread, waiting where their queue is full.
fn teller(
    updates: SyncSender<Update>,
    wake: Wake,
) -> impl Fn(Update) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync + 'static {
    move |mut update| {
        let (updates, wake) = (updates.clone(), Arc::clone(&wake));
        Box::pin(async move {
            loop {
                match updates.try_send(update) {
                    Ok(()) => {
                        wake();
                        return true;
                    }
                    Err(TrySendError::Disconnected(_)) => return false,
                    Err(TrySendError::Full(back)) => update = back,
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
/// Updates that wait for the reconciling thread; behind them the follower waits, and etcd keeps what it has
/// to tell.
const MAX_UPDATES: usize = 256;
/// Pause between two attempts to send into a full queue.
const FULL_PAUSE: Duration = Duration::from_millis(2);
/// Limit of remembered keys that hold no object. The first thousand usually show the cause.
const MAX_STRAYS: usize = 1000;

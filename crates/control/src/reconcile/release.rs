//! Releasing the source to another process: the thread closes the store, waits for a verdict, and then either
//! ends or opens the store again with the writes of the other process. Writes wait in the meantime. It does
//! not know the reason.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use model::{ObjectKey, ObjectKind, SnapshotChange};

use tokio::sync::watch;

use super::stored_change::stored_change;
use super::{ControlLoop, Flow, Reconcile, ReconcileCommand, Reconciler};
use crate::sealing::StorageMedium;
use crate::serve::Busy;
use crate::source::store::StoredRecord;
use crate::stored_key;

/// Releases the source so that another process can take it over.
#[derive(Debug, Clone)]
pub struct HandOver {
    reconcile: Reconcile,
    /// Whether the Admin API does not accept connections for now.
    admin_paused: watch::Sender<bool>,
    admin_busy: Busy,
}

impl HandOver {
    pub(crate) fn new(reconcile: Reconcile, admin_paused: watch::Sender<bool>) -> HandOver {
        HandOver { reconcile, admin_paused, admin_busy: Busy::default() }
    }

    /// Makes [`HandOver::release`] wait first for the requests that the Admin API has accepted.
    pub(crate) fn after(self, admin_busy: Busy) -> HandOver {
        HandOver { admin_busy, ..self }
    }

    /// Finishes the writes that wait and closes the store; none if that has not happened by the deadline. New
    /// connections to the Admin API wait in the kernel's queue until a process accepts again.
    pub fn release(&self, deadline: Option<Instant>) -> Option<Released> {
        let (released, is_released) = sync_channel(1);
        let (verdict, decided) = sync_channel(1);
        self.admin_paused.send_replace(true);
        // A write on a connection that was accepted just before would queue behind the release and be
        // refused. A write that waits at the gate is answered when the older process has ended its requests.
        let began = Instant::now();
        while (self.admin_busy.count() > 0 && began.elapsed() < ANSWERS_WITHIN)
            || (self.reconcile.gate().is_wanted() && began.elapsed() < GATE_OPENS_WITHIN)
        {
            std::thread::sleep(FULL_PAUSE);
        }
        let claim = Released { verdict, given_away: false, admin_paused: self.admin_paused.clone() };
        let mut command = ReconcileCommand::Release(Release { released, decided });
        loop {
            match self.reconcile.commands.try_send(command) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return None,
                Err(TrySendError::Full(back)) => {
                    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                        return None;
                    }
                    command = back;
                    std::thread::sleep(FULL_PAUSE);
                }
            }
        }
        let left =
            deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        is_released.recv_timeout(left).ok()?;
        Some(claim)
    }
}

/// A source that no process holds. When it is dropped, this process opens it again.
#[derive(Debug)]
pub struct Released {
    verdict: SyncSender<ForGood>,
    given_away: bool,
    admin_paused: watch::Sender<bool>,
}

impl Released {
    /// Tells the thread that another process holds the source now; the thread writes nothing afterwards.
    pub fn for_good(mut self) {
        self.given_away = true;
        // The thread may have ended, so a failed send is ignored.
        let _ = self.verdict.send(ForGood);
    }
}

impl Drop for Released {
    fn drop(&mut self) {
        if !self.given_away {
            self.admin_paused.send_replace(false);
        }
    }
}

#[derive(Debug)]
pub(super) struct ForGood;

/// The command to the thread.
#[derive(Debug)]
pub(super) struct Release {
    released: SyncSender<()>,
    decided: Receiver<ForGood>,
}

impl ControlLoop {
    /// Releases the source until the verdict is known.
    pub(super) fn release(&mut self, release: &Release) -> Flow {
        self.source.release();
        // The caller may have given up; its verdict has then already arrived.
        let _ = release.released.send(());
        if release.decided.recv().is_ok() {
            return self.source.give_away();
        }
        if let Err(fault) = self.source.catch_up(&mut self.reconciler) {
            tracing::error!(%fault, "the store cannot be taken back; it is tried again");
        }
        Flow::Continue
    }
}

impl Reconciler {
    /// The changes that make the snapshot hold `entries` of `medium` and nothing else, and the paths that are
    /// no objects.
    pub(super) fn differing(
        &self,
        medium: StorageMedium,
        entries: Vec<(String, StoredRecord)>,
    ) -> (Vec<SnapshotChange>, Vec<String>) {
        let mut gone: HashSet<ObjectKey> = ObjectKind::ALL
            .into_iter()
            .flat_map(|kind| self.snapshot.iter(kind))
            .map(|object| object.key().clone())
            .chain(self.snapshot.faulty().map(|faulty| faulty.written.key.clone()))
            .collect();
        let (mut changes, mut unknown) = (Vec::new(), Vec::new());
        for (path, record) in entries {
            let Some(key) = stored_key::parse_stored_key(&path) else {
                unknown.push(path);
                continue;
            };
            gone.remove(&key);
            let change = stored_change(&self.parts.sealer, medium, key, record);
            if self.written(&change.key) != change.written.as_ref() {
                changes.push(change);
            }
        }
        changes.extend(gone.into_iter().map(|key| SnapshotChange { key, written: None }));
        (changes, unknown)
    }
}

/// Longest wait for the answers on connections that the Admin API has just accepted, before the source is
/// released. It is short, so that a client that connects and sends nothing does not delay an upgrade.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// Longest wait for writes that wait at the gate; the gate is opened sooner than that.
const GATE_OPENS_WITHIN: Duration = Duration::from_secs(6);
/// Pause between two attempts to send into a full queue, and between two checks whether the answers were
/// sent.
const FULL_PAUSE: Duration = Duration::from_millis(5);

//! Lending the source to another process: the thread lets go of the store, waits for a verdict, and either ends or takes
//! the store back with whatever was written meanwhile. Writes wait as long. It refuses to know why.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use model::{Change, Key, Kind};

use tokio::sync::watch;

use super::{Command, ControlLoop, Flow, Reconcile, Reconciler};
use crate::sealing::Medium;
use crate::serve::Busy;
use crate::source::store::Record;
use crate::stored_key;

/// The way to the source, for somebody who has it taken over.
#[derive(Debug, Clone)]
pub struct HandOver {
    reconcile: Reconcile,
    /// Whether the Admin API accepts nobody for the time being.
    admin_paused: watch::Sender<bool>,
    admin_busy: Busy,
}

impl HandOver {
    pub(crate) fn new(reconcile: Reconcile, admin_paused: watch::Sender<bool>) -> HandOver {
        HandOver { reconcile, admin_paused, admin_busy: Busy::default() }
    }

    /// Lets the requests that the Admin API has accepted be answered first.
    pub(crate) fn after(self, admin_busy: Busy) -> HandOver {
        HandOver { admin_busy, ..self }
    }

    /// Finishes the writes that wait and lets go of the store; none if that has not happened by the deadline. Who
    /// connects to the Admin API from now on waits in the kernel's queue for whoever accepts next.
    pub fn release(&self, deadline: Option<Instant>) -> Option<Released> {
        let (released, is_released) = sync_channel(1);
        let (verdict, decided) = sync_channel(1);
        self.admin_paused.send_replace(true);
        // A write on a connection that was accepted a moment ago would queue behind the release and be refused.
        // One that waits for the process before this one is answered when that is over.
        let began = Instant::now();
        while (self.admin_busy.count() > 0 && began.elapsed() < ANSWERS_WITHIN)
            || (self.reconcile.gate().is_wanted() && began.elapsed() < GATE_OPENS_WITHIN)
        {
            std::thread::sleep(FULL_PAUSE);
        }
        let claim = Released { verdict, given_away: false, admin_paused: self.admin_paused.clone() };
        let mut command = Command::Release(Release { released, decided });
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

/// A source that nobody holds. When it is dropped, it is taken back.
#[derive(Debug)]
pub struct Released {
    verdict: SyncSender<ForGood>,
    given_away: bool,
    admin_paused: watch::Sender<bool>,
}

impl Released {
    /// Another process holds the source now: the thread here writes nothing any more.
    pub fn for_good(mut self) {
        self.given_away = true;
        // A thread that is gone needs no telling.
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

/// What the thread is asked.
#[derive(Debug)]
pub(super) struct Release {
    released: SyncSender<()>,
    decided: Receiver<ForGood>,
}

impl ControlLoop {
    /// Lets go of the source until it is known who has it.
    pub(super) fn release(&mut self, release: &Release) -> Flow {
        self.source.release();
        // Who asked may have given up; then the verdict is there already.
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
    /// The changes that make the snapshot hold `entries` of `medium` and nothing else, and the paths that are no objects.
    pub(super) fn differing(
        &self,
        medium: Medium,
        entries: Vec<(String, Record)>,
    ) -> (Vec<Change>, Vec<String>) {
        let mut gone: HashSet<Key> = Kind::ALL
            .into_iter()
            .flat_map(|kind| self.snapshot.iter(kind))
            .map(|object| object.key().clone())
            .chain(self.snapshot.faulty().map(|faulty| faulty.written.key.clone()))
            .collect();
        let (mut changes, mut unknown) = (Vec::new(), Vec::new());
        for (path, record) in entries {
            let Some(key) = stored_key::parse(&path) else {
                unknown.push(path);
                continue;
            };
            gone.remove(&key);
            let change = stored_key::change(&self.parts.sealer, medium, key, record);
            if self.written(&change.key) != change.written.as_ref() {
                changes.push(change);
            }
        }
        changes.extend(gone.into_iter().map(|key| Change { key, written: None }));
        (changes, unknown)
    }
}

/// How long connections that the Admin API has just accepted may take to be answered before the source is let go of. A
/// client that connects and sends nothing must not hold up an upgrade.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// How long a write may wait for the process that this one has replaced; the gate is opened sooner than that.
const GATE_OPENS_WITHIN: Duration = Duration::from_secs(6);
/// Between two tries to get into a full queue, and between two looks whether answers were given.
const FULL_PAUSE: Duration = Duration::from_millis(5);

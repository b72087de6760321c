//! Following etcd: everything once, then each change, without end, through outages, compaction and members
//! that lost their data. It reports updates in order, and never an older state after a newer one. It does not
//! know the use of the updates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::load::{EtcdSnapshot, load_snapshot, position};
use super::watch::{EtcdKeyChange, EtcdWatch};
use super::{EtcdEntry, EtcdError, KeySpace, SharedEtcd, Stray};

/// An update from the follower.
#[derive(Debug)]
pub enum Update {
    /// All objects at a revision.
    All {
        revision: u64,
        /// The cluster of the data.
        cluster_id: u64,
        entries: Vec<EtcdEntry>,
        /// Keys below the prefix that hold no object.
        strays: Vec<Stray>,
    },
    /// The changes up to a revision; the list may be empty.
    Changes {
        revision: u64,
        /// The changed keys, in order.
        changes: Vec<EtcdKeyChange>,
    },
    /// Changes arrive from now on, from this endpoint.
    Following(String),
    /// etcd cannot be followed for now; holds the reason.
    Lost(String),
    /// etcd has an older state than the known one.
    Behind { revision: u64, cluster_id: u64 },
}

/// Commands to the follower.
#[derive(Debug, Default)]
pub struct FollowerCommands {
    /// The lowest revision that may be reported.
    floor: AtomicU64,
    /// Notified when everything is to be read again.
    again: Notify,
}

impl FollowerCommands {
    /// Prevents reports of anything older than `revision`.
    pub fn raise_floor(&self, revision: u64) {
        self.floor.fetch_max(revision, Ordering::Relaxed);
    }

    /// Accepts the data of etcd even if it is older.
    pub fn drop_floor(&self) {
        self.floor.store(0, Ordering::Relaxed);
        self.read_again();
    }

    /// Requests that everything is read again now.
    pub fn read_again(&self) {
        self.again.notify_one();
    }

    fn floor(&self) -> u64 {
        self.floor.load(Ordering::Relaxed)
    }
}

/// Follows etcd until `tell` returns false, because the receiver is gone.
pub(crate) async fn follow_etcd<T, F>(
    etcd: SharedEtcd,
    space: KeySpace,
    follower: Arc<FollowerCommands>,
    tell: T,
) where
    T: Fn(Update) -> F,
    F: Future<Output = bool>,
{
    let mut pause = Pause::default();
    loop {
        let (cluster_id, revision) = match first(&etcd, &space, &follower).await {
            Ok(Update::All { revision, cluster_id, entries, strays }) => {
                follower.raise_floor(revision);
                if !tell(Update::All { revision, cluster_id, entries, strays }).await {
                    return;
                }
                (cluster_id, revision)
            }
            Ok(other) => {
                if !tell(other).await {
                    return;
                }
                pause.wait(&follower).await;
                continue;
            }
            Err(error) => {
                if !tell(Update::Lost(error.to_string())).await {
                    return;
                }
                etcd.turn_away();
                pause.wait(&follower).await;
                continue;
            }
        };
        pause = Pause::default();
        if !watch(&etcd, &space, &follower, &tell, cluster_id, revision).await {
            return;
        }
    }
}

/// All objects, unless etcd has an older revision than the known one: [`Update::All`] or [`Update::Behind`].
async fn first(
    etcd: &SharedEtcd,
    space: &KeySpace,
    follower: &FollowerCommands,
) -> Result<Update, EtcdError> {
    let (cluster_id, revision) = position(etcd, space).await?;
    if revision < follower.floor() {
        return Ok(Update::Behind { revision, cluster_id });
    }
    let EtcdSnapshot { cluster_id, revision, entries, strays, .. } = load_snapshot(etcd, space).await?;
    // A different member may have answered this call.
    if revision < follower.floor() {
        return Ok(Update::Behind { revision, cluster_id });
    }
    Ok(Update::All { revision, cluster_id, entries, strays })
}

/// Reports the changes after `revision` until everything has to be read again (true) or the receiver is gone
/// (false).
async fn watch<T, F>(
    etcd: &SharedEtcd,
    space: &KeySpace,
    follower: &FollowerCommands,
    tell: &T,
    cluster_id: u64,
    mut revision: u64,
) -> bool
where
    T: Fn(Update) -> F,
    F: Future<Output = bool>,
{
    let mut pause = Pause::default();
    loop {
        let error = match EtcdWatch::open(etcd, space, revision + 1).await {
            Ok((_, opened)) if opened.cluster_id != cluster_id => return true,
            Ok((_, opened)) if opened.revision < revision && is_behind(etcd, space, revision).await => {
                return true;
            }
            Ok((mut open, _)) => {
                pause = Pause::default();
                if !tell(Update::Following(etcd.endpoint().to_owned())).await {
                    return false;
                }
                loop {
                    let next = tokio::select! {
                        next = open.next(etcd, space) => next,
                        () = follower.again.notified() => return true,
                    };
                    match next {
                        Ok(changes) => {
                            revision = revision.max(changes.revision);
                            follower.raise_floor(revision);
                            if !tell(Update::Changes { revision, changes: changes.changes }).await {
                                return false;
                            }
                        }
                        Err(error) => break error,
                    }
                }
            }
            Err(error) => error,
        };
        if error == EtcdError::Compacted {
            return true;
        }
        if !tell(Update::Lost(error.to_string())).await {
            return false;
        }
        etcd.turn_away();
        if pause.wait(follower).await {
            return true;
        }
    }
}

/// Whether the cluster itself, not just one member, has less than `revision`.
async fn is_behind(etcd: &SharedEtcd, space: &KeySpace, revision: u64) -> bool {
    matches!(position(etcd, space).await, Ok((_, now)) if now < revision)
}

/// The wait before the next attempt. It grows, and has a random part, so that instances do not all try at the
/// same moment.
#[derive(Debug)]
struct Pause {
    next_ms: u64,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause { next_ms: FIRST_PAUSE_MS }
    }
}

impl Pause {
    /// Waits; true when everything is to be read again.
    async fn wait(&mut self, follower: &FollowerCommands) -> bool {
        let ms = self.next_ms / 2 + random_below(self.next_ms);
        self.next_ms = (self.next_ms * 2).min(LONGEST_PAUSE_MS);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(ms)) => false,
            () = follower.again.notified() => true,
        }
    }
}

/// A number below `bound`; 0 if the system has no random bytes.
fn random_below(bound: u64) -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes) % bound.max(1),
        Err(_) => 0,
    }
}

/// The first wait is short, because another member may answer at once when one was restarted.
const FIRST_PAUSE_MS: u64 = 50;
/// The longest wait. An instance follows again this soon after its etcd is back, and a thousand waiting
/// instances send at most a thousand calls per second.
const LONGEST_PAUSE_MS: u64 = 1000;

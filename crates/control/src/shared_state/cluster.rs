//! Texts in etcd, mirrored in memory by a watch. Writes are conditional, so that two instances never
//! overwrite each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::{Documents, SharedDocument};
use crate::source::etcd::{
    EtcdOperation, Expected, FollowerCommands, KeyPrefix, KeySpace, SharedEtcd, Update, follow_etcd,
};
use crate::source::store::StoredRecord;

/// See the module.
pub(super) struct ClusterMedium {
    etcd: SharedEtcd,
    /// Known as soon as etcd has said where own keys may be.
    space: Arc<OnceLock<KeySpace>>,
    is_read: Arc<AtomicBool>,
}

impl ClusterMedium {
    /// Follows the texts of the folder among the own keys of a prefix, for as long as `documents` is held
    /// elsewhere.
    pub(super) fn follow(
        etcd: SharedEtcd,
        (prefix, folder): (String, String),
        documents: &Arc<Documents>,
        handle: &Handle,
    ) -> ClusterMedium {
        let follower = Arc::new(FollowerCommands::default());
        let is_read = Arc::new(AtomicBool::new(false));
        let (weak, read, theirs) = (Arc::downgrade(documents), Arc::clone(&is_read), Arc::clone(&follower));
        let (client, space) = (Arc::clone(&etcd), Arc::new(OnceLock::new()));
        let place = Arc::clone(&space);
        handle.spawn(async move {
            let own = loop {
                match client.own_prefix(&prefix).await {
                    Ok(own) => break own,
                    // The follower of the objects reports how etcd is.
                    Err(_) if weak.strong_count() > 0 => tokio::time::sleep(AGAIN_AFTER).await,
                    Err(_) => return,
                }
            };
            let found = place.get_or_init(|| KeySpace::new(&format!("{own}/{folder}"))).clone();
            let tell = move |update| std::future::ready(take(&weak, &read, &theirs, update));
            follow_etcd(client, found, follower, tell).await;
        });
        ClusterMedium { etcd, space, is_read }
    }

    pub(super) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Acquire)
    }

    /// Writes or removes a key that was changed last at revision `before`; 0: that is not there. Gives the
    /// revision of the write; none if the key was not as expected.
    pub(super) async fn put(
        &self,
        path: &str,
        text: Option<&str>,
        before: u64,
        ttl: Option<Duration>,
    ) -> Result<Option<u64>, String> {
        let operation = EtcdOperation {
            path: path.to_owned(),
            place: KeyPrefix::Data,
            text: text.map(str::to_owned),
            expect: Expected::At(before),
            ttl_s: ttl.map(|ttl| i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX)),
        };
        let space = self.space.get().ok_or("etcd has not said yet where such keys may be")?;
        let outcomes = self.etcd.write(space, &[vec![operation]]).await;
        match outcomes.into_iter().next() {
            Some(Ok(outcome)) => Ok(outcome.done.then_some(outcome.revision)),
            Some(Err(failed)) => Err(failed.0.to_string()),
            None => Err("etcd was not asked".to_owned()),
        }
    }
}

/// How long after a failure etcd is asked again where own keys may be.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Takes over what the follower tells; false when the documents are gone.
fn take(
    documents: &Weak<Documents>,
    is_read: &AtomicBool,
    follower: &FollowerCommands,
    update: Update,
) -> bool {
    let Some(documents) = documents.upgrade() else { return false };
    match update {
        Update::All { revision, entries, .. } => {
            let mut known = documents.known.write();
            known.retain(|_, document| document.revision > revision);
            drop(known);
            for (path, record) in entries {
                set(&documents, &path, record);
            }
            is_read.store(true, Ordering::Release);
            documents.changed.notify_one();
        }
        Update::Changes { revision, changes } => {
            for (path, change) in changes {
                match change {
                    Ok(Some(record)) => set(&documents, &path, record),
                    Ok(None) => documents.set(&path, None, revision),
                    // A text that cannot be read is one that is not there.
                    Err(stray) => documents.set(&stray.path, None, revision),
                }
            }
        }
        // etcd was restored from a backup: its state counts, because accounts and challenges of a lost time
        // are lost too.
        Update::Behind { .. } => {
            documents.known.write().clear();
            follower.drop_floor();
        }
        // The follower of the objects reports how etcd is.
        Update::Following(_) | Update::Lost(_) => {}
    }
    true
}

fn set(documents: &Documents, path: &str, record: StoredRecord) {
    let revision = record.modified_index;
    documents.set(path, Some(SharedDocument { text: record.text.into(), revision }), revision);
}

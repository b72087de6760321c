//! Texts in etcd, mirrored in memory by a watch. Writes are conditional, so that two instances never overwrite each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::{Document, Documents};
use crate::source::etcd::{Expected, Follower, KeySpace, Operation, Place, SharedEtcd, Update, follow};
use crate::source::store::Record;

/// See the module.
pub(super) struct Cluster {
    etcd: SharedEtcd,
    space: KeySpace,
    is_read: Arc<AtomicBool>,
}

impl Cluster {
    /// Follows the texts for as long as `documents` is held elsewhere.
    pub(super) fn follow(
        etcd: SharedEtcd,
        space: KeySpace,
        documents: &Arc<Documents>,
        handle: &Handle,
    ) -> Cluster {
        let follower = Arc::new(Follower::default());
        let is_read = Arc::new(AtomicBool::new(false));
        let (weak, read, theirs) = (Arc::downgrade(documents), Arc::clone(&is_read), Arc::clone(&follower));
        let tell = move |update| std::future::ready(take(&weak, &read, &theirs, update));
        handle.spawn(follow(Arc::clone(&etcd), space.clone(), follower, tell));
        Cluster { etcd, space, is_read }
    }

    pub(super) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Acquire)
    }

    /// Writes or removes a key that was changed last at revision `before`; 0: that is not there. Gives the revision of the
    /// write; none if the key was not as expected.
    pub(super) async fn put(
        &self,
        path: &str,
        text: Option<&str>,
        before: u64,
        ttl: Option<Duration>,
    ) -> Result<Option<u64>, String> {
        let operation = Operation {
            path: path.to_owned(),
            place: Place::Data,
            text: text.map(str::to_owned),
            expect: Expected::At(before),
            ttl_s: ttl.map(|ttl| i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX)),
        };
        let outcomes = self.etcd.write(&self.space, &[vec![operation]]).await;
        match outcomes.into_iter().next() {
            Some(Ok(outcome)) => Ok(outcome.done.then_some(outcome.revision)),
            Some(Err(failed)) => Err(failed.0.to_string()),
            None => Err("etcd was not asked".to_owned()),
        }
    }
}

/// Takes over what the follower tells; false when the documents are gone.
fn take(documents: &Weak<Documents>, is_read: &AtomicBool, follower: &Follower, update: Update) -> bool {
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
        // etcd was restored from a backup: its state counts, because accounts and challenges of a lost time are lost too.
        Update::Behind { .. } => {
            documents.known.write().clear();
            follower.drop_floor();
        }
        // The follower of the objects reports how etcd is.
        Update::Following(_) | Update::Lost(_) => {}
    }
    true
}

fn set(documents: &Documents, path: &str, record: Record) {
    let revision = record.modified_index;
    documents.set(path, Some(Document { text: record.text.into(), revision }), revision);
}

//! Reading all objects below the prefix, all at one revision. It does not know the use of the data.

use std::collections::HashSet;

use outbound::etcd::message::{KeyValue, RangeRequest, RangeResponse};
use outbound::etcd::range::{RANGE, RangePosition, load_range};

use super::space::KeyContent;
use super::{Etcd, EtcdEntry, EtcdError, KeySpace, Stray};

/// Everything below the prefix at one revision.
#[derive(Debug, Default)]
pub(super) struct EtcdSnapshot {
    pub(super) cluster_id: u64,
    pub(super) revision: u64,
    pub(super) entries: Vec<EtcdEntry>,
    pub(super) strays: Vec<Stray>,
    /// Paths of keys that have a lease.
    pub(super) leased: HashSet<String>,
}

/// Reads everything.
///
/// # Errors
/// See [`EtcdError`]; [`EtcdError::Compacted`] when etcd compacted the revision of the first page before the
/// last page was read.
pub(super) async fn load_snapshot(etcd: &Etcd, space: &KeySpace) -> Result<EtcdSnapshot, EtcdError> {
    load_at(etcd, space, 0).await
}

/// Reads everything at a revision; 0 is the newest one.
///
/// # Errors
/// See [`EtcdError`]; [`EtcdError::Compacted`] when etcd no longer has that revision.
pub(super) async fn load_at(etcd: &Etcd, space: &KeySpace, revision: u64) -> Result<EtcdSnapshot, EtcdError> {
    let mut set = EtcdSnapshot::default();
    let read = load_range(&etcd.calls, space.range(), revision, |kv| {
        set.take(space, kv);
        Ok(())
    });
    let RangePosition { cluster_id, revision } = read.await?;
    Ok(EtcdSnapshot { cluster_id, revision, ..set })
}

/// The revision and cluster of etcd now, as its quorum knows them.
///
/// # Errors
/// See [`EtcdError`].
pub(super) async fn position(etcd: &Etcd, space: &KeySpace) -> Result<(u64, u64), EtcdError> {
    let (key, range_end) = space.range();
    let request = RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
    let answer: RangeResponse = etcd.calls.call(RANGE, request).await?;
    let header = answer.header.unwrap_or_default();
    Ok((header.cluster_id, header.revision.unsigned_abs()))
}

impl EtcdSnapshot {
    fn take(&mut self, space: &KeySpace, kv: KeyValue) {
        if kv.lease != 0 {
            self.leased.extend(space.path(&kv.key));
        }
        match space.read(kv) {
            KeyContent::Record(path, record) => self.entries.push((path, record)),
            KeyContent::Stray(stray) => self.strays.push(stray),
            KeyContent::Other => {}
        }
    }
}

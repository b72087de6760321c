//! Reading everything below the prefix, page by page, all at one revision. It does not know the use of the data.

use std::collections::HashSet;

use super::message::{KeyValue, RangeRequest, RangeResponse};
use super::space::Found;
use super::{Entry, Etcd, EtcdError, KeySpace, Stray};

/// Everything below the prefix at one revision.
#[derive(Debug, Default)]
pub(super) struct Set {
    pub(super) cluster_id: u64,
    pub(super) revision: u64,
    pub(super) entries: Vec<Entry>,
    pub(super) strays: Vec<Stray>,
    /// Paths of keys that have a lease.
    pub(super) leased: HashSet<String>,
}

/// Reads everything.
///
/// # Errors
/// See [`EtcdError`]; [`EtcdError::Compacted`] when etcd compacted the revision of the first page before the last page
/// was read.
pub(super) async fn load(etcd: &Etcd, space: &KeySpace) -> Result<Set, EtcdError> {
    load_at(etcd, space, 0).await
}

/// Reads everything at a revision; 0 is the newest one.
///
/// # Errors
/// See [`EtcdError`]; [`EtcdError::Compacted`] when etcd no longer has that revision.
pub(super) async fn load_at(etcd: &Etcd, space: &KeySpace, revision: u64) -> Result<Set, EtcdError> {
    let (mut key, range_end) = space.range();
    let mut set = Set { revision, ..Set::default() };
    let mut limit = PAGE_KEYS;
    loop {
        let revision = i64::try_from(set.revision).unwrap_or(i64::MAX);
        let request = RangeRequest {
            key: key.clone(),
            range_end: range_end.clone(),
            limit,
            revision,
            ..RangeRequest::default()
        };
        let page: RangeResponse = match etcd.call(RANGE, request).await {
            Ok(page) => page,
            // Large objects: fewer of them fit into one answer.
            Err(EtcdError::TooLarge) if limit > 1 => {
                limit /= 4;
                limit = limit.max(1);
                continue;
            }
            Err(error) => return Err(error),
        };
        if set.revision == 0 {
            let header = page.header.unwrap_or_default();
            set.revision = header.revision.unsigned_abs();
            set.cluster_id = header.cluster_id;
        }
        let more = page.more;
        for kv in page.kvs {
            key.clone_from(&kv.key);
            set.take(space, kv);
        }
        if !more {
            return Ok(set);
        }
        // The next page begins directly after the last key of this one.
        key.push(0);
    }
}

/// The revision and cluster of etcd now, as its quorum knows them.
///
/// # Errors
/// See [`EtcdError`].
pub(super) async fn position(etcd: &Etcd, space: &KeySpace) -> Result<(u64, u64), EtcdError> {
    let (key, range_end) = space.range();
    let request = RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
    let answer: RangeResponse = etcd.call(RANGE, request).await?;
    let header = answer.header.unwrap_or_default();
    Ok((header.cluster_id, header.revision.unsigned_abs()))
}

impl Set {
    fn take(&mut self, space: &KeySpace, kv: KeyValue) {
        if kv.lease != 0 {
            self.leased.extend(space.path(&kv.key));
        }
        match space.read(kv) {
            Found::Record(path, record) => self.entries.push((path, record)),
            Found::Stray(stray) => self.strays.push(stray),
            Found::Other => {}
        }
    }
}

pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
/// Keys in one page: about half a megabyte of usual objects.
const PAGE_KEYS: i64 = 1000;

//! Reading all keys of a range, page by page, all at one revision. It does not know the use of the data.

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
    let mut set = Set::default();
    let read = load_range(etcd, space.range(), revision, |kv| {
        set.take(space, kv);
        Ok(())
    });
    let Position { cluster_id, revision } = read.await?;
    Ok(Set { cluster_id, revision, ..set })
}

/// The cluster and the revision that keys were read at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) cluster_id: u64,
    pub(super) revision: u64,
}

/// Reads the keys from the first one of `range` up to the one behind the last, at a revision; 0 is the newest one. Each
/// key is passed to `take`, which may end the reading with an error.
///
/// # Errors
/// See [`EtcdError`], and those of `take`.
pub(super) async fn load_range(
    etcd: &Etcd,
    range: (Vec<u8>, Vec<u8>),
    revision: u64,
    mut take: impl FnMut(KeyValue) -> Result<(), EtcdError>,
) -> Result<Position, EtcdError> {
    let mut pages = Pages::new(range, revision);
    loop {
        let page: RangeResponse = match etcd.call(RANGE, pages.request()).await {
            Ok(page) => page,
            // Large objects: fewer of them fit into one answer.
            Err(EtcdError::TooLarge) if pages.shrink() => continue,
            Err(error) => return Err(error),
        };
        if !pages.take(page, &mut take)? {
            return Ok(pages.position);
        }
    }
}

/// The progress of a reading.
struct Pages {
    /// The first key of the next page.
    key: Vec<u8>,
    range_end: Vec<u8>,
    /// Keys of the next page.
    limit: i64,
    position: Position,
}

impl Pages {
    fn new((key, range_end): (Vec<u8>, Vec<u8>), revision: u64) -> Pages {
        Pages { key, range_end, limit: PAGE_KEYS, position: Position { revision, cluster_id: 0 } }
    }

    fn request(&self) -> RangeRequest {
        RangeRequest {
            key: self.key.clone(),
            range_end: self.range_end.clone(),
            limit: self.limit,
            revision: i64::try_from(self.position.revision).unwrap_or(i64::MAX),
            ..RangeRequest::default()
        }
    }

    /// Makes the pages smaller; false if they cannot be.
    fn shrink(&mut self) -> bool {
        let is_possible = self.limit > 1;
        self.limit = (self.limit / 4).max(1);
        is_possible
    }

    /// Passes the keys of a page on; true if another page follows.
    fn take(
        &mut self,
        page: RangeResponse,
        take: &mut impl FnMut(KeyValue) -> Result<(), EtcdError>,
    ) -> Result<bool, EtcdError> {
        let header = page.header.unwrap_or_default();
        if self.position.revision == 0 {
            self.position.revision = header.revision.unsigned_abs();
        }
        self.position.cluster_id = header.cluster_id;
        let Some(last) = page.kvs.last() else {
            return match page.more {
                // The same page would be asked for without end.
                true => Err(EtcdError::Refused("a page without keys says that more follow".to_owned())),
                false => Ok(false),
            };
        };
        // The next page begins directly after the last key of this one.
        self.key.clone_from(&last.key);
        self.key.push(0);
        page.kvs.into_iter().try_for_each(take)?;
        Ok(page.more)
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

/// The path of the call that reads keys.
pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
/// Keys in one page: about half a megabyte of usual objects.
const PAGE_KEYS: i64 = 1000;

#[cfg(test)]
mod tests {
    use super::super::message::ResponseHeader;
    use super::*;

    fn page(keys: &[&str], more: bool) -> RangeResponse {
        let header = Some(ResponseHeader { cluster_id: 3, revision: 7 });
        let kv = |key: &&str| KeyValue { key: key.as_bytes().to_vec(), ..KeyValue::default() };
        RangeResponse { header, kvs: keys.iter().map(kv).collect(), more, ..RangeResponse::default() }
    }

    #[test]
    fn pages_follow_each_other_at_one_revision() {
        let mut pages = Pages::new((b"/a".to_vec(), b"/b".to_vec()), 0);
        let mut seen = Vec::new();
        let mut take = |kv: KeyValue| {
            seen.push(kv.key);
            Ok(())
        };
        assert_eq!(pages.request().revision, 0);
        assert_eq!(pages.take(page(&["/a1", "/a2"], true), &mut take), Ok(true));
        assert_eq!((pages.request().key, pages.request().revision), (b"/a2\0".to_vec(), 7));
        assert_eq!(pages.take(page(&["/a3"], false), &mut take), Ok(false));
        assert_eq!(pages.position, Position { cluster_id: 3, revision: 7 });
        assert_eq!(seen, [b"/a1", b"/a2", b"/a3"]);
        assert_eq!(Pages::new((Vec::new(), Vec::new()), 5).request().revision, 5);
    }

    #[test]
    fn empty_page_with_more_is_refused() {
        let mut pages = Pages::new((b"/a".to_vec(), b"/b".to_vec()), 0);
        assert!(matches!(pages.take(page(&[], true), &mut |_| Ok(())), Err(EtcdError::Refused(_))));
        assert_eq!(pages.take(page(&[], false), &mut |_| Ok(())), Ok(false));
        let full = pages.take(page(&["/a1"], true), &mut |_| Err(EtcdError::TooLarge));
        assert_eq!(full, Err(EtcdError::TooLarge), "the receiver ends the reading");
    }

    #[test]
    fn pages_shrink_down_to_one_key() {
        let mut pages = Pages::new((Vec::new(), Vec::new()), 0);
        let steps = std::iter::from_fn(|| pages.shrink().then_some(pages.limit)).collect::<Vec<_>>();
        assert_eq!(steps, [250, 62, 15, 3, 1]);
    }
}

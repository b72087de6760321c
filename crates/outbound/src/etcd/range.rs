//! Reading all keys of a range, page by page, all at one revision. It does not know the use of the data.

use super::EtcdError;
use super::client::EtcdClient;
use super::message::{KeyValue, RangeRequest, RangeResponse};

/// The cluster and the revision that keys were read at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangePosition {
    pub cluster_id: u64,
    pub revision: u64,
}

/// Reads the keys from the first one of `range` up to the one behind the last, at a revision; 0 is the newest
/// one. Each key is passed to `take`, which may end the reading with an error.
///
/// # Errors
/// See [`EtcdError`], and those of `take`.
pub async fn load_range(
    etcd: &EtcdClient,
    range: (Vec<u8>, Vec<u8>),
    revision: u64,
    mut take: impl FnMut(KeyValue) -> Result<(), EtcdError>,
) -> Result<RangePosition, EtcdError> {
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
    position: RangePosition,
}

impl Pages {
    fn new((key, range_end): (Vec<u8>, Vec<u8>), revision: u64) -> Pages {
        Pages { key, range_end, limit: PAGE_KEYS, position: RangePosition { revision, cluster_id: 0 } }
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

/// The path of the call that reads keys.
pub const RANGE: &str = "/etcdserverpb.KV/Range";
/// Keys in one page: about half a megabyte of usual objects.
const PAGE_KEYS: i64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::message::ResponseHeader;

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
        assert_eq!(pages.position, RangePosition { cluster_id: 3, revision: 7 });
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

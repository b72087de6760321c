//! How many requests of each key are in progress, over all workers. A request takes a place and gives it back
//! by dropping it.
//!
//! A key is kept while a request of it is in progress, so that the table is never larger than the number of
//! requests that the process serves at the same time.

use std::sync::Arc;

use parking_lot::Mutex;
use stdx::hash::{FastMap, hash_bytes};

/// Locks of a table: workers rarely meet at one.
const SHARDS: usize = 16;

/// A key as it is kept: its hash under two secret seeds, so that memory does not depend on what clients send.
type LimitConnKeyHash = [u64; 2];

/// See the module.
pub(super) struct LocalCounts {
    shards: [Mutex<FastMap<LimitConnKeyHash, u64>>; SHARDS],
    seeds: [u64; 2],
}

/// The place of one request in progress.
pub(super) struct InProgress {
    counts: Arc<LocalCounts>,
    key: LimitConnKeyHash,
}

impl Default for LocalCounts {
    fn default() -> LocalCounts {
        LocalCounts {
            shards: std::array::from_fn(|_| Mutex::default()),
            seeds: [fastrand::u64(..), fastrand::u64(..)],
        }
    }
}

impl LocalCounts {
    /// Takes a place under `key`, if fewer than `limit` are taken; gives it with its number, from 1.
    pub(super) fn enter(self: &Arc<LocalCounts>, key: &[u8], limit: u64) -> Option<(InProgress, u64)> {
        let key = self.seeds.map(|seed| hash_bytes(seed, key));
        let mut shard = self.shard(key).lock();
        let count = shard.entry(key).or_insert(0);
        // A limit is at least 1, so that a refusal leaves no key at 0 behind.
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some((InProgress { counts: self.clone(), key }, *count))
    }

    fn shard(&self, key: LimitConnKeyHash) -> &Mutex<FastMap<LimitConnKeyHash, u64>> {
        &self.shards[key[0] as usize % SHARDS]
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut shard = self.counts.shard(self.key).lock();
        if let Some(count) = shard.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                shard.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_given_back() {
        let counts = Arc::new(LocalCounts::default());
        let first = counts.enter(b"a", 2).unwrap();
        let second = counts.enter(b"a", 2).unwrap();
        assert_eq!((first.1, second.1), (1, 2));
        assert!(counts.enter(b"a", 2).is_none());
        assert_eq!(counts.enter(b"b", 2).unwrap().1, 1);
        drop(first);
        assert_eq!(counts.enter(b"a", 2).unwrap().1, 2);
        drop(second);
        assert_eq!(counts.keys(), 0);
    }

    #[test]
    fn workers_share_the_places() {
        let counts = Arc::new(LocalCounts::default());
        let taken: Vec<_> = std::thread::scope(|scope| {
            let take = || (0..100).filter_map(|_| counts.enter(b"a", 150)).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(taken.len(), 150);
        drop(taken);
        assert_eq!(counts.keys(), 0);
    }
}

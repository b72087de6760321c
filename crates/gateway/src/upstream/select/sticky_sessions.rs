//! The sessions that an upstream's nodes have begun: cookie values and the nodes that set them, shared by the
//! workers. Bounded in number and in time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Sessions of one upstream that are remembered while all of them are used. Of more sessions those without a
/// request for the longest time are forgotten. At most 36 MiB: each of the two generations of [`StickyShard`]
/// may hold as many, in a table with 33 bytes for each place, of which an eighth to a half is free.
pub(crate) const SESSIONS_MAX: usize = 262_144;
/// Parts with a lock each, so that workers seldom wait for each other.
const SHARDS: usize = 16;
/// One in so many sessions more in each shard, because hashes do not spread sessions evenly over the shards.
const SLACK_PART: usize = 16;

/// See the module.
pub struct StickySessions {
    shards: Box<[Mutex<StickyShard>]>,
    /// Two keyed hashes name a session: 128 bits, which clients cannot choose.
    keys: [RandomState; 2],
    shard_max: usize,
    /// Sessions in all shards.
    count: AtomicUsize,
}

/// Sessions in two generations: when the younger one is full or old, it replaces the older one. A session
/// that is used moves to the younger one.
#[derive(Default)]
struct StickyShard {
    young: HashMap<u128, StickySession>,
    old: HashMap<u128, StickySession>,
    young_since_ms: u64,
}

#[derive(Clone, Copy)]
struct StickySession {
    node: u64,
    used_ms: u64,
}

impl Default for StickySessions {
    fn default() -> StickySessions {
        StickySessions::new()
    }
}

impl StickySessions {
    /// Without sessions.
    pub fn new() -> StickySessions {
        StickySessions::bounded(SESSIONS_MAX)
    }

    fn bounded(sessions_max: usize) -> StickySessions {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let keys = [RandomState::new(), RandomState::new()];
        // Each generation holds the limit: just after the younger one was replaced, the older one alone has
        // the sessions in use.
        let shard_max = sessions_max / SHARDS + sessions_max / SHARDS / SLACK_PART;
        StickySessions { shards, keys, shard_max, count: AtomicUsize::new(0) }
    }

    /// The number of sessions, among them expired ones that were not removed yet.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The tag of the node that the session is at; none if it had no request for `ttl_ms`.
    pub(crate) fn node_of(&self, value: &[u8], now_ms: u64, ttl_ms: u64) -> Option<u64> {
        let (name, shard) = self.place(value);
        let mut shard = shard.lock();
        let is_expired = |session: &StickySession| now_ms.saturating_sub(session.used_ms) >= ttl_ms;
        if now_ms.saturating_sub(shard.young_since_ms) < ttl_ms
            && let Some(session) = shard.young.get_mut(&name)
        {
            if is_expired(session) {
                return None;
            }
            session.used_ms = now_ms;
            return Some(session.node);
        }
        let session = shard.young.get(&name).or_else(|| shard.old.get(&name)).copied()?;
        if is_expired(&session) {
            return None;
        }
        self.put(&mut shard, name, StickySession { used_ms: now_ms, ..session }, now_ms, ttl_ms);
        Some(session.node)
    }

    /// Notes that the node with the tag `node` has begun the session.
    pub(crate) fn learn(&self, value: &[u8], node: u64, now_ms: u64, ttl_ms: u64) {
        let (name, shard) = self.place(value);
        self.put(&mut shard.lock(), name, StickySession { node, used_ms: now_ms }, now_ms, ttl_ms);
    }

    fn place(&self, value: &[u8]) -> (u128, &Mutex<StickyShard>) {
        let [high, low] = [0, 1].map(|index| self.keys[index].hash_one(value));
        (u128::from(high) << 64 | u128::from(low), &self.shards[low as usize % SHARDS])
    }

    fn put(&self, shard: &mut StickyShard, name: u128, session: StickySession, now_ms: u64, ttl_ms: u64) {
        let before = shard.young.len() + shard.old.len();
        let is_old = now_ms.saturating_sub(shard.young_since_ms) >= ttl_ms;
        if is_old || (shard.young.len() >= self.shard_max && !shard.young.contains_key(&name)) {
            shard.old = std::mem::take(&mut shard.young);
            shard.young_since_ms = now_ms;
        }
        shard.old.remove(&name);
        shard.young.insert(name, session);
        let after = shard.young.len() + shard.old.len();
        self.count.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_kept_while_it_is_used() {
        let sessions = StickySessions::new();
        sessions.learn(b"a", 7, 0, 100);
        assert_eq!(sessions.node_of(b"a", 99, 100), Some(7));
        assert_eq!(sessions.node_of(b"a", 198, 100), Some(7));
        assert_eq!(sessions.node_of(b"a", 298, 100), None);
        assert_eq!(sessions.node_of(b"b", 0, 100), None);
        sessions.learn(b"a", 8, 300, 100);
        assert_eq!(sessions.node_of(b"a", 301, 100), Some(8));
        assert_eq!(sessions.node_of(b"a", 351, 50), None, "another time is in force at once");
        assert_eq!(sessions.node_of(b"a", 500, 300), Some(8));
    }

    #[test]
    fn sessions_in_use_stay_up_to_the_limit() {
        const LIMIT: u32 = 65_536;
        let sessions = StickySessions::bounded(LIMIT as usize);
        (0..LIMIT).for_each(|number| sessions.learn(&number.to_le_bytes(), 1, 0, 1_000_000));
        for _ in 0..2 {
            let lost =
                (0..LIMIT).filter(|number| sessions.node_of(&number.to_le_bytes(), 1, 1_000_000).is_none());
            assert_eq!(lost.count(), 0);
        }
    }

    #[test]
    fn sessions_are_bounded_and_used_ones_stay() {
        let sessions = StickySessions::bounded(16 * 64);
        sessions.learn(b"used", 1, 0, 1_000_000);
        for number in 0..100_000_u32 {
            sessions.learn(&number.to_le_bytes(), 2, 1, 1_000_000);
            if number.is_multiple_of(100) {
                assert_eq!(sessions.node_of(b"used", 1, 1_000_000), Some(1), "after {number}");
            }
        }
        let bound = 2 * (16 * 64 + 16 * 64 / SLACK_PART);
        assert!(sessions.count() <= bound, "{}", sessions.count());
        let held: usize = sessions
            .shards
            .iter()
            .map(|shard| shard.lock())
            .map(|shard| shard.young.len() + shard.old.len())
            .sum();
        assert_eq!(sessions.count(), held);
    }
}

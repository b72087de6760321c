//! A table of keys with a state for each, shared by all workers, of limited size. Keys are kept as hashes and
//! times are passed in; the plugin decides what a state is and which requests a key counts.
//!
//! The table is split into shards, each behind a lock of its own that is held for a look-up and a change of
//! one state. States that no longer matter are removed as the table grows.

use parking_lot::Mutex;
use stdx::hash::{FastMap, hash_bytes};

/// Locks of a table: workers rarely meet at one, and the removal of keys from one full shard takes about half
/// a millisecond.
const SHARDS: usize = 64;
/// Keys in all. Beyond that new keys replace the least important ones ([`KeyStanding`]), so that clients that
/// invent keys cannot take unlimited memory: with states of 32 bytes a full table takes 103 MB.
const KEYS_MAX: usize = 1024 * 1024;
/// The part of a full shard that is removed at once. Finding them takes some hundred microseconds under the
/// shard's lock, which is less than one microsecond per new key.
const GIVE_WAY_PART: usize = 16;
/// A shard smaller than this is not worth a sweep.
const SWEEP_MIN: usize = 64;

/// The state of one key.
pub(crate) trait KeyState {
    /// Whether the state is as good as none: it affects no request from `now_ms` on.
    fn is_over(&self, now_ms: u64) -> bool;

    /// How much is lost if the state is forgotten, and since when it counts: a full table forgets the lowest
    /// first, and the oldest first among equals.
    fn importance(&self) -> (KeyStanding, u64);
}

/// How much is lost if a state is forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyStanding {
    /// Requests are left in it.
    #[default]
    Open,
    /// It is exhausted; no request was refused yet.
    Exhausted,
    /// It is exhausted, and its client sends more requests. Clients that invent keys use each key once.
    Refusing,
}

impl KeyStanding {
    /// The standing after a request of a key that stood like this before.
    pub(crate) fn after(self, is_allowed: bool, is_exhausted: bool) -> KeyStanding {
        match (is_allowed, is_exhausted) {
            (false, _) => KeyStanding::Refusing,
            (true, true) => self.max(KeyStanding::Exhausted),
            (true, false) => KeyStanding::Open,
        }
    }
}

/// The table.
pub(crate) struct KeyTable<V> {
    shards: [Mutex<KeyTableShard<V>>; SHARDS],
    seeds: [u64; 2],
    shard_keys_max: usize,
}

/// A key as it is kept: its hash under two secret seeds, so that memory does not depend on what clients send.
type KeyTableHash = [u64; 2];

struct KeyTableShard<V> {
    states: FastMap<KeyTableHash, V>,
    /// The size at which states that are over are removed next.
    sweep_at: usize,
}

impl<V> Default for KeyTableShard<V> {
    fn default() -> Self {
        KeyTableShard { states: FastMap::default(), sweep_at: 0 }
    }
}

impl<V: KeyState> KeyTable<V> {
    /// An empty table for [`KEYS_MAX`] keys.
    pub(crate) fn new() -> KeyTable<V> {
        KeyTable::holding(KEYS_MAX)
    }

    /// An empty table for `keys_max` keys, where states are larger.
    pub(crate) fn holding(keys_max: usize) -> KeyTable<V> {
        KeyTable {
            shards: std::array::from_fn(|_| Mutex::default()),
            seeds: [fastrand::u64(..), fastrand::u64(..)],
            shard_keys_max: keys_max / SHARDS,
        }
    }

    /// Applies `change` to the state of `key`, a new one of `fresh` if there is none. The shard is locked
    /// meanwhile.
    pub(crate) fn with<R>(
        &self,
        key: &[u8],
        now_ms: u64,
        fresh: impl FnOnce() -> V,
        change: impl FnOnce(&mut V) -> R,
    ) -> R {
        let hash = self.seeds.map(|seed| hash_bytes(seed, key));
        let mut shard = self.shards[hash[0] as usize % SHARDS].lock();
        if !shard.states.contains_key(&hash) {
            shard.make_room(now_ms, self.shard_keys_max);
        }
        change(shard.states.entry(hash).or_insert_with(fresh))
    }

    /// Applies `change` to the state of `key`, if there is one.
    pub(crate) fn with_known<R>(&self, key: &[u8], change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let hash = self.seeds.map(|seed| hash_bytes(seed, key));
        self.shards[hash[0] as usize % SHARDS].lock().states.get_mut(&hash).map(change)
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().states.len()).sum()
    }

    /// Bytes on the heap.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().states.allocation_size()).sum()
    }
}

impl<V: KeyState> KeyTableShard<V> {
    /// Removes states that are over when the shard has doubled since the last time, so that the cost per new
    /// key is constant; a full shard also loses its least important keys.
    fn make_room(&mut self, now_ms: u64, keys_max: usize) {
        if self.states.len() >= self.sweep_at.clamp(SWEEP_MIN, keys_max) {
            self.states.retain(|_, state| !state.is_over(now_ms));
            self.sweep_at = self.states.len() * 2;
        }
        if self.states.len() < keys_max {
            return;
        }
        let mut order: Vec<_> = self.states.iter().map(|(hash, state)| (state.importance(), *hash)).collect();
        let gone = (keys_max / GIVE_WAY_PART).min(order.len() - 1);
        order.select_nth_unstable(gone);
        for (_, hash) in &order[..gone] {
            self.states.remove(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD_KEYS_MAX: usize = KEYS_MAX / SHARDS;

    /// A state of 32 bytes, as the largest that plugins have.
    struct State {
        began_ms: u64,
        ends_ms: u64,
        standing: KeyStanding,
        _room: u64,
    }

    impl State {
        fn new(began_ms: u64, ends_ms: u64, standing: KeyStanding) -> State {
            State { began_ms, ends_ms, standing, _room: 0 }
        }
    }

    impl KeyState for State {
        fn is_over(&self, now_ms: u64) -> bool {
            self.ends_ms <= now_ms
        }

        fn importance(&self) -> (KeyStanding, u64) {
            (self.standing, self.began_ms)
        }
    }

    #[test]
    fn states_that_are_over_are_removed() {
        let table = KeyTable::new();
        for number in 0..200_000_u64 {
            let fresh = || State::new(number, number + 10, KeyStanding::Open);
            table.with(&number.to_be_bytes(), number, fresh, |_| ());
        }
        assert!(table.keys() <= 2 * SHARDS * SWEEP_MIN, "{} keys kept", table.keys());
    }

    #[test]
    fn million_live_keys_take_under_120_mb() {
        let table = KeyTable::new();
        for number in 0..1_000_000_u64 {
            let fresh = || State::new(1, u64::MAX, KeyStanding::Open);
            table.with(&number.to_be_bytes(), 1, fresh, |_| ());
        }
        assert!(table.keys() > 990_000, "{} keys kept", table.keys());
        assert!(table.bytes() < 120_000_000, "{} bytes", table.bytes());
    }

    #[test]
    fn oldest_open_states_give_way_first() {
        let mut shard = KeyTableShard::default();
        let state = |number: u64| {
            let standing = if number.is_multiple_of(2) { KeyStanding::Open } else { KeyStanding::Exhausted };
            State::new(number, u64::MAX, standing)
        };
        shard.states.extend((0..SHARD_KEYS_MAX as u64).map(|number| ([number, 0], state(number))));
        shard.make_room(1, SHARD_KEYS_MAX);
        let gone: Vec<u64> =
            (0..SHARD_KEYS_MAX as u64).filter(|number| !shard.states.contains_key(&[*number, 0])).collect();
        let oldest_open: Vec<u64> =
            (0..(SHARD_KEYS_MAX / GIVE_WAY_PART) as u64).map(|number| number * 2).collect();
        assert_eq!(gone, oldest_open);
    }
}

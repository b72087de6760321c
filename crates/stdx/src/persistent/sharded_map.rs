//! A hash map in shards behind `Arc`; a change copies the directory and one shard if others hold them.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::hash::FastState;

/// A map with a clone of one reference; a change copies at most one shard and the directory. Shards double in
/// number as the map grows, so that a map of one entry stays small.
pub struct ShardedMap<K, V> {
    /// A power of two of shards, or none while the map was never filled.
    shards: Arc<Vec<Arc<Shard<K, V>>>>,
    len: usize,
    hasher: FastState,
}

type Shard<K, V> = HashTable<(K, V)>;

impl<K, V> ShardedMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flat_map(|shard| shard.iter()).map(|(key, value)| (key, value))
    }

    /// All keys, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in no particular order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Index of the shard that holds `hash`. High bits, because a shard's table uses the low ones.
    fn shard_of(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }
}

impl<K: Hash + Eq, V> ShardedMap<K, V> {
    /// The value of `key`.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if self.len == 0 {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let shard = &self.shards[self.shard_of(hash)];
        shard.find(hash, |(candidate, _)| candidate.borrow() == key).map(|(_, value)| value)
    }

    /// True when `key` has a value.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }
}

impl<K: Hash + Eq + Clone, V: Clone> ShardedMap<K, V> {
    /// Sets the value of `key`; returns the one it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        if self.len >= self.shards.len() * SHARD_ENTRIES && self.shards.len() < MAX_SHARDS {
            self.grow();
        }
        let hasher = self.hasher.clone();
        let shard = self.shard_mut(hash);
        if let Some((_, old)) = shard.find_mut(hash, |(candidate, _)| *candidate == key) {
            return Some(std::mem::replace(old, value));
        }
        shard.insert_unique(hash, (key, value), |(key, _)| hasher.hash_one(key));
        self.len += 1;
        None
    }

    /// Removes `key`; returns its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        // Looked up first: removing what is not there copies nothing.
        self.get(key)?;
        let hash = self.hasher.hash_one(key);
        let entry = self.shard_mut(hash).find_entry(hash, |(candidate, _)| candidate.borrow() == key).ok()?;
        let ((_, value), _) = entry.remove();
        self.len -= 1;
        Some(value)
    }

    /// The value of `key` to be changed in this version only.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let hash = self.hasher.hash_one(key);
        let shard = self.shard_mut(hash);
        shard.find_mut(hash, |(candidate, _)| candidate.borrow() == key).map(|(_, value)| value)
    }

    fn shard_mut(&mut self, hash: u64) -> &mut Shard<K, V> {
        let index = self.shard_of(hash);
        Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[index])
    }

    /// Doubles the number of shards and spreads the entries anew.
    fn grow(&mut self) {
        let count = (self.shards.len() * 2).max(1);
        let old = std::mem::take(&mut self.shards);
        let mut shards: Vec<Shard<K, V>> = (0..count).map(|_| HashTable::new()).collect();
        for (key, value) in old.iter().flat_map(|shard| shard.iter()) {
            let hash = self.hasher.hash_one(key);
            let shard = &mut shards[(hash >> 32) as usize & (count - 1)];
            shard.insert_unique(hash, (key.clone(), value.clone()), |(key, _)| self.hasher.hash_one(key));
        }
        self.shards = Arc::new(shards.into_iter().map(Arc::new).collect());
    }
}

impl<K, V> Clone for ShardedMap<K, V> {
    fn clone(&self) -> Self {
        Self { shards: Arc::clone(&self.shards), len: self.len, hasher: self.hasher.clone() }
    }
}

impl<K, V> Default for ShardedMap<K, V> {
    fn default() -> Self {
        Self { shards: Arc::default(), len: 0, hasher: FastState::default() }
    }
}

impl<K: std::fmt::Debug, V: std::fmt::Debug> std::fmt::Debug for ShardedMap<K, V> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Hash + Eq + Clone, V: Clone> FromIterator<(K, V)> for ShardedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// Entries per shard before the shards double: what one change copies while the map is of ordinary size.
const SHARD_ENTRIES: usize = 32;
/// The directory is copied on a change, too: 8 KiB of references, about as much work as 100 entries.
const MAX_SHARDS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn behaves_like_a_map_and_old_versions_stay(
            edits in prop::collection::vec((any::<bool>(), 0u16..300, any::<u8>()), 0..1500),
        ) {
            let (mut map, mut twin) = (ShardedMap::new(), HashMap::new());
            let mut versions = Vec::new();
            for (index, (insert, key, value)) in edits.into_iter().enumerate() {
                if insert {
                    prop_assert_eq!(map.insert(key, value), twin.insert(key, value));
                } else {
                    prop_assert_eq!(map.remove(&key), twin.remove(&key));
                }
                if index % 200 == 0 {
                    versions.push((map.clone(), twin.clone()));
                }
            }
            versions.push((map, twin));
            for (map, twin) in versions {
                prop_assert_eq!(map.len(), twin.len());
                prop_assert_eq!(map.iter().map(|(k, v)| (*k, *v)).collect::<HashMap<_, _>>(), twin.clone());
                prop_assert!((0..300).all(|key| map.get(&key) == twin.get(&key)));
            }
        }
    }

    #[test]
    fn a_change_shares_all_other_shards() {
        let map: ShardedMap<u32, u32> = (0..100_000).map(|key| (key, key)).collect();
        let mut changed = map.clone();
        changed.insert(7, 8);
        *changed.get_mut(&7).unwrap() += 1;
        let shared = map.shards.iter().zip(changed.shards.iter()).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!((map.shards.len(), shared), (MAX_SHARDS, MAX_SHARDS - 1));
        assert_eq!((map.get(&7), changed.get(&7)), (Some(&7), Some(&9)));
    }

    #[test]
    fn a_small_map_has_one_shard_and_an_empty_one_none() {
        let mut map = ShardedMap::new();
        assert_eq!((map.shards.len(), map.get("a")), (0, None));
        assert_eq!(map.remove("a"), None);
        map.insert(String::from("a"), 1);
        assert_eq!((map.shards.len(), map.get("a"), map.contains_key("b")), (1, Some(&1), false));
    }
}

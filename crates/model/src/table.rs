//! A map whose copies share what they have in common. Knows nothing of what it holds.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

/// How many parts a change copies one of. 100,000 entries give parts of about a hundred.
const SHARDS: usize = 1024;

/// A persistent map: a clone is a few pointers, a change copies one shard.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V> {
    shards: Arc<Vec<Option<Arc<HashMap<K, V>>>>>,
    hasher: RandomState,
    len: usize,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table { shards: Arc::new(Vec::new()), hasher: RandomState::new(), len: 0 }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Table<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.shards.get(self.shard(key))?.as_ref()?.get(key)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let shard = self.shard(&key);
        let shards = Arc::make_mut(&mut self.shards);
        if shards.is_empty() {
            shards.resize_with(SHARDS, || None);
        }
        let old = Arc::make_mut(shards[shard].get_or_insert_default()).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        if !self.contains(key) {
            return None;
        }
        let shard = self.shard(key);
        let slot = Arc::make_mut(&mut self.shards).get_mut(shard)?.as_mut()?;
        let old = Arc::make_mut(slot).remove(key);
        self.len -= usize::from(old.is_some());
        old
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flatten().flat_map(|shard| shard.iter())
    }

    fn shard(&self, key: &K) -> usize {
        #[allow(clippy::cast_possible_truncation)]
        let hash = self.hasher.hash_one(key) as usize;
        hash % SHARDS
    }
}

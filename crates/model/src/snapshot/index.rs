//! From something to the objects that have to do with it: few most of the time, 100,000 at worst, cheap to
//! copy always. Knows nothing of what the relation means.

use std::hash::Hash;
use std::sync::Arc;

use crate::ObjectKey;
use stdx::persistent::ShardedMap;

/// A relation from `K` to objects.
#[derive(Clone, Debug)]
pub(super) struct ObjectIndex<K> {
    sets: ShardedMap<K, Keys>,
}

impl<K> Default for ObjectIndex<K> {
    fn default() -> ObjectIndex<K> {
        ObjectIndex { sets: ShardedMap::new() }
    }
}

impl<K: Hash + Eq + Clone> ObjectIndex<K> {
    /// The objects related to that.
    pub(super) fn get(&self, from: &K) -> impl Iterator<Item = &ObjectKey> {
        self.sets.get(from).into_iter().flat_map(Keys::iter)
    }

    /// Brings the relation of one object from its old to its new form; neither list has an entry twice.
    pub(super) fn relink(&mut self, key: &ObjectKey, old: &[K], new: &[K]) {
        for from in old.iter().filter(|from| !new.contains(from)) {
            if let Some(keys) = self.sets.get_mut(from) {
                keys.remove(key);
                if keys.is_empty() {
                    self.sets.remove(from);
                }
            }
        }
        for from in new.iter().filter(|from| !old.contains(from)) {
            match self.sets.get_mut(from) {
                Some(keys) => keys.insert(key.clone()),
                None => {
                    self.sets.insert(from.clone(), Keys::Few(Arc::new([key.clone()])));
                }
            }
        }
    }
}

/// Keys of objects.
#[derive(Clone, Debug)]
enum Keys {
    /// A few, unordered.
    Few(Arc<[ObjectKey]>),
    /// Many.
    Many(ShardedMap<ObjectKey, ()>),
}

impl Keys {
    /// Adds a key; nothing happens when it is there.
    fn insert(&mut self, key: ObjectKey) {
        match self {
            Keys::Few(keys) if keys.contains(&key) => {}
            Keys::Few(keys) if keys.len() < LIST_MAX => {
                *keys = keys.iter().cloned().chain([key]).collect();
            }
            Keys::Few(keys) => {
                let mut table = ShardedMap::new();
                for key in keys.iter().cloned().chain([key]) {
                    table.insert(key, ());
                }
                *self = Keys::Many(table);
            }
            Keys::Many(table) => {
                table.insert(key, ());
            }
        }
    }

    /// Removes a key.
    fn remove(&mut self, key: &ObjectKey) {
        match self {
            Keys::Few(keys) => *keys = keys.iter().filter(|other| *other != key).cloned().collect(),
            Keys::Many(table) => {
                table.remove(key);
                if table.len() <= LIST_MAX / 2 {
                    let rest: Arc<[ObjectKey]> = table.iter().map(|(key, ())| key.clone()).collect();
                    *self = Keys::Few(rest);
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Keys::Few(keys) => keys.is_empty(),
            Keys::Many(table) => table.len() == 0,
        }
    }

    fn iter(&self) -> Box<dyn Iterator<Item = &ObjectKey> + '_> {
        match self {
            Keys::Few(keys) => Box::new(keys.iter()),
            Keys::Many(table) => Box::new(table.iter().map(|(key, ())| key)),
        }
    }
}

/// Up to here a list that is copied whole is cheaper than a table.
const LIST_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectKind;

    #[test]
    fn sets_grow_and_shrink_without_losing_a_key() {
        let key = |number: usize| ObjectKey::new(ObjectKind::Route, &number.to_string()).unwrap();
        let mut index = ObjectIndex::default();
        for number in 0..100 {
            index.relink(&key(number), &[], &["a", "b"]);
            index.relink(&key(number), &["a", "b"], &["a"]);
        }
        assert!(matches!(index.sets.get("a"), Some(Keys::Many(_))));
        assert_eq!((index.get(&"a").count(), index.get(&"b").count()), (100, 0));
        for number in (0..100).rev() {
            index.relink(&key(number), &["a"], &[]);
            assert_eq!(index.get(&"a").count(), number);
        }
        assert!(index.sets.is_empty(), "what nothing has to do with costs nothing");
    }
}

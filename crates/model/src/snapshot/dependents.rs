//! The set of objects that refer to one object: small most of the time, 100,000 at worst, cheap to copy always.

use std::sync::Arc;

use crate::Key;
use stdx::persistent::ShardedMap;

/// Up to here a list that is copied whole is cheaper than a table.
const LIST_MAX: usize = 32;

/// Keys of referring objects.
#[derive(Clone, Debug)]
pub(super) enum Dependents {
    /// A few, unordered.
    Few(Arc<[Key]>),
    /// Many.
    Many(ShardedMap<Key, ()>),
}

impl Default for Dependents {
    fn default() -> Dependents {
        Dependents::Few(Arc::new([]))
    }
}

impl Dependents {
    /// Adds a key; nothing happens when it is there.
    pub(super) fn insert(&mut self, key: Key) {
        match self {
            Dependents::Few(keys) if keys.contains(&key) => {}
            Dependents::Few(keys) if keys.len() < LIST_MAX => {
                *keys = keys.iter().cloned().chain([key]).collect();
            }
            Dependents::Few(keys) => {
                let mut table = ShardedMap::new();
                for key in keys.iter().cloned().chain([key]) {
                    table.insert(key, ());
                }
                *self = Dependents::Many(table);
            }
            Dependents::Many(table) => {
                table.insert(key, ());
            }
        }
    }

    /// Removes a key.
    pub(super) fn remove(&mut self, key: &Key) {
        match self {
            Dependents::Few(keys) => *keys = keys.iter().filter(|other| *other != key).cloned().collect(),
            Dependents::Many(table) => {
                table.remove(key);
                if table.len() <= LIST_MAX / 2 {
                    let rest: Arc<[Key]> = table.iter().map(|(key, ())| key.clone()).collect();
                    *self = Dependents::Few(rest);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Dependents::Few(keys) => keys.is_empty(),
            Dependents::Many(table) => table.len() == 0,
        }
    }

    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = &Key> + '_> {
        match self {
            Dependents::Few(keys) => Box::new(keys.iter()),
            Dependents::Many(table) => Box::new(table.iter().map(|(key, ())| key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn it_grows_and_shrinks_without_losing_a_key() {
        let key = |number: usize| Key::new(Kind::Route, &number.to_string()).unwrap();
        let mut dependents = Dependents::default();
        for number in 0..100 {
            dependents.insert(key(number));
            dependents.insert(key(number));
        }
        assert!(matches!(dependents, Dependents::Many(_)));
        assert_eq!(dependents.iter().count(), 100);
        for number in (0..100).rev() {
            assert!(!dependents.is_empty());
            dependents.remove(&key(number));
            assert_eq!(dependents.iter().count(), number);
        }
        assert!(dependents.is_empty() && matches!(dependents, Dependents::Few(_)));
    }
}

//! A set of keys that are added in nearly sorted order and taken in sorted order.

use model::ObjectKey;
use stdx::hash::FastSet;

/// A set of keys. A first load collects 100,000 of them; an ordered tree would make 17 comparisons for each.
#[derive(Default)]
pub(super) struct KeySet {
    members: FastSet<ObjectKey>,
    collected: Vec<ObjectKey>,
}

impl KeySet {
    /// Adds a key; nothing happens when it is there.
    pub(super) fn insert(&mut self, key: ObjectKey) {
        if !self.members.contains(&key) {
            self.members.insert(key.clone());
            self.collected.push(key);
        }
    }

    /// Whether a key is there.
    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.members.contains(key)
    }

    /// The keys in ascending order; costs almost nothing if they were added in that order.
    pub(super) fn into_sorted(self) -> Vec<ObjectKey> {
        let mut keys = self.collected;
        keys.sort();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ObjectKind;

    #[test]
    fn keys_come_in_order_and_once() {
        let key = |id: &str| ObjectKey::new(ObjectKind::Route, id).unwrap();
        let mut keys = KeySet::default();
        for id in ["b", "a", "c", "a"] {
            keys.insert(key(id));
        }
        assert!(keys.contains(&key("c")) && !keys.contains(&key("d")));
        assert_eq!(keys.into_sorted(), [key("a"), key("b"), key("c")]);
    }
}

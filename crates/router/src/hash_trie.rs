//! A persistent multimap from byte strings: clones share structure, a change copies one short path.
//!
//! It knows no routes. Items with equal keys are adjacent, in the order of [`Item::rank`]. The trie branches
//! 64 ways on the hash and keeps up to 64 items in a leaf, so a lookup takes three steps among 100,000 items
//! and two among a hundred. The hash has no secret seed, because keys come from the configuration and never
//! from clients.

use std::cmp::Ordering;
use std::sync::Arc;

use smallvec::SmallVec;

/// A stored item, which holds its own key.
pub(crate) trait Item: Clone {
    /// The key.
    fn key(&self) -> &[u8];

    /// The order among items of one key; equal items are the same item.
    fn rank(&self, other: &Self) -> Ordering;
}

/// A persistent multimap from keys to items.
#[derive(Clone, Debug)]
pub(crate) struct HashTrie<T> {
    root: Node<T>,
    length: usize,
}

#[derive(Clone, Debug)]
enum Node<T> {
    Branch(Arc<[Node<T>; FAN_OUT]>),
    Empty,
    Leaf(Arc<Leaf<T>>),
}

/// Items with their hashes, sorted by hash, then rank. One item, the usual number in a big map, needs no
/// memory of its own.
type Leaf<T> = SmallVec<[(u32, T); 1]>;

impl<T: Item> HashTrie<T> {
    /// The items stored under `key`, best rank first.
    pub(crate) fn get<'t>(&'t self, key: &[u8]) -> impl Iterator<Item = &'t T> {
        let hash = hash(key);
        let leaf: &[(u32, T)] = self.leaf(hash);
        let start = leaf.partition_point(|entry| entry.0 < hash);
        let found = leaf[start..].iter().take_while(|entry| entry.0 == hash).count();
        // An entry with the same 32 bits of hash but another key does not belong to the result.
        let same = leaf[start..start + found].iter().position(|entry| entry.1.key() == key);
        let from = same.map_or(start + found, |offset| start + offset);
        let until = leaf[from..start + found].iter().position(|entry| entry.1.key() != key);
        leaf[from..until.map_or(start + found, |offset| from + offset)].iter().map(|entry| &entry.1)
    }

    /// Inserts an item and replaces one of the same key and rank; returns whether there was none.
    pub(crate) fn insert(&mut self, item: T) -> bool {
        let hash = hash(item.key());
        let added = self.root.insert(hash, 0, item);
        self.length += usize::from(added);
        added
    }

    /// Removes the item of the same key and rank; returns whether there was one.
    pub(crate) fn remove(&mut self, item: &T) -> bool {
        let removed = self.root.remove(hash(item.key()), 0, item);
        self.length -= usize::from(removed);
        removed
    }

    /// Number of items.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Calls `visit` with every item, in no particular order, until it returns false.
    pub(crate) fn for_each<'t>(&'t self, visit: &mut dyn FnMut(&'t T) -> bool) {
        self.root.for_each(visit);
    }

    fn leaf(&self, hash: u32) -> &[(u32, T)] {
        let mut node = &self.root;
        let mut depth = 0;
        loop {
            match node {
                Node::Branch(children) => node = &children[slot(hash, depth)],
                Node::Empty => return &[],
                Node::Leaf(leaf) => return leaf,
            }
            depth += 1;
        }
    }
}

impl<T> Default for HashTrie<T> {
    fn default() -> Self {
        Self { root: Node::Empty, length: 0 }
    }
}

impl<T: Item> Node<T> {
    /// Returns whether the item is new.
    fn insert(&mut self, hash: u32, depth: u32, item: T) -> bool {
        match self {
            Self::Branch(children) => {
                return Arc::make_mut(children)[slot(hash, depth)].insert(hash, depth + 1, item);
            }
            Self::Empty => {
                *self = Self::Leaf(Arc::new(SmallVec::from_buf([(hash, item)])));
                return true;
            }
            Self::Leaf(shared) => {
                let leaf = Arc::make_mut(shared);
                match leaf.binary_search_by(|entry| compare(entry, hash, &item)) {
                    Ok(at) => {
                        leaf[at].1 = item;
                        return false;
                    }
                    Err(at) => leaf.insert(at, (hash, item)),
                }
                // Items that all have the same hash would be moved down together to the last bit.
                let splits =
                    leaf.len() > LEAF_ITEMS_MAX && depth < DEPTH_MAX && leaf[0].0 != leaf[leaf.len() - 1].0;
                if !splits {
                    return true;
                }
            }
        }
        self.split(depth);
        true
    }

    fn split(&mut self, depth: u32) {
        let Self::Leaf(leaf) = std::mem::replace(self, Self::Empty) else { return };
        let mut children = std::array::from_fn(|_| Self::Empty);
        for (hash, item) in leaf.iter() {
            children[slot(*hash, depth)].insert(*hash, depth + 1, item.clone());
        }
        *self = Self::Branch(Arc::new(children));
    }

    fn remove(&mut self, hash: u32, depth: u32, item: &T) -> bool {
        match self {
            Self::Branch(children) => {
                let removed = Arc::make_mut(children)[slot(hash, depth)].remove(hash, depth + 1, item);
                if removed && children.iter().all(|child| matches!(child, Self::Empty)) {
                    *self = Self::Empty;
                }
                removed
            }
            Self::Empty => false,
            Self::Leaf(leaf) => {
                let Ok(at) = leaf.binary_search_by(|entry| compare(entry, hash, item)) else { return false };
                if leaf.len() == 1 {
                    *self = Self::Empty;
                } else {
                    Arc::make_mut(leaf).remove(at);
                }
                true
            }
        }
    }

    fn for_each<'t>(&'t self, visit: &mut dyn FnMut(&'t T) -> bool) -> bool {
        match self {
            Self::Branch(children) => children.iter().all(|child| child.for_each(visit)),
            Self::Empty => true,
            Self::Leaf(leaf) => leaf.iter().all(|entry| visit(&entry.1)),
        }
    }
}

/// By hash, then key, then rank.
fn compare<T: Item>(entry: &(u32, T), hash: u32, item: &T) -> Ordering {
    entry.0.cmp(&hash).then_with(|| entry.1.key().cmp(item.key())).then_with(|| entry.1.rank(item))
}

/// Index of the child at `depth`.
fn slot(hash: u32, depth: u32) -> usize {
    (hash >> (BITS * depth)) as usize % FAN_OUT
}

/// The lower half of the 64-bit hash; both halves are well distributed.
fn hash(key: &[u8]) -> u32 {
    stdx::hash::hash_bytes(HASH_SEED, key) as u32
}

/// Bits of the hash used at each step.
const BITS: u32 = 6;
/// Children of a branch: a branch is 1 KiB, so that a change copies two or three of them at most.
const FAN_OUT: usize = 1 << BITS;
/// Steps that 32 bits of hash allow.
const DEPTH_MAX: u32 = 5;
/// Items a leaf holds before it becomes a branch. A binary search in 64 costs less than the step it saves.
const LEAF_ITEMS_MAX: usize = 64;
/// An arbitrary constant; it only has to be the same for all keys.
const HASH_SEED: u64 = 0x243f_6a88_85a3_08d3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug, PartialEq)]
    struct Word(String, u32);

    impl Item for Word {
        fn key(&self) -> &[u8] {
            self.0.as_bytes()
        }

        fn rank(&self, other: &Self) -> Ordering {
            self.1.cmp(&other.1)
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set(changes in proptest::collection::vec(
            (any::<bool>(), 0u32..400, 0u32..3), 0..1500)) {
            let mut trie = HashTrie::default();
            let mut twin: BTreeSet<(String, u32)> = BTreeSet::new();
            let mut old = None;
            for (index, (put, key, rank)) in changes.into_iter().enumerate() {
                let item = Word(format!("/{key}"), rank);
                if put {
                    twin.insert((item.0.clone(), rank));
                    trie.insert(item);
                } else {
                    prop_assert_eq!(trie.remove(&item), twin.remove(&(item.0.clone(), rank)));
                }
                if index == 700 {
                    old = Some((trie.clone(), twin.clone()));
                }
            }
            for (trie, twin) in old.into_iter().chain([(trie, twin)]) {
                prop_assert_eq!(trie.len(), twin.len());
                for key in 0..400 {
                    let key = format!("/{key}");
                    let got: Vec<u32> = trie.get(key.as_bytes()).map(|word| word.1).collect();
                    let expected: Vec<u32> = twin.iter().filter(|pair| pair.0 == key).map(|pair| pair.1).collect();
                    prop_assert_eq!(got, expected);
                }
            }
        }
    }

    #[test]
    fn items_under_one_key_stay_in_order() {
        let mut trie = HashTrie::default();
        for rank in (0..500).rev() {
            trie.insert(Word("/".to_owned(), rank));
        }
        assert!(trie.get(b"/").map(|word| word.1).eq(0..500));
        let mut seen = 0;
        trie.for_each(&mut |_| {
            seen += 1;
            seen < 10
        });
        assert_eq!(seen, 10);
    }
}

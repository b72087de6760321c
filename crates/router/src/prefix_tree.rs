//! A persistent radix tree: finds every stored key that is a prefix of a byte string.
//!
//! Does not know routes. Clones share structure; a change copies the nodes from the root to its key that are
//! shared. No function recurses, because keys may nest as deep as they are long.

use std::sync::Arc;

use smallvec::SmallVec;

/// The tree, with at most one value a key.
#[derive(Clone, Debug)]
pub(crate) struct PrefixTree<V> {
    root: Option<Arc<Node<V>>>,
}

/// The values of a lookup, from the shortest key to the longest. More than 16 nested keys, which no usual
/// configuration has, cost an allocation.
pub(crate) type Nested<'t, V> = SmallVec<[&'t V; 16]>;

#[derive(Clone, Debug)]
struct Node<V> {
    /// The bytes between the parent and this node; empty only at the root.
    label: Box<[u8]>,
    value: Option<V>,
    children: Children<V>,
}

/// Children, sorted by the first byte of their labels, which is unique.
#[derive(Clone, Debug)]
struct Children<V> {
    nodes: Vec<Arc<Node<V>>>,
    index: Index,
}

#[derive(Clone, Debug)]
enum Index {
    /// The first bytes, in order.
    Few(SmallVec<[u8; FEW_MAX]>),
    /// For each byte the index of its child, or `ABSENT`; an index may be as high as 255, so a byte is too
    /// small for both.
    Many(Box<[u16; 256]>),
}

impl<V: Clone> PrefixTree<V> {
    /// The values of all keys that are prefixes of `text`.
    pub(crate) fn prefixes_of<'t>(&'t self, text: &[u8]) -> Nested<'t, V> {
        let mut found = Nested::new();
        let mut rest = text;
        let mut next = self.root.as_deref();
        while let Some(node) = next {
            let Some(after) = rest.strip_prefix(&*node.label) else { break };
            rest = after;
            found.extend(&node.value);
            next = rest.first().and_then(|&byte| node.children.get(byte));
        }
        found
    }

    /// Calls `change`, which may set, alter or remove the value of `key`.
    pub(crate) fn update(&mut self, key: &[u8], change: impl FnOnce(&mut Option<V>)) {
        let Some(depth) = self.depth(key) else {
            let mut value = None;
            change(&mut value);
            if let Some(value) = value {
                self.insert(key, value);
            }
            return;
        };
        let (node, _) = self.descend(key, depth);
        change(&mut node.value);
        if node.value.is_none() {
            self.tidy(key, depth);
        }
    }

    /// Calls `visit` with every value, in no particular order, until it returns false.
    pub(crate) fn for_each<'t>(&'t self, visit: &mut dyn FnMut(&'t V) -> bool) {
        let mut waiting: Vec<&Node<V>> = self.root.as_deref().into_iter().collect();
        while let Some(node) = waiting.pop() {
            if !node.value.iter().all(&mut *visit) {
                return;
            }
            waiting.extend(node.children.nodes.iter().map(|child| &**child));
        }
    }

    /// How many steps below the root the node of `key` is, if there is one.
    fn depth(&self, key: &[u8]) -> Option<usize> {
        let mut node = self.root.as_deref()?;
        let mut rest = key;
        let mut depth = 0;
        while let Some(&first) = rest.first() {
            node = node.children.get(first)?;
            rest = rest.strip_prefix(&*node.label)?;
            depth += 1;
        }
        Some(depth)
    }

    /// The node `depth` steps down towards `key`, unshared like all nodes above it, and the rest of the key
    /// below it.
    fn descend<'k>(&mut self, key: &'k [u8], depth: usize) -> (&mut Node<V>, &'k [u8]) {
        let mut node = Arc::make_mut(self.root.get_or_insert_with(|| Arc::new(Node::new(b""))));
        let mut rest = key;
        for _ in 0..depth {
            let at = node.children.position(rest[0]).expect("the depth was measured on this very tree");
            node = Arc::make_mut(&mut node.children.nodes[at]);
            rest = &rest[node.label.len()..];
        }
        (node, rest)
    }

    /// Stores the value of a key that has no node, or one without a value.
    fn insert(&mut self, key: &[u8], value: V) {
        let (mut node, mut rest) = self.descend(key, 0);
        while let Some(&first) = rest.first() {
            let at = match node.children.position(first) {
                Some(at) => at,
                None => node.children.insert(Node::new(rest)),
            };
            node = Arc::make_mut(&mut node.children.nodes[at]);
            let shared = node.label.iter().zip(rest).take_while(|(left, right)| left == right).count();
            if shared < node.label.len() {
                node.split(shared);
            }
            rest = &rest[shared..];
        }
        node.value = Some(value);
    }

    /// Removes or merges the node of a key that lost its value, and its parent if that needs no node of its
    /// own now.
    fn tidy(&mut self, key: &[u8], depth: usize) {
        if depth > 0 {
            let (parent, rest) = self.descend(key, depth - 1);
            let at = parent.children.position(rest[0]).expect("the node was just changed");
            if parent.children.nodes[at].children.nodes.is_empty() {
                parent.children.remove(at);
                if depth > 1 {
                    parent.absorb_only_child();
                }
            } else {
                Arc::make_mut(&mut parent.children.nodes[at]).absorb_only_child();
            }
        }
        if self.root.as_ref().is_some_and(|root| root.value.is_none() && root.children.nodes.is_empty()) {
            self.root = None;
        }
    }
}

impl<V> Drop for PrefixTree<V> {
    /// Drops the nodes one by one, because thousands of nested keys must not become thousands of stack
    /// frames.
    fn drop(&mut self) {
        let mut waiting: Vec<Arc<Node<V>>> = self.root.take().into_iter().collect();
        while let Some(node) = waiting.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                waiting.append(&mut node.children.nodes);
            }
        }
    }
}

impl<V> Default for PrefixTree<V> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<V: Clone> Node<V> {
    fn new(label: &[u8]) -> Self {
        let index = Index::Few(SmallVec::new());
        Self { label: label.into(), value: None, children: Children { nodes: Vec::new(), index } }
    }

    /// Makes this node end after `length` bytes of its label, with the rest as its only child.
    fn split(&mut self, length: usize) {
        let mut lower = Self::new(&self.label[length..]);
        lower.value = self.value.take();
        std::mem::swap(&mut lower.children, &mut self.children);
        self.label = self.label[..length].into();
        self.children.insert(lower);
    }

    /// Undoes a split that is no longer needed.
    fn absorb_only_child(&mut self) {
        if self.value.is_some() || self.children.nodes.len() != 1 {
            return;
        }
        let child = self.children.nodes.pop().expect("there is one child");
        let child = Arc::unwrap_or_clone(child);
        self.label = [&*self.label, &*child.label].concat().into_boxed_slice();
        self.value = child.value;
        self.children = child.children;
    }
}

impl<V> Children<V> {
    fn get(&self, byte: u8) -> Option<&Node<V>> {
        self.position(byte).map(|at| &*self.nodes[at])
    }

    fn position(&self, byte: u8) -> Option<usize> {
        match &self.index {
            Index::Few(bytes) => memchr::memchr(byte, bytes),
            Index::Many(places) => match places[usize::from(byte)] {
                ABSENT => None,
                place => Some(usize::from(place)),
            },
        }
    }

    /// Adds a child; returns its index.
    fn insert(&mut self, child: Node<V>) -> usize {
        let first = child.label[0];
        let at = self.nodes.partition_point(|node| node.label[0] < first);
        self.nodes.insert(at, Arc::new(child));
        self.reindex();
        at
    }

    fn remove(&mut self, at: usize) {
        self.nodes.remove(at);
        self.reindex();
    }

    fn reindex(&mut self) {
        let firsts = self.nodes.iter().map(|node| node.label[0]);
        if self.nodes.len() <= FEW_MAX {
            self.index = Index::Few(firsts.collect());
            return;
        }
        let mut places = Box::new([ABSENT; 256]);
        for (byte, place) in firsts.zip(0..) {
            places[usize::from(byte)] = place;
        }
        self.index = Index::Many(places);
    }
}

/// Number of children up to which a search over their first bytes is faster than a table of 512 bytes: one
/// vector register.
const FEW_MAX: usize = 16;
/// No child begins with this byte.
const ABSENT: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(changes in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(prop_oneof![0u8..3, any::<u8>()], 0..5)), 0..300)) {
            let mut tree = PrefixTree::default();
            let mut twin: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            let mut old = None;
            for (index, (put, key)) in changes.iter().enumerate() {
                tree.update(key, |value| *value = put.then_some(index));
                if *put {
                    twin.insert(key.clone(), index);
                } else {
                    twin.remove(key);
                }
                if index == 100 {
                    old = Some((tree.clone(), twin.clone()));
                }
            }
            for (tree, twin) in old.into_iter().chain([(tree, twin)]) {
                for (_, text) in &changes {
                    let got: Vec<usize> = tree.prefixes_of(text).into_iter().copied().collect();
                    let expected: Vec<usize> = (0..=text.len())
                        .filter_map(|length| twin.get(&text[..length]).copied())
                        .collect();
                    prop_assert_eq!(got, expected);
                }
                let mut values = Vec::new();
                tree.for_each(&mut |value| { values.push(*value); true });
                values.sort_unstable();
                let mut expected: Vec<usize> = twin.values().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(values, expected);
                prop_assert_eq!(tree.root.is_none(), twin.is_empty());
            }
        }
    }
}

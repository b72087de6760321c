//! The routes of one host, or of all: exact paths by hash, prefixes by tree, in the order in which they are
//! tried.
//!
//! It knows neither hosts nor the other conditions of a route.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::hash_trie::{HashTrie, Item};
use crate::path_pattern::PathPattern;
use crate::prefix_tree::PrefixTree;
use crate::rule::Rule;

/// Paths of rules. Clones share structure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    exact: HashTrie<Entry>,
    prefixes: PrefixTree<Bucket>,
    prefix_entries: usize,
}

/// One path of one rule.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) rule: Arc<Rule>,
    pub(crate) slot: u32,
    /// Index of the path in the rule.
    path: u16,
}

/// Entries that share a literal, best rank first.
type Bucket = Arc<Vec<Entry>>;

impl Table {
    /// Inserts a path of a rule; returns whether it is new.
    pub(crate) fn insert(&mut self, with_parameters: bool, entry: Entry) -> bool {
        if entry.pattern().is_exact(with_parameters) {
            return self.exact.insert(entry);
        }
        let rule = Arc::clone(&entry.rule);
        let literal = rule.paths[usize::from(entry.path)].literal(with_parameters);
        let mut added = false;
        self.prefixes.update(literal, |bucket| {
            let bucket = Arc::make_mut(bucket.get_or_insert_default());
            match bucket.binary_search_by(|other| other.rank(&entry)) {
                Ok(at) => bucket[at] = entry,
                Err(at) => {
                    bucket.insert(at, entry);
                    added = true;
                }
            }
        });
        self.prefix_entries += usize::from(added);
        added
    }

    /// Removes a path of a rule; returns whether it was there.
    pub(crate) fn remove(&mut self, with_parameters: bool, entry: &Entry) -> bool {
        if entry.pattern().is_exact(with_parameters) {
            return self.exact.remove(entry);
        }
        let mut removed = false;
        self.prefixes.update(entry.pattern().literal(with_parameters), |value| {
            let Some(bucket) = value else { return };
            let Ok(at) = bucket.binary_search_by(|other| other.rank(entry)) else { return };
            removed = true;
            if bucket.len() == 1 {
                *value = None;
            } else {
                Arc::make_mut(bucket).remove(at);
            }
        });
        self.prefix_entries -= usize::from(removed);
        removed
    }

    /// Whether the table is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.len() == 0 && self.prefix_entries == 0
    }

    /// Calls `visit` with the entries with a literal that matches `path`, in the order in which they are
    /// tried: exact ones, whatever their priority, then prefixes from the longest literal to the shortest.
    /// Stops at the first result and returns it.
    pub(crate) fn visit<'t, R>(
        &'t self,
        path: &[u8],
        visit: &mut impl FnMut(&'t Entry) -> Option<R>,
    ) -> Option<R> {
        for entry in self.exact.get(path) {
            if let Some(result) = visit(entry) {
                return Some(result);
            }
        }
        for bucket in self.prefixes.prefixes_of(path).into_iter().rev() {
            for entry in bucket.iter() {
                if let Some(result) = visit(entry) {
                    return Some(result);
                }
            }
        }
        None
    }
}

impl Entry {
    /// The entries of all paths of a rule.
    pub(crate) fn all(slot: u32, rule: &Arc<Rule>) -> impl Iterator<Item = Self> {
        (0..).take(rule.paths.len()).map(move |path| Self { rule: Arc::clone(rule), slot, path })
    }

    pub(crate) fn pattern(&self) -> &PathPattern {
        &self.rule.paths[usize::from(self.path)]
    }
}

impl Item for Entry {
    fn key(&self) -> &[u8] {
        self.pattern().as_str().as_bytes()
    }

    /// Higher priority first, then the longer path, templates before wildcards, then the older route; slot
    /// and index make the order total.
    fn rank(&self, other: &Self) -> Ordering {
        let lengths = (self.pattern().rank_length(), other.pattern().rank_length());
        (other.rule.priority.cmp(&self.rule.priority))
            .then_with(|| lengths.1.cmp(&lengths.0))
            .then_with(|| other.pattern().is_template().cmp(&self.pattern().is_template()))
            .then_with(|| self.rule.order.cmp(&other.rule.order))
            .then_with(|| self.slot.cmp(&other.slot))
            .then_with(|| self.path.cmp(&other.path))
    }
}

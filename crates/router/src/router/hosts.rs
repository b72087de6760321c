//! The tables of `HostUri` mode: one per host pattern, found from the most specific to the least.
//!
//! It does not know the contents of a table.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::hash_trie::{HashTrie, Item};
use crate::hosts::{HOST_BYTES_MAX, HostPattern};
use crate::prefix_tree::PrefixTree;
use crate::table::Table;

/// Tables by host pattern. Clones share structure.
#[derive(Clone, Debug, Default)]
pub(super) struct HostTables {
    plain: Tables,
    /// Patterns with a port, compared with the raw host. Nearly always empty, and then free.
    with_port: Tables,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    exact: HashTrie<HostTable>,
    /// By the suffix read backwards, so that a longer suffix is a longer prefix.
    wildcards: PrefixTree<HostTable>,
    wildcard_tables: usize,
}

#[derive(Clone, Debug)]
pub(super) struct HostTable {
    pattern: Arc<str>,
    table: Arc<Table>,
}

impl HostTables {
    /// Changes the table of a host; makes the table if it is missing and drops it if it becomes empty.
    pub(super) fn update(&mut self, host: &HostPattern, change: impl FnOnce(&mut Table)) {
        let tables = if host.has_port() { &mut self.with_port } else { &mut self.plain };
        match host.suffix() {
            None => tables.update_exact(host, change),
            Some(suffix) => tables.update_wildcard(host, suffix, change),
        }
    }

    /// Calls `visit` with the tables that a request may match in, in order, until it returns a result.
    pub(super) fn visit<'t, R>(
        &'t self,
        host: &[u8],
        raw_host: &[u8],
        visit: &mut impl FnMut(&'t str, &'t Table) -> Option<R>,
    ) -> Option<R> {
        if self.with_port.is_empty() {
            return self.plain.visit_exact(host, visit).or_else(|| self.plain.visit_wildcards(host, visit));
        }
        let mut lower = [0; HOST_BYTES_MAX];
        // A host longer than the array matches no pattern with a port, because no pattern is longer.
        let with_port = lower.get_mut(..raw_host.len()).map(|lower| {
            lower.copy_from_slice(raw_host);
            lower.make_ascii_lowercase();
            &*lower
        });
        with_port
            .and_then(|raw_host| self.with_port.visit_exact(raw_host, visit))
            .or_else(|| self.plain.visit_exact(host, visit))
            .or_else(|| with_port.and_then(|raw_host| self.with_port.visit_wildcards(raw_host, visit)))
            .or_else(|| self.plain.visit_wildcards(host, visit))
    }

    /// Calls `visit` with every table, in no particular order, until it returns false.
    pub(super) fn for_each<'t>(&'t self, visit: &mut dyn FnMut(&'t HostTable) -> bool) {
        for tables in [&self.plain, &self.with_port] {
            tables.exact.for_each(visit);
            tables.wildcards.for_each(visit);
        }
    }
}

impl Tables {
    fn is_empty(&self) -> bool {
        self.exact.len() == 0 && self.wildcard_tables == 0
    }

    fn update_exact(&mut self, host: &HostPattern, change: impl FnOnce(&mut Table)) {
        let found = self.exact.get(host.as_str().as_bytes()).next().cloned();
        let known = found.is_some();
        let mut entry = found.unwrap_or_else(|| HostTable::new(host));
        // The table is taken out first, because a change would copy it while the trie shares it.
        if known {
            self.exact.remove(&entry);
        }
        change(Arc::make_mut(&mut entry.table));
        if !entry.table.is_empty() {
            self.exact.insert(entry);
        }
    }

    fn update_wildcard(&mut self, host: &HostPattern, suffix: &str, change: impl FnOnce(&mut Table)) {
        let reversed: Vec<u8> = suffix.bytes().rev().collect();
        let mut difference = 0;
        self.wildcards.update(&reversed, |value| {
            let known = usize::from(value.is_some());
            let entry = value.get_or_insert_with(|| HostTable::new(host));
            change(Arc::make_mut(&mut entry.table));
            if entry.table.is_empty() {
                *value = None;
            }
            difference = usize::from(value.is_some()).wrapping_sub(known);
        });
        self.wildcard_tables = self.wildcard_tables.wrapping_add(difference);
    }

    fn visit_exact<'t, R>(
        &'t self,
        host: &[u8],
        visit: &mut impl FnMut(&'t str, &'t Table) -> Option<R>,
    ) -> Option<R> {
        if self.exact.len() == 0 {
            return None;
        }
        self.exact.get(host).next().and_then(|found| visit(&found.pattern, &found.table))
    }

    fn visit_wildcards<'t, R>(
        &'t self,
        host: &[u8],
        visit: &mut impl FnMut(&'t str, &'t Table) -> Option<R>,
    ) -> Option<R> {
        if self.wildcard_tables == 0 {
            return None;
        }
        // Only the end of an overlong host matters, because no suffix is longer than the array.
        let mut reversed = [0; HOST_BYTES_MAX];
        let length = host.len().min(HOST_BYTES_MAX);
        for (to, from) in reversed.iter_mut().zip(host.iter().rev()) {
            *to = *from;
        }
        let nested = self.wildcards.prefixes_of(&reversed[..length]);
        nested.into_iter().rev().find_map(|found| visit(&found.pattern, &found.table))
    }
}

impl HostTable {
    fn new(host: &HostPattern) -> Self {
        Self { pattern: host.as_str().into(), table: Arc::default() }
    }

    pub(super) fn pattern(&self) -> &str {
        &self.pattern
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}

impl Item for HostTable {
    fn key(&self) -> &[u8] {
        self.pattern.as_bytes()
    }

    fn rank(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

//! The sites of a configuration by server name: whole names by hash, wildcards by the name's parent. A change copies only
//! the parts that it touches. It compiles nothing.

use std::sync::Arc;

use stdx::persistent::ShardedMap;

use super::site::Site;

type Sites = Arc<[Arc<Site>]>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct SiteTable {
    /// By whole name.
    exact: ShardedMap<Box<str>, Sites>,
    /// By what follows the asterisk, such as `.example.com`; that of `*` is empty.
    suffixes: ShardedMap<Box<str>, Sites>,
    /// Asterisks that stand for a part of a label, as `*shop.example.com`.
    partial: usize,
    /// Names of sites that ask for client certificates.
    with_client_policy: usize,
}

impl SiteTable {
    /// Adds a site under all of its names.
    pub fn insert(&mut self, site: &Arc<Site>) {
        for name in &site.names {
            self.count(name, site, 1);
            let (map, key) = self.place(name);
            let mut sites = map.get(key).map(|sites| sites.to_vec()).unwrap_or_default();
            let index = sites.partition_point(|other| other.id < site.id);
            sites.insert(index, site.clone());
            map.insert(key.into(), sites.into());
        }
    }

    /// Takes a site out.
    pub fn remove(&mut self, site: &Arc<Site>) {
        for name in &site.names {
            let (map, key) = self.place(name);
            let Some(sites) = map.get(key) else { continue };
            let mut sites = sites.to_vec();
            let before = sites.len();
            sites.retain(|other| other.id != site.id);
            let is_removed = sites.len() < before;
            if sites.is_empty() {
                map.remove(key);
            } else {
                map.insert(key.into(), sites.into());
            }
            if is_removed {
                self.count(name, site, -1);
            }
        }
    }

    fn place<'n>(&mut self, name: &'n str) -> (&mut ShardedMap<Box<str>, Sites>, &'n str) {
        match name.strip_prefix('*') {
            Some(suffix) => (&mut self.suffixes, suffix),
            None => (&mut self.exact, name),
        }
    }

    fn count(&mut self, name: &str, site: &Site, by: isize) {
        let is_partial =
            name.strip_prefix('*').is_some_and(|rest| !rest.is_empty() && !rest.starts_with('.'));
        self.partial = self.partial.saturating_add_signed(by * isize::from(is_partial));
        let has_policy = site.client.is_some();
        self.with_client_policy = self.with_client_policy.saturating_add_signed(by * isize::from(has_policy));
    }

    /// The site for a client that asks for `name`, which is in lower case: the whole name's, the longest wildcard's, else
    /// that of `fallback`.
    pub fn find(&self, name: Option<&str>, fallback: Option<&str>) -> Option<&Arc<Site>> {
        name.and_then(|name| self.by_name(name)).or_else(|| self.by_name(fallback?))
    }

    /// The site of a name, which is in lower case.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Site>> {
        if let Some(sites) = self.exact.get(name) {
            return sites.first();
        }
        if self.suffixes.is_empty() {
            return None;
        }
        let label = name.find('.').unwrap_or(name.len());
        // An asterisk stands for one character at least, and never for a dot.
        let from = if self.partial > 0 { 1 } else { label };
        let starts = (from..=label).filter(|start| name.is_char_boundary(*start) && *start > 0);
        let mut found = starts.filter_map(|start| self.suffixes.get(&name[start..]));
        let found = found.next().or_else(|| self.suffixes.get(""));
        found.and_then(|sites| sites.first())
    }

    /// Whether any site asks for client certificates.
    #[inline]
    pub fn has_client_policies(&self) -> bool {
        self.with_client_policy > 0
    }

    /// All sites, once for each of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.exact.values().chain(self.suffixes.values()).flat_map(|sites| sites.iter())
    }
}

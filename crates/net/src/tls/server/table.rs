//! The sites of a configuration by server name: whole names by hash, wildcards by the name's parent. A change
//! copies only the parts that it touches. It compiles nothing.

use std::sync::Arc;

use stdx::persistent::ShardedMap;

use super::site::{Site, SiteState};

type Sites = Arc<[Arc<Site>]>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct SiteTable {
    /// By whole name.
    exact: ShardedMap<Box<str>, Sites>,
    /// By what follows the asterisk, such as `.example.com`; that of `*` is empty.
    suffixes: ShardedMap<Box<str>, Sites>,
    /// All of them by id.
    by_id: ShardedMap<Arc<str>, Arc<Site>>,
    /// Asterisks that stand for a part of a label, as `*shop.example.com`.
    partial: usize,
    /// Names of sites that restrict the connections over which requests for them may come.
    restricting: usize,
}

impl SiteTable {
    /// Adds a site under all of its names.
    pub fn insert(&mut self, site: &Arc<Site>) {
        self.by_id.insert(site.id.clone(), site.clone());
        for name in &site.names {
            self.count(name, site, 1);
            let (map, key) = self.place(name);
            let mut sites = map.get(key).map(|sites| sites.to_vec()).unwrap_or_default();
            let index = sites.partition_point(|other| precedence(other) < precedence(site));
            sites.insert(index, site.clone());
            map.insert(key.into(), sites.into());
        }
    }

    /// Takes a site out.
    pub fn remove(&mut self, site: &Arc<Site>) {
        self.by_id.remove(&site.id);
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
        self.restricting =
            self.restricting.saturating_add_signed(by * isize::from(site.restricts_requests()));
    }

    /// The site for a handshake of a client that asks for `name`, which is in lower case: the whole name's,
    /// the longest wildcard's, else that of `fallback`. Sites that are withheld are passed over.
    pub fn find(&self, name: Option<&str>, fallback: Option<&str>) -> Option<&Arc<Site>> {
        let is_shown = |site: &Site| site.state != SiteState::Withheld;
        name.and_then(|name| self.search(name, is_shown)).or_else(|| self.search(fallback?, is_shown))
    }

    /// The site with the rules for requests to the hosts of `pattern`, which is in lower case: a host name,
    /// or `*` and the end of host names. The most precise one decides, whatever its state. An asterisk
    /// reaches as far as that of a route: over any number of labels, whereas certificates, which clients
    /// verify by RFC 9525, cover one.
    pub fn ruling(&self, pattern: &str) -> Option<&Arc<Site>> {
        let end = pattern.strip_prefix('*');
        if end.is_none()
            && let Some(sites) = self.exact.get(pattern)
        {
            return strictest(sites);
        }
        if self.suffixes.is_empty() {
            return None;
        }
        let text = end.unwrap_or(pattern);
        // Without an asterisk for a part of a label, every suffix begins with a dot or is empty.
        let is_start =
            |at: &usize| *at == text.len() || self.partial > 0 || text.as_bytes().get(*at) == Some(&b'.');
        let starts = (0..=text.len()).filter(is_start).filter(|at| text.is_char_boundary(*at));
        starts.filter_map(|at| self.suffixes.get(&text[at..])).find_map(strictest)
    }

    fn search(&self, name: &str, is_wanted: impl Fn(&Site) -> bool) -> Option<&Arc<Site>> {
        // Withheld sites are last, so that the first one decides.
        let is_found = |sites: &&Sites| sites.first().is_some_and(|site| is_wanted(site));
        if let Some(sites) = self.exact.get(name).filter(is_found) {
            return sites.first();
        }
        if self.suffixes.is_empty() {
            return None;
        }
        let label = name.find('.').unwrap_or(name.len());
        // An asterisk stands for one character at least, and never for a dot.
        let from = if self.partial > 0 { 1 } else { label };
        let starts = (from..=label).filter(|start| name.is_char_boundary(*start) && *start > 0);
        let suffixes = starts.map(|start| &name[start..]).chain([""]);
        let mut found = suffixes.filter_map(|suffix| self.suffixes.get(suffix));
        found.find(is_found).and_then(|sites| sites.first())
    }

    /// Whether requests for the names of any site depend on the connection that they come over.
    #[inline]
    pub fn restricts_requests(&self) -> bool {
        self.restricting > 0
    }

    /// The site that closes its names to connections without its client's certificate, where the most precise
    /// one for `host`, which is in lower case, or else for `pattern`, the host pattern of the route, does. A
    /// site without rules that is more precise than the pattern opens no route of the pattern.
    pub fn restricting(&self, host: &str, pattern: Option<&str>) -> Option<&Arc<Site>> {
        let ruling = |name: &str| self.ruling(name).filter(|site| site.restricts_requests());
        if !self.restricts_requests() {
            return None;
        }
        ruling(host).or_else(|| ruling(pattern.filter(|pattern| *pattern != "*")?))
    }

    /// The site of the object with this id.
    pub fn get(&self, id: &str) -> Option<&Arc<Site>> {
        self.by_id.get(id)
    }

    /// All sites, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Site>> {
        self.by_id.values()
    }
}

/// The order of sites that share a name: the first one serves it. One with rules for clients goes first, so
/// that a second object for the name cannot take them away.
fn precedence(site: &Site) -> (SiteState, bool, &str) {
    (site.state, site.client.is_none(), &site.id)
}

/// Of sites that share a name, the one with rules for clients.
fn strictest(sites: &Sites) -> Option<&Arc<Site>> {
    sites.iter().find(|site| site.client.is_some()).or(sites.first())
}

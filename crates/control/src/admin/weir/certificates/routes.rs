//! The number of routes with a host that a certificate covers.

use std::collections::{HashMap, HashSet};

use model::resource::Resource;

use crate::route_target;
use crate::summary::Summary;
use crate::view::View;

/// The routes of each host, and of each parent domain.
pub(super) struct RouteHosts {
    /// Lower-case host to the places of routes. A host with a wildcard is as it is written.
    hosts: HashMap<String, Vec<usize>>,
    /// Domain to the places of routes with a host one label below it.
    parents: HashMap<String, Vec<usize>>,
}

impl RouteHosts {
    /// Of routes without hosts of their own, those of their service count.
    pub(super) fn new(routes: &[Summary], view: &View) -> RouteHosts {
        let mut known = RouteHosts { hosts: HashMap::new(), parents: HashMap::new() };
        for (place, route) in routes.iter().enumerate() {
            if !route.facts.hosts.is_empty() {
                route.facts.hosts.iter().for_each(|host| known.add(host, place));
                continue;
            }
            let object = view.snapshot.get(&route.key);
            let service = object.and_then(|object| view.snapshot.get(&route_target::service_of(object)?));
            if let Some(Resource::Service(service)) = service.map(|service| &service.resource) {
                service.hosts.iter().for_each(|host| known.add(host, place));
            }
        }
        known
    }

    fn add(&mut self, host: &str, place: usize) {
        let host = host.to_ascii_lowercase();
        if let Some((_, parent)) = host.split_once('.') {
            self.parents.entry(parent.to_owned()).or_default().push(place);
        }
        self.hosts.entry(host).or_default().push(place);
    }

    /// The number of routes with a host among `names`; `*.example.com` covers one label.
    pub(super) fn count(&self, names: &[String]) -> usize {
        let mut routes: HashSet<usize> = HashSet::new();
        for name in names {
            let name = name.to_ascii_lowercase();
            let found = match name.strip_prefix("*.") {
                Some(parent) => self.parents.get(parent),
                None => self.hosts.get(&name),
            };
            routes.extend(found.into_iter().flatten());
        }
        routes.len()
    }
}

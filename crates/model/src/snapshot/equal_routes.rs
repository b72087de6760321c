//! Routes that match the same requests with the same priority: one of them never serves. Compares what is
//! written; routes that overlap in part are not its concern.

use std::collections::HashMap;

use super::Snapshot;
use crate::resource::{Resource, Route};
use crate::{ObjectKey, ObjectKind};

impl Snapshot {
    /// Pairs of routes that match the same requests: the later by id, and the first one. At most `most`
    /// pairs.
    #[must_use]
    pub fn equal_routes(&self, most: usize) -> Vec<(&ObjectKey, &ObjectKey)> {
        let mut keys: Vec<(&ObjectKey, &Route)> = self
            .iter(ObjectKind::Route)
            .filter_map(|object| match &object.resource {
                Resource::Route(route) if !route.rare().is_disabled => Some((object.key(), route)),
                _ => None,
            })
            .collect();
        keys.sort_by_key(|(key, _)| *key);
        let mut first: HashMap<String, &ObjectKey> = HashMap::with_capacity(keys.len());
        let mut pairs = Vec::new();
        for (key, route) in keys {
            let earlier = first.entry(self.conditions(route)).or_insert(key);
            if *earlier != key && pairs.len() < most {
                pairs.push((key, *earlier));
            }
        }
        pairs
    }

    /// The conditions of a route, as a text that is equal for equal conditions.
    fn conditions(&self, route: &Route) -> String {
        let rare = route.rare();
        let sorted = |texts: Vec<String>| {
            let mut texts = texts;
            texts.sort_unstable();
            texts.dedup();
            texts
        };
        let mut hosts = &*rare.hosts;
        let service =
            route.service_id.as_ref().and_then(|id| self.get(&ObjectKey::of(ObjectKind::Service, id)));
        if let Some(Resource::Service(service)) = service.map(|object| &object.resource)
            && hosts.is_empty()
        {
            hosts = &service.hosts;
        }
        let uris = sorted(route.uris.iter().map(ToString::to_string).collect());
        let hosts = sorted(hosts.iter().map(|host| host.to_ascii_lowercase()).collect());
        let methods = sorted(rare.methods.iter().map(|method| method.as_str().to_owned()).collect());
        let addresses = sorted(rare.remote_addrs.iter().map(ToString::to_string).collect());
        let vars = rare.vars.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{uris:?} {hosts:?} {methods:?} {addresses:?} {vars:?} {}", rare.priority)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::catalog::PluginCatalog;
    use crate::{FaultPolicy, SnapshotChange, WrittenObject};

    #[test]
    fn equal_routes_are_found_whatever_the_order() {
        let check = |routes: &[(&str, Value)], expected: &[(&str, &str)]| {
            let change = |(path, value): &(&str, Value)| {
                let (kind, id) = path.split_once('/').unwrap();
                let key = ObjectKey::new(ObjectKind::from_collection(kind).unwrap(), id).unwrap();
                let text = value.to_string().into();
                let written = WrittenObject { key: key.clone(), text, created_index: 1, modified_index: 1 };
                SnapshotChange { key, written: Some(written) }
            };
            let changes: Vec<SnapshotChange> = routes.iter().map(change).collect();
            let applied =
                Snapshot::empty().apply(&PluginCatalog::default(), &changes, 1, FaultPolicy::Lenient);
            assert_eq!(applied.faults, []);
            let pairs = applied.snapshot.equal_routes(10);
            let pairs: Vec<_> = pairs.iter().map(|(later, first)| (&*later.id, &*first.id)).collect();
            assert_eq!(pairs, expected);
        };
        let route = |more: Value| {
            let mut route = json!({"uris": ["/a", "/b"], "plugins": {}});
            route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            route
        };
        let plain = || route(json!({}));
        check(&[("routes/1", plain()), ("routes/2", plain())], &[("2", "1")]);
        let swapped = json!({"uris": ["/b", "/a"], "plugins": {}});
        check(&[("routes/1", plain()), ("routes/2", swapped)], &[("2", "1")]);
        for more in [
            json!({"priority": 1}),
            json!({"methods": ["GET"]}),
            json!({"host": "h"}),
            json!({"remote_addr": "::1"}),
            json!({"vars": [["arg_a", "==", "1"]]}),
            json!({"status": 0}),
        ] {
            check(&[("routes/1", plain()), ("routes/2", route(more))], &[]);
        }
        let hosted = json!({"hosts": ["H"]});
        let served = route(json!({"service_id": "s"}));
        let of_route = route(json!({"host": "h"}));
        check(&[("services/s", hosted), ("routes/1", served), ("routes/2", of_route)], &[("2", "1")]);
    }
}

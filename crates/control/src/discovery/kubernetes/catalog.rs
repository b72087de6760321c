//! The slices of one cluster, by service and name, asked for the instances of one port. It does not ask Kubernetes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::discovery::Instance;

use super::object::{Page, Port, Slice, State};
use crate::discovery::parts::shortened;

/// All slices, by service and by the slice's name.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    services: HashMap<Box<str>, BTreeMap<Box<str>, Arc<Slice>>>,
}

/// `NAMESPACE/NAME:PORT` of a service name, with the cluster's id in front of it where there are several clusters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted<'a> {
    pub(super) cluster: Option<&'a str>,
    /// `NAMESPACE/NAME`.
    pub(super) service: &'a str,
    /// The name or the number of the port.
    pub(super) port: &'a str,
}

impl<'a> Wanted<'a> {
    /// Reads a service name.
    ///
    /// # Errors
    /// The name has another form; the message says which one is expected.
    pub(super) fn of(name: &'a str, has_clusters: bool) -> Result<Wanted<'a>, String> {
        let form = if has_clusters { "ID/NAMESPACE/NAME:PORT" } else { "NAMESPACE/NAME:PORT" };
        let fault = || format!("the service name `{}` has not the form {form}", shortened(name));
        let (service, port) = name.rsplit_once(':').ok_or_else(fault)?;
        let (cluster, service) = match has_clusters {
            true => service.split_once('/').map(|(id, rest)| (Some(id), rest)).ok_or_else(fault)?,
            false => (None, service),
        };
        let is_pair = service.split('/').filter(|part| !part.is_empty()).count() == 2;
        match is_pair && service.matches('/').count() == 1 && !port.is_empty() {
            true => Ok(Wanted { cluster, service, port }),
            false => Err(fault()),
        }
    }
}

impl Catalog {
    /// Adds the slices of a page of a list.
    pub(super) fn take(&mut self, page: Page) {
        for slice in page.slices {
            self.put(slice);
        }
    }

    /// Adds or replaces a slice.
    pub(super) fn put(&mut self, slice: Arc<Slice>) {
        let slices = self.services.entry(slice.service.clone()).or_default();
        slices.insert(slice.name.clone(), slice);
    }

    /// Removes a slice.
    pub(super) fn delete(&mut self, slice: &Slice) {
        if let Some(slices) = self.services.get_mut(&slice.service) {
            slices.remove(&slice.name);
            if slices.is_empty() {
                self.services.remove(&slice.service);
            }
        }
    }

    /// Whether there is such a service.
    pub(super) fn has(&self, service: &str) -> bool {
        self.services.contains_key(service)
    }

    /// The instances of a service's port: addresses that are ready; if there is none, those that are being stopped and
    /// still answer. With the reason why addresses were left out.
    pub(super) fn instances(
        &self,
        service: &str,
        port: &str,
        weight: u32,
    ) -> (Vec<Instance>, Option<String>) {
        let slices = self.services.get(service).into_iter().flat_map(BTreeMap::values);
        let (mut ready, mut draining) = (BTreeMap::new(), BTreeMap::new());
        let mut reason = None;
        let mut other_ports = BTreeSet::new();
        for slice in slices {
            if let Some(left_out) = &slice.reason {
                reason.get_or_insert_with(|| format!("an address is left out: {left_out}"));
            }
            for subset in &slice.subsets {
                let Some(found) = subset.ports.iter().find(|found| found.is_named(port)) else {
                    other_ports.extend(subset.ports.iter().map(Port::label));
                    continue;
                };
                for address in &subset.addresses {
                    let instances = match address.state {
                        State::Ready => &mut ready,
                        State::Draining => &mut draining,
                        State::Closed => continue,
                    };
                    let instance = Instance {
                        host: address.host.clone(),
                        port: found.number,
                        weight,
                        metadata: address.metadata.clone(),
                        ..Instance::default()
                    };
                    // Two slices have the same address for a moment while Kubernetes moves it.
                    instances.insert((address.host.clone(), found.number), instance);
                }
            }
        }
        let chosen = if ready.is_empty() { draining } else { ready };
        if chosen.is_empty() && !other_ports.is_empty() {
            let known: Vec<String> = other_ports.into_iter().take(MAX_PORTS_SHOWN).collect();
            reason.get_or_insert_with(|| {
                format!("{service} has no port `{}`; its ports: {}", shortened(port), known.join(", "))
            });
        }
        (chosen.into_values().collect(), reason)
    }
}

impl Port {
    /// A port is named by its name; by its number if it is TCP.
    fn is_named(&self, port: &str) -> bool {
        (!self.name.is_empty() && &*self.name == port) || (self.is_tcp && port.parse() == Ok(self.number))
    }

    fn label(&self) -> String {
        if self.name.is_empty() { self.number.to_string() } else { shortened(&self.name) }
    }
}

/// Ports of a service in a message.
const MAX_PORTS_SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::object::{Kind, page};
    use super::*;
    use crate::discovery::parts::shown;

    fn object(name: &str, endpoints: &Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": endpoints,
            "ports": [{"name": "http", "port": 80}, {"port": 90}, {"name": "dns", "port": 53, "protocol": "UDP"}]})
    }

    fn catalog(objects: &[Value]) -> Catalog {
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": objects});
        let mut catalog = Catalog::default();
        catalog.take(page(list.to_string().as_bytes(), Kind::EndpointSlices).unwrap());
        catalog
    }

    #[test]
    fn slices_of_a_service_are_merged() {
        let one = object("web-1", &json!([{"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.1"]}]));
        let two = object("web-2", &json!([{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.3"]}]));
        let mut catalog = catalog(&[one.clone(), two]);
        let found = |catalog: &Catalog, port| shown(&catalog.instances("shop/web", port, 50).0);
        assert_eq!(found(&catalog, "http"), ["10.0.0.1:80 50", "10.0.0.2:80 50", "10.0.0.3:80 50"]);
        assert_eq!(found(&catalog, "90"), ["10.0.0.1:90 50", "10.0.0.2:90 50", "10.0.0.3:90 50"]);
        assert_eq!(found(&catalog, "dns").len(), 3);
        assert!(found(&catalog, "53").is_empty());
        let gone = super::super::object::event(
            json!({"type": "DELETED", "object": one}).to_string().as_bytes(),
            Kind::EndpointSlices,
        );
        let Ok(super::super::object::Event::Delete(slice, _)) = gone else { panic!("a deletion") };
        catalog.delete(&slice);
        assert_eq!(found(&catalog, "http"), ["10.0.0.1:80 50", "10.0.0.3:80 50"]);
    }

    #[test]
    fn stopping_addresses_serve_where_none_is_ready() {
        let stopping = json!({"addresses": ["10.0.0.9"],
            "conditions": {"ready": false, "serving": true, "terminating": true}});
        let alone = catalog(&[object("web-1", &json!([stopping]))]);
        assert_eq!(shown(&alone.instances("shop/web", "http", 1).0), ["10.0.0.9:80 1"]);
        let beside = catalog(&[object("web-1", &json!([stopping, {"addresses": ["10.0.0.1"]}]))]);
        assert_eq!(shown(&beside.instances("shop/web", "http", 1).0), ["10.0.0.1:80 1"]);
    }

    #[test]
    fn unknown_port_is_named_with_the_known_ones() {
        let catalog = catalog(&[object("web-1", &json!([{"addresses": ["10.0.0.1"]}]))]);
        let (none, reason) = catalog.instances("shop/web", "grpc", 1);
        assert!(none.is_empty());
        assert_eq!(reason.unwrap(), "shop/web has no port `grpc`; its ports: 90, dns, http");
        assert_eq!(catalog.instances("shop/other", "http", 1), (Vec::new(), None));
    }

    #[test]
    fn service_names_have_one_form() {
        let wanted = Wanted::of("a/b:http", false).unwrap();
        assert_eq!(wanted, Wanted { cluster: None, service: "a/b", port: "http" });
        let wanted = Wanted::of("id/a/b:80", true).unwrap();
        assert_eq!(wanted, Wanted { cluster: Some("id"), service: "a/b", port: "80" });
        for name in ["", "b:http", "a/b", "a/b:", "/b:http", "a/b/c:http", "a//b:http"] {
            assert!(Wanted::of(name, false).is_err(), "{name}");
        }
        let error = Wanted::of("a/b:http", true).unwrap_err();
        assert_eq!(error, "the service name `a/b:http` has not the form ID/NAMESPACE/NAME:PORT");
    }
}

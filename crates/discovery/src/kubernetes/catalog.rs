//! The slices of one cluster, by service and name, asked for the instances of one port. It does not ask
//! Kubernetes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use model::discovery::ServiceInstance;
use stdx::address_family::{AddressChoice, AddressFamily};

use super::object::{AddressState, ObjectName, Port, Slice, SlicePage, Subset};
use crate::parts::shortened;

/// All slices, by service and by the slice's name.
#[derive(Debug, Default)]
pub(super) struct KubernetesCatalog {
    services: HashMap<Box<str>, BTreeMap<Box<str>, Arc<Slice>>>,
    /// The service of each slice: a slice with another label than before leaves its old service.
    owners: HashMap<ObjectName, Box<str>>,
}

/// `NAMESPACE/NAME:PORT` of a service name, with the cluster's id in front of it where there are several
/// clusters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KubernetesServicePort<'a> {
    pub(super) cluster: Option<&'a str>,
    /// `NAMESPACE/NAME`.
    pub(super) service: &'a str,
    /// The name or the number of the port.
    pub(super) port: &'a str,
}

impl<'a> KubernetesServicePort<'a> {
    /// Reads a service name.
    ///
    /// # Errors
    /// The name has another form; the message says which one is expected.
    pub(super) fn of(name: &'a str, has_clusters: bool) -> Result<KubernetesServicePort<'a>, String> {
        let form = if has_clusters { "ID/NAMESPACE/NAME:PORT" } else { "NAMESPACE/NAME:PORT" };
        let fault = || format!("the service name `{}` has not the form {form}", shortened(name));
        let (service, port) = name.rsplit_once(':').ok_or_else(fault)?;
        let (cluster, service) = match has_clusters {
            true => service.split_once('/').map(|(id, rest)| (Some(id), rest)).ok_or_else(fault)?,
            false => (None, service),
        };
        let is_pair = service.split('/').filter(|part| !part.is_empty()).count() == 2;
        match is_pair && service.matches('/').count() == 1 && !port.is_empty() {
            true => Ok(KubernetesServicePort { cluster, service, port }),
            false => Err(fault()),
        }
    }
}

impl KubernetesCatalog {
    /// Adds the slices of a page of a list.
    pub(super) fn take(&mut self, page: SlicePage) {
        for slice in page.slices {
            self.put(slice);
        }
    }

    /// Adds or replaces a slice. Gives the other service that it belonged to before, if there is one.
    pub(super) fn put(&mut self, slice: Arc<Slice>) -> Option<Box<str>> {
        let name = slice.object_name();
        let before = match self.owners.get(&name) {
            Some(owner) if *owner != slice.service => self.delete(&name),
            _ => None,
        };
        self.owners.insert(name, slice.service.clone());
        let slices = self.services.entry(slice.service.clone()).or_default();
        slices.insert(slice.name.clone(), slice);
        before
    }

    /// Removes a slice. Gives the service that it belonged to.
    pub(super) fn delete(&mut self, name: &ObjectName) -> Option<Box<str>> {
        let service = self.owners.remove(name)?;
        if let Some(slices) = self.services.get_mut(&service) {
            slices.remove(&name.name);
            if slices.is_empty() {
                self.services.remove(&service);
            }
        }
        Some(service)
    }

    /// The number of slices.
    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether there is such a service.
    pub(super) fn has(&self, service: &str) -> bool {
        self.services.contains_key(service)
    }

    /// The instances of a service's port: addresses that are ready; if there is none, those that are being
    /// stopped and still answer. With the reason why addresses were left out.
    ///
    /// # Errors
    /// There is no instance, and addresses or ports cannot be read: such an answer must not empty the
    /// service.
    pub(super) fn instances(
        &self,
        service: &str,
        port: &str,
        weight: u32,
    ) -> Result<(Vec<ServiceInstance>, Option<String>), String> {
        let mut found = FoundAddresses::default();
        let mut unreadable = None;
        for slice in self.services.get(service).into_iter().flat_map(BTreeMap::values) {
            if let Some(reason) = &slice.reason {
                unreadable.get_or_insert_with(|| format!("an address or a port is left out: {reason}"));
            }
            slice.subsets.iter().for_each(|subset| found.take(subset, port, weight));
        }
        let chosen = if found.ready.is_empty() { found.draining } else { found.ready };
        match unreadable {
            Some(reason) if chosen.is_empty() => Err(format!("no instance is usable: {reason}")),
            None if chosen.is_empty() && !found.other_ports.is_empty() => {
                let known: Vec<String> = found.other_ports.into_iter().take(MAX_PORTS_SHOWN).collect();
                let reason =
                    format!("{service} has no port `{}`; its ports: {}", shortened(port), known.join(", "));
                Ok((Vec::new(), Some(reason)))
            }
            reason => Ok((chosen.into_values().collect(), reason)),
        }
    }
}

/// The instances of one family of addresses where a dual-stack service has both: each pod is then listed once
/// for each.
pub(super) fn of_one_family(
    mut instances: Vec<ServiceInstance>,
    choice: &AddressChoice,
) -> Vec<ServiceInstance> {
    let address = |instance: &ServiceInstance| instance.host.parse::<IpAddr>().ok();
    if let Some(family) = choice.family_among(instances.iter().filter_map(address)) {
        instances
            .retain(|instance| address(instance).is_none_or(|address| AddressFamily::of(address) == family));
    }
    instances
}

/// Instances by host and port, because two slices have the same address for a moment while Kubernetes moves
/// it.
#[derive(Default)]
struct FoundAddresses {
    ready: BTreeMap<(Box<str>, u16), ServiceInstance>,
    draining: BTreeMap<(Box<str>, u16), ServiceInstance>,
    /// The ports of subsets that do not have the wanted one.
    other_ports: BTreeSet<String>,
}

impl FoundAddresses {
    fn take(&mut self, subset: &Subset, port: &str, weight: u32) {
        let Some(found) = subset.ports.iter().find(|found| found.is_named(port)) else {
            self.other_ports.extend(subset.ports.iter().map(Port::label));
            return;
        };
        for address in &subset.addresses {
            let instances = match address.state {
                AddressState::Ready => &mut self.ready,
                AddressState::Draining => &mut self.draining,
                AddressState::Closed => continue,
            };
            let instance = ServiceInstance {
                host: address.host.clone(),
                port: found.number,
                weight,
                metadata: address.metadata.clone(),
                ..ServiceInstance::default()
            };
            instances.insert((address.host.clone(), found.number), instance);
        }
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

    use super::super::object::{KubernetesKind, parse_slice_page};
    use super::*;
    use crate::parts::show_instances;

    fn object(name: &str, endpoints: &Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": endpoints,
            "ports": [{"name": "http", "port": 80}, {"port": 90}, {"name": "dns", "port": 53, "protocol": "UDP"}]})
    }

    fn catalog(objects: &[Value]) -> KubernetesCatalog {
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": objects});
        let mut catalog = KubernetesCatalog::default();
        catalog.take(parse_slice_page(list.to_string().as_bytes(), KubernetesKind::EndpointSlices).unwrap());
        catalog
    }

    #[test]
    fn slices_of_a_service_are_merged() {
        let one = object("web-1", &json!([{"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.1"]}]));
        let two = object("web-2", &json!([{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.3"]}]));
        let mut catalog = catalog(&[one, two]);
        let found = |catalog: &KubernetesCatalog, port| {
            show_instances(&catalog.instances("shop/web", port, 50).unwrap().0)
        };
        assert_eq!(found(&catalog, "http"), ["10.0.0.1:80 50", "10.0.0.2:80 50", "10.0.0.3:80 50"]);
        assert_eq!(found(&catalog, "90"), ["10.0.0.1:90 50", "10.0.0.2:90 50", "10.0.0.3:90 50"]);
        assert_eq!(found(&catalog, "dns").len(), 3);
        assert!(found(&catalog, "53").is_empty());
        let name = ObjectName { namespace: "shop".into(), name: "web-1".into() };
        assert_eq!(catalog.delete(&name).as_deref(), Some("shop/web"));
        assert_eq!((catalog.delete(&name), catalog.len()), (None, 1));
        assert_eq!(found(&catalog, "http"), ["10.0.0.1:80 50", "10.0.0.3:80 50"]);
    }

    #[test]
    fn dual_stack_service_has_one_node_for_each_pod() {
        let four = object("web-4", &json!([{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]));
        let six = object("web-6", &json!([{"addresses": ["fd00::1"]}, {"addresses": ["fd00::2"]}]));
        let used = |objects: &[Value], choice: &AddressChoice| {
            let (found, _) = catalog(objects).instances("shop/web", "http", 1).unwrap();
            of_one_family(found, choice).iter().map(|one| one.host.to_string()).collect::<Vec<_>>()
        };
        let default = AddressChoice::default();
        let without_v4 = AddressChoice { has_route: |address| address.is_ipv6(), ..AddressChoice::default() };
        let both = [four.clone(), six.clone()];
        assert_eq!(used(&both, &default), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(used(&both, &without_v4), ["fd00::1", "fd00::2"]);
        assert_eq!(used(&[six], &default), ["fd00::1", "fd00::2"]);
        assert_eq!(used(&[four], &without_v4), ["10.0.0.1", "10.0.0.2"], "written addresses are used");
    }

    #[test]
    fn stopping_addresses_serve_where_none_is_ready() {
        let stopping = json!({"addresses": ["10.0.0.9"],
            "conditions": {"ready": false, "serving": true, "terminating": true}});
        let alone = catalog(&[object("web-1", &json!([stopping]))]);
        assert_eq!(show_instances(&alone.instances("shop/web", "http", 1).unwrap().0), ["10.0.0.9:80 1"]);
        let beside = catalog(&[object("web-1", &json!([stopping, {"addresses": ["10.0.0.1"]}]))]);
        assert_eq!(show_instances(&beside.instances("shop/web", "http", 1).unwrap().0), ["10.0.0.1:80 1"]);
    }

    #[test]
    fn unknown_port_is_named_with_the_known_ones() {
        let catalog = catalog(&[object("web-1", &json!([{"addresses": ["10.0.0.1"]}]))]);
        let (none, reason) = catalog.instances("shop/web", "grpc", 1).unwrap();
        assert!(none.is_empty());
        assert_eq!(reason.unwrap(), "shop/web has no port `grpc`; its ports: 90, dns, http");
        assert_eq!(catalog.instances("shop/other", "http", 1), Ok((Vec::new(), None)));
    }

    #[test]
    fn slice_with_another_label_leaves_its_service() {
        let first = object("web-1", &json!([{"addresses": ["10.0.0.1"]}]));
        let mut moved = first.clone();
        moved["metadata"]["labels"]["kubernetes.io/service-name"] = json!("shop");
        let mut catalog = catalog(&[first]);
        let list = json!({"metadata": {"resourceVersion": "2"}, "items": [moved]});
        let page = parse_slice_page(list.to_string().as_bytes(), KubernetesKind::EndpointSlices).unwrap();
        assert_eq!(catalog.put(Arc::clone(&page.slices[0])).as_deref(), Some("shop/web"));
        assert!(!catalog.has("shop/web") && catalog.has("shop/shop"));
        assert_eq!((catalog.put(Arc::clone(&page.slices[0])), catalog.len()), (None, 1));
    }

    #[test]
    fn service_without_readable_parts_is_a_failure() {
        let unreadable = catalog(&[object("web-1", &json!([{"addresses": ["not one"]}]))]);
        let error = unreadable.instances("shop/web", "http", 1).unwrap_err();
        assert!(error.starts_with("no instance is usable"), "{error}");
        let mut object = object("web-1", &json!([{"addresses": ["10.0.0.1"]}]));
        object["ports"] = json!([{"name": "http", "port": "x"}]);
        assert!(catalog(&[object]).instances("shop/web", "http", 1).is_err());
    }

    #[test]
    fn service_names_have_one_form() {
        let wanted = KubernetesServicePort::of("a/b:http", false).unwrap();
        assert_eq!(wanted, KubernetesServicePort { cluster: None, service: "a/b", port: "http" });
        let wanted = KubernetesServicePort::of("id/a/b:80", true).unwrap();
        assert_eq!(wanted, KubernetesServicePort { cluster: Some("id"), service: "a/b", port: "80" });
        for name in ["", "b:http", "a/b", "a/b:", "/b:http", "a/b/c:http", "a//b:http"] {
            assert!(KubernetesServicePort::of(name, false).is_err(), "{name}");
        }
        let error = KubernetesServicePort::of("a/b:http", true).unwrap_err();
        assert_eq!(error, "the service name `a/b:http` has not the form ID/NAMESPACE/NAME:PORT");
    }
}

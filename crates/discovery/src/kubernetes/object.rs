//! Objects of Kubernetes: endpoint slices and endpoints, in lists and in a compact form. It does not ask, and
//! keeps nothing.

use std::sync::Arc;

use serde::Deserialize;

use crate::element::Element;
use crate::parts::{InstanceMetadata, Loose, parse_host, read_answer, shortened};

/// The kind of objects that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KubernetesKind {
    /// `discovery.k8s.io/v1`.
    EndpointSlices,
    /// `v1`; Kubernetes keeps at most 1000 addresses in one, and deprecates the kind since 1.33.
    Endpoints,
}

/// The addresses of an object, in a compact form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// `NAMESPACE/NAME` of the service.
    pub(super) service: Box<str>,
    pub(super) namespace: Box<str>,
    /// The name of the object; several slices have one service.
    pub(super) name: Box<str>,
    pub(super) subsets: Vec<Subset>,
    /// The reason why addresses are left out.
    pub(super) reason: Option<String>,
}

/// Addresses with the ports of each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Subset {
    pub(super) addresses: Vec<SliceAddress>,
    pub(super) ports: Vec<Port>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SliceAddress {
    pub(super) host: Box<str>,
    pub(super) state: AddressState,
    /// Zone, node and pod.
    pub(super) metadata: InstanceMetadata,
}

/// Whether an address gets traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressState {
    Ready,
    /// It is being stopped and still answers: used where no address is ready.
    Draining,
    /// No traffic.
    Closed,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// Empty: the port has no name.
    pub(super) name: Box<str>,
    pub(super) number: u16,
    pub(super) is_tcp: bool,
}

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectName {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct SlicePage {
    pub(super) version: String,
    /// The token of the next page.
    pub(super) next: Option<String>,
    pub(super) slices: Vec<Arc<Slice>>,
    /// All objects of the page, with those that belong to no service.
    pub(super) objects: usize,
    /// Objects that cannot be read, and the reason of the first one.
    pub(super) faulty: usize,
    pub(super) reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KubernetesMeta {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
    labels: Option<Element>,
}

/// An object as Kubernetes writes it.
#[derive(Deserialize)]
pub(super) struct KubernetesObject {
    metadata: KubernetesMeta,
    #[serde(default)]
    endpoints: Loose<SliceEndpoint>,
    #[serde(default)]
    ports: Loose<RawPort>,
    #[serde(default)]
    subsets: Loose<RawSubset>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SliceEndpoint {
    #[serde(default)]
    addresses: Vec<String>,
    conditions: Option<Conditions>,
    zone: Option<String>,
    node_name: Option<String>,
    target_ref: Option<TargetReference>,
}

#[derive(Deserialize, Default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize)]
struct TargetReference {
    name: Option<String>,
}

#[derive(Deserialize)]
struct RawPort {
    name: Option<String>,
    port: Option<u16>,
    protocol: Option<String>,
}

#[derive(Deserialize)]
struct RawSubset {
    #[serde(default)]
    addresses: Loose<SubsetAddress>,
    #[serde(default)]
    ports: Loose<RawPort>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubsetAddress {
    ip: String,
    node_name: Option<String>,
    target_ref: Option<TargetReference>,
}

/// Reads a page of a list.
///
/// # Errors
/// The text is no list of Kubernetes.
pub(super) fn parse_slice_page(text: &[u8], kind: KubernetesKind) -> Result<SlicePage, String> {
    #[derive(Deserialize)]
    struct List {
        metadata: KubernetesMeta,
        items: Loose<KubernetesObject>,
    }
    let list: List =
        read_answer(text).map_err(|error| format!("the answer is no list of Kubernetes: {error}"))?;
    let version = list.metadata.resource_version.filter(|version| !version.is_empty());
    let version = version.ok_or("the list has no resourceVersion")?;
    let mut page = SlicePage {
        version,
        next: list.metadata.next.filter(|token| !token.is_empty()),
        slices: Vec::new(),
        objects: list.items.0.len(),
        faulty: 0,
        reason: None,
    };
    for object in list.items.0 {
        match object.and_then(|object| slice(object, kind)) {
            Ok(Some(slice)) => page.slices.push(Arc::new(slice)),
            Ok(None) => {}
            Err(reason) => {
                page.faulty += 1;
                page.reason.get_or_insert(reason);
            }
        }
    }
    Ok(page)
}

/// The compact form of an object; none for a slice that belongs to no service.
pub(super) fn slice(object: KubernetesObject, kind: KubernetesKind) -> Result<Option<Slice>, String> {
    let name = object.metadata.name.ok_or("an object has no name")?;
    let namespace =
        object.metadata.namespace.ok_or_else(|| format!("`{}` has no namespace", shortened(&name)))?;
    let labels = object.metadata.labels.map(|Element(labels)| labels);
    let service = match kind {
        KubernetesKind::Endpoints => Some(name.as_str()),
        KubernetesKind::EndpointSlices => {
            labels.as_ref().and_then(|labels| labels.get(SERVICE_LABEL)?.as_str())
        }
    };
    let Some(service) = service.filter(|service| !service.is_empty()) else { return Ok(None) };
    let mut slice = Slice {
        service: format!("{namespace}/{service}").into(),
        namespace: namespace.as_str().into(),
        name: name.as_str().into(),
        subsets: Vec::new(),
        reason: None,
    };
    match kind {
        KubernetesKind::EndpointSlices => {
            let mut addresses = Vec::new();
            for endpoint in object.endpoints.0 {
                slice.take_endpoint(endpoint, &mut addresses);
            }
            let ports = slice.ports(object.ports);
            slice.subsets.push(Subset { addresses, ports });
        }
        KubernetesKind::Endpoints => {
            for subset in object.subsets.0 {
                match subset {
                    Ok(subset) => slice.take_subset(subset),
                    Err(reason) => slice.note(reason),
                }
            }
        }
    }
    Ok(Some(slice))
}

impl Slice {
    /// The name of the object.
    pub(super) fn object_name(&self) -> ObjectName {
        ObjectName { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    fn note(&mut self, reason: String) {
        self.reason.get_or_insert(reason);
    }

    fn take_endpoint(&mut self, endpoint: Result<SliceEndpoint, String>, addresses: &mut Vec<SliceAddress>) {
        let endpoint = match endpoint {
            Ok(endpoint) => endpoint,
            Err(reason) => return self.note(reason),
        };
        let state = endpoint.conditions.unwrap_or_default().state();
        let pod = endpoint.target_ref.and_then(|target| target.name);
        let metadata = facts([("zone", endpoint.zone), ("node", endpoint.node_name), ("pod", pod)]);
        for address in endpoint.addresses {
            match parse_host(&address) {
                Ok(host) => addresses.push(SliceAddress { host, state, metadata: metadata.clone() }),
                Err(reason) => self.note(reason),
            }
        }
    }

    fn take_subset(&mut self, subset: RawSubset) {
        let mut addresses = Vec::new();
        for address in subset.addresses.0 {
            let read = address.and_then(|address| {
                let pod = address.target_ref.and_then(|target| target.name);
                let metadata = facts([("node", address.node_name), ("pod", pod)]);
                Ok(SliceAddress { host: parse_host(&address.ip)?, state: AddressState::Ready, metadata })
            });
            match read {
                Ok(address) => addresses.push(address),
                Err(reason) => self.note(reason),
            }
        }
        let ports = self.ports(subset.ports);
        self.subsets.push(Subset { addresses, ports });
    }

    fn ports(&mut self, raw: Loose<RawPort>) -> Vec<Port> {
        let mut ports = Vec::new();
        for port in raw.0 {
            let read = port.and_then(|port| {
                let number = port.port.filter(|number| *number != 0).ok_or("a port has no number")?;
                let is_tcp = port.protocol.is_none_or(|protocol| protocol == "TCP");
                Ok(Port { name: port.name.unwrap_or_default().into(), number, is_tcp })
            });
            match read {
                Ok(port) => ports.push(port),
                Err(reason) => self.note(reason),
            }
        }
        ports
    }
}

impl Conditions {
    /// A condition that is missing means ready, as Kubernetes defines it.
    fn state(&self) -> AddressState {
        let is_terminating = self.terminating.unwrap_or(false);
        match self.ready.unwrap_or(true) {
            true => AddressState::Ready,
            false if is_terminating && self.serving.unwrap_or(false) => AddressState::Draining,
            false => AddressState::Closed,
        }
    }
}

fn facts<const N: usize>(facts: [(&str, Option<String>); N]) -> InstanceMetadata {
    facts.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into()))).collect()
}

/// The label of a slice that names its service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

#[cfg(test)]
mod tests;

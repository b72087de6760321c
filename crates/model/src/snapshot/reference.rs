//! The references of an object, the words for a reference that leads nowhere, and the objects that would miss
//! an object.

use serde::Deserialize;
use serde_json::Value;

use super::Snapshot;
use crate::contract::CONTRACT_ID_FIELD;
use crate::fault::{CheckStage, Findings};
use crate::resource::{Resource, SslType, UpstreamConfig};
use crate::{ConfigFault, Id, ObjectKey, ObjectKind};

/// A reference from one object to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The JSON pointer to the id in the referring object; empty when its key says it.
    pub pointer: &'static str,
    /// The objects it refers to.
    pub target: ObjectKey,
}

impl Reference {
    /// The contract's words when the target is not there.
    #[must_use]
    pub fn missing(&self) -> String {
        if self.target.kind == ObjectKind::StreamRoute {
            return format!("failed to fetch stream routes[{}], response code: 404", self.target.id);
        }
        let kind = self.target.kind.in_words();
        format!("failed to fetch {kind} info by {kind} id [{}], response code: 404", self.target.id)
    }

    /// The target and its state, in words.
    fn words(&self, state: &str) -> String {
        format!("{} {:?} {state}", self.target.kind.in_words(), &*self.target.id)
    }
}

/// Adds a fault for a reference to an object that is not in force.
pub(super) fn add_missing(reference: &Reference, findings: &mut Findings) {
    let reason = reference.words(DOES_NOT_EXIST);
    findings.add_worded(CheckStage::Reference, reference.pointer, reason, reference.missing());
}

/// Adds a fault where a subordinate stream route has another protocol than its superior, which is in force. A
/// superior without a protocol fits any.
pub(super) fn add_mismatch(
    snapshot: &Snapshot,
    key: &ObjectKey,
    resource: &Resource,
    findings: &mut Findings,
) {
    add_wrong_certificate(snapshot, key, resource, findings);
    let Resource::StreamRoute(route) = resource else { return };
    let Some(own) = &route.protocol else { return };
    let Some(superior) =
        own.superior_id.as_ref().and_then(|id| snapshot.get(&ObjectKey::of(ObjectKind::StreamRoute, id)))
    else {
        return;
    };
    let Resource::StreamRoute(superior) = &superior.resource else { return };
    if let Some(other) = superior.protocol.as_ref().filter(|other| other.name != own.name) {
        let reason = format!(
            "protocol mismatch: subordinate protocol [{}] does not match superior protocol [{}]",
            own.name, other.name
        );
        findings.add(CheckStage::Reference, "/protocol/superior_id", reason);
    }
}

/// Adds a fault where the certificate that nodes would be shown is one for clients of the gateway.
fn add_wrong_certificate(snapshot: &Snapshot, key: &ObjectKey, resource: &Resource, findings: &mut Findings) {
    for reference in list_object_references(key, resource)
        .iter()
        .filter(|reference| reference.target.kind == ObjectKind::Ssl)
    {
        let target = snapshot.get(&reference.target).map(|object| &object.resource);
        if let Some(Resource::Ssl(ssl)) = target
            && ssl.ssl_type != SslType::Client
        {
            let reason = reference.words("is not of type client");
            let contract =
                format!("failed to fetch ssl info by ssl id [{}], wrong ssl type", reference.target.id);
            findings.add_worded(CheckStage::Reference, reference.pointer, reason, contract);
        }
    }
}

/// Says of faults that a target is there and faulty, where it is by now: which of the two arrives first must
/// not matter.
pub(super) fn tell_faulty_targets(
    snapshot: &Snapshot,
    key: &ObjectKey,
    resource: &Resource,
    faults: &mut [ConfigFault],
) {
    for reference in list_object_references(key, resource) {
        if snapshot.faulty_at(&reference.target).is_none() {
            continue;
        }
        let before = reference.words(DOES_NOT_EXIST);
        for fault in faults.iter_mut().filter(|fault| fault.reason == before) {
            fault.reason = reference.words("is not in force, because it is faulty");
        }
    }
}

const DOES_NOT_EXIST: &str = "does not exist";

/// The references of an object, in the order in which the contract checks them.
pub(super) fn list_object_references(key: &ObjectKey, resource: &Resource) -> Vec<Reference> {
    let mut references = Vec::new();
    let mut add = |pointer: &'static str, kind: ObjectKind, id: Option<&Id>| {
        references.extend(id.map(|id| Reference { pointer, target: ObjectKey::of(kind, id) }));
    };
    match resource {
        Resource::Route(route) => {
            add("/upstream_id", ObjectKind::Upstream, route.upstream_id.as_ref());
            add("/service_id", ObjectKind::Service, route.service_id.as_ref());
            add("/plugin_config_id", ObjectKind::PluginConfig, route.plugin_config_id.as_ref());
            add(
                "/upstream/tls/client_cert_id",
                ObjectKind::Ssl,
                client_certificate(resource.upstream().map(|upstream| &**upstream)),
            );
        }
        Resource::Service(service) => {
            add("/upstream_id", ObjectKind::Upstream, service.upstream_id.as_ref());
            add(
                "/upstream/tls/client_cert_id",
                ObjectKind::Ssl,
                client_certificate(service.upstream.as_deref()),
            );
        }
        Resource::Upstream(upstream) => {
            add("/tls/client_cert_id", ObjectKind::Ssl, client_certificate(Some(upstream)));
        }
        Resource::StreamRoute(route) => {
            add("/upstream_id", ObjectKind::Upstream, route.upstream_id.as_ref());
            add("/service_id", ObjectKind::Service, route.service_id.as_ref());
            let superior = route.protocol.as_ref().and_then(|protocol| protocol.superior_id.as_ref());
            add("/protocol/superior_id", ObjectKind::StreamRoute, superior);
            add(
                "/upstream/tls/client_cert_id",
                ObjectKind::Ssl,
                client_certificate(route.upstream.as_deref()),
            );
        }
        Resource::Consumer(consumer) => {
            add("/group_id", ObjectKind::ConsumerGroup, consumer.group_id.as_ref())
        }
        Resource::Contract(contract) => {
            add("/upstream_id", ObjectKind::Upstream, contract.upstream_id.as_ref());
            add("/service_id", ObjectKind::Service, contract.service_id.as_ref());
            for id in contract.routes.upstream_ids() {
                if Some(id) != contract.upstream_id.as_ref() {
                    add("/operations", ObjectKind::Upstream, Some(id));
                }
            }
            add(
                "/upstream/tls/client_cert_id",
                ObjectKind::Ssl,
                client_certificate(contract.upstream.as_deref()),
            );
        }
        Resource::Credential(_) => {
            let consumer = key.consumer_key();
            references.extend(consumer.map(|target| Reference { pointer: "", target }));
        }
        _ => {}
    }
    references
}

/// The certificate object that nodes of an upstream are shown.
fn client_certificate(upstream: Option<&UpstreamConfig>) -> Option<&Id> {
    upstream?.tls.as_ref()?.client_cert_id.as_ref()
}

/// The objects that the plugins of an object name: upstreams and their certificates (`traffic-split`), and
/// protos. No object waits for these.
pub(super) fn mentions(resource: &Resource) -> Vec<ObjectKey> {
    let mut found = Vec::new();
    for plugin in resource.plugins() {
        add_mentions(&plugin.config, &mut found);
    }
    found.sort();
    found.dedup();
    found
}

impl Snapshot {
    /// Why an object must not be deleted: the contract's line for the first object that still uses it.
    #[must_use]
    pub fn still_used(&self, key: &ObjectKey) -> Option<String> {
        let own = self.dependents.get(key).filter(|user| user.kind != ObjectKind::Credential);
        match own.min_by(|left, right| rank(left).cmp(&rank(right))) {
            Some(user) => Some(in_use(key, user, "")),
            None => self.used_by_a_plugin(key),
        }
    }

    /// The fields that name an upstream or a proto in a plugin's configuration.
    fn used_by_a_plugin(&self, key: &ObjectKey) -> Option<String> {
        let place = if key.kind == ObjectKind::Upstream { "plugin in " } else { "" };
        let user = self.mentions.get(key).min_by(|left, right| rank(left).cmp(&rank(right)))?;
        Some(in_use(key, user, place))
    }
}

/// Routes are named before services, these before the rest.
fn rank(user: &ObjectKey) -> (u8, &ObjectKey) {
    let kind = match user.kind {
        ObjectKind::Route => 0,
        ObjectKind::Service => 1,
        _ => 2,
    };
    (kind, user)
}

fn in_use(key: &ObjectKey, user: &ObjectKey, place: &str) -> String {
    if key.kind == ObjectKind::StreamRoute {
        return format!(
            "can not delete this stream route directly, stream route [{}] is still using it as superior_id",
            user.id
        );
    }
    let directly = if key.kind == ObjectKind::Service { " directly" } else { "" };
    let (kind, user_kind) = (key.kind.in_words(), user.kind.singular());
    format!("can not delete this {kind}{directly}, {place}{user_kind} [{}] is still using it now", user.id)
}

/// Adds what a configuration names, anywhere inside, by the fields that plugins name other objects with.
fn add_mentions(value: &Value, found: &mut Vec<ObjectKey>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let kind = MENTIONS.iter().find(|(field, _)| field == name).map(|(_, kind)| *kind);
                if let Some((kind, id)) = kind.and_then(|kind| Some((kind, Id::deserialize(value).ok()?))) {
                    found.push(ObjectKey::of(kind, &id));
                }
                add_mentions(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_mentions(item, found)),
        _ => {}
    }
}

/// The fields by which plugin configurations name other objects.
const MENTIONS: [(&str, ObjectKind); 4] = [
    ("upstream_id", ObjectKind::Upstream),
    ("proto_id", ObjectKind::Proto),
    ("client_cert_id", ObjectKind::Ssl),
    (CONTRACT_ID_FIELD, ObjectKind::Contract),
];

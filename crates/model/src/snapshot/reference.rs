//! What an object refers to, what a reference that leads nowhere is called, and who would miss an object.

use serde_json::Value;

use super::{Object, Snapshot};
use crate::resource::Resource;
use crate::{Id, Key, Kind};

/// A reference from one object to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The JSON pointer to the id in the referring object; empty when its key says it.
    pub pointer: &'static str,
    /// What it refers to.
    pub target: Key,
}

impl Reference {
    /// The contract's words when the target is not there.
    #[must_use]
    pub fn missing(&self) -> String {
        let kind = self.target.kind.in_words();
        format!("failed to fetch {kind} info by {kind} id [{}], response code: 404", self.target.id)
    }
}

/// The references of an object, in the order in which the contract checks them.
pub(super) fn of(key: &Key, resource: &Resource) -> Vec<Reference> {
    let mut references = Vec::new();
    let mut add = |pointer: &'static str, kind: Kind, id: Option<&Id>| {
        references.extend(id.map(|id| Reference { pointer, target: Key::of(kind, id) }));
    };
    match resource {
        Resource::Route(route) => {
            add("/upstream_id", Kind::Upstream, route.upstream_id.as_ref());
            add("/service_id", Kind::Service, route.service_id.as_ref());
            add("/plugin_config_id", Kind::PluginConfig, route.plugin_config_id.as_ref());
        }
        Resource::Service(service) => add("/upstream_id", Kind::Upstream, service.upstream_id.as_ref()),
        Resource::StreamRoute(route) => {
            add("/upstream_id", Kind::Upstream, route.upstream_id.as_ref());
            add("/service_id", Kind::Service, route.service_id.as_ref());
            let superior = route.protocol.as_ref().and_then(|protocol| protocol.superior_id.as_ref());
            add("/protocol/superior_id", Kind::StreamRoute, superior);
        }
        Resource::Consumer(consumer) => add("/group_id", Kind::ConsumerGroup, consumer.group_id.as_ref()),
        Resource::Credential(_) => {
            let consumer = key.consumer().and_then(|consumer| Id::new(consumer).ok());
            add("", Kind::Consumer, consumer.as_ref());
        }
        _ => {}
    }
    references
}

impl Snapshot {
    /// Why an object must not be deleted: the contract's line for the first object that still uses it.
    #[must_use]
    pub fn still_used(&self, key: &Key) -> Option<String> {
        let own =
            self.dependents(key).into_iter().filter(|user| user.kind != Kind::Credential).min_by_key(rank);
        if let Some(user) = own {
            return Some(in_use(key, &user, ""));
        }
        if matches!(key.kind, Kind::Upstream | Kind::Proto) {
            return self.used_by_a_plugin(key);
        }
        None
    }

    /// Looks through all plugin configurations for the field that names an upstream or a proto.
    fn used_by_a_plugin(&self, key: &Key) -> Option<String> {
        let (field, place) = match key.kind {
            Kind::Proto => ("proto_id", ""),
            _ => ("upstream_id", "plugin in "),
        };
        const KINDS: [Kind; 6] = [
            Kind::Route,
            Kind::Service,
            Kind::PluginConfig,
            Kind::Consumer,
            Kind::ConsumerGroup,
            Kind::GlobalRule,
        ];
        let uses = |object: &&std::sync::Arc<Object>| {
            object.resource.plugins().iter().any(|plugin| names(&plugin.config, field, &key.id))
        };
        KINDS.into_iter().find_map(|kind| {
            let user = self.iter(kind).filter(uses).map(|object| object.key()).min()?;
            Some(in_use(key, user, place))
        })
    }
}

/// Routes are named before services, these before the rest.
fn rank(user: &Key) -> (u8, Key) {
    let kind = match user.kind {
        Kind::Route => 0,
        Kind::Service => 1,
        _ => 2,
    };
    (kind, user.clone())
}

fn in_use(key: &Key, user: &Key, place: &str) -> String {
    let directly = if matches!(key.kind, Kind::Service | Kind::StreamRoute) { " directly" } else { "" };
    let user_kind = match (key.kind, user.kind) {
        (Kind::StreamRoute, _) => "subordinate route",
        (_, kind) => kind.singular(),
    };
    format!(
        "can not delete this {}{directly}, {place}{user_kind} [{}] is still using it now",
        key.kind.in_words(),
        user.id
    )
}

/// Whether that field, anywhere inside, has that id.
fn names(value: &Value, field: &str, id: &str) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| (name == field && is_id(value, id)) || names(value, field, id))
        }
        Value::Array(items) => items.iter().any(|item| names(item, field, id)),
        _ => false,
    }
}

fn is_id(value: &Value, id: &str) -> bool {
    match value {
        Value::String(text) => text == id,
        Value::Number(number) => number.to_string() == id,
        _ => false,
    }
}

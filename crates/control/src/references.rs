//! The objects that an object names, each with the place of the name: ids in its own fields, ids in
//! configurations of plugins, the metadata of its plugins, and secret managers in references to secrets.

use model::contract::CONTRACT_ID_FIELD;
use model::secret_field::plugin_places;
use model::secret_reference::SecretReference;
use model::{Id, ObjectKey, ObjectKind, SnapshotObject};
use serde::Deserialize;
use serde_json::Value;

/// A name of another object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectReference {
    /// The JSON pointer (RFC 6901) to the name; empty where the key of the object says it.
    pub(crate) pointer: String,
    pub(crate) target: ObjectKey,
}

/// All names in the object `value` at `key`, in the order of the fields, at most [`NAMES_MAX`].
pub(crate) fn find_references(key: &ObjectKey, value: &Value) -> Vec<ObjectReference> {
    let mut names = Vec::new();
    if let Some(target) = key.consumer_key() {
        names.push(ObjectReference { pointer: String::new(), target });
    }
    for (pointer, kind) in OWN_FIELDS {
        if let Some(target) = value.pointer(pointer).and_then(|id| target(kind, id)) {
            names.push(ObjectReference { pointer: pointer.to_owned(), target });
        }
    }
    for place in plugin_places(key.kind, value) {
        for (name, config) in value.pointer(&place).and_then(Value::as_object).into_iter().flatten() {
            let pointer = below(&place, name);
            if let Ok(target) = ObjectKey::new(ObjectKind::PluginMetadata, name) {
                names.push(ObjectReference { pointer: pointer.clone(), target });
            }
            walk(config, pointer, 0, &mut |pointer, field, value| {
                let kind = PLUGIN_FIELDS.into_iter().find(|(name, _)| *name == field);
                if let Some(target) = kind.and_then(|(_, kind)| target(kind, value)) {
                    names.push(ObjectReference { pointer: pointer.to_owned(), target });
                }
                names.len() < NAMES_MAX
            });
        }
    }
    walk(value, String::new(), 0, &mut |pointer, _, value| {
        if let Some(target) = value.as_str().and_then(secret_of) {
            names.push(ObjectReference { pointer: pointer.to_owned(), target });
        }
        names.len() < NAMES_MAX
    });
    names.truncate(NAMES_MAX);
    names
}

/// The upstreams that the plugins of an object in force name.
pub(crate) fn upstreams_in_plugins(object: &SnapshotObject) -> Vec<ObjectKey> {
    let mut upstreams = Vec::new();
    for plugin in object.resource.plugins() {
        walk(&plugin.config, String::new(), 0, &mut |_, field, value| {
            if let Some(upstream) =
                Some(value).filter(|_| field == "upstream_id").and_then(|id| target(ObjectKind::Upstream, id))
            {
                upstreams.push(upstream);
            }
            upstreams.len() < NAMES_MAX
        });
    }
    upstreams
}

/// The secret manager that a reference such as `$secret://vault/1/path/key` names.
fn secret_of(text: &str) -> Option<ObjectKey> {
    match SecretReference::parse(text)? {
        SecretReference::Managed { manager, .. } => ObjectKey::new(ObjectKind::Secret, manager).ok(),
        _ => None,
    }
}

/// Whether an object of that text can name the object at `key`. It says yes also where none does, because it
/// only saves reading; `\/` is a slash in JSON.
pub(crate) fn may_name(text: &str, key: &ObjectKey) -> bool {
    match key.kind {
        ObjectKind::Secret => text.contains(&format!("://{}/", key.id)) || text.contains("\\/"),
        _ => text.contains(key.own_id()),
    }
}

fn target(kind: ObjectKind, id: &Value) -> Option<ObjectKey> {
    Some(ObjectKey::of(kind, &Id::deserialize(id).ok()?))
}

/// Calls `visit` with each field and item that is no container, until it returns false.
fn walk(
    value: &Value,
    pointer: String,
    depth: usize,
    visit: &mut dyn FnMut(&str, &str, &Value) -> bool,
) -> bool {
    if depth > DEPTH_MAX {
        return true;
    }
    let mut step = |name: &str, value: &Value| {
        let place = below(&pointer, name);
        match value {
            Value::Object(_) | Value::Array(_) => walk(value, place, depth + 1, visit),
            value => visit(&place, name, value),
        }
    };
    match value {
        Value::Object(fields) => fields.iter().all(|(name, value)| step(name, value)),
        Value::Array(items) => items.iter().enumerate().all(|(index, value)| step(&index.to_string(), value)),
        _ => true,
    }
}

fn below(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}

/// The fields of objects that name others. A kind without such a field has none in its schema.
const OWN_FIELDS: [(&str, ObjectKind); 7] = [
    ("/service_id", ObjectKind::Service),
    ("/upstream_id", ObjectKind::Upstream),
    ("/plugin_config_id", ObjectKind::PluginConfig),
    ("/group_id", ObjectKind::ConsumerGroup),
    ("/upstream/tls/client_cert_id", ObjectKind::Ssl),
    ("/tls/client_cert_id", ObjectKind::Ssl),
    ("/protocol/superior_id", ObjectKind::StreamRoute),
];
/// The fields by which configurations of plugins name others, at any depth; the ones that keep an object from
/// being deleted.
const PLUGIN_FIELDS: [(&str, ObjectKind); 4] = [
    ("upstream_id", ObjectKind::Upstream),
    ("proto_id", ObjectKind::Proto),
    ("client_cert_id", ObjectKind::Ssl),
    (CONTRACT_ID_FIELD, ObjectKind::Contract),
];
/// Names in one object: more of them are no configuration that a person reads.
const NAMES_MAX: usize = 1_000;
/// Depth of an object; JSON text is read with a limit of the same size.
const DEPTH_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(kind: ObjectKind, id: &str, value: &Value) -> Vec<String> {
        let names = find_references(&ObjectKey::new(kind, id).unwrap(), value);
        names.iter().map(|named| format!("{} {}", named.pointer, named.target)).collect()
    }

    #[test]
    fn names_are_found_with_their_places() {
        let route = json!({
            "service_id": "s", "upstream_id": 7, "plugin_config_id": "p",
            "plugins": {
                "a/b": { "rules": [{ "to": [{ "upstream_id": "u" }] }], "key": "$secret://vault/1/x/y" },
                "transcode": { "proto_id": "p1", "upstream_id": {} },
            },
            "upstream": { "tls": { "client_cert_id": "c" } },
        });
        let expected = [
            "/service_id services/s",
            "/upstream_id upstreams/7",
            "/plugin_config_id plugin_configs/p",
            "/upstream/tls/client_cert_id ssls/c",
            "/plugins/a~1b/rules/0/to/0/upstream_id upstreams/u",
            "/plugins/transcode plugin_metadata/transcode",
            "/plugins/transcode/proto_id protos/p1",
            "/plugins/a~1b/key secrets/vault/1",
        ];
        assert_eq!(named(ObjectKind::Route, "1", &route), expected);
        let credential = json!({ "plugins": {} });
        assert_eq!(named(ObjectKind::Credential, "jack/credentials/c", &credential), [" consumers/jack"]);
    }

    #[test]
    fn deep_and_long_values_are_bounded() {
        let mut deep = json!("$secret://vault/1/x/y");
        for _ in 0..200 {
            deep = json!([deep]);
        }
        assert!(named(ObjectKind::Route, "1", &json!({ "vars": deep })).is_empty());
        let many: Vec<Value> = (0..5_000).map(|_| json!("$secret://vault/1/x/y")).collect();
        assert_eq!(named(ObjectKind::Route, "1", &json!({ "vars": many })).len(), NAMES_MAX);
    }
}

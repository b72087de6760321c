//! The identity of consumers: the values of the fields that an authentication plugin looks them up by. Names
//! no plugin.

use serde_json::Value;
use stdx::hash::hash_bytes;

use super::{Snapshot, SnapshotObject};
use crate::catalog::PluginCatalog;
use crate::resource::{Plugins, Resource};
use crate::{ObjectKey, ObjectKind};

/// The identities of a consumer or credential, hashed; none for other kinds.
pub(super) fn hash_identities(catalog: &PluginCatalog, object: &SnapshotObject) -> Vec<u64> {
    if !matches!(object.resource, Resource::Consumer(_) | Resource::Credential(_)) {
        return Vec::new();
    }
    each_identity(catalog, object.resource.plugins())
        .map(|(plugin, _, values)| hash(plugin, &values))
        .collect()
}

/// Plugin, fields and values of each identity among those plugins.
pub(super) fn each_identity<'a>(
    catalog: &'a PluginCatalog,
    plugins: &'a Plugins,
) -> impl Iterator<Item = (&'a str, &'static [&'static str], Vec<&'a Value>)> {
    plugins.iter().filter_map(|plugin| {
        let fields = catalog.get(&plugin.name)?.info().consumer_key;
        let values = values(fields, &plugin.config)?;
        Some((&*plugin.name, fields, values))
    })
}

/// The values of the fields that tell consumers apart; none where one is missing.
fn values<'a>(fields: &[&str], config: &'a Value) -> Option<Vec<&'a Value>> {
    let value = |field: &&str| config.get(*field).filter(|value| !value.is_null());
    let values: Option<Vec<&Value>> = fields.iter().map(value).collect();
    values.filter(|values| !values.is_empty())
}

/// The consumer that an object of kind consumer or credential stands for.
pub(super) fn owner(key: &ObjectKey) -> &str {
    key.consumer().unwrap_or(&key.id)
}

/// The claims to an identity that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claims {
    /// Those of the text that was written last, in force or waiting.
    Written,
    /// Those of objects in force that no waiting object has replaced since.
    InForce,
}

impl Snapshot {
    /// The first consumer other than `owner` that has that identity, among those that `counts`.
    fn consumer_with(
        &self,
        (plugin, fields, wanted): &(&str, &[&str], Vec<&Value>),
        owner: &str,
        counts: Claims,
    ) -> Option<&str> {
        let claims = |object: &SnapshotObject| {
            let config = object.resource.plugins().get(plugin).map(|plugin| &plugin.config);
            config.and_then(|config| values(fields, config)).as_ref() == Some(wanted)
        };
        let has = |key: &&ObjectKey| {
            let in_force = || self.get(key).is_some_and(|object| claims(object));
            self.written_at(key).is_some_and(claims) && (counts == Claims::Written || in_force())
        };
        let identity = hash(plugin, wanted);
        let others = self.identities.get(&identity).filter(|key| self::owner(key) != owner);
        others.filter(has).map(self::owner).min()
    }

    /// The identities of an object that another consumer has already: the place, and that consumer.
    pub(super) fn taken_identities(
        &self,
        catalog: &PluginCatalog,
        key: &ObjectKey,
        plugins: &Plugins,
        counts: Claims,
    ) -> Vec<(String, String)> {
        let taken = |identity: (&str, &'static [&'static str], Vec<&Value>)| {
            let other = self.consumer_with(&identity, owner(key), counts)?;
            let (plugin, fields, _) = identity;
            let reason = format!("duplicate key found with consumer: {other}");
            Some((format!("/plugins/{plugin}/{}", fields[0]), reason))
        };
        each_identity(catalog, plugins).filter_map(taken).collect()
    }

    /// The object under that key, in force or waiting.
    fn written_at(&self, key: &ObjectKey) -> Option<&SnapshotObject> {
        debug_assert!(matches!(key.kind, ObjectKind::Consumer | ObjectKind::Credential));
        let waiting = self.faulty_at(key).and_then(|faulty| faulty.waiting.as_deref());
        waiting.or_else(|| self.get(key).map(|object| &**object))
    }
}

fn hash(plugin: &str, values: &[&Value]) -> u64 {
    let start = hash_bytes(0, plugin.as_bytes());
    values.iter().fold(start, |hash, value| hash_bytes(hash, value.to_string().as_bytes()))
}

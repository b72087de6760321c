//! A consumer: the keys by which authentication finds it, and the plugins that it and its group bring along.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use model::catalog::consumer_key;
use model::merge::Provenance;
use model::resource::{Plugins, Resource};
use model::secret_reference::SecretValues;
use model::snapshot::{Snapshot, SnapshotObject};
use model::{ObjectKey, ObjectKind};
use serde_json::Value;

use super::{SnapshotCompiler, extension, reference};
use crate::runtime::ConsumerPlugins;
use exchange::exchange::Consumer;
use exchange::failure::Cause;
use exchange::failure::Unavailable;
pub(super) fn in_force_or_closed<'s>(
    snapshot: &'s Snapshot,
    key: &ObjectKey,
) -> Option<&'s Arc<SnapshotObject>> {
    snapshot.get(key).or_else(|| Some(snapshot.closed(key)?.0))
}

impl SnapshotCompiler {
    /// Compiles consumers with their credentials, or takes them out.
    pub(super) fn compile_consumers(&mut self, snapshot: &Snapshot, mut keys: BTreeSet<ObjectKey>) {
        if keys.is_empty() {
            return;
        }
        // A key that one of these consumers gives up may be the key that another one conflicted with.
        keys.append(&mut self.consumers_in_conflict);
        for key in &keys {
            for (plugin, secret) in self.consumer_entries.remove(&key.id).unwrap_or_default() {
                self.current.consumers.remove(plugin, &secret, &key.id);
            }
            if self.is_trial {
                // A trial has not made the entries that are in force, and does not know their keys.
                self.current.consumers.remove_all_of(&key.id);
            }
            self.current.consumers.remove_named(&key.id);
        }
        for key in &keys {
            self.compile_consumer(snapshot, key);
        }
    }

    fn compile_consumer(&mut self, snapshot: &Snapshot, key: &ObjectKey) {
        // A consumer with a missing group is known, and its requests are answered 503.
        let Some(object) = in_force_or_closed(snapshot, key).cloned() else { return };
        let Resource::Consumer(written) = &object.resource else { return };
        let group = written.group_id.as_ref().map(|id| ObjectKey::of(ObjectKind::ConsumerGroup, id));
        let group_plugins = group.as_ref().and_then(|group| snapshot.get(group)).cloned();
        let missing = match (&group, &group_plugins) {
            (Some(group), None) => {
                let detail = format!("consumer_group {} does not exist or is faulty", group.own_id());
                Some(Unavailable::new(Cause::MissingReference, detail))
            }
            _ => None,
        };
        let none = Plugins::none();
        let group_plugins = group_plugins.as_ref().map_or(none, |group| group.resource.plugins());
        let Some(additions) =
            self.consumer_instances(snapshot, key, &written.plugins, group_plugins, group.as_ref())
        else {
            return;
        };

        let attached: Arc<dyn Any + Send + Sync> = Arc::new(additions);
        let bulkhead = self.bulkhead(key, written.limits.as_ref());
        let template = |credential_id: Option<Arc<str>>, config: &Value| Consumer {
            username: key.id.clone(),
            missing: missing.clone(),
            group_id: group.as_ref().map(|group| group.id.clone()),
            credential_id,
            labels: written.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            written: object.written.text.clone(),
            auth_conf: config.clone(),
            compiled: None,
            bulkhead: bulkhead.clone(),
            attached: Some(attached.clone()),
        };
        self.current.consumers.insert_named(Arc::new(template(None, &Value::Null)));
        let mut entries = Vec::new();
        self.add_entries(key, &written.plugins, &mut entries, |config| template(None, config));
        for credential in snapshot.dependents(key).iter().filter(|user| user.kind == ObjectKind::Credential) {
            if let Some(object) = in_force_or_closed(snapshot, credential) {
                let id: Arc<str> = credential.own_id().into();
                self.add_entries(credential, object.resource.plugins(), &mut entries, |config| {
                    template(Some(id.clone()), config)
                });
            }
        }
        self.consumer_entries.insert(key.id.clone(), entries);
    }

    fn add_entries(
        &mut self,
        owner: &ObjectKey,
        plugins: &Plugins,
        entries: &mut Vec<(&'static str, Box<str>)>,
        make: impl Fn(&Value) -> Consumer,
    ) {
        for plugin in plugins.iter() {
            let kind = self.kinds.get(&*plugin.name).copied();
            let Some(kind) = kind.filter(|kind| !kind.consumer_key.is_empty()) else { continue };
            // A stand-in for a value would be the same key for all consumers.
            let values: &dyn SecretValues = if self.is_trial { &reference::NoValues } else { &*self.secrets };
            let resolved = reference::resolve(&plugin.config, values);
            // An unresolved reference must not become a credential, because its text is no secret.
            if resolved.incomplete {
                continue;
            }
            let Some(secret) = consumer_key(kind.consumer_key, &resolved.config) else { continue };
            let secret = &*secret;
            // Written keys were compared when they were checked. Two references may still resolve to one
            // value; then the key belongs to the first consumer only.
            let username = owner.consumer().unwrap_or(&owner.id);
            let other = self.current.consumers.find(kind.name, secret).map(|other| other.username.clone());
            if let Some(other) = other.filter(|other| **other != *username) {
                self.consumers_in_conflict.insert(owner.consumer_key().unwrap_or_else(|| owner.clone()));
                let fields = kind.consumer_key.join(" and ");
                self.fault(owner, format!("plugin {}: its {fields} is that of consumer {other}", kind.name));
                continue;
            }
            let compiled = match kind.compile_credential.map(|compile| compile(&resolved.config)).transpose()
            {
                Ok(compiled) => compiled,
                Err(reason) => {
                    self.fault(owner, format!("plugin {}: {reason}", kind.name));
                    continue;
                }
            };
            let consumer = Consumer { compiled, ..make(&resolved.config) };
            self.current.consumers.insert(kind.name, secret, Arc::new(consumer));
            entries.push((kind.name, secret.into()));
        }
    }

    /// The plugins that the consumer and its group add to a route, and those they disable; `None` if a plugin
    /// cannot be built, because the consumer's requests must not pass without it.
    fn consumer_instances(
        &mut self,
        snapshot: &Snapshot,
        key: &ObjectKey,
        own: &Plugins,
        group: &Plugins,
        group_key: Option<&ObjectKey>,
    ) -> Option<ConsumerPlugins> {
        let (mut instances, mut disabled) = (Vec::new(), Vec::new());
        for effective in model::merge::consumer_plugins(&[], own, Some(group)) {
            let name = match self.kinds.get(effective.name).copied() {
                Some(kind) if kind.auth => continue,
                Some(kind) => Some(kind.name),
                None => extension::find_served_versions(&self.fixed, snapshot, effective.name)
                    .map(|served| served.name()),
            };
            // The limit of a group is one limit for all its consumers.
            let owner = if effective.provenance == Provenance::ConsumerGroup { group_key } else { None };
            match self.instance(snapshot, owner.unwrap_or(key), effective.name, effective.config) {
                Ok(Some(instance)) => instances.push(instance),
                Ok(None) => disabled.extend(name),
                Err(reason) => {
                    self.fault(key, reason);
                    return None;
                }
            }
        }
        Some(ConsumerPlugins { plugins: instances.into(), disabled: disabled.into() })
    }
}

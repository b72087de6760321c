//! Extensions among the objects of a snapshot: their plugins are known before other objects are read, and
//! objects that were faulty without them are read again. It names no language.

use std::collections::HashSet;
use std::sync::Arc;

use super::read::{self, ObjectCandidate};
use super::{Snapshot, SnapshotChange};
use crate::catalog::{CatalogPlugin, PluginCatalog, Subsystem};
use crate::fault::{CheckStage, Findings};
use crate::resource::{Extension, Resource};
use crate::{ObjectKey, ObjectKind};

impl Snapshot {
    /// The catalog with the plugins of the extensions in force.
    pub(super) fn catalog(&self, catalog: &PluginCatalog) -> PluginCatalog {
        catalog.with_extensions(&self.extensions)
    }

    /// The catalog that holds once these candidates are in force, and the candidates with those faulty
    /// objects that name an extension among them.
    pub(super) fn with_extensions_of(
        &self,
        catalog: &PluginCatalog,
        mut read: Vec<(ObjectKey, ObjectCandidate)>,
        changes: &[SnapshotChange],
    ) -> (PluginCatalog, Vec<(ObjectKey, ObjectCandidate)>) {
        if read.is_empty() {
            let catalog = self.catalog(catalog);
            read = read::all(&catalog, changes);
            return (catalog, read);
        }
        let mut extensions = self.extensions.clone();
        let mut quoted = Vec::new();
        for (key, candidate) in &read {
            match candidate {
                ObjectCandidate::Good(object) => {
                    extensions.set(key.own_id(), find_loaded_plugin(&object.resource))
                }
                ObjectCandidate::Deleted => extensions.set(key.own_id(), None),
                ObjectCandidate::Bad(..) => continue,
            }
            quoted.push(format!("\"{}\"", key.own_id()));
        }
        let catalog = catalog.with_extensions(&extensions);
        let changed: HashSet<&ObjectKey> = changes.iter().map(|change| &change.key).collect();
        let waits = |faulty: &&super::Faulty| {
            let written = &faulty.written;
            let names = || quoted.iter().any(|name| written.text.contains(&**name));
            written.key.kind != ObjectKind::Extension && !changed.contains(&written.key) && names()
        };
        let again: Vec<SnapshotChange> = self
            .faulty()
            .filter(waits)
            .map(|faulty| SnapshotChange {
                key: faulty.written.key.clone(),
                written: Some(faulty.written.clone()),
            })
            .collect();
        read.extend(read::all(&catalog, changes));
        read.extend(read::all(&catalog, &again));
        (catalog, read)
    }

    /// Refuses an extension that the objects with its plugin cannot have: their configurations must pass the
    /// check of the versions that serve, and there must be such a version.
    pub(super) fn suits_users(&self, key: &ObjectKey, extension: &Extension, findings: &mut Findings) {
        let mut users: Vec<&ObjectKey> = self.mentioned_by(key).collect();
        users.sort();
        for user in users {
            let Some(object) = self.get(user) else { continue };
            let Some(plugin) = object.resource.plugins().get(key.own_id()) else { continue };
            let named = format!("{} [{}]", user.kind.in_words(), user.id);
            let Some(loaded) = &extension.loaded else {
                let reason = format!("can not switch off this extension, {named} is still using it now");
                findings.add(CheckStage::Plugins, "/enabled".to_owned(), reason);
                return;
            };
            let (subsystem, served) = match user.kind {
                ObjectKind::StreamRoute => (Subsystem::Stream, "sessions of layer 4"),
                _ => (Subsystem::Http, "requests"),
            };
            if !loaded.plugin.info().serves(subsystem) {
                let reason =
                    format!("{named} is still using it now, and not all of its versions serve {served}");
                findings.add(CheckStage::Plugins, String::new(), reason);
                return;
            }
            if let Some(fault) = loaded.plugin.first_fault(&plugin.config) {
                let name = key.own_id();
                let reason =
                    format!("{named}: failed to check the configuration of plugin {name} err: {fault}");
                findings.add(CheckStage::Plugins, String::new(), reason);
                return;
            }
        }
    }
}

/// The plugin of an extension that is loaded.
pub(super) fn find_loaded_plugin(resource: &Resource) -> Option<Arc<CatalogPlugin>> {
    match resource {
        Resource::Extension(extension) => Some(Arc::clone(&extension.loaded.as_ref()?.plugin)),
        _ => None,
    }
}

/// The extensions of which an object has the plugins: the names that no fixed plugin has.
pub(super) fn named(catalog: &PluginCatalog, resource: &Resource) -> Vec<ObjectKey> {
    let plugins = resource.plugins().iter().filter(|plugin| !catalog.is_fixed(&plugin.name));
    plugins.filter_map(|plugin| ObjectKey::new(ObjectKind::Extension, &plugin.name).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing;
    use crate::{FaultPolicy, WrittenObject};
    use serde_json::{Value, json};

    fn put(kind: ObjectKind, id: &str, object: &Value) -> SnapshotChange {
        let key = ObjectKey::new(kind, id).unwrap();
        let text = object.to_string().into();
        SnapshotChange {
            key: key.clone(),
            written: Some(WrittenObject { key, text, created_index: 1, modified_index: 1 }),
        }
    }

    fn apply(snapshot: &Snapshot, changes: &[SnapshotChange]) -> Snapshot {
        snapshot.apply(&testing::catalog(), changes, snapshot.revision() + 1, FaultPolicy::Lenient).snapshot
    }

    fn extension(field: &str) -> Value {
        json!({"language": "tiny", "content": field})
    }

    fn route() -> SnapshotChange {
        put(
            ObjectKind::Route,
            "r",
            &json!({"uri": "/", "upstream": {"nodes": {"a:80": 1}}, "plugins": {"mine": {"a": 1}}}),
        )
    }

    fn faults(snapshot: &Snapshot) -> Vec<String> {
        snapshot.faults().into_iter().map(|fault| fault.reason).collect()
    }

    #[test]
    fn extension_and_its_user_arrive_in_any_order() {
        let key = ObjectKey::new(ObjectKind::Route, "r").unwrap();
        let mine = put(ObjectKind::Extension, "mine", &extension("a"));
        let both = apply(&Snapshot::empty(), &[route(), mine.clone()]);
        assert!(both.contains(&key) && faults(&both).is_empty(), "{:?}", faults(&both));
        let first = apply(&Snapshot::empty(), &[route()]);
        assert!(faults(&first)[0].starts_with("unknown plugin [mine]"), "{:?}", faults(&first));
        let then = apply(&first, &[mine]);
        assert!(then.contains(&key) && faults(&then).is_empty(), "{:?}", faults(&then));
        assert_eq!(then.mentioned_by(&ObjectKey::new(ObjectKind::Extension, "mine").unwrap()).count(), 1);
        let used = then.still_used(&ObjectKey::new(ObjectKind::Extension, "mine").unwrap());
        assert_eq!(used.unwrap(), "can not delete this extension, route [r] is still using it now");
    }

    #[test]
    fn faulty_version_leaves_the_good_one_in_force() {
        let good = apply(&Snapshot::empty(), &[put(ObjectKind::Extension, "mine", &extension("a")), route()]);
        let faulty = apply(&good, &[put(ObjectKind::Extension, "mine", &extension("broken"))]);
        assert_eq!(faults(&faulty), ["mine cannot be loaded: line 1: it is broken"]);
        assert!(faulty.extensions().get("mine").is_some());
        let gone = apply(
            &good,
            &[SnapshotChange { key: ObjectKey::new(ObjectKind::Extension, "mine").unwrap(), written: None }],
        );
        assert!(gone.extensions().is_empty());
    }

    #[test]
    fn version_that_users_cannot_have_is_refused() {
        let catalog = testing::catalog();
        let good = apply(&Snapshot::empty(), &[put(ObjectKind::Extension, "mine", &extension("a")), route()]);
        let key = ObjectKey::new(ObjectKind::Extension, "mine").unwrap();
        let admit = |object: Value| {
            let admitted = good.admit(&catalog, &key, &object);
            admitted.err().map(|refusal| refusal.contract_message().to_owned()).unwrap_or_default()
        };
        assert_eq!(admit(extension("a")), "");
        assert_eq!(
            admit(extension("b")),
            "route [r]: failed to check the configuration of plugin mine err: property \"b\" is required"
        );
        let canary = json!({
            "language": "tiny", "versions": [{"version": "1", "content": "a"}, {"version": "2", "content": "b"}],
            "active": "1", "canary": {"version": "2", "percent": 5},
        });
        assert!(admit(canary).contains("the canary version refuses it: property \"b\" is required"));
        let mut off = extension("a");
        off["enabled"] = false.into();
        assert_eq!(admit(off), "can not switch off this extension, route [r] is still using it now");
    }

    #[test]
    fn routes_are_checked_by_the_schema_of_the_extension() {
        let catalog = testing::catalog();
        let good = apply(&Snapshot::empty(), &[put(ObjectKind::Extension, "mine", &extension("a"))]);
        let admit = |config: Value| {
            let route = json!({"uri": "/", "upstream": {"nodes": {"a:80": 1}}, "plugins": {"mine": config}});
            let admitted = good.admit(&catalog, &ObjectKey::new(ObjectKind::Route, "r").unwrap(), &route);
            admitted.err().map(|refusal| refusal.contract_message().to_owned()).unwrap_or_default()
        };
        assert_eq!(admit(json!({"a": 1})), "");
        assert_eq!(
            admit(json!({})),
            "failed to check the configuration of plugin mine err: property \"a\" is required"
        );
        let layered = catalog.with_extensions(good.extensions());
        let names: Vec<&str> = layered.names_by_priority().collect();
        assert_eq!(names, ["auth", "count", "mine"]);
        let metadata = good.admit(
            &catalog,
            &ObjectKey::new(ObjectKind::PluginMetadata, "mine").unwrap(),
            &json!({"x": 1}),
        );
        assert!(metadata.is_ok());
    }
}

//! The chain of the global rules: all of them together, each plugin once. And the plugins that run by their
//! metadata.

use model::snapshot::Snapshot;
use model::{ObjectKey, ObjectKind};
use serde_json::{Map, Value};

use super::SnapshotCompiler;
use exchange::failure::Cause;
use exchange::failure::Unavailable;

impl SnapshotCompiler {
    /// Compiles all global rules anew; there are few of them.
    pub(super) fn compile_global(&mut self, snapshot: &Snapshot) {
        let mut rules: Vec<_> = snapshot.iter(ObjectKind::GlobalRule).cloned().collect();
        rules.sort_by(|a, b| a.key().cmp(b.key()));
        let mut instances = Vec::new();
        // A rule without a good form may be the one that requires a key, so no request may pass without it.
        let closed = snapshot.faulty().filter_map(|faulty| {
            let key = &faulty.written.key;
            let (_, refusal) = snapshot.closed(key).filter(|_| key.kind == ObjectKind::GlobalRule)?;
            Some((key, refusal))
        });
        self.current.global_missing = closed.min_by_key(|(key, _)| *key).map(|(key, refusal)| {
            let detail = format!("global rule {} is faulty: {refusal}", key.id);
            Unavailable::new(Cause::FaultyConfiguration, detail)
        });
        for (rule, plugin) in model::merge::global_plugins(rules.iter().map(|rule| rule.resource.plugins())) {
            let key = rules[rule].key();
            match self.instance(snapshot, key, &plugin.name, &plugin.config) {
                Ok(instance) => instances.extend(instance),
                // Requests that a global rule protects must not be served without it.
                Err(reason) => {
                    let missing = || Unavailable::new(Cause::FaultyConfiguration, reason.clone());
                    self.current.global_missing.get_or_insert_with(missing);
                    self.fault(key, reason);
                }
            }
        }
        self.current.global = self.sharing.chain(instances);
    }
    /// Builds the plugins that run by their metadata. They stand in no object, so that a fault of one closes
    /// nothing.
    pub(super) fn compile_by_metadata(&mut self, snapshot: &Snapshot) {
        // They meet no request, so that no answer depends on them.
        if self.is_trial {
            return;
        }
        let kinds: Vec<_> = self.kinds.values().filter(|kind| kind.runs_by_metadata).copied().collect();
        let mut instances = Vec::new();
        for kind in kinds {
            let Ok(key) = ObjectKey::new(ObjectKind::PluginMetadata, kind.name) else { continue };
            if snapshot.get(&key).is_none() {
                continue;
            }
            match self.instance(snapshot, &key, kind.name, &Value::Object(Map::new())) {
                Ok(instance) => instances.extend(instance),
                Err(reason) => self.fault(&key, reason),
            }
        }
        // The instances before end here, after those that take their place were built.
        self.by_metadata = instances;
    }
}

//! Whether one write may be stored: the object on its own, what it refers to, and what it must not repeat.

use std::sync::Arc;

use serde_json::Value;

use super::identity::Claims;
use super::read::ObjectCandidate;
use super::{Applied, FaultPolicy, Snapshot, SnapshotObject, reference};
use crate::catalog::PluginCatalog;
use crate::check::Checked;
use crate::fault::{CheckStage, Findings};
use crate::resource::{Plugins, Resource};
use crate::{ObjectKey, ObjectKind, ObjectRefusal, WrittenObject, check};

/// A write that may be stored: the object as it was checked and read, so that bringing it into force reads it
/// no second time.
#[derive(Debug)]
pub struct Admitted(Checked);

impl Snapshot {
    /// Checks a write before it is stored, as the Admin API does.
    ///
    /// # Errors
    /// Every fault, and the contract's line for the first.
    pub fn admit(
        &self,
        catalog: &PluginCatalog,
        key: &ObjectKey,
        value: &Value,
    ) -> Result<Admitted, ObjectRefusal> {
        let catalog = &self.catalog(catalog);
        let checked = check::check_object(catalog, key, value)?;
        let resource = &checked.resource;
        let mut findings = Findings::default();
        // A credential may be written before its consumer; it serves once the consumer is there.
        if key.kind != ObjectKind::Credential {
            for reference in reference::list_object_references(key, resource) {
                if !self.contains(&reference.target) {
                    reference::add_missing(&reference, &mut findings);
                }
            }
            reference::add_mismatch(self, key, resource, &mut findings);
        }
        self.suit_metadata(catalog, key, resource.plugins(), &mut findings);
        if key.kind == ObjectKind::GlobalRule {
            self.no_plugin_twice(key, resource.plugins(), &mut findings);
        }
        if matches!(resource, Resource::Consumer(_) | Resource::Credential(_)) {
            self.no_key_twice(catalog, key, resource.plugins(), &mut findings);
        }
        if let Resource::Extension(extension) = resource {
            self.suits_users(key, extension, &mut findings);
        }
        findings.into_result().map(|()| Admitted(checked))
    }

    /// Applies an admitted write that was stored as `written`, the text of the value that was admitted.
    /// `revision` becomes the snapshot's.
    #[must_use]
    pub fn put(
        &self,
        catalog: &PluginCatalog,
        admitted: Admitted,
        written: WrittenObject,
        revision: u64,
    ) -> Applied {
        let Admitted(Checked { resource, warnings }) = admitted;
        let key = written.key.clone();
        let object = SnapshotObject::new(written, resource, Box::default(), warnings);
        let read = vec![(key, ObjectCandidate::Good(Arc::new(object)))];
        if read[0].0.kind == ObjectKind::Extension {
            let (catalog, read) = self.with_extensions_of(catalog, read, &[]);
            return self.apply_read(&catalog, read, revision, FaultPolicy::Lenient);
        }
        self.apply_read(&self.catalog(catalog), read, revision, FaultPolicy::Lenient)
    }

    /// Parts that a plugin's configuration leaves to its metadata are there. Objects that were stored before
    /// stay in force when metadata go: the compiler reports them.
    fn suit_metadata(
        &self,
        catalog: &PluginCatalog,
        key: &ObjectKey,
        plugins: &Plugins,
        findings: &mut Findings,
    ) {
        if matches!(key.kind, ObjectKind::Consumer | ObjectKind::Credential) {
            return;
        }
        for plugin in plugins {
            let Some(entry) = catalog.get(&plugin.name) else { continue };
            let metadata = ObjectKey::new(ObjectKind::PluginMetadata, &plugin.name).ok();
            let metadata = metadata.and_then(|key| self.get(&key)).map(|object| &object.resource);
            let metadata = match metadata {
                Some(Resource::PluginMetadata(metadata)) => Some(&metadata.value),
                _ => None,
            };
            if let Err(reason) = (entry.info().check_with_metadata)(&plugin.config, metadata) {
                let name = &plugin.name;
                let contract = format!("failed to check the configuration of plugin {name} err: {reason}");
                findings.add_worded(
                    CheckStage::Plugins,
                    crate::fault::extend_pointer("/plugins", name),
                    reason,
                    contract,
                );
            }
        }
    }

    /// A plugin is in one global rule only.
    fn no_plugin_twice(&self, key: &ObjectKey, plugins: &Plugins, findings: &mut Findings) {
        let mut rules: Vec<_> = self.iter(ObjectKind::GlobalRule).filter(|rule| rule.key() != key).collect();
        rules.sort_by_key(|rule| Arc::clone(&rule.key().id));
        for plugin in plugins {
            if let Some(rule) = rules.iter().find(|rule| rule.resource.plugins().get(&plugin.name).is_some())
            {
                let (name, id) = (&plugin.name, &rule.key().id);
                let reason = format!("plugin '{name}' already exists in global rule with id '{id}'");
                findings.add(CheckStage::Plugins, crate::fault::extend_pointer("/plugins", name), reason);
            }
        }
    }

    /// No two consumers have the same value of the fields that tell consumers apart.
    fn no_key_twice(
        &self,
        catalog: &PluginCatalog,
        key: &ObjectKey,
        plugins: &Plugins,
        findings: &mut Findings,
    ) {
        for (pointer, reason) in self.taken_identities(catalog, key, plugins, Claims::Written) {
            findings.add(CheckStage::Plugins, pointer, reason);
        }
    }
}

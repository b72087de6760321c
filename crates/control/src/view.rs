//! The view of the control side for its readers: the snapshot in force and its faults, as one value that the
//! reconciling thread replaces.

use std::sync::Arc;

use model::{ConfigFault, ObjectKey, ObjectKind, PluginCatalog, Snapshot, WrittenObject};
use parking_lot::RwLock;

use crate::source::etcd::EtcdStatus;
use crate::source::store::SetStatement;

/// The configuration at one revision, for reading.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The objects in force, and the faulty ones.
    pub snapshot: Snapshot,
    /// Faults of the source, each as a line: all faults of a file, or records of the store that are no
    /// objects.
    pub faults: Vec<String>,
    /// Faults of objects that only the compiler finds.
    pub compile_faults: Vec<ConfigFault>,
    /// References to secrets that are not resolved, in objects that are in force nevertheless.
    pub reference_faults: Vec<ConfigFault>,
    /// Whether the setting `ignore_faulty_plugins` names any plugin.
    pub skips_plugins: bool,
    /// The reasons in the configuration why this instance is not ready: faults that were present at its start
    /// and keep a route or a global rule out of force.
    pub unready: Vec<String>,
    /// The state of etcd, where it is the source.
    pub etcd: Option<EtcdStatus>,
    /// The statement of the last whole set by the Admin API about itself.
    pub configs: Arc<SetStatement>,
    /// The newest known change, and its time in milliseconds.
    pub changed: Option<(u64, u64)>,
    /// The last failure of a write, until one succeeds.
    pub write_failure: Option<WriteFailure>,
}

/// Writes that fail, because the store or etcd does not take them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteFailure {
    /// The reason of the last failure.
    pub reason: String,
    /// The time of the first failure since the last write that succeeded, in milliseconds since the Unix
    /// epoch.
    pub since_ms: u64,
}

impl View {
    /// The catalog with the plugins of the extensions in force.
    pub(crate) fn catalog(&self, catalog: &Arc<PluginCatalog>) -> Arc<PluginCatalog> {
        let extensions = self.snapshot.extensions();
        if extensions.is_empty() {
            Arc::clone(catalog)
        } else {
            Arc::new(catalog.with_extensions(extensions))
        }
    }

    /// The object as it was written last, in force or not.
    pub fn written(&self, key: &ObjectKey) -> Option<&WrittenObject> {
        match self.snapshot.faulty_at(key) {
            Some(faulty) => Some(&faulty.written),
            None => self.snapshot.get(key).map(|object| &object.written),
        }
    }

    /// All objects of a kind as they were written last, ordered by key.
    pub fn all_written(&self, kind: ObjectKind) -> Vec<&WrittenObject> {
        let faulty =
            self.snapshot.faulty().map(|faulty| &faulty.written).filter(|written| written.key.kind == kind);
        let good = self.snapshot.iter(kind).map(|object| &object.written);
        let good = good.filter(|written| self.snapshot.faulty_at(&written.key).is_none());
        let mut all: Vec<&WrittenObject> = good.chain(faulty).collect();
        all.sort_by(|left, right| left.key.id.cmp(&right.key.id));
        all
    }

    /// The digest of the set in force, if it has one.
    pub(crate) fn digest(&self) -> Option<&str> {
        self.configs.digest(self.changed)
    }

    /// When the set was changed last, in seconds since the Unix epoch.
    pub(crate) fn last_modified_s(&self) -> Option<u64> {
        match (self.digest(), self.changed) {
            (Some(_), _) => Some(self.configs.last_modified_s),
            (None, Some((_, at_ms))) => Some(at_ms / 1000),
            (None, None) => None,
        }
    }

    /// The revision in force.
    pub fn revision(&self) -> u64 {
        self.snapshot.revision()
    }
}

/// The view that is current, shared by all readers.
#[derive(Debug, Clone, Default)]
pub struct SharedView {
    current: Arc<RwLock<Arc<View>>>,
}

impl SharedView {
    /// The view as it is now; it stays as it is while it is held.
    pub fn load(&self) -> Arc<View> {
        Arc::clone(&self.current.read())
    }

    /// Replaces the view for later loads.
    pub(crate) fn store(&self, view: View) {
        let old = std::mem::replace(&mut *self.current.write(), Arc::new(view));
        // Dropped outside the lock, because the last holder of a large snapshot spends the time to free it.
        drop(old);
    }
}

//! A small control side: objects with the id 1 that are checked and compiled one after another.

use super::*;
use crate::compile::CompileFault;
use crate::runtime::Runtime;

/// The objects so far and the compiler that has seen all of them.
pub(super) struct Control {
    catalog: PluginCatalog,
    compiler: SnapshotCompiler,
    snapshot: Snapshot,
}

impl Control {
    pub(super) fn new() -> Control {
        let catalog = PluginCatalog::new(
            KINDS.iter().map(|kind| PluginInfo::new(kind.name, 1, (kind.schema)())).collect(),
        );
        let services = Arc::new(exchange::testing::services());
        let compiler =
            SnapshotCompiler::new(KINDS, router::Mode::default(), AttemptTimeouts::default(), services);
        Control { catalog: catalog.unwrap(), compiler, snapshot: Snapshot::empty() }
    }

    /// Writes an object under this revision; the runtime then, and the faults.
    pub(super) fn apply(
        &mut self,
        revision: u64,
        kind: ObjectKind,
        value: &Value,
    ) -> (Arc<Runtime>, Vec<CompileFault>) {
        let key = ObjectKey::new(kind, "1").unwrap();
        let text = value.to_string().into();
        let written = WrittenObject { key: key.clone(), text, created_index: 1, modified_index: revision };
        let change = SnapshotChange { key, written: Some(written) };
        let applied = self.snapshot.apply(&self.catalog, &[change], revision, FaultPolicy::Strict);
        self.snapshot = applied.snapshot.clone();
        self.compiler.apply(&applied)
    }
}

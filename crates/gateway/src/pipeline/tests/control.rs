//! A small control side: objects with the id 1 that are checked and compiled one after another.

use super::*;
use crate::compile::CompileFault;
use crate::runtime::Runtime;

/// The objects so far and the compiler that has seen all of them.
pub(super) struct Control {
    catalog: Catalog,
    compiler: Compiler,
    snapshot: Snapshot,
}

impl Control {
    pub(super) fn new() -> Control {
        let catalog =
            Catalog::new(KINDS.iter().map(|kind| PluginInfo::new(kind.name, 1, (kind.schema)())).collect());
        let services = Arc::new(exchange::testing::services());
        let compiler = Compiler::new(KINDS, router::Mode::default(), Timeouts::default(), services);
        Control { catalog: catalog.unwrap(), compiler, snapshot: Snapshot::empty() }
    }

    /// Writes an object under this revision; the runtime then, and the faults.
    pub(super) fn apply(
        &mut self,
        revision: u64,
        kind: Kind,
        value: &Value,
    ) -> (Arc<Runtime>, Vec<CompileFault>) {
        let key = Key::new(kind, "1").unwrap();
        let text = value.to_string().into();
        let written = Written { key: key.clone(), text, created_index: 1, modified_index: revision };
        let change = Change { key, written: Some(written) };
        let applied = self.snapshot.apply(&self.catalog, &[change], revision, Policy::Strict);
        self.snapshot = applied.snapshot.clone();
        self.compiler.apply(&applied)
    }
}

//! The chain of the global rules: all of them together, each plugin once.

use model::Kind;
use model::snapshot::Snapshot;

use super::Compiler;
use crate::failure::Cause;
use crate::runtime::Missing;

impl Compiler {
    /// Compiles all global rules anew; there are few of them.
    pub(super) fn compile_global(&mut self, snapshot: &Snapshot) {
        let mut rules: Vec<_> = snapshot.iter(Kind::GlobalRule).cloned().collect();
        rules.sort_by(|a, b| a.key().cmp(b.key()));
        let mut instances = Vec::new();
        self.current.global_missing = None;
        for (rule, plugin) in model::merge::global_plugins(rules.iter().map(|rule| rule.resource.plugins())) {
            let key = rules[rule].key();
            match self.instance(snapshot, key, &plugin.name, &plugin.config) {
                Ok(instance) => instances.extend(instance),
                // What a global rule protects must not be served without it.
                Err(reason) => {
                    self.current.global_missing = Some(Missing::new(Cause::PluginFailed, reason.clone()));
                    self.fault(key, reason);
                }
            }
        }
        self.current.global = self.sharing.chain(instances);
    }
}

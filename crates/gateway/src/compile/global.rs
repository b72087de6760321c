//! The chain of the global rules: all of them together, each plugin once.

use std::sync::Arc;

use model::Kind;
use model::snapshot::Snapshot;

use super::Compiler;
use crate::plugin::chain::Chain;

impl Compiler {
    /// Compiles all global rules anew; there are few of them.
    pub(super) fn compile_global(&mut self, snapshot: &Snapshot) {
        let mut rules: Vec<_> = snapshot.iter(Kind::GlobalRule).cloned().collect();
        rules.sort_by(|a, b| a.key().cmp(b.key()));
        let mut instances = Vec::new();
        for (rule, plugin) in model::merge::global_plugins(rules.iter().map(|rule| rule.resource.plugins())) {
            let key = rules[rule].key();
            match self.instance(snapshot, key, &plugin.name, &plugin.config) {
                Ok(instance) => instances.extend(instance),
                Err(reason) => self.fault(key, reason),
            }
        }
        self.current.global = Arc::new(Chain::new(instances));
    }
}

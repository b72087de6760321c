//! Compiles changes that are not saved on top of a generation, to explain what they would do. The generation,
//! the state of its upstreams and that of its plugins stay untouched; what is compiled here is freed with the
//! answer. The values behind references to secrets are not used, because the author of the changes need not
//! be allowed to see them.

use std::sync::Arc;

use model::secret_reference::SecretValues;
use model::snapshot::Applied;
use router::Mode;
use stdx::hash::FastMap;

use super::SnapshotCompiler;
use super::extension::FixedExtensions;
use crate::runtime::Runtime;
use exchange::options::AttemptTimeouts;
use exchange::plugin::PluginKind;
use exchange::plugin::scripts::Scripts;
use exchange::plugin::services::Services;
use exchange::plugin::state::StateRegistry;
use exchange::plugin::stream::protocol::ProtocolKind;

/// Numbers of plugin instances of trials begin here, so that none is that of an instance in force.
const INSTANCES_FROM: u32 = 1 << 31;

/// The parts of a compiler that trials need.
pub struct Trial {
    kinds: FastMap<&'static str, &'static PluginKind>,
    fixed: FixedExtensions,
    states: Arc<StateRegistry>,
    services: Arc<Services>,
    secrets: Arc<dyn SecretValues>,
    scripts: Option<Arc<dyn Scripts>>,
    protocols: &'static [&'static ProtocolKind],
    default_timeouts: AttemptTimeouts,
    zone: Option<Box<str>>,
}

impl SnapshotCompiler {
    /// The parts of this compiler that trials are compiled with.
    pub fn trial(&self) -> Trial {
        Trial {
            kinds: self.kinds.clone(),
            fixed: self.fixed.clone(),
            states: self.states.clone(),
            services: self.services.clone(),
            secrets: self.secrets.clone(),
            scripts: self.scripts.clone(),
            protocols: self.protocols,
            default_timeouts: self.default_timeouts,
            zone: self.zone.clone(),
        }
    }
}

impl Trial {
    /// The generation `runtime` with the changes of `applied`. Names of new nodes are looked up, because the
    /// answer names the addresses.
    ///
    /// # Errors
    /// A changed object that cannot be compiled, as a sentence.
    pub fn apply(&self, runtime: &Runtime, applied: &Applied) -> Result<Arc<Runtime>, String> {
        let services = Arc::new(self.services.apart());
        // The mode is that of the router of `runtime`, which replaces this one.
        let mut compiler = SnapshotCompiler::new(&[], Mode::default(), self.default_timeouts, services);
        compiler.kinds.clone_from(&self.kinds);
        compiler.fixed.clone_from(&self.fixed);
        compiler.states = Arc::new(StateRegistry::over(self.states.clone()));
        compiler.secrets = self.secrets.clone();
        compiler.scripts.clone_from(&self.scripts);
        compiler.protocols = self.protocols;
        compiler.zone.clone_from(&self.zone);
        compiler.current = runtime.clone();
        compiler.is_trial = true;
        compiler.next_instance = INSTANCES_FROM;
        let (runtime, faults) = compiler.apply(applied);
        match faults.into_iter().next() {
            Some(fault) => Err(format!("{} cannot be compiled: {}", fault.key.path(), fault.reason)),
            None => Ok(runtime),
        }
    }
}

//! The facts of the running process for plugins that show them. It knows no plugin.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use model::instance::{ConnectionCounts, Connections, InstanceInfo};

/// See the module. There are none until the instance serves, and no counts while it ends.
#[derive(Default)]
pub struct ProcessFacts {
    info: OnceLock<Arc<InstanceInfo>>,
    connections: OnceLock<Weak<dyn Connections>>,
}

impl ProcessFacts {
    /// Shows these facts from now on. Later calls have no effect. `connections` is not kept alive.
    pub fn serve(&self, info: Arc<InstanceInfo>, connections: &Arc<dyn Connections>) {
        let _ = self.info.set(info);
        let _ = self.connections.set(Arc::downgrade(connections));
    }

    /// The identity of the process.
    pub fn info(&self) -> Option<&Arc<InstanceInfo>> {
        self.info.get()
    }

    /// Its connections now.
    pub fn connections(&self) -> Option<ConnectionCounts> {
        Some(self.connections.get()?.upgrade()?.connections())
    }
}

impl fmt::Debug for ProcessFacts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProcessFacts")
    }
}

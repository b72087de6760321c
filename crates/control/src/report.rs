//! The running gateway as control sees it: the traits that boot fills in, in one place. It refuses to know who
//! implements them.

use std::sync::Arc;

use model::report::{Explain, Listening, LogLevel, MetricsText, NodeHealth, Readiness, WorkerRevisions};

/// What boot hands to control so that it can tell others how the gateway is.
#[derive(Clone)]
pub struct Reports {
    /// Which revision each worker runs.
    pub workers: Arc<dyn WorkerRevisions>,
    /// The text of a metrics scrape.
    pub metrics: Arc<dyn MetricsText>,
    /// The health of upstream nodes.
    pub health: Arc<dyn NodeHealth>,
    /// Whether the gateway can take traffic.
    pub readiness: Arc<dyn Readiness>,
    /// What the node listens on.
    pub listening: Arc<dyn Listening>,
    /// What the router would do with a request; none where that cannot be asked.
    pub explain: Option<Arc<dyn Explain>>,
    /// How much the node's own log tells; none where that cannot be changed.
    pub log_level: Option<Arc<dyn LogLevel>>,
}

impl std::fmt::Debug for Reports {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reports")
    }
}

//! The running gateway as control sees it: the traits that boot fills in, in one place. It knows no
//! implementation.

use std::sync::Arc;

use model::instance::InstanceInfo;
use model::report::{
    Certificates, EndpointResponder, Explain, Listening, LogLevel, MetricsText, NodeHealth, Readiness,
    Traffic, UpstreamNodes, WorkerRevisions,
};

use crate::tap::TapHub;

/// The reports that boot passes to control, so that it can show the state of the gateway.
#[derive(Clone)]
pub struct Reports {
    /// The identity of the process.
    pub instance: Arc<InstanceInfo>,
    /// The revision that each worker runs.
    pub workers: Arc<dyn WorkerRevisions>,
    /// The text of a metrics scrape.
    pub metrics: Arc<dyn MetricsText>,
    /// The health of upstream nodes.
    pub health: Arc<dyn NodeHealth>,
    /// The upstreams in force.
    pub upstreams: Arc<dyn UpstreamNodes>,
    /// Whether the gateway can take traffic.
    pub readiness: Arc<dyn Readiness>,
    /// The listeners of the instance.
    pub listening: Arc<dyn Listening>,
    /// The certificates that clients are shown.
    pub certificates: Arc<dyn Certificates>,
    /// The router's decision on a request; none where that cannot be asked.
    pub explain: Option<Arc<dyn Explain>>,
    /// The endpoints of loaded code in the control API; none where no code runs.
    pub endpoints: Option<Arc<dyn EndpointResponder>>,
    /// The level of the instance's own log; none where it cannot be changed.
    pub log_level: Option<Arc<dyn LogLevel>>,
    /// The rates of traffic; none where they are not measured.
    pub traffic: Option<Arc<dyn Traffic>>,
    /// The records of single requests; none where they are not kept.
    pub tap: Option<TapHub>,
}

impl std::fmt::Debug for Reports {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reports")
    }
}

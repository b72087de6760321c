//! Counters of the health checks of the process: checks by result, and nodes that went down or came up.

use std::sync::atomic::{AtomicU64, Ordering};

use stdx::prometheus_text::{header, sample};

use super::rules::Observation;

/// The checks that an observation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckSource {
    /// Checks that ask the nodes.
    Active,
    /// Requests of clients.
    Passive,
}

impl CheckSource {
    const ALL: [CheckSource; 2] = [CheckSource::Active, CheckSource::Passive];

    /// The name used in logs and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            CheckSource::Active => "active",
            CheckSource::Passive => "passive",
        }
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct HealthCounts {
    /// By source, then nodes that came up and that went down.
    turns: [[AtomicU64; 2]; 2],
    /// Active checks by [`RESULTS`].
    checks: [AtomicU64; RESULTS.len()],
}

/// The results of active checks, as metrics name them; the last one is a check that this machine could not
/// make.
const RESULTS: [&str; 5] = ["response", "bad_response", "tcp_failure", "timeout", "not_made"];

impl HealthCounts {
    /// Counts a node that went down or came up.
    pub(crate) fn turned(&self, source: CheckSource, is_down: bool) {
        self.turns[source as usize][usize::from(is_down)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an active check; none for one that could not be made.
    pub(crate) fn checked(&self, observation: Option<Observation>) {
        let result = match observation {
            Some(Observation::Status(_) | Observation::Success) => 0,
            Some(Observation::BadResponse) => 1,
            Some(Observation::TcpFailure) => 2,
            Some(Observation::Timeout) => 3,
            None => 4,
        };
        self.checks[result].fetch_add(1, Ordering::Relaxed);
    }

    /// Appends the counters in the Prometheus text format.
    pub(crate) fn write_metrics(&self, text: &mut String) {
        let name = "weir_health_transitions_total";
        header(text, name, "counter", "Nodes that health checks took out or let in again, by kind of check.");
        for source in CheckSource::ALL {
            for (to, is_down) in [("healthy", false), ("unhealthy", true)] {
                let count = self.turns[source as usize][usize::from(is_down)].load(Ordering::Relaxed);
                sample(text, name, &[("check", &source.as_str()), ("to", &to)], count);
            }
        }
        let name = "weir_health_checks_total";
        header(text, name, "counter", "Active health checks by result.");
        for (result, count) in RESULTS.iter().zip(&self.checks) {
            sample(text, name, &[("result", result)], count.load(Ordering::Relaxed));
        }
    }
}

//! The conditions under which a circuit opens, and the one that opened it.

use std::fmt;

/// When a circuit opens, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct CircuitRules {
    /// So many failures without a success in between open it; 0: their number does not matter.
    pub consecutive_failures: u32,
    /// A share of failures opens it.
    pub failure_rate: Option<FailureRate>,
    /// How many probes are let through, all of which have to succeed; at least 1.
    pub half_open_requests: u32,
    /// For how long the first opening in a row lasts, in milliseconds.
    pub base_open_ms: u64,
    /// The longest opening, in milliseconds.
    pub max_open_ms: u64,
}

/// A share of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureRate {
    /// Failures in a hundred requests.
    pub percent: u32,
    /// Fewer requests in the window are not judged.
    pub min_requests: u32,
    /// The window, in milliseconds.
    pub window_ms: u64,
}

/// Why a circuit opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitOpenReason {
    /// So many failures without a success in between.
    ConsecutiveFailures(u32),
    /// So many percent of so many requests failed.
    FailureRate {
        /// Failures in a hundred requests.
        percent: u32,
        /// The requests of the window.
        requests: u32,
    },
    /// Responses take so many times as long as those of the other nodes; the latency in milliseconds.
    Latency(u64),
    /// A probe failed.
    ProbeFailed,
}

impl fmt::Display for CircuitOpenReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CircuitOpenReason::ConsecutiveFailures(count) => write!(formatter, "{count} failures in a row"),
            CircuitOpenReason::FailureRate { percent, requests } => {
                write!(formatter, "{percent} % of {requests} requests failed")
            }
            CircuitOpenReason::Latency(ms) => {
                write!(formatter, "a mean latency of {ms} ms, far above the other nodes")
            }
            CircuitOpenReason::ProbeFailed => formatter.write_str("a probe failed"),
        }
    }
}

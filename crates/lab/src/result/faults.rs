//! The result of `weir lab faults`: the requests and the traffic of every run. It computes nothing.

use serde::{Deserialize, Serialize};

use super::PeriodOutcome;
use crate::faults::EndpointFault;

/// The runs with faulty endpoints.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FaultResults {
    /// Length of each fault in seconds.
    pub fault_seconds: f64,
    /// Connections of the load generator.
    pub connections: u32,
    /// Requests that were due in a second.
    pub rate: f64,
    /// The contender with the lowest capacity, from which the rate was made; absent if the rate was
    /// requested.
    pub rate_from: Option<String>,
    /// Time after which a client gives a request up, in milliseconds.
    pub timeout_ms: u64,
    /// The runs, in the order of the measurement.
    pub runs: Vec<FaultRun>,
}

/// The settings with which a contender meets faulty endpoints (`$PROTECTION` of its start script).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// The program's own defaults
    Default,
    /// The settings for failing endpoints that its documentation describes
    Recommended,
}

impl Protection {
    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Protection::Default => "default",
            Protection::Recommended => "recommended",
        }
    }
}

/// One contender with one fault.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FaultRun {
    /// The fault.
    pub fault: EndpointFault,
    /// The contender's name.
    pub contender: String,
    /// Its settings.
    pub protection: Protection,
    /// Why there is no result, if there is none.
    pub absent: Option<String>,
    /// The requests due before, during and after the fault; empty without a result.
    pub phases: Vec<PeriodOutcome>,
    /// The traffic of the endpoint with the fault; absent for restarts.
    pub faulty: Option<FaultyTraffic>,
    /// Requests that the load generator could not keep in memory; they are in no phase.
    pub unsent: u64,
    /// The first failure of each kind, in words.
    pub notes: Vec<String>,
}

/// The traffic of an endpoint with a fault.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct FaultyTraffic {
    /// Requests that it received after the first second of the fault and before its end. Of an endpoint with
    /// a closed port, connections that the machine refused in this time, health checks included.
    pub late_requests: u64,
    /// Seconds from the beginning of the fault until the endpoint had less than a tenth of its even share of
    /// the traffic. Absent if it had more in the last second of the fault.
    pub off_after_s: Option<f64>,
    /// Seconds from the end of the fault until the endpoint had half of its even share. Absent if it never
    /// had.
    pub back_after_s: Option<f64>,
}

//! The result of a run: every measured number, and all their conditions. It computes nothing; other modules
//! make medians, ratios and verdicts from it, so that they can be made again from a stored file.

mod faults;

use serde::{Deserialize, Serialize};

pub use faults::{FaultResults, FaultRun, FaultyTraffic, Protection};

use crate::contender::Definition;
use crate::scenario::Scenario;

/// The format's number; a reader refuses others.
pub const FORMAT: u32 = 1;

/// One run of the laboratory. Stored as JSON while it grows, so that an interrupted run keeps its finished
/// part.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RunReport {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of the program that measured.
    pub weir: String,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The command that repeats it.
    pub command: String,
    /// Whether it was interrupted; the parts here were measured completely.
    pub interrupted: bool,
    /// The machine it ran on.
    pub machine: Machine,
    /// All contenders of the run, absent ones included.
    pub contenders: Vec<ContenderFacts>,
    /// The measured scenarios, in the order of the run.
    pub scenarios: Vec<ScenarioResult>,
    /// The runs with faulty endpoints, of `weir lab faults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultResults>,
}

/// The machine that a figure depends on, besides the programs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// The processor's own name.
    pub cpu: String,
    /// Cores this run could use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The distribution's name and version.
    pub system: String,
    /// Cores of the gateway; empty if nothing was pinned.
    pub gateway_cores: Vec<usize>,
    /// Cores of the load generator; empty if nothing was pinned.
    pub load_cores: Vec<usize>,
    /// Cores of the origin; empty if nothing was pinned.
    pub origin_cores: Vec<usize>,
    /// Conditions that make this machine a poor place to measure on, in plain sentences.
    pub warnings: Vec<String>,
}

/// A contender of a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ContenderFacts {
    /// The description in its folder.
    pub definition: Definition,
    /// The version that the program itself prints.
    pub version: Option<String>,
    /// Why it could not take part at all, if it could not.
    pub absent: Option<String>,
}

/// One scenario of a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ScenarioResult {
    /// The scenario.
    pub scenario: Scenario,
    /// The command that repeats this scenario alone.
    pub command: String,
    /// The contender that the others are compared with, if it took part.
    pub baseline: Option<String>,
    /// The results, one for each contender.
    pub contenders: Vec<ContenderResult>,
    /// Notes for the user, in plain sentences.
    pub notes: Vec<String>,
}

/// One contender in one scenario.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ContenderResult {
    /// The contender's name.
    pub name: String,
    /// Why it did not take part, or the error with which it dropped out.
    pub absent: Option<String>,
    /// The warm-up; its failures count.
    pub warm_up: Option<WarmUp>,
    /// The measured rounds, in order. A contender that dropped out has fewer.
    pub runs: Vec<MeasuredRun>,
}

/// The sums of all warm-ups.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct WarmUp {
    /// Its length in seconds.
    pub seconds: f64,
    /// Responses.
    pub requests: u64,
    /// Failed responses and connections.
    pub failures: Failures,
}

impl WarmUp {
    /// Adds another warm-up.
    pub fn add(&mut self, load: &LoadOutcome) {
        self.seconds += load.seconds;
        self.requests += load.requests;
        self.failures.add(load.failures);
    }
}

/// One measured run of one contender.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MeasuredRun {
    /// Counted from 0; runs of the same round of all contenders belong together.
    pub round: u32,
    /// The outcome seen by the load generator.
    pub load: LoadOutcome,
    /// The resources used by the contender's process tree.
    pub usage: Usage,
    /// Length of the turns that the contenders of the round took, in milliseconds; absent if each was
    /// measured alone. With turns, figures of the clock are not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_ms: Option<u64>,
}

/// The outcome of a load generator. `weir lab load` prints it as JSON; the reports of other tools are
/// converted into it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LoadOutcome {
    /// Length in seconds, by the tool's clock.
    pub seconds: f64,
    /// Complete responses, failures by status or content included.
    pub requests: u64,
    /// Failures by kind.
    pub failures: Failures,
    /// Responses per second.
    pub requests_per_second: f64,
    /// Bytes read in a second, heads included.
    pub bytes_per_second: f64,
    /// From when a request was due (open loop) or sent (closed loop) until its response was complete.
    pub latency: Latency,
    /// Responses per second, one number for each `series_interval_ms`; empty if the tool does not report it.
    pub requests_per_second_series: Vec<f64>,
    /// Length of one step of the series.
    pub series_interval_ms: u64,
    /// Requests that were due and never sent, in an open loop: the load generator was at its limit.
    pub unsent: u64,
    /// CPU of the load generator per response, user and system, in microseconds.
    pub cpu_us_per_request: f64,
    /// Handshakes of TLS by kind; absent without TLS, and if the tool does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<Handshakes>,
    /// The first failure of each kind in words, and what else the tool says of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Handshakes of TLS by kind.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Handshakes {
    /// With a certificate and its signature.
    pub full: u64,
    /// By a ticket of a session before.
    pub resumed: u64,
}

/// Failures by kind.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Failures {
    /// Connections refused or not made in time, or made with another kind of TLS handshake than asked for.
    pub connect: u64,
    /// Connections that broke during a request.
    pub broken: u64,
    /// Requests without a response in time.
    pub timeout: u64,
    /// Responses with another status.
    pub status: u64,
    /// Responses with another length or other bytes, and bytes that are not HTTP.
    pub content: u64,
}

impl LoadOutcome {
    /// Removes the figures of the clock, because they are invalid for a load generator that was stopped
    /// between its turns.
    pub fn forget_the_clock(&mut self) {
        (self.requests_per_second, self.bytes_per_second, self.series_interval_ms) = (0.0, 0.0, 0);
        self.requests_per_second_series.clear();
        self.latency = Latency::default();
    }
}

impl Failures {
    /// The sum of all failures.
    pub fn all(&self) -> u64 {
        self.connect + self.broken + self.timeout + self.status + self.content
    }

    /// Adds other failures.
    pub fn add(&mut self, other: Self) {
        self.connect += other.connect;
        self.broken += other.broken;
        self.timeout += other.timeout;
        self.status += other.status;
        self.content += other.content;
    }
}

/// The requests of an open loop that were due in one period.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PeriodOutcome {
    /// Length of the period in seconds.
    pub seconds: f64,
    /// Requests that were due.
    pub requests: u64,
    /// Those without a good response, by kind.
    pub failures: Failures,
    /// From when a request was due until its response was complete or the client gave it up.
    pub latency: Latency,
}

/// Latencies in milliseconds; `None` if the tool does not report them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Latency {
    /// Whether latency is measured from when a request was due, not from when it was sent, so that stalls are
    /// not hidden.
    pub from_due_time: bool,
    /// The mean.
    pub mean_ms: Option<f64>,
    /// Half of all latencies are below.
    pub p50_ms: Option<f64>,
    /// 75 % of all latencies are below.
    pub p75_ms: Option<f64>,
    /// 90 % of all latencies are below.
    pub p90_ms: Option<f64>,
    /// 99 % of all latencies are below.
    pub p99_ms: Option<f64>,
    /// 99.9 % of all latencies are below.
    pub p99_9_ms: Option<f64>,
    /// The longest.
    pub max_ms: Option<f64>,
}

/// Resources used by the contender's process tree during a run: CPU and switches of the whole run, like the
/// responses; the busy share of cores without the run's edges, when connections are opened and closed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Usage {
    /// Length of the accounted time, in seconds.
    pub seconds: f64,
    /// CPU per response in user space, in microseconds. The kernel samples the split into user and system.
    pub user_us_per_request: f64,
    /// CPU per response in the kernel, in microseconds.
    pub system_us_per_request: f64,
    /// Context switches per response because a thread waited.
    pub voluntary_switches_per_request: f64,
    /// Context switches per response because another thread was scheduled.
    pub involuntary_switches_per_request: f64,
    /// Memory at the end, pages that processes share counted once (PSS), in bytes.
    pub pss_bytes: u64,
    /// Resident memory at the end, in bytes.
    pub rss_bytes: u64,
    /// Number of the contender's cores; 0 if nothing was pinned.
    pub cores: usize,
    /// Busy time of these cores, in percent of one core; `None` if nothing was pinned.
    pub cores_busy_percent: Option<f64>,
    /// The contender's own part of the busy time, in percent of one core.
    pub own_percent: f64,
}

impl Usage {
    /// CPU per response, in microseconds.
    pub fn cpu_us_per_request(&self) -> f64 {
        self.user_us_per_request + self.system_us_per_request
    }
}

//! What a run leaves: every measured number, and all that they depend on. It computes nothing; medians, ratios and
//! verdicts are made from it elsewhere, so that they can be made again from a kept file.

use serde::{Deserialize, Serialize};

use crate::contender::Definition;
use crate::scenario::Scenario;

/// The format's number; a reader refuses others.
pub const FORMAT: u32 = 1;

/// One run of the laboratory. Kept as JSON while it grows, so that an interrupted run leaves what it has.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Report {
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
    /// It was ended before its time; what is here was measured in full.
    pub interrupted: bool,
    /// Where it ran.
    pub machine: Machine,
    /// Everyone who was to be asked, absent ones included.
    pub contenders: Vec<ContenderFacts>,
    /// What was measured, in the order of the run.
    pub scenarios: Vec<ScenarioResult>,
}

/// What a figure depends on besides the programs.
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
    /// Cores of the gateway, of the load generator, of the origin; empty where nothing was pinned.
    pub gateway_cores: Vec<usize>,
    /// See `gateway_cores`.
    pub load_cores: Vec<usize>,
    /// See `gateway_cores`.
    pub origin_cores: Vec<usize>,
    /// What makes this machine a poor place to measure on, in plain sentences.
    pub warnings: Vec<String>,
}

/// A contender of a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ContenderFacts {
    /// What its folder says.
    pub definition: Definition,
    /// What the program itself says of its version.
    pub version: Option<String>,
    /// Why it could not be asked at all, where it could not.
    pub absent: Option<String>,
}

/// One scenario of a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ScenarioResult {
    /// What was asked.
    pub scenario: Scenario,
    /// The command that repeats this scenario alone.
    pub command: String,
    /// The contender that the others are compared with, where it took part.
    pub baseline: Option<String>,
    /// What was measured, one for each contender.
    pub contenders: Vec<ContenderResult>,
    /// What a reader should know, in plain sentences.
    pub notes: Vec<String>,
}

/// One contender in one scenario.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ContenderResult {
    /// The contender's name.
    pub name: String,
    /// Why it did not take part, or with which error it dropped out.
    pub absent: Option<String>,
    /// The warming up, apart; its failures count.
    pub warm_up: Option<WarmUp>,
    /// The measured rounds, in order. A contender that dropped out has fewer.
    pub runs: Vec<Run>,
}

/// What warming up took, every time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct WarmUp {
    /// Its length in seconds.
    pub seconds: f64,
    /// Answers.
    pub requests: u64,
    /// Answers and connections that went wrong.
    pub failures: Failures,
}

impl WarmUp {
    /// Once more.
    pub fn add(&mut self, load: &LoadOutcome) {
        self.seconds += load.seconds;
        self.requests += load.requests;
        self.failures.add(load.failures);
    }
}

/// One measured run of one contender.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Run {
    /// Counted from 0; runs of the same round of all contenders belong together.
    pub round: u32,
    /// What the load generator saw.
    pub load: LoadOutcome,
    /// What the contender's process tree took.
    pub usage: Usage,
    /// Length of the turns that the contenders of the round took, in milliseconds; absent where each was measured alone.
    /// Nothing that a clock measured is told then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_ms: Option<u64>,
}

/// What a load generator saw. `weir lab load` prints it as JSON; the reports of other tools are read into it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LoadOutcome {
    /// Length in seconds, by the tool's clock.
    pub seconds: f64,
    /// Whole answers, failures by status or content included.
    pub requests: u64,
    /// What went wrong, by kind.
    pub failures: Failures,
    /// Answers in a second.
    pub requests_per_second: f64,
    /// Bytes read in a second, heads included.
    pub bytes_per_second: f64,
    /// From when a request was due (open loop) or sent (closed loop) until its answer was whole.
    pub latency: Latency,
    /// Answers in a second, one number for each `series_interval_ms`; empty where the tool does not tell.
    pub requests_per_second_series: Vec<f64>,
    /// Length of one step of the series.
    pub series_interval_ms: u64,
    /// Requests that were due and never sent, in an open loop: the load generator was at its limit.
    pub unsent: u64,
    /// CPU of the load generator per answer, user and system, in microseconds.
    pub cpu_us_per_request: f64,
    /// The first failure of each kind in words, and what else the tool says of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What went wrong, by kind.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Failures {
    /// Connections refused or not made in time.
    pub connect: u64,
    /// Connections that broke under a request.
    pub broken: u64,
    /// Requests without an answer in time.
    pub timeout: u64,
    /// Answers with another status.
    pub status: u64,
    /// Answers with another length or other bytes, and what is no HTTP.
    pub content: u64,
}

impl LoadOutcome {
    /// Takes out what a clock measured: a load generator that was held up between its turns was measuring that.
    pub fn forget_the_clock(&mut self) {
        (self.requests_per_second, self.bytes_per_second, self.series_interval_ms) = (0.0, 0.0, 0);
        self.requests_per_second_series.clear();
        self.latency = Latency::default();
    }
}

impl Failures {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.connect + self.broken + self.timeout + self.status + self.content
    }

    /// And these.
    pub fn add(&mut self, other: Self) {
        self.connect += other.connect;
        self.broken += other.broken;
        self.timeout += other.timeout;
        self.status += other.status;
        self.content += other.content;
    }
}

/// Latencies in milliseconds; `None` where the tool does not tell.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Latency {
    /// Measured from when a request was due, not from when it was sent: stalls are not hidden.
    pub from_due_time: bool,
    /// The mean.
    pub mean_ms: Option<f64>,
    /// Half of all are below.
    pub p50_ms: Option<f64>,
    /// Likewise.
    pub p75_ms: Option<f64>,
    /// Likewise.
    pub p90_ms: Option<f64>,
    /// Likewise.
    pub p99_ms: Option<f64>,
    /// Likewise.
    pub p99_9_ms: Option<f64>,
    /// The longest.
    pub max_ms: Option<f64>,
}

/// What the contender's process tree took during a run: CPU and switches of the whole run, as the answers are; the busy
/// share of cores without the run's edges, when connections are opened and closed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Usage {
    /// Length of what was accounted, in seconds.
    pub seconds: f64,
    /// CPU per answer in user space, in microseconds. The kernel samples how CPU divides into user and system.
    pub user_us_per_request: f64,
    /// CPU per answer in the kernel, in microseconds.
    pub system_us_per_request: f64,
    /// Switches per answer because it waited.
    pub voluntary_switches_per_request: f64,
    /// Switches per answer because another one was let run.
    pub involuntary_switches_per_request: f64,
    /// Memory at the end, pages that processes share counted once (PSS), in bytes.
    pub pss_bytes: u64,
    /// Resident memory at the end, in bytes.
    pub rss_bytes: u64,
    /// How many cores were the contender's; 0 where nothing was pinned.
    pub cores: usize,
    /// How busy they were, in percent of one core; `None` where nothing was pinned.
    pub cores_busy_percent: Option<f64>,
    /// How much of that was the contender's own, in percent of one core.
    pub own_percent: f64,
}

impl Usage {
    /// CPU per answer, in microseconds.
    pub fn cpu_us_per_request(&self) -> f64 {
        self.user_us_per_request + self.system_us_per_request
    }
}

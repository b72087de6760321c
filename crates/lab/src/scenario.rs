//! The form of a scenario file: one load, the same for every contender. It starts nothing and reads no clock.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::yaml;

/// One load. Its file is `lab/scenarios/NAME.yaml`; an unknown key is refused.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name without its ending; not written in the file.
    #[serde(default)]
    pub name: String,
    /// One line for headings: "21 bytes, kept connections, 100 at once".
    pub title: String,
    /// The purpose, or the published test that it repeats, in one or two sentences.
    pub about: String,
    /// The protocol of clients and gateway.
    #[serde(default)]
    pub protocol: Protocol,
    /// The load generator and its requests.
    pub load: Load,
    /// Only these contenders, by name; all that speak the protocol if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contenders: Option<Vec<String>>,
    /// Workers (threads, event loops, processes) of each gateway.
    #[serde(default = "one")]
    pub workers: u16,
    /// The contender that others are compared with; `nginx` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Routes that a gateway has beside the measured ones. A contender that cannot be given them is absent.
    #[serde(default)]
    pub routes: u32,
    /// Connections that are open and idle beside the load.
    #[serde(default)]
    pub idle_connections: u32,
    /// Slow clients beside the load.
    #[serde(default)]
    pub slow_clients: u32,
    /// Changes of the configuration per second while the load runs. A contender that cannot change is absent.
    #[serde(default)]
    pub changes_per_second: f64,
    /// Whether all contenders run and receive load at once, competing for the machine.
    #[serde(default)]
    pub together: bool,
    /// Length of one measured run in seconds; the command line's or the default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Measured rounds; the command line's or the default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Whether it is part of `--quick`.
    #[serde(default)]
    pub quick: bool,
}

/// The protocol of clients and gateway; the origin always speaks HTTP/1.1, or echoes frames for WebSocket.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1 or 1.0 in clear text.
    #[default]
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// HTTP/2 over TLS.
    Http2,
    /// WebSocket over HTTP/1.1 in clear text.
    Websocket,
}

impl Protocol {
    /// The name in files and start scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Http2 => "http2",
            Self::Websocket => "websocket",
        }
    }
}

/// The load generator and its requests.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The program.
    pub tool: Tool,
    /// Path and query of every request; see `weir origin` for the responses.
    #[serde(default = "small_path")]
    pub path: String,
    /// Connections (`-c`).
    pub connections: u32,
    /// Threads of the load generator (`-t` of wrk and h2load); `ab` has one.
    #[serde(default = "one")]
    pub threads: u16,
    /// Whether connections are kept; otherwise each carries one request.
    #[serde(default = "yes")]
    pub keep_alive: bool,
    /// This many requests instead of a time (`ab -n`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Open loop: this many requests are due per second, whatever the responses do. Only `weir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Open loop at this share of the slowest contender's throughput. Only `weir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_share: Option<f64>,
    /// Requests are POSTs with a body of this many bytes. Only `weir`.
    #[serde(default)]
    pub body_bytes: u64,
    /// Streams of one HTTP/2 connection (`-m` of h2load).
    #[serde(default = "one")]
    pub streams: u16,
    /// The expected response.
    #[serde(default)]
    pub expect: Expect,
}

/// A load generator.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// wrk, closed loop.
    Wrk,
    /// ApacheBench, closed loop, HTTP/1.0.
    Ab,
    /// h2load of nghttp2, closed loop.
    H2load,
    /// The generator of this crate, `weir lab load`.
    Weir,
}

/// The expected response; any other is a failure.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Its status.
    pub status: u16,
    /// The length of its body; not compared if absent (and by tools that cannot).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// One response in so many is allowed to be a 500, from an origin that fails (`/flaky/N`); 0 for none.
    pub failing_one_in: u32,
}

impl Default for Expect {
    fn default() -> Self {
        Self { status: 200, bytes: None, failing_one_in: 0 }
    }
}

fn one() -> u16 {
    1
}

fn yes() -> bool {
    true
}

fn small_path() -> String {
    "/checked-out".to_owned()
}

impl Scenario {
    /// Reads one file's text; `name` is the file's name without its ending. Fails with line and reason.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        Self::parse_file(name, &format!("{name}.yaml"), text)
    }

    /// As [`Self::parse`]; `file` is the name of the file in a fault.
    pub fn parse_file(name: &str, file: &str, text: &str) -> anyhow::Result<Self> {
        let mut scenario: Self = yaml::read(file, text)?;
        name.clone_into(&mut scenario.name);
        scenario.check().with_context(|| file.to_owned())?;
        Ok(scenario)
    }

    /// Whether contenders can take turns in it: nothing in it depends on the clock, or runs beside the load.
    pub fn can_take_turns(&self) -> bool {
        let paced = self.load.rate.is_some() || self.load.rate_share.is_some();
        let beside = self.idle_connections > 0 || self.slow_clients > 0 || self.changes_per_second > 0.0;
        !paced && !beside && !self.together
    }

    /// Checks the rules that the types cannot express.
    fn check(&self) -> anyhow::Result<()> {
        let load = &self.load;
        if load.connections == 0 || self.workers == 0 || load.threads == 0 {
            bail!("`connections`, `threads` and `workers` are at least 1");
        }
        if (load.rate.is_some() || load.rate_share.is_some() || load.body_bytes > 0)
            && load.tool != Tool::Weir
        {
            bail!("`rate`, `rate_share` and `body_bytes` need `tool: weir`: {:?} cannot", load.tool);
        }
        if self.protocol == Protocol::Http2 && load.tool != Tool::H2load {
            bail!("`protocol: http2` needs `tool: h2load`");
        }
        if self.protocol == Protocol::Websocket && load.tool != Tool::Weir {
            bail!("`protocol: websocket` needs `tool: weir`");
        }
        Ok(())
    }
}

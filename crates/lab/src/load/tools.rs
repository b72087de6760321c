//! The load generators that a scenario may name: their command lines, and the parsers of their reports. A
//! figure that a tool does not report stays absent. Nothing is started here.

mod ab;
mod h2load;
mod number;
pub(crate) mod own;
mod wrk;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;

use super::expect::allowed_failing;
use crate::result::LoadOutcome;
use crate::scenario::{ScenarioLoad, ScenarioProtocol, Tool};

/// One run of a load generator.
#[derive(Clone, Copy, Debug)]
pub struct ToolRun<'a> {
    /// The load of the scenario. A `rate_share` has become a `rate`.
    pub load: &'a ScenarioLoad,
    /// The protocol of the clients.
    pub protocol: ScenarioProtocol,
    /// The address of the server.
    pub address: SocketAddr,
    /// Length of the run, unless the scenario has a number of requests.
    pub seconds: f64,
    /// The path of this program, which is one of the load generators.
    pub weir: &'a Path,
}

/// The name of a tool's program.
pub fn tool_program_name(tool: Tool) -> &'static str {
    match tool {
        Tool::Wrk => "wrk",
        Tool::Ab => "ab",
        Tool::H2load => "h2load",
        Tool::Weir => "weir lab load",
    }
}

/// The command line. Fails if the tool does not support the scenario.
pub fn build_tool_command(asked: &ToolRun<'_>) -> anyhow::Result<Vec<String>> {
    match asked.load.tool {
        Tool::Wrk => wrk::build_wrk_command(asked),
        Tool::Ab => ab::build_ab_command(asked),
        Tool::H2load => h2load::build_h2load_command(asked),
        Tool::Weir => own::build_own_command(asked),
    }
}

/// Parses its report. Fails with its last line if that is no report.
pub fn parse_tool_report(load: &ScenarioLoad, output: &str) -> anyhow::Result<LoadOutcome> {
    let mut outcome = match load.tool {
        Tool::Wrk => wrk::parse_wrk_report(output),
        Tool::Ab => ab::parse_ab_report(output, load.expect.bytes),
        Tool::H2load => h2load::parse_h2load_report(output, load),
        // It has judged its responses itself.
        Tool::Weir => return own::parse_own_report(output),
    }?;
    if load.expect.failing_one_in > 0 {
        let allowed = allowed_failing(outcome.requests, load.expect.failing_one_in);
        outcome.failures.status = outcome.failures.status.saturating_sub(allowed);
    }
    Ok(outcome)
}

/// The time after which the tool counts as hung and is ended: some gateways never answer `ab`'s HTTP/1.0.
pub fn longest(asked: &ToolRun<'_>) -> Duration {
    let seconds = asked.seconds.clamp(0.0, LONGEST_SECONDS);
    let planned = match asked.load.requests {
        Some(requests) => seconds.max(requests as f64 / SLOWEST_PER_SECOND).min(LONGEST_SECONDS),
        None => seconds,
    };
    Duration::from_secs_f64(planned) + SPARE
}

impl ToolRun<'_> {
    /// The URL for a tool that supports these protocols.
    fn url(&self, tool: &str, spoken: &[ScenarioProtocol]) -> anyhow::Result<String> {
        if !spoken.contains(&self.protocol) {
            bail!("{tool} does not speak {:?}: name another tool in the scenario", self.protocol);
        }
        let scheme = match self.protocol {
            ScenarioProtocol::Http
            | ScenarioProtocol::Websocket
            | ScenarioProtocol::H2c
            | ScenarioProtocol::Grpc => "http",
            ScenarioProtocol::Https | ScenarioProtocol::Http2 | ScenarioProtocol::Http3 => "https",
            ScenarioProtocol::Tcp | ScenarioProtocol::TlsByName => {
                return Ok(format!("tcp://{}", self.address));
            }
            ScenarioProtocol::Udp => return Ok(format!("udp://{}", self.address)),
        };
        Ok(format!("{scheme}://{}{}", self.address, self.load.path))
    }

    /// Refuses loads of h2load and of the generator of this crate.
    fn is_plain(&self, tool: &str) -> anyhow::Result<()> {
        let load = self.load;
        if load.rate.is_some() || load.rate_share.is_some() || load.body_bytes > 0 {
            bail!("{tool} knows neither a rate nor bodies: write `tool: weir`");
        }
        Ok(())
    }
}

/// The last line of a program's output, for an error.
fn last_line(output: &str) -> &str {
    output.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing")
}

/// Speed for which the limit of a number of requests is computed.
const SLOWEST_PER_SECOND: f64 = 200.0;
/// Additional time for connecting, a last timeout and the report.
const SPARE: Duration = Duration::from_secs(20);
const LONGEST_SECONDS: f64 = 1e7;

#[cfg(test)]
mod tests;

//! The load generators that a scenario may name: how each is called, and how its report is read. Each is driven as it is;
//! what it cannot tell stays untold. Nothing is started here.

mod ab;
mod h2load;
mod number;
mod own;
mod wrk;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;

use super::expect::allowed_failing;
use crate::result::LoadOutcome;
use crate::scenario::{Load, Protocol, Tool};

/// One run that a load generator is to make.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What the scenario says. A `rate_share` has become a `rate`.
    pub load: &'a Load,
    /// What is spoken.
    pub protocol: Protocol,
    /// Who is asked.
    pub address: SocketAddr,
    /// How long, unless the scenario has a number of requests.
    pub seconds: f64,
    /// This program, which is one of the load generators.
    pub weir: &'a Path,
}

/// The name of the program that does it.
pub fn program(tool: Tool) -> &'static str {
    match tool {
        Tool::Wrk => "wrk",
        Tool::Ab => "ab",
        Tool::H2load => "h2load",
        Tool::Weir => "weir lab load",
    }
}

/// The words that start it. Fails where the tool cannot do what the scenario says.
pub fn command(asked: &Asked<'_>) -> anyhow::Result<Vec<String>> {
    match asked.load.tool {
        Tool::Wrk => wrk::command(asked),
        Tool::Ab => ab::command(asked),
        Tool::H2load => h2load::command(asked),
        Tool::Weir => own::command(asked),
    }
}

/// What its report says. Fails, with its last line, where that is no report.
pub fn read(load: &Load, output: &str) -> anyhow::Result<LoadOutcome> {
    let mut outcome = match load.tool {
        Tool::Wrk => wrk::read(output),
        Tool::Ab => ab::read(output, load.expect.bytes),
        Tool::H2load => h2load::read(output),
        // It has judged its answers itself.
        Tool::Weir => return own::read(output),
    }?;
    if load.expect.failing_one_in > 0 {
        let allowed = allowed_failing(outcome.requests, load.expect.failing_one_in);
        outcome.failures.status = outcome.failures.status.saturating_sub(allowed);
    }
    Ok(outcome)
}

/// Beyond this time it hangs, and is to be ended: some gateways never answer `ab`'s HTTP/1.0.
pub fn longest(asked: &Asked<'_>) -> Duration {
    let seconds = asked.seconds.clamp(0.0, LONGEST_SECONDS);
    let planned = match asked.load.requests {
        Some(requests) => seconds.max(requests as f64 / SLOWEST_PER_SECOND).min(LONGEST_SECONDS),
        None => seconds,
    };
    Duration::from_secs_f64(planned) + SPARE
}

impl Asked<'_> {
    /// The URL in the words of a tool that speaks these.
    fn url(&self, tool: &str, spoken: &[Protocol]) -> anyhow::Result<String> {
        if !spoken.contains(&self.protocol) {
            bail!("{tool} does not speak {:?}: name another tool in the scenario", self.protocol);
        }
        let scheme = match self.protocol {
            Protocol::Http | Protocol::Websocket => "http",
            Protocol::Https | Protocol::Http2 => "https",
        };
        Ok(format!("{scheme}://{}{}", self.address, self.load.path))
    }

    /// Refuses what only the generator of this crate can.
    fn is_plain(&self, tool: &str) -> anyhow::Result<()> {
        let load = self.load;
        if load.rate.is_some() || load.rate_share.is_some() || load.body_bytes > 0 {
            bail!("{tool} knows neither a rate nor bodies: write `tool: weir`");
        }
        Ok(())
    }
}

/// What a program said last, for an error.
fn last_line(output: &str) -> &str {
    output.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing")
}

/// A number of requests takes no longer than at this speed, or nobody would wait for it.
const SLOWEST_PER_SECOND: f64 = 200.0;
/// For connecting, a last timeout and the report.
const SPARE: Duration = Duration::from_secs(20);
const LONGEST_SECONDS: f64 = 1e7;

#[cfg(test)]
mod tests;

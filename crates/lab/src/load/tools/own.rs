//! The load generator of this crate, started like the others, so that it is pinned and accounted for like
//! them.

use anyhow::{Context, bail};

use super::{ToolRun, last_line};
use crate::result::LoadOutcome;
use crate::scenario::ScenarioProtocol;

pub(super) fn build_own_command(asked: &ToolRun<'_>) -> anyhow::Result<Vec<String>> {
    let load = asked.load;
    if load.rate.is_none() && load.rate_share.is_some() {
        bail!("`rate_share` is a share of something that was not measured before");
    }
    let url = asked.url("weir lab load", SPOKEN)?;
    let mut words = vec![asked.weir.display().to_string()];
    words.extend(["lab", "load", "--json"].map(str::to_owned));
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("--connections", load.connections.to_string());
    option("--threads", u32::from(load.threads).min(load.connections).to_string());
    match load.requests {
        Some(requests) => option("--requests", requests.to_string()),
        None => option("--seconds", asked.seconds.to_string()),
    }
    if let Some(rate) = load.rate {
        option("--rate", rate.to_string());
    }
    if load.body_bytes > 0 {
        option("--body-bytes", load.body_bytes.to_string());
    }
    if let Some(at_once) = load.at_once {
        option("--at-once", at_once.to_string());
    }
    if asked.protocol == ScenarioProtocol::TlsByName {
        option("--server-name", SERVER_NAME.to_owned());
    }
    option("--expect-status", load.expect.status.to_string());
    if let Some(bytes) = load.expect.bytes {
        option("--expect-bytes", bytes.to_string());
    }
    if load.expect.failing_one_in > 0 {
        option("--expect-failing-one-in", load.expect.failing_one_in.to_string());
    }
    // A connection with a ClientHello ends after it.
    if !load.keep_alive && asked.protocol != ScenarioProtocol::TlsByName {
        words.push("--close".to_owned());
    }
    if asked.protocol == ScenarioProtocol::Http3 {
        words.extend(["--http3".to_owned(), "--streams".to_owned(), load.streams.to_string()]);
    }
    if load.resume {
        words.push("--resume".to_owned());
    }
    if let Some(version) = load.tls_version {
        words.extend(["--tls-version".to_owned(), version.name().to_owned()]);
    }
    if load.bulk {
        words.push("--bulk".to_owned());
    }
    if asked.protocol == ScenarioProtocol::Websocket {
        words.push("--websocket".to_owned());
    }
    words.push(url);
    Ok(words)
}

/// The protocols that it speaks.
const SPOKEN: &[ScenarioProtocol] = &[
    ScenarioProtocol::Http,
    ScenarioProtocol::Https,
    ScenarioProtocol::Http3,
    ScenarioProtocol::Websocket,
    ScenarioProtocol::Tcp,
    ScenarioProtocol::Udp,
    ScenarioProtocol::TlsByName,
];
/// The name that clients ask for where the gateway chooses by it; start scripts have it in `lib.sh`.
pub(crate) const SERVER_NAME: &str = "origin.lab.example";

pub(super) fn parse_own_report(output: &str) -> anyhow::Result<LoadOutcome> {
    let Some(line) = output.lines().rev().find(|line| line.starts_with('{')) else {
        bail!("weir lab load gave no report; it said last: {}", last_line(output));
    };
    serde_json::from_str(line).context("the report of weir lab load cannot be read")
}

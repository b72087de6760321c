//! `weir upstreams`: the upstreams in force and the state of their nodes, from the control API of the running
//! instance. Decides nothing itself.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueHint;
use serde::Deserialize;
use serde_json::Value;

use super::run::settings_file;
use crate::admin_client::{address_of, is_in_environment, running_on};
use crate::ask::{InstanceRequest, RequestFailure, ask_instance};
use crate::settings::{SETTINGS, SettingLocation, Settings, WrittenSettings};
use crate::terminal::{Paint, print};

/// List the upstreams with their nodes, and why a node is not used
///
/// Asks the instance that runs on the data folder through its control API. A node is `usable`, `unhealthy`
/// (taken out by health checks) or `ejected` (taken out as an outlier).
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct UpstreamsArguments {
    /// Show this upstream only: ID of an upstream, or upstreams/ID, routes/ID, services/ID
    #[arg(value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Settings file (YAML) of the instance
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, env = "WEIR_CONFIG", hide_env_values = true)]
    config: Option<OsString>,
    /// Control API of the instance to ask [default: that of the instance on the data folder, else as in its
    /// settings]
    #[arg(long, value_name = "ADDR", conflicts_with = "data")]
    control: Option<String>,
    /// Data folder of the instance
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    data: Option<String>,
}

/// The name as a path; characters that would end a request line are refused.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%#[]'$,:@".contains(&byte);
    let name = text.trim_start_matches('/');
    match !name.is_empty() && name.bytes().all(is_plain) {
        true => Ok(name.replace('#', "%23")),
        false => Err("write the id of an upstream, or upstreams/ID, routes/ID or services/ID".to_owned()),
    }
}

/// The JSON of one upstream.
#[derive(Debug, Deserialize)]
struct UpstreamListing {
    name: String,
    #[serde(rename = "type")]
    method: String,
    scheme: String,
    checks: Option<String>,
    note: Option<String>,
    nodes: Vec<UpstreamNode>,
}

#[derive(Debug, Deserialize)]
struct UpstreamNode {
    address: String,
    host: String,
    weight: u64,
    priority: i64,
    state: String,
    in_flight: u64,
    ewma_ms: Option<f64>,
    unhealthy: Option<Transition>,
    ejected: Option<Transition>,
    health: Option<HealthCounters>,
}

#[derive(Debug, Deserialize)]
struct Transition {
    since: String,
    why: String,
}

#[derive(Debug, Deserialize)]
struct HealthCounters {
    status: String,
    success: u32,
    http_failure: u32,
    tcp_failure: u32,
    timeout_failure: u32,
}

/// Asks, and prints the answer.
pub(crate) fn execute_upstreams(arguments: &UpstreamsArguments) -> anyhow::Result<ExitCode> {
    let answer = answer(arguments)?;
    if arguments.json {
        print(serde_json::to_string_pretty(&answer)?);
        return Ok(ExitCode::SUCCESS);
    }
    let listed = answer.get("list").cloned().unwrap_or_else(|| Value::Array(vec![answer.clone()]));
    let upstreams: Vec<UpstreamListing> = serde_json::from_value(listed)
        .context("the instance answered in a form this version does not know; see it with `--json`")?;
    print(render(&upstreams, Paint::for_stdout()).trim_end());
    let total = answer.get("total").and_then(Value::as_u64).unwrap_or_default();
    if total > upstreams.len() as u64 {
        print(format_args!("the first {} of {total} upstreams; name the one that is meant", upstreams.len()));
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(arguments: &UpstreamsArguments) -> anyhow::Result<Value> {
    let settings = settings(arguments)?;
    let is_given = arguments.control.is_some() || arguments.data.is_none() && is_in_environment("control");
    let running = if is_given { None } else { running_on(&settings.data) };
    let Some(control) = address_of(running.as_ref(), "control", &settings, settings.control)? else {
        bail!("this instance has no control API: its setting `control` is off");
    };
    let target = match &arguments.name {
        Some(name) => format!("/v1/weir/upstreams/{name}"),
        None => "/v1/weir/upstreams".to_owned(),
    };
    ask_control(control, &target)
}

fn ask_control(control: SocketAddr, target: &str) -> anyhow::Result<Value> {
    let question =
        InstanceRequest { method: "GET", target, fields: &[], body: "", patience: PATIENCE, tls: None };
    match ask_instance(control, &question) {
        Ok(answer) if answer.status == 200 => {
            answer.body.map_err(|_| anyhow::anyhow!("the instance at {control}: its answer is not JSON"))
        }
        Ok(answer) => bail!("the instance at {control}: {}", answer.reason()),
        Err(RequestFailure::NotThere(error)) => bail!(
            "no instance answers at {control}: {error}; name its control API with --control, see the line `listening \
             control` of its output"
        ),
        Err(RequestFailure::Refused(reason)) => bail!(reason),
    }
}

fn settings(arguments: &UpstreamsArguments) -> anyhow::Result<Settings> {
    let config = settings_file(arguments.config.clone());
    let mut flags = WrittenSettings::default();
    for (name, value) in [("control", &arguments.control), ("data", &arguments.data)] {
        let setting = SETTINGS.iter().find(|setting| setting.name == name).expect("a setting of that name");
        if let Some(value) = value {
            flags.insert(setting, vec![value.clone()], SettingLocation::Flag);
        }
    }
    Ok(Settings::load(config.as_deref(), std::env::vars_os(), flags)?.settings)
}

/// A table of all nodes; each upstream is a line above its nodes.
fn render(upstreams: &[UpstreamListing], paint: Paint) -> String {
    let nodes = || upstreams.iter().flat_map(|upstream| &upstream.nodes);
    let width = |text: fn(&UpstreamNode) -> &str, least: usize| {
        nodes().map(|node| text(node).len()).fold(least, usize::max)
    };
    let (address, host) = (width(|node| &node.address, 4), width(|node| &node.host, 4));
    let heading = format!(
        "  {:<address$}  {:<host$}  WEIGHT  PRIORITY  IN FLIGHT  EWMA MS  STATE      HEALTH",
        "NODE", "HOST"
    );
    let mut text = format!("{}\n", paint.faint(&heading));
    for upstream in upstreams {
        let UpstreamListing { name, method, scheme, checks, note, .. } = upstream;
        let checks = checks.as_ref().map(|checks| format!(", {checks} checks")).unwrap_or_default();
        text.push_str(&format!("{name}  {method}, {scheme}{checks}\n"));
        for node in &upstream.nodes {
            let UpstreamNode { weight, priority, state, in_flight, .. } = node;
            let ewma = node.ewma_ms.map_or_else(|| "-".to_owned(), |ewma| format!("{ewma:.1}"));
            let padded = format!("{state:<9}");
            let state = if state == "usable" { padded } else { paint.bad(&padded) };
            let (written, named, health) = (&node.address, &node.host, health(node));
            text.push_str(&format!(
                "  {written:<address$}  {named:<host$}  {weight:>6}  {priority:>8}  {in_flight:>9}  {ewma:>7}  {state}  \
                 {health}\n"
            ));
            for Transition { since, why } in node.unhealthy.iter().chain(&node.ejected) {
                text.push_str(&format!("      since {since}: {why}\n"));
            }
        }
        if let Some(note) = note {
            text.push_str(&format!("      {note}\n"));
        }
    }
    text
}

/// The verdict of the checks, with the counters that are not zero.
fn health(node: &UpstreamNode) -> String {
    let Some(health) = &node.health else { return "-".to_owned() };
    let counts = [
        (health.success, "successes"),
        (health.http_failure, "HTTP failures"),
        (health.tcp_failure, "TCP failures"),
        (health.timeout_failure, "timeouts"),
    ];
    let parts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{what} {count}"))
        .collect();
    match parts.is_empty() {
        true => health.status.clone(),
        false => format!("{} ({})", health.status, parts.join(", ")),
    }
}

/// An instance answers in milliseconds; one that is stuck never does.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_without_white_space() {
        for (text, expected) in [("1", Some("1")), ("/routes/r", Some("routes/r")), ("a b", None), ("", None)]
        {
            assert_eq!(name(text).ok().as_deref(), expected, "{text}");
        }
    }
}

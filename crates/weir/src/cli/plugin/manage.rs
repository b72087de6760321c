//! `weir plugin list|activate|rollback|canary|remove`: the plugins of the running instance and the versions
//! that serve.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::push::{parse_percent, refused};
use crate::admin_client::NodeArguments;
use crate::ask::InstanceResponse;
use crate::terminal::{Paint, print};

/// Characters of a version that are shown: enough to tell ten versions apart.
const SHOWN_CHARS: usize = 12;

/// List the plugins of the running instance, or the versions of one
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ListArguments {
    /// Plugin of which the versions are listed
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// Let a version serve all requests
///
/// The beginning of a version is enough, six characters at least.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ActivateArguments {
    /// Plugin
    #[arg(value_name = "NAME")]
    name: String,
    /// Version, as `weir plugin list NAME` shows it
    #[arg(value_name = "VERSION")]
    version: String,
    #[command(flatten)]
    node: NodeArguments,
}

/// Let the version serve again that was active before
///
/// A canary ends. Going back can be gone back from.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PluginRollbackArguments {
    /// Plugin
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    node: NodeArguments,
}

/// Let a version serve a share of the requests, or end that
///
/// A request is served by one version from its beginning to its end.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CanaryArguments {
    /// Plugin
    #[arg(value_name = "NAME")]
    name: String,
    /// Version, as `weir plugin list NAME` shows it
    #[arg(value_name = "VERSION", required_unless_present = "end")]
    version: Option<String>,
    /// Share of the requests, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    percent: Option<f64>,
    /// Only requests for which this expression holds, such as '[["http_x_trial","==","1"]]'
    #[arg(long, value_name = "JSON")]
    vars: Option<String>,
    /// End the canary: the active version serves all requests
    #[arg(long, conflicts_with_all = ["version", "percent", "vars"])]
    end: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// Remove a plugin with all its versions
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RemoveArguments {
    /// Plugin
    #[arg(value_name = "NAME")]
    name: String,
    /// Also where objects have the plugin: their requests are then answered 503
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    node: NodeArguments,
}

pub(super) fn list_plugins(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let node = arguments.node.node()?;
    let target = match &arguments.name {
        Some(name) => format!("extensions/{name}/versions"),
        None => "extensions".to_owned(),
    };
    let answer = answered(node.ask_running("GET", &target, "")?)?;
    if arguments.json {
        print(serde_json::to_string_pretty(&answer)?);
        return Ok(ExitCode::SUCCESS);
    }
    let rows = answer["list"].as_array().cloned().unwrap_or_default();
    for row in &rows {
        match arguments.name {
            Some(_) => print(version_line(row)),
            None => print(plugin_line(&row["value"])),
        }
    }
    if rows.is_empty() {
        print("the instance has no plugins of its users");
    }
    Ok(ExitCode::SUCCESS)
}

fn version_line(row: &Value) -> String {
    let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let state = match &*text("state") {
        "" => "-".to_owned(),
        state => state.to_owned(),
    };
    let about = [text("author"), text("desc")].join("  ");
    format!("{:<SHOWN_CHARS$}  {state:<8}  {:>8}  {about}", short(&row["version"]), row["text_bytes"])
}

fn plugin_line(object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let versions = object["versions"].as_array().map_or(1, Vec::len);
    let canary = match &object["canary"] {
        Value::Null => String::new(),
        canary => {
            let share = canary["percent"].as_f64().unwrap_or(100.0);
            format!("  canary {} with {share} %", short(&canary["version"]))
        }
    };
    let off = if object["enabled"] == false { "  switched off" } else { "" };
    let active = if object["active"].is_null() { "the last".to_owned() } else { short(&object["active"]) };
    format!("{:<24}  {:<6}  active {active}  versions {versions}{canary}{off}", text("id"), text("language"))
}

pub(super) fn activate(arguments: &ActivateArguments) -> anyhow::Result<ExitCode> {
    let target = format!("extensions/{}/activate", arguments.name);
    let body = json!({ "version": arguments.version });
    change(&arguments.node, "PUT", &target, &body.to_string(), &arguments.name)
}

pub(super) fn rollback(arguments: &PluginRollbackArguments) -> anyhow::Result<ExitCode> {
    let target = format!("extensions/{}/rollback", arguments.name);
    change(&arguments.node, "POST", &target, "", &arguments.name)
}

pub(super) fn canary(arguments: &CanaryArguments) -> anyhow::Result<ExitCode> {
    let target = format!("extensions/{}/canary", arguments.name);
    let Some(version) = arguments.version.as_ref().filter(|_| !arguments.end) else {
        return change(&arguments.node, "DELETE", &target, "", &arguments.name);
    };
    let mut body = json!({ "version": version });
    if let Some(percent) = arguments.percent {
        body["percent"] = percent.into();
    }
    if let Some(vars) = &arguments.vars {
        let Ok(vars) = serde_json::from_str::<Value>(vars) else { bail!("--vars is no JSON: {vars}") };
        body["vars"] = vars;
    }
    change(&arguments.node, "PUT", &target, &body.to_string(), &arguments.name)
}

pub(super) fn remove(arguments: &RemoveArguments) -> anyhow::Result<ExitCode> {
    let target = format!("extensions/{}?force={}", arguments.name, arguments.force);
    answered(arguments.node.node()?.ask_running("DELETE", &target, "")?)?;
    print(format_args!("{} is gone", arguments.name));
    Ok(ExitCode::SUCCESS)
}

fn change(
    node: &NodeArguments,
    method: &str,
    target: &str,
    body: &str,
    name: &str,
) -> anyhow::Result<ExitCode> {
    let answer = answered(node.node()?.ask_running(method, target, body)?)?;
    let paint = Paint::for_stdout();
    let canary = match &answer["canary"] {
        Value::Null => String::new(),
        canary => format!(
            ", {} serves {} % of the requests",
            short(&canary["version"]),
            canary["percent"].as_f64().unwrap_or(100.0)
        ),
    };
    print(format_args!("version {} of {name} is active{canary}", paint.good(&short(&answer["active"]))));
    Ok(ExitCode::SUCCESS)
}

/// The beginning of a version.
pub(super) fn short(version: &Value) -> String {
    version.as_str().unwrap_or_default().chars().take(SHOWN_CHARS).collect()
}

/// The JSON of an answer of success.
///
/// # Errors
/// Any other answer, in the words of the instance.
pub(super) fn answered(mut answer: InstanceResponse) -> anyhow::Result<Value> {
    if answer.status == 201 {
        answer.status = 200;
    }
    if answer.status == 404 {
        return refused(&format!("the instance has no such plugin ({})", answer.reason()));
    }
    crate::admin_client::agreed(answer)
}

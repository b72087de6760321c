//! Plugins in other languages, through plugin runners of APISIX that the real gateway starts:
//! `ext-plugin-pre-req`, `ext-plugin-post-req`, `ext-plugin-post-resp`, and the process of the runner.

mod hostile;
mod process;
mod protocol;
mod runners;

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Client, Origin, Weir, WeirBuilder, wait_within};

use crate::support::BINARY;

/// A gateway that starts `command` as its runner.
fn builder(command: &[String]) -> WeirBuilder {
    Weir::builder(BINARY).arguments(&["--plugin-runner", &json!(command).to_string()])
}

/// A running gateway with a runner that takes calls.
fn start(command: &[String]) -> Weir {
    running(builder(command).start())
}

/// How long a runner may start: one in Java takes 12 seconds on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Waits until the runner takes calls.
fn running(weir: Weir) -> Weir {
    wait_within(START_LIMIT, "the runner takes calls", || {
        (runner(&weir)["state"] == "running").then_some(())
    });
    weir
}

/// The runner as the control API shows it.
fn runner(weir: &Weir) -> Value {
    Client::connect(weir.address("control")).get("/v1/plugin_runner").json()
}

/// A configuration of one external plugin.
fn conf(name: &str, value: &str) -> Value {
    json!({"conf": [{"name": name, "value": value}]})
}

fn route(origin: &Origin, uri: &str, plugins: Value) -> Value {
    json!({"uri": uri, "upstream": {"nodes": {origin.address().to_string(): 1}}, "plugins": plugins})
}

/// Whether a process is alive: a zombie counts as gone.
fn is_alive(process: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
}

fn process_of(weir: &Weir) -> u64 {
    runner(weir)["process"].as_u64().unwrap()
}

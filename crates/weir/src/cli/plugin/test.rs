//! `weir plugin test`: runs a plugin on written requests without an instance, prints what each phase changed,
//! and compares the outcome with what is expected.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueHint;
use exchange::plugin::services::Services;
use exchange::plugin::state::StateRegistry;
use exchange::testing::{Scene, build};
use model::extension::LoadedExtension;
use serde_json::{Value, json};

use super::file::{FileArguments, code, load_environment_settings};
use super::requests::{Expectation, RequestFile, WrittenRequest};
use super::stage::{PluginTrial, TrialOutcome};
use crate::boot;
use crate::terminal::{Paint, print};

/// Run a plugin on written requests and print what each phase changes
///
/// Needs no instance. The file of requests is YAML or JSON: a list of requests with `path`, `headers`,
/// `body`, the `response` of the upstream, and `expect`. Ends with exit code 1 if an outcome is not as
/// expected.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TestArguments {
    #[command(flatten)]
    file: FileArguments,
    /// Configuration of the plugin as JSON [default: that of the file of requests, else {}]
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
    /// File of requests [default: one GET of /]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    requests: Option<PathBuf>,
    /// Print only outcomes that are not as expected
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn execute_plugin_test(arguments: &TestArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.file.read()?;
    let requests = match &arguments.requests {
        Some(path) => {
            let about = || format!("{}", path.display());
            let text = std::fs::read_to_string(path).with_context(about)?;
            RequestFile::parse(&text).with_context(about)?
        }
        None => RequestFile::single(),
    };
    let given = arguments.config.as_deref().map(serde_json::from_str::<Value>).transpose();
    let given = given.context("--config is no JSON")?;
    let loaded = file.load()?;
    let plugin = LoadedExtension::new(loaded.clone(), None).plugin;
    let services = boot::services(&load_environment_settings()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let mut faults = 0;
    if !code(&loaded)?.extension.serves_http() {
        bail!(
            "{} serves sessions of layer 4 only, and this command makes requests; `weir plugin check` loads it",
            file.name
        );
    }
    for (index, request) in requests.requests.iter().enumerate() {
        let own = given.as_ref().or(request.config.as_ref()).or(requests.config.as_ref());
        let config = own.cloned().unwrap_or_else(|| json!({}));
        if let Some(reason) = plugin.first_fault(&config) {
            bail!("failed to check the configuration of plugin {} err: {reason}", file.name);
        }
        let trial = Trial { services: &services, config: &config, metadata: requests.metadata.as_ref() };
        let outcome = local.block_on(&runtime, trial.run(code(&loaded)?, request))?;
        let found = faults_of(&request.expect, &outcome);
        faults += usize::from(!found.is_empty());
        if !arguments.quiet || !found.is_empty() {
            show(index + 1, request, &outcome, &found);
        }
    }
    let count = requests.requests.len();
    let paint = Paint::for_stdout();
    if faults > 0 {
        print(paint.bad(&format!("{faults} of {count} requests are not as expected")));
        return Ok(ExitCode::FAILURE);
    }
    print(paint.good(&format!("{count} requests, all as expected")));
    Ok(ExitCode::SUCCESS)
}

/// The values that a plugin is built with for a request.
struct Trial<'t> {
    services: &'t Arc<Services>,
    config: &'t Value,
    metadata: Option<&'t Value>,
}

impl Trial<'_> {
    async fn run(
        &self,
        code: &exchange::plugin::extension_loader::LoadedCode,
        request: &WrittenRequest,
    ) -> anyhow::Result<TrialOutcome> {
        let states = StateRegistry::default();
        let build = build("/routes/1", self.metadata, &states, self.services);
        let plugin = code.extension.build(&build, self.config).map_err(anyhow::Error::msg)?;
        plugin.start();
        let mut scene = Scene::new();
        let stage = PluginTrial { plugin: &*plugin, phases: code.extension.phases() };
        let outcome = stage.run(&mut scene, request).await;
        plugin.stop();
        outcome
    }
}

fn show(number: usize, request: &WrittenRequest, outcome: &TrialOutcome, faults: &[String]) {
    let paint = Paint::for_stdout();
    let name = request.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    print(format_args!("{number}. {} {}{name}", request.method, request.path));
    for phase in &outcome.phases {
        let mut changes = phase.changes.iter();
        let first = changes.next().map_or("no change", String::as_str);
        print(format_args!("   {:<14} {first}", phase.phase));
        for change in changes {
            print(format_args!("   {:<14} {change}", ""));
        }
    }
    let source = if outcome.answered { "the plugin" } else { "the upstream" };
    print(format_args!("   {:<14} {} from {source}", "response", outcome.status));
    for fault in faults {
        print(format_args!("   {} {fault}", paint.bad("not as expected:")));
    }
}

/// The differences between an outcome and what is expected.
fn faults_of(expect: &Expectation, outcome: &TrialOutcome) -> Vec<String> {
    let mut faults = Vec::new();
    let mut compare = |what: &str, expected: Option<String>, found: String| {
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            faults.push(format!("{what}: expected {expected:?}, found {found:?}"));
        }
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    compare("status", expect.status.map(|status| status.to_string()), outcome.status.to_string());
    compare("answered", expect.answered.map(|answered| answered.to_string()), outcome.answered.to_string());
    compare("body", expect.body.clone(), text(&outcome.body));
    compare("upstream.path", expect.upstream.path.clone(), outcome.upstream_path.clone());
    compare("upstream.query", expect.upstream.query.clone(), outcome.upstream_query.clone());
    compare("upstream.body", expect.upstream.body.clone(), text(&outcome.upstream_body));
    if let Some(part) = &expect.body_contains
        && !text(&outcome.body).contains(part)
    {
        faults.push(format!("body: expected a part {part:?}, found {:?}", text(&outcome.body)));
    }
    compare_fields("headers", &expect.headers, &outcome.headers, &mut faults);
    compare_fields("upstream.headers", &expect.upstream.headers, &outcome.upstream_headers, &mut faults);
    faults
}

fn compare_fields(
    what: &str,
    expected: &BTreeMap<String, Option<String>>,
    lines: &[String],
    faults: &mut Vec<String>,
) {
    for (name, value) in expected {
        let found: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.split_once(": "))
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect();
        let is_expected = match value {
            Some(value) => found.contains(&value.as_str()),
            None => found.is_empty(),
        };
        if !is_expected {
            let expected = value.as_deref().unwrap_or("absence");
            faults.push(format!("{what} {name}: expected {expected:?}, found {found:?}"));
        }
    }
}

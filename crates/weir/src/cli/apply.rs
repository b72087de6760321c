//! `weir apply`: brings a resource file into force on the running instance, all of it or nothing.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use super::plan::{WholeSet, check_revision, faulty, print_plan};
use crate::admin_client::NodeArguments;
use crate::terminal::{Paint, print};

/// Bring a resources file into force, all of it or nothing
///
/// Shows what `weir plan` shows, then does it in one step: a request is served by the configuration before or
/// by the one after, and a crash leaves one of the two. The file is the whole: an object that it does not
/// name is deleted, unless `--keep-others` is given. If anybody changed the configuration meanwhile, nothing
/// is done. Prints the version that was made and the one to go back to with `weir rollback`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ApplyArguments {
    /// Resources file, YAML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Keep objects that the file does not name
    #[arg(long)]
    keep_others: bool,
    /// Apply only if this revision is in force: the one a plan was looked at for
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// Plans, shows the plan, applies it.
pub(crate) fn execute_apply(arguments: &ApplyArguments) -> anyhow::Result<ExitCode> {
    let node = arguments.node.node()?;
    let set = match WholeSet::read(&arguments.file, arguments.keep_others) {
        Ok(set) => set,
        Err(faults) => return Ok(faulty(&faults)),
    };
    let plan = match set.plan(node.ask_running("POST", &set.target("plan", &[]), &set.body)?)? {
        Ok(plan) => plan,
        Err(faults) => return Ok(faulty(&faults)),
    };
    let expect = check_revision(&plan, arguments.expect)?;
    if !arguments.json {
        print_plan(&plan);
    }
    let answer = node.ask_running("POST", &set.target("apply", &[("expect", expect)]), &set.body)?;
    match set.outcome(answer)? {
        Ok(outcome) if arguments.json => print(serde_json::to_string_pretty(&outcome)?),
        Ok(_) if plan.is_empty() => {}
        Ok(outcome) => done("applied", &outcome),
        Err(faults) => return Ok(faulty(&faults)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the revision that was made, and the one to go back to.
pub(super) fn done(what: &str, outcome: &Value) {
    let [version, before] = ["revision", "before"].map(|name| outcome[name].as_u64().unwrap_or_default());
    let message = format!("{what} as version {version}");
    print(format_args!("{}; to go back: weir rollback {before}", Paint::for_stdout().good(&message)));
}

//! `weir rollback`: brings an older revision into force on the running instance, as a new revision.

use std::process::ExitCode;

use control::plan::ConfigPlan;

use super::apply::done;
use super::plan::{check_revision, print_plan};
use crate::admin_client::{NodeArguments, agreed, decode_response};
use crate::terminal::print;

/// Bring an older version into force again
///
/// Shows what that changes, then does it in one step, as a new version: going back can be gone back from.
/// Objects come back as they were written then. A version with objects that could not be used now is refused,
/// unless `--force` is given.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RollbackArguments {
    /// Version to go back to, as `weir history` lists them
    #[arg(value_name = "VERSION")]
    version: u64,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Go back only if this revision is in force
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
    /// Take objects over that cannot be used: they are reported, and the rest is in force
    #[arg(long)]
    force: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// Plans, shows the plan, goes back.
pub(crate) fn execute_rollback(arguments: &RollbackArguments) -> anyhow::Result<ExitCode> {
    let node = arguments.node.node()?;
    let version = arguments.version;
    let plan: ConfigPlan =
        decode_response(node.ask_running("POST", &format!("weir/plan?to={version}"), "")?)?;
    let expect = check_revision(&plan, arguments.expect)?;
    match (arguments.json, arguments.dry_run) {
        (true, true) => print(serde_json::to_string_pretty(&plan)?),
        (true, false) => {}
        (false, _) => print_plan(&plan),
    }
    if arguments.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let target = format!("weir/rollback?to={version}&expect={expect}&force={}", arguments.force);
    let outcome = agreed(node.ask_running("POST", &target, "")?)?;
    if arguments.json {
        print(serde_json::to_string_pretty(&outcome)?);
    } else if !plan.is_empty() {
        done(&format!("version {version} is in force again,"), &outcome);
    }
    Ok(ExitCode::SUCCESS)
}

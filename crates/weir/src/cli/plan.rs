//! `weir plan`: the changes that a resource file would make. Changes nothing.

mod set;

use std::path::PathBuf;
use std::process::ExitCode;

use control::plan::ConfigPlan;

use crate::admin_client::{AdminOutcome, NodeArguments};
use crate::boot;
use crate::changes;
use crate::terminal::{Paint, print, print_error};

pub(super) use set::{WholeSet, check_revision};

/// Show what a resources file would change
///
/// Compares the file (the same as for `run --resources`) with what the instance on the data folder has in
/// force, object by object and field by field; where none runs, with what lies in that folder. Nothing is
/// changed. The file is the whole: an object that it does not name would be deleted, unless `--keep-others`
/// is given. Ends with 0 if there is no difference, with 3 if there is one, and with 1 if the file cannot be
/// used; its faults are told as `file:line: path: reason`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PlanArguments {
    /// Resources file, YAML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Keep objects that the file does not name
    #[arg(long)]
    keep_others: bool,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// Asks, and prints the answer.
pub(crate) fn execute_plan(arguments: &PlanArguments) -> anyhow::Result<ExitCode> {
    let node = arguments.node.node()?;
    let set = match WholeSet::read(&arguments.file, arguments.keep_others) {
        Ok(set) => set,
        Err(faults) => return Ok(faulty(&faults)),
    };
    let plan = match node.ask("POST", &set.target("plan", &[]), &set.body)? {
        AdminOutcome::Answered(answer) => set.plan(answer)?,
        AdminOutcome::Nobody => {
            print_error("no instance runs here; comparing with what lies in its data folder");
            boot::plan_offline(&node.settings, &set.document, arguments.keep_others)
                .map(|planned| planned.map_err(|faults| set.placed(&faults)))?
        }
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(faults) => return Ok(faulty(&faults)),
    };
    if arguments.json {
        print(serde_json::to_string_pretty(&plan)?);
    } else {
        print_plan(&plan);
    }
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}

/// Prints a plan as text.
pub(super) fn print_plan(plan: &ConfigPlan) {
    if plan.is_empty() {
        print(Paint::for_stdout().good("no difference"));
        return;
    }
    print(changes::render_changes(&plan.objects, Paint::for_stdout()));
    print(changes::counts(plan, ["to create", "to change", "to delete"]));
}

/// Prints faults, one per line, in the form that editors parse.
pub(super) fn faulty(faults: &[String]) -> ExitCode {
    faults.iter().for_each(print_error);
    ExitCode::FAILURE
}

/// Exit code of a difference; distinct from a failure (1) and a wrong command line (2).
const DIFFERS: u8 = 3;

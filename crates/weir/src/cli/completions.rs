//! `weir completions`: the completion script of a shell, made from the command line's own definition.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::terminal::print;

/// Print the completion script of a shell
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `command_line`.
pub(crate) fn execute_completions(
    arguments: &CompletionsArguments,
    command_line: &mut clap::Command,
) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    let name = command_line.get_name().to_owned();
    clap_complete::generate(arguments.shell, command_line, name, &mut script);
    print(String::from_utf8_lossy(&script).trim_end());
    Ok(ExitCode::SUCCESS)
}

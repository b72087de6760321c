//! The first step of a runner's process: this program, started a second time, ties itself to the instance and
//! becomes the runner. So no runner outlives an instance that was killed, without code between fork and exec.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The variable that asks for it: the id of the process that has started this one.
pub(super) const PARENT_VARIABLE: &str = "WEIR_PLUGIN_RUNNER_OF";
/// Exit code where the program of the runner cannot be started, as in shells.
const NOT_STARTED: u8 = 127;

/// Becomes the runner, if this process was started for that; comes back only with the exit code of a failure.
pub(crate) fn become_runner_if_asked() -> Option<ExitCode> {
    let parent = std::env::var(PARENT_VARIABLE).ok()?;
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next()?;
    // A variable that was inherited by some other process names a process that is not its parent.
    if getppid()?.as_raw_nonzero().get().to_string() != parent {
        return None;
    }
    Some(become_runner(&parent, program, arguments))
}

fn become_runner(parent: &str, program: OsString, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        crate::terminal::print_error(format_args!("the plugin runner is not tied to the gateway: {error}"));
    }
    // The parent may have ended before the signal was set.
    if getppid().is_none_or(|now| now.as_raw_nonzero().get().to_string() != parent) {
        return ExitCode::from(NOT_STARTED);
    }
    let mut command = Command::new(&program);
    command.args(arguments).env_remove(PARENT_VARIABLE);
    let error = command.exec();
    let program = program.to_string_lossy();
    crate::terminal::print_error(format_args!("the plugin runner {program} cannot be started: {error}"));
    ExitCode::from(NOT_STARTED)
}

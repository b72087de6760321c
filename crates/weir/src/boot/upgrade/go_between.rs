//! The process between an instance and its successor: it starts the successor and is ended when that serves.
//! Knows none of their messages.
//!
//! A service manager watches only its own children. systemd kills a main process that is the child of another
//! process at once instead of waiting for its drain, and does not start it again when it dies. A process
//! without a parent becomes a child of the manager, so the old process ends the go-between before it names
//! its successor. Until then the successor dies with the go-between, which is how an upgrade is taken back.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use anyhow::{Context, ensure};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::channel::{Channel, UpgradeMessage};
use super::executable::Executable;
use crate::settings::UPGRADE_VARIABLE;

/// The role of a process that was started for an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpgradeRole {
    /// Started by the old process; it starts the successor.
    GoBetween,
    /// Started by the go-between; it takes over.
    Successor,
}

/// The mark of the successor in [`UPGRADE_VARIABLE`], after the id of its parent.
const SUCCESSOR: &str = "/successor";

/// Offset of the exit code that reports a process ended by a signal, as in shells.
const SIGNAL_CODE: i32 = 128;

/// Acts as the go-between, if this process was started for that, and then does not return.
pub(in crate::boot) fn stand_if_asked() {
    if role() != Some(UpgradeRole::GoBetween) {
        return;
    }
    match stand() {
        Ok(code) => std::process::exit(code),
        Err(error) => {
            report(&error);
            std::process::exit(1);
        }
    }
}

/// Whether this process is a successor. If it is, it dies with its parent from then on, until [`part`].
///
/// # Errors
/// The parent has ended already, or `PR_SET_PDEATHSIG` failed.
pub(super) fn is_successor() -> anyhow::Result<bool> {
    if role() != Some(UpgradeRole::Successor) {
        return Ok(false);
    }
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot be tied to the old process")?;
    ensure!(role() == Some(UpgradeRole::Successor), "the old process has given up");
    Ok(true)
}

/// Stops the process from dying with its parent. To be called by the thread that called [`is_successor`].
pub(super) fn part() {
    // Cannot fail in practice, because the same call has set the signal before.
    if let Err(error) = set_parent_process_death_signal(None) {
        tracing::warn!(%error, "this process cannot be parted from the one that started it");
    }
}

/// The role of this process. A variable that was inherited from an earlier upgrade names a process that is
/// not the parent, and gives none.
fn role() -> Option<UpgradeRole> {
    let text = std::env::var(UPGRADE_VARIABLE).ok()?;
    let parent = getppid()?.as_raw_nonzero().get();
    meaning(&text, parent)
}

fn meaning(text: &str, parent: i32) -> Option<UpgradeRole> {
    let (named, role) = match text.strip_suffix(SUCCESSOR) {
        Some(named) => (named, UpgradeRole::Successor),
        None => (text, UpgradeRole::GoBetween),
    };
    (named.parse() == Ok(parent)).then_some(role)
}

/// Starts the successor with the channel to the old process as its standard input, waits for it, and gives
/// its exit code.
fn stand() -> anyhow::Result<i32> {
    let executable = Executable::of_this_process().context("cannot find the program of this process")?;
    let mut command: Command = executable.command();
    command.env(UPGRADE_VARIABLE, format!("{}{SUCCESSOR}", std::process::id()));
    let path = executable.path().display();
    let status = command.status().with_context(|| format!("cannot start {path} a second time"))?;
    Ok(status.code().or_else(|| Some(SIGNAL_CODE + status.signal()?)).unwrap_or(1))
}

/// Reports to the old process why there is no successor.
fn report(error: &anyhow::Error) {
    crate::terminal::print_error(format_args!("error: {error:#}"));
    if let Ok(line) = std::io::stdin().as_fd().try_clone_to_owned() {
        // Ignored, because an old process that has abandoned the upgrade has closed its end.
        let _ = Channel::from_descriptor(line)
            .send(&UpgradeMessage::Failed { reason: format!("{error:#}") }, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parent_gives_a_role() {
        for (text, role) in [
            ("7", Some(UpgradeRole::GoBetween)),
            ("7/successor", Some(UpgradeRole::Successor)),
            ("8", None),
            ("8/successor", None),
            ("", None),
            ("/successor", None),
            ("7/other", None),
        ] {
            assert_eq!(meaning(text, 7), role, "{text}");
        }
    }
}

//! The process between a node and its successor, which starts the successor and is gone when that serves. Refuses to
//! know what the two say to each other.
//!
//! A service manager watches its own children only. systemd kills a main process that is another one's child at once
//! instead of waiting for its drain, and does not start it again when it dies. What has lost its parent becomes a child of
//! the manager, so the old node ends the process in between before it names its successor. Until then the death of the
//! process in between is the successor's, too: that is how an upgrade is taken back.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use anyhow::{Context, ensure};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::channel::{Channel, Message};
use super::executable::Executable;
use crate::settings::UPGRADE_VARIABLE;

/// What a process that was started for an upgrade is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The old node has started it: it stands between.
    GoBetween,
    /// The process in between has started it: it takes over.
    Successor,
}

/// What marks the successor in [`UPGRADE_VARIABLE`], behind the id of its parent.
const SUCCESSOR: &str = "/successor";

/// How a process that ends by a signal is told of by its exit code, as shells do.
const SIGNAL_CODE: i32 = 128;

/// Stands between, if that is what this process was started for, and then does not return.
pub(in crate::boot) fn stand_if_asked() {
    if role() != Some(Role::GoBetween) {
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

/// Whether this process is to take over. From then on it dies with its parent, until [`part`].
///
/// # Errors
/// The parent has ended already, or the system cannot tie the two.
pub(super) fn is_successor() -> anyhow::Result<bool> {
    if role() != Some(Role::Successor) {
        return Ok(false);
    }
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot be tied to the old process")?;
    ensure!(role() == Some(Role::Successor), "the old process has given up");
    Ok(true)
}

/// Lives on without a parent from now on. To be called by the thread that called [`is_successor`].
pub(super) fn part() {
    // It was set, so it can be unset.
    if let Err(error) = set_parent_process_death_signal(None) {
        tracing::warn!(%error, "this process cannot be parted from the one that started it");
    }
}

/// A variable that outlived its purpose names a process that is not the parent.
fn role() -> Option<Role> {
    let text = std::env::var(UPGRADE_VARIABLE).ok()?;
    let parent = getppid()?.as_raw_nonzero().get();
    meaning(&text, parent)
}

fn meaning(text: &str, parent: i32) -> Option<Role> {
    let (named, role) = match text.strip_suffix(SUCCESSOR) {
        Some(named) => (named, Role::Successor),
        None => (text, Role::GoBetween),
    };
    (named.parse() == Ok(parent)).then_some(role)
}

/// Starts the successor, with the line to the old node as its standard input, and ends as it ends.
fn stand() -> anyhow::Result<i32> {
    let executable = Executable::of_this_process().context("cannot find the program of this process")?;
    let mut command: Command = executable.command();
    command.env(UPGRADE_VARIABLE, format!("{}{SUCCESSOR}", std::process::id()));
    let path = executable.path().display();
    let status = command.status().with_context(|| format!("cannot start {path} a second time"))?;
    Ok(status.code().or_else(|| Some(SIGNAL_CODE + status.signal()?)).unwrap_or(1))
}

/// Tells the old node why there is no successor.
fn report(error: &anyhow::Error) {
    crate::terminal::print_error(format_args!("error: {error:#}"));
    if let Ok(line) = std::io::stdin().as_fd().try_clone_to_owned() {
        // It has closed the line if it does not want to know.
        let _ = Channel::from_descriptor(line).send(&Message::Failed { reason: format!("{error:#}") }, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parent_gives_a_role() {
        for (text, role) in [
            ("7", Some(Role::GoBetween)),
            ("7/successor", Some(Role::Successor)),
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

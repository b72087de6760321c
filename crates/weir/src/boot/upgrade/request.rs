//! A request from a command to a running instance to upgrade itself: the instance is found by the lock of its
//! data folder and sent USR2, then the outcome is awaited. Starts nothing itself.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use control::source::store::DirectoryLock;
use rustix::process::{Pid, Signal, kill_process};

use super::outcome::{self, UpgradeOutcome};

/// How often the outcome file is read.
const POLL: Duration = Duration::from_millis(20);

/// An upgrade that was done.
pub(crate) struct Done {
    /// The process that was asked.
    pub(crate) from: u32,
    /// The process that serves now.
    pub(crate) to: u32,
    /// Its version.
    pub(crate) version: String,
}

/// Asks the instance on `data` to replace itself, and waits for the outcome.
///
/// # Errors
/// No instance runs there, it may not be signalled, or the upgrade failed; the instance then serves as
/// before.
pub(crate) fn request(data: &Path, wait: Duration) -> anyhow::Result<Done> {
    let shown = data.display();
    let Some(from) = DirectoryLock::holder(data)? else {
        bail!("no node runs on the data folder {shown}; name that of the node with `--data` or `--config`");
    };
    outcome::forget(data).with_context(|| format!("cannot write in {shown}"))?;
    let process = i32::try_from(from).ok().and_then(Pid::from_raw).context("the lock names no process")?;
    kill_process(process, Signal::USR2).with_context(|| format!("cannot send USR2 to process {from}"))?;
    let deadline = Instant::now() + wait;
    loop {
        match outcome::read_upgrade_outcome(data).with_context(|| format!("cannot read in {shown}"))? {
            // An outcome that names the asked process as the successor is that of the upgrade before.
            Some(UpgradeOutcome::HandedOver { to, version }) if to != from => {
                return Ok(Done { from, to, version });
            }
            Some(UpgradeOutcome::Failed { reason }) => bail!("process {from} goes on serving: {reason}"),
            Some(UpgradeOutcome::HandedOver { .. }) | None => {}
        }
        if DirectoryLock::holder(data)?.is_none() {
            bail!("process {from} has ended and none took over; its log says why");
        }
        if Instant::now() >= deadline {
            bail!("process {from} has told no outcome within {} seconds; its log says more", wait.as_secs());
        }
        std::thread::sleep(POLL);
    }
}

//! The lock of the data folder, and the message for a folder that cannot be written. Knows nothing of the folder's content.

use std::path::Path;

use control::source::store::DirectoryLock;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::lasting::Lasting;
use crate::settings::Settings;

/// Takes the lock of the data folder. In declarative mode several instances may share the folder: the lock then only
/// serves to find this instance, and a start without the lock is allowed.
///
/// # Errors
/// Another process has locked the folder, or the folder cannot be made.
pub(super) fn lock(settings: &Settings) -> anyhow::Result<Option<DirectoryLock>> {
    if settings.resources.is_none() {
        return Ok(Some(DirectoryLock::take(&settings.data)?));
    }
    if !settings.data.is_dir() {
        return Ok(None);
    }
    let lock = DirectoryLock::take(&settings.data);
    Ok(lock.inspect_err(|fault| tracing::info!(%fault, "`weir upgrade` will not find this node")).ok())
}

/// The error of a start on a data folder. If the folder cannot be written at all, it says so, with the way out for a
/// service of systemd (`INVOCATION_ID` is set) or for any other process.
pub(super) fn explained(settings: &Settings, error: anyhow::Error) -> anyhow::Error {
    let data = &settings.data;
    let Some(fault) = unwritable(data) else { return error };
    let shown = data.display();
    let advice = match std::env::var_os("INVOCATION_ID") {
        Some(_) => format!(
            "weir.service may write only the folders of its `StateDirectory` and `LogsDirectory`: write `data: \
             /var/lib/weir`, or give the unit this folder as well (`systemctl edit weir`, [Service], \
             ReadWritePaths={shown}) and its user the right to write there"
        ),
        None => "give the user of this process the right to write there, or name another folder with `--data` (`data` in \
                 the settings file)"
            .to_owned(),
    };
    error.context(Lasting(format!(
        "the data folder {shown} cannot be written ({}); {advice}",
        described(fault)
    )))
}

/// Why files cannot be made in `data`, or in the folder in which it would be made; none if they can.
fn unwritable(data: &Path) -> Option<Errno> {
    let data = std::path::absolute(data).ok()?;
    let existing = data.ancestors().find(|folder| folder.is_dir())?;
    access(existing, Access::WRITE_OK | Access::EXEC_OK).err()
}

fn described(fault: Errno) -> &'static str {
    match fault {
        Errno::ROFS => "it is mounted read-only",
        Errno::ACCESS => "permission denied",
        _ => "the system refuses it",
    }
}

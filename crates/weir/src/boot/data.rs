//! The lock of the data folder, and the message for a folder that cannot be written. Knows nothing of the
//! folder's content.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use control::source::store::DirectoryLock;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::lasting::Lasting;
use crate::settings::Settings;

/// Takes the lock of the data folder. In declarative mode several instances may share the folder: the lock
/// then only serves to find this instance, and a start without the lock is allowed.
///
/// # Errors
/// Another process has locked the folder, or the folder cannot be made.
pub(super) fn lock_data_folder(settings: &Settings) -> anyhow::Result<Option<DirectoryLock>> {
    warn_about_writers(&settings.data);
    if settings.resources.is_none() {
        return Ok(Some(DirectoryLock::take(&settings.data)?));
    }
    if !settings.data.is_dir() {
        return Ok(None);
    }
    let lock = DirectoryLock::take(&settings.data);
    Ok(lock.inspect_err(|fault| tracing::info!(%fault, "`weir upgrade` will not find this node")).ok())
}

/// Warns about a folder in which other users may replace files. It is no refusal, unlike that of a readable
/// `admin.key`: volumes of containers have such modes (`emptyDir` of Kubernetes is 0777), and the process
/// there cannot change them.
fn warn_about_writers(data: &Path) {
    if let Some(writers) = other_writers(data) {
        tracing::warn!("{}: {writers}; {WRITERS_ADVICE}", data.display());
    }
}

/// Why other users than the one of this process and root may put files into the data folder; none if they may
/// not, or there is no such folder. The sticky bit does not help, because they may make files before this
/// process does.
pub(crate) fn other_writers(data: &Path) -> Option<String> {
    let found = std::fs::metadata(data).ok()?;
    let owner = rustix::process::geteuid().as_raw();
    writers_of(found.mode(), found.uid(), owner)
}

fn writers_of(mode: u32, owner: u32, own: u32) -> Option<String> {
    let mode = mode & 0o7777;
    let fault = match (mode & 0o020 != 0, mode & 0o002 != 0) {
        _ if owner != own && owner != 0 && own != 0 => format!("belongs to another user (uid {owner})"),
        (_, true) => format!("can be written by every user of this machine (mode {mode:04o})"),
        (true, false) => format!("can be written by its group (mode {mode:04o})"),
        (false, false) => return None,
    };
    Some(format!("the data folder {fault}, which may replace the Admin key and the store"))
}

/// The advice about [`other_writers`].
pub(crate) const WRITERS_ADVICE: &str =
    "run `chmod go-w` on it as its owner, or name another folder with --data";

/// The error of a start on a data folder. If the folder cannot be written at all, it says so, with the way
/// out for a service of systemd (`INVOCATION_ID` is set) or for any other process.
pub(super) fn explain_start_error(settings: &Settings, error: anyhow::Error) -> anyhow::Error {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_others_write_are_named() {
        let check = |mode: u32, owner: u32, own: u32, expected: Option<&str>| {
            let found = writers_of(mode, owner, own);
            let is_as_expected = match (&found, expected) {
                (Some(found), Some(part)) => found.contains(part),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_as_expected, "{mode:o} {owner} {own}: {found:?}");
        };
        check(0o40700, 7, 7, None);
        check(0o40755, 7, 7, None);
        check(0o40755, 0, 7, None);
        check(0o40700, 7, 0, None);
        check(0o40777, 7, 7, Some("every user of this machine (mode 0777)"));
        check(0o41777, 0, 7, Some("every user of this machine (mode 1777)"));
        check(0o42770, 0, 7, Some("its group (mode 2770)"));
        check(0o40777, 0, 0, Some("every user"));
        check(0o40755, 8, 7, Some("another user (uid 8)"));
    }

    #[test]
    fn mode_of_an_existing_folder_is_read() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(other_writers(folder.path()), None);
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(other_writers(folder.path()).unwrap().contains("mode 0777"));
        assert_eq!(other_writers(&folder.path().join("missing")), None);
    }
}

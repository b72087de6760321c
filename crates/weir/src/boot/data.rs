//! The lock of the data folder. Knows nothing of the folder's content.

use control::source::store::DirectoryLock;

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

//! Who holds the data folder. Knows nothing of what lies in it.

use control::source::store::DirectoryLock;

use crate::settings::Settings;

/// Takes the lock of the data folder. In declarative mode the folder is nobody's alone: there the lock only serves to
/// find this node, and does without where it cannot be had.
///
/// # Errors
/// Another process has the folder, or it cannot be made.
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

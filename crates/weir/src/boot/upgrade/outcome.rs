//! The outcome of the last upgrade, kept as a file in the data folder: `weir upgrade` waits for this file.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Name of the file in the data folder.
const FILE: &str = "upgrade.json";

/// How an upgrade ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::boot) enum UpgradeOutcome {
    /// Another process serves.
    HandedOver {
        /// Its process id.
        to: u32,
        /// Its version.
        version: String,
    },
    /// The process that was asked serves as before.
    Failed {
        /// The error with its causes, in one line.
        reason: String,
    },
}

/// Writes the outcome, by a rename so that a reader sees all of it.
///
/// # Errors
/// The file cannot be written.
pub(in crate::boot) fn write_upgrade_outcome(data: &Path, outcome: &UpgradeOutcome) -> io::Result<()> {
    let unfinished = data.join("upgrade.json.unfinished");
    std::fs::write(&unfinished, serde_json::to_vec(outcome)?)?;
    std::fs::rename(unfinished, path(data))
}

/// The outcome, if one has been written since [`forget`].
///
/// # Errors
/// The file cannot be read, or another version wrote it.
pub(super) fn read_upgrade_outcome(data: &Path) -> io::Result<Option<UpgradeOutcome>> {
    match std::fs::read(path(data)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the outcome of an earlier upgrade.
///
/// # Errors
/// The file cannot be removed.
pub(super) fn forget(data: &Path) -> io::Result<()> {
    match std::fs::remove_file(path(data)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn path(data: &Path) -> PathBuf {
    data.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_stays_until_forgotten() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(read_upgrade_outcome(data.path()).unwrap(), None);
        forget(data.path()).unwrap();
        for outcome in [
            UpgradeOutcome::HandedOver { to: 7, version: "1.2.3".to_owned() },
            UpgradeOutcome::Failed { reason: "no".to_owned() },
        ] {
            write_upgrade_outcome(data.path(), &outcome).unwrap();
            assert_eq!(read_upgrade_outcome(data.path()).unwrap(), Some(outcome));
        }
        forget(data.path()).unwrap();
        assert_eq!(read_upgrade_outcome(data.path()).unwrap(), None);
        std::fs::write(path(data.path()), "{}").unwrap();
        read_upgrade_outcome(data.path()).unwrap_err();
    }
}

//! The lock that keeps a data directory to one process. It refuses to know what lies in the directory.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Held for as long as the process uses the directory; the kernel lets go of it when the process ends,
/// however it ends.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

/// Why the directory cannot be locked.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process holds it.
    #[error(
        "the data directory {directory} is in use by {holder}; stop that process or choose another directory with --data"
    )]
    Held {
        /// The directory.
        directory: PathBuf,
        /// The holder as far as it is known: `process 123`.
        holder: String,
    },
    /// The directory or the lock file cannot be made or opened.
    #[error("cannot lock the data directory {directory}: {cause}")]
    Io {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

impl DirectoryLock {
    /// Makes the directory if it is missing and takes its lock, writing the own process id into it.
    pub fn take(directory: &Path) -> Result<DirectoryLock, LockError> {
        let io = |cause| LockError::Io { directory: directory.to_owned(), cause };
        make_directory(directory).map_err(io)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join(LOCK_FILE))
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { directory: directory.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(cause)) => return Err(io(cause)),
        }
        file.set_len(0).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(DirectoryLock { _file: file })
    }
}

/// Makes a data directory that only its owner can enter; one that exists is left as it is.
pub(crate) fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Who wrote the lock file. Only a hint for a person: the lock itself is the kernel's.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(MAX_HOLDER_BYTES).read_to_string(&mut text);
    match text.trim().parse::<u32>() {
        Ok(pid) if read.is_ok() => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}

/// Name of the lock file in the data directory.
const LOCK_FILE: &str = "lock";
/// A process id and a line end; more is not ours.
const MAX_HOLDER_BYTES: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::take(directory.path()).unwrap();
        let refusal = DirectoryLock::take(directory.path()).unwrap_err().to_string();
        assert!(refusal.contains(&format!("in use by process {}", std::process::id())), "{refusal}");
        drop(lock);
        DirectoryLock::take(directory.path()).unwrap();
    }
}

//! The lock that reserves a data directory for one process, or for two during a handover: a holder may share
//! it with its successor. It does not know the files in the directory.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::instance::announced;

/// Held for as long as the process uses the directory. The kernel releases it when the last process with a
/// descriptor of it has ended, also after a crash.
#[derive(Debug)]
pub struct DirectoryLock {
    directory: PathBuf,
    file: File,
}

/// The reasons why the directory cannot be locked.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("the data directory {directory} is in use by {holder}; choose another directory with --data")]
    Held {
        directory: PathBuf,
        /// The holder, as far as it is known: `process 123 (admin 127.0.0.1:9180, control 127.0.0.1:9090)`.
        holder: String,
    },
    /// The directory or the lock file cannot be created or opened.
    #[error("cannot lock the data directory {directory}: {cause}")]
    Io {
        directory: PathBuf,
        /// The error of the system call.
        cause: io::Error,
    },
}

impl DirectoryLock {
    /// Creates the directory if it is missing and takes its lock; writes the id of this process into the lock
    /// file.
    pub fn take(directory: &Path) -> Result<DirectoryLock, LockError> {
        let io = |cause| LockError::Io { directory: directory.to_owned(), cause };
        make_directory(directory).map_err(io)?;
        let file = OpenOptions::new()
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
                return Err(LockError::Held {
                    directory: directory.to_owned(),
                    holder: described(directory, &file),
                });
            }
            Err(TryLockError::Error(cause)) => return Err(io(cause)),
        }
        let lock = DirectoryLock { directory: directory.to_owned(), file };
        lock.announce().map_err(io)?;
        Ok(lock)
    }

    /// The lock of `directory` that another process holds and shares through this descriptor.
    pub fn adopt(directory: &Path, descriptor: OwnedFd) -> DirectoryLock {
        DirectoryLock { directory: directory.to_owned(), file: File::from(descriptor) }
    }

    /// Writes the id of this process into the lock file, so that commands use this process from now on.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn announce(&self) -> io::Result<()> {
        // One write of fixed length, so that a concurrent reader finds the id of one process or of the other.
        let name = format!("{:<width$}\n", std::process::id(), width = NAME_BYTES - 1);
        self.file.write_all_at(name.as_bytes(), 0)?;
        self.file.set_len(NAME_BYTES as u64)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A second handle of the same lock, which is held until both are dropped.
    ///
    /// # Errors
    /// The process has no free descriptor.
    pub fn try_clone(&self) -> io::Result<DirectoryLock> {
        Ok(DirectoryLock { directory: self.directory.clone(), file: self.file.try_clone()? })
    }

    /// The process that holds the lock of `directory`; none if the lock is free. The check does not disturb
    /// the holder.
    ///
    /// # Errors
    /// The lock file cannot be read, or is held by a process that has not written its id.
    pub fn holder(directory: &Path) -> Result<Option<u32>, LockError> {
        let io = |cause| LockError::Io { directory: directory.to_owned(), cause };
        let file = match File::open(directory.join(LOCK_FILE)) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(io(cause)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => match process_of(&file) {
                Some(process) => Ok(Some(process)),
                None => Err(io(io::Error::other("it is held by a process that is not named in it"))),
            },
            Err(TryLockError::Error(cause)) => Err(io(cause)),
        }
    }
}

impl AsFd for DirectoryLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Creates a data directory that only its owner can enter; an existing one is left unchanged.
pub(crate) fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// The process named in the lock file. Only a hint for messages, because the kernel decides about the lock.
fn described(directory: &Path, file: &File) -> String {
    let Some(process) = process_of(file) else { return "another process".to_owned() };
    let listeners = announced(directory, process).unwrap_or_default();
    let listeners: Vec<String> =
        listeners.iter().map(|listener| format!("{} {}", listener.name, listener.address)).collect();
    if listeners.is_empty() {
        return format!("process {process}");
    }
    format!("process {process} ({})", listeners.join(", "))
}

fn process_of(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_HOLDER_BYTES).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Name of the lock file in the data directory.
const LOCK_FILE: &str = "lock";
/// Length of the longest process id and a line end.
const NAME_BYTES: usize = 11;
/// Limit of the file: a process id and a line end; longer files are not ours.
const MAX_HOLDER_BYTES: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_the_holder_of_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::take(directory.path()).unwrap();
        let refusal = DirectoryLock::take(directory.path()).unwrap_err().to_string();
        assert!(refusal.contains(&format!("in use by process {};", std::process::id())), "{refusal}");
        drop(lock);
        DirectoryLock::take(directory.path()).unwrap();
    }

    #[test]
    fn shared_lock_is_held_until_last_release() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(DirectoryLock::holder(directory.path()).unwrap(), None);
        // A longer id of an earlier holder is not read as part of the new one.
        std::fs::write(directory.path().join(LOCK_FILE), "123456789012345678901234567890\n").unwrap();
        let first = DirectoryLock::take(directory.path()).unwrap();
        assert_eq!(DirectoryLock::holder(directory.path()).unwrap(), Some(std::process::id()));
        let descriptor = first.as_fd().try_clone_to_owned().unwrap();
        let second = DirectoryLock::adopt(directory.path(), descriptor);
        assert_eq!(second.directory(), directory.path());
        drop(first);
        assert!(DirectoryLock::take(directory.path()).is_err());
        drop(second);
        assert_eq!(DirectoryLock::holder(directory.path()).unwrap(), None);
        DirectoryLock::take(directory.path()).unwrap();
    }
}

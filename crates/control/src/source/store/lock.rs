//! The lock that keeps a data directory to one process, or to one after the other: a holder may share it with its
//! successor. It refuses to know what lies in the directory.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::instance::announced;

/// Held for as long as the process uses the directory; the kernel lets go of it when the last process that holds a
/// descriptor of it ends, however it ends.
#[derive(Debug)]
pub struct DirectoryLock {
    directory: PathBuf,
    file: File,
}

/// Why the directory cannot be locked.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("the data directory {directory} is in use by {holder}; choose another directory with --data")]
    Held {
        /// The directory.
        directory: PathBuf,
        /// The holder as far as it is known: `process 123 (admin 127.0.0.1:9180, control 127.0.0.1:9090)`.
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

    /// The lock of `directory` that another process holds and shares by this descriptor.
    pub fn adopt(directory: &Path, descriptor: OwnedFd) -> DirectoryLock {
        DirectoryLock { directory: directory.to_owned(), file: File::from(descriptor) }
    }

    /// Writes the own process id into it: this process is the one to be asked from now on.
    ///
    /// # Errors
    /// What the system said.
    pub fn announce(&self) -> io::Result<()> {
        // In one piece and always of one length: who reads meanwhile finds the one process or the other.
        let name = format!("{:<width$}\n", std::process::id(), width = NAME_BYTES - 1);
        self.file.write_all_at(name.as_bytes(), 0)?;
        self.file.set_len(NAME_BYTES as u64)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The same lock once more: it is held until both are dropped.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<DirectoryLock> {
        Ok(DirectoryLock { directory: self.directory.clone(), file: self.file.try_clone()? })
    }

    /// The process that holds the lock of `directory`; none if nobody does. Looking disturbs no holder.
    ///
    /// # Errors
    /// The lock file cannot be read, or is held by somebody who has not written who it is.
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

/// Makes a data directory that only its owner can enter; one that exists is left as it is.
pub(crate) fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Who wrote the lock file. Only a hint for a person: the lock itself is the kernel's.
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
/// The longest process id, and a line end.
const NAME_BYTES: usize = 11;
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
        assert!(refusal.contains(&format!("in use by process {};", std::process::id())), "{refusal}");
        drop(lock);
        DirectoryLock::take(directory.path()).unwrap();
    }

    #[test]
    fn shared_lock_is_held_until_last_release() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(DirectoryLock::holder(directory.path()).unwrap(), None);
        // What an earlier holder has left is not taken for a part of the name.
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

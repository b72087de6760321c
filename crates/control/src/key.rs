//! The admin key of a data directory: made at first start, kept in a file that only its owner can read. It
//! does not know other places a key may come from (the environment is boot's), and asks for no key.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::source::store::make_directory;

/// The key and how it came about.
#[derive(Debug)]
pub struct FoundKey {
    pub key: String,
    /// The file that holds it.
    pub path: PathBuf,
    /// Whether this call generated it.
    pub created: bool,
}

/// The reasons why there is no key.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("cannot use the admin key file {path}: {cause}")]
    Io {
        path: PathBuf,
        /// The error of the system call.
        cause: io::Error,
    },
    /// Other users can read the file.
    #[error("the admin key file {path} can be read by others (mode {mode:o}); run: chmod 600 {path}")]
    Exposed {
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file holds no usable key.
    #[error(
        "the admin key file {path} must hold one line of {MIN_KEY_CHARS} to {MAX_KEY_CHARS} visible characters; delete it to have a new key made"
    )]
    Malformed { path: PathBuf },
    /// The system has no random numbers.
    #[error("cannot make an admin key: {0}")]
    Random(String),
}

/// Reads the key of `directory`, or makes one of 160 random bits there.
///
/// # Errors
/// See [`KeyError`]; an existing file is never replaced.
pub fn load_or_create_key(directory: &Path) -> Result<FoundKey, KeyError> {
    if let Some(found) = find_key(directory)? {
        return Ok(found);
    }
    let path = directory.join(KEY_FILE);
    let io = |cause| KeyError::Io { path: path.clone(), cause };
    make_directory(directory).map_err(io)?;
    let mut random = [0; KEY_BYTES];
    getrandom::fill(&mut random).map_err(|fault| KeyError::Random(fault.to_string()))?;
    let key: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    write(directory, &path, &key).map_err(io)?;
    Ok(FoundKey { key, path, created: true })
}

/// Reads the key of `directory`; none where no key was generated yet.
///
/// # Errors
/// See [`KeyError`].
pub fn find_key(directory: &Path) -> Result<Option<FoundKey>, KeyError> {
    let path = directory.join(KEY_FILE);
    match File::open(&path) {
        Ok(file) => {
            let key = read(&file, &path)?;
            Ok(Some(FoundKey { key, path, created: false }))
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(KeyError::Io { path, cause }),
    }
}

fn read(file: &File, path: &Path) -> Result<String, KeyError> {
    let io = |cause| KeyError::Io { path: path.to_owned(), cause };
    let mode = file.metadata().map_err(io)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed { path: path.to_owned(), mode });
    }
    let malformed = || KeyError::Malformed { path: path.to_owned() };
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(|cause| match cause.kind() {
        io::ErrorKind::InvalidData => malformed(),
        _ => io(cause),
    })?;
    let key = text.trim_end();
    let usable = (MIN_KEY_CHARS..=MAX_KEY_CHARS).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_graphic());
    if usable { Ok(key.to_owned()) } else { Err(malformed()) }
}

/// Writes the key to another name and renames it, so that a crash leaves either no key or a whole one.
fn write(directory: &Path, path: &Path, key: &str) -> io::Result<()> {
    let unfinished = directory.join(UNFINISHED_FILE);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    writeln!(file, "{key}")?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    File::open(directory)?.sync_all()
}

/// Name of the key's file in the data directory.
const KEY_FILE: &str = "admin.key";
const UNFINISHED_FILE: &str = "admin.key.unfinished";
/// 160 bits, so that the key cannot be guessed over a network.
const KEY_BYTES: usize = 20;
/// Shorter texts in the file are mistakes, not keys.
const MIN_KEY_CHARS: usize = 16;
/// The longest key that fits a header line comfortably.
const MAX_KEY_CHARS: usize = 256;
/// The longest key and a line end fit; a longer file holds no key.
const MAX_FILE_BYTES: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_made_once_and_read_again() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("weir-data");
        assert!(find_key(&directory).unwrap().is_none() && !directory.exists());
        let made = load_or_create_key(&directory).unwrap();
        assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(made.created && made.key.len() == 40);
        assert_eq!(std::fs::metadata(&made.path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = load_or_create_key(&directory).unwrap();
        assert!(!read.created);
        assert_eq!(read.key, made.key);
    }

    #[test]
    fn unusable_key_files_are_refused_and_kept() {
        let check = |text: &str, mode: u32, reason: &str| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(KEY_FILE);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let refusal = load_or_create_key(directory.path()).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{refusal}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        };
        check("", 0o600, "must hold one line");
        check("short\n", 0o600, "must hold one line");
        check("two lines of\nsomething long", 0o600, "must hold one line");
        check("0123456789abcdef0123\n", 0o644, "chmod 600");
    }
}

//! A copy of a store of an older format, kept beside it before the first write raises the format, because the
//! version that wrote the store cannot read it afterwards.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Copies the store at `path`, which no process has open. A copy of the same format that is there already is
/// replaced: the store may have been written since.
///
/// # Errors
/// The error of the system call; an earlier copy is then unchanged.
pub(super) fn keep_copy(path: &Path, format: u64) -> io::Result<PathBuf> {
    let copy = name_older_copy(path, format);
    let unfinished = copy.with_extension(format!("format-{format}.unfinished"));
    let copied = fs::copy(path, &unfinished)
        .and_then(|_| File::open(&unfinished)?.sync_all())
        .and_then(|()| fs::rename(&unfinished, &copy));
    if let Err(error) = copied {
        // A part of a copy would take space that the store needs. It may not exist.
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(copy)
}

/// The name of the copy: `store.redb.format-1` beside `store.redb`.
pub(super) fn name_older_copy(path: &Path, format: u64) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".format-{format}"));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn copy_lies_beside_the_store_with_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.redb");
        for content in ["one", "two"] {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let copy = keep_copy(&path, 1).unwrap();
            assert_eq!(copy, folder.path().join("store.redb.format-1"));
            assert_eq!(fs::read_to_string(&copy).unwrap(), content);
            assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no part of a copy is left");
    }

    #[test]
    fn copy_that_fails_leaves_the_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.redb");
        fs::write(name_older_copy(&path, 1), "earlier").unwrap();
        keep_copy(&path, 1).unwrap_err();
        assert_eq!(fs::read_to_string(name_older_copy(&path, 1)).unwrap(), "earlier");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

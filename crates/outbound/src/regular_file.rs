//! Reading a file that a user names and that is read again while the gateway runs: it never waits for a
//! writer and never reads without a limit, whatever the path names. It does not know the content of the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens the file at `path` for reading. Symbolic links are followed, as mounted volumes have them.
///
/// # Errors
/// As of [`File::open`], and `InvalidInput` for anything but a regular file: opening a FIFO would wait for a
/// writer, and reading a FIFO or a device could block or never end.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // O_NONBLOCK, because opening a FIFO would block otherwise; it has no effect on regular files. O_NOCTTY,
    // so that a terminal does not become the controlling terminal of this process.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    // The type is read from the opened descriptor, because the path may name another file than at an earlier
    // look.
    let file_type = file.metadata()?.file_type();
    if file_type.is_file() {
        return Ok(file);
    }
    let found = if file_type.is_dir() {
        "a directory"
    } else if file_type.is_fifo() {
        "a FIFO"
    } else {
        "a device"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {found}, not a regular file")))
}

/// The text of the file at `path`.
///
/// # Errors
/// As of [`open_regular`] and [`read_bounded`].
pub fn read_to_string(path: &Path, limit_bytes: u64) -> io::Result<String> {
    read_bounded(open_regular(path)?, limit_bytes)
}

/// The text of an opened file.
///
/// # Errors
/// `FileTooLarge` where it has more than `limit_bytes`; `InvalidData` where it is not UTF-8.
pub fn read_bounded(file: File, limit_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(limit_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes {
        let reason = format!("it is larger than {} MiB", limit_bytes >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_BYTES: u64 = 1 << 20;

    #[test]
    fn only_regular_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let check = |path: &Path, expected: Result<&str, &str>| {
            let read = read_to_string(path, LIMIT_BYTES).map_err(|error| error.to_string());
            match (&read, expected) {
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{}: {reason}", path.display()),
                _ => assert_eq!(read.as_deref().ok(), expected.ok(), "{}", path.display()),
            }
        };
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(made.success());
        std::fs::write(at("binary"), [0xff, 0xfe]).unwrap();
        std::fs::write(at("large"), vec![b' '; LIMIT_BYTES as usize + 1]).unwrap();
        std::fs::write(at("full"), vec![b' '; LIMIT_BYTES as usize]).unwrap();
        check(&at("file"), Ok("text"));
        check(&at("link"), Ok("text"));
        check(&at("dangling"), Err("No such file"));
        check(&at("fifo"), Err("a FIFO, not a regular file"));
        check(directory.path(), Err("a directory, not a regular file"));
        check(Path::new("/dev/zero"), Err("a device, not a regular file"));
        check(&at("binary"), Err("not UTF-8"));
        check(&at("large"), Err("larger than 1 MiB"));
        assert_eq!(read_to_string(&at("full"), LIMIT_BYTES).unwrap().len() as u64, LIMIT_BYTES);
    }
}

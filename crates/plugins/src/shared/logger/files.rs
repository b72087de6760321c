//! Files that plugins append to: one thread for the process owns all of them, because a disk that is slow or
//! gone must hold up neither a worker nor the thread of the other queues. It knows no form of entries.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use exchange::observe::reopening;
use rustix::fs::OFlags;
use tokio::sync::oneshot;

/// Files open at the same time; the one that was written longest ago is closed for another.
const FILES_MAX: usize = 256;
/// Writes that wait for the thread. There are no more than the deliveries of all queues; one beyond it is
/// refused.
const WRITES_MAX: usize = 4_096;
/// How often a file is compared with the one that now has its name, so that it is opened again after it was
/// moved away.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Mode of a file that is created here, as of the other logs: lines hold addresses and queries of clients.
const FILE_MODE: u32 = 0o640;
/// Folders of the kernel: a write there changes the system.
const REFUSED_FOLDERS: [&str; 3] = ["/dev", "/proc", "/sys"];
/// Files there that may be written all the same.
const STANDARD_STREAMS: [&str; 2] = ["/dev/stdout", "/dev/stderr"];

struct AppendJob {
    path: PathBuf,
    lines: Vec<u8>,
    done: oneshot::Sender<io::Result<()>>,
}

/// None where the thread cannot be started.
static THREAD: LazyLock<Option<SyncSender<AppendJob>>> = LazyLock::new(|| {
    let (writes, handed_in) = sync_channel(WRITES_MAX);
    std::thread::Builder::new().name("log-files".to_owned()).spawn(move || run(&handed_in)).ok()?;
    Some(writes)
});

fn run(writes: &Receiver<AppendJob>) {
    let mut files = OpenFiles::default();
    while let Ok(AppendJob { path, lines, done }) = writes.recv() {
        let written = files.append(&path, &lines, reopening::count(), Instant::now());
        // The queue may have gone meanwhile.
        let _ = done.send(written);
    }
}

/// Appends whole lines to the file at `path`, which is created if it is not there.
///
/// # Errors
/// The file cannot be opened or written, or the thread is behind.
pub(crate) async fn append_log_lines(path: &Path, lines: Vec<u8>) -> io::Result<()> {
    let behind = || io::Error::other("the thread that writes files is behind");
    let (done, written) = oneshot::channel();
    let thread =
        THREAD.as_ref().ok_or_else(|| io::Error::other("the thread that writes files cannot be started"))?;
    thread.try_send(AppendJob { path: path.to_owned(), lines, done }).map_err(|_| behind())?;
    written.await.unwrap_or_else(|_| Err(behind()))
}

/// Checks a path that files may be written at.
///
/// # Errors
/// Why none may, a sentence.
pub(crate) fn check(path: &str) -> Result<(), String> {
    let parsed = Path::new(path);
    if path.is_empty() || path.ends_with('/') || path.contains('\0') {
        return Err("path is not the name of a file".to_owned());
    }
    if parsed.components().any(|part| part == Component::ParentDir) {
        return Err(format!("path {path} goes up by `..`; write where the file lies"));
    }
    let is_refused = REFUSED_FOLDERS.iter().any(|folder| parsed.starts_with(folder));
    if is_refused && !STANDARD_STREAMS.contains(&path) {
        return Err(format!("path {path} is no place for a log: the folder belongs to the kernel"));
    }
    Ok(())
}

/// The files that are open.
#[derive(Default)]
struct OpenFiles {
    open: HashMap<PathBuf, OpenFile>,
}

struct OpenFile {
    file: File,
    reopenings: u64,
    checked: Instant,
    used: Instant,
    /// The last write failed within a line.
    is_torn: bool,
}

impl OpenFiles {
    fn append(&mut self, path: &Path, lines: &[u8], reopenings: u64, now: Instant) -> io::Result<()> {
        if self.open.get_mut(path).is_some_and(|file| !file.is_current(path, reopenings, now)) {
            self.open.remove(path);
        }
        if !self.open.contains_key(path) {
            self.close_oldest();
            self.open.insert(path.to_owned(), OpenFile::open(path, reopenings, now)?);
        }
        let file = self.open.get_mut(path).expect("it was opened above");
        file.used = now;
        file.append(lines)
    }

    fn close_oldest(&mut self) {
        if self.open.len() >= FILES_MAX
            && let Some(oldest) =
                self.open.iter().min_by_key(|(_, file)| file.used).map(|(path, _)| path.clone())
        {
            self.open.remove(&oldest);
        }
    }
}

impl OpenFile {
    fn open(path: &Path, reopenings: u64, now: Instant) -> io::Result<OpenFile> {
        // Without waiting: a pipe without a reader would hold up all files.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let file =
            OpenOptions::new().create(true).append(true).mode(FILE_MODE).custom_flags(flags).open(path)?;
        Ok(OpenFile { file, reopenings, checked: now, used: now, is_torn: false })
    }

    /// Whether this is still the file at `path`, and was opened after it was last asked for.
    fn is_current(&mut self, path: &Path, reopenings: u64, now: Instant) -> bool {
        if self.reopenings != reopenings {
            return false;
        }
        if now.duration_since(self.checked) < CHECK_INTERVAL {
            return true;
        }
        self.checked = now;
        match (self.file.metadata(), std::fs::metadata(path)) {
            (Ok(own), Ok(named)) => (own.dev(), own.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.is_torn {
            // The beginning of the torn line becomes a line of its own.
            self.file.write_all(b"\n")?;
            self.is_torn = false;
        }
        let mut left = lines;
        while !left.is_empty() {
            match self.file.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    left = &left[count..];
                    self.is_torn = !left.is_empty() && lines[lines.len() - left.len() - 1] != b'\n';
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use net::env;

    use super::*;

    fn temporary(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn paths_are_files_outside_the_kernel() {
        for path in ["/var/log/weir/a.log", "logs/a.log", "a.log", "/dev/stdout", "/device/a"] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
        for path in
            ["", "/", "logs/", "a\0b", "/var/../etc/passwd", "..", "/dev/sda", "/proc/self/mem", "/sys/a"]
        {
            assert!(check(path).is_err(), "{path}");
        }
    }

    #[test]
    fn moved_file_is_opened_again() {
        let folder = temporary("moved");
        let (path, moved) = (folder.join("a.log"), folder.join("a.log.1"));
        let (mut files, start) = (OpenFiles::default(), Instant::now());
        files.append(&path, b"1\n", 0, start).unwrap();
        std::fs::rename(&path, &moved).unwrap();
        files.append(&path, b"2\n", 0, start).unwrap();
        assert_eq!(text(&moved), "1\n2\n", "looked at once a second");
        files.append(&path, b"3\n", 0, start + CHECK_INTERVAL).unwrap();
        assert_eq!((text(&moved), text(&path)), ("1\n2\n".to_owned(), "3\n".to_owned()));
        std::fs::rename(&path, &moved).unwrap();
        files.append(&path, b"4\n", 1, start + CHECK_INTERVAL).unwrap();
        assert_eq!((text(&moved), text(&path)), ("3\n".to_owned(), "4\n".to_owned()), "asked for by USR1");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & !FILE_MODE, 0, "{mode:o}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn number_of_open_files_is_limited() {
        let folder = temporary("many");
        let (mut files, start) = (OpenFiles::default(), Instant::now());
        for number in 0..FILES_MAX + 3 {
            let now = start + Duration::from_millis(number as u64);
            files.append(&folder.join(number.to_string()), b"x\n", 0, now).unwrap();
        }
        assert_eq!(files.open.len(), FILES_MAX);
        assert!(!files.open.contains_key(&folder.join("2")) && files.open.contains_key(&folder.join("3")));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn full_disk_and_missing_folder_are_errors() {
        let append = |path: &str| env::block_on(append_log_lines(Path::new(path), b"x\n".to_vec())).unwrap();
        assert_eq!(append("/dev/full").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(append("/nowhere/a.log").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

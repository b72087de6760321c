//! Rotation of the access log and the error log, as APISIX's plugin `log-rotate` does it: files are renamed by the time, opened
//! again, perhaps compressed, and the oldest ones removed. It has a thread of its own, because a disk may be slow.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stdx::clock::CivilTime;

use crate::settings::{ErrorLog, LogTarget, Settings};

/// How often the time and the sizes are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often a compression is looked at.
const COMPRESSION_POLL: Duration = Duration::from_millis(20);
/// The end of the name of a compressed file.
const COMPRESSED: &str = ".tar.gz";

/// How logs are rotated.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    files: Vec<PathBuf>,
    interval_seconds: u64,
    max_kept: usize,
    /// A file is rotated as soon as it has so many bytes; 0: only by time.
    max_bytes: u64,
    /// The longest compression; none: files stay as they are.
    compression: Option<Duration>,
}

impl Rotation {
    /// The rotation that the settings ask for; none without log files, or if it is off.
    pub(super) fn of(settings: &Settings) -> Option<Rotation> {
        if !settings.log_rotate {
            return None;
        }
        let access = match &settings.access_log {
            LogTarget::File(path) => Some(PathBuf::from(path)),
            LogTarget::Off | LogTarget::Stdout => None,
        };
        let error = match &settings.error_log {
            ErrorLog::File(path) => Some(path.clone()),
            ErrorLog::Stderr => None,
        };
        let files: Vec<PathBuf> = access.into_iter().chain(error).collect();
        if files.is_empty() {
            tracing::warn!("log_rotate is on, and neither access_log nor error_log is a file");
            return None;
        }
        Some(Rotation {
            files,
            interval_seconds: settings.log_rotate_interval_seconds,
            max_kept: settings.log_rotate_max_kept,
            max_bytes: settings.log_rotate_max_bytes,
            compression: settings
                .log_rotate_compression
                .then(|| Duration::from_millis(settings.log_rotate_timeout_ms)),
        })
    }

    /// Rotates from now on, for as long as the process runs. `reopen` opens the logs again and waits until that is done.
    pub(super) fn start(self, reopen: impl Fn() + Send + 'static) {
        let run = move || {
            let mut next = next_turn(now_seconds(), self.interval_seconds);
            loop {
                thread::sleep(TICK);
                let now = now_seconds();
                let due = if now >= next {
                    next = next_turn(now, self.interval_seconds);
                    self.files.iter().collect()
                } else {
                    self.too_long()
                };
                self.rotate(&due, now, &reopen);
            }
        };
        if let Err(error) = thread::Builder::new().name("log-rotate".to_owned()).spawn(run) {
            tracing::error!(%error, "the thread that rotates logs cannot be started; logs are not rotated");
        }
    }

    fn too_long(&self) -> Vec<&PathBuf> {
        let is_too_long = |path: &&PathBuf| {
            self.max_bytes > 0 && fs::metadata(path).is_ok_and(|file| file.len() >= self.max_bytes)
        };
        self.files.iter().filter(is_too_long).collect()
    }

    fn rotate(&self, files: &[&PathBuf], now: u64, reopen: &impl Fn()) {
        let moved: Vec<PathBuf> = files.iter().filter_map(|path| moved_away(path, now)).collect();
        if moved.is_empty() {
            return;
        }
        reopen();
        if let Some(limit) = self.compression {
            for path in &moved {
                if let Err(reason) = compress(path, limit) {
                    tracing::error!(path = %path.display(), %reason, "a rotated log cannot be compressed");
                }
            }
        }
        for path in files {
            remove_oldest(path, self.max_kept);
        }
    }
}

/// The next multiple of the interval, so that instances rotate at the same times.
fn next_turn(now: u64, interval: u64) -> u64 {
    now - now % interval + interval
}

fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The name of a rotated file: `2026-11-25_20-15-00__access.log`, in UTC.
fn rotated_name(path: &Path, now: u64) -> Option<PathBuf> {
    let CivilTime { year, month, day, hour, minute, second } = CivilTime::at(now);
    let time = format!("{year:04}-{month:02}-{day:02}_{hour:02}-{minute:02}-{second:02}");
    Some(path.with_file_name(format!("{time}__{}", path.file_name()?.to_str()?)))
}

/// Renames a log. None if there is nothing to rename or it failed.
fn moved_away(path: &Path, now: u64) -> Option<PathBuf> {
    let to = rotated_name(path, now)?;
    // Another process that has the same log, as during an upgrade, was first.
    if to.exists() {
        return Some(to);
    }
    match fs::rename(path, &to) {
        Ok(()) => Some(to),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "a log cannot be renamed, so that it is not rotated");
            None
        }
    }
}

/// Packs a file into an archive beside it, by `tar`, and removes it.
fn compress(path: &Path, limit: Duration) -> Result<(), String> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err("it has no name".to_owned());
    };
    let mut archive = path.as_os_str().to_owned();
    archive.push(COMPRESSED);
    let mut command = Command::new("tar");
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    command.arg("-C").arg(folder).arg("-czf").arg(Path::new(&archive)).arg("--").arg(name);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("tar cannot be started: {error}"))?;
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => thread::sleep(COMPRESSION_POLL),
            other => {
                let _ = child.kill();
                let _ = child.wait();
                let _ = fs::remove_file(&archive);
                return Err(match other {
                    Err(error) => error.to_string(),
                    Ok(_) => format!("tar takes longer than {} ms", limit.as_millis()),
                });
            }
        }
    };
    if !status.success() {
        let _ = fs::remove_file(&archive);
        return Err(format!("tar ended with {status}"));
    }
    fs::remove_file(path).map_err(|error| error.to_string())
}

/// Removes all but the newest `max_kept` rotated files of a log.
fn remove_oldest(path: &Path, max_kept: usize) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(folder) else { return };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut rotated: Vec<String> = names.filter(|candidate| is_rotated(candidate, name)).collect();
    // Names begin with their time.
    rotated.sort_unstable_by(|one, other| other.cmp(one));
    for old in rotated.iter().skip(max_kept) {
        if let Err(error) = fs::remove_file(folder.join(old)) {
            tracing::error!(file = old, %error, "an old log cannot be removed");
        }
    }
}

/// Whether this is the name of a rotated file of the log `name`, compressed or not.
fn is_rotated(candidate: &str, name: &str) -> bool {
    let Some((time, log)) = candidate.split_once("__") else { return false };
    let is_time = time.len() == TIME.len()
        && time.bytes().zip(TIME.bytes()).all(|(byte, pattern)| match pattern {
            b'0' => byte.is_ascii_digit(),
            mark => byte == mark,
        });
    is_time && log.strip_suffix(COMPRESSED).unwrap_or(log) == name
}

/// The form of the time in names; 0 stands for a digit.
const TIME: &str = "0000-00-00_00-00-00";

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn rotation(files: &[&Path], compression: Option<Duration>) -> Rotation {
        Rotation {
            files: files.iter().map(|path| (*path).to_owned()).collect(),
            interval_seconds: 60,
            max_kept: 2,
            max_bytes: 3,
            compression,
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn turns_are_multiples_of_the_interval() {
        assert_eq!([0, 1, 59, 60, 61].map(|now| next_turn(now, 60)), [60, 60, 60, 120, 120]);
        let name = rotated_name(Path::new("/a/access.log"), 1_577_836_801).unwrap();
        assert_eq!(name, Path::new("/a/2020-01-01_00-00-01__access.log"));
    }

    #[test]
    fn only_rotated_files_of_the_log_are_known() {
        for name in ["2020-01-01_00-00-01__a.log", "2020-01-01_00-00-01__a.log.tar.gz"] {
            assert!(is_rotated(name, "a.log"), "{name}");
        }
        for name in [
            "a.log",
            "2020-01-01_00-00-01__b.log",
            "mine__a.log",
            "2020-01-01_00-00-0x__a.log",
            "2020-01-01_00-00-01__a.log.bak",
        ] {
            assert!(!is_rotated(name, "a.log"), "{name}");
        }
    }

    #[test]
    fn oldest_files_of_a_log_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.log"), folder.path().join("2020-01-01_00-00-00__b.log"));
        fs::write(&other, "").unwrap();
        let rotation = rotation(&[&path], None);
        let reopened = AtomicUsize::new(0);
        for second in 1..=4 {
            fs::write(&path, second.to_string()).unwrap();
            rotation.rotate(&[&path], second, &|| {
                reopened.fetch_add(1, Ordering::Relaxed);
            });
        }
        let kept = ["1970-01-01_00-00-03__a.log", "1970-01-01_00-00-04__a.log", "2020-01-01_00-00-00__b.log"];
        assert_eq!(names(folder.path()), kept);
        assert_eq!(fs::read_to_string(folder.path().join(kept[1])).unwrap(), "4");
        rotation.rotate(&[&path], 5, &|| panic!("there is no log to reopen"));
        assert_eq!(reopened.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn long_logs_are_due_and_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let (long, short) = (folder.path().join("a.log"), folder.path().join("b.log"));
        fs::write(&long, "abc").unwrap();
        fs::write(&short, "ab").unwrap();
        let rotation = rotation(&[&long, &short], Some(Duration::from_secs(60)));
        let due = rotation.too_long();
        assert_eq!(due, [&long]);
        rotation.rotate(&due, 1, &|| {});
        assert_eq!(names(folder.path()), ["1970-01-01_00-00-01__a.log.tar.gz", "b.log"]);
        let archive = folder.path().join("1970-01-01_00-00-01__a.log.tar.gz");
        let listed = Command::new("tar").arg("-tzf").arg(&archive).output().unwrap();
        assert_eq!(String::from_utf8(listed.stdout).unwrap(), "1970-01-01_00-00-01__a.log\n");
    }

    #[test]
    fn file_that_cannot_be_compressed_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        assert!(compress(&path, Duration::from_secs(60)).is_err(), "it is not there");
        fs::write(&path, vec![0; 1024 * 1024]).unwrap();
        assert!(compress(&path, Duration::ZERO).unwrap_err().contains("longer than 0 ms"));
        assert_eq!(names(folder.path()), ["a.log"]);
    }
}

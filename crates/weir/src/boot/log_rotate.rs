//! Rotation of the access log and the error log, as APISIX's plugin `log-rotate` does it: files are renamed
//! by the time, opened again, perhaps compressed, and the oldest ones removed. It has a thread of its own,
//! because a disk may be slow.
//!
//! During an upgrade two processes write the same logs. Each opens its logs again when their paths have
//! become other files, and compresses only files that it has renamed itself, a second later, because
//! compression removes them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use stdx::clock::CivilTime;

use crate::settings::{ErrorLog, LogTarget, Settings};

/// How often the time, the sizes and the paths of the logs are looked at.
const TICK: Duration = Duration::from_millis(500);
/// Ticks from the renaming of a file to its compression. More than one, so that another process that writes
/// to the file has had a tick in which it opened its logs again.
const COMPRESSION_TICKS: u32 = 2;
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
        let access = [&settings.access_log, &settings.stream_access_log].map(|log| match log {
            LogTarget::File(path) => Some(PathBuf::from(path)),
            LogTarget::Off | LogTarget::Stdout => None,
        });
        let error = match &settings.error_log {
            ErrorLog::File(path) => Some(path.clone()),
            ErrorLog::Stderr => None,
        };
        let mut files: Vec<PathBuf> = access.into_iter().flatten().chain(error).collect();
        // Both access logs may be one file.
        files.dedup();
        if files.is_empty() {
            tracing::warn!(
                "log_rotate is on, and neither access_log, stream_access_log nor error_log is a file"
            );
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

    /// Rotates from now on, for as long as the process runs. Once `has_given_way` is set another process
    /// rotates, and this one only follows it.
    pub(super) fn start(self, logs: impl OpenLogs, has_given_way: Arc<AtomicBool>) {
        let run = move || {
            let mut next = next_turn(now_seconds(), self.interval_seconds);
            let mut renamed = Vec::new();
            loop {
                thread::sleep(TICK);
                self.compress_renamed(&mut renamed, &logs);
                if !has_given_way.load(Ordering::Relaxed) {
                    let now = now_seconds();
                    let due = if now >= next {
                        next = next_turn(now, self.interval_seconds);
                        self.files.iter().collect()
                    } else {
                        self.too_long()
                    };
                    renamed.extend(self.rotate(&due, now, &logs));
                }
                self.follow(&logs);
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

    /// Renames logs, and gives the files that this process has renamed.
    fn rotate(&self, files: &[&PathBuf], now: u64, logs: &impl OpenLogs) -> Vec<Renamed> {
        let moved: Vec<PathBuf> = files.iter().filter_map(|path| moved_away(path, now)).collect();
        if moved.is_empty() {
            return Vec::new();
        }
        logs.reopen();
        for path in files {
            remove_oldest(path, self.max_kept);
        }
        moved.into_iter().map(|path| Renamed { path, ticks: 0 }).collect()
    }

    /// Compresses the files that were renamed some ticks ago. One that a log still goes into, because it
    /// could not be opened again, is kept until it can.
    fn compress_renamed(&self, renamed: &mut Vec<Renamed>, logs: &impl OpenLogs) {
        let Some(limit) = self.compression else { return renamed.clear() };
        renamed.retain_mut(|file| {
            file.ticks += 1;
            let path = &file.path;
            if file.ticks < COMPRESSION_TICKS || logs.are_in(path) {
                // It may have become one of too many meanwhile.
                return path.exists();
            }
            if path.exists()
                && let Err(reason) = compress(path, limit)
            {
                tracing::error!(path = %path.display(), %reason, "a rotated log cannot be compressed");
            }
            false
        });
    }

    /// Opens the logs again if another process has renamed one, or if that failed before.
    fn follow(&self, logs: &impl OpenLogs) {
        if !self.files.iter().all(|path| logs.are_in(path)) {
            logs.reopen();
        }
    }
}

/// The logs of this process.
pub(super) trait OpenLogs: Send + 'static {
    /// Opens them again under their paths, and waits some time until that is done.
    fn reopen(&self);
    /// Whether one of them goes into the file that has this path now.
    fn are_in(&self, path: &Path) -> bool;
}

/// A file that this process has renamed and is yet to compress.
struct Renamed {
    path: PathBuf,
    /// Ticks since then.
    ticks: u32,
}

/// The next multiple of the interval, so that instances rotate at the same times.
fn next_turn(now: u64, interval: u64) -> u64 {
    now - now % interval + interval
}

fn now_seconds() -> u64 {
    stdx::clock::unix_time().as_secs()
}

/// The name of a rotated file: `2026-11-25_20-15-00__access.log`, in UTC.
fn rotated_name(path: &Path, now: u64) -> Option<PathBuf> {
    let CivilTime { year, month, day, hour, minute, second } = CivilTime::at(now);
    let time = format!("{year:04}-{month:02}-{day:02}_{hour:02}-{minute:02}-{second:02}");
    Some(path.with_file_name(format!("{time}__{}", path.file_name()?.to_str()?)))
}

/// Renames a log. None if there is nothing to rename, another process was first, or it failed.
fn moved_away(path: &Path, now: u64) -> Option<PathBuf> {
    let to = rotated_name(path, now)?;
    // Another process that has the same log, as during an upgrade, was first; the file at `path` is its new
    // one.
    if archive_of(&to).exists() {
        return None;
    }
    match rename_to_new(path, &to) {
        Ok(()) => Some(to),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => None,
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "a log cannot be renamed, so that it is not rotated");
            None
        }
    }
}

/// Renames a file, unless there is one of the new name.
fn rename_to_new(path: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, path, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems, as NFS, cannot do both in one step.
        Err(Errno::INVAL | Errno::NOSYS) if to.exists() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(path, to),
        done => Ok(done?),
    }
}

fn archive_of(path: &Path) -> PathBuf {
    let mut archive = path.as_os_str().to_owned();
    archive.push(COMPRESSED);
    archive.into()
}

/// Packs a file into an archive beside it, by `tar`, and removes it.
fn compress(path: &Path, limit: Duration) -> Result<(), String> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err("it has no name".to_owned());
    };
    let archive = archive_of(path);
    let mut command = Command::new("tar");
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    command.arg("-C").arg(folder).arg("-czf").arg(&archive).arg("--").arg(name);
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
mod tests;

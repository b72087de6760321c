//! Bodies on disk: one file for each entry, in folders as nginx names them. The index is in memory and made
//! anew at a start. Workers never wait for a disk: they read pages that the kernel has in memory, and
//! everything else is done by threads of the zone.

mod file;
mod format;
mod load;
mod read;
mod write;

use std::collections::VecDeque;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock, Weak};

use exchange::observe::pace::Pace;
use net::env;
use parking_lot::Mutex;
use stdx::prometheus_text::{header, sample};

use super::settings::DiskSettings;
use super::zone::Zone;

pub(super) use file::DiskFile;
pub(super) use read::{DiskBody, PIECE_BYTES};
pub(super) use write::{DiskFill, EntryDestination, rewrite_head};

/// Bytes of responses on their way to the disk; more are not stored, because the disk is too slow for it.
const QUEUED_BYTES_MAX: u64 = 32 << 20;
/// Files that are kept open for hits. Beyond it the one that was not used for longest is closed.
const OPEN_FILES_MAX: usize = 512;
/// Threads that open and read files which the kernel does not have in memory.
const READERS: usize = 2;
/// The folder of files that are not complete, in the folder of the zone. nginx has no such name there.
const TEMPORARY: &str = "weir-incomplete";
/// Milliseconds between two lines about a disk that fails.
const LOG_INTERVAL_MS: u64 = 10_000;

/// Work for a thread of a zone.
type DiskJob = Box<dyn FnOnce() + Send>;

/// The part of a zone that is on disk.
pub(super) struct DiskStore {
    zone: Box<str>,
    settings: DiskSettings,
    threads: OnceLock<Threads>,
    /// The zone ends: files stay where they are.
    is_closed: AtomicBool,
    queued_bytes: AtomicU64,
    failures: AtomicU64,
    next_reader: AtomicU64,
    open: Mutex<VecDeque<Weak<DiskFile>>>,
    pace: Pace,
}

struct Threads {
    writer: Sender<DiskJob>,
    readers: [Sender<DiskJob>; READERS],
}

impl DiskStore {
    pub(super) fn new(zone: &str, settings: &DiskSettings) -> DiskStore {
        DiskStore {
            zone: zone.into(),
            settings: settings.clone(),
            threads: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            queued_bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            next_reader: AtomicU64::new(0),
            open: Mutex::default(),
            pace: Pace::every_ms(LOG_INTERVAL_MS),
        }
    }

    /// Whether entries can be stored.
    pub(super) fn is_started(&self) -> bool {
        self.threads.get().is_some()
    }

    /// Keeps files of entries that go from now on.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Does `job` after all others that change files.
    fn write(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(threads) = self.threads.get() {
            // The thread ends with the process.
            let _ = threads.writer.send(Box::new(job));
        }
    }

    /// Does `job` on a thread that may wait for the disk.
    fn read(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(threads) = self.threads.get() {
            let turn = self.next_reader.fetch_add(1, Ordering::Relaxed) as usize % READERS;
            let _ = threads.readers[turn].send(Box::new(job));
        }
    }

    /// Notes that something failed, and says so in the log now and then.
    fn failed(&self, what: &'static str, error: &dyn std::fmt::Display) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        if let Some(failures) = self.pace.add(1, env::monotonic_ns() / 1_000_000) {
            let zone = &*self.zone;
            tracing::warn!(zone, %error, failures, "the cache on disk cannot {what}");
        }
    }

    /// Takes bytes of the queue to the disk; false if it is full.
    fn take_queue(&self, bytes: u64) -> bool {
        let fits = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= QUEUED_BYTES_MAX;
        if !fits {
            self.give_queue(bytes);
        }
        fits
    }

    fn give_queue(&self, bytes: u64) {
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn temporary(&self) -> PathBuf {
        self.settings.path.join(TEMPORARY)
    }

    /// Notes that `file` is open, and closes another one where too many are.
    fn note_open(&self, file: &Arc<DiskFile>) {
        let mut open = self.open.lock();
        open.push_back(Arc::downgrade(file));
        let mut chances = open.len();
        while open.len() > OPEN_FILES_MAX
            && let Some(oldest) = open.pop_front()
        {
            let Some(oldest) = oldest.upgrade() else { continue };
            if chances > 0 && oldest.take_use() {
                chances -= 1;
                open.push_back(Arc::downgrade(&oldest));
            } else {
                oldest.close();
            }
        }
    }
}

/// Makes the folder of a zone on disk, starts its threads and reads its index; without a disk nothing is to
/// be done.
pub(super) fn start(zone: &Arc<Zone>) {
    let Some(disk) = &zone.disk else { return };
    if disk.is_started() {
        return;
    }
    let threads = prepare(disk).and_then(|()| Threads::start());
    match threads {
        Ok(threads) => {
            let _ = disk.threads.set(threads);
        }
        Err(reason) => {
            let (zone, path) = (&*disk.zone, disk.settings.path.display());
            tracing::error!(zone, %path, reason, "the cache on disk is not used");
            return;
        }
    }
    // On a thread of its own, because a request must not wait behind it for a file.
    let loaded = Arc::downgrade(zone);
    let loading =
        std::thread::Builder::new().name("cache-load".to_owned()).spawn(move || load::load(&loaded));
    if let Err(error) = loading {
        disk.failed("read its index", &error);
    }
}

/// Makes the folder. One that others can write to is refused, because they could put responses there.
fn prepare(disk: &DiskStore) -> Result<(), String> {
    let path = &disk.settings.path;
    make_folder(path)?;
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err("its folder belongs to another user".to_owned());
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("other users may write to its folder; `chmod go-w` it".to_owned());
    }
    let temporary = disk.temporary();
    make_folder(&temporary)?;
    remove_parts(&temporary).map_err(|error| format!("{}: {error}", temporary.display()))
}

fn make_folder(path: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes parts of files that an earlier process did not finish, and nothing else: a folder may hold files
/// of others.
fn remove_parts(temporary: &Path) -> io::Result<()> {
    for entry in fs::read_dir(temporary)? {
        let entry = entry?;
        let is_part = entry.file_name().to_str().is_some_and(|name| is_hex(name, 16));
        if is_part && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Threads {
    fn start() -> Result<Threads, String> {
        let thread = |name: &str| {
            let (jobs, handed_in) = channel::<DiskJob>();
            let run = move || handed_in.into_iter().for_each(|job| job());
            let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
            started.map(|_| jobs).map_err(|error| format!("cannot start a thread: {error}"))
        };
        Ok(Threads {
            writer: thread("cache-write")?,
            readers: [thread("cache-read")?, thread("cache-read")?],
        })
    }
}

/// Appends the metrics of zones on disk.
pub(super) fn write_metrics<'a>(disks: impl Iterator<Item = &'a DiskStore>, text: &mut String) {
    let name = "weir_cache_disk_failures_total";
    header(text, name, "counter", "Reads and writes of a cache zone on disk that failed.");
    for disk in disks {
        sample(text, name, &[("zone", &disk.zone)], disk.failures.load(Ordering::Relaxed));
    }
}

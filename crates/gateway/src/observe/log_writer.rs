//! A log's writer: a bounded queue in memory, and one thread that owns the file. No thread of the gateway
//! waits for a slow disk or a stopped reader: lines beyond the capacity of the queue are dropped, counted and
//! reported.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};

/// Mode of a log file that is created here: the group may read it for a log collector, others may not,
/// because lines hold addresses, paths and queries of clients.
const FILE_MODE: u32 = 0o640;
/// The cost of a message beyond its bytes: its place in the channel and the allocator's rounding. Without it,
/// short lines could make the queue hold several times its limit.
const MESSAGE_OVERHEAD_BYTES: usize = 64;
/// Shortest interval between two reports of lost lines while the writer does not catch up.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDestination {
    /// To standard output.
    Stdout,
    /// To standard error.
    Stderr,
    /// To a file, appended.
    File(PathBuf),
}

/// The sending end of the log. Clones act on the same log; the thread ends with the last one.
#[derive(Clone, Debug)]
pub struct LogWriter {
    messages: Sender<LogWriterMessage>,
    state: Arc<LogWriterState>,
}

#[derive(Debug)]
enum LogWriterMessage {
    Lines(Vec<u8>),
    Reopen,
    /// Answered when everything that was sent before has been written.
    Flush(SyncSender<()>),
}

#[derive(Debug)]
struct LogWriterState {
    /// The name of the log in messages about it.
    name: &'static str,
    /// Most bytes that may wait.
    queue_bytes: usize,
    /// Bytes that wait now, with the overhead of each message.
    waiting_bytes: AtomicUsize,
    /// Lines that were lost since the start.
    lost_lines: AtomicU64,
    /// A `Reopen` is on its way: another would change nothing.
    is_reopening: AtomicBool,
    /// The file that the lines go into.
    file: Mutex<Option<FileId>>,
}

/// Device and inode of a file; they stay when it is renamed.
type FileId = (u64, u64);

impl LogWriter {
    /// Opens the target and starts the writer thread. `name` is what messages about the log call it; at most
    /// `queue_bytes` of lines wait for the thread.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be made.
    pub fn start(name: &'static str, target: LogDestination, queue_bytes: usize) -> io::Result<LogWriter> {
        let out = open(&target)?;
        let (messages, received) = channel();
        let state = Arc::new(LogWriterState {
            name,
            queue_bytes,
            waiting_bytes: AtomicUsize::new(0),
            lost_lines: AtomicU64::new(0),
            is_reopening: AtomicBool::new(false),
            file: Mutex::new(id_of(out.metadata())),
        });
        let thread = WriterThread {
            target,
            out,
            state: Arc::clone(&state),
            is_failing: false,
            reported_lines: 0,
            reported_at: None,
            unopened_at: None,
        };
        std::thread::Builder::new().name(name.replace(' ', "-")).spawn(move || thread.run(&received))?;
        Ok(LogWriter { messages, state })
    }

    /// Hands whole lines to the writer; drops and counts them if too many wait already. Never blocks.
    pub fn send(&self, lines: Vec<u8>) {
        let state = &*self.state;
        let cost_bytes = cost_bytes(&lines);
        let before_bytes = state.waiting_bytes.fetch_add(cost_bytes, Ordering::Relaxed);
        if before_bytes + cost_bytes > state.queue_bytes {
            state.waiting_bytes.fetch_sub(cost_bytes, Ordering::Relaxed);
            return state.lose(&lines);
        }
        // The thread ends only after the last sender.
        let _ = self.messages.send(LogWriterMessage::Lines(lines));
    }

    /// Opens the file anew, as after it was moved away: lines that were sent before go into the old one,
    /// later lines into the new one. Standard output and standard error stay. [`LogWriter::writes_to`] tells
    /// whether it is done.
    pub fn reopen(&self) {
        if !self.state.is_reopening.swap(true, Ordering::AcqRel) {
            let _ = self.messages.send(LogWriterMessage::Reopen);
        }
    }

    /// Waits until everything that was sent before is written, at most for `limit`; whether it is.
    pub fn flush(&self, limit: Duration) -> bool {
        let (done, is_done) = sync_channel(1);
        self.messages.send(LogWriterMessage::Flush(done)).is_ok() && is_done.recv_timeout(limit).is_ok()
    }

    /// Whether the lines go into the file that has this path now, perhaps because it was renamed.
    pub fn writes_to(&self, path: &Path) -> bool {
        let file = *self.state.file.lock();
        file.is_some() && file == id_of(std::fs::metadata(path))
    }

    /// Lines that were lost since the start, because the queue was full or the file could not be written.
    pub fn lost_lines(&self) -> u64 {
        self.state.lost_lines.load(Ordering::Relaxed)
    }
}

impl LogWriterState {
    fn lose(&self, lines: &[u8]) {
        let count = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.lost_lines.fetch_add(count, Ordering::Relaxed);
    }
}

fn id_of(file: io::Result<Metadata>) -> Option<FileId> {
    file.ok().map(|file| (file.dev(), file.ino()))
}

fn cost_bytes(lines: &Vec<u8>) -> usize {
    lines.capacity() + MESSAGE_OVERHEAD_BYTES
}

/// The thread and its own state.
struct WriterThread {
    target: LogDestination,
    out: File,
    state: Arc<LogWriterState>,
    /// The last write has failed.
    is_failing: bool,
    /// Lost lines that have been reported.
    reported_lines: u64,
    reported_at: Option<Instant>,
    /// When it was last reported that the file cannot be opened anew.
    unopened_at: Option<Instant>,
}

impl WriterThread {
    fn run(mut self, received: &Receiver<LogWriterMessage>) {
        while let Ok(message) = received.recv() {
            match message {
                LogWriterMessage::Lines(lines) => self.write(&lines),
                LogWriterMessage::Reopen => self.reopen(),
                LogWriterMessage::Flush(done) => {
                    // The caller of `flush` may have stopped waiting.
                    let _ = done.try_send(());
                }
            }
        }
    }

    fn write(&mut self, lines: &Vec<u8>) {
        let result = write_all(&self.out, lines);
        self.state.waiting_bytes.fetch_sub(cost_bytes(lines), Ordering::Relaxed);
        match result {
            Ok(()) => {
                self.is_failing = false;
                self.tell_of_lost_lines();
            }
            Err(error) => {
                self.state.lose(lines);
                if !std::mem::replace(&mut self.is_failing, true) {
                    let (log, target) = (self.state.name, &self.target);
                    tracing::error!(log, ?target, %error, "a log cannot be written; its lines are lost until it can");
                }
            }
        }
    }

    /// Reports lost lines when the writer has caught up, or once per interval while it has not.
    fn tell_of_lost_lines(&mut self) {
        let lost_lines = self.state.lost_lines.load(Ordering::Relaxed);
        let has_caught_up = self.state.waiting_bytes.load(Ordering::Relaxed) == 0;
        let is_time = self.reported_at.is_none_or(|at| at.elapsed() >= TELL_INTERVAL);
        if lost_lines > self.reported_lines && (has_caught_up || is_time) {
            let (log, lines) = (self.state.name, lost_lines - self.reported_lines);
            self.reported_lines = lost_lines;
            self.reported_at = Some(Instant::now());
            // The error log's own writer hands this to its own queue, which never blocks.
            tracing::error!(
                log,
                lines,
                "lines of a log were lost: it could not be written, or not fast enough"
            );
        }
    }

    fn reopen(&mut self) {
        self.state.is_reopening.store(false, Ordering::Release);
        match open(&self.target) {
            Ok(opened) => {
                *self.state.file.lock() = id_of(opened.metadata());
                self.out = opened;
                self.unopened_at = None;
            }
            // Not reported each time, because rotation tries again with every tick.
            Err(_) if self.unopened_at.is_some_and(|at| at.elapsed() < TELL_INTERVAL) => {}
            Err(error) => {
                self.unopened_at = Some(Instant::now());
                let (log, target) = (self.state.name, &self.target);
                tracing::error!(log, ?target, %error, "a log cannot be opened anew; it goes on in the old file");
            }
        }
    }
}

/// The standard streams are duplicated, so that this thread holds none of the locks under which other threads
/// print.
fn open(target: &LogDestination) -> io::Result<File> {
    match target {
        LogDestination::Stdout => Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
        LogDestination::Stderr => Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
        LogDestination::File(path) => OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path),
    }
}

/// As [`Write::write_all`], but waits if the file is a pipe or terminal that another process has made
/// non-blocking.
fn write_all(mut out: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Any error of the pipe is reported by the next write.
                let _ = poll(&mut [PollFd::new(&out, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, PipeWriter, Read};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    /// A time limit far beyond the duration of a write.
    const LIMIT: Duration = Duration::from_secs(60);

    /// A writer into a pipe, and the ends of the pipe.
    fn into_pipe(queue_bytes: usize) -> (LogWriter, PipeReader, PipeWriter) {
        let (reader, end) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", end.as_raw_fd());
        (LogWriter::start("test log", LogDestination::File(path.into()), queue_bytes).unwrap(), reader, end)
    }

    #[test]
    fn full_queue_drops_and_counts_lines() {
        let (writer, mut reader, _end) = into_pipe(100_000);
        let line = [[b'x'; 999].as_slice(), b"\n"].concat();
        // The queue takes 93 of them, the pipe's 64 KiB take another 65 where the thread gets to write them
        // meanwhile.
        for _ in 0..1_000 {
            writer.send(line.clone());
        }
        let lost = writer.lost_lines();
        assert!((800..=907).contains(&lost), "{lost}");
        assert!(!writer.flush(Duration::ZERO), "nothing can be written now");
        let mut read = vec![0; (1_000 - lost as usize) * line.len()];
        reader.read_exact(&mut read).unwrap();
        assert!(writer.flush(LIMIT));
        assert_eq!(writer.lost_lines(), lost);
        assert_eq!(writer.state.waiting_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn moved_file_is_opened_again_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
        let writer = LogWriter::start("test log", LogDestination::File(path.clone()), 100_000).unwrap();
        writer.send(b"first\n".to_vec());
        assert!(writer.flush(LIMIT));
        std::fs::rename(&path, &moved).unwrap();
        writer.send(b"second\n".to_vec());
        assert!(writer.writes_to(&moved) && !writer.writes_to(&path));
        writer.reopen();
        writer.send(b"third\n".to_vec());
        assert!(writer.flush(LIMIT));
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "first\nsecond\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "third\n");
        assert!(writer.writes_to(&path) && !writer.writes_to(&moved));
    }

    #[test]
    fn log_that_cannot_be_opened_again_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
        let writer = LogWriter::start("test log", LogDestination::File(path.clone()), 100_000).unwrap();
        std::fs::rename(&path, &moved).unwrap();
        std::fs::create_dir(&path).unwrap();
        writer.reopen();
        assert!(writer.flush(LIMIT));
        assert!(writer.writes_to(&moved));
    }

    #[test]
    fn new_file_is_not_readable_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        LogWriter::start("test log", LogDestination::File(path.clone()), 1).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        // The umask of the test may take away more.
        assert_eq!((mode & 0o600, mode & !FILE_MODE), (0o600, 0), "{mode:o}");
        assert!(LogWriter::start("test log", LogDestination::File(folder.path().to_owned()), 1).is_err());
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let writer = LogWriter::start("test log", LogDestination::File("/dev/full".into()), 100_000).unwrap();
        writer.send(b"one\ntwo\n".to_vec());
        assert!(writer.flush(LIMIT));
        assert_eq!(writer.lost_lines(), 2);
    }
}

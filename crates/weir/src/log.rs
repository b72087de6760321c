//! The error log: the messages of this process, one line each, to standard error or a file. No thread waits
//! until a message is written. Knows nothing of requests; the access log belongs to the data plane.

mod json;

use parking_lot::Mutex;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use exchange::observe::error_tap::{self, Severity};
use gateway::observe::log_writer::{LogDestination, LogWriter};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::settings::{ErrorLog, ErrorLogFormat, log_filter};

/// The running log: changes its level and opens its file again. Clones act on the same log.
#[derive(Clone, Debug)]
pub(crate) struct LogControl {
    filter: reload::Handle<Targets, Registry>,
    level: Arc<Mutex<String>>,
    writer: LogWriter,
}

/// Starts the log of this process. `level` is a `log_level` setting. Panics are written to it from now on.
///
/// # Errors
/// The log file cannot be opened, the level is invalid, or the log runs already.
pub(crate) fn start_error_log(
    target: &ErrorLog,
    format: ErrorLogFormat,
    level: &str,
) -> anyhow::Result<LogControl> {
    let writer = open(target)?;
    let (filter, handle) = reload::Layer::new(log_filter(level).map_err(anyhow::Error::msg)?);
    let lines = LogLineMaker(writer.clone());
    let lines = match format {
        ErrorLogFormat::Text => fmt::layer().with_writer(lines).with_ansi(takes_colour(target)).boxed(),
        ErrorLogFormat::Json => {
            fmt::layer().with_writer(lines).with_ansi(false).event_format(json::JsonEvents).boxed()
        }
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .context("the log is already running")?;
    if RUNNING.set(writer.clone()).is_ok() {
        std::panic::set_hook(Box::new(log_panic));
    }
    Ok(LogControl { filter: handle, level: Arc::new(Mutex::new(level.to_owned())), writer })
}

/// Waits until all logged messages are written, at most for `FLUSH_LIMIT`, so that a reader that has stopped
/// does not keep this process from ending. Does nothing where no log runs, as in most commands.
pub(crate) fn flush() {
    if let Some(writer) = RUNNING.get() {
        writer.flush(FLUSH_LIMIT);
    }
}

/// Whether this process writes an error log, and so must not wait for the reader of standard error.
pub(crate) fn is_running() -> bool {
    RUNNING.get().is_some()
}

impl LogControl {
    /// The level in force, as it was written.
    pub(crate) fn level(&self) -> String {
        lock(&self.level).clone()
    }

    /// Sets the level, from now on.
    ///
    /// # Errors
    /// The fault of the text; the level stays.
    pub(crate) fn set_level(&self, level: &str) -> Result<(), String> {
        let filter = log_filter(level)?;
        self.filter.reload(filter).map_err(|error| error.to_string())?;
        level.clone_into(&mut lock(&self.level));
        Ok(())
    }

    /// Opens the log file again under its name, after it was moved away. Does nothing for standard error. If
    /// the file cannot be opened, the error is logged to the old one, and messages go on there.
    pub(crate) fn reopen(&self) {
        self.writer.reopen();
    }

    /// Whether messages go into the file that has this path now.
    pub(crate) fn writes_to(&self, path: &Path) -> bool {
        self.writer.writes_to(path)
    }

    /// Lines that were lost since the start.
    pub(crate) fn lost_lines(&self) -> u64 {
        self.writer.lost_lines()
    }
}

fn open(target: &ErrorLog) -> anyhow::Result<LogWriter> {
    let start = |target| LogWriter::start("error log", target, QUEUE_BYTES);
    match target {
        ErrorLog::Stderr => start(LogDestination::Stderr).context("cannot start the error log"),
        ErrorLog::File(path) => start(LogDestination::File(path.clone())).with_context(|| {
            format!("cannot open the error log {}: choose another with --error-log", path.display())
        }),
    }
}

fn takes_colour(target: &ErrorLog) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    *target == ErrorLog::Stderr && io::stderr().is_terminal() && !refused
}

/// Logs a panic. The default hook prints it, which could block the worker for ever if the reader of standard
/// error has stopped.
fn log_panic(panic: &PanicHookInfo<'_>) {
    // Skipped, because a panic over a damaged store is caught and becomes an error with a message.
    if control::source::store::panic_is_expected() {
        return;
    }
    let current = std::thread::current();
    let thread = current.name().unwrap_or("unnamed");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let reason = panic.payload_as_str().unwrap_or("a value that is no text");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!(thread, %location, reason, %backtrace, "a thread panicked");
    } else {
        tracing::error!(thread, %location, reason, "a thread panicked");
    }
    // Flushed here, because nothing else runs if the panic ends the process by an abort.
    if let Some(writer) = RUNNING.get() {
        writer.flush(PANIC_FLUSH_LIMIT);
    }
}

/// Gives every event a [`LogLineWriter`].
struct LogLineMaker(LogWriter);

impl<'a> MakeWriter<'a> for LogLineMaker {
    type Writer = LogLineWriter<'a>;

    fn make_writer(&'a self) -> LogLineWriter<'a> {
        LogLineWriter { writer: &self.0, severity: Severity::Info }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> LogLineWriter<'a> {
        let severity = match *event.level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            Level::INFO => Severity::Info,
            Level::DEBUG => Severity::Debug,
            Level::TRACE => Severity::Trace,
        };
        LogLineWriter { writer: &self.0, severity }
    }
}

/// Passes one event to the writer thread, and to the plugin that reports errors. The formatter writes each
/// event with one call.
struct LogLineWriter<'a> {
    writer: &'a LogWriter,
    severity: Severity,
}

impl Write for LogLineWriter<'_> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = one_line(event);
        error_tap::offer(self.severity, &line);
        self.writer.send(line.into_owned());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The event on one line: line breaks within it are written as `\n` and `\r`, so that a name or an error text
/// from outside cannot forge a line of its own.
fn one_line(event: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let text = event.strip_suffix(b"\n").unwrap_or(event);
    if !text.contains(&b'\n') && !text.contains(&b'\r') {
        return event.into();
    }
    let mut line = Vec::with_capacity(event.len() + 8);
    for byte in text {
        match byte {
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            other => line.push(*other),
        }
    }
    line.push(b'\n');
    line.into()
}

/// The guard of a mutex of this file. Each value is replaced in one step, so a panic while it was locked left
/// it whole.
fn lock<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.lock()
}

/// The log of this process, for its end and for panics, which have no handle.
static RUNNING: OnceLock<LogWriter> = OnceLock::new();

/// Bytes of messages that may wait for the writer: about 5,000 lines, more than a start or a faulty
/// configuration makes.
const QUEUE_BYTES: usize = 1024 * 1024;
/// Longest wait at the end of the process for its last messages. A working disk or collector takes
/// milliseconds.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);
/// Longest wait of a panicking thread for its message. Short, because a worker that goes on after a panic
/// must not be blocked by a log that is blocked.
const PANIC_FLUSH_LIMIT: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let check = |event: &str, expected: &str| assert_eq!(one_line(event.as_bytes()), expected.as_bytes());
        check("started\n", "started\n");
        check("a\nb\r\nc\n", "a\\nb\\r\\nc\n");
        check("\n", "\n");
    }

    /// Names the log file of [`child_that_panics`].
    const CHILD_LOG: &str = "WEIR_TEST_CHILD_LOG";

    #[test]
    fn panic_is_logged_and_written_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("error.log");
        // In a child process, because the hook is global.
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "log::tests::child_that_panics", "--ignored"]).env(CHILD_LOG, &path);
        assert!(child.output().unwrap().status.success());
        let text = std::fs::read_to_string(&path).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((&line["level"], &line["message"]), (&"error".into(), &"a thread panicked".into()));
        assert_eq!(line["fields"]["thread"], "worker-7");
        assert_eq!(line["fields"]["reason"], "one\ntwo");
        assert!(line["fields"]["location"].as_str().unwrap().contains("log.rs:"), "{line}");
    }

    #[test]
    #[ignore = "panic_is_logged_and_written_at_once runs it in a process of its own"]
    fn child_that_panics() {
        let path = std::env::var_os(CHILD_LOG).unwrap();
        start_error_log(&ErrorLog::File(path.into()), ErrorLogFormat::Json, "info").unwrap();
        let thread = std::thread::Builder::new().name("worker-7".to_owned());
        thread.spawn(|| panic!("{}", "one\ntwo")).unwrap().join().unwrap_err();
    }

    #[test]
    fn the_level_changes_while_it_runs() {
        let (layer, filter) = reload::Layer::new(log_filter("info").unwrap());
        let _subscriber = tracing_subscriber::registry().with(layer);
        let level = Arc::new(Mutex::new("info".to_owned()));
        let log = LogControl { filter, level, writer: open(&ErrorLog::Stderr).unwrap() };
        log.set_level("warn,control=debug").unwrap();
        assert_eq!(log.level(), "warn,control=debug");
        let refused = log.set_level("loud").unwrap_err();
        assert!(refused.contains("`loud` is not a level"), "{refused}");
        assert_eq!(log.level(), "warn,control=debug");
    }
}

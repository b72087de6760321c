//! The error log: the node's own messages, one line each, to standard error or a file. Knows nothing of requests;
//! the access log is the data plane's.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::settings::{ErrorLog, log_filter};

/// The running log: changes its level and opens its file again. Clones act on the same log.
#[derive(Clone, Debug)]
pub(crate) struct LogControl {
    filter: reload::Handle<Targets, Registry>,
    level: Arc<Mutex<String>>,
    output: Output,
}

/// Starts the log of this process. `level` is a `log_level` setting.
///
/// # Errors
/// A log file that cannot be opened, a level that is none, or a second start.
pub(crate) fn start(target: &ErrorLog, level: &str) -> anyhow::Result<LogControl> {
    let output = Output::open(target)?;
    let (filter, handle) = reload::Layer::new(log_filter(level).map_err(anyhow::Error::msg)?);
    let lines = fmt::layer().with_writer(output.clone()).with_ansi(output.takes_colour());
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .context("the log is already running")?;
    Ok(LogControl { filter: handle, level: Arc::new(Mutex::new(level.to_owned())), output })
}

impl LogControl {
    /// The level in force, as it was written.
    pub(crate) fn level(&self) -> String {
        lock(&self.level).clone()
    }

    /// Sets the level, from now on.
    ///
    /// # Errors
    /// What is wrong with the text; the level stays.
    pub(crate) fn set_level(&self, level: &str) -> Result<(), String> {
        let filter = log_filter(level)?;
        self.filter.reload(filter).map_err(|error| error.to_string())?;
        level.clone_into(&mut lock(&self.level));
        Ok(())
    }

    /// Opens the log file again under its name, after it was moved away. Nothing for standard error.
    ///
    /// # Errors
    /// The file cannot be opened; messages go on into the old one.
    pub(crate) fn reopen(&self) -> anyhow::Result<()> {
        self.output.reopen()
    }
}

/// Where lines go.
#[derive(Clone, Debug)]
enum Output {
    File { path: Arc<PathBuf>, file: Arc<Mutex<Arc<File>>> },
    Stderr,
}

impl Output {
    fn open(target: &ErrorLog) -> anyhow::Result<Self> {
        Ok(match target {
            ErrorLog::Stderr => Self::Stderr,
            ErrorLog::File(path) => {
                let file = Arc::new(Mutex::new(Arc::new(open_for_appending(path)?)));
                Self::File { path: Arc::new(path.clone()), file }
            }
        })
    }

    fn reopen(&self) -> anyhow::Result<()> {
        if let Self::File { path, file } = self {
            let opened = Arc::new(open_for_appending(path)?);
            *lock(file) = opened;
        }
        Ok(())
    }

    fn takes_colour(&self) -> bool {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        matches!(self, Self::Stderr) && io::stderr().is_terminal() && !refused
    }
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        match self {
            Self::Stderr => Line::Stderr,
            // The lock is held for a clone, not for the write: a slow disk makes no thread wait for another.
            Self::File { file, .. } => Line::File(Arc::clone(&lock(file))),
        }
    }
}

/// Writes one event, which arrives whole.
#[derive(Debug)]
enum Line {
    File(Arc<File>),
    Stderr,
}

impl Write for Line {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = one_line(event);
        match self {
            Self::File(file) => (&**file).write_all(&line)?,
            Self::Stderr => io::stderr().lock().write_all(&line)?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The event on one line: line breaks within it are written as `\n` and `\r`, so that a name or an error text from
/// outside cannot forge a line of its own.
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

fn open_for_appending(path: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(|| {
        format!("cannot open the error log {}: choose another with --error-log", path.display())
    })
}

/// A thread that panicked while it held one of these left a whole value behind: each is replaced in one step.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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

    #[test]
    fn a_moved_file_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("error.log");
        let output = Output::open(&ErrorLog::File(path.clone())).unwrap();
        output.make_writer().write_all(b"first\n").unwrap();
        std::fs::rename(&path, folder.path().join("error.log.1")).unwrap();
        output.make_writer().write_all(b"second\n").unwrap();
        output.reopen().unwrap();
        output.make_writer().write_all(b"third\n").unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("error.log.1")).unwrap(), "first\nsecond\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "third\n");
    }

    #[test]
    fn the_level_changes_while_it_runs() {
        let (layer, filter) = reload::Layer::new(log_filter("info").unwrap());
        let _subscriber = tracing_subscriber::registry().with(layer);
        let level = Arc::new(Mutex::new("info".to_owned()));
        let log = LogControl { filter, level, output: Output::Stderr };
        log.set_level("warn,control=debug").unwrap();
        assert_eq!(log.level(), "warn,control=debug");
        let refused = log.set_level("loud").unwrap_err();
        assert!(refused.contains("`loud` is not a level"), "{refused}");
        assert_eq!(log.level(), "warn,control=debug");
        log.reopen().unwrap();
    }
}

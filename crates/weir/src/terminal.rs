//! Output of commands: text to the two standard streams, with colour only on a terminal.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Writes one line to standard output. A closed pipe (`weir … | head`) is not an error.
pub(crate) fn print<T: Display>(line: T) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Writes one line to standard error. A failure is ignored, because there is no other stream to report it on.
pub(crate) fn print_error<T: Display>(line: T) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// As [`print()`], for a process that serves: a reader of standard output that has stopped does not keep the
/// process from serving, handling signals or ending. The text is then written when the reader goes on.
pub(crate) fn print_bounded<T: Display>(text: T) {
    let text = text.to_string();
    bounded(move || print(text));
}

/// As [`print_bounded`], to standard error.
pub(crate) fn print_error_bounded<T: Display>(text: T) {
    let text = text.to_string();
    bounded(move || print_error(text));
}

/// Runs `write` on a thread of its own and waits for it, at most [`PRINT_LIMIT`].
fn bounded(write: impl FnOnce() + Send + 'static) {
    let (done, is_done) = sync_channel(1);
    let started = std::thread::Builder::new().name("print".to_owned()).spawn(move || {
        write();
        // Ignored, because the caller may have stopped waiting.
        let _ = done.try_send(());
    });
    if started.is_ok() {
        let _ = is_done.recv_timeout(PRINT_LIMIT);
    }
}

/// A working terminal, file or log collector takes milliseconds.
const PRINT_LIMIT: Duration = Duration::from_secs(1);

/// Marks of text on a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Paint {
    /// ANSI colours.
    Colour,
    /// No marks.
    Plain,
}

impl Paint {
    /// For standard output: colour on a terminal unless `NO_COLOR` is set to a non-empty value
    /// (no-color.org).
    pub(crate) fn for_stdout() -> Self {
        Self::choose(io::stdout().is_terminal())
    }

    /// For standard error, by the same rule.
    pub(crate) fn for_stderr() -> Self {
        Self::choose(io::stderr().is_terminal())
    }

    /// Text about a success, or a new value.
    pub(crate) fn good(self, text: &str) -> String {
        self.mark("32", text)
    }

    /// Text about an error, or an old value.
    pub(crate) fn bad(self, text: &str) -> String {
        self.mark("31", text)
    }

    /// A warning.
    pub(crate) fn noted(self, text: &str) -> String {
        self.mark("33", text)
    }

    /// Text of minor importance.
    pub(crate) fn faint(self, text: &str) -> String {
        self.mark("2", text)
    }

    fn choose(is_terminal: bool) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if is_terminal && !refused { Self::Colour } else { Self::Plain }
    }

    fn mark(self, code: &str, text: &str) -> String {
        match self {
            Self::Colour => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Plain => text.to_owned(),
        }
    }
}

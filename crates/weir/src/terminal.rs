//! What commands print: text to the two standard streams, colour only where a person looks at it.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// Writes one line to standard output. A reader that went away (`weir … | head`) is not an error.
pub(crate) fn print(line: impl Display) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Writes one line to standard error. There is nowhere to report that this failed.
pub(crate) fn print_error(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// How text is marked on a stream: with colour, or not at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Paint {
    /// ANSI colours.
    Colour,
    /// Nothing but the text.
    Plain,
}

impl Paint {
    /// For standard output: colour on a terminal unless `NO_COLOR` is set (no-color.org: to anything but empty).
    pub(crate) fn for_stdout() -> Self {
        Self::choose(io::stdout().is_terminal())
    }

    /// For standard error, by the same rule.
    pub(crate) fn for_stderr() -> Self {
        Self::choose(io::stderr().is_terminal())
    }

    /// Something good.
    pub(crate) fn good(self, text: &str) -> String {
        self.mark("32", text)
    }

    /// Something wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.mark("31", text)
    }

    /// Something to look at.
    pub(crate) fn noted(self, text: &str) -> String {
        self.mark("33", text)
    }

    /// Something of less weight.
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

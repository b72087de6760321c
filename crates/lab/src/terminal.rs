//! Output of the laboratory: lines to the two standard streams, with colour only on a terminal. It does not
//! choose the texts.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// Writes one line to standard output. A closed reader (`weir lab … | head`) is not an error.
pub fn print_line(line: impl Display) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Writes one line to standard error. A failure cannot be reported.
pub fn print_error(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Whether standard error is a terminal, where progress is shown.
pub fn progress_is_seen() -> bool {
    io::stderr().is_terminal()
}

/// How text is marked on a stream: with colour, or not at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Paint {
    /// ANSI colours.
    Colour,
    /// Nothing but the text.
    Plain,
}

impl Paint {
    /// For standard output: colour on a terminal unless `NO_COLOR` is set (no-color.org: to anything but
    /// empty).
    pub fn for_stdout() -> Self {
        Self::choose(io::stdout().is_terminal(), std::env::var_os("NO_COLOR").as_deref())
    }

    /// For standard error, by the same rule.
    pub fn for_stderr() -> Self {
        Self::choose(io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref())
    }

    /// A heading.
    pub fn strong(self, text: &str) -> String {
        self.mark("1", text)
    }

    /// A good value.
    pub fn good(self, text: &str) -> String {
        self.mark("32", text)
    }

    /// A wrong value.
    pub fn bad(self, text: &str) -> String {
        self.mark("31", text)
    }

    /// A value to look at.
    pub fn noted(self, text: &str) -> String {
        self.mark("33", text)
    }

    /// A less important text.
    pub fn faint(self, text: &str) -> String {
        self.mark("2", text)
    }

    fn choose(is_terminal: bool, no_color: Option<&std::ffi::OsStr>) -> Self {
        let refused = no_color.is_some_and(|value| !value.is_empty());
        if is_terminal && !refused { Self::Colour } else { Self::Plain }
    }

    fn mark(self, code: &str, text: &str) -> String {
        match self {
            Self::Colour => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Plain => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_used_on_terminals_only() {
        assert_eq!(Paint::choose(true, None), Paint::Colour);
        assert_eq!(Paint::choose(true, Some("".as_ref())), Paint::Colour);
        assert_eq!(Paint::choose(true, Some("1".as_ref())), Paint::Plain);
        assert_eq!(Paint::choose(false, None), Paint::Plain);
        assert_eq!(Paint::Plain.bad("no"), "no");
        assert_eq!(Paint::Colour.bad("no"), "\u{1b}[31mno\u{1b}[0m");
    }
}

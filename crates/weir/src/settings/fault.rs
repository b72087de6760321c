//! A fault of a setting, with its place. Prints nothing itself.

use std::fmt;
use std::path::PathBuf;

/// Where a value was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum SettingLocation {
    /// Not written: the default.
    Default,
    /// In a settings file, at a line counted from 1; 0 is the file as a whole.
    File {
        /// The file as it was named.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// In a file of another format (APISIX), under a key of that format.
    Translated {
        /// The file as it was named.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key there: `apisix.node_listen`.
        key: Box<str>,
    },
    /// In an environment variable.
    Environment,
    /// On the command line.
    Flag,
}

/// One fault of the settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SettingFault {
    /// The source of the value.
    pub(crate) place: SettingLocation,
    /// The name as written there: `proxy`, `WEIR_PROXY`, `--proxy`; empty where the place as a whole is
    /// wrong.
    pub(crate) name: String,
    /// The fault, and how to correct it.
    pub(crate) reason: String,
}

/// All faults of the settings; never empty.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Faults(pub Vec<SettingFault>);

impl Faults {
    /// Whether a flag is faulty, which is a usage error.
    #[must_use]
    pub(crate) fn blames_flags(&self) -> bool {
        self.0.iter().any(|fault| fault.place == SettingLocation::Flag)
    }
}

impl fmt::Display for SettingFault {
    /// `file:line: name: reason`, or `name: reason` where there is no file.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let SettingLocation::File { path, line } | SettingLocation::Translated { path, line, .. } =
            &self.place
        {
            write!(out, "{}:", path.display())?;
            if *line > 0 {
                write!(out, "{line}:")?;
            }
            out.write_str(" ")?;
        }
        if !self.name.is_empty() {
            write!(out, "{}: ", self.name)?;
        }
        out.write_str(&self.reason)
    }
}

impl fmt::Display for Faults {
    /// One fault a line.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(out, "{separator}{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

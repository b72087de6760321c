//! Keys of a file that have no effect here: reported in one warning, or a line each. Decides nothing.

use std::fmt;
use std::path::PathBuf;

/// One key without effect.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Remark {
    /// Its line, from 1.
    pub(crate) line: usize,
    /// The full key: `apisix.router.ssl`.
    pub(crate) key: String,
    /// The reason, or the effect that it has instead.
    pub(crate) reason: String,
}

/// All remarks on a file, in the order of lines.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Remarks {
    /// The file as it was named.
    pub(crate) path: PathBuf,
    pub(crate) remarks: Vec<Remark>,
}

impl Remarks {
    /// `file:line: key: warning: reason` for each.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.remarks.iter().map(|remark| {
            let Remark { line, key, reason } = remark;
            format!("{}:{line}: {key}: warning: {reason}", self.path.display())
        })
    }

    /// Logs all remarks as one warning, if there are any.
    pub(crate) fn warn(&self) {
        if !self.remarks.is_empty() {
            tracing::warn!("{self}");
        }
    }
}

impl fmt::Display for Remarks {
    /// One line: `file: these keys do nothing here, or not all they say: key (line 3: reason); …`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: these keys do nothing here, or not all they say: ", self.path.display())?;
        for (index, Remark { line, key, reason }) in self.remarks.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(out, "{separator}{key} (line {line}: {reason})")?;
        }
        Ok(())
    }
}

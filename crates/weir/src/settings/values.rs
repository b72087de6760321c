//! The types of settings that are not plain numbers, texts or addresses. Knows no syntax: `parse` makes them.

use std::fmt;
use std::path::PathBuf;

/// Where finished requests are logged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum LogTarget {
    /// To a file, opened for appending; USR1 opens it again.
    File(PathBuf),
    /// Nowhere.
    Off,
    /// To standard output.
    Stdout,
}

/// Where the node's own messages go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ErrorLog {
    /// To a file, opened for appending; USR1 opens it again.
    File(PathBuf),
    /// To standard error.
    Stderr,
}

/// How a line of the error log is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ErrorLogFormat {
    /// A JSON object.
    Json,
    /// For people.
    Text,
}

/// What a line of the access log holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum AccessLogFormat {
    /// A JSON object: fields in order, each with a template of its own.
    Json(Vec<(String, String)>),
    /// A text with `$variables`.
    Template(String),
}

/// What this process may hold of the machine's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MemoryLimit {
    /// A share of its cgroup's limit, where there is one.
    Auto,
    /// So many bytes.
    Bytes(u64),
    /// As much as it likes.
    Off,
}

/// What is done about nodes that become slow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Overload {
    /// As many requests wait for an upstream as it answers in about the usual time.
    Adaptive,
    /// Nothing.
    Off,
}

/// Where resources come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Source {
    /// The file if one is named, else the store.
    Auto,
    /// What a cluster shares.
    Etcd,
    /// A declarative file.
    File,
    /// The embedded store.
    Store,
}

/// A text that is shown to nobody: `Debug` only says that it is set.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, for the one place that needs it.
    #[must_use]
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(set)")
    }
}

/// The Admin key. Its text is never part of `Debug` output.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct AdminKey(String);

impl AdminKey {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The key itself, for the one place that compares it.
    #[must_use]
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

/// An Admin key and what it allows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct RoleKey {
    /// The key.
    pub(crate) key: AdminKey,
    /// What it allows.
    pub(crate) role: control::Role,
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(set)")
    }
}

/// The keys that secrets are encrypted with, the first one first. Their texts are never part of `Debug` output.
#[derive(Clone, Default, Eq, PartialEq)]
pub(crate) struct Keyring(Vec<String>);

impl Keyring {
    pub(super) fn new(keys: Vec<String>) -> Self {
        Self(keys)
    }

    /// The keys themselves, for the one place that makes ciphers of them.
    #[must_use]
    pub(crate) fn reveal(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "({} keys)", self.0.len())
    }
}

/// Accounts elsewhere that accounts at authorities are bound to, in the order of the authorities. Their keys are never part
/// of `Debug` output.
#[derive(Clone, Default, Eq, PartialEq)]
pub(crate) struct ExternalAccounts(Vec<Option<(String, Vec<u8>)>>);

impl ExternalAccounts {
    pub(super) fn new(accounts: Vec<Option<(String, Vec<u8>)>>) -> Self {
        Self(accounts)
    }

    /// The number of entries, empty ones included.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Id and key of the account for the authority with that index.
    #[must_use]
    pub(crate) fn reveal(&self, index: usize) -> Option<(String, Vec<u8>)> {
        self.0.get(index).cloned().flatten()
    }
}

impl fmt::Debug for ExternalAccounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "({} accounts)", self.0.len())
    }
}

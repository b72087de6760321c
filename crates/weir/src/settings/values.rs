//! The types of settings that are not plain numbers, texts or addresses. Knows no syntax: `parse` makes them.

use std::fmt;
use std::path::PathBuf;

/// The target of the access log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum LogTarget {
    /// To a file, opened for appending; USR1 opens it again.
    File(PathBuf),
    /// Nowhere.
    Off,
    /// To standard output.
    Stdout,
}

/// The target of the error log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ErrorLog {
    /// To a file, opened for appending; USR1 opens it again.
    File(PathBuf),
    /// To standard error.
    Stderr,
}

/// The format of a line of the error log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ErrorLogFormat {
    /// A JSON object.
    Json,
    /// A text to read in a terminal.
    Text,
}

/// The format of a line of the access log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum AccessLogFormat {
    /// A JSON object: fields in order, each with its template.
    Json(Vec<(String, String)>),
    /// A text with `$variables`.
    Template(String),
}

/// The limit of this process's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MemoryLimit {
    /// A share of the narrowest bound of the kernel; no limit without one.
    Auto,
    /// A number of bytes.
    Bytes(u64),
    /// No limit.
    Off,
}

/// The reaction to nodes that become slow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Overload {
    /// Limits the requests that wait for an upstream to as many as it answers in about the usual time.
    Adaptive,
    /// No reaction.
    Off,
}

/// Whether stream routes are taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StreamRoutes {
    /// If there is a listener of layer 4.
    Auto,
    /// Always.
    Taken,
    /// Never.
    Refused,
}

/// The source of resources.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ResourceSource {
    /// The file if `resources` names one, else the store.
    Auto,
    /// The keys in etcd that a cluster of instances shares.
    Etcd,
    /// A declarative file.
    File,
    /// The embedded store.
    Store,
}

/// A secret text: `Debug` only shows that it is set.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The text. To be called only by the code that uses it.
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

/// The Admin key. `Debug` does not show it.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct AdminKey(String);

impl AdminKey {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The key. To be called only by the code that compares it.
    #[must_use]
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

/// An Admin key and its role.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct RoleKey {
    pub(crate) key: AdminKey,
    pub(crate) role: control::Role,
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(set)")
    }
}

/// The keys that secrets are encrypted with; the first one encrypts. `Debug` does not show them.
#[derive(Clone, Default, Eq, PartialEq)]
pub(crate) struct Keyring(Vec<String>);

impl Keyring {
    pub(super) fn new(keys: Vec<String>) -> Self {
        Self(keys)
    }

    /// The keys. To be called only by the code that makes ciphers of them.
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

/// Accounts elsewhere that accounts at authorities are bound to, in the order of the authorities. Their keys
/// are never part of `Debug` output.
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

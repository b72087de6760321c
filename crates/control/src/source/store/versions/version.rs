//! The layout of the head of one revision in bytes: author, time, way, and the size of its changes. It does
//! not know the changes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::source::store::{StoreError, failed};

/// Author, time and way of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionLabel {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The way of the change.
    pub source: VersionSource,
    /// The author, as far as it is known.
    pub by: Arc<str>,
}

/// The ways by which a revision can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum VersionSource {
    /// One write of the Admin API.
    Admin = 1,
    /// A declarative set by `weir apply`.
    Apply = 2,
    /// A rollback to an older revision.
    Rollback = 3,
    /// A whole set by `PUT /apisix/admin/configs`.
    Configs = 4,
    /// The removal of expired objects.
    Expiry = 5,
}

/// One revision: the part that is read without its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionInfo {
    pub revision: u64,
    /// The revision before it.
    pub parent: u64,
    /// Author, time and way.
    pub label: RevisionLabel,
    /// Count of changed objects.
    pub objects: u32,
    /// Size of its changes in the store, in bytes.
    pub(super) bytes: u64,
}

impl VersionSource {
    const ALL: [VersionSource; 5] = [
        VersionSource::Admin,
        VersionSource::Apply,
        VersionSource::Rollback,
        VersionSource::Configs,
        VersionSource::Expiry,
    ];

    fn of(byte: u8) -> Option<VersionSource> {
        VersionSource::ALL.into_iter().find(|source| *source as u8 == byte)
    }
}

impl RevisionInfo {
    /// A revision that is kept elsewhere.
    pub fn external(revision: u64, parent: u64, label: RevisionLabel, objects: u32) -> RevisionInfo {
        RevisionInfo { revision, parent, label, objects, bytes: 0 }
    }

    /// The bytes for the store: layout byte, way, three little-endian numbers, the count of objects, then the
    /// author.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.label.by.len());
        bytes.extend([LAYOUT, self.label.source as u8]);
        for number in [self.parent, self.label.at_ms, self.bytes] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.objects.to_le_bytes());
        bytes.extend(self.label.by.as_bytes());
        bytes
    }

    /// Reads what `encode` wrote.
    pub(super) fn decode(revision: u64, bytes: &[u8]) -> Result<RevisionInfo, StoreError> {
        let damaged = || failed(format!("what is kept of version {revision} is damaged"));
        let (fixed, by) = bytes.split_at_checked(FIXED_BYTES).ok_or_else(damaged)?;
        let source = VersionSource::of(fixed[1]).filter(|_| fixed[0] == LAYOUT).ok_or_else(damaged)?;
        let number = |at: usize| {
            u64::from_le_bytes(fixed[at..at + 8].try_into().expect("the fixed part has three numbers"))
        };
        let objects = u32::from_le_bytes(fixed[26..30].try_into().expect("and a count behind them"));
        let by = std::str::from_utf8(by).map_err(|_| damaged())?;
        let label = RevisionLabel { at_ms: number(10), source, by: by.into() };
        Ok(RevisionInfo { revision, parent: number(2), label, objects, bytes: number(18) })
    }
}

/// The only layout.
const LAYOUT: u8 = 1;
/// Length of layout, way, three numbers and the count.
const FIXED_BYTES: usize = 2 + 3 * 8 + 4;

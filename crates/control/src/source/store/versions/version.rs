//! How the head of one version is laid out in bytes: who, when, by which way, and how much it changed. It refuses to know
//! the changes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::source::store::{StoreError, failed};

/// Who changed something, when, and by which way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The way.
    pub source: VersionSource,
    /// Who, as far as it is known.
    pub by: Arc<str>,
}

/// The way by which a version came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum VersionSource {
    /// One write of the Admin API.
    Admin = 1,
    /// A declarative file, applied.
    Apply = 2,
    /// An older version, taken up again.
    Rollback = 3,
    /// A whole set by `PUT /apisix/admin/configs`.
    Configs = 4,
    /// Objects whose time was up.
    Expiry = 5,
}

/// One version: what is told of it without reading its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its revision.
    pub revision: u64,
    /// The version it came after.
    pub parent: u64,
    /// Who, when, how.
    pub label: Label,
    /// How many objects it changed.
    pub objects: u32,
    /// What its changes take in the store, in bytes.
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

impl Version {
    /// A version that is kept elsewhere.
    pub fn told(revision: u64, parent: u64, label: Label, objects: u32) -> Version {
        Version { revision, parent, label, objects, bytes: 0 }
    }

    /// Layout byte, way, three little-endian numbers, the count of objects, then who.
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
    pub(super) fn decode(revision: u64, bytes: &[u8]) -> Result<Version, StoreError> {
        let damaged = || failed(format!("what is kept of version {revision} is damaged"));
        let (fixed, by) = bytes.split_at_checked(FIXED_BYTES).ok_or_else(damaged)?;
        let source = VersionSource::of(fixed[1]).filter(|_| fixed[0] == LAYOUT).ok_or_else(damaged)?;
        let number = |at: usize| {
            u64::from_le_bytes(fixed[at..at + 8].try_into().expect("the fixed part has three numbers"))
        };
        let objects = u32::from_le_bytes(fixed[26..30].try_into().expect("and a count behind them"));
        let by = std::str::from_utf8(by).map_err(|_| damaged())?;
        let label = Label { at_ms: number(10), source, by: by.into() };
        Ok(Version { revision, parent: number(2), label, objects, bytes: number(18) })
    }
}

/// The only layout so far.
const LAYOUT: u8 = 1;
/// Layout, way, three numbers and the count.
const FIXED_BYTES: usize = 2 + 3 * 8 + 4;

//! The cache statuses of the requests of a zone, counted by each worker for itself so that a hit writes no
//! memory that another worker reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Workers beyond these share a row with others.
const ROWS: usize = 64;

/// The status of a request, as `Apisix-Cache-Status` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheStatus {
    /// There was no entry.
    Miss,
    /// Answered by a fresh entry.
    Hit,
    /// The entry was stale, and the upstream has sent another one.
    Expired,
    /// Answered by a stale entry because the upstream failed or the client allows it, or not answered by an
    /// entry that is not fresh enough for the client.
    Stale,
    /// Answered by a stale entry while a request asks for a fresh one, in the background or for another
    /// client.
    Updating,
    /// The upstream has confirmed the stale entry.
    Revalidated,
    /// The cache was not asked.
    Bypass,
}

impl CacheStatus {
    pub(super) const ALL: [CacheStatus; 7] = [
        CacheStatus::Miss,
        CacheStatus::Hit,
        CacheStatus::Expired,
        CacheStatus::Stale,
        CacheStatus::Updating,
        CacheStatus::Revalidated,
        CacheStatus::Bypass,
    ];

    pub(super) fn word(self) -> &'static str {
        match self {
            CacheStatus::Miss => "MISS",
            CacheStatus::Hit => "HIT",
            CacheStatus::Expired => "EXPIRED",
            CacheStatus::Stale => "STALE",
            CacheStatus::Updating => "UPDATING",
            CacheStatus::Revalidated => "REVALIDATED",
            CacheStatus::Bypass => "BYPASS",
        }
    }
}

/// See the module.
pub(super) struct CacheCounters {
    rows: Box<[CacheCounterRow]>,
}

/// Of one worker; as long as two cache lines, which some processors fetch in pairs.
#[derive(Default)]
#[repr(align(128))]
struct CacheCounterRow([AtomicU64; CacheStatus::ALL.len()]);

impl Default for CacheCounters {
    fn default() -> CacheCounters {
        CacheCounters { rows: (0..ROWS).map(|_| CacheCounterRow::default()).collect() }
    }
}

impl CacheCounters {
    /// Counts a request of the worker with this number.
    pub(super) fn count(&self, worker: usize, status: CacheStatus) {
        self.rows[worker % ROWS].0[status as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The requests with this status.
    pub(super) fn total(&self, status: CacheStatus) -> u64 {
        self.rows.iter().map(|row| row.0[status as usize].load(Ordering::Relaxed)).sum()
    }
}

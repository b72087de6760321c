//! Capacity for connections, shared by the workers: how many descriptors the process may have, and when to
//! say that there are too few. Which connections give way is the workers' business.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::observe::pace::Pace;
use net::env;

/// The resource that is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Places for client connections: the setting `max_connections`.
    MaxConnections,
    /// Descriptors: the process's limit on open files.
    OpenFiles,
}

impl Shortage {
    /// All of them.
    pub const ALL: &'static [Shortage] = &[Shortage::MaxConnections, Shortage::OpenFiles];

    /// The name used in metrics.
    pub fn code(self) -> &'static str {
        match self {
            Shortage::MaxConnections => "max_connections",
            Shortage::OpenFiles => "open_files",
        }
    }

    /// The remedy for the user.
    fn remedy(self) -> &'static str {
        match self {
            Shortage::MaxConnections => "raise max_connections",
            Shortage::OpenFiles => "raise the limit on open files (ulimit -n, LimitNOFILE)",
        }
    }
}

/// Descriptors that silent client connections must leave free: a sixteenth of the process's limit, ...
const RESERVE_SHARE: u64 = 16;
/// ... at most so many. They are for connections to nodes, for the Admin API, the status listener and the
/// other listeners of the control side, for log files and for the store, none of which can make a client
/// connection give way.
const RESERVE_MAX: u64 = 64;
/// At most one line of the error log in so many milliseconds for each shortage.
const WARN_EVERY_MS: u64 = 10_000;

/// See the module.
#[derive(Debug)]
pub struct Capacity {
    /// The number of a new descriptor from which on fewer are free than the reserve.
    few_from: AtomicU64,
    paces: [Pace; Shortage::ALL.len()],
    /// Of the line that says that nothing can be accepted.
    exhaustion: Pace,
}

impl Default for Capacity {
    fn default() -> Capacity {
        let pace = || Pace::every_ms(WARN_EVERY_MS);
        Capacity { few_from: AtomicU64::new(u64::MAX), paces: [pace(), pace()], exhaustion: pace() }
    }
}

impl Capacity {
    /// Reads the limit on open files, which may be changed while the process runs (prlimit(1)).
    pub fn read_limit(&self) {
        self.few_from.store(few_from(env::open_files_limit()), Ordering::Relaxed);
    }

    /// By how many descriptors the reserve is short, seen from a descriptor that was just opened. The kernel
    /// gives the lowest free number, so all below it are in use.
    pub fn missing(&self, descriptor: u64) -> usize {
        let missing = (descriptor + 1).saturating_sub(self.few_from.load(Ordering::Relaxed));
        usize::try_from(missing).unwrap_or(usize::MAX)
    }

    /// Whether it is time to say again that no connection can be accepted.
    pub fn is_worth_a_line(&self, now_ms: u64) -> bool {
        self.exhaustion.add(1, now_ms).is_some()
    }

    /// Warns that `count` connections gave way, at most every `WARN_EVERY_MS`.
    pub fn warn(&self, shortage: Shortage, count: usize, now_ms: u64) {
        if let Some(closed) = self.paces[shortage as usize].add(count as u64, now_ms) {
            let remedy = shortage.remedy();
            tracing::warn!(
                closed,
                limit = shortage.code(),
                "closed the client connections that were silent longest, so that others can be served; {remedy}"
            );
        }
    }
}

/// See [`Capacity::few_from`].
fn few_from(limit: u64) -> u64 {
    limit.saturating_sub((limit / RESERVE_SHARE).clamp(1, RESERVE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_is_a_sixteenth_and_at_most_64() {
        let limits = [0, 1, 16, 320, 1_024, 20_000];
        assert_eq!(limits.map(few_from), [0, 0, 15, 300, 960, 19_936]);
    }

    #[test]
    fn descriptor_number_says_how_many_are_missing() {
        let capacity = Capacity::default();
        assert_eq!(capacity.missing(1_000_000), 0, "the limit is not known");
        capacity.few_from.store(960, Ordering::Relaxed);
        assert_eq!([0, 959, 960, 1_023].map(|number| capacity.missing(number)), [0, 0, 1, 64]);
    }
}

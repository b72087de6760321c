//! How often something may be said: a line per interval at most, with how many losses there were meanwhile,
//! whichever thread finds out. It says nothing itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug)]
pub struct Pace {
    interval_ms: u64,
    /// When the next line may be written.
    next_ms: AtomicU64,
    /// Losses since the last line.
    losses: AtomicU64,
}

impl Pace {
    /// Allows a line every `interval_ms` milliseconds, and the first one at once.
    pub const fn every_ms(interval_ms: u64) -> Pace {
        Pace { interval_ms, next_ms: AtomicU64::new(0), losses: AtomicU64::new(0) }
    }

    /// Counts `losses`; how many there are to tell of, if it is time.
    pub fn add(&self, losses: u64, now_ms: u64) -> Option<u64> {
        self.losses.fetch_add(losses, Ordering::Relaxed);
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        if now_ms < next_ms {
            return None;
        }
        // Of several threads that come at once one gets to say it.
        let later_ms = now_ms.saturating_add(self.interval_ms);
        self.next_ms.compare_exchange(next_ms, later_ms, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(self.losses.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_an_interval_tells_of_all() {
        let pace = Pace::every_ms(10_000);
        let counts: Vec<_> = [0, 1, 9_999, 10_000, 10_001, 30_000].map(|now_ms| pace.add(1, now_ms)).into();
        assert_eq!(counts, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}

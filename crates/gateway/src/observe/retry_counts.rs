//! Counters of retries by their reason, and of those that a budget refused. One worker writes each with plain
//! loads and stores; a scrape reads them.

use std::sync::atomic::{AtomicU64, Ordering};

use exchange::observe::histogram::bump;
use exchange::overload::retry_reason::RetryReason;

/// See the module.
#[derive(Debug, Default)]
pub struct RetryCounts {
    reasons: [AtomicU64; RetryReason::ALL.len()],
    refused: AtomicU64,
    hedges: AtomicU64,
    hedges_won: AtomicU64,
}

impl RetryCounts {
    /// Counts a retry.
    pub(crate) fn retried(&self, reason: RetryReason) {
        bump(&self.reasons[reason as usize], 1);
    }

    /// Counts a retry that the budget refused.
    pub(crate) fn refused_by_budget(&self) {
        bump(&self.refused, 1);
    }

    /// Counts a second attempt that was begun because the first one was slow.
    pub(crate) fn hedged(&self) {
        bump(&self.hedges, 1);
    }

    /// Counts a second attempt with the first response head.
    pub(crate) fn hedge_won(&self) {
        bump(&self.hedges_won, 1);
    }

    /// How many second attempts were begun, and how many of them had the first response head.
    pub fn hedges(&self) -> (u64, u64) {
        (self.hedges.load(Ordering::Relaxed), self.hedges_won.load(Ordering::Relaxed))
    }

    /// How many retries were made because of `reason`.
    pub fn retries(&self, reason: RetryReason) -> u64 {
        self.reasons[reason as usize].load(Ordering::Relaxed)
    }

    /// How many retries a budget refused.
    pub fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_counter() {
        let counts = RetryCounts::default();
        for (number, reason) in RetryReason::ALL.into_iter().enumerate() {
            (0..=number).for_each(|_| counts.retried(reason));
        }
        for (number, reason) in RetryReason::ALL.into_iter().enumerate() {
            assert_eq!(counts.retries(reason), number as u64 + 1, "{reason:?}");
        }
        assert_eq!(counts.refusals(), 0);
        counts.refused_by_budget();
        assert_eq!(counts.refusals(), 1);
        counts.hedged();
        counts.hedged();
        counts.hedge_won();
        assert_eq!(counts.hedges(), (2, 1));
    }
}

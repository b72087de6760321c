//! A histogram with fixed bounds, written by one thread and read by any. It knows no labels.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds in milliseconds, those of the contract's data plane; above the last is the rest.
pub const BOUNDS_MS: [u64; 15] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

/// How many buckets a histogram has.
pub const BUCKETS: usize = BOUNDS_MS.len() + 1;

/// The bucket of a sample.
#[inline]
pub fn bucket_index(us: u64) -> usize {
    let ms = us.div_ceil(1_000);
    BOUNDS_MS.iter().position(|bound| ms <= *bound).unwrap_or(BOUNDS_MS.len())
}

/// Counts of samples by bound.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Histogram {
    /// Counts a sample. Only one thread may ever call this on one histogram.
    #[inline]
    pub fn record(&self, us: u64) {
        bump(&self.counts[bucket_index(us)], 1);
        bump(&self.sum_us, us);
    }

    /// Adds what was counted here to `totals`.
    pub fn add_to(&self, totals: &mut HistogramTotals) {
        for (total, count) in totals.counts.iter_mut().zip(&self.counts) {
            *total += count.load(Ordering::Relaxed);
        }
        totals.sum_us += self.sum_us.load(Ordering::Relaxed);
    }
}

/// A histogram summed over workers.
#[derive(Clone, Debug, Default)]
pub struct HistogramTotals {
    /// Samples by bound, not cumulated.
    pub counts: [u64; BUCKETS],
    /// The sum of the samples in microseconds.
    pub sum_us: u64,
}

/// Adds without a locked instruction: right as long as one thread writes.
#[inline]
pub fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fall_below_their_bound() {
        let histogram = Histogram::default();
        for us in [0, 999, 1_000, 1_001, 59_000_000, 61_000_000] {
            histogram.record(us);
        }
        let mut totals = HistogramTotals::default();
        histogram.add_to(&mut totals);
        assert_eq!((totals.counts[0], totals.counts[1], totals.counts[14], totals.counts[15]), (3, 1, 1, 1));
        assert_eq!(totals.sum_us, 120_003_000);
    }
}

//! Counts of durations in buckets that are a sixteenth of their value wide, so that a percentile is right
//! within 4 %. One thread writes, any thread reads.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of a duration that tell buckets of one power of two apart.
const STEP_BITS: u32 = 4;
const STEPS: usize = 1 << STEP_BITS;
/// Powers of two with buckets of their own. The last bucket begins at 19 hours; longer durations count in it.
const OCTAVES: usize = 33;

/// Number of buckets.
pub const BUCKETS: usize = OCTAVES * STEPS;

/// The bucket of a duration in microseconds.
#[inline]
pub fn bucket_of(us: u64) -> usize {
    if us < STEPS as u64 {
        return us as usize;
    }
    let power = u64::BITS - 1 - us.leading_zeros();
    let step = (us >> (power - STEP_BITS)) as usize & (STEPS - 1);
    (((power - STEP_BITS + 1) as usize) * STEPS + step).min(BUCKETS - 1)
}

/// The middle of a bucket in microseconds.
fn middle_of(bucket: usize) -> u64 {
    let (octave, step) = (bucket / STEPS, bucket % STEPS);
    if octave == 0 {
        return step as u64;
    }
    let width = 1_u64 << (octave - 1);
    (STEPS + step) as u64 * width + width / 2
}

/// The counts that one thread writes. They wrap: readers take differences over a time in which fewer than 2³²
/// samples come.
#[derive(Debug)]
pub struct TimeCounts([AtomicU32; BUCKETS]);

impl Default for TimeCounts {
    fn default() -> TimeCounts {
        TimeCounts([const { AtomicU32::new(0) }; BUCKETS])
    }
}

impl TimeCounts {
    /// Counts a duration in microseconds. Only one thread may ever call this on one set of counts.
    #[inline]
    pub fn record(&self, us: u64) {
        let count = &self.0[bucket_of(us)];
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Adds these counts to `totals`.
    pub fn add_to(&self, totals: &mut TimeTotals) {
        for (total, count) in totals.0.iter_mut().zip(&self.0) {
            *total = total.wrapping_add(count.load(Ordering::Relaxed));
        }
    }
}

/// Counts of one moment, summed over workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeTotals(Box<[u32; BUCKETS]>);

impl Default for TimeTotals {
    fn default() -> TimeTotals {
        TimeTotals(Box::new([0; BUCKETS]))
    }
}

impl TimeTotals {
    /// The counts since `earlier`; 0 for a bucket that has fewer now, because a worker began its counts anew.
    pub fn since(&self, earlier: &TimeTotals) -> TimeTotals {
        let mut counts = self.clone();
        for (count, before) in counts.0.iter_mut().zip(&*earlier.0) {
            let grown = count.wrapping_sub(*before);
            *count = if grown > u32::MAX / 2 { 0 } else { grown };
        }
        counts
    }

    /// The percentiles at these shares (0 to 1, ascending), in microseconds; none without a sample.
    pub fn percentiles<const COUNT: usize>(&self, shares: [f64; COUNT]) -> Option<[u64; COUNT]> {
        let total: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        if total == 0 {
            return None;
        }
        let (mut found, mut next, mut seen) = ([0; COUNT], 0, 0);
        for (bucket, count) in self.0.iter().enumerate() {
            seen += u64::from(*count);
            while next < COUNT && seen as f64 >= (shares[next] * total as f64).max(1.0) {
                found[next] = middle_of(bucket);
                next += 1;
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_ascend_and_are_narrow() {
        let mut last = 0;
        for power in 0..40 {
            for step in 0..64 {
                let us = (1_u64 << power) + ((1_u64 << power) * step) / 64;
                let bucket = bucket_of(us);
                assert!(bucket >= last || us < STEPS as u64, "{us}");
                last = bucket;
                if us < 1 << 36 {
                    let middle = middle_of(bucket);
                    let error = middle.abs_diff(us) as f64 / us.max(1) as f64;
                    assert!(error <= 0.04, "{us} is counted as {middle}");
                }
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_of_the_difference() {
        let (counts, mut before, mut after) =
            (TimeCounts::default(), TimeTotals::default(), TimeTotals::default());
        (0..50).for_each(|_| counts.record(1_000_000));
        counts.add_to(&mut before);
        (0..98).for_each(|_| counts.record(100));
        (0..2).for_each(|_| counts.record(5_000));
        counts.add_to(&mut after);
        assert_eq!(TimeTotals::default().percentiles([0.5]), None);
        let [median, p90, p99] = after.since(&before).percentiles([0.5, 0.9, 0.99]).unwrap();
        assert!((97..=103).contains(&median) && median == p90, "{median} {p90}");
        assert!((4_850..=5_150).contains(&p99), "{p99}");
    }
}

//! A percentile of the times to the response head of an upstream, from the last 10 to 20 seconds. Workers
//! share it without a lock: times are counted in logarithmic buckets of relaxed atomic counters, and the
//! percentile is computed at most four times a second. Time is passed in.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Counted times below which there is no percentile.
pub const MIN_TIMES: u64 = 100;
/// The time of a generation. The percentile is of the current generation and the one before, so that it does
/// not begin anew with every generation.
pub const GENERATION_MS: u64 = 10_000;
/// The least time between two computations.
const INTERVAL_MS: u64 = 250;
/// Times below 2^9 µs (half a millisecond) are in the first bucket: the clock of the timers has whole
/// milliseconds.
const FIRST_BIT: u32 = 9;
/// Times of 2^30 µs (18 minutes) and more are in the last bucket.
const LAST_BIT: u32 = 30;
/// Each doubling has 2^4 buckets of equal width, so that the end of a bucket is at most a sixteenth (6.25 %)
/// above each time in it.
const PART_BITS: u32 = 4;
const BUCKETS: usize = 1 + ((LAST_BIT - FIRST_BIT) << PART_BITS) as usize;
/// The upper half of the word of the threshold is the number of the interval, the lower half the threshold in
/// milliseconds.
const THRESHOLD_BITS: u32 = 32;
const THRESHOLD_MASK: u64 = (1 << THRESHOLD_BITS) - 1;

/// See the module. A time that is counted while another worker begins a generation may be lost.
#[derive(Debug)]
pub struct LatencyPercentile {
    percentile: f64,
    generations: [PercentileGeneration; 2],
    /// The interval of the last computation, plus one, and its result; 0 in the lower half without one.
    threshold: AtomicU64,
}

#[derive(Debug)]
struct PercentileGeneration {
    /// Its time, divided by the length of a generation.
    number: AtomicU64,
    counts: [AtomicU32; BUCKETS],
}

impl LatencyPercentile {
    /// Nothing counted. `percentile` is between 0 and 100; digits after the third decimal place are ignored.
    pub fn new(percentile: f64) -> LatencyPercentile {
        LatencyPercentile {
            percentile,
            generations: std::array::from_fn(|_| PercentileGeneration {
                number: AtomicU64::new(0),
                counts: std::array::from_fn(|_| AtomicU32::new(0)),
            }),
            threshold: AtomicU64::new(0),
        }
    }

    /// The percentile that it was made for.
    pub fn percentile(&self) -> f64 {
        self.percentile
    }

    /// Counts a response head that came after that time, at `now_ms`.
    pub fn record(&self, now_ms: u64, latency_us: u64) {
        let number = now_ms / GENERATION_MS;
        let generation = &self.generations[(number % 2) as usize];
        let seen = generation.number.load(Ordering::Relaxed);
        // The worker that changes the number clears the counts. The clock of another worker may be ahead by a
        // turn of its event loop; its next generation has the other place.
        if seen < number
            && generation.number.compare_exchange(seen, number, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            generation.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
        generation.counts[bucket_of(latency_us)].fetch_add(1, Ordering::Relaxed);
    }

    /// The percentile of the counted times, in milliseconds: at most 6.25 % more than the exact one, rounded
    /// up to a whole millisecond. None with fewer than [`MIN_TIMES`]. The result may be as old as 250 ms.
    pub fn threshold_ms(&self, now_ms: u64) -> Option<u64> {
        let word = self.threshold.load(Ordering::Relaxed);
        // Plus one, so that nothing computed is no interval. 32 bits end after 34 years.
        let interval = now_ms / INTERVAL_MS + 1;
        if word >> THRESHOLD_BITS >= interval {
            return unpack(word);
        }
        // Announced first, so that one worker computes and the others use the last result meanwhile.
        let announced = interval << THRESHOLD_BITS | word & THRESHOLD_MASK;
        if self.threshold.compare_exchange(word, announced, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return unpack(word);
        }
        let threshold_ms = self.compute_us(now_ms).map(|us| us.div_ceil(1_000));
        self.threshold.store(interval << THRESHOLD_BITS | threshold_ms.unwrap_or(0), Ordering::Relaxed);
        threshold_ms
    }

    /// The end of the bucket with the percentile, in microseconds.
    fn compute_us(&self, now_ms: u64) -> Option<u64> {
        let current = now_ms / GENERATION_MS;
        let is_recent = |generation: &&PercentileGeneration| {
            let number = generation.number.load(Ordering::Relaxed);
            // Another worker may have begun the next generation.
            number + 1 >= current && number <= current + 1
        };
        let mut counts = [0_u64; BUCKETS];
        for generation in self.generations.iter().filter(is_recent) {
            for (sum, count) in counts.iter_mut().zip(&generation.counts) {
                *sum += u64::from(count.load(Ordering::Relaxed));
            }
        }
        let total: u64 = counts.iter().sum();
        if total < MIN_TIMES {
            return None;
        }
        // In thousandths of a percent, because 99.9 is no exact binary fraction. `as` saturates.
        let rank = (total * (self.percentile * 1_000.0).round() as u64).div_ceil(100_000);
        let mut below = 0;
        let bucket = counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        Some(end_of(bucket.unwrap_or(BUCKETS - 1)))
    }
}

/// The threshold in that word.
fn unpack(word: u64) -> Option<u64> {
    Some(word & THRESHOLD_MASK).filter(|threshold_ms| *threshold_ms != 0)
}

/// The bucket of that time.
fn bucket_of(latency_us: u64) -> usize {
    let latency_us = latency_us.min((1 << LAST_BIT) - 1);
    let Some(doubling) = latency_us.checked_ilog2().and_then(|bit| bit.checked_sub(FIRST_BIT)) else {
        return 0;
    };
    // The bits after the first one of the time.
    let part = latency_us >> (doubling + FIRST_BIT - PART_BITS) & ((1 << PART_BITS) - 1);
    1 + (doubling << PART_BITS) as usize + part as usize
}

/// The first time in microseconds that is beyond that bucket.
fn end_of(bucket: usize) -> u64 {
    let Some(index) = bucket.checked_sub(1) else { return 1 << FIRST_BIT };
    let (doubling, part) = (index >> PART_BITS, index & ((1 << PART_BITS) - 1));
    ((1 << PART_BITS) + part as u64 + 1) << (doubling + (FIRST_BIT - PART_BITS) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The threshold after these times, all counted at `now_ms`.
    fn threshold(percentile: f64, times_us: impl Iterator<Item = u64>, now_ms: u64) -> Option<u64> {
        let latency = LatencyPercentile::new(percentile);
        times_us.for_each(|time_us| latency.record(now_ms, time_us));
        latency.threshold_ms(now_ms)
    }

    #[test]
    fn each_time_is_in_the_bucket_that_ends_after_it() {
        let mut time_us = 512;
        while time_us < 1 << LAST_BIT {
            let end_us = end_of(bucket_of(time_us));
            assert!(end_us > time_us && end_us * 16 <= time_us * 17, "{time_us} {end_us}");
            assert_eq!(bucket_of(end_us - 1), bucket_of(time_us));
            assert_eq!(bucket_of(end_us), (bucket_of(time_us) + 1).min(BUCKETS - 1), "{time_us}");
            time_us += time_us / 50;
        }
        assert_eq!([0, 1, 511, 512].map(bucket_of), [0, 0, 0, 1]);
        assert_eq!([1 << LAST_BIT, u64::MAX].map(bucket_of), [BUCKETS - 1; 2]);
        assert_eq!((end_of(0), end_of(BUCKETS - 1)), (512, 1 << LAST_BIT));
    }

    #[test]
    fn threshold_of_a_distribution_is_within_the_error() {
        // Times of 1 to 1,000 ms in equal shares; most at 10 ms and every tenth at 2 s; an exponential one of
        // mean 100 ms.
        let even = |share: f64| share * 1_000_000.0;
        let two = |share: f64| if share <= 0.9 { 10_000.0 } else { 2_000_000.0 };
        let exponential = |share: f64| -(1.0 - share).ln() * 100_000.0;
        let distributions: [&dyn Fn(f64) -> f64; 3] = [&even, &two, &exponential];
        for (index, quantile) in distributions.into_iter().enumerate() {
            for percentile in [50.0, 75.0, 90.0, 95.0, 99.0, 99.9] {
                let time_us = |rank: f64| quantile((rank - 0.5) / 10_000.0) as u64;
                let times = (1..=10_000).map(|rank| time_us(f64::from(rank)));
                let found = threshold(percentile, times, 5_000).unwrap() as f64;
                let exact = time_us((percentile * 100.0).round()) as f64 / 1_000.0;
                // Beside the error of a bucket, times are rounded up to a millisecond.
                let range = exact..=exact * 1.0625 + 1.0;
                assert!(range.contains(&found), "{index} p{percentile}: {found}, exactly {exact}");
            }
        }
    }

    #[test]
    fn share_of_slow_requests_stays_the_same() {
        let latency = LatencyPercentile::new(95.0);
        // A linear congruential generator (Knuth); exponential times of mean 200 ms.
        let mut state = 1_u64;
        let mut next_us = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
            (-(1.0 - share).ln() * 200_000.0) as u64
        };
        let mut hedged = 0_u32;
        // A request a millisecond, for ten windows.
        for now_ms in 0..200_000 {
            let first_us = next_us();
            let after_us = latency.threshold_ms(now_ms).map_or(u64::MAX, |after_ms| after_ms * 1_000);
            if first_us > after_us {
                hedged += 1;
                let second_us = next_us();
                if after_us + second_us < first_us {
                    // The second one wins, and the first one is cancelled then. Without its time 9 % would be
                    // hedged.
                    latency.record(now_ms, second_us);
                    latency.record(now_ms, after_us + second_us);
                    continue;
                }
            }
            latency.record(now_ms, first_us);
        }
        // 5 % are above the exact percentile and 4.1 % above one that is 6.25 % longer.
        let percent = f64::from(hedged) / 2_000.0;
        assert!((4.0..=5.2).contains(&percent), "{percent}");
    }

    #[test]
    fn higher_percentile_is_no_shorter_time() {
        let times = || (0..5_000_u64).map(|index| index * 7_919 % 100_003 * 13);
        let found: Vec<u64> =
            (500..=999).map(|tenths| threshold(f64::from(tenths) / 10.0, times(), 0).unwrap()).collect();
        assert!(found.is_sorted(), "{found:?}");
        assert!(found[0] < found[499]);
    }

    #[test]
    fn threshold_needs_enough_times() {
        // times counted → threshold
        for (count, expected) in [(0, None), (1, None), (99, None), (100, Some(21)), (1_000, Some(21))] {
            assert_eq!(threshold(95.0, (0..count).map(|_| 20_000), 0), expected, "{count}");
        }
        assert_eq!(threshold(95.0, (0..100).map(|_| 0), 0), Some(1), "never 0, which would be none");
    }

    #[test]
    fn old_generations_are_forgotten() {
        let latency = LatencyPercentile::new(90.0);
        let count = |now_ms, times: u32, time_us| (0..times).for_each(|_| latency.record(now_ms, time_us));
        // at, times of how many µs counted then → threshold
        let steps = [
            (0, 200, 100_000, Some(103)),
            (9_999, 0, 0, Some(103)),
            // The second generation, of a time that is shorter, beside the first.
            (10_000, 200, 1_000, Some(103)),
            (19_999, 0, 0, Some(103)),
            // The first one is over.
            (20_000, 0, 0, Some(2)),
            (29_999, 0, 0, Some(2)),
            // No request for a generation, then too few of them.
            (30_000, 0, 0, None),
            (35_000, 99, 50_000, None),
            (39_000, 1, 50_000, Some(52)),
            // No request for a long time: both places hold what is over.
            (1_000_000, 0, 0, None),
            (1_000_300, 100, 1_000, Some(2)),
        ];
        for (now_ms, times, time_us, expected) in steps {
            count(now_ms, times, time_us);
            assert_eq!(latency.threshold_ms(now_ms), expected, "{now_ms}");
        }
    }

    #[test]
    fn threshold_is_computed_once_an_interval() {
        let latency = LatencyPercentile::new(50.0);
        (0..100).for_each(|_| latency.record(1_000, 20_000));
        assert_eq!(latency.threshold_ms(1_000), Some(21));
        (0..1_000).for_each(|_| latency.record(1_000, 500_000));
        assert_eq!(latency.threshold_ms(1_249), Some(21), "the result of this interval");
        assert_eq!(latency.threshold_ms(1_250), Some(508));
        assert_eq!(latency.threshold_ms(1_249), Some(508), "a clock that is behind computes nothing");
    }

    #[test]
    fn workers_lose_no_time_within_a_generation() {
        let latency = LatencyPercentile::new(50.0);
        latency.record(10_000, 1_000);
        std::thread::scope(|scope| {
            for time_us in [1_000, 1_000, 1_000, 40_000] {
                let latency = &latency;
                scope.spawn(move || {
                    (0..10_000).for_each(|_| latency.record(10_000, time_us));
                    latency.threshold_ms(10_000)
                });
            }
        });
        let counted = |generation: &PercentileGeneration| -> u32 {
            generation.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
        };
        assert_eq!(latency.generations.each_ref().map(counted), [0, 40_001]);
        assert_eq!(latency.threshold_ms(10_250), Some(2));
    }
}

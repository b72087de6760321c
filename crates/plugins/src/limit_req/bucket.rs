//! Leaky buckets: a request is poured into the bucket of its key, which leaks at the rate. Times are passed
//! in.
//!
//! Levels are in thousandths of a request, as in APISIX: a bucket that no request was poured into is at 0,
//! and each further request adds 1,000 to what has not leaked yet.

use crate::shared::limits::table::{KeyStanding, KeyState, KeyTable};

/// The level that one request adds.
pub(super) const REQUEST: f64 = 1_000.0;

/// The rules of the buckets of one limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// The level that leaks in a second.
    pub(super) rate: f64,
    /// The level above which a request is refused.
    pub(super) burst: f64,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pour {
    /// It may pass after so many milliseconds.
    After { delay_ms: u64 },
    /// It is refused.
    Overflows,
}

/// The buckets of all keys.
pub(super) struct Buckets(KeyTable<BucketLevel>);

/// The level of the bucket of one key.
struct BucketLevel {
    excess: f64,
    last_ms: u64,
    /// When the bucket is as good as a new one.
    ends_ms: u64,
    standing: KeyStanding,
}

impl Bucket {
    /// The rules from requests per second and the number of requests that may be ahead of another one.
    pub(super) fn new(rate: f64, burst: f64) -> Bucket {
        Bucket { rate: rate * REQUEST, burst: burst * REQUEST }
    }

    /// The wait of a request that found this level, in whole milliseconds.
    pub(super) fn delay_ms(&self, excess: f64) -> u64 {
        // A cast of a float stops at the largest number.
        (excess / self.rate * 1_000.0) as u64
    }
}

impl Buckets {
    /// Empty buckets.
    pub(super) fn new() -> Buckets {
        Buckets(KeyTable::new())
    }

    /// Pours one request into the bucket of `key`.
    pub(super) fn pour(&self, key: &[u8], rules: &Bucket, now_ms: u64) -> Pour {
        let fresh = || BucketLevel {
            excess: -REQUEST,
            last_ms: now_ms,
            ends_ms: now_ms,
            standing: KeyStanding::Open,
        };
        self.0.with(key, now_ms, fresh, |level| level.pour(rules, now_ms))
    }
}

impl BucketLevel {
    fn pour(&mut self, rules: &Bucket, now_ms: u64) -> Pour {
        let elapsed_ms = now_ms.saturating_sub(self.last_ms) as f64;
        let excess = (self.excess - rules.rate * elapsed_ms / 1_000.0 + REQUEST).max(0.0);
        // The first request passes whatever the burst is: its level is 0.
        let is_allowed = excess <= rules.burst;
        self.standing = self.standing.after(is_allowed, excess + REQUEST > rules.burst);
        if !is_allowed {
            return Pour::Overflows;
        }
        self.excess = excess;
        self.last_ms = now_ms;
        let empty_after_ms = ((excess + REQUEST) / rules.rate * 1_000.0).ceil() as u64;
        self.ends_ms = now_ms.saturating_add(empty_after_ms);
        Pour::After { delay_ms: rules.delay_ms(excess) }
    }
}

impl KeyState for BucketLevel {
    fn is_over(&self, now_ms: u64) -> bool {
        self.ends_ms <= now_ms
    }

    fn importance(&self) -> (KeyStanding, u64) {
        (self.standing, self.last_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pours at each moment and compares the delay; `None` is a refusal.
    fn check(rate: f64, burst: f64, moments: &[(u64, Option<u64>)]) {
        let (buckets, rules) = (Buckets::new(), Bucket::new(rate, burst));
        for (now_ms, delay_ms) in moments.iter().copied() {
            let want = delay_ms.map_or(Pour::Overflows, |delay_ms| Pour::After { delay_ms });
            assert_eq!(buckets.pour(b"k", &rules, now_ms), want, "rate {rate}, burst {burst}, at {now_ms}");
        }
    }

    #[test]
    fn bucket_delays_then_refuses_then_leaks() {
        check(10.0, 0.0, &[(0, Some(0)), (1, None), (99, None), (100, Some(0)), (150, None)]);
        check(10.0, 2.0, &[(0, Some(0)), (0, Some(100)), (0, Some(200)), (0, None), (100, Some(200))]);
        check(0.5, 1.0, &[(0, Some(0)), (1_000, Some(1_000)), (1_001, None), (10_000, Some(0))]);
        check(1_000.0, 0.1, &[(5, Some(0)), (5, None), (6, Some(0))]);
        check(0.001, 0.0, &[(0, Some(0)), (999_999, None), (1_000_000, Some(0))]);
    }

    #[test]
    fn keys_have_separate_buckets() {
        let (buckets, rules) = (Buckets::new(), Bucket::new(1.0, 0.0));
        assert_eq!(buckets.pour(b"a", &rules, 0), Pour::After { delay_ms: 0 });
        assert_eq!(buckets.pour(b"b", &rules, 0), Pour::After { delay_ms: 0 });
        assert_eq!(buckets.pour(b"a", &rules, 0), Pour::Overflows);
    }

    #[test]
    fn bucket_is_over_when_it_equals_a_new_one() {
        let rules = Bucket::new(2.0, 5.0);
        let mut level = BucketLevel { excess: -REQUEST, last_ms: 0, ends_ms: 0, standing: KeyStanding::Open };
        assert_eq!(level.pour(&rules, 0), Pour::After { delay_ms: 0 });
        assert_eq!(level.pour(&rules, 0), Pour::After { delay_ms: 500 });
        assert!(!level.is_over(999));
        assert!(level.is_over(1_000));
        assert_eq!(size_of::<BucketLevel>(), 32);
    }
}

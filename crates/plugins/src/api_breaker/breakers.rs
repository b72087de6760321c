//! The counters of hosts and paths that fail: when requests are answered in place of the upstream, and for
//! how long. It knows no request; times are passed in. While nothing fails it takes no lock.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use stdx::hash::{FastMap, hash_bytes};

/// Locks of a table: workers rarely meet at one.
const SHARDS: usize = 16;
/// Hosts and paths that fail, in all: a client can invent paths that fail, and must not take unlimited
/// memory.
const KEYS_MAX: usize = 16 * 1024;
const SHARD_KEYS_MAX: usize = KEYS_MAX / SHARDS;
/// The first failure after which requests are answered breaks for twice this time.
const UNIT_MS: u64 = 1_000;

/// How many responses change the state, and how long it lasts.
#[derive(Clone, Copy, Debug)]
pub(super) struct BreakerThresholds {
    /// Failures that break; at least 1.
    pub(super) failures: u64,
    /// Successes in a row that end the state of failure; at least 1.
    pub(super) successes: u64,
    /// The longest time of one break, in milliseconds.
    pub(super) max_break_ms: u64,
}

/// See the module.
pub(super) struct Breakers {
    shards: [Mutex<FastMap<BreakerKeyHash, Breaker>>; SHARDS],
    /// How many keys all shards have.
    keys: AtomicUsize,
    seeds: [u64; 2],
}

/// A host and a path as they are kept: their hash under two secret seeds, so that memory does not depend on
/// the client.
type BreakerKeyHash = [u64; 2];

/// One host and path that has failed.
#[derive(Clone, Copy, Debug, Default)]
struct Breaker {
    failures: u64,
    /// Successes since the last failure.
    successes: u64,
    /// When the last break began.
    broken_at_ms: Option<u64>,
    failed_at_ms: u64,
}

impl Breakers {
    /// A table in which nothing has failed.
    pub(super) fn new() -> Breakers {
        Breakers {
            shards: Default::default(),
            keys: AtomicUsize::new(0),
            seeds: [fastrand::u64(..), fastrand::u64(..)],
        }
    }

    /// Whether requests are answered in place of the upstream.
    pub(super) fn is_open(&self, host: &[u8], path: &[u8], rules: &BreakerThresholds, now_ms: u64) -> bool {
        if self.keys.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let key = self.key(host, path);
        self.shard(key).lock().get(&key).is_some_and(|breaker| breaker.is_open(rules, now_ms))
    }

    /// Counts a failure; the time of the break in milliseconds if one begins.
    pub(super) fn note_failure(
        &self,
        host: &[u8],
        path: &[u8],
        rules: &BreakerThresholds,
        now_ms: u64,
    ) -> Option<u64> {
        let key = self.key(host, path);
        let mut shard = self.shard(key).lock();
        let before = shard.len();
        if before >= SHARD_KEYS_MAX && !shard.contains_key(&key) {
            let oldest = shard.iter().min_by_key(|(_, breaker)| breaker.failed_at_ms).map(|(key, _)| *key);
            oldest.and_then(|oldest| shard.remove(&oldest));
        }
        let broken_ms = shard.entry(key).or_default().note_failure(rules, now_ms);
        self.keys.fetch_add(shard.len().saturating_sub(before), Ordering::Relaxed);
        broken_ms
    }

    /// Counts a success.
    pub(super) fn note_success(&self, host: &[u8], path: &[u8], rules: &BreakerThresholds) {
        if self.keys.load(Ordering::Relaxed) == 0 {
            return;
        }
        let key = self.key(host, path);
        let mut shard = self.shard(key).lock();
        if let Some(breaker) = shard.get_mut(&key)
            && breaker.note_success(rules)
        {
            shard.remove(&key);
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn key(&self, host: &[u8], path: &[u8]) -> BreakerKeyHash {
        // The hash of the host is the seed for the path, so that no pair of other texts gives the same bytes.
        self.seeds.map(|seed| hash_bytes(hash_bytes(seed, host), path))
    }

    fn shard(&self, key: BreakerKeyHash) -> &Mutex<FastMap<BreakerKeyHash, Breaker>> {
        &self.shards[key[0] as usize % SHARDS]
    }

    #[cfg(test)]
    fn held(&self) -> (usize, usize) {
        let in_shards = self.shards.iter().map(|shard| shard.lock().len()).sum();
        (self.keys.load(Ordering::Relaxed), in_shards)
    }
}

impl Breaker {
    /// The time of a break after so many failures: 2, 4, 8 … seconds.
    fn break_ms(&self, rules: &BreakerThresholds) -> u64 {
        let breaks = (self.failures / rules.failures).clamp(1, 63);
        UNIT_MS.saturating_mul(1 << breaks).min(rules.max_break_ms)
    }

    fn is_open(&self, rules: &BreakerThresholds, now_ms: u64) -> bool {
        self.broken_at_ms.is_some_and(|broken_ms| now_ms < broken_ms.saturating_add(self.break_ms(rules)))
    }

    fn note_failure(&mut self, rules: &BreakerThresholds, now_ms: u64) -> Option<u64> {
        self.failures = self.failures.saturating_add(1);
        (self.successes, self.failed_at_ms) = (0, now_ms);
        if !self.failures.is_multiple_of(rules.failures) {
            return None;
        }
        self.broken_at_ms = Some(now_ms);
        Some(self.break_ms(rules))
    }

    /// Whether it is healthy again.
    fn note_success(&mut self, rules: &BreakerThresholds) -> bool {
        self.successes += 1;
        self.successes >= rules.successes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: BreakerThresholds = BreakerThresholds { failures: 3, successes: 2, max_break_ms: 10_000 };

    #[test]
    fn breaks_double_up_to_their_limit() {
        let breakers = Breakers::new();
        let fail = |now_ms| breakers.note_failure(b"h", b"/a", &RULES, now_ms);
        let is_open = |now_ms| breakers.is_open(b"h", b"/a", &RULES, now_ms);
        assert_eq!([fail(0), fail(0)], [None, None]);
        assert!(!is_open(0));
        let mut now_ms = 1;
        for expected_ms in [2_000, 4_000, 8_000, 10_000, 10_000] {
            let broken_ms = (0..3).find_map(|_| fail(now_ms));
            assert_eq!(broken_ms, Some(expected_ms));
            assert!(is_open(now_ms) && is_open(now_ms + expected_ms - 1), "{expected_ms}");
            now_ms += expected_ms;
            assert!(!is_open(now_ms), "{expected_ms}");
            // The first round had two failures before it.
            if expected_ms == 2_000 {
                assert_eq!([fail(now_ms), fail(now_ms)], [None, None]);
            }
        }
    }

    #[test]
    fn successes_in_a_row_end_the_state() {
        let breakers = Breakers::new();
        let fail = || breakers.note_failure(b"h", b"/a", &RULES, 0);
        let succeed = || breakers.note_success(b"h", b"/a", &RULES);
        succeed();
        assert_eq!(breakers.held(), (0, 0));
        fail();
        fail();
        succeed();
        assert_eq!(fail(), Some(2_000), "one success of two forgets nothing");
        succeed();
        assert!(breakers.is_open(b"h", b"/a", &RULES, 0));
        succeed();
        assert!(!breakers.is_open(b"h", b"/a", &RULES, 0));
        assert_eq!(breakers.held(), (0, 0));
        assert_eq!([fail(), fail(), fail()], [None, None, Some(2_000)]);
    }

    #[test]
    fn hosts_and_paths_are_counted_apart() {
        let breakers = Breakers::new();
        let rules = BreakerThresholds { failures: 1, ..RULES };
        breakers.note_failure(b"h", b"/a", &rules, 0);
        let open = |host: &str, path: &str| breakers.is_open(host.as_bytes(), path.as_bytes(), &rules, 0);
        assert!(open("h", "/a"));
        assert!(!open("h", "/b") && !open("i", "/a") && !open("h/", "a"));
    }

    #[test]
    fn table_is_limited_and_forgets_the_oldest() {
        let breakers = Breakers::new();
        let rules = BreakerThresholds { failures: 1, ..RULES };
        let many = KEYS_MAX * 2;
        for number in 0..many {
            breakers.note_failure(b"h", &number.to_be_bytes(), &rules, number as u64);
        }
        let (counted, held) = breakers.held();
        assert_eq!(counted, held);
        assert!(held <= KEYS_MAX && held > KEYS_MAX / 2, "{held}");
        let now_ms = many as u64;
        assert!(breakers.is_open(b"h", &(many - 1).to_be_bytes(), &rules, now_ms));
        assert!(!breakers.is_open(b"h", &0_usize.to_be_bytes(), &rules, 1));
    }
}

//! Counters of requests in windows of time, shared by all workers. Keys are hashes and times are passed in; the plugin
//! decides which requests a key counts.
//!
//! The table is split into shards, each behind a lock of its own that is held for a look-up and an addition. Ended
//! windows are removed as the table grows, and its size is limited.

use parking_lot::Mutex;
use stdx::hash::{FastMap, hash_bytes};

/// Locks of a table: workers rarely meet at one.
const SHARDS: usize = 16;
/// Keys in all: what APISIX's shared dictionary of 10 MiB holds, roughly. Beyond that new keys replace the least
/// important ones (`Standing`), so that clients that invent keys cannot take unlimited memory.
const KEYS_MAX: usize = 128 * 1024;
const SHARD_KEYS_MAX: usize = KEYS_MAX / SHARDS;
/// Keys that are removed at once from a full shard. Finding them takes some hundred microseconds under the shard's
/// lock, which is less than one microsecond per new key.
const GIVE_WAY: usize = SHARD_KEYS_MAX / 16;
/// A shard smaller than this is not worth a sweep.
const SWEEP_MIN: usize = 64;

/// How time is divided into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowType {
    /// A window begins with the first request after the last one ended.
    Fixed,
    /// Windows follow the clock; the count of the last window weighs on the present one by the share that still
    /// overlaps.
    Sliding,
}

/// The quota of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    /// Requests in one window; at least 1.
    pub(super) limit: u64,
    /// The window's length in milliseconds; at least 1.
    pub(super) window_ms: u64,
    /// How windows follow each other.
    pub(super) window_type: WindowType,
}

/// The verdict on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Whether it may pass.
    pub(super) allowed: bool,
    /// Requests left in the window.
    pub(super) remaining: u64,
    /// Milliseconds until more are allowed.
    pub(super) reset_ms: u64,
}

/// The counters.
pub(super) struct Counters {
    shards: [Mutex<Shard>; SHARDS],
    seeds: [u64; 2],
}

/// A key as it is kept: its hash under two secret seeds, so that memory does not depend on what clients send.
type KeyHash = [u64; 2];

#[derive(Default)]
struct Shard {
    windows: FastMap<KeyHash, Window>,
    /// The size at which ended windows are removed next.
    sweep_at: usize,
}

/// How much is lost if a window is forgotten: windows are removed in this order, and the oldest first within a
/// standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Requests are left in it.
    #[default]
    Open,
    /// It is exhausted; no request was refused yet.
    Exhausted,
    /// It is exhausted, and its client sends more requests. Clients that invent keys use each key once.
    Refusing,
}

#[derive(Clone, Copy)]
struct Window {
    /// When it began, in milliseconds.
    began_ms: u64,
    /// When the window no longer affects a request.
    ends_ms: u64,
    used: u64,
    /// Requests counted in the window before; for sliding windows.
    used_before: u64,
    standing: Standing,
}

impl Counters {
    /// Counters at zero.
    pub(super) fn new() -> Counters {
        Counters { shards: Default::default(), seeds: [fastrand::u64(..), fastrand::u64(..)] }
    }

    /// Counts one request under `key`, if the quota allows it.
    pub(super) fn take(&self, key: &[u8], quota: Quota, now_ms: u64) -> Taken {
        let hash = self.seeds.map(|seed| hash_bytes(seed, key));
        let mut shard = self.shards[hash[0] as usize % SHARDS].lock();
        let window = shard.window(hash, now_ms);
        let taken = match quota.window_type {
            WindowType::Fixed => fixed(window, quota, now_ms),
            WindowType::Sliding => sliding(window, quota, now_ms),
        };
        window.standing = match taken {
            Taken { allowed: false, .. } => Standing::Refusing,
            Taken { remaining: 0, .. } => window.standing.max(Standing::Exhausted),
            Taken { .. } => Standing::Open,
        };
        taken
    }

    #[cfg(test)]
    fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().windows.len()).sum()
    }
}

impl Shard {
    fn window(&mut self, hash: KeyHash, now_ms: u64) -> &mut Window {
        if !self.windows.contains_key(&hash) {
            self.make_room(now_ms);
        }
        self.windows.entry(hash).or_insert(Window::starting(now_ms, 0))
    }

    /// Removes ended windows when the shard has doubled since the last time, so that the cost per new key is constant;
    /// a full shard also loses its least important keys.
    fn make_room(&mut self, now_ms: u64) {
        if self.windows.len() >= self.sweep_at.clamp(SWEEP_MIN, SHARD_KEYS_MAX) {
            self.windows.retain(|_, window| window.ends_ms > now_ms);
            self.sweep_at = self.windows.len() * 2;
        }
        if self.windows.len() < SHARD_KEYS_MAX {
            return;
        }
        let importance = |(hash, window): (&KeyHash, &Window)| (window.standing, window.began_ms, *hash);
        let mut order: Vec<_> = self.windows.iter().map(importance).collect();
        order.select_nth_unstable(GIVE_WAY);
        for (_, _, hash) in &order[..GIVE_WAY] {
            self.windows.remove(hash);
        }
    }
}

impl Window {
    /// A window that begins at `began_ms`.
    fn starting(began_ms: u64, ends_ms: u64) -> Window {
        Window { began_ms, ends_ms, used: 0, used_before: 0, standing: Standing::Open }
    }
}

fn fixed(window: &mut Window, quota: Quota, now_ms: u64) -> Taken {
    if now_ms >= window.ends_ms {
        *window = Window::starting(now_ms, now_ms.saturating_add(quota.window_ms));
    }
    let allowed = window.used < quota.limit;
    window.used += u64::from(allowed);
    Taken { allowed, remaining: quota.limit.saturating_sub(window.used), reset_ms: window.ends_ms - now_ms }
}

fn sliding(window: &mut Window, quota: Quota, now_ms: u64) -> Taken {
    let length = quota.window_ms;
    let began_ms = now_ms - now_ms % length;
    if window.began_ms != began_ms || window.ends_ms == 0 {
        let follows = window.ends_ms != 0 && window.began_ms.saturating_add(length) == began_ms;
        let used_before = if follows { window.used } else { 0 };
        let ends_ms = began_ms.saturating_add(length.saturating_mul(2));
        *window = Window { used_before, ..Window::starting(began_ms, ends_ms) };
    }
    let left_ms = began_ms.saturating_add(length) - now_ms;
    let before = window.used_before.min(quota.limit);
    // The share of the last window that the sliding one still covers, rounded up: a limit is not exceeded by a fraction.
    let weighs = (u128::from(before) * u128::from(left_ms)).div_ceil(u128::from(length)) as u64;
    if window.used >= quota.limit {
        return Taken { allowed: false, remaining: 0, reset_ms: left_ms };
    }
    if window.used + weighs >= quota.limit {
        // The time until enough of the last window has slid out for one request.
        let room = u128::from(quota.limit - window.used) * u128::from(length) / u128::from(before);
        return Taken { allowed: false, remaining: 0, reset_ms: left_ms.saturating_sub(room as u64) };
    }
    window.used += 1;
    Taken {
        allowed: true,
        remaining: quota.limit - window.used - weighs.min(quota.limit - window.used),
        reset_ms: left_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(limit: u64, window_ms: u64, window_type: WindowType) -> Quota {
        Quota { limit, window_ms, window_type }
    }

    /// Takes at each moment and compares whether it was allowed, what remains, and the reset.
    fn check(quota: Quota, moments: &[(u64, bool, u64, u64)]) {
        let counters = Counters::new();
        for (now_ms, allowed, remaining, reset_ms) in moments.iter().copied() {
            let want = Taken { allowed, remaining, reset_ms };
            assert_eq!(counters.take(b"k", quota, now_ms), want, "at {now_ms}");
        }
    }

    #[test]
    fn a_fixed_window_begins_with_its_first_request() {
        check(
            quota(2, 1_000, WindowType::Fixed),
            &[
                (500, true, 1, 1_000),
                (600, true, 0, 900),
                (700, false, 0, 800),
                (1_499, false, 0, 1),
                (1_500, true, 1, 1_000),
            ],
        );
    }

    #[test]
    fn a_sliding_window_remembers_the_one_before() {
        check(
            quota(4, 1_000, WindowType::Sliding),
            &[
                (100, true, 3, 900),
                (200, true, 2, 800),
                (300, true, 1, 700),
                (400, true, 0, 600),
                (500, false, 0, 500),
                (1_000, false, 0, 0),
                (1_300, true, 0, 700),
                (3_000, true, 3, 1_000),
            ],
        );
    }

    #[test]
    fn keys_are_apart_and_workers_together() {
        let counters = Counters::new();
        let quota = quota(100, 60_000, WindowType::Fixed);
        let allowed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..100).filter(|_| counters.take(b"a", quota, 1).allowed).count()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(allowed, 100);
        assert!(counters.take(b"b", quota, 1).allowed);
    }

    #[test]
    fn ended_windows_are_removed_live_ones_limited() {
        let counters = Counters::new();
        let quota = quota(1, 10, WindowType::Fixed);
        for number in 0..100_000_u64 {
            counters.take(&number.to_be_bytes(), quota, number);
        }
        assert!(counters.keys() <= 2 * SHARDS * SWEEP_MIN, "{} keys kept", counters.keys());
        for number in 0..3 * KEYS_MAX as u64 {
            counters.take(&number.to_be_bytes(), quota, 1_000_000);
        }
        assert!(counters.keys() <= KEYS_MAX, "{} keys kept", counters.keys());
    }

    #[test]
    fn exhausted_key_outlives_a_flood_of_others() {
        for (window_type, others_limit) in [
            (WindowType::Fixed, 5),
            (WindowType::Fixed, 1),
            (WindowType::Sliding, 5),
            (WindowType::Sliding, 1),
        ] {
            let counters = Counters::new();
            let victim = quota(2, 3_600_000, window_type);
            assert!([(); 2].iter().all(|()| counters.take(b"victim", victim, 1).allowed));
            assert!(!counters.take(b"victim", victim, 2).allowed);
            // One request for each made-up key, whether that exhausts it or not.
            let others = quota(others_limit, 3_600_000, window_type);
            for number in 0..4 * KEYS_MAX as u64 {
                counters.take(&number.to_be_bytes(), others, 3 + number / 1_000);
            }
            assert!(!counters.take(b"victim", victim, 10_000).allowed, "{window_type:?} {others_limit}");
            assert!(counters.keys() <= KEYS_MAX);
        }
    }

    #[test]
    fn oldest_open_windows_give_way_first() {
        let mut shard = Shard::default();
        let window = |number: u64| Window {
            standing: if number.is_multiple_of(2) { Standing::Open } else { Standing::Exhausted },
            ..Window::starting(number, u64::MAX)
        };
        shard.windows.extend((0..SHARD_KEYS_MAX as u64).map(|number| ([number, 0], window(number))));
        shard.window([u64::MAX, 0], 1);
        let gone: Vec<u64> =
            (0..SHARD_KEYS_MAX as u64).filter(|number| !shard.windows.contains_key(&[*number, 0])).collect();
        let oldest_open: Vec<u64> = (0..GIVE_WAY as u64).map(|number| number * 2).collect();
        assert_eq!(gone, oldest_open);
    }
}

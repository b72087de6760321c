//! Counters of requests in windows of time, shared by all workers. Times are passed in; the plugin decides
//! which requests a key counts.

use crate::shared::attributes::words;
use crate::shared::limits::table::{KeyStanding, KeyState, KeyTable};

words! {
    /// How time is cut into windows.
    pub(super) enum WindowType {
        /// A window begins with the first request after the last one ended.
        Fixed = "fixed",
        /// Windows follow the clock; what the last one counted weighs on this one by the share that still
        /// overlaps.
        Sliding = "sliding",
    }
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
    /// How much the request takes of the limit; at least 1.
    pub(super) cost: u64,
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
pub(super) struct LocalWindows(KeyTable<LocalWindow>);

/// The window of one key. 32 bytes, so that a million keys fit into 103 MB.
#[derive(Clone, Copy)]
struct LocalWindow {
    /// When it began, in milliseconds.
    began_ms: u64,
    /// When the window no longer affects a request.
    ends_ms: u64,
    used: u64,
    /// Requests counted in the window before; for sliding windows. It stops at four thousand million, beyond
    /// which a limit limits nothing.
    used_before: u32,
    standing: KeyStanding,
}

impl LocalWindows {
    /// Counters at zero.
    pub(super) fn new() -> LocalWindows {
        LocalWindows(KeyTable::new())
    }

    /// Counts one request under `key`, if the quota allows it.
    pub(super) fn take(&self, key: &[u8], quota: Quota, now_ms: u64) -> Taken {
        self.0.with(
            key,
            now_ms,
            || LocalWindow::starting(now_ms, 0),
            |window| {
                let taken = match quota.window_type {
                    WindowType::Fixed => fixed(window, quota, now_ms),
                    WindowType::Sliding => sliding(window, quota, now_ms),
                };
                window.standing = window.standing.after(taken.allowed, taken.remaining == 0);
                taken
            },
        )
    }
}

impl LocalWindows {
    /// How many requests the quota would still allow under `key`; nothing is counted.
    pub(super) fn left(&self, key: &[u8], quota: Quota, now_ms: u64) -> u64 {
        let known = self.0.with_known(key, |window| *window);
        let mut window = known.unwrap_or_else(|| LocalWindow::starting(now_ms, 0));
        let taken = match quota.window_type {
            WindowType::Fixed => fixed(&mut window, quota, now_ms),
            WindowType::Sliding => sliding(&mut window, quota, now_ms),
        };
        if taken.allowed { taken.remaining + quota.cost } else { 0 }
    }
}

impl KeyState for LocalWindow {
    fn is_over(&self, now_ms: u64) -> bool {
        self.ends_ms <= now_ms
    }

    fn importance(&self) -> (KeyStanding, u64) {
        (self.standing, self.began_ms)
    }
}

impl LocalWindow {
    /// A window that begins at `began_ms`.
    fn starting(began_ms: u64, ends_ms: u64) -> LocalWindow {
        LocalWindow { began_ms, ends_ms, used: 0, used_before: 0, standing: KeyStanding::Open }
    }
}

fn fixed(window: &mut LocalWindow, quota: Quota, now_ms: u64) -> Taken {
    if now_ms >= window.ends_ms {
        *window = LocalWindow::starting(now_ms, now_ms.saturating_add(quota.window_ms));
    }
    let wanted = window.used.saturating_add(quota.cost);
    // As in APISIX, a request that costs more than is left takes the rest and is refused.
    window.used = window.used.max(wanted.min(quota.limit));
    Taken {
        allowed: wanted <= quota.limit,
        remaining: quota.limit.saturating_sub(window.used),
        reset_ms: window.ends_ms - now_ms,
    }
}

fn sliding(window: &mut LocalWindow, quota: Quota, now_ms: u64) -> Taken {
    let length = quota.window_ms;
    let began_ms = now_ms - now_ms % length;
    if window.began_ms != began_ms || window.ends_ms == 0 {
        let follows = window.ends_ms != 0 && window.began_ms.saturating_add(length) == began_ms;
        let used_before = if follows { u32::try_from(window.used).unwrap_or(u32::MAX) } else { 0 };
        let ends_ms = began_ms.saturating_add(length.saturating_mul(2));
        *window = LocalWindow { used_before, ..LocalWindow::starting(began_ms, ends_ms) };
    }
    let left_ms = began_ms.saturating_add(length) - now_ms;
    let before = u64::from(window.used_before).min(quota.limit);
    // The share of the last window that the sliding one still covers, rounded up: a limit is not exceeded by
    // a fraction.
    let weighs = (u128::from(before) * u128::from(left_ms)).div_ceil(u128::from(length)) as u64;
    if window.used >= quota.limit {
        return Taken { allowed: false, remaining: 0, reset_ms: left_ms };
    }
    let further = quota.cost.saturating_sub(1);
    if (window.used + weighs).saturating_add(further) >= quota.limit {
        // The time until enough of the last window has slid out for the request; a whole one if that is not
        // enough.
        let room = (quota.limit - window.used).saturating_sub(further);
        let slid_ms = match before {
            0 => 0,
            before => (u128::from(room) * u128::from(length) / u128::from(before)) as u64,
        };
        return Taken { allowed: false, remaining: 0, reset_ms: left_ms.saturating_sub(slid_ms) };
    }
    window.used += quota.cost;
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
        Quota { limit, window_ms, window_type, cost: 1 }
    }

    /// Takes at each moment and compares whether it was allowed, what remains, and the reset.
    fn check(quota: Quota, moments: &[(u64, bool, u64, u64)]) {
        let counters = LocalWindows::new();
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
    fn dear_request_takes_the_rest_of_a_fixed_window() {
        let (counters, quota) = (LocalWindows::new(), quota(10, 1_000, WindowType::Fixed));
        let take = |cost: u64, now_ms: u64| {
            let taken = counters.take(b"k", Quota { cost, ..quota }, now_ms);
            (taken.allowed, taken.remaining)
        };
        assert_eq!(take(4, 0), (true, 6));
        assert_eq!(take(6, 1), (true, 0));
        assert_eq!(take(1, 2), (false, 0));
        assert_eq!(take(8, 1_000), (true, 2));
        assert_eq!(take(3, 1_001), (false, 0), "it is charged although it is refused");
        assert_eq!(take(1, 1_002), (false, 0));
    }

    #[test]
    fn dear_request_does_not_pass_a_sliding_window() {
        let (counters, quota) = (LocalWindows::new(), quota(10, 1_000, WindowType::Sliding));
        let take = |cost: u64, now_ms: u64| {
            let taken = counters.take(b"k", Quota { cost, ..quota }, now_ms);
            (taken.allowed, taken.remaining, taken.reset_ms)
        };
        assert_eq!(take(6, 100), (true, 4, 900));
        assert_eq!(take(5, 200), (false, 0, 800));
        assert_eq!(take(4, 300), (true, 0, 700));
        assert_eq!(take(3, 1_500), (true, 2, 500));
        assert_eq!(take(11, 5_000), (false, 0, 1_000));
    }

    #[test]
    fn keys_are_apart_and_workers_together() {
        let counters = LocalWindows::new();
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
    fn window_takes_32_bytes() {
        assert_eq!(size_of::<LocalWindow>(), 32);
    }

    #[test]
    fn exhausted_key_outlives_a_flood_of_others() {
        const KEYS_MAX: usize = 64 * 1024;
        for (window_type, others_limit) in [
            (WindowType::Fixed, 5),
            (WindowType::Fixed, 1),
            (WindowType::Sliding, 5),
            (WindowType::Sliding, 1),
        ] {
            let counters = LocalWindows(KeyTable::holding(KEYS_MAX));
            let victim = quota(2, 3_600_000, window_type);
            assert!([(); 2].iter().all(|()| counters.take(b"victim", victim, 1).allowed));
            assert!(!counters.take(b"victim", victim, 2).allowed);
            // One request for each made-up key, whether that exhausts it or not.
            let others = quota(others_limit, 3_600_000, window_type);
            for number in 0..4 * KEYS_MAX as u64 {
                counters.take(&number.to_be_bytes(), others, 3 + number / 1_000);
            }
            assert!(!counters.take(b"victim", victim, 10_000).allowed, "{window_type:?} {others_limit}");
            assert!(counters.0.keys() <= KEYS_MAX);
        }
    }
}

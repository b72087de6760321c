//! Counts of the recent past: requests, failures and latency in a ring of slices of time. All workers write
//! it without a lock. Time is passed in.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Slices of a window: as the oldest one is given up, a tenth of the window is forgotten at once.
pub const SLICES: u64 = 10;

/// See the module. A count that is written while another worker begins a slice anew may be lost.
#[derive(Debug, Default)]
pub struct SlidingWindow {
    /// The width of the slices in milliseconds; 0 before the first request. Numbers of slices of another
    /// width mean another time.
    width_ms: AtomicU64,
    slices: [Slice; SLICES as usize],
}

#[derive(Debug, Default)]
struct Slice {
    /// The time of the slice, divided by its width.
    number: AtomicU64,
    requests: AtomicU32,
    failures: AtomicU32,
    latency_us: AtomicU64,
}

/// The sums of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowTotals {
    /// Requests that ended.
    pub requests: u32,
    /// Those of them that failed.
    pub failures: u32,
    /// The sum of their latencies, in microseconds.
    pub latency_us: u64,
}

impl WindowTotals {
    /// Failures in a hundred requests, rounded down.
    pub fn failure_percent(&self) -> u32 {
        let percent = u64::from(self.failures) * 100 / u64::from(self.requests.max(1));
        u32::try_from(percent).unwrap_or(u32::MAX)
    }

    /// The mean latency in microseconds; `None` without requests.
    pub fn mean_us(&self) -> Option<u64> {
        self.latency_us.checked_div(u64::from(self.requests))
    }
}

impl SlidingWindow {
    /// Counts a request that ended at `now_ms`, in a window of `window_ms`.
    pub fn record(&self, now_ms: u64, window_ms: u64, has_failed: bool, latency_us: u64) {
        let width_ms = width_of(window_ms);
        if self.width_ms.load(Ordering::Relaxed) != width_ms {
            self.begin(width_ms);
        }
        let number = now_ms / width_ms;
        let slice = &self.slices[(number % SLICES) as usize];
        let seen = slice.number.load(Ordering::Relaxed);
        // The clock of another worker may be ahead by one slice, which has another place in the ring; a
        // number that is a whole ring ahead is left from slices of another width.
        if seen != number
            && slice.number.compare_exchange(seen, number, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            slice.clear();
        }
        slice.requests.fetch_add(1, Ordering::Relaxed);
        if has_failed {
            slice.failures.fetch_add(1, Ordering::Relaxed);
        }
        slice.latency_us.fetch_add(latency_us, Ordering::Relaxed);
    }

    /// The sums of the `window_ms` before `now_ms`.
    pub fn totals(&self, now_ms: u64, window_ms: u64) -> WindowTotals {
        let width_ms = width_of(window_ms);
        let mut totals = WindowTotals::default();
        if self.width_ms.load(Ordering::Relaxed) != width_ms {
            return totals;
        }
        let current = now_ms / width_ms;
        for slice in &self.slices {
            let number = slice.number.load(Ordering::Relaxed);
            // A slice far in the future is left from a width that another worker still records with.
            if number + SLICES <= current || number >= current + SLICES {
                continue;
            }
            totals.requests += slice.requests.load(Ordering::Relaxed);
            totals.failures += slice.failures.load(Ordering::Relaxed);
            totals.latency_us += slice.latency_us.load(Ordering::Relaxed);
        }
        totals
    }

    /// Begins anew with slices of another width, because the configuration has changed the window.
    #[cold]
    fn begin(&self, width_ms: u64) {
        // The worker that changes the width clears the slices.
        if self.width_ms.swap(width_ms, Ordering::Relaxed) != width_ms {
            for slice in &self.slices {
                slice.number.store(0, Ordering::Relaxed);
                slice.clear();
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.slices.iter().for_each(Slice::clear);
    }
}

impl Slice {
    fn clear(&self) {
        self.requests.store(0, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        self.latency_us.store(0, Ordering::Relaxed);
    }
}

fn width_of(window_ms: u64) -> u64 {
    (window_ms / SLICES).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_forgets_slices_that_are_too_old() {
        let window = SlidingWindow::default();
        // at, failed → requests and failures of the last second
        let steps = [
            (0, false, 1, 0),
            (50, true, 2, 1),
            (500, true, 3, 2),
            (999, false, 4, 2),
            // The slice of the first two requests is over.
            (1_000, false, 3, 1),
            (1_499, true, 4, 2),
            (1_500, false, 4, 1),
            (9_000, true, 1, 1),
        ];
        for (now_ms, failed, requests, failures) in steps {
            window.record(now_ms, 1_000, failed, 10);
            let totals = window.totals(now_ms, 1_000);
            assert_eq!((totals.requests, totals.failures), (requests, failures), "{now_ms}");
            assert_eq!(totals.mean_us(), Some(10));
        }
        assert_eq!(window.totals(20_000, 1_000), WindowTotals::default());
    }

    #[test]
    fn window_moves_after_its_length_changes() {
        let window = SlidingWindow::default();
        // at, window → requests in it
        let steps = [
            (100_000, 1_000, 1),
            (100_100, 1_000, 2),
            // Longer: what was counted with the other width is forgotten.
            (100_200, 10_000, 1),
            (105_000, 10_000, 2),
            (110_900, 10_000, 2),
            (200_000, 10_000, 1),
            // Shorter again.
            (200_100, 1_000, 1),
            (300_000, 1_000, 1),
        ];
        for (now_ms, window_ms, requests) in steps {
            window.record(now_ms, window_ms, false, 10);
            assert_eq!(window.totals(now_ms, window_ms).requests, requests, "{now_ms}");
        }
        assert_eq!(window.totals(400_000, 1_000), WindowTotals::default());
    }

    #[test]
    fn clear_forgets_everything() {
        let window = SlidingWindow::default();
        window.record(5, 1_000, true, 1);
        window.clear();
        assert_eq!(window.totals(5, 1_000), WindowTotals::default());
        assert_eq!((WindowTotals::default().failure_percent(), WindowTotals::default().mean_us()), (0, None));
    }
}

//! A limit of events in a window of time, for one thread that counts and others that only read.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How many events there may be in each window.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventRate {
    pub(super) events: u32,
    /// The length of a window in nanoseconds.
    pub(super) window_ns: u64,
}

/// The events left in the present window; see the module.
#[derive(Debug)]
pub(super) struct EventBudget {
    rate: EventRate,
    /// The number of the window that `used` counts in.
    window: AtomicU64,
    used: AtomicU32,
}

impl EventBudget {
    /// A budget of this rate.
    pub(super) fn new(rate: EventRate) -> EventBudget {
        EventBudget { rate, window: AtomicU64::new(0), used: AtomicU32::new(0) }
    }

    /// Takes one event at the time `now_ns` of the monotonic clock; false if the window has none left.
    pub(super) fn take(&self, now_ns: u64) -> bool {
        // Only the worker's thread writes, so that loads and stores suffice.
        let window = now_ns / self.rate.window_ns;
        if self.window.load(Ordering::Relaxed) != window {
            self.window.store(window, Ordering::Relaxed);
            self.used.store(0, Ordering::Relaxed);
        }
        let used = self.used.load(Ordering::Relaxed);
        let is_within = used < self.rate.events;
        if is_within {
            self.used.store(used + 1, Ordering::Relaxed);
        }
        is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_has_its_limit() {
        let budget = EventBudget::new(EventRate { events: 2, window_ns: 100 });
        let taken: Vec<bool> = [5, 99, 99, 100, 199, 199].map(|now_ns| budget.take(now_ns)).to_vec();
        assert_eq!(taken, [true, true, false, true, true, false]);
    }
}

//! The retry budget of an upstream: retries may be a share of the requests of the last window, and a few per
//! second besides, so that retries cannot multiply the load of nodes that fail under it. Shared by the
//! workers without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Slots of a window: a request counts for at least nine tenths of the window and at most all of it.
const SLOTS: usize = 10;
/// The upper half of a slot's word is the number of the slot, the lower half its count.
const COUNT_BITS: u32 = 32;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The limits of a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetLimits {
    /// Retries per hundred requests of the window.
    pub percent: f64,
    /// Retries per second besides.
    pub min_per_second: u32,
    /// The window in milliseconds; 0 is taken for one second.
    pub window_ms: u64,
}

/// See the module.
#[derive(Debug)]
pub struct RetryBudget {
    limits: BudgetLimits,
    slot_ms: u64,
    requests: [AtomicU64; SLOTS],
    retries: [AtomicU64; SLOTS],
}

impl RetryBudget {
    /// A budget with nothing counted.
    pub fn new(limits: BudgetLimits) -> RetryBudget {
        let window_ms = if limits.window_ms == 0 { 1_000 } else { limits.window_ms };
        let limits = BudgetLimits { window_ms, ..limits };
        RetryBudget {
            limits,
            slot_ms: window_ms.div_ceil(SLOTS as u64),
            requests: Default::default(),
            retries: Default::default(),
        }
    }

    /// The limits that it was made with.
    pub fn limits(&self) -> BudgetLimits {
        self.limits
    }

    /// Counts a request, of which the first attempt is about to be made.
    #[inline]
    pub fn note_request(&self, now_ms: u64) {
        self.add(&self.requests, now_ms);
    }

    /// Takes one retry; false if the budget is used up. Workers that ask at the same moment may both be
    /// refused the last one, and never get more than there is.
    pub fn withdraw(&self, now_ms: u64) -> bool {
        // Counted first, so that two workers cannot both find the last one free.
        self.add(&self.retries, now_ms);
        let is_granted = self.sum(&self.retries, now_ms) <= self.allowed(now_ms);
        if !is_granted {
            self.give_back(now_ms);
        }
        is_granted
    }

    /// Gives a retry back that was not made. One of an earlier slot is lost, which errs on the side of fewer
    /// retries.
    pub fn give_back(&self, now_ms: u64) {
        let number = self.number(now_ms);
        // The result says whether there was anything to take back.
        let _ = self.slot(&self.retries, number).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            (word >> COUNT_BITS == number && word & COUNT_MASK > 0).then(|| word - 1)
        });
    }

    /// Retries that the requests of the window allow.
    fn allowed(&self, now_ms: u64) -> u64 {
        let share = self.sum(&self.requests, now_ms) as f64 * self.limits.percent / 100.0;
        let floor = f64::from(self.limits.min_per_second) * self.limits.window_ms as f64 / 1_000.0;
        // Rounded down; `as` saturates.
        (share + floor) as u64
    }

    fn number(&self, now_ms: u64) -> u64 {
        // A number of 32 bits ends after 13 years of slots of a tenth of a second.
        (now_ms / self.slot_ms) & COUNT_MASK
    }

    fn slot<'s>(&self, slots: &'s [AtomicU64; SLOTS], number: u64) -> &'s AtomicU64 {
        &slots[(number % SLOTS as u64) as usize]
    }

    fn add(&self, slots: &[AtomicU64; SLOTS], now_ms: u64) {
        let number = self.number(now_ms);
        // The closure always gives a value.
        let _ = self.slot(slots, number).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            // The clock of another worker may be ahead by a turn of its event loop; then its slot counts.
            let is_current = word >> COUNT_BITS >= number;
            Some(match word & COUNT_MASK {
                COUNT_MASK if is_current => word,
                _ if is_current => word + 1,
                _ => number << COUNT_BITS | 1,
            })
        });
    }

    fn sum(&self, slots: &[AtomicU64; SLOTS], now_ms: u64) -> u64 {
        let number = self.number(now_ms);
        let count = |slot: &AtomicU64| {
            let word = slot.load(Ordering::Relaxed);
            if number < (word >> COUNT_BITS) + SLOTS as u64 { word & COUNT_MASK } else { 0 }
        };
        slots.iter().map(count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(percent: f64, min_per_second: u32) -> RetryBudget {
        RetryBudget::new(BudgetLimits { percent, min_per_second, window_ms: 10_000 })
    }

    fn granted(budget: &RetryBudget, asked: usize, now_ms: u64) -> usize {
        (0..asked).filter(|_| budget.withdraw(now_ms)).count()
    }

    #[test]
    fn retries_are_a_share_of_requests() {
        let budget = budget(20.0, 0);
        assert_eq!(granted(&budget, 5, 0), 0, "no request, no retry");
        (0..100).for_each(|_| budget.note_request(50));
        assert_eq!(granted(&budget, 100, 100), 20);
    }

    #[test]
    fn few_requests_get_the_floor_per_second() {
        let budget = budget(0.0, 3);
        assert_eq!(granted(&budget, 100, 0), 30, "three per second of the window");
        assert_eq!(granted(&budget, 100, 5_000), 0);
        assert_eq!(granted(&budget, 100, 10_000), 30, "the window has moved on");
    }

    #[test]
    fn requests_stop_counting_after_the_window() {
        let budget = budget(50.0, 0);
        (0..10).for_each(|_| budget.note_request(0));
        assert_eq!(granted(&budget, 1, 9_999), 1);
        (0..4).for_each(|_| budget.note_request(9_999));
        assert_eq!(granted(&budget, 10, 10_000), 1, "two of four, of which one is taken");
        // Slots are used again after a long time without requests.
        assert_eq!(granted(&budget, 10, 1_000_000), 0);
    }

    #[test]
    fn retry_given_back_can_be_taken_again() {
        let budget = budget(100.0, 0);
        budget.note_request(0);
        assert!(budget.withdraw(0) && !budget.withdraw(0));
        budget.give_back(0);
        assert!(budget.withdraw(0));
        budget.give_back(5_000);
        assert!(!budget.withdraw(5_000), "one of an earlier slot is lost");
    }

    #[test]
    fn workers_never_get_more_than_the_budget() {
        let budget = budget(10.0, 0);
        (0..1_000).for_each(|_| budget.note_request(0));
        let total: usize = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(|| granted(&budget, 1_000, 10))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert!(total <= 100, "{total}");
        assert!(granted(&budget, 1_000, 10) + total == 100, "what is left can be taken");
    }
}

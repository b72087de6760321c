//! The current work of a worker, as another thread sees it: one number that the worker writes with plain
//! stores.

use std::sync::atomic::{AtomicU64, Ordering};

/// The current work of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CurrentWork {
    /// No request.
    Nothing,
    /// A request is matched.
    Matching,
    /// A request of the route in this slot.
    Route(u32),
}

/// The cell that holds it.
#[derive(Debug, Default)]
pub(crate) struct CurrentWorkCell(AtomicU64);

/// The numbers of the variants; a route is its slot behind them.
const NOTHING: u64 = 0;
const MATCHING: u64 = 1;
const ROUTES: u64 = 2;

impl CurrentWorkCell {
    /// Says what the worker works on from now on: one relaxed store.
    #[inline]
    pub(crate) fn set(&self, work: CurrentWork) {
        let number = match work {
            CurrentWork::Nothing => NOTHING,
            CurrentWork::Matching => MATCHING,
            CurrentWork::Route(slot) => ROUTES + u64::from(slot),
        };
        self.0.store(number, Ordering::Relaxed);
    }

    /// Says that the worker works on a request of the route in `slot`, or of none.
    #[inline]
    pub(crate) fn set_route(&self, slot: Option<u32>) {
        self.set(slot.map_or(CurrentWork::Nothing, CurrentWork::Route));
    }

    /// The current work of the worker.
    pub(crate) fn get(&self) -> CurrentWork {
        match self.0.load(Ordering::Relaxed) {
            NOTHING => CurrentWork::Nothing,
            MATCHING => CurrentWork::Matching,
            number => CurrentWork::Route(u32::try_from(number - ROUTES).unwrap_or(u32::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_read_as_it_was_written() {
        let cell = CurrentWorkCell::default();
        assert_eq!(cell.get(), CurrentWork::Nothing);
        for work in
            [CurrentWork::Matching, CurrentWork::Route(0), CurrentWork::Route(u32::MAX), CurrentWork::Nothing]
        {
            cell.set(work);
            assert_eq!(cell.get(), work);
        }
    }
}

//! Work of plugins that goes on after a request, on its worker, and that the end of the process waits for: a
//! stop tells it to hurry, and lets workers run until it is done or the grace is over. It knows no plugin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The work of all plugins of a process.
#[derive(Clone, Debug, Default)]
pub struct UnfinishedWork(Arc<UnfinishedWorkState>);

#[derive(Debug, Default)]
struct UnfinishedWorkState {
    pieces: AtomicUsize,
    is_ending: AtomicBool,
}

/// One piece of work, until it is dropped.
#[derive(Debug)]
pub struct PieceOfWork(Arc<UnfinishedWorkState>);

impl UnfinishedWork {
    /// Begins a piece of work.
    pub fn begin(&self) -> PieceOfWork {
        self.0.pieces.fetch_add(1, Ordering::AcqRel);
        PieceOfWork(self.0.clone())
    }

    /// Whether the process ends, so that nothing should be put off any longer.
    pub fn is_ending(&self) -> bool {
        self.0.is_ending.load(Ordering::Acquire)
    }

    pub(super) fn end_soon(&self) {
        self.0.is_ending.store(true, Ordering::Release);
    }

    pub(super) fn is_done(&self) -> bool {
        self.0.pieces.load(Ordering::Acquire) == 0
    }
}

impl Drop for PieceOfWork {
    fn drop(&mut self) {
        self.0.pieces.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_when_all_pieces_are() {
        let work = UnfinishedWork::default();
        assert!(work.is_done() && !work.is_ending());
        let (first, second) = (work.begin(), work.clone().begin());
        work.end_soon();
        drop(first);
        assert!(!work.is_done() && work.is_ending());
        drop(second);
        assert!(work.is_done());
    }
}

//! A task for tests of wakers: it counts how often it is woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

/// Counts its wake-ups; `Waker::from(Arc)` wakes it.
#[derive(Debug, Default)]
pub struct CountedTask(AtomicUsize);

impl CountedTask {
    /// How often it was woken.
    pub fn woken(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// How often it was woken since the last call.
    pub fn take_woken(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

impl Wake for CountedTask {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

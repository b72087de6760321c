//! A one-way latch between a test and a scripted peer; carries no data.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::wait::WAIT_LIMIT;

/// A latch that is set once and stays set. Clones share the latch.
#[derive(Clone, Debug, Default)]
pub struct Signal(Arc<(Mutex<bool>, Condvar)>);

impl Signal {
    /// A latch that is not set.
    pub fn new() -> Signal {
        Signal::default()
    }

    /// Sets the latch and wakes the waiting threads.
    pub fn set(&self) {
        let (flag, changed) = &*self.0;
        *flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Whether the latch is set.
    pub fn is_set(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until the latch is set. Returns false after [`WAIT_LIMIT`], so that the thread of a peer ends
    /// even if its test panicked before setting the latch.
    pub fn wait(&self) -> bool {
        let (flag, changed) = &*self.0;
        let guard = flag.lock().unwrap_or_else(PoisonError::into_inner);
        let (guard, _) = changed
            .wait_timeout_while(guard, WAIT_LIMIT, |set| !*set)
            .unwrap_or_else(PoisonError::into_inner);
        *guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn wakes_the_waiter_and_stays_set() {
        let signal = Signal::new();
        let waiter = thread::spawn({
            let signal = signal.clone();
            move || signal.wait()
        });
        signal.set();
        assert!(waiter.join().unwrap());
        assert!(signal.is_set() && signal.wait());
    }
}

//! How many of something are in progress, and a limit on it: requests at a node, at an upstream, of a route.
//! All workers count in one atomic; a refused entry leaves no trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct Gate {
    active: AtomicU32,
}

impl Gate {
    /// Enters if fewer than `most` have entered and not left. Sequentially consistent, because a
    /// [`WaitQueue`](super::wait_queue::WaitQueue) relies on the order of its own count and this one.
    #[inline]
    pub fn try_enter(&self, most: u32) -> bool {
        let enter = |active: u32| (active < most).then_some(active + 1);
        self.active.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enter).is_ok()
    }

    /// Enters without a limit.
    #[inline]
    pub fn enter(&self) {
        self.active.fetch_add(1, Ordering::SeqCst);
    }

    /// Leaves; each entry leaves once.
    #[inline]
    pub fn leave(&self) {
        self.active.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many have entered and not left.
    #[inline]
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::SeqCst)
    }
}

/// An entry that leaves when it is dropped.
#[derive(Debug)]
pub struct GateEntry(Arc<Gate>);

impl GateEntry {
    /// Enters `gate`, if fewer than `most` have.
    pub fn new(gate: &Arc<Gate>, most: u32) -> Option<GateEntry> {
        gate.try_enter(most).then(|| GateEntry(gate.clone()))
    }
}

impl Drop for GateEntry {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_admits_as_many_as_its_limit() {
        let gate = Arc::new(Gate::default());
        let held: Vec<GateEntry> = (0..3).filter_map(|_| GateEntry::new(&gate, 2)).collect();
        assert_eq!((held.len(), gate.active()), (2, 2));
        drop(held);
        assert_eq!(gate.active(), 0);
        assert!(GateEntry::new(&gate, 0).is_none());
    }

    #[test]
    fn many_threads_never_exceed_the_limit() {
        let gate = Gate::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        if gate.try_enter(2) {
                            assert!(gate.active() <= 2);
                            gate.leave();
                        }
                    }
                });
            }
        });
        assert_eq!(gate.active(), 0);
    }
}

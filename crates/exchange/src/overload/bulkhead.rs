//! A bulkhead: at most so many requests of one route or one consumer are in flight at upstreams, so that the
//! others keep the rest of them. Its count outlives changes of the configuration.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::gate::{Gate, GateEntry};

/// The limit of one route or consumer.
#[derive(Clone, Debug)]
pub struct Bulkhead {
    gate: Arc<Gate>,
    /// How many requests may be in flight.
    pub max_requests: u32,
}

impl Bulkhead {
    /// Admits a request, until the entry is dropped; `None` if the limit is reached.
    #[inline]
    pub fn enter(&self) -> Option<GateEntry> {
        GateEntry::new(&self.gate, self.max_requests)
    }
}

/// The counts of all bulkheads, by the path of their object.
#[derive(Debug, Default)]
pub struct Bulkheads(HashMap<Box<str>, Weak<Gate>>);

impl Bulkheads {
    /// The bulkhead of the object with this path. It counts on from the form before, as long as that one is
    /// held.
    pub fn of(&mut self, path: &str, max_requests: u32) -> Bulkhead {
        let known = self.0.get(path).and_then(Weak::upgrade);
        let gate = known.unwrap_or_else(|| {
            // Those without a holder are removed whenever the table would have to grow.
            if self.0.len() == self.0.capacity() {
                self.0.retain(|_, gate| gate.strong_count() > 0);
            }
            let gate = Arc::<Gate>::default();
            self.0.insert(path.into(), Arc::downgrade(&gate));
            gate
        });
        Bulkhead { gate, max_requests }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulkhead_counts_on_after_a_change() {
        let mut all = Bulkheads::default();
        let before = all.of("/routes/1", 1);
        let held = before.enter();
        assert!(held.is_some() && before.enter().is_none());
        let after = all.of("/routes/1", 2);
        assert!(all.of("/routes/2", 1).enter().is_some(), "another route has its own");
        drop(before);
        let second = after.enter();
        assert!(second.is_some() && after.enter().is_none());
        assert_eq!(after.gate.active(), 2);
        drop((held, second));
        assert_eq!(after.gate.active(), 0);
    }
}

//! The copies that are under way on one worker, and their limits. It sends none.

use std::cell::Cell;
use std::rc::Rc;

/// Copies under way on a worker: a mirror that does not answer holds each for a minute.
const COPIES_MAX: usize = 256;
/// Bytes of their bodies.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// The copies of one worker.
#[derive(Default)]
pub(super) struct InFlight {
    copies: Cell<usize>,
    bytes: Cell<usize>,
}

/// The place of one copy, until it is dropped.
pub(super) struct Place {
    in_flight: Rc<InFlight>,
    bytes: usize,
}

impl InFlight {
    /// A place for a copy with a body of so many bytes; `None` if there is none left.
    pub(super) fn enter(self: &Rc<Self>, bytes: usize) -> Option<Place> {
        if self.copies.get() >= COPIES_MAX || self.bytes.get() + bytes > BYTES_MAX {
            return None;
        }
        self.copies.set(self.copies.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
        Some(Place { in_flight: self.clone(), bytes })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let InFlight { copies, bytes } = &*self.in_flight;
        copies.set(copies.get() - 1);
        bytes.set(bytes.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_their_bytes_are_limited() {
        let in_flight = Rc::new(InFlight::default());
        let places: Vec<Place> = (0..COPIES_MAX).map_while(|_| in_flight.enter(1)).collect();
        assert_eq!(places.len(), COPIES_MAX);
        assert!(in_flight.enter(0).is_none());
        drop(places);
        let half = in_flight.enter(BYTES_MAX / 2);
        assert!(half.is_some() && in_flight.enter(BYTES_MAX / 2 + 1).is_none());
        drop(half);
        assert!(in_flight.enter(BYTES_MAX).is_some());
    }
}

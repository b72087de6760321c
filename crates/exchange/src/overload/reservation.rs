//! Memory that was reserved for a state before it is allocated, and given back when the state is freed.

use std::sync::Arc;

use super::OverloadState;
use crate::failure::ExchangeFailure;

/// Reserved bytes, until they are dropped. A state that is freed before the next reading of the resident set
/// then takes no room from others.
#[derive(Debug)]
pub struct Reservation {
    shared: Arc<OverloadState>,
    bytes: usize,
    /// Bytes of `bytes` that the reading with this number does not show yet.
    unread_bytes: usize,
    reading: u32,
}

impl Reservation {
    /// Reserves `bytes`.
    ///
    /// # Errors
    /// `memory_limit`, when memory is too short for them.
    pub fn new(shared: &Arc<OverloadState>, bytes: usize) -> Result<Reservation, ExchangeFailure> {
        let mut reservation = Reservation { shared: shared.clone(), bytes: 0, unread_bytes: 0, reading: 0 };
        reservation.grow_to(bytes)?;
        Ok(reservation)
    }

    /// Reserves what is missing to `bytes`.
    ///
    /// # Errors
    /// `memory_limit`, when memory is too short for it; the reservation stays as it is.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), ExchangeFailure> {
        let missing_bytes = bytes.saturating_sub(self.bytes);
        if missing_bytes == 0 {
            return Ok(());
        }
        let reading = self.shared.memory.reading();
        self.shared.check_room(missing_bytes)?;
        if self.reading != reading {
            (self.reading, self.unread_bytes) = (reading, 0);
        }
        self.unread_bytes += missing_bytes;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.memory.give_back(self.unread_bytes, self.reading);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_reservation_gives_its_room_back() {
        let shared = Arc::new(OverloadState::default());
        let is_free = |bytes: usize| Reservation::new(&shared, bytes).is_ok();
        assert!(is_free(usize::MAX), "without a limit");
        shared.memory.update(60, 100);
        let mut held = Reservation::new(&shared, 20).unwrap();
        assert!(is_free(10) && is_free(10) && !is_free(11), "30 up to 90 %");
        held.grow_to(15).unwrap();
        held.grow_to(25).unwrap();
        assert!(held.grow_to(31).is_err() && is_free(5) && !is_free(6));
        drop(held);
        assert!(is_free(30) && !is_free(31));
    }

    #[test]
    fn reservation_before_a_reading_gives_nothing_back() {
        let shared = Arc::new(OverloadState::default());
        shared.memory.update(60, 100);
        let mut held = Reservation::new(&shared, 20).unwrap();
        shared.memory.update(80, 100);
        held.grow_to(22).unwrap();
        drop(held);
        assert!(Reservation::new(&shared, 11).is_err(), "10 up to 90 %");
        assert!(Reservation::new(&shared, 10).is_ok());
    }
}

//! The memory of a connection about streams without a slot, all of it bounded: which were reset, which
//! identifiers were skipped, priorities of streams that have not come. It does not know frames.

use std::collections::VecDeque;

use crate::{Limits, Priority};

/// The memory of a connection about streams that are gone or have not come.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Identifiers of streams that were reset, oldest first, with [`BY_US`].
    resets: VecDeque<u32>,
    /// Ranges of identifiers that the peer skipped, the latest ones: both ends are skipped identifiers.
    skipped: [(u32, u32); 2],
    early: Vec<(u32, Priority)>,
}

/// The state of a stream without a slot, after its identifier was used or passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// Both sides ended it, or it was reset long ago.
    Ended,
    /// The peer reset it.
    ResetByPeer,
    /// This side reset it; frames that were on their way may follow.
    ResetByUs,
    /// The peer never used it and opened a later one.
    Skipped,
}

impl Records {
    /// Remembers a stream that was reset.
    pub(super) fn reset(&mut self, id: u32, by_us: bool) {
        if self.resets.len() >= Limits::RESET_RECORDS {
            self.resets.pop_front();
        }
        self.resets.push_back(if by_us { id | BY_US } else { id });
    }

    /// Remembers the identifiers between the last stream and a new one.
    pub(super) fn opened(&mut self, last_id: u32, id: u32) {
        let first = if last_id == 0 { 1 } else { last_id + 2 };
        if first < id {
            self.skipped = [self.skipped[1], (first, id - 2)];
        }
    }

    /// The state of a stream without a slot, with an identifier not above the last.
    pub(super) fn state(&self, id: u32) -> Closed {
        // The latest entry counts: a stream may have been reset by both sides.
        match self.resets.iter().rev().find(|record| **record & !BY_US == id) {
            Some(record) if record & BY_US != 0 => Closed::ResetByUs,
            Some(_) => Closed::ResetByPeer,
            None if self.skipped.iter().any(|(first, last)| (*first..=*last).contains(&id)) && id != 0 => {
                Closed::Skipped
            }
            None => Closed::Ended,
        }
    }

    /// Keeps the priority of a stream that has not come; the oldest one is forgotten if there are too many.
    pub(super) fn keep_priority(&mut self, id: u32, priority: Priority) {
        self.early.retain(|(other, _)| *other != id);
        if self.early.len() >= Limits::EARLY_PRIORITIES {
            self.early.remove(0);
        }
        self.early.push((id, priority));
    }

    /// Takes the priority of a stream that has come.
    #[inline]
    pub(super) fn take_priority(&mut self, id: u32) -> Option<Priority> {
        if self.early.is_empty() {
            return None;
        }
        let place = self.early.iter().position(|(other, _)| *other == id);
        let priority = place.map(|place| self.early.remove(place).1);
        if self.early.is_empty() {
            self.early = Vec::new();
        }
        priority
    }

    /// Bytes of heap memory.
    pub(super) fn memory(&self) -> usize {
        self.resets.capacity() * size_of::<u32>() + self.early.capacity() * size_of::<(u32, Priority)>()
    }
}

const BY_US: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_streams_without_a_slot() {
        let mut records = Records::default();
        assert_eq!(records.state(1), Closed::Ended);
        records.opened(0, 5);
        records.opened(5, 7);
        records.opened(7, 11);
        for (id, state) in
            [(1, Closed::Skipped), (3, Closed::Skipped), (5, Closed::Ended), (9, Closed::Skipped)]
        {
            assert_eq!(records.state(id), state, "{id}");
        }
        records.reset(5, false);
        records.reset(7, true);
        assert_eq!((records.state(5), records.state(7)), (Closed::ResetByPeer, Closed::ResetByUs));
        records.reset(5, true);
        assert_eq!(records.state(5), Closed::ResetByUs);
        (0..Limits::RESET_RECORDS as u32).for_each(|id| records.reset(101 + 2 * id, true));
        assert_eq!(records.state(7), Closed::Ended, "the oldest is forgotten");
        assert!(records.memory() <= 2 * Limits::RESET_RECORDS * size_of::<u32>());
    }

    #[test]
    fn early_priorities_are_bounded() {
        let mut records = Records::default();
        let priority = Priority::parse(b"u=1");
        for id in 0..=Limits::EARLY_PRIORITIES as u32 {
            records.keep_priority(2 * id + 1, priority);
        }
        assert_eq!(records.take_priority(1), None, "the oldest is forgotten");
        records.keep_priority(3, Priority::parse(b"u=2"));
        assert_eq!(records.take_priority(3).unwrap().urgency, 2);
        (2..=Limits::EARLY_PRIORITIES as u32)
            .for_each(|id| assert!(records.take_priority(2 * id + 1).is_some()));
        assert_eq!(records.memory(), 0);
    }
}

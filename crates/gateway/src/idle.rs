//! Silent client connections, that is those without a request in flight, in the order in which they became
//! silent, so that the one that has been silent longest is found in constant time. It does not decide when a
//! connection has to close.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::observe::idle_counts::{IdleState, KINDS, age_ms};
use crate::observe::status::WorkerStatus;

/// The silent connections of one worker, each under the index of its timer: linked lists through one table,
/// so that a connection enters and leaves in constant time and without allocation once the table has its
/// size. 16 bytes for each connection.
pub(crate) struct IdleConnections {
    places: Vec<IdleEntry>,
    lists: [List; KINDS],
    status: Arc<WorkerStatus>,
}

/// No connection.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy)]
struct IdleEntry {
    previous: u32,
    next: u32,
    since_ms: u32,
    standing: IdleStatus,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IdleStatus {
    /// In no list: a request is in flight, or the entry is no client connection.
    Active,
    Silent(IdleState),
    /// The connection was told to close and has not ended.
    GivesWay,
}

const ACTIVE: IdleEntry = IdleEntry { previous: NONE, next: NONE, since_ms: 0, standing: IdleStatus::Active };

impl IdleConnections {
    /// An empty table; `status` shows its counts to other threads.
    pub(crate) fn new(status: Arc<WorkerStatus>) -> IdleConnections {
        // A worker that had this place before may have ended by a panic.
        status.idle.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        IdleConnections { places: Vec::new(), lists: [List { first: NONE, last: NONE }; KINDS], status }
    }

    /// Records that the connection at `index` is silent from `now_ms` on. A connection that was told to close
    /// stays told.
    pub(crate) fn enter(&mut self, index: u32, silence: IdleState, now_ms: u64) {
        if self.places.len() <= index as usize {
            self.places.resize(index as usize + 1, ACTIVE);
        }
        match self.places[index as usize].standing {
            IdleStatus::Active => {}
            IdleStatus::Silent(_) => self.unlink(index),
            IdleStatus::GivesWay => return,
        }
        let list = &mut self.lists[silence as usize];
        let last = std::mem::replace(&mut list.last, index);
        self.places[index as usize] = IdleEntry {
            previous: last,
            next: NONE,
            since_ms: now_ms as u32,
            standing: IdleStatus::Silent(silence),
        };
        match last {
            NONE => {
                list.first = index;
                self.status.idle.oldest_ms[silence as usize].store(now_ms as u32, Ordering::Relaxed);
            }
            last => self.places[last as usize].next = index,
        }
        self.count(silence, 1);
    }

    /// Records that the connection at `index` has a request in flight, or has ended. True if it had been told
    /// to close.
    pub(crate) fn leave(&mut self, index: u32) -> bool {
        let Some(place) = self.places.get_mut(index as usize) else { return false };
        match place.standing {
            IdleStatus::Active => false,
            IdleStatus::Silent(_) => {
                self.unlink(index);
                false
            }
            IdleStatus::GivesWay => {
                *place = ACTIVE;
                true
            }
        }
    }

    /// Tells the connection that has been silent longest in state `silence` to close, if its silence has
    /// lasted `least_ms`; returns its index.
    pub(crate) fn give_way(&mut self, silence: IdleState, least_ms: u32, now_ms: u64) -> Option<u32> {
        let first = self.lists[silence as usize].first;
        let place = self.places.get(first as usize)?;
        if age_ms(place.since_ms, now_ms) < least_ms {
            return None;
        }
        self.unlink(first);
        self.places[first as usize].standing = IdleStatus::GivesWay;
        Some(first)
    }

    /// Whether the connection at `index` was told to close.
    pub(crate) fn gives_way(&self, index: u32) -> bool {
        self.places.get(index as usize).is_some_and(|place| place.standing == IdleStatus::GivesWay)
    }

    fn unlink(&mut self, index: u32) {
        let IdleEntry { previous, next, standing, .. } =
            std::mem::replace(&mut self.places[index as usize], ACTIVE);
        let IdleStatus::Silent(silence) = standing else { return };
        let list = &mut self.lists[silence as usize];
        match next {
            NONE => list.last = previous,
            next => self.places[next as usize].previous = previous,
        }
        match previous {
            NONE => {
                list.first = next;
                if let Some(first) = self.places.get(next as usize) {
                    let oldest_ms = &self.status.idle.oldest_ms[silence as usize];
                    oldest_ms.store(first.since_ms, Ordering::Relaxed);
                }
            }
            previous => self.places[previous as usize].next = next,
        }
        self.count(silence, -1);
    }

    /// This thread is the only writer, so a load and a store suffice and cost less than an atomic addition.
    fn count(&self, silence: IdleState, change: i32) {
        let count = &self.status.idle.counts[silence as usize];
        count.store(count.load(Ordering::Relaxed).wrapping_add_signed(change), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn empty() -> (IdleConnections, Arc<WorkerStatus>) {
        let status: Arc<WorkerStatus> = Arc::default();
        (IdleConnections::new(status.clone()), status)
    }

    #[test]
    fn longest_silent_gives_way_first() {
        let (mut silent, status) = empty();
        for (index, now_ms) in [(4, 10), (1, 20), (7, 30)] {
            silent.enter(index, IdleState::Idle, now_ms);
        }
        silent.leave(4);
        silent.enter(4, IdleState::Idle, 40);
        assert_eq!(status.idle.oldest_age_ms(IdleState::Idle, 120), Some(100));
        assert_eq!(silent.give_way(IdleState::Idle, 101, 120), None, "not silent for long enough");
        let order = [0; 4].map(|least_ms| silent.give_way(IdleState::Idle, least_ms, 120));
        assert_eq!(order, [Some(1), Some(7), Some(4), None]);
        assert_eq!(status.idle.oldest_age_ms(IdleState::Idle, 120), None);
    }

    #[test]
    fn evicted_connection_stays_marked_until_it_ends() {
        let (mut silent, status) = empty();
        silent.enter(0, IdleState::Unspoken, 0);
        assert_eq!(silent.give_way(IdleState::Unspoken, 0, 0), Some(0));
        silent.enter(0, IdleState::Unspoken, 1);
        assert!(silent.gives_way(0));
        assert_eq!(status.idle.count(IdleState::Unspoken), 0);
        assert!(silent.leave(0), "it had been told");
        assert!(!silent.leave(0) && !silent.gives_way(0));
        assert!(!silent.leave(9), "never seen");
    }

    #[test]
    fn age_is_right_where_32_bits_overflow() {
        let check = |since_ms: u64, now_ms: u64, expected: u32| {
            assert_eq!(age_ms(since_ms as u32, now_ms), expected, "{since_ms} {now_ms}");
        };
        check(5, 105, 100);
        check((1 << 32) - 50, (1 << 32) + 50, 100);
        check(105, 100, 0);
    }

    #[test]
    fn new_worker_begins_with_no_silent_connection() {
        let (mut silent, status) = empty();
        silent.enter(0, IdleState::Head, 0);
        drop(silent);
        let silent = IdleConnections::new(status.clone());
        assert_eq!(status.idle.count(IdleState::Head), 0);
        assert!(!silent.gives_way(0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Enter(u32, usize),
        Leave(u32),
        GiveWay(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u32..6, 0..KINDS).prop_map(|(index, kind)| Step::Enter(index, kind)),
            (0u32..6).prop_map(Step::Leave),
            (0..KINDS).prop_map(Step::GiveWay),
        ]
    }

    proptest! {
        /// The lists agree with plain vectors.
        #[test]
        fn lists_agree_with_a_plain_model(steps in prop::collection::vec(step(), 0..80)) {
            let (mut silent, status) = empty();
            let mut model: [Vec<(u32, u64)>; KINDS] = Default::default();
            let mut evicted: Vec<u32> = Vec::new();
            for (now_ms, step) in steps.into_iter().enumerate() {
                let now_ms = now_ms as u64;
                match step {
                    Step::Enter(index, kind) => {
                        silent.enter(index, IdleState::ALL[kind], now_ms);
                        if !evicted.contains(&index) {
                            model.iter_mut().for_each(|list| list.retain(|(other, _)| *other != index));
                            model[kind].push((index, now_ms));
                        }
                    }
                    Step::Leave(index) => {
                        let was_evicted = evicted.contains(&index);
                        prop_assert_eq!(silent.leave(index), was_evicted);
                        evicted.retain(|other| *other != index);
                        model.iter_mut().for_each(|list| list.retain(|(other, _)| *other != index));
                    }
                    Step::GiveWay(kind) => {
                        let first = (!model[kind].is_empty()).then(|| model[kind].remove(0).0);
                        prop_assert_eq!(silent.give_way(IdleState::ALL[kind], 0, now_ms), first);
                        evicted.extend(first);
                    }
                }
                for (kind, list) in model.iter().enumerate() {
                    let silence = IdleState::ALL[kind];
                    prop_assert_eq!(status.idle.count(silence) as usize, list.len());
                    let age_ms = list.first().map(|(_, since_ms)| (now_ms - since_ms) as u32);
                    prop_assert_eq!(status.idle.oldest_age_ms(silence, now_ms), age_ms);
                }
            }
        }
    }
}

//! Coarse timers of one worker: time is handed in, expired wakers are handed out. They do not know a clock.
//!
//! A connection moves its deadline at every read and write and nearly never lets it expire. So a later
//! deadline is only stored; the wheel's entry stays where it is and moves when its slot comes up (lazy
//! re-arm). Only a deadline before the scheduled one touches the wheel.

mod wheel;

use std::task::Waker;

use wheel::{Item, Wheel};

/// The name of a registered timer; of no effect once it is released, even if its slot is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

/// The timers of one worker. All times are milliseconds of one monotonic clock.
#[derive(Debug)]
pub struct Timers {
    entries: Vec<Entry>,
    free: Vec<u32>,
    wheel: Wheel,
    due: Vec<Item>,
}

#[derive(Debug)]
struct Entry {
    generation: u32,
    /// Counts schedulings, so that the wheel's older items of this slot are recognised as stale.
    ticket: u32,
    /// The tick the deadline falls in, or [`NEVER`].
    deadline: u64,
    /// In milliseconds; no deadline lies behind it.
    bound_ms: u64,
    /// The tick of the slot's one valid item in the wheel, or [`NEVER`]. It outlives a release: the next
    /// timer in this slot inherits it instead of adding another.
    scheduled: u64,
    expired: bool,
    waker: Option<Waker>,
}

/// Timers that are commonly due in one tick: room for them is taken at the start, so that the first expiry of
/// a worker that is warm allocates nothing.
const DUE_CAPACITY: usize = 16;

impl TimerId {
    /// The timer's place in its table, which another timer takes over once this one is released.
    pub fn index(self) -> u32 {
        self.index
    }
}

impl Timers {
    /// No timers yet; the time is `now_ms`.
    pub fn new(now_ms: u64) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            wheel: Wheel::new(now_ms / TICK_MS),
            due: Vec::with_capacity(DUE_CAPACITY),
        }
    }

    /// A new timer without a deadline.
    pub fn register(&mut self) -> TimerId {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 connections");
            self.entries.push(Entry::new());
            index
        });
        TimerId { index, generation: self.entries[index as usize].generation }
    }

    /// How many timers are registered.
    pub fn registered(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Ends a timer; its id is of no effect from now on.
    pub fn release(&mut self, id: TimerId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.generation = entry.generation.wrapping_add(1);
            entry.deadline = NEVER;
            entry.bound_ms = NEVER;
            entry.expired = false;
            entry.waker = None;
            self.free.push(id.index);
        }
    }

    /// Sets the deadline: the first [`Timers::advance`] a tick or less behind it hands out `waker`. Replaces
    /// an earlier deadline and forgets that it expired.
    pub fn set(&mut self, id: TimerId, deadline_ms: u64, waker: &Waker) {
        let Some(entry) = self.entry_mut(id) else { return };
        entry.deadline = deadline_ms.min(entry.bound_ms).div_ceil(TICK_MS);
        entry.expired = false;
        if !entry.waker.as_ref().is_some_and(|held| held.will_wake(waker)) {
            entry.waker = Some(waker.clone());
        }
        if entry.deadline < entry.scheduled {
            self.schedule(id.index);
        }
    }

    /// From now on no deadline is set behind `bound_ms`, however late it was meant to be; `None` lifts the
    /// bound. A deadline that is set already stays.
    pub fn bound(&mut self, id: TimerId, bound_ms: Option<u64>) {
        if let Some(entry) = self.entry_mut(id) {
            entry.bound_ms = bound_ms.unwrap_or(NEVER);
        }
    }

    /// The bound, if there is one.
    pub fn bound_of(&self, id: TimerId) -> Option<u64> {
        let entry = self.entries.get(id.index as usize).filter(|entry| entry.generation == id.generation)?;
        (entry.bound_ms != NEVER).then_some(entry.bound_ms)
    }

    /// Takes the deadline away; the timer stays registered.
    pub fn clear(&mut self, id: TimerId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.deadline = NEVER;
            entry.expired = false;
        }
    }

    /// True from the moment the deadline passed until the timer is set, cleared or released.
    pub fn expired(&self, id: TimerId) -> bool {
        self.entries
            .get(id.index as usize)
            .is_some_and(|entry| entry.generation == id.generation && entry.expired)
    }

    /// Moves the time on to `now_ms` and appends the wakers of the timers that expired to `wakers`; wake them
    /// when this borrow is over. Time that goes back is ignored.
    pub fn advance(&mut self, now_ms: u64, wakers: &mut Vec<Waker>) {
        let now = now_ms / TICK_MS;
        let mut due = std::mem::take(&mut self.due);
        while self.wheel.next_due(now, &mut due) {
            for item in due.drain(..) {
                self.fire(item, wakers);
            }
        }
        self.due = due;
    }

    /// Appends the wakers of all timers that were ever set, expired or not: for a thread that wants all its
    /// tasks to look around, as at its end.
    pub fn wake_all(&self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.entries.iter().filter_map(|entry| entry.waker.clone()));
    }

    /// The waker that the timer at `index` was last set with, to wake its task before the deadline. None if
    /// the timer was never set, or has expired, in which case the task was woken.
    pub fn waker_at(&self, index: u32) -> Option<Waker> {
        self.entries.get(index as usize)?.waker.clone()
    }

    /// True when the wheel holds anything: without that the worker need not tick.
    pub fn is_armed(&self) -> bool {
        !self.wheel.is_empty()
    }

    fn fire(&mut self, item: Item, wakers: &mut Vec<Waker>) {
        let now = self.wheel.now();
        let entry = &mut self.entries[item.index as usize];
        if entry.ticket != item.ticket {
            return;
        }
        entry.scheduled = NEVER;
        if entry.deadline == NEVER {
            return;
        }
        if entry.deadline > now {
            self.schedule(item.index);
            return;
        }
        entry.deadline = NEVER;
        entry.expired = true;
        wakers.extend(entry.waker.take());
    }

    fn schedule(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.ticket = entry.ticket.wrapping_add(1);
        entry.scheduled = entry.deadline;
        self.wheel.insert(Item { tick: entry.deadline, index, ticket: entry.ticket });
    }

    fn entry_mut(&mut self, id: TimerId) -> Option<&mut Entry> {
        self.entries.get_mut(id.index as usize).filter(|entry| entry.generation == id.generation)
    }
}

impl Entry {
    fn new() -> Self {
        Self {
            generation: 0,
            ticket: 0,
            deadline: NEVER,
            bound_ms: NEVER,
            scheduled: NEVER,
            expired: false,
            waker: None,
        }
    }
}

/// The tick: timeouts are seconds, so 16 ms are precise enough and few.
pub const TICK_MS: u64 = 16;
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn fired(timers: &mut Timers, now_ms: u64) -> usize {
        let mut wakers = Vec::new();
        timers.advance(now_ms, &mut wakers);
        wakers.len()
    }

    #[test]
    fn a_deadline_expires_within_a_tick_and_once() {
        for deadline in [1u64, 16, 17, 999, 1024, 65_536, 65_537, 5_000_000, 400_000_000, 3_000_000_000] {
            let start = 12_345;
            let mut timers = Timers::new(start);
            let id = timers.register();
            timers.set(id, start + deadline, Waker::noop());
            assert_eq!(
                (fired(&mut timers, start + deadline - 1), timers.expired(id)),
                (0, false),
                "{deadline}"
            );
            assert_eq!(
                (fired(&mut timers, start + deadline + TICK_MS), timers.expired(id)),
                (1, true),
                "{deadline}"
            );
            assert_eq!(fired(&mut timers, start + 2 * deadline + 100), 0);
            assert!(!timers.is_armed());
        }
    }

    #[test]
    fn a_later_deadline_leaves_the_wheel_alone() {
        let mut timers = Timers::new(0);
        let id = timers.register();
        for now in 0..1000 {
            timers.set(id, now + 10_000, Waker::noop());
        }
        assert_eq!(timers.wheel.len(), 1);
        assert_eq!(fired(&mut timers, 10_999 - 1), 0);
        assert_eq!(fired(&mut timers, 10_999 + TICK_MS), 1);
    }

    #[test]
    fn no_deadline_lies_behind_the_bound() {
        let mut timers = Timers::new(0);
        let id = timers.register();
        timers.bound(id, Some(200));
        timers.set(id, 100, Waker::noop());
        assert_eq!(fired(&mut timers, 100 + TICK_MS), 1, "an earlier one stays what it is");
        timers.set(id, 10_000, Waker::noop());
        assert_eq!((fired(&mut timers, 199), fired(&mut timers, 200 + TICK_MS)), (0, 1));
        assert_eq!(timers.bound_of(id), Some(200));
        // Behind the bound every deadline is due at once.
        timers.set(id, 10_000, Waker::noop());
        assert_eq!(fired(&mut timers, 300), 1);
        timers.release(id);
        let next = timers.register();
        assert_eq!(timers.bound_of(next), None, "the next timer in this slot is free");
        timers.bound(next, Some(400));
        timers.bound(next, None);
        timers.set(next, 1_000, Waker::noop());
        assert_eq!((fired(&mut timers, 900), fired(&mut timers, 1_000 + TICK_MS)), (0, 1));
    }

    #[test]
    fn released_timer_never_fires_and_slot_is_reusable() {
        let mut timers = Timers::new(0);
        let old = timers.register();
        timers.set(old, 100, Waker::noop());
        timers.release(old);
        let new = timers.register();
        assert_ne!(old, new);
        timers.set(old, 50, Waker::noop());
        timers.clear(old);
        timers.release(old);
        timers.set(new, 500, Waker::noop());
        assert_eq!((fired(&mut timers, 400), timers.expired(new), timers.expired(old)), (0, false, false));
        assert_eq!((fired(&mut timers, 516), timers.expired(new)), (1, true));
        timers.clear(new);
        assert!(!timers.expired(new));
    }

    #[test]
    fn the_latest_waker_is_woken() {
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut timers = Timers::new(0);
        let id = timers.register();
        timers.set(id, 10, &Waker::from(Arc::clone(&first)));
        timers.set(id, 10, &Waker::from(Arc::clone(&second)));
        let mut wakers = Vec::new();
        timers.advance(1000, &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn waker_is_at_hand_until_expiry_or_release() {
        let mut timers = Timers::new(0);
        let id = timers.register();
        assert!(timers.waker_at(id.index()).is_none(), "never set");
        timers.set(id, 100, Waker::noop());
        timers.clear(id);
        assert!(timers.waker_at(id.index()).is_some());
        timers.set(id, 100, Waker::noop());
        assert_eq!(fired(&mut timers, 100 + TICK_MS), 1);
        assert!(timers.waker_at(id.index()).is_none(), "expired");
        timers.set(id, 1_000, Waker::noop());
        timers.release(id);
        assert!(timers.waker_at(id.index()).is_none(), "released");
        assert!(timers.waker_at(7).is_none(), "no such timer");
    }

    #[derive(Debug, Clone)]
    enum Edit {
        Set(usize, u64),
        Clear(usize),
        Renew(usize),
        Advance(u64),
    }

    fn edit() -> impl Strategy<Value = Edit> {
        let delay = prop_oneof![0u64..200, 0u64..100_000, 0u64..800_000_000];
        let step = prop_oneof![0u64..50, 0u64..5_000, 0u64..400_000_000];
        prop_oneof![
            5 => (0usize..8, delay).prop_map(|(timer, delay)| Edit::Set(timer, delay)),
            1 => (0usize..8).prop_map(Edit::Clear),
            1 => (0usize..8).prop_map(Edit::Renew),
            4 => step.prop_map(Edit::Advance),
        ]
    }

    proptest! {
        /// The twin keeps deadlines in a map and looks at all of them each time.
        #[test]
        fn behaves_like_a_naive_twin(start in 0u64..1_000_000_000, edits in prop::collection::vec(edit(), 1..120)) {
            let mut timers = Timers::new(start);
            let mut ids: Vec<TimerId> = (0..8).map(|_| timers.register()).collect();
            let mut twin: BTreeMap<usize, u64> = BTreeMap::new();
            let mut now = start;
            for edit in edits {
                match edit {
                    Edit::Set(timer, delay) => {
                        timers.set(ids[timer], now + delay, Waker::noop());
                        // A deadline in a tick that has passed comes with the next one.
                        twin.insert(timer, (now + delay).div_ceil(TICK_MS).max(now / TICK_MS + 1));
                    }
                    Edit::Clear(timer) => {
                        timers.clear(ids[timer]);
                        twin.remove(&timer);
                    }
                    Edit::Renew(timer) => {
                        timers.release(ids[timer]);
                        ids[timer] = timers.register();
                        twin.remove(&timer);
                    }
                    Edit::Advance(step) => {
                        now += step;
                        let due: Vec<usize> =
                            twin.iter().filter(|(_, tick)| **tick <= now / TICK_MS).map(|(timer, _)| *timer).collect();
                        prop_assert_eq!(fired(&mut timers, now), due.len());
                        for timer in due {
                            twin.remove(&timer);
                            prop_assert!(timers.expired(ids[timer]));
                        }
                    }
                }
            }
            prop_assert!(twin.keys().all(|timer| !timers.expired(ids[*timer])));
        }
    }
}

//! Coarse timers of one worker: time is handed in, expired wakers are handed out. They refuse to know a clock.
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
    /// The tick of the slot's one valid item in the wheel, or [`NEVER`]. It outlives a release: the next
    /// timer in this slot inherits it instead of adding another.
    scheduled: u64,
    expired: bool,
    waker: Option<Waker>,
}

impl Timers {
    /// No timers yet; the time is `now_ms`.
    pub fn new(now_ms: u64) -> Self {
        Self { entries: Vec::new(), free: Vec::new(), wheel: Wheel::new(now_ms / TICK_MS), due: Vec::new() }
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

    /// Ends a timer; its id is of no effect from now on.
    pub fn release(&mut self, id: TimerId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.generation = entry.generation.wrapping_add(1);
            entry.deadline = NEVER;
            entry.expired = false;
            entry.waker = None;
            self.free.push(id.index);
        }
    }

    /// Sets the deadline: the first [`Timers::advance`] a tick or less behind it hands out `waker`. Replaces
    /// an earlier deadline and forgets that it expired.
    pub fn set(&mut self, id: TimerId, deadline_ms: u64, waker: &Waker) {
        let Some(entry) = self.entry_mut(id) else { return };
        entry.deadline = deadline_ms.div_ceil(TICK_MS);
        entry.expired = false;
        if !entry.waker.as_ref().is_some_and(|held| held.will_wake(waker)) {
            entry.waker = Some(waker.clone());
        }
        if entry.deadline < entry.scheduled {
            self.schedule(id.index);
        }
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
        Self { generation: 0, ticket: 0, deadline: NEVER, scheduled: NEVER, expired: false, waker: None }
    }
}

/// The tick: timeouts are seconds, so 16 ms are precise enough and few.
pub const TICK_MS: u64 = 16;
const NEVER: u64 = u64::MAX;

//! The hierarchical wheel under the timers: items by tick, handed out when their tick comes.
//! It refuses to know what an item is for and whether it is still wanted.

/// Something that waits for a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) tick: u64,
    pub(super) index: u32,
    pub(super) ticket: u32,
}

/// Levels of 64 slots each; a slot of a level spans all 64 slots of the level below.
#[derive(Debug)]
pub(super) struct Wheel {
    now: u64,
    count: usize,
    levels: [Level; LEVELS],
}

#[derive(Debug)]
struct Level {
    /// A bit for each slot that holds items.
    occupied: u64,
    slots: [Vec<Item>; SLOTS as usize],
}

impl Wheel {
    pub(super) fn new(now: u64) -> Self {
        let level = || Level { occupied: 0, slots: [const { Vec::new() }; SLOTS as usize] };
        Self { now, count: 0, levels: std::array::from_fn(|_| level()) }
    }

    /// The last tick that was handed out.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds an item; one whose tick has passed comes with the next tick.
    pub(super) fn insert(&mut self, item: Item) {
        self.count += 1;
        self.place(item, self.now + 1);
    }

    /// Goes on to the next tick up to `until` that has items and moves them to `due`; false when there is none
    /// and the time is `until`.
    pub(super) fn next_due(&mut self, until: u64, due: &mut Vec<Item>) -> bool {
        while self.now < until {
            if self.count == 0 {
                self.now = until;
                return false;
            }
            self.now = self.next_stop().min(until);
            self.cascade();
            let slot = slot_of(self.now, 0);
            if self.levels[0].occupied & 1 << slot != 0 {
                self.levels[0].occupied &= !(1 << slot);
                due.append(&mut self.levels[0].slots[slot]);
                self.count -= due.len();
                return true;
            }
        }
        false
    }

    /// The next tick that has items on the lowest level, or where a slot of a level that has items begins.
    fn next_stop(&self) -> u64 {
        let next = self.now + 1;
        let Some(level) = self.levels.iter().position(|level| level.occupied != 0) else { return next };
        if level > 0 {
            let slot_ticks = 1 << (SLOT_BITS * level as u32);
            return (self.now / slot_ticks + 1) * slot_ticks;
        }
        let ahead = self.levels[0].occupied & (u64::MAX << slot_of(next, 0));
        let turn = next & !(SLOTS - 1);
        match (ahead, slot_of(next, 0)) {
            // A turn begins here: the higher levels have to be spread first.
            (_, 0) => next,
            (0, _) => turn + SLOTS,
            (ahead, _) => turn + u64::from(ahead.trailing_zeros()),
        }
    }

    /// Where a level's turn begins, spreads the slot above it over the level.
    fn cascade(&mut self) {
        let mut level = 1;
        while level < LEVELS && slot_of(self.now, level - 1) == 0 {
            level += 1;
        }
        // From above, so that an item that falls two levels is met again on its way.
        for level in (1..level).rev() {
            let slot = slot_of(self.now, level);
            self.levels[level].occupied &= !(1 << slot);
            let mut items = std::mem::take(&mut self.levels[level].slots[slot]);
            for item in items.drain(..) {
                self.place(item, self.now);
            }
            // The slot keeps its memory, unless an item came back to it: one beyond the horizon.
            if self.levels[level].slots[slot].is_empty() {
                self.levels[level].slots[slot] = items;
            }
        }
    }

    /// Puts an item in the lowest level whose current turn reaches its tick, not before `earliest`.
    fn place(&mut self, item: Item, earliest: u64) {
        let tick = item.tick.max(earliest).min(self.now + HORIZON);
        let level = level_of(self.now, tick);
        let slot = slot_of(tick, level);
        self.levels[level].occupied |= 1 << slot;
        self.levels[level].slots[slot].push(item);
    }
}

/// The highest group of six bits in which two ticks differ.
fn level_of(now: u64, tick: u64) -> usize {
    let differing = (now ^ tick) | (SLOTS - 1);
    ((u64::BITS - 1 - differing.leading_zeros()) / SLOT_BITS).min(LEVELS as u32 - 1) as usize
}

fn slot_of(tick: u64, level: usize) -> usize {
    (tick >> (SLOT_BITS * level as u32) & (SLOTS - 1)) as usize
}

/// Slots of a level: one word of bits says which hold items.
const SLOTS: u64 = 64;
const SLOT_BITS: u32 = SLOTS.trailing_zeros();
/// With ticks of 16 ms the levels span 1 s, 65 s, 70 min and 74 h.
const LEVELS: usize = 4;
/// What lies farther away waits here and is placed again when the slot comes up.
const HORIZON: u64 = (1 << (SLOT_BITS * LEVELS as u32)) - (1 << (SLOT_BITS * (LEVELS as u32 - 1)));

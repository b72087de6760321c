//! The hierarchical wheel under the timers: items by tick, handed out when their tick comes.
//! It does not know what an item is for and whether it is still wanted.

/// Something that waits for a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) tick: u64,
    pub(super) index: u32,
    pub(super) ticket: u32,
}

/// Levels of 64 slots each; a slot of a level spans all 64 slots of the level below.
///
/// A slot is a list through the nodes, which all slots share: a slot with memory of its own would allocate
/// whenever time reaches one that was never used, for hours after the start.
#[derive(Debug)]
pub(super) struct Wheel {
    now: u64,
    count: usize,
    levels: [Level; LEVELS],
    nodes: Vec<Node>,
    /// The first of the nodes that hold nothing.
    free: u32,
}

#[derive(Debug)]
struct Level {
    /// A bit for each slot that holds items.
    occupied: u64,
    /// The first node of each slot.
    slots: [u32; SLOTS as usize],
}

#[derive(Debug)]
struct Node {
    item: Item,
    /// The next one of the same slot, or of the free ones.
    next: u32,
}

impl Wheel {
    pub(super) fn new(now: u64) -> Self {
        let levels = std::array::from_fn(|_| Level { occupied: 0, slots: [NONE; SLOTS as usize] });
        Self { now, count: 0, levels, nodes: Vec::with_capacity(NODES_AT_FIRST), free: NONE }
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

    /// Adds an item; if its tick has passed, it comes with the next tick.
    pub(super) fn insert(&mut self, item: Item) {
        self.count += 1;
        let node = self.free;
        let node = if let Some(unused) = self.nodes.get_mut(node as usize) {
            unused.item = item;
            self.free = unused.next;
            node
        } else {
            self.nodes.push(Node { item, next: NONE });
            u32::try_from(self.nodes.len() - 1).expect("a few for each connection")
        };
        self.place(node, self.now + 1);
    }

    /// Goes on to the next tick up to `until` that has items and moves them to `due`; false when there is
    /// none and the time is `until`.
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
                let mut node = self.empty(0, slot);
                while node != NONE {
                    let taken = &mut self.nodes[node as usize];
                    due.push(taken.item);
                    let next = std::mem::replace(&mut taken.next, self.free);
                    self.free = node;
                    self.count -= 1;
                    node = next;
                }
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
            let mut node = self.empty(level, slot_of(self.now, level));
            while node != NONE {
                let next = self.nodes[node as usize].next;
                self.place(node, self.now);
                node = next;
            }
        }
    }

    /// Empties a slot; its nodes hang on the one that is returned.
    fn empty(&mut self, level: usize, slot: usize) -> u32 {
        self.levels[level].occupied &= !(1 << slot);
        std::mem::replace(&mut self.levels[level].slots[slot], NONE)
    }

    /// Puts a node in the lowest level with a current turn that reaches its item's tick, not before
    /// `earliest`.
    fn place(&mut self, node: u32, earliest: u64) {
        let placed = &mut self.nodes[node as usize];
        let tick = placed.item.tick.max(earliest).min(self.now + HORIZON);
        let level = level_of(self.now, tick);
        let slot = slot_of(tick, level);
        placed.next = std::mem::replace(&mut self.levels[level].slots[slot], node);
        self.levels[level].occupied |= 1 << slot;
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

/// No node.
const NONE: u32 = u32::MAX;
/// Enough for a worker of few connections; it doubles as they become more.
const NODES_AT_FIRST: usize = 64;
/// Slots of a level: one word of bits says which hold items.
const SLOTS: u64 = 64;
const SLOT_BITS: u32 = SLOTS.trailing_zeros();
/// With ticks of 16 ms the levels span 1 s, 65 s, 70 min and 74 h.
const LEVELS: usize = 4;
/// Items that lie farther away wait here and are placed again when the slot comes up.
const HORIZON: u64 = (1 << (SLOT_BITS * LEVELS as u32)) - (1 << (SLOT_BITS * (LEVELS as u32 - 1)));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_time_reaches_first_needs_no_memory() {
        let mut wheel = Wheel::new(0);
        let mut due = Vec::with_capacity(1);
        // Far enough that slots of the third level are used.
        for turn in 0..40_000 {
            wheel.insert(Item { tick: wheel.now() + 1 + turn % 5_000, index: 0, ticket: 0 });
            while !wheel.is_empty() {
                wheel.next_due(u64::MAX, &mut due);
            }
            assert_eq!(due.drain(..).count(), 1);
        }
        assert_eq!((wheel.nodes.len(), wheel.nodes.capacity()), (1, NODES_AT_FIRST));
    }
}

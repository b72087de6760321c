//! How often the same thing is said: at most one line per key and interval, with the number of events since
//! the line before. The table is bounded. It says nothing itself and reads no clock.

use std::hash::Hash;

use crate::hash::FastMap;

/// See the module. `K` tells the events apart; `V` is what a line says about one event beyond its number.
#[derive(Debug)]
pub struct Throttle<K, V> {
    interval_ms: u64,
    capacity: usize,
    entries: FastMap<K, Entry<V>>,
    /// Events with keys for which the table had no capacity.
    others: Option<Entry<V>>,
}

#[derive(Debug)]
struct Entry<V> {
    /// When the next line may be written.
    next_ms: u64,
    /// Events since the last line.
    untold: u64,
    /// The first of them.
    about: Option<V>,
}

/// A line that may be written now.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<V> {
    /// One of the events: the one that was noted just now, else the first of those that were held back.
    pub about: V,
    /// How many events there were since the line before, this one included.
    pub count: u64,
    /// Whether the count is that of several keys, because the table was full.
    pub is_of_several: bool,
}

impl<K: Clone + Eq + Hash, V> Throttle<K, V> {
    /// Allows the first line of each key at once, then one every `interval_ms` milliseconds. Keys beyond
    /// `capacity` share one entry.
    #[must_use]
    pub fn new(interval_ms: u64, capacity: usize) -> Self {
        Self { interval_ms, capacity, entries: FastMap::default(), others: None }
    }

    /// Notes an event. Gives the line if it is time for one; otherwise the event is counted for the next
    /// line.
    pub fn note(&mut self, key: &K, now_ms: u64, about: impl FnOnce() -> V) -> Option<Line<V>> {
        let is_of_several = !self.entries.contains_key(key) && self.entries.len() >= self.capacity;
        let entry = if is_of_several {
            self.others.get_or_insert_with(Entry::new)
        } else {
            self.entries.entry(key.clone()).or_insert_with(Entry::new)
        };
        if now_ms < entry.next_ms {
            entry.untold += 1;
            entry.about.get_or_insert_with(about);
            return None;
        }
        let count = entry.untold + 1;
        *entry = Entry { next_ms: now_ms.saturating_add(self.interval_ms), untold: 0, about: None };
        Some(Line { about: about(), count, is_of_several })
    }

    /// The lines of events that were held back for an interval. Keys without events for an interval are
    /// forgotten. To be called now and then, so that the last events of a burst are told of as well.
    pub fn due(&mut self, now_ms: u64) -> Vec<Line<V>> {
        let next_ms = now_ms.saturating_add(self.interval_ms);
        let mut lines = Vec::new();
        let mut keep = |entry: &mut Entry<V>, is_of_several: bool| {
            if now_ms < entry.next_ms {
                return true;
            }
            let Some(about) = entry.about.take() else { return false };
            lines.push(Line { about, count: std::mem::take(&mut entry.untold), is_of_several });
            entry.next_ms = next_ms;
            true
        };
        self.entries.retain(|_, entry| keep(entry, false));
        if self.others.as_mut().is_some_and(|others| !keep(others, true)) {
            self.others = None;
        }
        lines
    }

    /// Whether there is nothing to tell and nothing to forget, so that [`Throttle::due`] need not be called.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.others.is_none()
    }
}

impl<V> Entry<V> {
    fn new() -> Self {
        Self { next_ms: 0, untold: 0, about: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL_MS: u64 = 10_000;

    fn line(about: u64, count: u64, is_of_several: bool) -> Line<u64> {
        Line { about, count, is_of_several }
    }

    #[test]
    fn one_line_per_key_and_interval() {
        let mut throttle = Throttle::new(INTERVAL_MS, 8);
        let mut note = |key: &'static str, now_ms: u64| throttle.note(&key, now_ms, || now_ms);
        assert_eq!(note("a", 1), Some(line(1, 1, false)));
        assert_eq!(note("a", 2), None);
        assert_eq!(note("b", 3), Some(line(3, 1, false)), "another key has an interval of its own");
        assert_eq!(note("a", 10_000), None);
        assert_eq!(note("a", 10_001), Some(line(10_001, 3, false)));
        assert_eq!(note("a", 10_002), None);
    }

    #[test]
    fn held_back_events_are_told_when_due() {
        let mut throttle = Throttle::new(INTERVAL_MS, 8);
        for now_ms in 0..5 {
            throttle.note(&"a", now_ms, || now_ms);
        }
        assert_eq!(throttle.due(9_999), []);
        assert_eq!(throttle.due(10_000), [line(1, 4, false)], "the first of those held back");
        assert_eq!(throttle.note(&"a", 10_001, || 10_001), None, "that line began an interval");
        assert_eq!(throttle.due(20_000), [line(10_001, 1, false)]);
        assert!(!throttle.is_empty());
        assert_eq!(throttle.due(30_000), []);
        assert!(throttle.is_empty(), "a key without events is forgotten");
    }

    #[test]
    fn keys_beyond_the_capacity_share_an_entry() {
        let mut throttle = Throttle::new(INTERVAL_MS, 2);
        assert_eq!(throttle.note(&1, 0, || 1), Some(line(1, 1, false)));
        assert_eq!(throttle.note(&2, 0, || 2), Some(line(2, 1, false)));
        assert_eq!(throttle.note(&3, 0, || 3), Some(line(3, 1, true)));
        for key in 4..1_000 {
            assert_eq!(throttle.note(&key, 1, || key), None);
        }
        assert_eq!(throttle.note(&2, 2, || 2), None, "a known key keeps its entry");
        let mut due = throttle.due(10_000);
        due.sort_unstable_by_key(|line| line.count);
        assert_eq!(due, [line(2, 1, false), line(4, 996, true)]);
        throttle.due(30_000);
        assert!(throttle.is_empty());
    }
}

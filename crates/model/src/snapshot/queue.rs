//! Which keys are still to be resolved, what is referred to first. Knows nothing of what resolving is.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec;

use crate::ObjectKey;

/// Keys in ascending order: those of the changes, each with what it is to become, and those that were woken.
/// A first load has 100,000 of the former, which are sorted once, and hardly any of the latter.
pub(super) struct ResolveQueue<T> {
    written: Peekable<vec::IntoIter<(ObjectKey, T)>>,
    woken: BTreeSet<ObjectKey>,
}

impl<T> ResolveQueue<T> {
    /// The keys of changes; of several with the same key the last counts.
    pub(super) fn new(mut written: Vec<(ObjectKey, T)>) -> ResolveQueue<T> {
        // The later one of two that are the same comes first, and the first is kept.
        written.reverse();
        written.sort_by(|left, right| left.0.cmp(&right.0));
        written.dedup_by(|later, kept| later.0 == kept.0);
        ResolveQueue { written: written.into_iter().peekable(), woken: BTreeSet::new() }
    }

    /// Adds a key that is to be looked at again; nothing happens when it waits already.
    pub(super) fn wake(&mut self, key: ObjectKey) {
        self.woken.insert(key);
    }

    /// The least key, with what it is to become if it is one of the changes.
    pub(super) fn next(&mut self) -> Option<(ObjectKey, Option<T>)> {
        let order = match (self.written.peek(), self.woken.first()) {
            (Some((written, _)), Some(woken)) => written.cmp(woken),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        if order == Ordering::Greater {
            return self.woken.pop_first().map(|key| (key, None));
        }
        if order == Ordering::Equal {
            self.woken.pop_first();
        }
        self.written.next().map(|(key, what)| (key, Some(what)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectKind;

    #[test]
    fn the_least_comes_first_and_the_last_word_counts() {
        let key = |id: &str| ObjectKey::new(ObjectKind::Route, id).unwrap();
        let mut queue = ResolveQueue::new(vec![(key("c"), 1), (key("a"), 2), (key("c"), 3), (key("b"), 4)]);
        queue.wake(key("b"));
        queue.wake(key("d"));
        assert_eq!(queue.next(), Some((key("a"), Some(2))));
        // Woken behind its turn: it comes again, at once.
        queue.wake(key("a"));
        assert_eq!(queue.next(), Some((key("a"), None)));
        assert_eq!(queue.next(), Some((key("b"), Some(4))));
        assert_eq!(queue.next(), Some((key("c"), Some(3))));
        assert_eq!(queue.next(), Some((key("d"), None)));
        assert_eq!(queue.next(), None);
    }
}

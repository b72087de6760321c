//! State of plugins: what belongs to one request (a small typed store, reused between requests) and what
//! outlives a configuration change (a registry keyed by identity). It knows no plugin.

use parking_lot::Mutex;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use stdx::pooled::PooledBox;

/// The per-request state of the plugin instances of one exchange.
#[derive(Default)]
pub struct RequestStates {
    entries: Vec<(u32, PooledBox<dyn Any>)>,
    /// The verdicts of filters, by instance.
    verdicts: RefCell<Vec<(u32, bool)>>,
}

impl RequestStates {
    /// The state of `instance`, made by `T::default` on first use. An instance uses one type only; a second
    /// one would be a second entry.
    pub fn of<T: Any + Default>(&mut self, instance: u32) -> &mut T {
        let found = self.entries.iter().position(|(owner, state)| *owner == instance && state.is::<T>());
        let index = found.unwrap_or_else(|| {
            self.entries.push((instance, PooledBox::new(T::default()).into_any()));
            self.entries.len() - 1
        });
        self.entries[index].1.downcast_mut::<T>().expect("the entry was found or made with this type")
    }

    /// The state of `instance`, if it made one.
    pub fn peek<T: Any>(&self, instance: u32) -> Option<&T> {
        self.entries
            .iter()
            .filter(|(owner, _)| *owner == instance)
            .find_map(|(_, state)| state.downcast_ref::<T>())
    }

    /// The verdict of the filter of `instance` in this request, if it was kept.
    pub fn verdict(&self, instance: u32) -> Option<bool> {
        self.verdicts.borrow().iter().find(|(owner, _)| *owner == instance).map(|(_, verdict)| *verdict)
    }

    /// Keeps the verdict of the filter of `instance`.
    pub fn keep_verdict(&self, instance: u32, verdict: bool) {
        self.verdicts.borrow_mut().push((instance, verdict));
    }

    /// Takes over the verdicts of filters of another request, and no state.
    pub fn copy_verdicts(&mut self, other: &RequestStates) {
        self.verdicts.get_mut().clone_from(&other.verdicts.borrow());
    }

    /// Forgets everything, keeping the room.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.verdicts.get_mut().clear();
    }
}

/// State that outlives the instance that made it: limit counters, breakers. An entry lives as long as an
/// instance holds it, so that a change of another object keeps it and the deletion of its owner frees it.
#[derive(Default)]
pub struct StateRegistry {
    entries: Mutex<HashMap<String, Weak<dyn Any + Send + Sync>>>,
    /// State that is found and not added to.
    below: Option<Arc<StateRegistry>>,
}

impl StateRegistry {
    /// A registry that finds the state of `below`, and leaves it as it is: new state is kept here alone.
    pub fn over(below: Arc<StateRegistry>) -> StateRegistry {
        StateRegistry { entries: Mutex::default(), below: Some(below) }
    }

    /// The state under `key`, made by `make` if no holder has one of this type.
    pub fn keep<T: Any + Send + Sync>(&self, key: &str, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(held) = self.below.as_ref().and_then(|below| below.held(key)) {
            return held;
        }
        self.keep_own(key, make)
    }

    /// As [`StateRegistry::keep`], for a table that instances enter themselves in: never that of a registry
    /// below, so that an instance that does not come into force takes no place in it.
    pub fn keep_own<T: Any + Send + Sync>(&self, key: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut entries = self.entries.lock();
        let held = entries.get(key).and_then(Weak::upgrade).and_then(|state| state.downcast::<T>().ok());
        held.unwrap_or_else(|| {
            // The table is swept when something new enters: it never holds more dead keys than were alive at
            // once.
            entries.retain(|_, state| state.strong_count() > 0);
            let state = Arc::new(make());
            let entry: Arc<dyn Any + Send + Sync> = state.clone();
            entries.insert(key.to_owned(), Arc::downgrade(&entry));
            state
        })
    }

    /// The state under `key`, if a holder has one of this type.
    pub fn held<T: Any + Send + Sync>(&self, key: &str) -> Option<Arc<T>> {
        let state = self.entries.lock().get(key).and_then(Weak::upgrade);
        let own = state.and_then(|state| state.downcast::<T>().ok());
        own.or_else(|| self.below.as_ref()?.held(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_state_belongs_to_the_instance() {
        let mut states = RequestStates::default();
        *states.of::<u32>(1) = 7;
        *states.of::<u32>(2) = 8;
        assert_eq!((*states.of::<u32>(1), *states.of::<u32>(2)), (7, 8));
        assert_eq!(states.peek::<u32>(3), None);
        states.clear();
        assert_eq!(*states.of::<u32>(1), 0);
    }

    #[test]
    fn kept_state_survives_rebuild_until_last_holder() {
        let registry = StateRegistry::default();
        let first = registry.keep("limit-count/routes/1", || 5_u64);
        let second = registry.keep("limit-count/routes/1", || 6_u64);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(registry.held::<u64>("limit-count/routes/1").as_deref(), Some(&5));
        drop((first, second));
        assert_eq!(registry.held::<u64>("limit-count/routes/1"), None);
        assert_eq!(*registry.keep("limit-count/routes/1", || 6_u64), 6);
    }

    #[test]
    fn registry_below_is_read_and_not_added_to() {
        let below = Arc::new(StateRegistry::default());
        let held = below.keep("a", || 1_u64);
        let above = StateRegistry::over(below.clone());
        assert!(Arc::ptr_eq(&held, &above.keep("a", || 2_u64)));
        let own = above.keep_own("a", || 3_u64);
        assert_eq!((*own, below.held::<u64>("a").as_deref()), (3, Some(&1)));
        let new = above.keep("b", || 4_u64);
        assert_eq!((above.held::<u64>("b").as_deref(), below.held::<u64>("b")), (Some(&4), None));
        drop(new);
    }
}
